//! Where text goes that is too long for the model: the session's spool folder, created when it is first needed, and held while the
//! session lives, so that no other process takes it for one that nobody needs.

use pith_core::Spool;
use pith_os::SpoolDir;
use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How often a folder is tried that somebody removes just now, and the pause between: one second in all.
const HOLD_TRIES: usize = 200;
const HOLD_PAUSE: Duration = Duration::from_millis(5);

/// A spool folder with this process's lock on it.
pub(crate) struct HeldSpool {
    pub dir: SpoolDir,
    /// None where the file system has no locks: then nobody removes anything there either.
    _lock: Option<File>,
}

impl HeldSpool {
    /// Creates the folder where it is missing. Blocks for at most a second, and that only while another process removes the same folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        for _ in 0..HOLD_TRIES {
            let dir = SpoolDir::new(path)?;
            let lock = match dir.open() {
                Ok(lock) => lock,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match lock.try_lock_shared() {
                Ok(()) if is_at(&lock, path)? => return Ok(Self { dir, _lock: Some(lock) }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => std::thread::sleep(HOLD_PAUSE),
                Err(TryLockError::Error(_)) => return Ok(Self { dir, _lock: None }),
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "another process removes it"))
    }
}

/// Opens a folder to lock it. Children can reach where it lies: a link or a FIFO in its place is neither followed nor waited for.
pub(crate) fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether this is still what lies at the path.
pub(crate) fn is_at(held: &File, path: &Path) -> io::Result<bool> {
    let held = held.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(met) => Ok((met.dev(), met.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A session's spool folder, as `core` uses it.
pub(crate) struct LazySpool {
    path: PathBuf,
    open: Mutex<Option<HeldSpool>>,
}

impl LazySpool {
    /// Nothing is created yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, open: Mutex::new(None) }
    }

    /// One that is there already.
    pub fn opened(held: HeldSpool) -> Self {
        Self { path: held.dir.path().to_owned(), open: Mutex::new(Some(held)) }
    }

    fn dir(&self) -> Option<SpoolDir> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            *open = HeldSpool::open(&self.path).ok();
        }
        open.as_ref().map(|held| held.dir.clone())
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

/// Keeps nothing: there is no folder that guests could read it from.
pub(crate) struct NoSpool;

impl Spool for NoSpool {
    fn keep(&self, _: &str, _: &str) -> Option<String> {
        None
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

    #[test]
    fn a_folder_is_held_while_it_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let held = HeldSpool::open(&path).unwrap();
        let other = File::open(&path).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        drop(held);
        other.try_lock().unwrap();
        // Who removes it takes its name away first: a new one is made, not the dying one used.
        std::fs::rename(&path, dir.path().join("gone")).unwrap();
        let held = HeldSpool::open(&path).unwrap();
        assert!(!is_at(&other, &path).unwrap() && held.dir.create("x").is_ok());
    }
}
