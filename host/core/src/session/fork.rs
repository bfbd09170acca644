//! Forks: a new file with the raw lines of a path, or of all, of this one. Ids, key order, numbers and unknown fields stay.

use super::{
    Session, SessionError, append, header_line,
    reading::{PIECE_BYTES, read_pieces},
};
use crate::{
    kind::EntryKind,
    ports::{Clock, Store},
    totals::tidy,
    tree::{LoadedTree, Place, Tree},
};
use pith_protocol::{Entry, EntryBody, EntryId, Header, Label, SESSION_VERSION, SessionId, iso_from_millis};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What of a session a fork has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForkPoint {
    /// The path to the leaf: a clone.
    #[default]
    Leaf,
    /// The path to this entry.
    At(EntryId),
    /// The path to the entry before this one; only the header where there is none.
    Before(EntryId),
    /// All branches.
    Whole,
}

/// A fork that is wanted.
#[derive(Clone, Debug)]
pub struct ForkOrder {
    /// Of what.
    pub at: ForkPoint,
    /// The new session's id.
    pub id: SessionId,
    /// The new session's working folder.
    pub cwd: String,
    /// The file that is forked, for the header.
    pub parent_session: Option<String>,
}

/// What is copied, decided before anything is.
struct Plan {
    header: Vec<u8>,
    places: Vec<Place>,
    /// The entry after which a mark goes, and whether it says that what is before it is trusted.
    mark: Option<(u32, bool)>,
    /// Which of the entries are labels, by index.
    label_lines: Vec<u32>,
    /// The labels that the entries have, by id.
    labels: BTreeMap<EntryId, String>,
    leaf: Option<EntryId>,
}

impl Session {
    /// Writes a fork of this session into a new store, in pieces of at most 1 MiB (a longer line alone), and gives how many entries it has. What
    /// others wrote stays foreign in it. The labels of its entries are those that they have here. This session may be used meanwhile.
    ///
    /// # Errors
    /// There is no such entry, a line cannot be read, or the new store cannot write: what it has then is to be thrown away.
    pub fn fork(&self, order: &ForkOrder, target: &dyn Store) -> Result<u64, SessionError> {
        let clock = self.clock().as_ref();
        let plan = plan(&self.lock().tree, order, clock)?;
        let mut copy = Copy::begin(&plan, target, clock);
        let mut rest = plan.places.as_slice();
        while !rest.is_empty() {
            // A piece at a time under the lock.
            let mut bytes: u64 = 0;
            let fits = |place: &&Place| {
                bytes = bytes.saturating_add(u64::from(place.length));
                bytes <= PIECE_BYTES
            };
            let (piece, after) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            rest = after;
            let state = self.lock();
            self.read_lines(&state, piece, &mut |place, line| {
                copy.line(place, &state.tree.copied(place.index, line), &|id| state.tree.find(id))
            })?;
        }
        copy.finish(&|id| self.lock().tree.find(id))
    }
}

impl LoadedTree {
    /// The same from a file that was only read. `source` reads it.
    ///
    /// # Errors
    /// As `Session::fork`.
    pub fn fork(
        &self,
        source: &dyn Store,
        order: &ForkOrder,
        clock: &dyn Clock,
        target: &dyn Store,
    ) -> Result<u64, SessionError> {
        let plan = plan(&self.tree, order, clock)?;
        let mut copy = Copy::begin(&plan, target, clock);
        read_pieces(source, &plan.places, &mut |place, line| {
            copy.line(place, &self.copied(place.index, line), &|id| self.tree.find(id))
        })?;
        copy.finish(&|id| self.tree.find(id))
    }
}

fn plan(tree: &Tree, order: &ForkOrder, clock: &dyn Clock) -> Result<Plan, SessionError> {
    let found = |id: &EntryId| tree.find(id).ok_or_else(|| SessionError::NotFound(id.clone()));
    let leaf = match &order.at {
        ForkPoint::Leaf | ForkPoint::Whole => tree.leaf(),
        ForkPoint::At(id) => Some(found(id)?),
        ForkPoint::Before(id) => tree.node(found(id)?).parent(),
    };
    let indices: Vec<u32> = match order.at {
        ForkPoint::Whole => (0..tree.count()).collect(),
        _ => tree.path_to(leaf),
    };
    let header = Header {
        kind: "session".to_owned(),
        version: SESSION_VERSION,
        id: order.id.clone(),
        timestamp: iso_from_millis(clock.now_millis()),
        cwd: order.cwd.clone(),
        parent_session: order.parent_session.clone(),
    };
    let of_kind = |kind| indices.iter().copied().filter(move |index| tree.node(*index).kind == kind);
    let labels = tree
        .labels()
        .filter(|(index, _)| indices.binary_search(index).is_ok())
        .map(|(index, label)| (tree.id(index), label.to_owned()))
        .collect();
    Ok(Plan {
        header: header_line(&header),
        places: indices.iter().map(|index| Place::of(*index, tree.node(*index))).collect(),
        mark: mark_of(tree, &indices, of_kind(EntryKind::Mark).next_back()),
        label_lines: of_kind(EntryKind::Label).collect(),
        labels,
        leaf: leaf.map(|leaf| tree.id(leaf)),
    })
}

