//! One session's tree in memory: of every entry id, parent and place in the file; bodies only of the present path.

use crate::line::{self, LineFault};
use pith_protocol::{Entry, EntryBody, EntryId, Header};
use std::{collections::HashMap, sync::Arc};

/// Where an entry stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub id: EntryId,
    pub parent: Option<u32>,
    pub offset: u64,
    pub length: u32,
}

/// What reading a file found wrong. Nothing of it is lost but what is named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    #[error("line {line}: entry {id} cannot be read as a {kind}; it is kept, and left out of what the model sees")]
    Unreadable {
        /// From 1.
        line: u64,
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
}

/// The tree.
#[derive(Debug)]
pub(crate) struct Tree {
    pub header: Header,
    nodes: Vec<Node>,
    by_id: HashMap<EntryId, u32>,
    leaf: Option<u32>,
    /// Entries of the path root -> leaf, in order.
    path: Vec<(u32, Arc<Entry>)>,
    /// Bytes that the file will have when all that is here is in it.
    pub end: u64,
}

impl Tree {
    pub fn new(header: Header) -> Self {
        Self { header, nodes: Vec::new(), by_id: HashMap::new(), leaf: None, path: Vec::new(), end: 0 }
    }

    pub fn leaf_id(&self) -> Option<EntryId> {
        self.leaf.map(|leaf| self.nodes[leaf as usize].id.clone())
    }

    pub fn contains(&self, id: &EntryId) -> bool {
        self.by_id.contains_key(id)
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The entries root -> leaf.
    pub fn path(&self) -> impl DoubleEndedIterator<Item = &Arc<Entry>> + ExactSizeIterator {
        self.path.iter().map(|(_, entry)| entry)
    }

    /// Notes an entry that stands in the file. The leaf moves to it.
    pub fn note(&mut self, entry: &Entry, line: u64, offset: u64, length: u32, diagnostics: &mut Vec<Diagnostic>) {
        if self.by_id.contains_key(&entry.id) {
            diagnostics.push(Diagnostic::RepeatedId { line, id: entry.id.clone() });
            return;
        }
        if entry.is_unreadable() {
            diagnostics.push(Diagnostic::Unreadable { line, id: entry.id.clone(), kind: entry.kind.clone() });
        }
        let parent = match &entry.parent_id {
            None => None,
            Some(id) => match self.by_id.get(id) {
                Some(parent) => Some(*parent),
                None => {
                    diagnostics.push(Diagnostic::LostParent { line, id: entry.id.clone() });
                    self.leaf
                }
            },
        };
        let index = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let node = Node { id: entry.id.clone(), parent, offset, length };
        self.by_id.insert(node.id.clone(), index);
        self.nodes.push(node);
        self.leaf = Some(index);
    }

    /// The places of the path root -> leaf that `set_path` must be given bodies for.
    pub fn places(&self) -> Vec<(u32, u64, u32)> {
        let mut places = Vec::new();
        let mut next = self.leaf;
        while let Some(index) = next {
            let node = &self.nodes[index as usize];
            places.push((index, node.offset, node.length));
            next = node.parent;
        }
        places.reverse();
        places
    }

    /// The places of all entries, in the file's order.
    pub fn all_places(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    pub fn set_path(&mut self, path: Vec<(u32, Arc<Entry>)>) {
        self.path = path;
    }

    /// Adds an entry at the leaf, as `line` bytes that follow what is there.
    pub fn append(&mut self, entry: Arc<Entry>, line_bytes: u32) {
        let index = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let node = Node { id: entry.id.clone(), parent: self.leaf, offset: self.end, length: line_bytes };
        self.by_id.insert(node.id.clone(), index);
        self.nodes.push(node);
        self.leaf = Some(index);
        self.path.push((index, entry));
        self.end = self.end.saturating_add(u64::from(line_bytes)).saturating_add(1);
    }
}

/// Reads a session file line by line: what the store feeds while it streams the file.
#[derive(Debug, Default)]
pub struct TreeReader {
    tree: Option<Tree>,
    line: u64,
    offset: u64,
    diagnostics: Vec<Diagnostic>,
    torn_tail: bool,
}

/// A file that is no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The first line that can be read is no header.
    #[error("this is not a session file: its first line is no session header")]
    NoHeader,
    /// A later format.
    #[error("this session has format version {0}; this Pith knows up to {known}", known = pith_protocol::SESSION_VERSION)]
    TooNew(u32),
}

impl TreeReader {
    /// At the start of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// One line without its newline; `ended` says whether there was one.
    pub fn push_line(&mut self, bytes: &[u8], ended: bool) -> Result<(), ReadError> {
        self.line += 1;
        let offset = self.offset;
        self.offset = offset + bytes.len() as u64 + u64::from(ended);
        self.torn_tail = !ended && !bytes.is_empty();
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let Some(tree) = &mut self.tree else {
            let header = line::read_header(bytes).ok_or(ReadError::NoHeader)?;
            if header.version > pith_protocol::SESSION_VERSION {
                return Err(ReadError::TooNew(header.version));
            }
            self.tree = Some(Tree::new(header));
            return Ok(());
        };
        match line::read_entry(bytes) {
            Ok(found) => {
                if found.start > 0 {
                    self.diagnostics.push(Diagnostic::Glued { line: self.line });
                }
                let length = u32::try_from(bytes.len() - found.start).unwrap_or(u32::MAX);
                tree.note(&found.entry, self.line, offset + found.start as u64, length, &mut self.diagnostics);
            }
            Err(fault) => self.diagnostics.push(Diagnostic::Damaged { line: self.line, fault }),
        }
        Ok(())
    }

    /// A line that is longer than the store reads.
    pub fn skip_line(&mut self, bytes: u64, ended: bool) {
        self.line += 1;
        self.offset += bytes + u64::from(ended);
        self.torn_tail = !ended;
        self.diagnostics.push(Diagnostic::Damaged { line: self.line, fault: LineFault::TooLong });
    }

    /// What was read, and what was wrong with it. The file's last byte is no newline where `torn` is set: the next append begins with one.
    pub fn finish(self) -> Result<LoadedTree, ReadError> {
        let mut tree = self.tree.ok_or(ReadError::NoHeader)?;
        tree.end = self.offset + u64::from(self.torn_tail);
        Ok(LoadedTree { tree, diagnostics: self.diagnostics, torn: self.torn_tail })
    }
}

/// A file's tree; becomes a session in `Session::resume`.
#[derive(Debug)]
pub struct LoadedTree {
    pub(crate) tree: Tree,
    /// What was wrong with the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The file's last byte is no newline.
    pub torn: bool,
}

impl LoadedTree {
    /// The first line.
    pub fn header(&self) -> &Header {
        &self.tree.header
    }
}

/// An entry at the leaf.
pub(crate) fn entry_at(leaf: Option<EntryId>, id: EntryId, timestamp: String, body: EntryBody) -> Entry {
    Entry { kind: body.kind().to_owned(), id, parent_id: leaf, timestamp, body }
}
