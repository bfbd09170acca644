//! Where a session's long outputs lie: one private folder, one limit for all of its files.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What all files of one spool folder may hold together, in bytes. Beyond it nothing is written; the process goes on.
pub const SPOOL_LIMIT_BYTES: u64 = 64 * 1024 * 1024;

/// A prefix keeps at most this many bytes of what was asked for.
const PREFIX_BYTES: usize = 40;

/// A folder for spooled output. Clones share the limit.
#[derive(Debug, Clone)]
pub struct SpoolDir {
    path: PathBuf,
    used_bytes: Arc<AtomicU64>,
}

impl SpoolDir {
    /// Creates the folder, mode 0700, with what is missing above it; an existing one is made private and used with its limit fresh.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        let met = std::fs::symlink_metadata(&path)?;
        if !met.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "the spool folder is a link"));
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o700))?;
        Ok(Self { path, used_bytes: Arc::new(AtomicU64::new(0)) })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new empty file, mode 0600, under a name that nobody has and nobody can guess: `PREFIX-xxxxxxxx.log`. Of the prefix only
    /// letters, digits, `-` and `_` stay.
    pub fn create(&self, prefix: &str) -> io::Result<SpoolFile> {
        let kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let prefix: String = prefix.chars().filter(kept).take(PREFIX_BYTES).chain(['-']).collect();
        let mut builder = tempfile::Builder::new();
        let (file, path) = builder.prefix(&prefix).suffix(".log").rand_bytes(8).tempfile_in(&self.path)?.keep()?;
        Ok(SpoolFile { file, path, used_bytes: self.used_bytes.clone(), cut: false })
    }

    /// Removes the folder with all that is in it.
    pub fn remove(self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.path)
    }
}

/// One output. It stays when this is dropped.
#[derive(Debug)]
pub struct SpoolFile {
    file: File,
    path: PathBuf,
    used_bytes: Arc<AtomicU64>,
    cut: bool,
}

impl SpoolFile {
    /// The file's path on the host.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something was not written, for the limit or because the disk refused; the file then ends with a line that says so
    /// where that was possible.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Appends what the limit has room for. Never fails: a full disk must not end the command whose output this is. Goes to the
    /// page cache, so it is called from async code as it is.
    pub fn append(&mut self, bytes: &[u8]) {
        if self.cut || bytes.is_empty() {
            return;
        }
        let granted = self.take_room(bytes.len() as u64);
        let fits = usize::try_from(granted).unwrap_or(bytes.len()).min(bytes.len());
        let wrote = self.file.write_all(&bytes[..fits]);
        if wrote.is_err() || fits < bytes.len() {
            self.cut = true;
            // Best effort: the same fact is in `is_cut`.
            let _ = self.file.write_all(b"\n[spool limit reached: the rest was not kept]\n");
        }
    }

    fn take_room(&self, wanted: u64) -> u64 {
        let mut granted = 0;
        // The closure always answers Some, so the update cannot fail.
        let _ = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            granted = wanted.min(SPOOL_LIMIT_BYTES.saturating_sub(used));
            Some(used.saturating_add(granted))
        });
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn folder_and_files_are_private_and_names_are_unique() {
        let dir = tempfile::tempdir().unwrap();
        let spool = SpoolDir::new(dir.path().join("state/spool")).unwrap();
        assert_eq!(mode(spool.path()), 0o700);
        std::fs::set_permissions(spool.path(), Permissions::from_mode(0o755)).unwrap();
        let spool = SpoolDir::new(spool.path()).unwrap();
        assert_eq!(mode(spool.path()), 0o700);
        let mut one = spool.create("ba/../sh").unwrap();
        let two = spool.create("bash").unwrap();
        assert_ne!(one.path(), two.path());
        assert_eq!(one.path().parent(), Some(spool.path()));
        assert!(one.path().file_name().unwrap().to_str().unwrap().starts_with("bash-"));
        assert_eq!(mode(one.path()), 0o600);
        one.append(b"kept");
        let path = one.path().to_path_buf();
        drop(one);
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        spool.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_link_is_no_spool_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/tmp", dir.path().join("spool")).unwrap();
        assert!(SpoolDir::new(dir.path().join("spool")).is_err());
    }

    #[test]
    fn the_limit_is_shared_by_all_files() {
        let dir = tempfile::tempdir().unwrap();
        let spool = SpoolDir::new(dir.path().join("spool")).unwrap();
        let block = vec![b'x'; 1024 * 1024];
        let (mut one, mut two) = (spool.create("one").unwrap(), spool.create("two").unwrap());
        for _ in 0..40 {
            one.append(&block);
            two.append(&block);
        }
        assert!(one.is_cut() && two.is_cut());
        let total: u64 = [&one, &two].map(|file| std::fs::metadata(file.path()).unwrap().len()).iter().sum();
        let notes = 2 * "\n[spool limit reached: the rest was not kept]\n".len() as u64;
        assert_eq!(total, SPOOL_LIMIT_BYTES + notes);
    }
}
