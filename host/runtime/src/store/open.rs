//! The file itself: locked, appended to, cut back where a write fails; `copy` puts it elsewhere where it was deleted or changed by others,
//! `nameless` makes it appear with its first lines.

pub(super) mod copy;
mod nameless;

use super::{
    SESSION_FILE_LIMIT_BYTES,
    checks::Checks,
    load::{LoadError, Loaded},
    pieces::Pieces,
};
use crate::{places::create_private, spool::is_at};
use nameless::{name, nameless};
use pith_protocol::Header;
use rustix::fs::OFlags;
use std::{
    collections::VecDeque,
    fs::{File, Metadata, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
    time::{Duration, Instant},
};

/// How long a lock is waited for that nobody may hold any more.
const LOCK_WAIT: Duration = Duration::from_millis(300);
/// What was appended last is kept in memory up to this, in bytes: it is written again where another program cut the file off.
const TAIL_KEPT_BYTES: usize = 4 << 20;

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

/// What a session file is opened with once more: it is no link, and nobody is waited for.
const NO_LINKS: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();

/// Whether two descriptors are of one file.
pub(super) fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let identity = |file: &File| file.metadata().map(|met| (met.dev(), met.ino()));
    Ok(identity(one)? == identity(other)?)
}

/// Locks a file that is opened; who holds it instead is for the caller to say.
pub(super) fn lock_opened(file: &File, path: &Path) -> Result<(), LoadError> {
    let path = path.to_owned();
    match lock_soon(file) {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(LoadError::InUse { holder: crate::index::who_holds(file, None), path }),
        Err(TryLockError::Error(source)) => Err(LoadError::NoLocks { path, source }),
    }
}

/// Why something is not in the file.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The system says so. Nothing of it is in the file.
    Io(io::Error),
    /// Others wrote to the file.
    Changed,
    /// It would be longer than a session file may be.
    TooLarge,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Both descriptors are of one file. They serve also once the file has lost its name: it is written again from them.
pub(super) struct Open {
    /// None where the file could only be read when it was opened: it is tried again with each append.
    writer: Option<File>,
    /// Locked, whichever of the two the lock was taken on: both are held as long.
    reader: File,
    /// It is in its folder.
    is_named: bool,
    /// How long the file is by what was loaded and appended.
    length: u64,
    /// What a write that failed left behind that, and could not be cut off.
    ragged: u64,
    /// Where the session's bytes are in it.
    pieces: Pieces,
    pub header: Header,
    /// Where the header's line ends.
    header_end: u64,
    checks: Checks,
    /// The end of the file, as far as it was appended here.
    tail: VecDeque<u8>,
    /// What was appended before it is not in it.
    is_tail_cut: bool,
    /// That it is in its folder is on the disk.
    is_entered: bool,
    /// Something of it may not be on the disk.
    is_dirty: bool,
}

impl Open {
    /// A new file, locked. It has no name before its first lines are in it, where the system can do that: so a kill leaves no empty file, and
    /// a copy is there only once it is whole.
    pub fn create(path: &Path, header: Header) -> io::Result<Self> {
        let folder = path.parent().unwrap_or(Path::new("."));
        create_private(folder)?;
        match nameless(folder) {
            Some(writer) => Self::new(writer, header, false),
            None => Self::create_named(path, header),
        }
    }

