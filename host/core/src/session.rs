//! A session: a cheap handle over a tree behind one mutex, held for one synchronous operation and never across an await.

use crate::{
    ports::{Clock, Store, StoreError},
    projection::{self, Projection, PromptState},
    tree::{Diagnostic, LoadedTree, Tree, entry_at},
};
use pith_protocol::{Entry, EntryBody, EntryId, Header, SESSION_VERSION, SessionId, iso_from_millis};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The handle.
#[derive(Clone)]
pub struct Session(Arc<Shared>);

struct Shared {
    id: SessionId,
    cwd: PathBuf,
    state: Mutex<State>,
    store: Box<dyn Store>,
    clock: Arc<dyn Clock>,
}

struct State {
    tree: Tree,
    /// Lines that go before the next append: the header of a new file, copied lines, a newline after a torn tail.
    owed: Vec<u8>,
}

/// A session that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Its file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry cannot be written as JSON.
    #[error("an entry cannot be written: {0}")]
    Unwritable(#[from] serde_json::Error),
}

impl Session {
    /// A new session. Nothing is on disk before the first append.
    pub fn create(id: SessionId, cwd: &Path, store: Box<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self::begin(id, cwd, None, store, clock)
    }

    fn begin(id: SessionId, cwd: &Path, parent: Option<String>, store: Box<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let header = Header {
            kind: "session".to_owned(),
            version: SESSION_VERSION,
            id: id.clone(),
            timestamp: iso_from_millis(clock.now_millis()),
            cwd: cwd.to_string_lossy().into_owned(),
            parent_session: parent,
        };
        let mut owed = serde_json::to_vec(&header).unwrap_or_default();
        owed.push(b'\n');
        let mut tree = Tree::new(header);
        tree.end = owed.len() as u64;
        let state = Mutex::new(State { tree, owed });
        Self(Arc::new(Shared { id, cwd: cwd.to_owned(), state, store, clock }))
    }

    /// Goes on in the file that was read. The next append begins on a fresh line.
    pub fn resume(
        loaded: LoadedTree,
        cwd: &Path,
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Vec<Diagnostic>), SessionError> {
        let LoadedTree { mut tree, diagnostics, torn } = loaded;
        let path = read_path(&tree, store.as_ref())?;
        tree.set_path(path);
        let id = tree.header.id.clone();
        let owed = if torn { b"\n".to_vec() } else { Vec::new() };
        let state = Mutex::new(State { tree, owed });
        Ok((Self(Arc::new(Shared { id, cwd: cwd.to_owned(), state, store, clock })), diagnostics))
    }

    /// Goes on in a new file from one that others wrote: its raw lines, as they are, then this session's own. `source` reads the
    /// other file; nothing is written before the first append.
    pub fn adopt(
        loaded: LoadedTree,
        source: &dyn Store,
        source_name: String,
        id: SessionId,
        cwd: &Path,
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Vec<Diagnostic>), SessionError> {
        let session = Self::begin(id, cwd, Some(source_name), store, clock);
        {
            let mut state = session.lock();
            let State { tree, owed } = &mut *state;
            let mut seen = Vec::new();
            for place in loaded.tree.all_places() {
                let line = source.read(place.offset, place.length as usize)?;
                let entry = Entry::read(&line)?;
                let offset = owed.len() as u64;
                tree.note(&entry, 0, offset, place.length, &mut seen);
                owed.extend_from_slice(&line);
                owed.push(b'\n');
            }
            tree.end = owed.len() as u64;
            let path = loaded_path(tree, owed)?;
            tree.set_path(path);
        }
        Ok((session, loaded.diagnostics))
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.0.id
    }

    /// Its working folder.
    pub fn cwd(&self) -> &Path {
        &self.0.cwd
    }

    /// The entry that the next one will be appended to.
    pub fn leaf_id(&self) -> Option<EntryId> {
        self.lock().tree.leaf_id()
    }

    /// The first line.
    pub fn header(&self) -> Header {
        self.lock().tree.header.clone()
    }

    /// Whether there is no entry yet.
    pub fn is_empty(&self) -> bool {
        self.lock().tree.is_empty()
    }

    /// Appends one entry at the leaf; it is in the file when this returns.
    pub fn append(&self, body: impl Into<EntryBody>) -> Result<Arc<Entry>, SessionError> {
        Ok(self.append_all(vec![body.into()])?.remove(0))
    }

    /// Appends entries in one write, each at the one before it. All or none: memory is as before where the write fails.
    pub fn append_all(&self, bodies: Vec<EntryBody>) -> Result<Vec<Arc<Entry>>, SessionError> {
        let mut state = self.lock();
        self.append_locked(&mut state, bodies.into_iter().map(|body| (None, body)).collect())
    }

    /// An id for an entry that `append_reserved` will write: known before the entry is.
    pub fn reserve_id(&self) -> EntryId {
        let state = self.lock();
        self.fresh_id(&state.tree, &[])
    }

