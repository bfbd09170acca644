//! Appending: lines are written before memory changes; what a store cannot write now waits in memory, in order, and goes with the next write.

use super::{Session, SessionError, State};
use crate::{
    kind::{FOREIGN, TRUSTED},
    line::LINE_LIMIT_BYTES,
    ports::{StoreError, StoreFault},
    tree::{Awake, ENTRIES_LIMIT, Tree},
};
use pith_protocol::{Compaction, Custom, Entry, EntryBody, EntryId, iso_from_millis};
use serde_json::json;
use std::sync::Arc;

/// What may wait in memory for a store that cannot write, in bytes.
pub const UNSAVED_LIMIT_BYTES: u64 = 64 << 20;

/// What is in memory and not in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved {
    /// Entries.
    pub entries: u64,
    /// Their lines, in bytes.
    pub bytes: u64,
    /// The store's words of why.
    pub reason: String,
}

/// Lines that go before the next append: the header of a new file, copied lines, a newline after a torn tail, entries that could not be
/// written.
pub(super) struct Owed {
    lines: Vec<u8>,
    /// Where in the file they will stand.
    at: u64,
    /// How many of the bytes are no entry's that was appended here.
    start: usize,
    entries: u64,
    /// Why the last write did not happen.
    reason: Option<String>,
}

impl Owed {
    pub fn starting(lines: Vec<u8>, at: u64) -> Self {
        Self { start: lines.len(), lines, at, entries: 0, reason: None }
    }

    /// Where the file ends once they are in it.
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.lines.len() as u64)
    }

    /// The bytes of a place, where it is one of these.
    pub fn get(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        self.lines.get(start..start.checked_add(length)?)
    }

    fn waiting(&self) -> u64 {
        self.lines.len().saturating_sub(self.start) as u64
    }

    /// They are in the file.
    fn written(&mut self) {
        *self = Self::starting(Vec::new(), self.end());
    }
}

/// Where entries are appended.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// At the leaf.
    Leaf,
    /// At this entry, or before the first: the leaf moves there.
    Parent(Option<u32>),
}

impl Session {
    /// Appends one entry at the leaf. It is in the file when this returns, or waits in memory (see `unsaved`).
    ///
    /// # Errors
    /// The entry is too long, the file was changed by others or holds no more, or too much waits already. Memory is as before.
    pub fn append(&self, body: impl Into<EntryBody>) -> Result<Arc<Entry>, SessionError> {
        Ok(self.append_all(vec![body.into()])?.remove(0))
    }

    /// Appends entries in one write, each at the one before it. All or none.
    ///
    /// # Errors
    /// As `append`.
    pub fn append_all(&self, bodies: Vec<EntryBody>) -> Result<Vec<Arc<Entry>>, SessionError> {
        self.append_locked(&mut self.lock(), At::Leaf, unreserved(bodies))
    }

    /// Appends entries at another entry, or as a new root, in one write: the leaf moves there with it.
    ///
    /// # Errors
    /// There is no such entry, what is there cannot be read, or as `append`. Leaf and memory are as before.
    pub fn append_at(&self, parent: Option<&EntryId>, bodies: Vec<EntryBody>) -> Result<Vec<Arc<Entry>>, SessionError> {
        let mut state = self.lock();
        let parent = state.index_of(parent)?;
        self.append_locked(&mut state, At::Parent(parent), unreserved(bodies))
    }

    /// An id for an entry that `append_reserved` will write: known before the entry is.
    pub fn reserve_id(&self) -> EntryId {
        self.fresh_id(&self.lock().tree, &[])
    }

    /// Appends entries under ids from `reserve_id` in one write, unless `check` says why not, looked at under the same lock: it sees the path
    /// without what others wrote. An id that was taken meanwhile is drawn again.
    ///
    /// # Errors
    /// As `append`.
    pub fn append_reserved<E>(
        &self,
        entries: Vec<(EntryId, EntryBody)>,
        check: impl FnOnce(&mut dyn DoubleEndedIterator<Item = &Arc<Entry>>) -> Result<(), E>,
    ) -> Result<Result<Vec<Arc<Entry>>, E>, SessionError> {
        let mut state = self.lock();
        if let Err(refused) = check(&mut state.tree.awake.from(state.tree.foreign)) {
            return Ok(Err(refused));
        }
        let entries = entries.into_iter().map(|(id, body)| (Some(id), body)).collect();
        self.append_locked(&mut state, At::Leaf, entries).map(Ok)
    }

