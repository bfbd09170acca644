//! The folder where this user's sessions lie: files are made and opened here, locked and noted in the index.

use crate::{
    clock::new_session_id,
    index::{Head, Holder, Index, Provenance},
    pith::Forked,
    places::Places,
    store::{FileStore, LoadError, Noted, SessionSync, file_name},
};
use pith_core::{Clock, ForkOrder, ForkPoint, LoadedTree, Outbox, SessionError, Store};
use pith_os::Root;
use pith_protocol::{SessionId, iso_from_millis};
use sha2::{Digest, Sha256};
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Makes and opens session files. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shelf {
    pub places: Places,
    pub index: Index,
    pub sync: SessionSync,
    /// What other processes are told of this one.
    pub face: String,
    pub clock: Arc<dyn Clock>,
    /// Where people are told what happens to files.
    pub outbox: Outbox,
}

impl Shelf {
    /// A new session's file, which its first append creates.
    pub fn create(&self, workspace: &Path, id: &SessionId) -> FileStore {
        let time = iso_from_millis(self.clock.now_millis());
        let path = self.folder(workspace).join(file_name(&time, id));
        FileStore::new(path, self.sync).telling(self.outbox.clone()).noted(self.notes(Provenance::Own))
    }

    /// A file that is there, whose it is beside it.
    pub fn open(&self, path: &Path) -> Result<(FileStore, LoadedTree, Provenance), LoadError> {
        let (folder, name) = (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default());
        let root = Root::open(folder)?;
        let (store, loaded) = FileStore::open(&root, Path::new(name), self.sync).map_err(|error| match error {
            LoadError::InUse { path, holder } => {
                let holder = self.index.holder(&path).unwrap_or(holder);
                LoadError::InUse { path, holder }
            }
            other => other,
        })?;
        let head = Head::of(loaded.header());
        let provenance = match (store.met(), store.sum()) {
            (Some(met), Some(sum)) => self.index.provenance(path, &met, &head, sum),
            _ => Provenance::Foreign,
        };
        let store = store.telling(self.outbox.clone()).noted(self.notes(provenance));
        Ok((store, loaded, provenance))
    }

    /// Writes a new session's file by `write`, which copies a part of another into it. Nothing of it is left where that fails.
    ///
    /// # Errors
    /// What `write` met, and a file that cannot be made durable.
    pub fn fork(
        &self,
        workspace: &Path,
        at: ForkPoint,
        parent: Option<&Path>,
        write: impl FnOnce(&ForkOrder, &dyn Store) -> Result<u64, SessionError>,
    ) -> Result<Forked, SessionError> {
        let id = new_session_id();
        let order = ForkOrder {
            at,
            id: id.clone(),
            cwd: workspace.to_string_lossy().into_owned(),
            parent_session: parent.map(|parent| parent.to_string_lossy().into_owned()),
        };
        let store = self.create(workspace, &id);
        let written = write(&order, &store).and_then(|entries| {
            store.sync()?;
            Ok(entries)
        });
        let file = store.path();
        match written {
            Ok(entries) => Ok(Forked { id, file, entries }),
            Err(error) => {
                drop(store);
                let _ = std::fs::remove_file(&file);
                Err(error)
            }
        }
    }

    /// Where a working folder's sessions lie.
    pub fn folder(&self, workspace: &Path) -> PathBuf {
        folder_of(&self.places, workspace)
    }

    fn notes(&self, provenance: Provenance) -> Noted {
        let since = iso_from_millis(self.clock.now_millis());
        let holder = Holder { pid: std::process::id(), since, face: self.face.clone() };
        Noted::in_index(self.index.clone(), holder, provenance)
    }
}

/// Where a working folder's sessions lie.
pub(crate) fn folder_of(places: &Places, workspace: &Path) -> PathBuf {
    places.sessions().join(folder_name(workspace))
}

/// `<last folder name>-<10 hex of sha256(path)>`: readable, and never the same for two folders.
fn folder_name(workspace: &Path) -> String {
    let last = workspace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let last: String = last.chars().map(|c| if plain(c) { c } else { '_' }).take(40).collect();
    let digest = Sha256::digest(workspace.as_os_str().as_bytes());
    let hex: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("{last}-{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_never_share_a_name() {
        let names: Vec<String> =
            ["/a-b", "/a/b", "/b", "/", "/a/\u{e9} x"].map(|path| folder_name(Path::new(path))).to_vec();
        let unique: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        assert!(names.iter().all(|name| name.is_ascii() && !name.contains(['/', ' '])), "{names:?}");
    }
}
