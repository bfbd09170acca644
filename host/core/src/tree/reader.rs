//! Reads a session file line by line: what the store feeds while it streams the file.

use super::{NotNoted, Outlined, Tree};
use crate::{
    line::{self, LineFault},
    migrate::{Format, Migration},
    totals::Totals,
};
use pith_protocol::{EntryId, Header, SESSION_VERSION, SessionId};

/// What was wrong is said of each line up to this many; further ones are counted.
pub const DIAGNOSTICS_KEPT: usize = 1000;

/// What reading a file found wrong. Nothing of it is lost but what is named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Diagnostic {
    /// The line holds no entry that can be read.
    #[error("line {line} is damaged ({fault}) and left out")]
    Damaged {
        /// From 1.
        line: u64,
        /// How.
        fault: LineFault,
    },
    /// Something stood before a whole entry on one line.
    #[error("line {line}: a torn entry stands before a whole one; the whole one is kept")]
    Glued {
        /// From 1.
        line: u64,
    },
    /// Two entries have one id; the later is left out.
    #[error("line {line} repeats the id {id} and is left out")]
    RepeatedId {
        /// From 1.
        line: u64,
        /// The id.
        id: EntryId,
    },
    /// Its type is known, its body does not fit it; it is kept and not shown to the model.
    #[error("entry {id} cannot be read as a {kind}; it is kept, and left out of what the model sees")]
    Unreadable {
        /// The entry.
        id: EntryId,
        /// Its type.
        kind: String,
    },
    /// The parent is not in the file; the entry goes on from the one before it.
    #[error("line {line}: entry {id} names a parent that is not there; it goes on from the entry before it")]
    LostParent {
        /// From 1.
        line: u64,
        /// The entry.
        id: EntryId,
    },
    /// The newest compaction keeps from an entry that is not on its path: it keeps none.
    #[error(
        "compaction {id} keeps from entry {first_kept}, which is not before it; the model sees its summary and what follows"
    )]
    LostCut {
        /// The compaction.
        id: EntryId,
        /// The entry that it names.
        first_kept: EntryId,
    },
    /// The header is damaged; the entries are there.
    #[error("the session's header is damaged; its entries are kept")]
    LostHeader,
    /// More than `DIAGNOSTICS_KEPT`.
    #[error("and {count} more of its lines have something wrong")]
    More {
        /// How many.
        count: u64,
    },
}

/// A file that is no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The first line that can be read is no header.
    #[error("this is not a session file: its first line is no session header")]
    NoHeader,
    /// A later format.
    #[error("this session has format version {0}; this Pith knows up to {known}", known = SESSION_VERSION)]
    TooNew(u32),
}

/// Reads a session file line by line.
#[derive(Debug, Default)]
pub struct TreeReader {
    tree: Option<Tree>,
    migration: Migration,
    line: u64,
    offset: u64,
    diagnostics: Vec<Diagnostic>,
    more: u64,
    torn_tail: bool,
    /// The tree's header is not the file's.
    is_headless: bool,
}

impl TreeReader {
    /// At the start of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// One line without its newline; `ended` says whether there was one.
    ///
    /// # Errors
    /// The file is no session.
    pub fn push_line(&mut self, bytes: &[u8], ended: bool) -> Result<(), ReadError> {
        let offset = self.offset;
        self.line = self.line.saturating_add(1);
        self.offset = offset.saturating_add(bytes.len() as u64).saturating_add(u64::from(ended));
        self.torn_tail = !ended && !bytes.is_empty();
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        if self.tree.is_none() {
            return self.begin(bytes, offset);
        }
        self.entry(bytes, offset);
        Ok(())
    }

    /// The first line that is not blank, or the next one where that was damaged.
    fn begin(&mut self, bytes: &[u8], offset: u64) -> Result<(), ReadError> {
        if let Some(header) = line::read_header(bytes) {
            if header.version > SESSION_VERSION {
                return Err(ReadError::TooNew(header.version));
            }
            self.migration = Migration::of(&header);
            self.tree = Some(Tree::new(header));
            return Ok(());
        }
        match line::read_entry(bytes) {
            // Whole lines of something else, or of a session whose header is not there at all: only a damaged line may stand for it.
            Ok(_) if self.diagnostics.is_empty() && self.more == 0 => Err(ReadError::NoHeader),
            Ok(found) if !found.skimmed.is_of_session() => Err(ReadError::NoHeader),
            Ok(_) => {
                self.tree = Some(Tree::new(lost_header()));
                self.is_headless = true;
                self.diagnose(Diagnostic::LostHeader);
                self.entry(bytes, offset);
                Ok(())
            }
            Err(LineFault::NotAnEntry) => Err(ReadError::NoHeader),
            Err(fault) => {
                self.diagnose(Diagnostic::Damaged { line: self.line, fault });
                Ok(())
            }
        }
    }