    /// Appends an entry unless `check` says why not, looked at under the same lock: a check and an append that nothing can come between. It
    /// sees the path without what others wrote.
    ///
    /// # Errors
    /// As `append`.
    pub fn append_if<E>(
        &self,
        body: EntryBody,
        check: impl FnOnce(&mut dyn DoubleEndedIterator<Item = &Arc<Entry>>) -> Result<(), E>,
    ) -> Result<Result<Arc<Entry>, E>, SessionError> {
        let mut state = self.lock();
        if let Err(refused) = check(&mut state.tree.awake.from(state.tree.foreign)) {
            return Ok(Err(refused));
        }
        Ok(Ok(self.append_locked(&mut state, At::Leaf, vec![(None, body)])?.remove(0)))
    }

    /// Writes what waits, where something does.
    ///
    /// # Errors
    /// It still cannot be written; it waits on.
    pub fn save(&self) -> Result<(), SessionError> {
        let mut state = self.lock();
        if state.owed.reason.is_none() {
            return Ok(());
        }
        self.write(&mut state).map_err(SessionError::Store)
    }

    /// Makes all that was appended durable; what waits is written first. What the store cannot do now is no error: a full disk does not end a
    /// run. The store tells people, what is not written waits on (see `unsaved`), and it is tried again.
    ///
    /// # Errors
    /// The file was changed by others, or holds no more.
    pub fn sync(&self) -> Result<(), SessionError> {
        let synced = match self.save() {
            Ok(()) => self.0.store.sync().map_err(SessionError::Store),
            unsaved => unsaved,
        };
        match synced {
            Err(SessionError::Store(error)) if error.kind == StoreFault::Unwritable => Ok(()),
            other => other,
        }
    }

    /// What was appended and is not in the file, because the store could not write: it is tried again with the next append, `save` and `sync`.
    pub fn unsaved(&self) -> Option<Unsaved> {
        let state = self.lock();
        let reason = state.owed.reason.clone()?;
        Some(Unsaved { entries: state.owed.entries, bytes: state.owed.waiting(), reason })
    }

    pub(super) fn append_locked(
        &self,
        state: &mut State,
        at: At,
        bodies: Vec<(Option<EntryId>, EntryBody)>,
    ) -> Result<Vec<Arc<Entry>>, SessionError> {
        // One more for the mark.
        let more = u32::try_from(bodies.len()).unwrap_or(u32::MAX).saturating_add(1);
        if state.tree.count().saturating_add(more) > ENTRIES_LIMIT {
            return Err(SessionError::TooManyEntries);
        }
        let (base, is_moved) = match at {
            At::Leaf => (state.tree.leaf(), false),
            At::Parent(parent) => (parent, parent != state.tree.leaf()),
        };
        // What is awake from here on is read before anything is written.
        let compaction = bodies.iter().rev().find_map(|(_, body)| match body {
            EntryBody::Compaction(made) => Some(made),
            _ => None,
        });
        let awake = match (is_moved, compaction) {
            (false, None) => None,
            (_, compaction) => Some(self.awaken(state, base, compaction)?),
        };
        let mark = state.mark.map(|is_trusted| (None, mark(is_trusted, state.tree.count())));
        let marks = usize::from(mark.is_some());
        let before = state.owed.lines.len();
        let parent = base.map(|base| state.tree.id(base));
        let added = self.write_lines(state, parent, mark.into_iter().chain(bodies)).inspect_err(|_| {
            state.owed.lines.truncate(before);
        })?;
        state.owed.entries = state.owed.entries.saturating_add(added.len() as u64);
        self.flush(state, before, added.len() as u64)?;
        state.mark = None;
        if let Some(awake) = awake {
            state.tree.set_leaf(base, awake);
        }
        for (entry, length) in &added {
            state.tree.append(entry, *length);
        }
        Ok(added.into_iter().skip(marks).map(|(entry, _)| entry).collect())
    }

