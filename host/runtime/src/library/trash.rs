//! Deleted sessions: they lie in the trash for a month, or are gone for good.

use super::{
    LibraryError,
    change::{owned, shelf},
};
use crate::{
    places::{Places, create_private},
    store::LoadError,
    sweep::remove_spool_of,
};
use std::{
    fs::{DirEntry, TryLockError},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How long a deleted session lies in the trash.
pub const TRASH_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Sessions of one name that lie in the trash at once.
const SAME_NAMES: u32 = 1000;

/// What became of a deleted session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Where it was.
    pub file: PathBuf,
    /// Where it lies now, for `TRASH_KEPT`; none where it is gone for good.
    pub trash: Option<PathBuf>,
    /// Outputs that its tools spooled went with it. Those of a session in the trash stay their usual week.
    pub is_spool_removed: bool,
}

/// Moves a session of Pith's own into the trash, or removes it and its spooled outputs for good. What lies in the trash for a month goes then.
///
/// # Errors
/// It lies elsewhere, is in use, or cannot be moved.
pub fn delete_session(places: &Places, file: &Path, for_good: bool) -> Result<Deleted, LibraryError> {
    let shelf = shelf(places);
    let file = owned(&shelf.index, file)?;
    let failed = |source| LibraryError::Undeletable { path: file.clone(), source };
    // Held while it goes, so that nobody begins to write it. One that cannot be opened, or is no session any more, may go all the same.
    let held = pith_os::open_regular(&file).ok();
    if let Some(Err(TryLockError::WouldBlock)) = held.as_ref().map(std::fs::File::try_lock) {
        let holder = shelf.index.holder(&file).unwrap_or_default();
        return Err(LoadError::InUse { path: file, holder }.into());
    }
    let id = shelf.index.record(&file).and_then(|record| record.head).map(|head| head.id);
    let id = id.or_else(|| Some(file.file_stem()?.to_str()?.split_once('_')?.1.to_owned())).filter(|id| !id.is_empty());
    let trash = if for_good {
        std::fs::remove_file(&file).map_err(failed)?;
        None
    } else {
        let target = free_place(places, &file).map_err(failed)?;
        std::fs::rename(&file, &target).map_err(failed)?;
        Some(target)
    };
    drop(held);
    // The next listing would find out by itself.
    let _ = shelf.index.forget(&file);
    let is_spool_removed = for_good && id.is_some_and(|id| remove_spool_of(places, &id));
    empty_trash(places, SystemTime::now());
    Ok(Deleted { file, trash, is_spool_removed })
}

/// Where it goes: in a folder of its own folder's name, so that the way back can be seen.
fn free_place(places: &Places, file: &Path) -> io::Result<PathBuf> {
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
    let folder = places.trash().join(folder);
    create_private(&folder)?;
    let name = file.file_name().unwrap_or_default();
    let names = (1..SAME_NAMES).map(|number| match number {
        1 => name.to_owned(),
        _ => {
            let mut other = std::ffi::OsString::from(format!("{number}-"));
            other.push(name);
            other
        }
    });
    let free = names.map(|name| folder.join(name)).find(|path| path.symlink_metadata().is_err());
    free.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

/// Removes what was put into the trash long ago. One that cannot go is tried again the next time.
pub(crate) fn empty_trash(places: &Places, now: SystemTime) {
    let is_folder = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    for folder in entries(&places.trash()).filter(is_folder) {
        for file in entries(&folder.path()) {
            if file.file_type().is_ok_and(|kind| kind.is_file()) && is_old(&file, now) {
                let _ = std::fs::remove_file(file.path());
            }
        }
        // Where it is empty.
        let _ = std::fs::remove_dir(folder.path());
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    std::fs::read_dir(folder).into_iter().flatten().flatten()
}

/// By when it was moved, which the system keeps; a time in the future is that of a clock that was set.
fn is_old(file: &DirEntry, now: SystemTime) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(met) = file.metadata() else { return false };
    let moved = u64::try_from(met.ctime()).ok().and_then(|secs| UNIX_EPOCH.checked_add(Duration::from_secs(secs)));
    moved.and_then(|moved| now.duration_since(moved).ok()).is_some_and(|age| age > TRASH_KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(places: &Places, id: &str) -> PathBuf {
        let folder = places.sessions().join("w-1");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("t_{id}.jsonl"));
        let header = serde_json::json!({ "type": "session", "version": 3, "id": id, "timestamp": "", "cwd": "/w" });
        std::fs::write(&file, format!("{header}\n")).unwrap();
        file
    }

    #[test]
    fn what_is_deleted_lies_in_the_trash_for_a_month() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::beneath(&dir.path().canonicalize().unwrap());
        let file = session(&places, "aa");
        let deleted = delete_session(&places, &file, false).unwrap();
        let first = deleted.trash.unwrap();
        assert!(!file.exists() && first.exists() && first.starts_with(places.trash()));
        // Nothing in the trash is written over.
        let file = session(&places, "aa");
        let second = delete_session(&places, &file, false).unwrap().trash.unwrap();
        assert!(first.exists() && second.exists() && first != second);
        empty_trash(&places, SystemTime::now() + TRASH_KEPT - Duration::from_secs(60));
        assert!(first.exists());
        empty_trash(&places, SystemTime::now() + TRASH_KEPT + Duration::from_secs(60));
        assert!(!first.exists() && !first.parent().unwrap().exists());
    }

    #[test]
    fn what_goes_for_good_takes_its_outputs_along_and_nothing_else_goes() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::beneath(&dir.path().canonicalize().unwrap());
        let (file, other) = (session(&places, "aa"), session(&places, "bb"));
        for id in ["aa", "bb"] {
            std::fs::create_dir_all(places.spool(id)).unwrap();
            std::fs::write(places.spool(id).join("bash-1.log"), "output").unwrap();
        }
        let deleted = delete_session(&places, &file, true).unwrap();
        assert_eq!(deleted, Deleted { file: file.clone(), trash: None, is_spool_removed: true });
        assert!(!file.exists() && !places.spool("aa").exists() && !places.trash().exists());
        assert!(other.exists() && places.spool("bb").exists());
        // One that somebody writes, and one of others, stay.
        let held = std::fs::File::open(&other).unwrap();
        held.lock().unwrap();
        let in_use = delete_session(&places, &other, true);
        assert!(matches!(in_use, Err(LibraryError::Load(LoadError::InUse { .. }))), "{in_use:?}");
        drop(held);
        let elsewhere = dir.path().join("x.jsonl");
        std::fs::write(&elsewhere, "").unwrap();
        assert!(matches!(delete_session(&places, &elsewhere, true), Err(LibraryError::Elsewhere { .. })));
        assert!(other.exists() && elsewhere.exists());
    }
}
