//! The index's file: a line for each change, appended under a lock of its own, written anew when more than half of it is stale.

use super::Record;
use crate::{places::create_private, spool::is_at};
use rustix::fs::OFlags;
use std::{
    collections::HashMap,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// Its name in the sessions folder.
const FILE: &str = "index.jsonl";
/// The longest index that is read, in bytes: a few hundred thousand sessions. What is longer was not written by Pith: it counts as none, and the
/// next line begins a new one.
pub const INDEX_LIMIT_BYTES: u64 = 256 << 20;
/// The longest line of it that is read or written, in bytes. A record that would be longer goes without its totals.
pub const INDEX_LINE_LIMIT_BYTES: usize = 64 << 10;
/// Each time that it has grown by this, it is looked at how much of it is stale, in bytes.
const LOOKED_AT_BYTES: u64 = 128 << 10;
/// How often a file is tried that another process writes to just now, and the pause between.
const LOCK_TRIES: usize = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// The file.
pub(super) struct Ledger(PathBuf);

/// What it says.
#[derive(Default)]
pub(super) struct Known {
    /// The last line of each file, deleted files left out.
    pub records: HashMap<String, Record>,
    /// Bytes that were read.
    pub length: u64,
    /// Lines that are not the last of their file.
    pub stale: usize,
}

impl Known {
    fn add(&mut self, bytes: &[u8]) {
        for line in lines(bytes) {
            let Ok(record) = serde_json::from_slice::<Record>(line) else {
                self.stale = self.stale.saturating_add(1);
                continue;
            };
            let is_gone = record.gone;
            let before = if is_gone {
                self.records.remove(&record.file)
            } else {
                self.records.insert(record.file.clone(), record)
            };
            self.stale = self.stale.saturating_add(usize::from(before.is_some())).saturating_add(usize::from(is_gone));
        }
        self.length = self.length.saturating_add(bytes.len() as u64);
    }

    fn is_mostly_stale(&self) -> bool {
        self.stale > self.records.len()
    }
}

/// Whole lines that may be records.
fn lines(bytes: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line.len() <= INDEX_LINE_LIMIT_BYTES)
}

