//! The index beside the session files: what each comes to, so that a listing need not read them, and which of them are as this user's Pith
//! left them. A cache with a memory: without it everything is found again, but all files count as foreign.
//!
//! `ledger` is its file, `record` one line of it, `listing` the list that people see, `holder` who writes a session now.

mod holder;
mod ledger;
mod listing;
mod record;

pub use holder::Holder;
pub(crate) use holder::named as who_holds;
pub use ledger::{INDEX_LIMIT_BYTES, INDEX_LINE_LIMIT_BYTES};
pub use listing::{Listing, SessionSummary};
pub(crate) use record::{Claim, Head, Record, Stamp};

use crate::places::Places;
use ledger::Ledger;
use serde::Serialize;
use std::{
    fs::Metadata,
    io,
    path::{Path, PathBuf},
};

/// Whose a session file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// As this user's Pith left it.
    Own,
    /// Others wrote it, and the user said that it is to be trusted, as it is now.
    Trusted,
    /// Unknown here, or changed since.
    Foreign,
}

/// What the index cannot do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// It cannot be written.
    #[error("the index of sessions {path} cannot be written: {source}", path = path.display())]
    Unwritable {
        /// The index.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// The session file is not there, or cannot be looked at.
    #[error("{path}: {source}", path = path.display())]
    NoFile {
        /// The session file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// Only files of the sessions folder are in the index.
    #[error("{path} is not in Pith's folder of sessions {folder}: import it first (`pith session import`), or use --trust-session",
            path = path.display(), folder = folder.display())]
    Elsewhere {
        /// The session file.
        path: PathBuf,
        /// The sessions folder.
        folder: PathBuf,
    },
}

/// The index of the sessions folder. Cheap to clone; nothing is read or created before it is used.
#[derive(Clone, Debug)]
pub struct Index {
    /// Where the sessions lie, as it is named.
    folder: PathBuf,
    /// The same without links.
    real: PathBuf,
}

impl Index {
    /// Of these places.
    pub fn at(places: &Places) -> Self {
        let folder = places.sessions();
        Self { real: crate::places::real(&folder), folder }
    }

    /// Where the sessions lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn ledger(&self) -> Ledger {
        Ledger::in_folder(&self.folder)
    }

    /// The name of a file in the index: its path from the sessions folder. None for files elsewhere, and for names that are no UTF-8, which stay
    /// foreign.
    pub(crate) fn name<'p>(&self, file: &'p Path) -> Option<&'p str> {
        let inner = file.strip_prefix(&self.folder).or_else(|_| file.strip_prefix(&self.real)).ok()?;
        inner.to_str().filter(|name| !name.is_empty())
    }

    /// Whose a file is, by what is known of it: `met` is what the system says of it now, `head` its first line, `sum` that of what was read.
    pub(crate) fn provenance(&self, file: &Path, met: &Metadata, head: &Head, sum: u64) -> Provenance {
        match self.record(file) {
            Some(record) => record.provenance(Stamp::of(met), Some((head, sum))),
            None => Provenance::Foreign,
        }
    }

    /// What is known of a file.
    pub(crate) fn record(&self, file: &Path) -> Option<Record> {
        self.ledger().newest(self.name(file)?)
    }

    /// Who writes a file now; none where nobody does, or where that cannot be told.
    pub fn holder(&self, file: &Path) -> Option<Holder> {
        holder::of(file, self.record(file).and_then(|record| record.writing))
    }

    /// Notes a line. What cannot be noted costs what it says: the file is read again for a listing, or counts as foreign.
    pub(crate) fn note(&self, record: &Record) -> io::Result<()> {
        self.ledger().append(std::slice::from_ref(record))
    }

    /// From now on the file, as it is now, counts as the user's own: its prompt sections, plugins' entries and all. The user said so.
    ///
    /// # Errors
    /// It is not there or lies elsewhere, or the index cannot be written.
    pub fn trust(&self, file: &Path) -> Result<(), IndexError> {
        let elsewhere = || IndexError::Elsewhere { path: file.to_owned(), folder: self.folder.clone() };
        let name = self.name(file).ok_or_else(elsewhere)?;
        let met = std::fs::symlink_metadata(file)
            .and_then(|met| if met.is_file() { Ok(met) } else { Err(io::ErrorKind::InvalidInput.into()) })
            .map_err(|source| IndexError::NoFile { path: file.to_owned(), source })?;
        let stamp = Stamp::of(&met);
        let known = self.record(file);
        let known = known.filter(|known| known.stamp == stamp);
        let (sum, head, totals) = known.map(|known| (known.sum, known.head, known.totals)).unwrap_or_default();
        let record = Record {
            file: name.to_owned(),
            stamp,
            sum,
            claim: Claim::Trusted,
            writing: None,
            head,
            totals,
            gone: false,
        };
        self.note(&record).map_err(|source| IndexError::Unwritable { path: self.ledger().path().to_owned(), source })
    }

    /// A file was deleted.
    ///
    /// # Errors
    /// The index cannot be written; the next listing finds out by itself.
    pub fn forget(&self, file: &Path) -> Result<(), IndexError> {
        let Some(name) = self.name(file) else { return Ok(()) };
        self.note(&Record::gone(name))
            .map_err(|source| IndexError::Unwritable { path: self.ledger().path().to_owned(), source })
    }
}
