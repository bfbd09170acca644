//! The walk: each folder is opened beneath the one that it lies in, held by descriptor, no link followed. What is in it becomes work, in order.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{AtFlags, FileType, OFlags};

use super::agenda::{Found, Fruit};
use super::rules::{Present, Rules};
use super::work::Shared;
use super::{ENTRIES_MAX, Hit};
use crate::open::{Links, Root, open_in};

/// Files that one thread searches before it looks for other work.
const FILES_AT_ONCE: usize = 16;
/// Folders whose descriptors one query keeps; the others are found by their paths again.
const FOLDERS_HELD_MAX: usize = 64;
/// Entries after which a thread asks whether to go on.
const ENTRIES_AT_ONCE: usize = 1024;
/// The room for entries as the system gives them.
#[cfg(target_os = "linux")]
const ENTRIES_BYTES: usize = 32 * 1024;
/// A folder's path beneath its root; what lies deeper is skipped. What the system takes as a path at most.
const PATH_BYTES_MAX: usize = 4096;

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

/// A piece of work.
pub(super) enum Work {
    /// The root of this index.
    Start(usize),
    /// A folder in another.
    Folder(Arc<Folder>, usize),
    /// Files of a folder to search.
    Files(Arc<Folder>, Range<usize>),
}

/// A folder that was read.
pub(super) struct Folder {
    pub start: usize,
    /// Relative to the start.
    pub path: PathBuf,
    held: Option<Held>,
    rules: Option<Arc<Rules>>,
    names: Names,
}

/// What is in a folder, sorted by the names' bytes.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    start: usize,
    end: usize,
    is_folder: bool,
}

/// A descriptor that counts.
struct Held {
    folder: OwnedFd,
    count: Arc<AtomicUsize>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Names {
    /// Regular files and folders; where names are `listed`, links too, as what they are.
    fn add_if(&mut self, name: &[u8], kind: FileType, listed: bool) {
        match kind {
            FileType::RegularFile => self.add(name, false),
            FileType::Directory => self.add(name, true),
            FileType::Symlink if listed => self.add(name, false),
            _ => {}
        }
    }

    fn add(&mut self, name: &[u8], is_folder: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.entries.push(Entry { start, end: self.bytes.len(), is_folder });
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.entries.sort_unstable_by(|a, b| bytes[a.start..a.end].cmp(&bytes[b.start..b.end]));
    }

    fn name(&self, index: usize) -> &OsStr {
        let entry = self.entries.get(index).copied().unwrap_or(Entry { start: 0, end: 0, is_folder: false });
        OsStr::from_bytes(&self.bytes[entry.start..entry.end])
    }
}

impl Folder {
    pub fn name(&self, index: usize) -> &OsStr {
        self.names.name(index)
    }

    /// Where an entry is opened from, and by which path. `room` is for the path.
    pub fn at<'f>(&'f self, start: &'f Start, index: usize, room: &'f mut PathBuf) -> (BorrowedFd<'f>, &'f Path) {
        match &self.held {
            Some(held) => (held.folder.as_fd(), Path::new(self.name(index))),
            None => {
                room.clear();
                room.push(&self.path);
                room.push(self.name(index));
                (start.root.as_fd(), room)
            }
        }
    }
}

/// What a folder turned into.
pub(super) type Fruits = Vec<Fruit<Work>>;

/// Reads the folder of a start. None: it cannot be read.
pub(super) fn read_start(shared: &Shared<'_>, room: &mut Room, index: usize) -> Option<Fruits> {
    let start = &shared.starts[index];
    let opened = start.root.open_folder(Path::new(""), Links::Refused).ok()?;
    read(shared, room, index, PathBuf::new(), opened, start.above.clone())
}

