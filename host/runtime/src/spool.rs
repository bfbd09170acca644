//! Where text goes that is too long for the model: the session's spool folder, created when it is first needed.

use pith_core::Spool;
use pith_os::SpoolDir;
use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// A session's spool folder, as `core` uses it.
pub(crate) struct LazySpool {
    path: PathBuf,
    open: Mutex<Option<SpoolDir>>,
}

impl LazySpool {
    /// Nothing is created yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, open: Mutex::new(None) }
    }

    /// One that is there already.
    pub fn opened(dir: SpoolDir) -> Self {
        Self { path: dir.path().to_owned(), open: Mutex::new(Some(dir)) }
    }

    fn dir(&self) -> Option<SpoolDir> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            *open = SpoolDir::new(self.path.clone()).ok();
        }
        open.clone()
    }
}

impl Spool for LazySpool {
    /// Guests have the folder at its own path, so the host's path is theirs.
    fn keep(&self, name: &str, text: &str) -> Option<String> {
        let mut file = self.dir()?.create(name).ok()?;
        file.append(text.as_bytes());
        if file.is_cut() {
            return None;
        }
        file.path().to_str().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_kept_whole_or_said_not_to_be() {
        let dir = tempfile::tempdir().unwrap();
        let spool = LazySpool::new(dir.path().join("spool/s"));
        assert!(!dir.path().join("spool").exists());
        let path = spool.keep("grep", "long").unwrap();
        assert!(path.contains("/spool/s/grep-"), "{path}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "long");
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(LazySpool::new(dir.path().join("file/s")).keep("grep", "long"), None);
    }
}
