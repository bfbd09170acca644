//! One session's tree in memory: of every entry its id, parent, kind and place in the file, in less than 64 bytes; bodies only of those entries
//! of the present path that are awake (see `awake`).

mod awake;
mod ids;
mod reader;

pub(crate) use awake::{Awake, Place};
pub(crate) use ids::NONE;
pub use reader::{DIAGNOSTICS_KEPT, Diagnostic, LoadedTree, ReadError, TreeReader};

use crate::{
    kind::EntryKind,
    migrate,
    skim::Skimmed,
    totals::{Tally, tidy},
};
use ids::Ids;
use pith_protocol::{Entry, EntryBody, EntryId, Header};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// The most entries of a session file: years of work, at less than 64 bytes of memory each. What a file has beyond them is not read, and a
/// session that has as many takes no more.
pub const ENTRIES_LIMIT: u32 = 20_000_000;

/// Where an entry stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub offset: u64,
    pub length: u32,
    /// `NONE` for a root.
    parent: u32,
    pub kind: EntryKind,
    /// Its line names a parent that is not there.
    has_lost_parent: bool,
}

impl Node {
    pub fn parent(&self) -> Option<u32> {
        (self.parent != NONE).then_some(self.parent)
    }
}

/// One entry of an outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlined {
    /// Its id.
    pub id: EntryId,
    /// The index of its parent in the outline; always smaller than its own.
    pub parent: Option<usize>,
    /// What it is.
    pub kind: EntryKind,
    /// Where its line begins, in bytes from the file's start.
    pub offset: u64,
    /// Its line's length in bytes.
    pub length: u32,
}

/// The tree. Indices of nodes follow the file's order, and a parent's is always smaller than its children's.
#[derive(Debug)]
pub(crate) struct Tree {
    pub header: Header,
    nodes: Vec<Node>,
    ids: Ids,
    leaf: Option<u32>,
    /// What is awake of the path to the leaf, in order.
    pub awake: Awake,
    /// The label of each entry that has one.
    labels: BTreeMap<u32, String>,
    pub tally: Tally,
    /// Entries before this one were written by others.
    pub foreign: u32,
    /// Bytes that the file will have when all that is here is in it.
    pub end: u64,
}

/// Why a line is not in the tree.
pub(crate) enum NotNoted {
    /// Its id is there already.
    Repeated,
    /// There are as many as can be.
    Full,
}

impl Tree {
    pub fn new(header: Header) -> Self {
        Self {
            header,
            nodes: Vec::new(),
            ids: Ids::default(),
            leaf: None,
            awake: Awake::default(),
            labels: BTreeMap::new(),
            tally: Tally::default(),
            foreign: 0,
            end: 0,
        }
    }

    pub fn leaf(&self) -> Option<u32> {
        self.leaf
    }

    pub fn leaf_id(&self) -> Option<EntryId> {
        self.leaf.map(|leaf| self.ids.get(leaf))
    }

    pub fn find(&self, id: &EntryId) -> Option<u32> {
        self.ids.find(id.as_str())
    }

    pub fn id(&self, index: u32) -> EntryId {
        self.ids.get(index)
    }