/// Reads a folder that lies in another. None: it cannot be read.
pub(super) fn read_folder(shared: &Shared<'_>, room: &mut Room, parent: &Folder, index: usize) -> Option<Fruits> {
    if shared.too_many.load(Ordering::Relaxed) {
        return Some(Vec::new());
    }
    let path = parent.path.join(parent.name(index));
    if path.as_os_str().len() > PATH_BYTES_MAX {
        return None;
    }
    let mut whole = PathBuf::new();
    let (at, name) = parent.at(&shared.starts[parent.start], index, &mut whole);
    let opened = open_in(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK).ok()?;
    read(shared, room, parent.start, path, opened, parent.rules.clone())
}

fn read(
    shared: &Shared<'_>,
    room: &mut Room,
    start_index: usize,
    path: PathBuf,
    opened: OwnedFd,
    above: Option<Arc<Rules>>,
) -> Option<Fruits> {
    let start = &shared.starts[start_index];
    let (present, mut names) = entries(shared, room, opened.as_fd())?;
    let mut place = start.place.join(&path);
    let rules = Rules::of(opened.as_fd(), Path::new(""), &place, present, above);
    let mut relative = path.clone();
    // What is ignored, hidden or outside of the globs goes; names stay where they are.
    let bytes = &names.bytes;
    names.entries.retain(|entry| {
        let name = &bytes[entry.start..entry.end];
        place.push(OsStr::from_bytes(name));
        let verdict = rules.as_ref().and_then(|rules| rules.says(&place, entry.is_folder));
        place.pop();
        match verdict {
            Some(true) => return false,
            None if !shared.query.hidden && name.starts_with(b".") => return false,
            Some(false) | None => {}
        }
        relative.push(OsStr::from_bytes(name));
        let globs = &shared.globs;
        let taken = if entry.is_folder { globs.enters_folder(&relative) } else { globs.takes_file(&relative) };
        let is_start = taken && shared.is_start(start, &relative);
        relative.pop();
        taken && !is_start
    });
    names.sort();
    let held = shared.hold(opened);
    let folder = Arc::new(Folder { start: start_index, path, held, rules, names });
    Some(if shared.matcher.is_some() { to_search(&folder) } else { listed(shared, &folder) })
}

/// Runs of files and the folders between them.
fn to_search(folder: &Arc<Folder>) -> Fruits {
    let mut fruits = Vec::new();
    let mut run = 0..0;
    for (index, entry) in folder.names.entries.iter().enumerate() {
        if !entry.is_folder && !run.is_empty() && run.len() < FILES_AT_ONCE {
            run.end = index + 1;
            continue;
        }
        if !run.is_empty() {
            fruits.push(Fruit::Work(Work::Files(folder.clone(), run)));
        }
        run = if entry.is_folder { 0..0 } else { index..index + 1 };
        if entry.is_folder {
            fruits.push(Fruit::Work(Work::Folder(folder.clone(), index)));
        }
    }
    if !run.is_empty() {
        fruits.push(Fruit::Work(Work::Files(folder.clone(), run)));
    }
    fruits
}

/// The files themselves and the folders between them.
fn listed(shared: &Shared<'_>, folder: &Arc<Folder>) -> Fruits {
    let named = shared.starts[folder.start].named.join(&folder.path);
    let mut fruits = Vec::new();
    let mut found = Found::default();
    let mut files = 0;
    for (index, entry) in folder.names.entries.iter().enumerate() {
        let name = folder.name(index);
        if !entry.is_folder {
            files += 1;
            found.push(Hit { path: named.join(name), ..Hit::default() });
            continue;
        }
        if shared.query.folders && shared.globs.takes_folder(&folder.path.join(name)) {
            found.push(Hit { path: named.join(name).join(""), ..Hit::default() });
        }
        if !found.hits.is_empty() {
            fruits.push(Fruit::Found(std::mem::take(&mut found)));
        }
        fruits.push(Fruit::Work(Work::Folder(folder.clone(), index)));
    }
    if !found.hits.is_empty() {
        fruits.push(Fruit::Found(found));
    }
    shared.searched.fetch_add(files, Ordering::Relaxed);
    fruits
}