impl Ledger {
    pub fn in_folder(folder: &Path) -> Self {
        Self(folder.join(FILE))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// All of it. What cannot be read is not known.
    pub fn read(&self) -> Known {
        let mut known = Known::default();
        known.add(&self.bytes());
        known
    }

    /// The last line of one file.
    pub fn newest(&self, file: &str) -> Option<Record> {
        let bytes = self.bytes();
        // Most lines are of other files: those are not parsed.
        let quoted = serde_json::to_vec(file).ok()?;
        let about = |line: &&[u8]| line.get(8..).is_some_and(|rest| rest.starts_with(&quoted));
        let mut of_file = lines(&bytes).rev().filter(|line| line.starts_with(b"{\"file\":")).filter(about);
        let record: Record = of_file.find_map(|line| serde_json::from_slice(line).ok())?;
        (!record.gone).then_some(record)
    }

    fn bytes(&self) -> Vec<u8> {
        let Some(folder) = self.0.parent() else { return Vec::new() };
        let root = pith_os::Root::open(folder).ok();
        root.and_then(|root| root.read_limited(Path::new(FILE), INDEX_LIMIT_BYTES).ok()).unwrap_or_default()
    }

    /// Appends lines. Waits at most 200 ms while other processes write.
    pub fn append(&self, records: &[Record]) -> io::Result<()> {
        self.append_after(records, u64::MAX)
    }

    /// The same, leaving out records of files that others noted after the index was `length` bytes long: theirs are newer.
    pub fn append_after(&self, records: &[Record], length: u64) -> io::Result<()> {
        if let Some(folder) = self.0.parent() {
            create_private(folder)?;
        }
        let file = self.locked()?;
        let end = file.metadata()?.len();
        let mut newer = Known::default();
        if end > length && end <= INDEX_LIMIT_BYTES {
            newer.add(&read(&file, length, end)?);
        }
        let mut text = Vec::new();
        // After a line that was cut off a fresh one begins.
        if end > 0 && read(&file, end - 1, end)? != b"\n" {
            text.push(b'\n');
        }
        for record in records.iter().filter(|record| !newer.records.contains_key(&record.file)) {
            text.extend(line(record)?);
        }
        let after = end.saturating_add(text.len() as u64);
        if after > INDEX_LIMIT_BYTES {
            return self.replace(&text);
        }
        (&file).write_all(&text)?;
        if after / LOOKED_AT_BYTES != end / LOOKED_AT_BYTES {
            self.fold(&file, after)?;
        }
        Ok(())
    }

    /// Writes the index anew, where more than half of it is stale.
    fn fold(&self, locked: &File, length: u64) -> io::Result<()> {
        let mut known = Known::default();
        known.add(&read(locked, 0, length)?);
        if !known.is_mostly_stale() {
            return Ok(());
        }
        let mut text = Vec::new();
        for record in known.records.values() {
            text.extend(line(record)?);
        }
        self.replace(&text)
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let folder = self.0.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::Builder::new().prefix(".index-").tempfile_in(folder)?;
        new.write_all(text)?;
        new.as_file().sync_data()?;
        new.persist(&self.0).map_err(|error| error.error)?;
        Ok(())
    }

    /// Opens the file, making it where it is missing, with this process's lock on it.
    fn locked(&self) -> io::Result<File> {
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).map_err(io::Error::other)?;
        for _ in 0..LOCK_TRIES {
            let mut options = OpenOptions::new();
            let file = options.read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(&self.0)?;
            if !file.metadata()?.is_file() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            match file.try_lock() {
                // Writing it anew puts another file in its place.
                Ok(()) if is_at(&file, &self.0)? => return Ok(file),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                // Without locks a line of two processes at once may be lost.
                Err(TryLockError::Error(_)) => return Ok(file),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

fn read(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// A record's line, newline included; without its totals where it would be too long.
fn line(record: &Record) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    if line.len() > INDEX_LINE_LIMIT_BYTES {
        line = serde_json::to_vec(&Record { totals: None, ..record.clone() })?;
    }
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::super::{Claim, Stamp};
    use super::*;

    fn ledger() -> (tempfile::TempDir, Ledger) {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::in_folder(&dir.path().join("sessions"));
        (dir, ledger)
    }

    fn record(file: &str, bytes: u64) -> Record {
        Record { file: file.to_owned(), stamp: Stamp { bytes, modified: 1 }, claim: Claim::Own, ..Record::default() }
    }

    #[test]
    fn the_last_line_of_a_file_counts() {
        let (_dir, ledger) = ledger();
        assert!(ledger.read().records.is_empty() && ledger.newest("a").is_none());
        ledger.append(&[record("a", 1), record("ab", 2)]).unwrap();
        ledger.append(&[record("a", 3)]).unwrap();
        let known = ledger.read();
        assert_eq!((known.records.len(), known.stale), (2, 1));
        assert_eq!(ledger.newest("a"), Some(record("a", 3)));
        assert_eq!(ledger.newest("ab"), Some(record("ab", 2)));
        assert_eq!(ledger.newest("b"), None);
        ledger.append(&[Record::gone("a")]).unwrap();
        assert_eq!(ledger.newest("a"), None);
        assert_eq!(ledger.read().records.len(), 1);
    }

    #[test]
    fn damaged_lines_cost_themselves_only() {
        let (_dir, ledger) = ledger();
        ledger.append(&[record("a", 1)]).unwrap();
        let mut file = File::options().append(true).open(ledger.path()).unwrap();
        file.write_all(b"\xff\0\n{\"file\":\"a\",\"stamp\":[]}\n").unwrap();
        file.write_all(&vec![b'x'; INDEX_LINE_LIMIT_BYTES + 1]).unwrap();
        file.write_all(b"\n{\"file\":\"a\",\"sta").unwrap();
        assert_eq!(ledger.newest("a"), Some(record("a", 1)));
        ledger.append(&[record("b", 2)]).unwrap();
        assert_eq!((ledger.newest("a"), ledger.newest("b")), (Some(record("a", 1)), Some(record("b", 2))));
    }

    #[test]
    fn what_others_noted_meanwhile_is_kept() {
        let (_dir, ledger) = ledger();
        ledger.append(&[record("a", 1)]).unwrap();
        let length = ledger.read().length;
        ledger.append(&[record("a", 2)]).unwrap();
        ledger.append_after(&[record("a", 9), record("b", 9)], length).unwrap();
        assert_eq!((ledger.newest("a"), ledger.newest("b")), (Some(record("a", 2)), Some(record("b", 9))));
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let (dir, ledger) = ledger();
        for n in 0..6_000 {
            ledger.append(&[record(&format!("file-{}", n % 50), n)]).unwrap();
            assert!(std::fs::metadata(ledger.path()).unwrap().len() < 2 * LOOKED_AT_BYTES);
        }
        let known = ledger.read();
        assert_eq!(known.records.len(), 50);
        assert_eq!(known.records["file-49"], record("file-49", 5_999));
        assert_eq!(std::fs::read_dir(dir.path().join("sessions")).unwrap().count(), 1, "nothing else is left there");
        // What is not ours is begun anew.
        File::options().write(true).open(ledger.path()).unwrap().set_len(INDEX_LIMIT_BYTES).unwrap();
        ledger.append(&[record("a", 1)]).unwrap();
        assert_eq!(ledger.newest("a"), Some(record("a", 1)));
        assert!(std::fs::metadata(ledger.path()).unwrap().len() < 1000);
    }

    #[test]
    fn processes_that_write_at_once_lose_nothing() {
        let (_dir, ledger) = ledger();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let ledger = &ledger;
                scope.spawn(move || {
                    for n in 0..500 {
                        // Refused while others write for long.
                        while ledger.append(&[record(&format!("{writer}-{}", n % 100), n)]).is_err() {}
                    }
                });
            }
        });
        let known = ledger.read();
        assert_eq!(known.records.len(), 400);
        assert!((0..4).all(|writer| known.records[&format!("{writer}-99")].stamp.bytes == 499));
    }
}
