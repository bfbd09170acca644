//! The sessions that there are, as a person asks for them: found by a word, read, searched, counted, copied, marked, thrown away.

mod change;
mod find;
mod lines;
mod read;
mod search;
mod sought;
mod spent;
mod trash;

pub use change::{fork_session, label_session, name_session, trust_session};
pub(crate) use find::latest;
pub use find::{ShortIds, find_session};
pub use read::ReadSession;
pub use search::{SearchHit, SearchOrder, Searched, search_sessions};
pub use sought::SearchError;
pub use spent::{DaySpent, Spent, spent_by_day};
pub(crate) use trash::empty_trash;
pub use trash::{Deleted, TRASH_KEPT, delete_session};

use crate::{index::IndexError, store::LoadError};
use pith_core::SessionError;
use std::{io, path::PathBuf};

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
    /// The index.
    #[error(transparent)]
    Index(#[from] IndexError),
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
    /// A word means no entry of the session.
    #[error("there is no entry {wanted} in this session: neither an entry's id or its beginning, nor a label")]
    NoEntry {
        /// As asked for.
        wanted: String,
    },
    /// A word means several entries.
    #[error("{wanted} means several entries: {list}", list = found.join(", "))]
    SeveralEntries {
        /// As asked for.
        wanted: String,
        /// Some of them.
        found: Vec<String>,
    },
}

impl LibraryError {
    /// What helps, where the error's own words do not say it already.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Load(error) => return error.hint(),
            Self::Session(SessionError::OldFormat(_)) => {
                "`pith session fork` makes one of the present format of it, and leaves it as it is"
            }
            Self::Elsewhere { .. } => "`pith session import` or `pith session fork` makes one of your own of it",
            Self::NoEntry { .. } => "`pith session tree --all` shows all entries",
            Self::SeveralEntries { .. } => "give more of the id",
            Self::Undeletable { source, .. } if source.kind() == io::ErrorKind::CrossesDevices => {
                "the trash lies on another file system: --forever removes it at once"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
