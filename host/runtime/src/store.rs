//! Session files: created at the first append, locked by whoever writes, one `write(2)` for each append.

use crate::{notice::one_line, places::create_private, spool::is_at};
use pith_core::{LINE_LIMIT_BYTES, LoadedTree, Outbox, ReadError, Store, StoreError, StoreFault, TreeReader};
use pith_os::{OpenError, Root};
use pith_protocol::Event;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The largest session file that is read or written, in bytes.
pub const SESSION_FILE_LIMIT_BYTES: u64 = 1 << 30;
/// The largest session file of others that is continued, in bytes: its lines are in memory until the first append.
pub const FOREIGN_FILE_LIMIT_BYTES: u64 = 256 << 20;

/// How much is copied at a time when a deleted file is written again, in bytes.
const COPY_BYTES: usize = 256 << 10;
/// What a deleted file could not be, where that fails.
const AGAIN: &str = "written again after it was deleted";

/// A session file that cannot be read as one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot be read to its end.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// It is no session.
    #[error("{path}: {source}", path = path.display())]
    NotASession {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: ReadError,
    },
    /// Over the limit.
    #[error("{path}: larger than {limit} bytes, which is the most that Pith reads of a session", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// In bytes.
        limit: u64,
    },
    /// Another process, or another session of this one, writes it.
    #[error("{path} is in use by another Pith; end that one, or start a new session, or use --no-session", path = path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It was replaced while it was opened.
    #[error("{path} was replaced while it was opened; try again", path = path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
}

/// One session's file.
pub(crate) struct FileStore {
    path: PathBuf,
    /// Whether `sync` reaches the disk.
    durable: bool,
    open: Mutex<Option<Open>>,
    /// Where people are told what happened to the file.
    outbox: Outbox,
}

/// Both descriptors are of one file. They serve also once the file has lost its name: it is written again from them.
struct Open {
    /// Locked; appends.
    writer: File,
    reader: File,
    /// The file's length by what was loaded and appended.
    end: u64,
}

/// How long a lock is waited for that nobody may hold any more.
const LOCK_WAIT: Duration = Duration::from_millis(300);

/// Locks. A child of another Pith holds its descriptors until it has become its program, and a call on a thread of its own a little longer
/// than its session: what is held for longer is in use.
fn lock_soon(file: &File) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_WAIT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            locked => return locked,
        }
    }
}

impl FileStore {
    /// A file that is created at the first append.
    pub fn new(path: PathBuf, durable: bool) -> Self {
        Self { path, durable, open: Mutex::new(None), outbox: Outbox::new() }
    }

    /// A file that is there, relative to `root`: locked first, then read, so that nothing comes between.
    pub fn open(root: &Root, file: &Path, durable: bool) -> Result<(Self, LoadedTree), LoadError> {
        let path = root.path().join(file);
        let failed = |source| LoadError::Read { path: path.clone(), source };
        let writer = root.open_append(file)?;
        match lock_soon(&writer) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LoadError::InUse { path }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let reader = root.open_file(file)?;
        let identity = |file: &File| file.metadata().map(|met| (met.dev(), met.ino()));
        if identity(&writer).map_err(failed)? != identity(&reader).map_err(failed)? {
            return Err(LoadError::Replaced { path });
        }
        let (loaded, end) = load(&reader, &path, SESSION_FILE_LIMIT_BYTES)?;
        let open = Mutex::new(Some(Open { writer, reader, end }));
        Ok((Self { path, durable, open, outbox: Outbox::new() }, loaded))
    }

    /// The same, telling people through `outbox`; else nobody is told.
    pub fn telling(mut self, outbox: Outbox) -> Self {
        self.outbox = outbox;
        self
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        // Every change of the state is one assignment after the write.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> StoreError {
        let file = self.path.display().to_string();
        move |source| StoreError { kind: fault(action, &source), file: file.clone(), action, source }
    }

