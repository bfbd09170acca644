//! Sessions in and out: exported as a page, as Markdown or as JSON lines; imported from pi, Claude Code and Codex.
//!
//! Out: `reading` opens a file, whoever wrote it, `walk` goes along its path, `html` and `markdown` say what they meet, `export` writes it. In:
//! `import` finds out whose a file is and makes a session of it; `claude` and `codex` turn the lines of theirs into a `draft`, which is a
//! session file of others like any.

mod claude;
mod codex;
mod draft;
mod export;
mod html;
mod import;
mod markdown;
mod reading;
mod walk;

pub use export::{
    EXPORTED_TEXT_LIMIT_BYTES, ExportFormat, ExportOrder, Exported, dollars, export_session, export_to_file,
};
pub use import::{IMPORT_FILES_LIMIT, ImportOrder, ImportOutcome, Imported, Origin, import_sessions};

use crate::store::LoadError;
use pith_core::SessionError;
use std::{io, path::PathBuf};

/// Something that does not come in or go out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The session file.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its entries, or those of the new one.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// What is exported cannot be written.
    #[error("the export {path} cannot be written: {source}", path = path.display())]
    Unwritable {
        /// Where to.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// There is a file already.
    #[error("{path} is there already: name another file, or use --force to replace it", path = path.display())]
    Exists {
        /// Where to.
        path: PathBuf,
    },
    /// The reader of what is exported is gone, or its disk is full.
    #[error("the export cannot be written: {0}")]
    Output(#[source] io::Error),
    /// A file or folder that shall be imported.
    #[error("{path}: {source}", path = path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// Nobody's that is known here.
    #[error(
        "{path} is no transcript that Pith knows: it imports pi's sessions, Claude Code's (~/.claude/projects) and Codex's (~/.codex/sessions)",
        path = path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing in it to go on from.
    #[error("{path} has no conversation in it", path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A transcript beyond the limit.
    #[error("{path} is larger than {limit} bytes, the most that is imported", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// A folder with more files than are looked at.
    #[error("{path} has more than {limit} transcripts: import its folders one by one", path = path.display())]
    TooMany {
        /// The folder.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// The index of sessions cannot be read.
    #[error("the sessions in {path} cannot be listed: {source}", path = path.display())]
    Unlistable {
        /// The folder.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
}