    pub fn node(&self, index: u32) -> Node {
        self.nodes[index as usize]
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn count(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(NONE)
    }

    /// The indices root -> `leaf`: ascending.
    pub fn path_to(&self, leaf: Option<u32>) -> Vec<u32> {
        let mut path = Vec::new();
        let mut next = leaf;
        while let Some(index) = next {
            path.push(index);
            next = self.nodes[index as usize].parent();
        }
        path.reverse();
        path
    }

    /// The deepest entry that is on both paths.
    pub fn common(&self, one: Option<u32>, other: Option<u32>) -> Option<u32> {
        let (mut one, mut other) = (one?, other?);
        // A parent's index is smaller, so the larger one is never an ancestor of the smaller.
        while one != other {
            let larger = if one > other { &mut one } else { &mut other };
            *larger = self.nodes[*larger as usize].parent()?;
        }
        Some(one)
    }

    /// Notes a line of the file. The leaf moves to it. `Ok(false)`: its parent is not there, and it goes on from the entry before it.
    pub fn note(&mut self, skimmed: &Skimmed<'_>, line: &[u8], offset: u64) -> Result<bool, NotNoted> {
        if self.ids.find(&skimmed.id).is_some() {
            return Err(NotNoted::Repeated);
        }
        let (parent, is_found) = match &skimmed.parent {
            None => (None, true),
            Some(id) => match self.ids.find(id) {
                Some(parent) => (Some(parent), true),
                None => (self.leaf, false),
            },
        };
        let length = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let node =
            Node { offset, length, parent: parent.unwrap_or(NONE), kind: skimmed.kind, has_lost_parent: !is_found };
        let index = self.push(&skimmed.id, node).ok_or(NotNoted::Full)?;
        self.leaf = Some(index);
        self.tally.add_line(skimmed, line);
        if let Some((target, label)) = skimmed.label() {
            self.set_label(&EntryId::from(target), label);
        }
        if let Some(is_trusted) = skimmed.mark() {
            self.foreign = if is_trusted { 0 } else { index };
        }
        Ok(is_found)
    }

    /// Of the entry that was noted last: its line's length, where what was noted is not what stands in the file.
    pub fn set_last_length(&mut self, length: usize) {
        if let Some(last) = self.nodes.last_mut() {
            last.length = u32::try_from(length).unwrap_or(u32::MAX);
        }
    }

    fn push(&mut self, id: &str, node: Node) -> Option<u32> {
        let index = self.ids.push(id)?;
        self.nodes.push(node);
        Some(index)
    }

    /// Adds an entry whose line of `length` bytes follows what is there; its parent is the leaf that `set_leaf` was given or that was added last.
    pub fn append(&mut self, entry: &Arc<Entry>, length: u32) {
        let kind = EntryKind::of(entry);
        let node = Node { offset: self.end, length, parent: self.leaf.unwrap_or(NONE), kind, has_lost_parent: false };
        self.end = self.end.saturating_add(u64::from(length)).saturating_add(1);
        let Some(index) = self.push(entry.id.as_str(), node) else { return };
        self.leaf = Some(index);
        self.awake.push(index, entry.clone());
        self.tally.add_entry(entry);
        if let EntryBody::Label(label) = &entry.body {
            self.set_label(&label.target_id, label.label.as_deref());
        }
    }

    /// Goes to another leaf; `awake` is what is awake of the path to it.
    pub fn set_leaf(&mut self, leaf: Option<u32>, awake: Awake) {
        self.leaf = leaf;
        self.awake = awake;
    }

    fn set_label(&mut self, target: &EntryId, label: Option<&str>) {
        let Some(target) = self.find(target) else { return };
        match label.and_then(tidy) {
            Some(label) => self.labels.insert(target, label),
            None => self.labels.remove(&target),
        };
    }

    pub fn label(&self, index: u32) -> Option<&str> {
        self.labels.get(&index).map(String::as_str)
    }

    /// Labels in the order of their entries.
    pub fn labels(&self) -> impl Iterator<Item = (u32, &str)> {
        self.labels.iter().map(|(index, label)| (*index, label.as_str()))
    }

    /// A line as it goes into another file: one that names a parent which is not there names the one that it goes on from, so that no entry of the
    /// new file is taken for it.
    pub fn copied<'l>(&self, index: u32, line: &'l [u8]) -> Cow<'l, [u8]> {
        let node = self.node(index);
        let parent = || node.parent().map(|parent| self.id(parent));
        let rechained = node.has_lost_parent.then(|| migrate::rechained(line, parent().as_ref())).flatten();
        rechained.map_or(Cow::Borrowed(line), Cow::Owned)
    }

    pub fn outline(&self) -> Vec<Outlined> {
        let outlined = |(node, index): (&Node, u32)| Outlined {
            id: self.ids.get(index),
            parent: node.parent().map(|parent| parent as usize),
            kind: node.kind,
            offset: node.offset,
            length: node.length,
        };
        self.nodes.iter().zip(0..).map(outlined).collect()
    }

    /// The same entries in another file: `place` gives each one's offset and length there.
    pub fn moved_to(mut self, header: Header, mut place: impl FnMut(u32, Node) -> (u64, u32)) -> Self {
        self.header = header;
        for (node, index) in self.nodes.iter_mut().zip(0..) {
            (node.offset, node.length) = place(index, *node);
            node.has_lost_parent = false;
        }
        self
    }
}