    /// The new file, locked. Never over one that is there.
    fn create(&self) -> io::Result<Open> {
        if let Some(folder) = self.path.parent() {
            create_private(folder)?;
        }
        let mut options = OpenOptions::new();
        let writer = options.read(true).append(true).create_new(true).mode(0o600).open(&self.path)?;
        let finish = |writer: File| {
            lock_soon(&writer)?;
            Ok(Open { reader: writer.try_clone()?, writer, end: 0 })
        };
        // Nothing is in it yet, and it is ours.
        finish(writer).inspect_err(|_: &io::Error| drop(std::fs::remove_file(&self.path)))
    }

    /// Where the file was deleted: writes it again, whole, at its path, and goes on there. Without it the rest of the session would go
    /// into a file without a name, and be gone with the process.
    fn restore(&self, open: &mut Open) -> io::Result<()> {
        let met = open.writer.metadata()?;
        // Some file systems count no links at all: there the name decides.
        if met.nlink() > 0 || is_at(&open.writer, &self.path)? {
            return Ok(());
        }
        if met.len() != open.end {
            return Err(changed());
        }
        let mut fresh = self.create()?;
        if let Err(error) = copy(&open.reader, &mut fresh.writer, open.end) {
            let _ = std::fs::remove_file(&self.path);
            return Err(error);
        }
        fresh.end = open.end;
        *open = fresh;
        let message = format!("the session file {} was deleted; it was written again, whole", self.path.display());
        self.outbox.offer(Event::Notice { message: one_line(&message) });
        Ok(())
    }
}

/// The first `length` bytes.
fn copy(from: &File, to: &mut File, length: u64) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset: u64 = 0;
    while offset < length {
        let wanted = usize::try_from(length - offset).unwrap_or(COPY_BYTES).min(COPY_BYTES);
        from.read_exact_at(&mut buffer[..wanted], offset)?;
        to.write_all(&buffer[..wanted])?;
        offset = offset.saturating_add(wanted as u64);
    }
    Ok(())
}

/// What a failure means for the session.
fn fault(action: &str, error: &io::Error) -> StoreFault {
    match error.kind() {
        _ if action == "read" => StoreFault::Unreadable,
        io::ErrorKind::FileTooLarge => StoreFault::TooLarge,
        // Only `changed` makes one of this kind.
        io::ErrorKind::Other => StoreFault::Changed,
        _ => StoreFault::Unwritable,
    }
}

fn changed() -> io::Error {
    io::Error::other("another program changed it")
}

impl Open {
    /// One write; what cannot be written whole is taken back.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let met = self.writer.metadata()?.len();
        if met != self.end {
            return Err(changed());
        }
        let end = self.end.saturating_add(lines.len() as u64);
        if end > SESSION_FILE_LIMIT_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("a session file holds at most {SESSION_FILE_LIMIT_BYTES} bytes; start a new session"),
            ));
        }
        let short = match self.writer.write(lines) {
            Ok(written) if written == lines.len() => {
                self.end = end;
                return Ok(());
            }
            Ok(written) => io::Error::new(
                io::ErrorKind::WriteZero,
                format!("only {written} of {} bytes could be written", lines.len()),
            ),
            Err(error) => error,
        };
        // Ours alone under the lock: back to the last whole line. Where that fails too, the next append finds the length changed.
        self.writer.set_len(self.end)?;
        Err(short)
    }
}

impl Store for FileStore {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        let mut open = self.lock();
        let file = match open.as_mut() {
            Some(file) => {
                self.restore(file).map_err(self.failed(AGAIN))?;
                file
            }
            None => open.insert(self.create().map_err(self.failed("created"))?),
        };
        let appended = file.append(lines).map_err(self.failed("written"));
        if appended.is_err() && file.end == 0 {
            // Nothing of the session is on disk: leave no empty file behind, and create it afresh at the next try.
            *open = None;
            let _ = std::fs::remove_file(&self.path);
        }
        appended
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let failed = self.failed("read");
        match self.lock().as_ref() {
            Some(open) => read_at(&open.reader, offset, length).map_err(failed),
            None => Err(failed(io::ErrorKind::NotFound.into())),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut open = self.lock();
        let Some(file) = open.as_mut() else { return Ok(()) };
        self.restore(file).map_err(self.failed(AGAIN))?;
        if self.durable { file.writer.sync_data().map_err(self.failed("made durable")) } else { Ok(()) }
    }
}

