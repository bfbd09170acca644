//! What is awake of a path. Messages that a compaction took out of the model's view sleep: only their node is in memory. Everything else of
//! the path has its body, so memory is bounded by what the model sees, and a plugin's state or a label is at hand however old.

use super::{Node, Tree};
use pith_protocol::{Compaction, Entry, EntryBody, EntryId};
use std::sync::Arc;

use crate::kind::EntryKind;

/// The awake entries of a path root -> leaf, by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Awake(Vec<(u32, Arc<Entry>)>);

/// Where a line stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub index: u32,
    pub offset: u64,
    pub length: u32,
}

impl Place {
    pub fn of(index: u32, node: Node) -> Self {
        Self { index, offset: node.offset, length: node.length }
    }
}

impl Awake {
    pub fn push(&mut self, index: u32, entry: Arc<Entry>) {
        self.0.push((index, entry));
    }

    pub fn get(&self, index: u32) -> Option<&Arc<Entry>> {
        let at = self.0.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.0.get(at).map(|(_, entry)| entry)
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Arc<Entry>> + ExactSizeIterator {
        self.0.iter().map(|(_, entry)| entry)
    }

    /// Those from an index on.
    pub fn from(&self, index: u32) -> impl DoubleEndedIterator<Item = &Arc<Entry>> + ExactSizeIterator {
        let at = self.0.partition_point(|(present, _)| *present < index);
        self.0[at..].iter().map(|(_, entry)| entry)
    }

    /// Those before an index.
    pub fn before(&self, index: u32) -> impl DoubleEndedIterator<Item = &Arc<Entry>> + ExactSizeIterator {
        let at = self.0.partition_point(|(present, _)| *present < index);
        self.0[..at].iter().map(|(_, entry)| entry)
    }
}

impl Tree {
    /// What is awake of the path to `leaf`, with bodies from `self.awake` where they are there and from `read` where not. `read` gets places in
    /// the file's order and gives as many entries. `next` is a compaction that will stand at the leaf.
    pub fn awaken<E>(
        &self,
        leaf: Option<u32>,
        next: Option<&Compaction>,
        mut read: impl FnMut(&[Place]) -> Result<Vec<Arc<Entry>>, E>,
    ) -> Result<Awake, E> {
        let path = self.path_to(leaf);
        let keep = match next {
            Some(next) => self.first_kept(&path, path.len(), &next.first_kept_entry_id),
            None => self.newest_cut(&path, &mut read)?,
        };
        let is_awake = |(at, index): &(usize, &u32)| *at >= keep || !self.node(**index).kind.may_sleep();
        let wanted: Vec<u32> = path.iter().enumerate().filter(is_awake).map(|(_, index)| *index).collect();
        let missing: Vec<Place> = wanted
            .iter()
            .filter(|index| self.awake.get(**index).is_none())
            .map(|index| Place::of(*index, self.node(*index)))
            .collect();
        let mut fresh = read(&missing)?.into_iter();
        let bodies = wanted.into_iter().filter_map(|index| {
            let entry = self.awake.get(index).cloned().or_else(|| fresh.next())?;
            Some((index, entry))
        });
        Ok(Awake(bodies.collect()))
    }

    /// Where on the path the newest compaction's view begins; 0 where there is none.
    fn newest_cut<E>(
        &self,
        path: &[u32],
        read: &mut impl FnMut(&[Place]) -> Result<Vec<Arc<Entry>>, E>,
    ) -> Result<usize, E> {
        for (at, index) in path.iter().enumerate().rev() {
            let node = self.node(*index);
            if node.kind != EntryKind::Compaction {
                continue;
            }
            let entry = match self.awake.get(*index) {
                Some(entry) => Some(entry.clone()),
                None => read(&[Place::of(*index, node)])?.pop(),
            };
            // One that cannot be read is no compaction for the projection either.
            if let Some(EntryBody::Compaction(made)) = entry.as_ref().map(|entry| &entry.body) {
                return Ok(self.first_kept(path, at, &made.first_kept_entry_id));
            }
        }
        Ok(0)
    }

    /// The place of a compaction's first kept entry; its own where nothing before it is kept.
    fn first_kept(&self, path: &[u32], compaction: usize, id: &EntryId) -> usize {
        let before = &path[..compaction];
        self.find(id).and_then(|index| before.binary_search(&index).ok()).unwrap_or(compaction)
    }
}
