//! Session files: created at the first append, locked by whoever writes, one `write(2)` for each append. A file that was deleted is written
//! again; where another program wrote to it, the session goes on in a file of its own.
//!
//! `open` is the file, `load` reads it, `checks` and `pieces` say what of it is as it was and where; `noted` tells the index; `others` are
//! stores that are no file of ours.

mod checks;
mod load;
mod noted;
mod open;
mod others;
mod pieces;

pub use load::LoadError;
pub(crate) use noted::Noted;
pub(crate) use others::{MemoryStore, SourceFile};

use crate::{
    clock::{SystemClock, new_session_id},
    notice::one_line,
};
use load::{Loaded, load};
use open::{Open, Trouble, is_same, lock_opened};
use pith_core::{Clock, LoadedTree, Outbox, Store, StoreError, StoreFault, Totals};
use pith_os::{OpenError, Root};
use pith_protocol::{Event, Header, SessionId, iso_from_millis};
use std::{
    fs::Metadata,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The largest session file that is read or written, in bytes: years of work. What of it must be in memory is bounded by the number of its
/// entries and by its present path, not by this.
pub const SESSION_FILE_LIMIT_BYTES: u64 = 16 << 30;
/// The largest session file of others that is continued, in bytes: its lines are in memory until the first append.
pub const FOREIGN_FILE_LIMIT_BYTES: u64 = 256 << 20;

/// When what was appended is made durable: written to the disk itself, where it outlives a power failure. A process that is killed loses
/// nothing in any of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionSync {
    /// Whenever the system does it, mostly within half a minute.
    Never,
    /// At the end of every turn.
    #[default]
    Turn,
    /// With every entry.
    Append,
}

impl SessionSync {
    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "never" => Some(Self::Never),
            "turn" => Some(Self::Turn),
            "append" => Some(Self::Append),
            _ => None,
        }
    }
}

/// One session's file. Cheap to clone: all clones are of one.
#[derive(Clone)]
pub(crate) struct FileStore(Arc<Inner>);

struct Inner {
    sync: SessionSync,
    /// Where people are told what happened to the file.
    outbox: Outbox,
    state: Mutex<State>,
}

struct State {
    path: PathBuf,
    open: Option<Open>,
    noted: Noted,
    /// People know that it cannot be written now.
    is_failing: bool,
    /// People know that it could not be made durable.
    is_undurable: bool,
}

impl FileStore {
    /// A file that is created at the first append.
    pub fn new(path: PathBuf, sync: SessionSync) -> Self {
        Self::of(path, None, sync)
    }

    /// A file that is there, relative to `root`: locked first, then read, so that nothing comes between.
    pub fn open(root: &Root, file: &Path, sync: SessionSync) -> Result<(Self, LoadedTree), LoadError> {
        let path = root.path().join(file);
        let failed = |source| LoadError::Read { path: path.clone(), source };
        let reader = root.open_file(file)?;
        let writer = match root.open_append(file) {
            Ok(writer) => Some(writer),
            // It is read, and what is added waits in memory.
            Err(error) if is_read_only(&error) => None,
            Err(error) => return Err(error.into()),
        };
        lock_opened(writer.as_ref().unwrap_or(&reader), &path)?;
        if let Some(writer) = &writer
            && !is_same(writer, &reader).map_err(failed)?
        {
            return Err(LoadError::Replaced { path });
        }
        let mut loaded = load(&reader, &path, SESSION_FILE_LIMIT_BYTES, "a session")?;
        let open = Open::loaded(writer, reader, &mut loaded);
        let Loaded { tree, .. } = loaded;
        Ok((Self::of(path, Some(open), sync), tree))
    }

    fn of(path: PathBuf, open: Option<Open>, sync: SessionSync) -> Self {
        let noted = Noted::nowhere();
        let state = Mutex::new(State { path, open, noted, is_failing: false, is_undurable: false });
        Self(Arc::new(Inner { sync, outbox: Outbox::new(), state }))
    }