/// A file of others: read only, without a lock.
pub(crate) struct SourceFile {
    path: PathBuf,
    file: File,
}

impl SourceFile {
    /// Opens and reads it.
    pub fn open(path: &Path) -> Result<(Self, LoadedTree), LoadError> {
        Self::open_within(path, FOREIGN_FILE_LIMIT_BYTES)
    }

    /// The same with a limit of its own, in bytes: a session that is only read takes little memory for each entry.
    pub fn open_within(path: &Path, limit: u64) -> Result<(Self, LoadedTree), LoadError> {
        let file = pith_os::open_regular(path)?;
        let (loaded, _) = load(&file, path, limit)?;
        Ok((Self { path: path.to_owned(), file }, loaded))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError { kind: fault(action, &source), file: self.path.display().to_string(), action, source }
    }
}

impl Store for SourceFile {
    fn append(&self, _: &[u8]) -> Result<(), StoreError> {
        Err(self.failed("written", io::ErrorKind::ReadOnlyFilesystem.into()))
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        read_at(&self.file, offset, length).map_err(|source| self.failed("read", source))
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A session that is kept nowhere.
#[derive(Default)]
pub(crate) struct MemoryStore(Mutex<Vec<u8>>);

impl Store for MemoryStore {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(lines);
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        kept.get(start..start.saturating_add(length)).map(<[u8]>::to_vec).ok_or_else(|| StoreError {
            kind: StoreFault::Unreadable,
            file: "(in memory)".to_owned(),
            action: "read",
            source: io::ErrorKind::UnexpectedEof.into(),
        })
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn read_at(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    // Lengths are of lines that were read or written, so within the limits of both.
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// Reads a session file line by line, and its length.
fn load(file: &File, path: &Path, limit: u64) -> Result<(LoadedTree, u64), LoadError> {
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let no_session = |source| LoadError::NotASession { path: path.to_owned(), source };
    if file.metadata().map_err(failed)?.len() > limit {
        return Err(LoadError::TooLarge { path: path.to_owned(), limit });
    }
    let mut input = BufReader::with_capacity(256 << 10, file);
    let mut reader = TreeReader::new();
    let mut line = Vec::new();
    let mut end: u64 = 0;
    loop {
        let met = next_line(&mut input, &mut line).map_err(failed)?;
        if met.bytes == 0 && !met.ended {
            return Ok((reader.finish().map_err(no_session)?, end));
        }
        end = end.saturating_add(met.bytes).saturating_add(u64::from(met.ended));
        // It may grow while it is read.
        if end > limit {
            return Err(LoadError::TooLarge { path: path.to_owned(), limit });
        }
        if met.bytes > LINE_LIMIT_BYTES as u64 {
            reader.skip_line(met.bytes, met.ended);
        } else {
            reader.push_line(&line, met.ended).map_err(no_session)?;
        }
    }
}

struct Met {
    /// Without the newline.
    bytes: u64,
    /// There was one.
    ended: bool,
}

/// The next line into `line`, of which at most the limit is kept.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Met> {
    line.clear();
    let mut bytes: u64 = 0;
    loop {
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let newline = piece.iter().position(|byte| *byte == b'\n');
        let take = newline.unwrap_or(piece.len());
        let room = LINE_LIMIT_BYTES.saturating_sub(line.len()).min(take);
        line.extend_from_slice(&piece[..room]);
        bytes = bytes.saturating_add(take as u64);
        let at_end = piece.is_empty();
        input.consume(take + usize::from(newline.is_some()));
        if newline.is_some() || at_end {
            return Ok(Met { bytes, ended: newline.is_some() });
        }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
