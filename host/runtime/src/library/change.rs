//! What is done to a session from outside a conversation: it is copied, named, labelled, thrown away.

use super::ReadSession;
use crate::{
    clock::SystemClock,
    index::{Index, Provenance},
    pith::Forked,
    places::Places,
    shelf::Shelf,
    store::{LoadError, SessionSync},
};
use pith_core::{Clock, ForkPoint, Outbox, Session, SessionError, Trust};
use pith_protocol::EntryId;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The folder beside the sessions where deleted ones lie.
const TRASH: &str = "trash";

/// What could not be done to a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// Its file.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its entries.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It lies elsewhere: its owner is another program.
    #[error("{path} is not in Pith's folder of sessions: it is only read", path = path.display())]
    Elsewhere {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be moved away or removed.
    #[error("{path} cannot be deleted: {source}", path = path.display())]
    Undeletable {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
}

/// What became of a deleted session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Where it lies now; none where it is gone for good.
    pub trash: Option<PathBuf>,
}

fn shelf(places: &Places) -> Shelf {
    Shelf {
        places: places.clone(),
        index: Index::at(places),
        sync: SessionSync::default(),
        face: "session".to_owned(),
        clock: Arc::new(SystemClock),
        outbox: Outbox::new(),
    }
}

/// A file of Pith's own, to be written: locked, so that nobody else writes it.
fn owned(places: &Places, file: &Path) -> Result<Session, LibraryError> {
    let shelf = shelf(places);
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if shelf.index.name(&file).is_none() {
        return Err(LibraryError::Elsewhere { path: file });
    }
    let (store, loaded, provenance) = shelf.open(&file)?;
    let trust = match provenance {
        Provenance::Own => Trust::Own,
        Provenance::Trusted => Trust::Trusted,
        Provenance::Foreign => Trust::Foreign,
    };
    let cwd = PathBuf::from(&loaded.header().cwd);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (session, _) = Session::resume(loaded, &cwd, Box::new(store), clock, trust)?;
    Ok(session)
}

/// Names a session; a blank name takes its name away.
///
/// # Errors
/// It lies elsewhere, is in use, or cannot be written.
pub fn name_session(places: &Places, file: &Path, name: &str) -> Result<Option<String>, LibraryError> {
    let session = owned(places, file)?;
    session.set_name(Some(name.to_owned()))?;
    finish(&session)?;
    Ok(session.name())
}

/// Labels an entry; without a label its own is taken away.
///
/// # Errors
/// It lies elsewhere, is in use, has no such entry, or cannot be written.
pub fn label_session(places: &Places, file: &Path, entry: &str, label: Option<String>) -> Result<(), LibraryError> {
    let session = owned(places, file)?;
    session.set_label(&EntryId::from(entry), label)?;
    finish(&session)
}

/// What waits is an error here: nobody goes on to save it.
fn finish(session: &Session) -> Result<(), LibraryError> {
    session.save()?;
    Ok(session.sync()?)
}

/// Copies a session, or a part of it, into a new one of the same working folder, or of `workspace`. The old one is not touched, and may be
/// written meanwhile.
///
/// # Errors
/// It cannot be read, has no such entry, or the new one cannot be written: nothing of it is left then.
pub fn fork_session(
    places: &Places,
    file: &Path,
    at: ForkPoint,
    workspace: Option<&Path>,
) -> Result<Forked, LibraryError> {
    let read = ReadSession::open(file)?;
    let cwd = workspace.map_or_else(|| PathBuf::from(&read.header().cwd), Path::to_owned);
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let (source, tree) = read.parts();
    let forked =
        shelf(places).fork(&cwd, at, Some(&file), |order, store| tree.fork(source, order, &SystemClock, store))?;
    Ok(forked)
}

/// Moves a session of Pith's own into the trash beside the sessions, or removes it for good.
///
/// # Errors
/// It lies elsewhere, is in use, or cannot be moved.
pub fn delete_session(places: &Places, file: &Path, for_good: bool) -> Result<Deleted, LibraryError> {
    let shelf = shelf(places);
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if shelf.index.name(&file).is_none() {
        return Err(LibraryError::Elsewhere { path: file });
    }
    // Held while it goes, so that nobody writes it. A file that is no session any more may go all the same.
    let held = match shelf.open(&file) {
        Ok((store, ..)) => Some(store),
        Err(error @ LoadError::InUse { .. }) => return Err(error.into()),
        Err(_) => None,
    };
    let failed = |source| LibraryError::Undeletable { path: file.clone(), source };
    let trash = if for_good {
        std::fs::remove_file(&file).map_err(failed)?;
        None
    } else {
        let folder = shelf.index.folder().with_file_name(TRASH);
        crate::places::create_private(&folder).map_err(failed)?;
        let target = folder.join(file.file_name().unwrap_or_default());
        std::fs::rename(&file, &target).map_err(failed)?;
        Some(target)
    };
    drop(held);
    // The next listing would find out by itself.
    let _ = shelf.index.forget(&file);
    Ok(Deleted { trash })
}
