//! The sessions that there are, as a person asks for them: found by a word, read, searched, copied, marked, thrown away.

mod change;
mod find;
mod read;
mod search;

pub use change::{Deleted, LibraryError, delete_session, fork_session, label_session, name_session};
pub use find::find_session;
pub(crate) use find::latest;
pub use read::ReadSession;
pub use search::{SearchHit, SearchOrder, search_session};