/// Regular files and folders of a folder, and which names matter for rules. None: it cannot be read.
fn entries(shared: &Shared<'_>, room: &mut Room, folder: BorrowedFd<'_>) -> Option<(Present, Names)> {
    let (mut present, mut names) = (Present::default(), Names::default());
    let lists = shared.matcher.is_none();
    let mut unknown = Vec::new();
    let mut seen = 0_usize;
    each_entry(folder, room, |name, kind| {
        match name {
            b"." | b".." => return true,
            b".git" => {
                present.git = true;
                return true;
            }
            b".ignore" => present.ignore = true,
            b".gitignore" => present.gitignore = true,
            _ => {}
        }
        match kind {
            // Some file systems do not say.
            FileType::Unknown => unknown.push(name.to_vec()),
            kind => names.add_if(name, kind, lists),
        }
        seen += 1;
        !seen.is_multiple_of(ENTRIES_AT_ONCE) || (shared.sees(ENTRIES_AT_ONCE) && !shared.is_over())
    })?;
    shared.sees(seen % ENTRIES_AT_ONCE);
    for name in unknown {
        if let Ok(met) = rustix::fs::statat(folder, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW) {
            names.add_if(&name, FileType::from_raw_mode(met.st_mode), lists);
        }
    }
    Some((present, names))
}

/// A thread's room for the entries of a folder, as the system gives them.
pub(super) struct Room(#[cfg(target_os = "linux")] Vec<std::mem::MaybeUninit<u8>>);

#[cfg(target_os = "linux")]
impl Default for Room {
    fn default() -> Self {
        Self(vec![std::mem::MaybeUninit::uninit(); ENTRIES_BYTES])
    }
}

#[cfg(not(target_os = "linux"))]
impl Default for Room {
    fn default() -> Self {
        Self()
    }
}

/// Gives each entry's name and kind until `goes_on` says no. None: it cannot be read.
#[cfg(target_os = "linux")]
fn each_entry(folder: BorrowedFd<'_>, room: &mut Room, mut goes_on: impl FnMut(&[u8], FileType) -> bool) -> Option<()> {
    let mut entries = rustix::fs::RawDir::new(folder, &mut room.0);
    let mut is_first = true;
    while let Some(entry) = entries.next() {
        match entry {
            Ok(entry) => {
                if !goes_on(entry.file_name().to_bytes(), entry.file_type()) {
                    break;
                }
            }
            Err(_) if is_first => return None,
            // Folders may vanish while they are read; what was read counts.
            Err(_) => break,
        }
        is_first = false;
    }
    Some(())
}

#[cfg(not(target_os = "linux"))]
fn each_entry(folder: BorrowedFd<'_>, _: &mut Room, mut goes_on: impl FnMut(&[u8], FileType) -> bool) -> Option<()> {
    for entry in rustix::fs::Dir::read_from(folder).ok()? {
        let Ok(entry) = entry else { break };
        if !goes_on(entry.file_name().to_bytes(), entry.file_type()) {
            break;
        }
    }
    Some(())
}

impl Shared<'_> {
    /// Counts entries; false where there are more than one query looks at.
    fn sees(&self, count: usize) -> bool {
        let within = self.entries.fetch_add(count, Ordering::Relaxed).saturating_add(count) <= ENTRIES_MAX;
        if !within {
            self.too_many.store(true, Ordering::Relaxed);
        }
        within
    }

    /// Keeps a descriptor, while there are not too many.
    fn hold(&self, folder: OwnedFd) -> Option<Held> {
        let before = self.held.fetch_add(1, Ordering::Relaxed);
        // Whatever becomes of it, dropping it counts it off.
        let held = Held { folder, count: self.held.clone() };
        (before < FOLDERS_HELD_MAX).then_some(held)
    }

    /// Whether this is a root of its own, which is looked at by itself.
    fn is_start(&self, start: &Start, relative: &Path) -> bool {
        self.starts.len() > 1 && {
            let path = start.named.join(relative);
            self.starts.iter().any(|other| other.named == path)
        }
    }
}