    /// The same with its name at once. Never over one that is there.
    fn create_named(path: &Path, header: Header) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let writer = options.read(true).append(true).create_new(true).mode(0o600).open(path)?;
        // Nothing is in it yet, and it is ours.
        Self::new(writer, header, true).inspect_err(|_| drop(std::fs::remove_file(path)))
    }

    fn new(writer: File, header: Header, is_named: bool) -> io::Result<Self> {
        lock_soon(&writer).map_err(|error| match error {
            TryLockError::Error(error) => io::Error::new(error.kind(), format!("it cannot be locked: {error}")),
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
        })?;
        Ok(Self {
            reader: writer.try_clone()?,
            writer: Some(writer),
            is_named,
            length: 0,
            ragged: 0,
            pieces: Pieces::default(),
            header,
            header_end: 0,
            checks: Checks::default(),
            tail: VecDeque::new(),
            is_tail_cut: false,
            is_entered: false,
            is_dirty: true,
        })
    }

    /// Gives it its name. Never over one that is there.
    fn enter(&mut self, path: &Path) -> io::Result<()> {
        if self.is_named {
            return Ok(());
        }
        match name(&self.reader, path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // Where it cannot be named later it is named first.
            Err(_) => {
                let mut named = Self::create_named(path, self.header.clone())?;
                if let Err(error) = self.copy_range(&mut named, 0, self.length) {
                    let _ = std::fs::remove_file(path);
                    return Err(error);
                }
                (self.writer, self.reader) = (named.writer, named.reader);
            }
        }
        self.is_named = true;
        Ok(())
    }

    /// One that was there, locked and read.
    pub fn loaded(writer: Option<File>, reader: File, loaded: &mut Loaded) -> Self {
        let mut pieces = Pieces::default();
        pieces.push(loaded.end, 0);
        Self {
            writer,
            reader,
            is_named: true,
            length: loaded.end,
            ragged: 0,
            pieces,
            header: loaded.tree.header().clone(),
            header_end: loaded.header_end,
            checks: std::mem::take(&mut loaded.checks),
            tail: VecDeque::new(),
            is_tail_cut: false,
            is_entered: true,
            is_dirty: true,
        }
    }

    /// Whether nothing of the session is on disk: then it is to be created afresh.
    pub fn is_nothing(&self) -> bool {
        self.length == 0 || !self.is_named
    }

    /// Whether it has a name, and nothing in it.
    pub fn is_empty(&self) -> bool {
        self.length == 0 && self.is_named
    }

    /// What the system says of the file; none where others changed it.
    pub fn met(&self) -> Option<Metadata> {
        self.reader.metadata().ok().filter(|met| met.len() == self.length)
    }

    /// A sum of what is in the file.
    pub fn sum(&self) -> u64 {
        self.checks.sum()
    }

    /// Whether the file has lost its name.
    pub fn is_deleted(&self, path: &Path) -> io::Result<bool> {
        // Some file systems count no links at all: there the name decides.
        Ok(self.reader.metadata()?.nlink() == 0 && !is_at(&self.reader, path)?)
    }

    /// Appends whole lines. What cannot be written whole is taken back.
    pub fn append(&mut self, path: &Path, lines: &[u8]) -> Result<(), Trouble> {
        if self.writer.is_none() {
            self.writer = Some(self.writer_at(path)?);
        }
        if self.reader.metadata()?.len() != self.length.saturating_add(self.ragged) {
            return Err(Trouble::Changed);
        }
        let end = self.length.saturating_add(self.ragged).saturating_add(lines.len() as u64);
        if end > SESSION_FILE_LIMIT_BYTES {
            return Err(Trouble::TooLarge);
        }
        if self.ragged > 0 && self.cut_back().is_ok() {
            self.ragged = 0;
        }
        if self.ragged > 0 {
            return self.append_behind_ragged(lines);
        }
        self.write(lines)?;
        self.pieces.push(lines.len() as u64, self.length);
        if self.length == 0 {
            self.header_end = lines.iter().position(|byte| *byte == b'\n').map_or(0, |at| at as u64 + 1);
        }
        self.keep(lines);
        Ok(self.enter(path)?)
    }

    /// Where a file can only be appended to (`chattr +a`), a piece of a line stays: the next one begins on a fresh line.
    fn append_behind_ragged(&mut self, lines: &[u8]) -> Result<(), Trouble> {
        let mut torn = vec![0; usize::try_from(self.ragged).map_err(io::Error::other)?];
        self.reader.read_exact_at(&mut torn, self.length)?;
        let fresh = [b"\n", lines].concat();
        let ragged = self.ragged;
        self.write(&fresh)?;
        self.ragged = 0;
        self.pieces.push(lines.len() as u64, self.length.saturating_add(ragged).saturating_add(1));
        self.keep(&torn);
        self.keep(&fresh);
        Ok(())
    }

    /// Writes at the end, in one call to the system if it takes all of it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Err(io::ErrorKind::ReadOnlyFilesystem.into()) };
        let Err(error) = writer.write_all(bytes) else { return Ok(()) };
        // Ours alone under the lock: back to the last whole line. Where that fails too, the next append begins behind what is there.
        if self.cut_back().is_ok() {
            self.ragged = 0;
        } else if let Ok(met) = self.reader.metadata() {
            self.ragged = met.len().saturating_sub(self.length);
        }
        Err(error)
    }

    fn cut_back(&self) -> io::Result<()> {
        match &self.writer {
            Some(writer) => writer.set_len(self.length),
            None => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    /// The file once more, for appending.
    fn writer_at(&self, path: &Path) -> io::Result<File> {
        let writer = OpenOptions::new().append(true).custom_flags(NO_LINKS).open(path)?;
        match is_same(&writer, &self.reader)? {
            true => Ok(writer),
            false => Err(io::Error::other("another file is in its place")),
        }
    }

    /// They are in the file, at its end.
    fn keep(&mut self, bytes: &[u8]) {
        self.length = self.length.saturating_add(bytes.len() as u64);
        self.is_dirty = true;
        self.checks.add(bytes);
        let kept = &bytes[bytes.len().saturating_sub(TAIL_KEPT_BYTES)..];
        let surplus = self.tail.len().saturating_add(kept.len()).saturating_sub(TAIL_KEPT_BYTES);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend(kept);
        self.is_tail_cut |= surplus > 0 || kept.len() < bytes.len();
    }

    /// Bytes that the session appended. What others destroyed of them is blank: the lines are lost, not those beside them.
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if offset.saturating_add(length as u64) > self.pieces.end() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = vec![b' '; length];
        for (start, at, count) in self.pieces.find(offset, length as u64) {
            let start = usize::try_from(start).map_err(io::Error::other)?;
            let count = usize::try_from(count).map_err(io::Error::other)?;
            let Some(part) = bytes.get_mut(start..start.saturating_add(count)) else { continue };
            self.reader.read_exact_at(part, at)?;
        }
        Ok(bytes)
    }

    /// Makes all of it durable: its bytes, and the first time that it is in its folder.
    pub fn sync(&mut self, path: &Path) -> io::Result<()> {
        match &self.writer {
            Some(writer) if self.is_dirty => writer.sync_data()?,
            _ => return Ok(()),
        }
        if !self.is_entered {
            // The folder may be as new as the file.
            for folder in path.ancestors().skip(1).take(2) {
                sync_folder(folder)?;
            }
            self.is_entered = true;
        }
        self.is_dirty = false;
        Ok(())
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some file systems have nothing to do for a folder, and say so.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}
