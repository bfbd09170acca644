//! The threads of one query: each takes what comes first, reads a folder or searches files, and puts what came of it in its place.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use grep_regex::RegexMatcher;

use super::agenda::{Agenda, Found, Fruit, Next, Place};
use super::globs::Globs;
use super::search::{Hand, Searched};
use super::walk::{Folder, Fruits, Room, Start, Work, read_folder, read_start};
use super::{CONTEXT_LINES_MAX, Hit, OUTCOME_BYTES_MAX, Outcome, Query, ScanError, max_results};
use crate::open::{OpenError, open_file_in};

/// What all threads of a query share.
pub(super) struct Shared<'q> {
    pub query: &'q Query,
    pub starts: &'q [Start],
    pub globs: &'q Globs,
    pub matcher: Option<&'q RegexMatcher>,
    cancelled: &'q (dyn Fn() -> bool + Sync),
    agenda: Mutex<(Agenda<Work>, usize)>,
    /// There is more to take, or there will be none.
    changed: Condvar,
    /// What is still being looked at does not count any more.
    over: AtomicBool,
    /// Entries that were seen.
    pub entries: AtomicUsize,
    /// More than a query looks at.
    pub too_many: AtomicBool,
    /// Folders whose descriptors are held.
    pub held: Arc<AtomicUsize>,
    pub searched: AtomicU32,
    binary: AtomicU32,
    skipped: AtomicU32,
}

impl<'q> Shared<'q> {
    pub fn new(
        query: &'q Query,
        starts: &'q [Start],
        globs: &'q Globs,
        matcher: Option<&'q RegexMatcher>,
        cancelled: &'q (dyn Fn() -> bool + Sync),
    ) -> Self {
        let agenda = Agenda::new((0..starts.len()).map(Work::Start), max_results(query), OUTCOME_BYTES_MAX);
        Self {
            query,
            starts,
            globs,
            matcher,
            cancelled,
            agenda: Mutex::new((agenda, 0)),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
            entries: AtomicUsize::new(0),
            too_many: AtomicBool::new(false),
            held: Arc::new(AtomicUsize::new(0)),
            searched: AtomicU32::new(0),
            binary: AtomicU32::new(0),
            skipped: AtomicU32::new(0),
        }
    }

    /// Does all the work on so many threads.
    pub fn run(self, threads: usize) -> Result<Outcome, ScanError> {
        let is_over = || self.is_over();
        let work = || {
            let mut thread = Thread { shared: &self, room: None, hand: None, path: PathBuf::new(), is_over: &is_over };
            while let Some(taken) = self.take() {
                thread.work(taken);
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            work();
            for other in others {
                // A thread that panicked has told so, and what it had was put back empty; what the others found still stands.
                let _ = other.join();
            }
        });
        if (self.cancelled)() {
            return Err(ScanError::Cancelled);
        }
        let agenda = self.agenda.into_inner().unwrap_or_else(PoisonError::into_inner).0;
        let (hits, truncated) = first(agenda.found(), self.query);
        Ok(Outcome {
            hits,
            truncated: truncated || self.too_many.into_inner(),
            files_searched: self.searched.into_inner(),
            binary: self.binary.into_inner(),
            skipped: self.skipped.into_inner(),
        })
    }

    /// Nobody wants more: enough was found, or the caller cancelled.
    pub fn is_over(&self) -> bool {
        if self.over.load(Ordering::Relaxed) {
            return true;
        }
        let cancelled = (self.cancelled)();
        if cancelled {
            self.over.store(true, Ordering::Relaxed);
        }
        cancelled
    }

    fn lock(&self) -> MutexGuard<'_, (Agenda<Work>, usize)> {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece of work; None when there will be none.
    fn take(&self) -> Option<Taken<'_, 'q>> {
        let mut held = self.lock();
        loop {
            if self.over.load(Ordering::Relaxed) {
                return None;
            }
            match held.0.next() {
                Next::Work(place, work) => {
                    return Some(Taken { shared: self, place, work: Some(work), fruits: Vec::new() });
                }
                Next::Over => {
                    self.over.store(true, Ordering::Relaxed);
                    self.changed.notify_all();
                    return None;
                }
                Next::Wait => {
                    held.1 += 1;
                    // Ends: whoever is at work wakes us when it is done, and asks `cancelled` meanwhile.
                    held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
                    held.1 -= 1;
                }
            }
        }
    }
}

/// Work, and what came of it so far; put in its place by drop, so that a panic does not leave the others waiting.
struct Taken<'s, 'q> {
    shared: &'s Shared<'q>,
    place: Place,
    work: Option<Work>,
    fruits: Fruits,
}

impl Drop for Taken<'_, '_> {
    fn drop(&mut self) {
        let mut held = self.shared.lock();
        held.0.put(self.place, self.fruits.drain(..));
        let somebody_waits = held.1 > 0;
        drop(held);
        if somebody_waits {
            self.shared.changed.notify_all();
        }
    }
}

