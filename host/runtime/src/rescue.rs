//! The end of a session that could not be saved: one more try, then a copy where there is room.

use crate::{Pith, clock::new_session_id};
use pith_core::{ForkOrder, ForkPoint, Session, Store, StoreError, StoreFault, Unsaved};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// A session that is not in its file as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotSaved {
    /// Its file.
    pub file: PathBuf,
    /// What is missing there.
    pub unsaved: Unsaved,
    /// A copy of the whole session that was made elsewhere, or why there is none.
    pub rescue: Result<PathBuf, String>,
}

impl Pith {
    /// For the end: tries once more to write what waits. Where that fails, makes a copy of the session in the temporary folder, for this user
    /// alone. None: all is in the file. Blocks while it writes.
    pub fn rescue(&self) -> Option<NotSaved> {
        let store = self.store.as_ref()?;
        let session = self.session();
        session.unsaved()?;
        let saved = session.save();
        let unsaved = session.unsaved()?;
        let rescue = match saved {
            Ok(()) => return None,
            Err(_) => copy(session, &store.path(), &std::env::temp_dir()),
        };
        Some(NotSaved { file: store.path(), unsaved, rescue })
    }
}

/// A copy of all branches in a new file of the folder.
fn copy(session: &Session, file: &Path, folder: &Path) -> Result<PathBuf, String> {
    let id = new_session_id();
    let path = folder.join(format!("pith-rescue-{id}.jsonl"));
    let order = ForkOrder {
        at: ForkPoint::Whole,
        id,
        cwd: session.cwd().to_string_lossy().into_owned(),
        parent_session: Some(file.display().to_string()),
    };
    let copy = Copy::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match session.fork(&order, &copy).and_then(|_| Ok(copy.sync()?)) {
        Ok(()) => Ok(path),
        Err(error) => {
            // It is ours and not whole.
            let _ = std::fs::remove_file(&path);
            Err(error.to_string())
        }
    }
}

/// A file that is written once, by nobody else: it needs no lock, which not every place has.
struct Copy(File, String);

impl Copy {
    fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self(file, path.display().to_string()))
    }

    fn failed(&self, kind: StoreFault, action: &'static str, source: io::Error) -> StoreError {
        StoreError { kind, file: self.1.clone(), action, source }
    }
}

impl Store for Copy {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        (&self.0).write_all(lines).map_err(|error| self.failed(StoreFault::Unwritable, "written", error))
    }

    fn read(&self, _: u64, _: usize) -> Result<Vec<u8>, StoreError> {
        Err(self.failed(StoreFault::Unreadable, "read", io::ErrorKind::Unsupported.into()))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.0.sync_data().map_err(|error| self.failed(StoreFault::Unwritable, "made durable", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::SystemClock,
        store::{FileStore, SessionSync},
    };
    use pith_core::Trust;
    use pith_protocol::{Content, Message, UserMessage};
    use std::{os::unix::fs::PermissionsExt, sync::Arc};

    #[test]
    fn the_copy_has_all_of_it_and_opens() {
        let dir = tempfile::tempdir().unwrap();
        // Its folder is a file.
        std::fs::write(dir.path().join("data"), "").unwrap();
        let file = dir.path().join("data/s.jsonl");
        let store = FileStore::new(file.clone(), SessionSync::Turn);
        let session = Session::create(new_session_id(), dir.path(), Box::new(store), Arc::new(SystemClock));
        let said = |text: &str| Message::User(UserMessage { content: vec![Content::text(text)], timestamp: 1 });
        for text in ["one", "two"] {
            session.append(said(text)).unwrap();
        }
        assert_eq!(session.unsaved().unwrap().entries, 2);
        let rescued = copy(&session, &file, dir.path()).unwrap();
        assert_eq!(std::fs::metadata(&rescued).unwrap().permissions().mode() & 0o7777, 0o600);
        let root = pith_os::Root::open(dir.path()).unwrap();
        let name = Path::new(rescued.file_name().unwrap());
        let (store, loaded) = FileStore::open(&root, name, SessionSync::Never).unwrap();
        assert_eq!(loaded.header().parent_session.as_deref(), file.to_str());
        let (again, diagnostics) =
            Session::resume(loaded, dir.path(), Box::new(store), Arc::new(SystemClock), Trust::Own).unwrap();
        assert!(diagnostics.is_empty());
        assert_eq!(again.path().len(), 2);
        // Nowhere to put it: that is said, and nothing half is left.
        assert!(copy(&session, &file, &dir.path().join("data")).is_err());
    }
}
