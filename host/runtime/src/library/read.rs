//! A session that is only looked at, also while another process writes it.

use super::LibraryError;
use crate::store::{LoadError, SESSION_FILE_LIMIT_BYTES, SourceFile};
use pith_core::{Diagnostic, LoadedTree, Outlined, SessionError, Totals};
use pith_protocol::{Entry, EntryId, Header};
use std::path::Path;

/// Entries that a word could mean which are named.
const MATCHES_SHOWN: usize = 5;

/// A session file that was read. Its texts are foreign: not for a terminal as they are.
pub struct ReadSession {
    source: SourceFile,
    tree: LoadedTree,
}

impl ReadSession {
    /// Reads it. No lock is taken.
    ///
    /// # Errors
    /// It cannot be read, or is no session.
    pub fn open(file: &Path) -> Result<Self, LoadError> {
        let (source, tree) = SourceFile::open_within(file, SESSION_FILE_LIMIT_BYTES)?;
        Ok(Self { source, tree })
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        self.tree.header()
    }

    /// What was wrong with the file. Of one that is being written the end of the last line may just not be there yet: `is_torn` says so.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.tree.diagnostics
    }

    /// The file's last byte is no newline.
    pub fn is_torn(&self) -> bool {
        self.tree.torn
    }

    /// What it comes to, all branches.
    pub fn totals(&self) -> Totals {
        self.tree.totals()
    }

    /// All entries in the file's order.
    pub fn outline(&self) -> Vec<Outlined> {
        self.tree.outline()
    }

    /// Entries that have a label.
    pub fn labels(&self) -> Vec<(EntryId, String)> {
        self.tree.labels()
    }

    /// Where it goes on.
    pub fn leaf_id(&self) -> Option<EntryId> {
        self.tree.leaf_id()
    }

    /// An entry by its place in the outline, as the present format has it.
    ///
    /// # Errors
    /// Its line cannot be read any more.
    pub fn entry(&self, place: usize) -> Result<Entry, SessionError> {
        self.tree.entry(&self.source, place)
    }

    /// The place in the outline of the entry that a person's word means: its id, its label, the beginning of its id.
    ///
    /// # Errors
    /// No entry is meant, or several are.
    pub fn find_entry(&self, wanted: &str) -> Result<usize, LibraryError> {
        let (outline, labels) = (self.outline(), self.labels());
        let place = |is: &dyn Fn(&EntryId) -> bool| -> Vec<usize> {
            outline.iter().enumerate().filter(|(_, one)| is(&one.id)).map(|(place, _)| place).collect()
        };
        let labelled = |id: &EntryId| labels.iter().any(|(of, label)| of == id && label == wanted.trim());
        let by_id = |id: &EntryId| id.as_str() == wanted;
        let by_beginning = |id: &EntryId| !wanted.is_empty() && id.as_str().starts_with(wanted);
        for found in [place(&by_id), place(&labelled), place(&by_beginning)] {
            match found.as_slice() {
                [] => {}
                [one] => return Ok(*one),
                several => {
                    let shown = several.iter().take(MATCHES_SHOWN).map(|place| outline[*place].id.to_string());
                    return Err(LibraryError::SeveralEntries { wanted: wanted.to_owned(), found: shown.collect() });
                }
            }
        }
        Err(LibraryError::NoEntry { wanted: wanted.to_owned() })
    }
}