/// One thread's own.
struct Thread<'s, 'q> {
    shared: &'s Shared<'q>,
    room: Option<Room>,
    hand: Option<Hand<'s>>,
    path: PathBuf,
    is_over: &'s (dyn Fn() -> bool + Sync),
}

impl Thread<'_, '_> {
    fn work(&mut self, mut taken: Taken<'_, '_>) {
        if self.shared.is_over() {
            return;
        }
        let Some(work) = taken.work.take() else { return };
        let fruits = match work {
            Work::Start(index) if self.shared.starts[index].file.is_some() => Some(self.file_of_start(index)),
            Work::Start(index) => read_start(self.shared, self.room.get_or_insert_default(), index),
            Work::Folder(parent, index) => read_folder(self.shared, self.room.get_or_insert_default(), &parent, index),
            Work::Files(folder, range) => Some(self.files(&folder, range)),
        };
        match fruits {
            Some(fruits) => taken.fruits = fruits,
            None => self.skip(),
        }
    }

    fn skip(&self) {
        // What was given up is not what could not be read.
        if !self.shared.over.load(Ordering::Relaxed) {
            self.shared.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn file_of_start(&mut self, index: usize) -> Fruits {
        let start = &self.shared.starts[index];
        let Some(file) = &start.file else { return Vec::new() };
        let mut found = Found::default();
        if self.shared.matcher.is_none() {
            self.shared.searched.fetch_add(1, Ordering::Relaxed);
            found.push(Hit { path: start.named.clone(), ..Hit::default() });
        } else {
            // A root that is a link beneath its granted folder was found as one.
            let opened = start.root.open_file(file).and_then(|file| {
                let length =
                    file.metadata().map_err(|source| OpenError::Io { path: start.named.clone(), source })?.len();
                Ok((file, length))
            });
            self.path.clone_from(&start.named);
            self.search(opened, true, &mut found);
        }
        vec![Fruit::Found(found)]
    }

    fn files(&mut self, folder: &Folder, range: std::ops::Range<usize>) -> Fruits {
        let start = &self.shared.starts[folder.start];
        let max = max_results(self.shared.query);
        let mut all = Found::default();
        let mut whole = PathBuf::new();
        for index in range {
            if self.shared.is_over() || all.matches > max || all.bytes > OUTCOME_BYTES_MAX {
                break;
            }
            let (at, name) = folder.at(start, index, &mut whole);
            let opened = open_file_in(at, name);
            self.path.clear();
            self.path.push(&start.named);
            self.path.push(&folder.path);
            self.path.push(folder.name(index));
            self.search(opened, false, &mut all);
        }
        if all.hits.is_empty() { Vec::new() } else { vec![Fruit::Found(all)] }
    }

    /// Searches the file that `self.path` names.
    fn search(&mut self, opened: Result<(std::fs::File, u64), OpenError>, is_root: bool, all: &mut Found) {
        let (Ok((file, length)), Some(matcher)) = (opened, self.shared.matcher) else { return self.skip() };
        let hand = self.hand.get_or_insert_with(|| Hand::new(self.shared.query, matcher, self.is_over));
        match hand.search(file, length, &self.path, is_root) {
            Ok(Searched::Text(found)) => {
                self.shared.searched.fetch_add(1, Ordering::Relaxed);
                all.append(found);
            }
            Ok(Searched::Binary) => {
                self.shared.searched.fetch_add(1, Ordering::Relaxed);
                self.shared.binary.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => self.skip(),
        }
    }
}

/// The first matches with the lines around them, and whether there was more.
fn first(found: Vec<Hit>, query: &Query) -> (Vec<Hit>, bool) {
    let (max, context) = (max_results(query), query.context_lines.min(CONTEXT_LINES_MAX));
    let (mut matches, mut bytes, mut kept) = (0_usize, 0_usize, found.len());
    let mut truncated = false;
    for (index, hit) in found.iter().enumerate() {
        bytes = bytes.saturating_add(hit.cost());
        if (!hit.is_context && matches == max) || bytes > OUTCOME_BYTES_MAX {
            (kept, truncated) = (index, true);
            break;
        }
        matches += usize::from(!hit.is_context);
    }
    let mut hits = found;
    hits.truncate(kept);
    if truncated {
        // What stands before a match that is not given goes with it.
        let last = hits.iter().rposition(|hit| !hit.is_context);
        let near = |hit: &Hit| match last.map(|last| &hits[last]) {
            Some(last) => hit.path == last.path && hit.line <= last.line.saturating_add(context),
            None => false,
        };
        let from = last.map_or(0, |last| last + 1);
        let kept = from + hits[from..].iter().take_while(|hit| near(hit)).count();
        hits.truncate(kept);
    }
    (hits, truncated)
}
