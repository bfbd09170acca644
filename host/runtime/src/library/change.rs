//! What is done to a session from outside a conversation: it is copied, named, labelled, trusted.

use super::{LibraryError, ReadSession};
use crate::{
    clock::{SystemClock, new_session_id},
    index::{Head, Index, Provenance},
    pith::Forked,
    places::Places,
    shelf::Shelf,
    store::{FileStore, LoadError, MemoryStore, SESSION_FILE_LIMIT_BYTES, SessionSync, SourceFile},
};
use pith_core::{Clock, ForkPoint, LoadedTree, Outbox, Session, SetAside, Trust};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

pub(super) fn shelf(places: &Places) -> Shelf {
    Shelf {
        places: places.clone(),
        index: Index::at(places),
        sync: SessionSync::default(),
        face: "session".to_owned(),
        clock: Arc::new(SystemClock),
        outbox: Outbox::new(),
    }
}

fn trust_of(provenance: Provenance) -> Trust {
    match provenance {
        Provenance::Own => Trust::Own,
        Provenance::Trusted => Trust::Trusted,
        Provenance::Foreign => Trust::Foreign,
    }
}

/// The file without links, where it is one of Pith's own folder.
pub(super) fn owned(index: &Index, file: &Path) -> Result<PathBuf, LibraryError> {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    match index.name(&file) {
        Some(_) => Ok(file),
        None => Err(LibraryError::Elsewhere { path: file }),
    }
}

/// A file of Pith's own, to be written: locked, so that nobody else writes it.
fn opened(places: &Places, file: &Path) -> Result<(Session, FileStore), LibraryError> {
    let shelf = shelf(places);
    let (store, loaded, provenance) = shelf.open(&owned(&shelf.index, file)?)?;
    let cwd = PathBuf::from(&loaded.header().cwd);
    let kept = Box::new(store.clone());
    let (session, _) = Session::resume(loaded, &cwd, kept, shelf.clock.clone(), trust_of(provenance))?;
    Ok((session, store))
}

/// What waits is an error here: nobody goes on to save it.
fn finish(session: &Session, store: &FileStore) -> Result<(), LibraryError> {
    session.save()?;
    session.sync()?;
    store.tell_totals(session.totals());
    Ok(())
}

/// Names a session; a blank name takes its name away. Gives what it is called now.
///
/// # Errors
/// It lies elsewhere, is in use, has an older format, or cannot be written.
pub fn name_session(places: &Places, file: &Path, name: &str) -> Result<Option<String>, LibraryError> {
    let (session, store) = opened(places, file)?;
    session.set_name(Some(name.to_owned()))?;
    finish(&session, &store)?;
    Ok(session.name())
}

/// Labels the entry that a word means (see `ReadSession::find_entry`); without a label its own is taken away. Gives what it is labelled now.
///
/// # Errors
/// It lies elsewhere, is in use, has no such entry, has an older format, or cannot be written.
pub fn label_session(
    places: &Places,
    file: &Path,
    entry: &str,
    label: Option<String>,
) -> Result<Option<String>, LibraryError> {
    let read = ReadSession::open(file)?;
    let place = read.find_entry(entry)?;
    let id = read.outline()[place].id.clone();
    let (session, store) = opened(places, file)?;
    session.set_label(&id, label)?;
    finish(&session, &store)?;
    Ok(session.label(&id))
}

/// From now on a file of Pith's own folder, as it is now, counts as the user's own. Gives what of it had been set aside.
///
/// # Errors
/// It lies elsewhere, cannot be read, or the index cannot be written.
pub fn trust_session(places: &Places, file: &Path) -> Result<SetAside, LibraryError> {
    let index = Index::at(places);
    let file = owned(&index, file)?;
    let (source, loaded) = SourceFile::open_within(&file, SESSION_FILE_LIMIT_BYTES)?;
    let aside = seen(&file, source, loaded, Trust::Foreign)?.set_aside();
    index.trust(&file)?;
    Ok(aside)
}

/// A session over a file that is not written: what its lines are worth is as when it is worked on.
fn seen(file: &Path, source: SourceFile, loaded: LoadedTree, trust: Trust) -> Result<Session, LibraryError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let cwd = PathBuf::from(&loaded.header().cwd);
    let (session, _) = if loaded.is_current() {
        Session::resume(loaded, &cwd, Box::new(source), clock, trust)?
    } else {
        let (name, store) = (file.display().to_string(), Box::new(MemoryStore::default()));
        Session::adopt(loaded, &source, name, new_session_id(), &cwd, store, clock, trust)?
    };
    Ok(session)
}

/// Copies a session, or a part of it, into a new one: of the working folder that it says, where it is the user's own, else of `here`. What
/// others wrote stays foreign in it. The old one is not touched, and may be written meanwhile.
///
/// # Errors
/// It cannot be read, has no such entry, or the new one cannot be written: nothing of it is left then.
pub fn fork_session(places: &Places, file: &Path, at: ForkPoint, here: &Path) -> Result<Forked, LibraryError> {
    let shelf = shelf(places);
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let (source, loaded) = SourceFile::open_within(&file, SESSION_FILE_LIMIT_BYTES)?;
    let met = source.met().map_err(|source| LoadError::Read { path: file.clone(), source })?;
    let head = Head::of(loaded.header());
    let provenance = shelf.index.provenance(&file, &met, &head, source.sum());
    let is_own = provenance != Provenance::Foreign && !head.cwd.is_empty();
    let cwd = if is_own { Path::new(&head.cwd) } else { here };
    let session = seen(&file, source, loaded, trust_of(provenance))?;
    Ok(shelf.fork(cwd, at, Some(&file), |order, store| session.fork(order, store))?)
}
