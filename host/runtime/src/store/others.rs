//! Stores that are no file of this session's: a file of others, and memory.

use super::{
    FOREIGN_FILE_LIMIT_BYTES,
    load::{LoadError, load},
};
use pith_core::{LoadedTree, Store, StoreError, StoreFault};
use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// A file of others: read only, without a lock.
pub(crate) struct SourceFile {
    path: PathBuf,
    file: File,
    sum: u64,
}

impl SourceFile {
    /// Opens and reads one that a session shall go on from.
    pub fn open(path: &Path) -> Result<(Self, LoadedTree), LoadError> {
        Self::open_as(path, FOREIGN_FILE_LIMIT_BYTES, "a session that it goes on from in a new file")
    }

    /// The same with a limit of its own, in bytes: a session that is only read takes little memory for each entry.
    pub fn open_within(path: &Path, limit: u64) -> Result<(Self, LoadedTree), LoadError> {
        Self::open_as(path, limit, "a session")
    }

    fn open_as(path: &Path, limit: u64, what: &'static str) -> Result<(Self, LoadedTree), LoadError> {
        let file = pith_os::open_regular(path)?;
        let loaded = load(&file, path, limit, what)?;
        Ok((Self { path: path.to_owned(), file, sum: loaded.checks.sum() }, loaded.tree))
    }

    /// A sum of what was read.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// What the system says of it now.
    pub fn met(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    fn failed(&self, kind: StoreFault, action: &'static str, source: io::Error) -> StoreError {
        StoreError { kind, file: self.path.display().to_string(), action, source }
    }
}

impl Store for SourceFile {
    fn append(&self, _: &[u8]) -> Result<(), StoreError> {
        Err(self.failed(StoreFault::Unwritable, "written", io::ErrorKind::ReadOnlyFilesystem.into()))
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|source| self.failed(StoreFault::Unreadable, "read", source))?;
        Ok(bytes)
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A session that is kept nowhere.
#[derive(Default)]
pub(crate) struct MemoryStore(Mutex<Vec<u8>>);

impl Store for MemoryStore {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(lines);
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        kept.get(start..start.saturating_add(length)).map(<[u8]>::to_vec).ok_or_else(|| StoreError {
            kind: StoreFault::Unreadable,
            file: "(in memory)".to_owned(),
            action: "read",
            source: io::ErrorKind::UnexpectedEof.into(),
        })
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
