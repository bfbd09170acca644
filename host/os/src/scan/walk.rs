//! The walk: folders are taken from one stack by all threads, each opened beneath its root's descriptor, no link followed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Dir, FileType};

use super::globs::Globs;
use super::rules::{Present, Rules};
use super::{ENTRIES_MAX, ScanError};
use crate::open::{Links, Root};

/// One root of the query.
pub(super) struct Start {
    /// The root itself; the granted folder where the root is a file.
    pub root: Root,
    /// As the query named it.
    pub named: PathBuf,
    /// Relative to its granted folder, for ignore rules.
    pub place: PathBuf,
    /// Relative to `root`: the only file that is meant.
    pub file: Option<PathBuf>,
    /// Rules of the folders above it.
    pub above: Option<Arc<Rules>>,
}

/// A file to look at.
pub(super) struct Candidate {
    /// Index into the starts.
    pub start: usize,
    /// As hits show it.
    pub path: PathBuf,
}

pub(super) struct Walked {
    /// Sorted by path, none twice.
    pub files: Vec<Candidate>,
    pub truncated: bool,
    pub skipped: u32,
}

struct Folder {
    start: usize,
    /// Relative to the start.
    path: PathBuf,
    rules: Option<Arc<Rules>>,
}

/// What all threads share.
struct Shared<'w> {
    starts: &'w [Start],
    globs: &'w Globs,
    hidden: bool,
    cancelled: &'w (dyn Fn() -> bool + Sync),
    stack: Mutex<Stack>,
    changed: Condvar,
    stop: AtomicBool,
    truncated: AtomicBool,
    entries: AtomicUsize,
    skipped: AtomicU32,
}

#[derive(Default)]
struct Stack {
    folders: Vec<Folder>,
    /// Folders that are being read, from which more may come.
    busy: usize,
}

pub(super) fn walk(
    starts: &[Start],
    globs: &Globs,
    hidden: bool,
    threads: usize,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Walked, ScanError> {
    let mut files = Vec::new();
    let mut stack = Stack::default();
    for (index, start) in starts.iter().enumerate() {
        match &start.file {
            Some(file) if globs.takes_file(Path::new(file.file_name().unwrap_or_default())) => {
                files.push(Candidate { start: index, path: start.named.clone() })
            }
            Some(_) => {}
            None => stack.folders.push(Folder { start: index, path: PathBuf::new(), rules: start.above.clone() }),
        }
    }
    let shared = Shared {
        starts,
        globs,
        hidden,
        cancelled,
        stack: Mutex::new(stack),
        changed: Condvar::new(),
        stop: AtomicBool::new(false),
        truncated: AtomicBool::new(false),
        entries: AtomicUsize::new(0),
        skipped: AtomicU32::new(0),
    };
    std::thread::scope(|scope| {
        let work = || {
            let mut found = Vec::new();
            while let Some(folder) = shared.take() {
                let _busy = Busy(&shared);
                shared.read(&folder, &mut found);
            }
            found
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        files.append(&mut work());
        for other in others {
            // A thread that panicked has told so; what the others found still stands.
            files.append(&mut other.join().unwrap_or_default());
        }
    });
    if cancelled() {
        return Err(ScanError::Cancelled);
    }
    files.sort_unstable_by(|a, b| order(&a.path, &b.path));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(Walked { files, truncated: shared.truncated.into_inner(), skipped: shared.skipped.into_inner() })
}

/// Part by part, as bytes; as `Path` compares, in half the time.
fn order(a: &Path, b: &Path) -> std::cmp::Ordering {
    let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    a.as_os_str().as_bytes().iter().map(key).cmp(b.as_os_str().as_bytes().iter().map(key))
}

/// A folder being read; given back by drop, so that a panic does not leave the others waiting.
struct Busy<'s, 'w>(&'s Shared<'w>);

impl Drop for Busy<'_, '_> {
    fn drop(&mut self) {
        let mut stack = self.0.lock();
        stack.busy = stack.busy.saturating_sub(1);
        drop(stack);
        self.0.changed.notify_all();
    }
}

impl Shared<'_> {
    fn lock(&self) -> MutexGuard<'_, Stack> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next folder, as busy; None when there will be no more.
    fn take(&self) -> Option<Folder> {
        let mut stack = self.lock();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(folder) = stack.folders.pop() {
                stack.busy += 1;
                return Some(folder);
            }
            if stack.busy == 0 {
                return None;
            }
            // Ends: whoever is busy wakes us when it is done, and asks `cancelled` meanwhile.
            stack = self.changed.wait(stack).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether to go on; asked for every folder and every thousand entries.
    fn goes_on(&self) -> bool {
        if (self.cancelled)() {
            self.stop.store(true, Ordering::Relaxed);
        }
        !self.stop.load(Ordering::Relaxed)
    }

    fn read(&self, folder: &Folder, found: &mut Vec<Candidate>) {
        let start = &self.starts[folder.start];
        if !self.goes_on() {
            return;
        }
        let Some((present, entries)) = self.entries(&start.root, &folder.path) else {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let place = start.place.join(&folder.path);
        let rules = Rules::of(&start.root, &folder.path, &place, present, folder.rules.clone());
        let mut folders = Vec::new();
        for (name, is_folder) in entries {
            let name = OsStr::from_bytes(&name);
            match rules.as_ref().and_then(|rules| rules.says(&place.join(name), is_folder)) {
                Some(true) => continue,
                None if !self.hidden && name.as_bytes().starts_with(b".") => continue,
                Some(false) | None => {}
            }
            let path = folder.path.join(name);
            if is_folder && self.globs.enters_folder(&path) {
                folders.push(Folder { start: folder.start, path, rules: rules.clone() });
            } else if !is_folder && self.globs.takes_file(&path) {
                found.push(Candidate { start: folder.start, path: start.named.join(path) });
            }
        }
        self.lock().folders.append(&mut folders);
    }

    /// Regular files and folders of a folder, and which names matter for rules. None: it cannot be read.
    fn entries(&self, root: &Root, folder: &Path) -> Option<(Present, Vec<(Vec<u8>, bool)>)> {
        let opened = root.open_folder(folder, Links::Refused).ok()?;
        let (mut present, mut entries) = (Present::default(), Vec::new());
        for entry in Dir::new(opened).ok()? {
            // Folders may vanish while they are read; what was read counts.
            let Ok(entry) = entry else { break };
            let name = entry.file_name().to_bytes();
            match name {
                b"." | b".." => continue,
                b".git" => {
                    present.git = true;
                    continue;
                }
                b".ignore" => present.ignore = true,
                b".gitignore" => present.gitignore = true,
                _ => {}
            }
            let seen = self.entries.fetch_add(1, Ordering::Relaxed);
            if seen >= ENTRIES_MAX {
                self.truncated.store(true, Ordering::Relaxed);
                self.stop.store(true, Ordering::Relaxed);
                break;
            }
            if seen.is_multiple_of(1024) && !self.goes_on() {
                break;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say.
                FileType::Unknown => root.kind_of_entry(&folder.join(OsStr::from_bytes(name))),
                kind => kind,
            };
            match kind {
                FileType::RegularFile => entries.push((name.to_vec(), false)),
                FileType::Directory => entries.push((name.to_vec(), true)),
                _ => {}
            }
        }
        Some((present, entries))
    }
}