/// What others wrote is that in the fork too, and what is trusted is: by a mark of its own, where the lines that are copied have none.
fn mark_of(tree: &Tree, indices: &[u32], last_mark: Option<u32>) -> Option<(u32, bool)> {
    let last_foreign = indices[..indices.partition_point(|index| *index < tree.foreign)].last();
    match (last_foreign, last_mark) {
        (Some(last), mark) => (mark != Some(tree.foreign)).then_some((*last, false)),
        (None, Some(mark)) if tree.foreign == 0 => Some((mark, true)),
        _ => None,
    }
}

/// A copy under way.
struct Copy<'a> {
    plan: &'a Plan,
    target: &'a dyn Store,
    clock: &'a dyn Clock,
    piece: Vec<u8>,
    entries: u64,
    /// The entry that the next one of ours stands at.
    leaf: Option<EntryId>,
    /// What the copied lines say of labels.
    said: BTreeMap<EntryId, Option<String>>,
    /// Of entries of ours.
    ids: BTreeSet<EntryId>,
}

impl<'a> Copy<'a> {
    fn begin(plan: &'a Plan, target: &'a dyn Store, clock: &'a dyn Clock) -> Self {
        let (piece, leaf) = (plan.header.clone(), plan.leaf.clone());
        Self { plan, target, clock, piece, entries: 0, leaf, said: BTreeMap::new(), ids: BTreeSet::new() }
    }

    /// One line of the plan, in its order.
    fn line(&mut self, place: Place, line: &[u8], find: &dyn Fn(&EntryId) -> Option<u32>) -> Result<(), SessionError> {
        if self.plan.label_lines.binary_search(&place.index).is_ok()
            && let Ok(Entry { body: EntryBody::Label(label), .. }) = Entry::read(line)
        {
            self.said.insert(label.target_id, label.label.as_deref().and_then(tidy));
        }
        self.push(line)?;
        if let Some((index, is_trusted)) = self.plan.mark
            && index == place.index
            && let Ok(entry) = Entry::read(line)
        {
            let is_last = self.leaf.as_ref() == Some(&entry.id);
            let entries = u32::try_from(self.entries).unwrap_or(u32::MAX);
            let mark = self.own(Some(entry.id), append::mark(is_trusted, entries), find)?;
            if is_last {
                self.leaf = Some(mark);
            }
        }
        Ok(())
    }

    /// An entry of ours.
    fn own(
        &mut self,
        parent_id: Option<EntryId>,
        body: EntryBody,
        find: &dyn Fn(&EntryId) -> Option<u32>,
    ) -> Result<EntryId, SessionError> {
        let id = loop {
            let id = EntryId::from_bits(self.clock.random_u32());
            if find(&id).is_none() && !self.ids.contains(&id) {
                break id;
            }
        };
        let timestamp = iso_from_millis(self.clock.now_millis());
        let entry = Arc::new(Entry { kind: body.kind().to_owned(), id: id.clone(), parent_id, timestamp, body });
        let line = serde_json::to_vec(&entry).map_err(SessionError::Unwritable)?;
        self.push(&line)?;
        self.ids.insert(id.clone());
        Ok(id)
    }

    fn push(&mut self, line: &[u8]) -> Result<(), SessionError> {
        let after = (self.piece.len() as u64).saturating_add(line.len() as u64);
        if after >= PIECE_BYTES && !self.piece.is_empty() {
            self.write()?;
        }
        self.piece.extend_from_slice(line);
        self.piece.push(b'\n');
        self.entries = self.entries.saturating_add(1);
        Ok(())
    }

    fn write(&mut self) -> Result<(), SessionError> {
        self.target.append(&self.piece)?;
        self.piece.clear();
        Ok(())
    }

    /// The labels that the copied lines do not give, or give wrongly; then the last piece. `find` looks an id up in the tree that is copied.
    fn finish(mut self, find: &dyn Fn(&EntryId) -> Option<u32>) -> Result<u64, SessionError> {
        let said = std::mem::take(&mut self.said);
        let is_here = |id: &EntryId| {
            let index = find(id)?;
            self.plan.places.binary_search_by_key(&index, |place| place.index).ok()
        };
        let mut wrong: Vec<(EntryId, Option<String>)> = said
            .iter()
            .filter(|(id, label)| self.plan.labels.get(*id) != label.as_ref() && is_here(id).is_some())
            .map(|(id, _)| (id.clone(), self.plan.labels.get(id).cloned()))
            .collect();
        let missing = self.plan.labels.iter().filter(|(id, _)| !said.contains_key(*id));
        wrong.extend(missing.map(|(id, label)| (id.clone(), Some(label.clone()))));
        for (target_id, label) in wrong {
            let body = EntryBody::Label(Label { target_id, label });
            self.leaf = Some(self.own(self.leaf.clone(), body, find)?);
        }
        self.write()?;
        Ok(self.entries)
    }
}