    /// The same, telling people through `outbox`; else nobody is told. To be called before it is shared.
    pub fn telling(mut self, outbox: Outbox) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.outbox = outbox;
        }
        self
    }

    /// The same, noted in an index.
    pub fn noted(self, noted: Noted) -> Self {
        self.lock().noted = noted;
        self
    }

    /// Where it is, or will be. It changes where the session must go on elsewhere.
    pub fn path(&self) -> PathBuf {
        self.lock().path.clone()
    }

    /// What the system says of the file; none before it is there, and where others changed it.
    pub fn met(&self) -> Option<Metadata> {
        self.lock().open.as_ref()?.met()
    }

    /// A sum of what is in the file.
    pub fn sum(&self) -> Option<u64> {
        Some(self.lock().open.as_ref()?.sum())
    }

    /// What the session comes to as it is in the file now: for the index, which is told at once.
    pub fn tell_totals(&self, totals: Totals) {
        let State { path, open, noted, .. } = &mut *self.lock();
        if let Some(open) = open {
            noted.totals(path, open, totals);
        }
    }

    /// The same, told when the file is left.
    pub fn keep_totals(&self, totals: Totals) {
        let State { open, noted, .. } = &mut *self.lock();
        if let Some(open) = open {
            noted.keep_totals(open, totals);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is one assignment after the write.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, message: &str) {
        self.outbox.offer(Event::Notice { message: one_line(message) });
    }

    fn append(&self, state: &mut State, lines: &[u8]) -> Result<(), Failure> {
        if state.open.is_none() {
            let header = first_header(lines);
            state.noted.before_creation(&state.path, &header);
            state.open = Some(Open::create(&state.path, header).map_err(|error| ("created", error.into()))?);
        } else {
            self.keep_name(state)?;
        }
        let State { path, open: Some(open), noted, .. } = &mut *state else { return Ok(()) };
        noted.before_append(path, open);
        let mut appended = open.append(path, lines);
        if matches!(appended, Err(Trouble::Changed)) {
            self.go_on_elsewhere(state, "another program wrote to it")?;
            let State { path, open: Some(open), .. } = &mut *state else { return Ok(()) };
            appended = open.append(path, lines);
        }
        let State { path, open: Some(open), noted, .. } = &mut *state else { return Ok(()) };
        if let Err(trouble) = appended {
            // Nothing of the session is on disk: leave no empty file behind, and create it afresh at the next try.
            if open.is_empty() {
                let _ = std::fs::remove_file(path);
            }
            if open.is_nothing() {
                state.open = None;
            }
            return Err(("written", trouble));
        }
        noted.after_append(path, open);
        Ok(())
    }

    /// Where the file was deleted: writes it again, whole, at its path, and goes on there. Without it the rest of the session would go
    /// into a file without a name, and be gone with the process.
    fn keep_name(&self, state: &mut State) -> Result<(), Failure> {
        const AGAIN: &str = "written again after it was deleted";
        let again = |error: io::Error| (AGAIN, Trouble::Io(error));
        let State { path, open: Some(open), .. } = &mut *state else { return Ok(()) };
        if !open.is_deleted(path).map_err(again)? {
            return Ok(());
        }
        if open.met().is_none() {
            return self.go_on_elsewhere(state, "it was changed, then deleted");
        }
        match open.copy_to(path, None) {
            Ok((fresh, _)) => {
                state.open = Some(fresh);
                let path = state.path.display();
                self.tell(&format!("the session file {path} was deleted; it was written again, whole"));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.go_on_elsewhere(state, "it was deleted, and another file is in its place")
            }
            Err(error) => Err(again(error)),
        }
    }

    /// Goes on in a new file with a name and an id of its own. What stands in the old one's place is left as it is.
    fn go_on_elsewhere(&self, state: &mut State, why: &str) -> Result<(), Failure> {
        let State { path, open: Some(open), noted, .. } = &mut *state else { return Ok(()) };
        let id = new_session_id();
        let time = iso_from_millis(SystemClock.now_millis());
        let new_path = path.with_file_name(file_name(&time, &id));
        let parent_session = Some(path.display().to_string());
        let header = Header { id: id.clone(), timestamp: time, parent_session, ..open.header.clone() };
        let (fresh, lost) =
            open.copy_to(&new_path, Some(header)).map_err(|error| ("continued in another file", error.into()))?;
        noted.moved((path, open), (&new_path, &fresh));
        let lost = match lost {
            0 => String::new(),
            lost => format!("; {lost} bytes that were overwritten are not in it"),
        };
        self.tell(&format!(
            "the session goes on in {new} (session {id}): {old} is left as it is, because {why}{lost}",
            new = new_path.display(),
            old = path.display(),
        ));
        state.open = Some(fresh);
        state.path = new_path;
        Ok(())
    }

    fn sync(&self, state: &mut State) -> Result<(), Failure> {
        self.keep_name(state)?;
        match (&mut state.open, self.sync) {
            (Some(open), SessionSync::Turn | SessionSync::Append) => {
                open.sync(&state.path).map_err(|error| ("made durable", error.into()))
            }
            _ => Ok(()),
        }
    }

    /// People are told once that it cannot be made durable. That it later can is no news: what the system could not write once it may have
    /// thrown away.
    fn tell_durable(&self, state: &mut State, synced: &Result<(), StoreError>) {
        if let Err(error) = synced
            && !std::mem::replace(&mut state.is_undurable, true)
        {
            self.tell(&format!("{error}: a power failure now may cost what was added last"));
        }
    }
}

