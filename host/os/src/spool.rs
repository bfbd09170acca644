//! Where a session's long outputs lie: one private folder, one limit for all of its files.

use std::fs::{DirBuilder, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};

/// A folder itself: neither a link to one nor anything that could be waited for.
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// What all files of one spool folder may hold together, in bytes. Beyond it a file gives up its own middle, and where that is little
/// nothing more is written; the process goes on.
pub const SPOOL_LIMIT_BYTES: u64 = 64 * 1024 * 1024;

/// What one file may hold, in bytes: half of all, so that one talkative program leaves room for the others. Beyond it the file keeps its
/// beginning and its newest end.
pub const SPOOL_FILE_LIMIT_BYTES: u64 = SPOOL_LIMIT_BYTES / 2;

/// The smallest file that gives up its middle for room, in bytes.
const SHRINKS_FROM_BYTES: u64 = 1024 * 1024;

/// How far a cut is moved to stand at the end of a line, in bytes.
const LINE_SEARCH_BYTES: usize = 4096;

/// A prefix keeps at most this many bytes of what was asked for.
const PREFIX_BYTES: usize = 40;

/// A folder for spooled output, held by its descriptor: whatever is put in its place later, files are made in it alone. Clones share the limit.
#[derive(Debug, Clone)]
pub struct SpoolDir {
    path: PathBuf,
    folder: Arc<OwnedFd>,
    used_bytes: Arc<AtomicU64>,
}

impl SpoolDir {
    /// Creates the folder, mode 0700, with what is missing above it; an existing one is made private and used with its limit fresh. A link in its
    /// place is an error.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        let folder = rustix::fs::open(&path, OFlags::RDONLY | FOLDER, Mode::empty())?;
        rustix::fs::fchmod(&folder, Mode::RWXU)?;
        Ok(Self { path, folder: Arc::new(folder), used_bytes: Arc::new(AtomicU64::new(0)) })
    }

    /// The folder opened anew, to be locked: a lock on it is nobody else's.
    pub fn open(&self) -> io::Result<File> {
        Ok(File::from(rustix::fs::openat(&*self.folder, ".", OFlags::RDONLY | FOLDER, Mode::empty())?))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new empty file, mode 0600, under a name that nobody has and nobody can guess: `PREFIX-xxxxxxxx.log`. Of the prefix only
    /// letters, digits, `-` and `_` stay.
    pub fn create(&self, prefix: &str) -> io::Result<SpoolFile> {
        let kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let prefix: String = prefix.chars().filter(kept).take(PREFIX_BYTES).chain(['-']).collect();
        let mut builder = tempfile::Builder::new();
        let made = builder.prefix(&prefix).suffix(".log").rand_bytes(8).make_in(&self.path, |path| {
            let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(File::from(rustix::fs::openat(&*self.folder, name, flags, Mode::RUSR | Mode::WUSR)?))
        })?;
        let (file, path) = made.keep().map_err(|error| error.error)?;
        let used_bytes = self.used_bytes.clone();
        Ok(SpoolFile { file, path, used_bytes, len: 0, ends_line: true, gap: None, is_full: false })
    }

    /// Removes the folder with all that is in it.
    pub fn remove(self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.path)
    }
}

/// One output. It stays when this is dropped.
#[derive(Debug)]
pub struct SpoolFile {
    file: File,
    path: PathBuf,
    used_bytes: Arc<AtomicU64>,
    /// Of the file, but for what [`SpoolFile::end`] wrote.
    len: u64,
    /// The last byte ended a line, or there is none.
    ends_line: bool,
    gap: Option<Gap>,
    /// Nothing more is taken.
    is_full: bool,
}

/// The middle that a file gave up.
#[derive(Debug, Clone, Copy)]
struct Gap {
    at: u64,
    /// Bytes of the line that says so.
    note: u64,
    dropped: u64,
}

