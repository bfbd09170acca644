//! Moving the leaf. A move is an entry at its target, so that the last line of the file is where the session goes on, also for pi.

use super::{Session, SessionError, State, append::At};
use crate::kind::LEAF;
use pith_protocol::{Custom, EntryBody, EntryId};
use serde_json::json;

/// What a move came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The leaf before; none where nothing was there.
    pub from: Option<EntryId>,
    /// The entry that the session goes on from; none before the first.
    pub to: Option<EntryId>,
    /// The deepest entry that both paths have.
    pub common: Option<EntryId>,
    /// The entries that were left: after `common` up to `from`, in order.
    pub left: Vec<EntryId>,
}

impl Session {
    /// Moves the leaf to an entry of any branch, or before the first. Nothing is written where it is there already.
    ///
    /// # Errors
    /// There is no such entry, its path cannot be read, or as `append`.
    pub fn move_leaf(&self, to: Option<&EntryId>) -> Result<Moved, SessionError> {
        let mut state = self.lock();
        let (target, moved) = state.way(to)?;
        if state.tree.leaf() != target {
            let data = json!({ "from": moved.from });
            let body = EntryBody::Custom(Custom { custom_type: LEAF.to_owned(), data, publisher: None });
            self.append_locked(&mut state, At::Parent(target), vec![(None, body)])?;
        }
        Ok(moved)
    }

    /// What `move_leaf` would come to; nothing moves.
    ///
    /// # Errors
    /// There is no such entry.
    pub fn way_to(&self, to: Option<&EntryId>) -> Result<Moved, SessionError> {
        Ok(self.lock().way(to)?.1)
    }
}

impl State {
    /// The way from the leaf to an entry, and that entry's index.
    fn way(&self, to: Option<&EntryId>) -> Result<(Option<u32>, Moved), SessionError> {
        let target = self.index_of(to)?;
        let tree = &self.tree;
        let from = tree.leaf();
        let common = tree.common(from, target);
        let path = tree.path_to(from);
        let kept = path.partition_point(|index| common.is_some_and(|common| *index <= common));
        let moved = Moved {
            from: tree.leaf_id(),
            to: to.cloned(),
            common: common.map(|common| tree.id(common)),
            left: path[kept..].iter().map(|index| tree.id(*index)).collect(),
        };
        Ok((target, moved))
    }
}