/// What could not be done, and why.
type Failure = (&'static str, Trouble);

impl State {
    fn error(&self, (action, trouble): Failure) -> StoreError {
        let (kind, source) = match trouble {
            Trouble::Io(error) => (StoreFault::Unwritable, error),
            Trouble::Changed => (StoreFault::Changed, io::Error::other("another program changed it")),
            Trouble::TooLarge => (
                StoreFault::TooLarge,
                io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    format!("a session file holds at most {SESSION_FILE_LIMIT_BYTES} bytes; go on in a new session"),
                ),
            ),
        };
        StoreError { kind, file: self.path.display().to_string(), action, source }
    }
}

impl Store for FileStore {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        let mut state = self.lock();
        if let Err(failure) = self.0.append(&mut state, lines) {
            let error = state.error(failure);
            if error.kind == StoreFault::Unwritable && !std::mem::replace(&mut state.is_failing, true) {
                self.0.tell(&format!("{error}; what is added stays in memory, and is tried again with each step"));
            }
            return Err(error);
        }
        if std::mem::take(&mut state.is_failing) {
            self.0.tell(&format!(
                "the session is saved again, with all that was kept in memory: {}",
                state.path.display()
            ));
        }
        if self.0.sync == SessionSync::Append {
            // It is in the file: an error here would have it written twice.
            let synced = self.0.sync(&mut state).map_err(|failure| state.error(failure));
            self.0.tell_durable(&mut state, &synced);
        }
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let state = self.lock();
        let read = match &state.open {
            Some(open) => open.read(offset, length),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        let file = || state.path.display().to_string();
        read.map_err(|source| StoreError { kind: StoreFault::Unreadable, file: file(), action: "read", source })
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        let synced = self.0.sync(&mut state).map_err(|failure| state.error(failure));
        self.0.tell_durable(&mut state, &synced);
        synced
    }
}

impl Drop for Inner {
    /// The index learns how the file was left.
    fn drop(&mut self) {
        let State { path, open, noted, .. } = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open {
            noted.left(path, open);
        }
    }
}

/// A session file's name: it sorts by time, and ends in the session's id.
pub(crate) fn file_name(time: &str, id: &SessionId) -> String {
    format!("{}_{id}.jsonl", time.replace([':', '.'], "-"))
}

/// Whether the file cannot be opened for writing, and may well be read.
fn is_read_only(error: &OpenError) -> bool {
    match error {
        OpenError::Denied { .. } => true,
        OpenError::Io { source, .. } => source.kind() == io::ErrorKind::ReadOnlyFilesystem,
        _ => false,
    }
}

/// The header that a new file begins with. What writes one begins with it.
fn first_header(lines: &[u8]) -> Header {
    let line = lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice(line).unwrap_or_else(|_| Header {
        kind: "session".to_owned(),
        version: pith_protocol::SESSION_VERSION,
        id: SessionId::from(""),
        timestamp: String::new(),
        cwd: String::new(),
        parent_session: None,
    })
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
