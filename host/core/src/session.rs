//! A session: a cheap handle over a tree behind one mutex, held for one synchronous operation and never across an await.
//!
//! Here: how one begins and is looked at. `append` writes, `leaf` moves, `marks` names things, `reading` reads what is not in memory, `fork`
//! copies.

mod append;
mod fork;
mod leaf;
mod marks;
mod reading;

pub use append::{UNSAVED_LIMIT_BYTES, Unsaved};
pub use fork::{ForkOrder, ForkPoint};
pub use leaf::Moved;
pub use reading::SetAside;

use crate::{
    line::LINE_LIMIT_BYTES,
    ports::{Clock, Store, StoreError},
    projection::{self, Projection},
    prompt_state::PromptState,
    totals::Totals,
    tree::{DIAGNOSTICS_KEPT, Diagnostic, LoadedTree, Tree},
};
use append::Owed;
use pith_protocol::{Entry, EntryId, Header, SESSION_VERSION, SessionId, iso_from_millis};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Whose the entries are that were in a file when it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// This user's store wrote the file. What a mark in it says is of others stays so: an adopted file is still that when it is opened again.
    Own,
    /// Others wrote it, or may have changed it. The first append leaves a mark, so that they stay foreign when the file is opened again.
    #[default]
    Foreign,
    /// Others wrote it, and the user said that they are to be trusted. The first append leaves a mark of that, where one says otherwise.
    Trusted,
}

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
    owed: Owed,
    /// What the next append says of what stands before it: that it is trusted, or not.
    mark: Option<bool>,
}

/// Something that a session cannot do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Its file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry cannot be written as JSON.
    #[error("an entry cannot be written: {0}")]
    Unwritable(#[from] serde_json::Error),
    /// An entry is longer than a line that is read.
    #[error("an entry of {bytes} bytes is too long for a session, which holds entries of up to {limit}", limit = LINE_LIMIT_BYTES)]
    TooLong {
        /// As a line.
        bytes: usize,
    },
    /// A line is not what it was when the file was loaded.
    #[error("entry {id} cannot be read back: {source}")]
    Changed {
        /// The entry.
        id: EntryId,
        /// How.
        #[source]
        source: serde_json::Error,
    },
    /// The store cannot write, and what waits in memory is as much as may wait.
    #[error("nothing more can be kept in memory ({bytes} bytes wait to be saved): {source}")]
    TooMuchUnsaved {
        /// What waits, in bytes.
        bytes: u64,
        /// Why it waits.
        #[source]
        source: StoreError,
    },
    /// The session has as many entries as it may have.
    #[error("a session has at most {limit} entries; go on in a new one", limit = crate::tree::ENTRIES_LIMIT)]
    TooManyEntries,
    /// No such entry.
    #[error("there is no entry {0} in this session")]
    NotFound(EntryId),
    /// A `context_edit` cannot be of this one.
    #[error("entry {id} cannot be changed for the model: {why}")]
    NotEditable {
        /// The entry.
        id: EntryId,
        /// Why.
        why: &'static str,
    },
    /// A file of an older version, or without its header, is only read.
    #[error("a session file of format version {0} is only read; it goes on in a new file")]
    OldFormat(u32),
}

impl Session {
    /// A new session. Nothing is on disk before the first append.
    pub fn create(id: SessionId, cwd: &Path, store: Box<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let header = new_header(id, cwd, None, clock.as_ref());
        let owed = Owed::starting(header_line(&header), 0);
        let mut tree = Tree::new(header);
        tree.end = owed.end();
        Self::of(tree, owed, None, cwd, store, clock)
    }

    fn of(
        tree: Tree,
        owed: Owed,
        mark: Option<bool>,
        cwd: &Path,
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let id = tree.header.id.clone();
        let state = Mutex::new(State { tree, owed, mark });
        Self(Arc::new(Shared { id, cwd: cwd.to_owned(), state, store, clock }))
    }

    /// Goes on in the file that was read. The next append begins on a fresh line.
    ///
    /// # Errors
    /// The file can only be adopted (see `LoadedTree::is_current`), or its lines cannot be read back.
    pub fn resume(
        loaded: LoadedTree,
        cwd: &Path,
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        trust: Trust,
    ) -> Result<(Self, Vec<Diagnostic>), SessionError> {
        if !loaded.is_current() {
            return Err(SessionError::OldFormat(loaded.version()));
        }
        let LoadedTree { mut tree, diagnostics, torn, .. } = loaded;
        let start = if torn { b"\n".to_vec() } else { Vec::new() };
        let owed = Owed::starting(start, tree.end.saturating_sub(u64::from(torn)));
        let mark = trusted(&mut tree, trust);
        let session = Self::of(tree, owed, mark, cwd, store, clock);
        let unreadable = session.wake()?;
        Ok((session, diagnostics.into_iter().chain(unreadable).collect()))
    }