    fn entry(&mut self, bytes: &[u8], offset: u64) {
        let line = self.line;
        if self.migration.format() == Format::Unchained {
            self.unchained(bytes, offset);
            return;
        }
        let found = match line::read_entry(bytes) {
            Ok(found) => found,
            Err(fault) => return self.diagnose(Diagnostic::Damaged { line, fault }),
        };
        if found.skimmed.is_header() {
            return self.diagnose(Diagnostic::Damaged { line, fault: LineFault::SecondHeader });
        }
        if !bytes[..found.start].iter().all(u8::is_ascii_whitespace) {
            self.diagnose(Diagnostic::Glued { line });
        }
        let text = &bytes[found.start..found.end];
        let offset = offset.saturating_add(found.start as u64);
        let Some(tree) = &mut self.tree else { return };
        let noted = tree.note(&found.skimmed, text, offset);
        self.noted(noted, &found.skimmed.id);
    }

    /// A line of version 1: it has no id and no parent yet.
    fn unchained(&mut self, bytes: &[u8], offset: u64) {
        let line = self.line;
        let (start, end) = line::trimmed(bytes);
        let Some(tree) = &mut self.tree else { return };
        let parent = tree.leaf_id();
        let migrated = match self.migration.next(&bytes[start..end], parent.as_ref()) {
            Ok(migrated) => migrated,
            Err(fault) => return self.diagnose(Diagnostic::Damaged { line, fault }),
        };
        let Ok(found) = line::read_entry(&migrated) else {
            return self.diagnose(Diagnostic::Damaged { line, fault: LineFault::NotAnEntry });
        };
        if found.skimmed.is_header() {
            return self.diagnose(Diagnostic::Damaged { line, fault: LineFault::SecondHeader });
        }
        let noted = tree.note(&found.skimmed, &migrated, offset.saturating_add(start as u64));
        if noted.is_ok() {
            tree.set_last_length(end.saturating_sub(start));
            self.migration.keep();
        }
        self.noted(noted, &found.skimmed.id);
    }

    fn noted(&mut self, noted: Result<bool, NotNoted>, id: &str) {
        let line = self.line;
        match noted {
            Ok(true) => {}
            Ok(false) => self.diagnose(Diagnostic::LostParent { line, id: EntryId::from(id) }),
            Err(NotNoted::Repeated) => self.diagnose(Diagnostic::RepeatedId { line, id: EntryId::from(id) }),
            Err(NotNoted::Full) => self.diagnose(Diagnostic::Damaged { line, fault: LineFault::TooMany }),
        }
    }

    fn diagnose(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < DIAGNOSTICS_KEPT {
            self.diagnostics.push(diagnostic);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// A line that is longer than the store reads.
    pub fn skip_line(&mut self, bytes: u64, ended: bool) {
        self.line = self.line.saturating_add(1);
        self.offset = self.offset.saturating_add(bytes).saturating_add(u64::from(ended));
        self.torn_tail = !ended;
        self.diagnose(Diagnostic::Damaged { line: self.line, fault: LineFault::TooLong });
    }

    /// What was read, and what was wrong with it. The file's last byte is no newline where `torn` is set: the next append begins with one.
    ///
    /// # Errors
    /// There was no header.
    pub fn finish(self) -> Result<LoadedTree, ReadError> {
        let mut tree = self.tree.ok_or(ReadError::NoHeader)?;
        tree.end = self.offset.saturating_add(u64::from(self.torn_tail));
        let mut diagnostics = self.diagnostics;
        if self.more > 0 {
            diagnostics.push(Diagnostic::More { count: self.more });
        }
        let Self { migration, is_headless, torn_tail: torn, .. } = self;
        Ok(LoadedTree { tree, migration, is_headless, diagnostics, torn })
    }
}

/// What stands for a header that is damaged.
fn lost_header() -> Header {
    Header {
        kind: "session".to_owned(),
        version: SESSION_VERSION,
        id: SessionId::from(""),
        timestamp: String::new(),
        cwd: String::new(),
        parent_session: None,
    }
}

/// A file's tree; becomes a session in `Session::resume` or `Session::adopt`.
#[derive(Debug)]
pub struct LoadedTree {
    pub(crate) tree: Tree,
    pub(crate) migration: Migration,
    is_headless: bool,
    /// What was wrong with the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The file's last byte is no newline.
    pub torn: bool,
}

impl LoadedTree {
    /// The first line. Its id is empty where it was damaged.
    pub fn header(&self) -> &Header {
        &self.tree.header
    }

    /// The version of its format: 1, 2 or 3.
    pub fn version(&self) -> u32 {
        self.migration.version()
    }

    /// Whether it can go on in its own file. One of an older version, or without its header, can only be adopted: what stands is never rewritten.
    pub fn is_current(&self) -> bool {
        self.version() == SESSION_VERSION && !self.is_headless
    }

    /// All entries in the file's order, as the present format has them.
    pub fn outline(&self) -> Vec<Outlined> {
        self.tree.outline()
    }

    /// The last entry of the file: where it goes on.
    pub fn leaf_id(&self) -> Option<EntryId> {
        self.tree.leaf_id()
    }

    /// What the file comes to.
    pub fn totals(&self) -> Totals {
        self.tree.tally.totals()
    }

    /// Entries that have a label, in the file's order.
    pub fn labels(&self) -> Vec<(EntryId, String)> {
        self.tree.labels().map(|(index, label)| (self.tree.id(index), label.to_owned())).collect()
    }
}
