//! The lines of session files, read in pieces and looked at as bytes, several files at once.

use pith_core::LINE_LIMIT_BYTES;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

/// How much is read at a time, in bytes.
const PIECE_BYTES: usize = 1 << 20;
/// Threads that read, at most: more take the machine from what else runs on it, and one already reads as fast as most disks.
const READERS: usize = 2;
/// What readers have found and nobody has taken yet.
const QUEUE: usize = 64;

/// Reads a file in pieces of whole lines; `each` says whether to go on. The last line of a file may have no newline. Longer lines than are read
/// elsewhere are left out.
pub(super) fn pieces(path: &Path, each: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<u64> {
    let mut file: File = pith_os::open_regular(path).map_err(io::Error::other)?;
    let mut buffer = vec![0u8; PIECE_BYTES];
    let (mut filled, mut total) = (0usize, 0u64);
    // A line that is too long goes on.
    let mut is_skipping = false;
    loop {
        if filled == buffer.len() {
            if buffer.len() > LINE_LIMIT_BYTES {
                (filled, is_skipping) = (0, true);
            } else {
                buffer.resize(buffer.len().saturating_mul(2), 0);
            }
        }
        let read = match file.read(&mut buffer[filled..]) {
            Ok(0) => {
                if filled > 0 && !is_skipping {
                    each(&buffer[..filled]);
                }
                return Ok(total);
            }
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        total = total.saturating_add(read as u64);
        let from = filled;
        filled += read;
        let Some(end) = memchr::memrchr(b'\n', &buffer[from..filled]).map(|at| from + at + 1) else { continue };
        let mut begin = 0;
        if is_skipping {
            begin = memchr::memchr(b'\n', &buffer[..end]).map_or(end, |at| at + 1);
            is_skipping = false;
        }
        if begin < end && !each(&buffer[begin..end]) {
            return Ok(total);
        }
        buffer.copy_within(end..filled, 0);
        filled -= end;
        if buffer.len() > PIECE_BYTES && filled < PIECE_BYTES {
            buffer.truncate(PIECE_BYTES);
            buffer.shrink_to_fit();
        }
    }
}

/// What a reader says of the file with this number.
pub(super) enum Word<T> {
    /// It found something.
    Found(T),
    /// It is through with it.
    Done(io::Result<u64>),
}

/// How a reader says what it found. `false`: nobody wants more.
pub(super) struct Teller<'a, T> {
    number: usize,
    to: &'a SyncSender<(usize, Word<T>)>,
    stop: &'a AtomicBool,
}

impl<T> Teller<'_, T> {
    pub fn tell(&self, found: T) -> bool {
        !self.is_over() && self.to.send((self.number, Word::Found(found))).is_ok()
    }

    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Reads `count` files beside each other. `read` reads the one with a number and says what it found; `hear` gets that in the order of the files,
/// as soon as it is there, and says whether to go on. `is_enough` says of how much was found in the files begun so far whether further
/// ones need not be begun.
pub(super) fn in_order<T: Send>(
    count: usize,
    read: &(dyn Fn(usize, &Teller<'_, T>) -> io::Result<u64> + Sync),
    is_enough: &(dyn Fn(usize) -> bool + Sync),
    hear: &mut dyn FnMut(usize, Word<T>) -> bool,
) {
    let (next, found, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let (to, words) = sync_channel(QUEUE);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(READERS).min(count);
    let work = |to: SyncSender<(usize, Word<T>)>| {
        while !stop.load(Ordering::Relaxed) && !is_enough(found.load(Ordering::Relaxed)) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let done = read(number, &Teller { number, to: &to, stop: &stop });
            if to.send((number, Word::Done(done))).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            let (work, to) = (&work, to.clone());
            scope.spawn(move || work(to));
        }
        drop(to);
        hear_in_order(words, &found, hear);
        stop.store(true, Ordering::Relaxed);
    });
}

/// Gives the words of the file whose turn it is on; those of later ones wait. Ends where `hear` wants no more: then nobody hears the readers.
fn hear_in_order<T>(
    words: Receiver<(usize, Word<T>)>,
    found: &AtomicUsize,
    hear: &mut dyn FnMut(usize, Word<T>) -> bool,
) {
    let mut turn = 0;
    let mut waiting: std::collections::BTreeMap<usize, Vec<Word<T>>> = std::collections::BTreeMap::new();
    for (number, word) in words {
        if matches!(word, Word::Found(_)) {
            found.fetch_add(1, Ordering::Relaxed);
        }
        waiting.entry(number).or_default().push(word);
        while let Some(ready) = waiting.remove(&turn) {
            let is_done = ready.iter().any(|word| matches!(word, Word::Done(_)));
            for word in ready {
                if !hear(turn, word) {
                    return;
                }
            }
            if !is_done {
                break;
            }
            turn += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_come_however_long_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let lines: Vec<String> =
            [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 3, 2 * PIECE_BYTES + 7, 5].map(|length| "x".repeat(length)).to_vec();
        for tail in ["", "\n"] {
            std::fs::write(&path, lines.join("\n") + tail).unwrap();
            let mut seen = Vec::new();
            let mut pieces_seen = 0;
            let total = pieces(&path, &mut |piece| {
                pieces_seen += 1;
                let text = std::str::from_utf8(piece).unwrap();
                seen.extend(text.strip_suffix('\n').unwrap_or(text).split('\n').map(str::len));
                true
            });
            assert_eq!(total.unwrap(), std::fs::metadata(&path).unwrap().len());
            assert_eq!(seen, lines.iter().map(String::len).collect::<Vec<_>>());
            assert!(pieces_seen > 1);
        }
    }

    #[test]
    fn a_line_that_is_too_long_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let mut text = b"before\n".to_vec();
        text.resize(text.len() + 3 * LINE_LIMIT_BYTES, b'x');
        text.extend_from_slice(b"\nafter\nend");
        std::fs::write(&path, &text).unwrap();
        let mut seen = Vec::new();
        pieces(&path, &mut |piece| {
            seen.extend_from_slice(piece);
            true
        })
        .unwrap();
        assert_eq!(String::from_utf8_lossy(&seen), "before\nafter\nend");
    }

    #[test]
    fn what_is_found_comes_in_the_files_order_and_no_more_than_is_wanted() {
        let read = |number: usize, teller: &Teller<'_, usize>| {
            for part in 0..3 {
                if !teller.tell(number * 10 + part) {
                    break;
                }
            }
            Ok(1)
        };
        let mut heard = Vec::new();
        in_order(50, &read, &|_| false, &mut |_, word| {
            if let Word::Found(found) = word {
                heard.push(found);
            }
            true
        });
        let all: Vec<usize> = (0..50).flat_map(|number| (0..3).map(move |part| number * 10 + part)).collect();
        assert_eq!(heard, all);
        // Far more than fits into the queue, and the hearer leaves at once: no reader waits for it.
        let mut heard = 0;
        in_order(100_000, &read, &|_| false, &mut |_, _| {
            heard += 1;
            heard < 5
        });
        assert_eq!(heard, 5);
        let begun = AtomicUsize::new(0);
        let count = |number: usize, teller: &Teller<'_, usize>| {
            begun.fetch_add(1, Ordering::Relaxed);
            read(number, teller)
        };
        in_order(100_000, &count, &|found| found >= 6, &mut |_, _| true);
        assert!((2..1_000).contains(&begun.into_inner()));
    }
}
