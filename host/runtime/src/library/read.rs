//! A session that is only looked at, also while another process writes it.

use crate::store::{LoadError, SESSION_FILE_LIMIT_BYTES, SourceFile};
use pith_core::{Diagnostic, LoadedTree, Outlined, Store, Totals};
use pith_protocol::{Entry, EntryId, Header};
use std::path::Path;

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

    /// What was wrong with the file.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.tree.diagnostics
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

    /// One entry; none where its line cannot be read any more.
    pub fn entry(&self, of: &Outlined) -> Option<Entry> {
        Entry::read(&self.line(of)?).ok()
    }

    /// Its line, as it stands in the file.
    pub(crate) fn line(&self, of: &Outlined) -> Option<Vec<u8>> {
        self.source.read(of.offset, of.length as usize).ok()
    }

    /// The file's parts, to be copied.
    pub(crate) fn parts(&self) -> (&SourceFile, &LoadedTree) {
        (&self.source, &self.tree)
    }
}