    /// Adds the entries' lines to what is owed.
    fn write_lines(
        &self,
        state: &mut State,
        mut parent: Option<EntryId>,
        bodies: impl Iterator<Item = (Option<EntryId>, EntryBody)>,
    ) -> Result<Vec<(Arc<Entry>, u32)>, SessionError> {
        let mut added: Vec<(Arc<Entry>, u32)> = Vec::new();
        for (reserved, body) in bodies {
            let is_free =
                |id: &EntryId| state.tree.find(id).is_none() && !added.iter().any(|(entry, _)| entry.id == *id);
            let id = reserved.filter(is_free).unwrap_or_else(|| self.fresh_id(&state.tree, &added));
            let timestamp = iso_from_millis(self.0.clock.now_millis());
            let entry = Entry { kind: body.kind().to_owned(), id: id.clone(), parent_id: parent, timestamp, body };
            let lines = &mut state.owed.lines;
            let before = lines.len();
            serde_json::to_writer(&mut *lines, &entry).map_err(SessionError::Unwritable)?;
            let bytes = lines.len().saturating_sub(before);
            let length = u32::try_from(bytes).ok().filter(|_| bytes <= LINE_LIMIT_BYTES);
            let length = length.ok_or(SessionError::TooLong { bytes })?;
            lines.push(b'\n');
            parent = Some(id);
            added.push((Arc::new(entry), length));
        }
        Ok(added)
    }

    /// Writes all that is owed, of which what follows `before` is new. Where the store cannot write now, it stays owed.
    fn flush(&self, state: &mut State, before: usize, added: u64) -> Result<(), SessionError> {
        let Err(error) = self.write(state) else { return Ok(()) };
        let bytes = state.owed.waiting();
        if error.kind == StoreFault::Unwritable && bytes <= UNSAVED_LIMIT_BYTES {
            return Ok(());
        }
        state.owed.lines.truncate(before);
        state.owed.entries = state.owed.entries.saturating_sub(added);
        if state.owed.entries == 0 {
            state.owed.reason = None;
        }
        Err(match error.kind {
            StoreFault::Unwritable => SessionError::TooMuchUnsaved { bytes: state.owed.waiting(), source: error },
            _ => SessionError::Store(error),
        })
    }

    fn write(&self, state: &mut State) -> Result<(), StoreError> {
        match self.0.store.append(&state.owed.lines) {
            Ok(()) => {
                state.owed.written();
                Ok(())
            }
            Err(error) => {
                state.owed.reason = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// 32 random bits, drawn again where the file has them; a file of four thousand million entries does not come up.
    pub(super) fn fresh_id(&self, tree: &Tree, added: &[(Arc<Entry>, u32)]) -> EntryId {
        loop {
            let id = EntryId::from_bits(self.0.clock.random_u32());
            if tree.find(&id).is_none() && !added.iter().any(|(entry, _)| entry.id == id) {
                return id;
            }
        }
    }

    /// What is awake of the path to `leaf`, read where it is not in memory.
    pub(super) fn awaken(
        &self,
        state: &State,
        leaf: Option<u32>,
        next: Option<&Compaction>,
    ) -> Result<Awake, SessionError> {
        state.tree.awaken(leaf, next, |places| self.read_entries(state, places))
    }
}

impl State {
    /// The index of an entry that a caller names; none before the first.
    pub(super) fn index_of(&self, id: Option<&EntryId>) -> Result<Option<u32>, SessionError> {
        let found = |id: &EntryId| self.tree.find(id).ok_or_else(|| SessionError::NotFound(id.clone()));
        id.map(found).transpose()
    }
}

fn unreserved(bodies: Vec<EntryBody>) -> Vec<(Option<EntryId>, EntryBody)> {
    bodies.into_iter().map(|body| (None, body)).collect()
}

/// The entry that says whose the ones before it in the file are.
pub(super) fn mark(is_trusted: bool, entries: u32) -> EntryBody {
    let custom_type = if is_trusted { TRUSTED } else { FOREIGN }.to_owned();
    EntryBody::Custom(Custom { custom_type, data: json!({ "entries": entries }), publisher: None })
}