    /// Goes on in a new file from one that others wrote: its raw lines, as they are (those of an older version as the present one has them), then
    /// this session's own. `source` reads the other file; nothing is written before the first append.
    ///
    /// # Errors
    /// The other file's lines cannot be read back.
    pub fn adopt(
        loaded: LoadedTree,
        source: &dyn Store,
        source_name: String,
        id: SessionId,
        cwd: &Path,
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        trust: Trust,
    ) -> Result<(Self, Vec<Diagnostic>), SessionError> {
        let header = new_header(id, cwd, Some(source_name), clock.as_ref());
        let mut lines = header_line(&header);
        let mut places = Vec::with_capacity(loaded.tree.count() as usize);
        loaded.each_line(source, &mut |_, line| {
            places.push((lines.len() as u64, u32::try_from(line.len()).unwrap_or(u32::MAX)));
            lines.extend_from_slice(line);
            lines.push(b'\n');
            Ok(())
        })?;
        let diagnostics = loaded.diagnostics;
        let mut tree = loaded.tree.moved_to(header, |index, _| places.get(index as usize).copied().unwrap_or_default());
        let owed = Owed::starting(lines, 0);
        tree.end = owed.end();
        let mark = trusted(&mut tree, trust);
        let session = Self::of(tree, owed, mark, cwd, store, clock);
        let unreadable = session.wake()?;
        Ok((session, diagnostics.into_iter().chain(unreadable).collect()))
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

    /// The entries root -> leaf that are awake: all but the messages that a compaction took out of the model's view (`walk_path` has those too).
    pub fn path(&self) -> Vec<Arc<Entry>> {
        self.with_path(|path| path.cloned().collect())
    }

    /// Looks at the same under the lock, without copying the list.
    pub fn with_path<T>(&self, look: impl FnOnce(&mut dyn DoubleEndedIterator<Item = &Arc<Entry>>) -> T) -> T {
        look(&mut self.lock().tree.awake.entries())
    }

    /// The same without what others wrote (see `Trust`): what plugins' state is read from.
    pub fn with_own_path<T>(&self, look: impl FnOnce(&mut dyn DoubleEndedIterator<Item = &Arc<Entry>>) -> T) -> T {
        let state = self.lock();
        look(&mut state.tree.awake.from(state.tree.foreign))
    }

    /// What the model shall see.
    pub fn project(&self) -> Projection {
        projection::project(&self.path())
    }

    /// Prompt and tools as the path's system messages left them. In a foreign file they are what it says: `PromptState::patch_to` what holds here,
    /// before the model is asked.
    pub fn prompt_state(&self) -> PromptState {
        PromptState::replay(&self.path())
    }

    /// What the whole file comes to, all branches.
    pub fn totals(&self) -> Totals {
        self.lock().tree.tally.totals()
    }

    /// Time, for messages.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// A panic elsewhere cannot leave the tree half changed: memory changes only after the write, by pushes that do not fail.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is awake of the path, and says what of it is not as it should be.
    fn wake(&self) -> Result<Vec<Diagnostic>, SessionError> {
        let mut state = self.lock();
        let leaf = state.tree.leaf();
        let awake = self.awaken(&state, leaf, None)?;
        let unreadable = awake.entries().filter(|entry| entry.is_unreadable());
        let mut told: Vec<Diagnostic> = unreadable
            .take(DIAGNOSTICS_KEPT)
            .map(|entry| Diagnostic::Unreadable { id: entry.id.clone(), kind: entry.kind.clone() })
            .collect();
        let path: Vec<Arc<Entry>> = awake.entries().cloned().collect();
        told.extend(projection::lost_cut(&path).map(|(id, first_kept)| Diagnostic::LostCut { id, first_kept }));
        state.tree.set_leaf(leaf, awake);
        Ok(told)
    }
}

/// Sets whose the entries are; gives the mark that the first append leaves.
fn trusted(tree: &mut Tree, trust: Trust) -> Option<bool> {
    let count = tree.count();
    match trust {
        Trust::Own => None,
        Trust::Foreign => {
            tree.foreign = count;
            (count > 0).then_some(false)
        }
        Trust::Trusted => {
            let was_foreign = std::mem::take(&mut tree.foreign) > 0;
            was_foreign.then_some(true)
        }
    }
}

fn new_header(id: SessionId, cwd: &Path, parent_session: Option<String>, clock: &dyn Clock) -> Header {
    Header {
        kind: "session".to_owned(),
        version: SESSION_VERSION,
        id,
        timestamp: iso_from_millis(clock.now_millis()),
        cwd: cwd.to_string_lossy().into_owned(),
        parent_session,
    }
}

fn header_line(header: &Header) -> Vec<u8> {
    // Strings and a number: JSON has a form for each.
    let mut line = serde_json::to_vec(header).unwrap_or_default();
    line.push(b'\n');
    line
}