impl SpoolFile {
    /// The file's path on the host.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something is not in it, for the limits or because the disk refused; the file then has a line that says so, where that was
    /// possible: `[... 123 bytes were dropped here ...]` in its middle, or `[spool limit reached: the rest was not kept]` at its end.
    pub fn is_cut(&self) -> bool {
        self.is_full || self.gap.is_some()
    }

    /// Appends; where the limits have no room, the file's middle goes. Never fails: a full disk must not end the command whose output this
    /// is. Goes to the page cache, so it is called from async code as it is. A reader at the very moment in which the middle goes may see
    /// some of the end twice.
    pub fn append(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !self.is_full && !rest.is_empty() {
            let room = SPOOL_FILE_LIMIT_BYTES.saturating_sub(self.len).min(rest.len() as u64);
            let granted = self.take_room(room);
            let (now, later) = rest.split_at(usize::try_from(granted).unwrap_or(rest.len()).min(rest.len()));
            let wrote = self.file.write_all(now);
            self.len = self.len.saturating_add(now.len() as u64);
            self.ends_line = now.last().map_or(self.ends_line, |last| *last == b'\n');
            rest = later;
            if wrote.is_err() || (!rest.is_empty() && !self.shrink().unwrap_or(false)) {
                self.is_full = true;
                // Best effort: the same fact is in `is_cut`.
                let _ = self.file.write_all(b"\n[spool limit reached: the rest was not kept]\n");
                self.ends_line = true;
            }
        }
    }

    /// Writes a line of the host's own, the last one: on a line of its own, past all limits.
    pub fn end(mut self, line: &str) {
        let fresh = if self.ends_line { "" } else { "\n" };
        let _ = self.file.write_all(format!("{fresh}{line}\n").as_bytes());
    }

    fn take_room(&self, wanted: u64) -> u64 {
        let mut granted = 0;
        // The closure always answers Some, so the update cannot fail.
        let _ = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            granted = wanted.min(SPOOL_LIMIT_BYTES.saturating_sub(used));
            Some(used.saturating_add(granted))
        });
        granted
    }

    /// Gives up the middle: the first quarter, as it was when that happened first, and the last quarter stay. False where that is not worth
    /// it.
    fn shrink(&mut self) -> io::Result<bool> {
        if self.len < SHRINKS_FROM_BYTES {
            return Ok(false);
        }
        let gap = match self.gap {
            Some(gap) => gap,
            None => Gap { at: self.line_end_before(self.len / 4)?, note: 0, dropped: 0 },
        };
        let from = self.line_end_before(self.len - self.len / 4)?;
        let Some(dropped) = from.checked_sub(gap.at + gap.note).filter(|dropped| *dropped > self.len / 4) else {
            return Ok(false);
        };
        let dropped = gap.dropped.saturating_add(dropped);
        let note =
            format!("\n[... {dropped} bytes were dropped here: a spool file keeps its beginning and its end ...]\n");
        self.file.write_all_at(note.as_bytes(), gap.at)?;
        let (mut to, mut at) = (gap.at + note.len() as u64, from);
        let mut piece = vec![0; 64 * 1024];
        while at < self.len {
            let count = self.file.read_at(&mut piece, at)?;
            if count == 0 {
                break;
            }
            self.file.write_all_at(&piece[..count], to)?;
            at += count as u64;
            to += count as u64;
        }
        self.file.set_len(to)?;
        self.file.seek(SeekFrom::Start(to))?;
        let freed = self.len.saturating_sub(to);
        let _ =
            self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used.saturating_sub(freed)));
        self.len = to;
        self.gap = Some(Gap { at: gap.at, note: note.len() as u64, dropped });
        Ok(true)
    }

    /// The end of the last line that ends shortly before `at`; `at` itself where there is none.
    fn line_end_before(&self, at: u64) -> io::Result<u64> {
        let mut piece = [0; LINE_SEARCH_BYTES];
        let start = at.saturating_sub(LINE_SEARCH_BYTES as u64);
        let count = self.file.read_at(&mut piece, start)?;
        let found = piece[..count].iter().rposition(|byte| *byte == b'\n');
        Ok(found.map_or(at, |found| start + found as u64 + 1).min(at))
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