    /// Appends entries under ids from `reserve_id` in one write, unless `check` says why not, looked at under the same lock. An id that was
    /// taken meanwhile is drawn again.
    pub fn append_reserved<E>(
        &self,
        entries: Vec<(EntryId, EntryBody)>,
        check: impl FnOnce(&mut dyn DoubleEndedIterator<Item = &Arc<Entry>>) -> Result<(), E>,
    ) -> Result<Result<Vec<Arc<Entry>>, E>, SessionError> {
        let mut state = self.lock();
        if let Err(refused) = check(&mut state.tree.path()) {
            return Ok(Err(refused));
        }
        self.append_locked(&mut state, entries.into_iter().map(|(id, body)| (Some(id), body)).collect()).map(Ok)
    }

    /// Appends an entry unless `refused` says why not, looked at under the same lock: a check and an append that nothing can come between.
    pub fn append_if<E>(
        &self,
        body: EntryBody,
        check: impl FnOnce(&mut dyn DoubleEndedIterator<Item = &Arc<Entry>>) -> Result<(), E>,
    ) -> Result<Result<Arc<Entry>, E>, SessionError> {
        let mut state = self.lock();
        if let Err(refused) = check(&mut state.tree.path()) {
            return Ok(Err(refused));
        }
        Ok(Ok(self.append_locked(&mut state, vec![(None, body)])?.remove(0)))
    }

    fn append_locked(
        &self,
        state: &mut State,
        bodies: Vec<(Option<EntryId>, EntryBody)>,
    ) -> Result<Vec<Arc<Entry>>, SessionError> {
        let mut lines = state.owed.clone();
        let mut added = Vec::with_capacity(bodies.len());
        let mut leaf = state.tree.leaf_id();
        for (reserved, body) in bodies {
            let is_free = |id: &EntryId| {
                !state.tree.contains(id) && !added.iter().any(|(entry, _): &(Arc<Entry>, u32)| entry.id == *id)
            };
            let id = reserved.filter(is_free).unwrap_or_else(|| self.fresh_id(&state.tree, &added));
            let entry = entry_at(leaf, id.clone(), iso_from_millis(self.0.clock.now_millis()), body);
            let before = lines.len();
            serde_json::to_writer(&mut lines, &entry)?;
            let length = u32::try_from(lines.len() - before).unwrap_or(u32::MAX);
            lines.push(b'\n');
            leaf = Some(id);
            added.push((Arc::new(entry), length));
        }
        self.0.store.append(&lines)?;
        state.owed.clear();
        Ok(added
            .into_iter()
            .map(|(entry, length)| {
                state.tree.append(entry.clone(), length);
                entry
            })
            .collect())
    }

    /// 32 random bits, drawn again where the file has them; a file of four thousand million entries does not come up.
    fn fresh_id(&self, tree: &Tree, added: &[(Arc<Entry>, u32)]) -> EntryId {
        loop {
            let id = EntryId::from_bits(self.0.clock.random_u32());
            if !tree.contains(&id) && !added.iter().any(|(entry, _)| entry.id == id) {
                return id;
            }
        }
    }

    /// Entries root -> leaf.
    pub fn path(&self) -> Vec<Arc<Entry>> {
        self.lock().tree.path().cloned().collect()
    }

    /// Looks at the entries root -> leaf under the lock, without copying the list.
    pub fn with_path<T>(&self, look: impl FnOnce(&mut dyn DoubleEndedIterator<Item = &Arc<Entry>>) -> T) -> T {
        look(&mut self.lock().tree.path())
    }

    /// What the model shall see.
    pub fn project(&self) -> Projection {
        projection::project(&self.path())
    }

    /// Prompt and tools as the path's system messages left them.
    pub fn prompt_state(&self) -> PromptState {
        PromptState::replay(&self.path())
    }

    /// Makes all that was appended durable.
    pub fn sync(&self) -> Result<(), SessionError> {
        Ok(self.0.store.sync()?)
    }

    /// Time, for messages.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// A panic elsewhere cannot leave the tree half changed: memory changes only after the write, by pushes that do not fail.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_path(tree: &Tree, store: &dyn Store) -> Result<Vec<(u32, Arc<Entry>)>, SessionError> {
    tree.places()
        .into_iter()
        .map(|(index, offset, length)| {
            let line = store.read(offset, length as usize)?;
            Ok((index, Arc::new(Entry::read(&line)?)))
        })
        .collect()
}

fn loaded_path(tree: &Tree, lines: &[u8]) -> Result<Vec<(u32, Arc<Entry>)>, SessionError> {
    tree.places()
        .into_iter()
        .map(|(index, offset, length)| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let line = lines.get(start..start.saturating_add(length as usize)).unwrap_or_default();
            Ok((index, Arc::new(Entry::read(line)?)))
        })
        .collect()
}
