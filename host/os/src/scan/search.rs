//! Lines: the files are searched in their order by all threads, until what was found cannot change the first results any more.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use rustix::fs::OFlags;

use super::walk::{Candidate, Start};
use super::{
    CONTEXT_LINES_MAX, FILE_BYTES_MAX, Hit, LINE_BUFFER_BYTES_MAX, LINE_BYTES_MAX, OUTCOME_BYTES_MAX, Outcome,
    PATTERN_COMPILED_BYTES_MAX, Query, ScanError, max_results,
};
use crate::open::Links;

/// What a hit costs beside its text, in bytes.
const HIT_BYTES: usize = 64;

/// Compiles a query's pattern.
pub(super) fn matcher(pattern: &str, query: &Query) -> Result<RegexMatcher, ScanError> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(query.ignore_case).fixed_strings(query.literal);
    // `^` and `$` are of lines, for the searcher looks at many at once; also in files from Windows.
    builder.multi_line(true).crlf(true);
    builder.size_limit(PATTERN_COMPILED_BYTES_MAX).dfa_size_limit(PATTERN_COMPILED_BYTES_MAX);
    builder.build(pattern).map_err(|error| ScanError::Pattern { message: error.to_string() })
}

struct Line {
    number: u32,
    text: String,
    is_context: bool,
}

/// Searches `files`, which are sorted.
///
/// Threads take the files in order. Once more matches (or bytes) are found than may be given, a file that nobody took yet comes after
/// enough others, so no more are taken: the outcome is exact and the search stops early.
pub(super) fn search(
    query: &Query,
    matcher: &RegexMatcher,
    starts: &[Start],
    files: &[Candidate],
    threads: usize,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, ScanError> {
    let max = max_results(query);
    let (next, matches, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let (searched, skipped, stopped) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    let work = || {
        // An automaton and a buffer of its own for each thread.
        let (matcher, mut searcher) = (matcher.clone(), searcher(query));
        let mut found: Vec<(usize, Vec<Line>)> = Vec::new();
        loop {
            if matches.load(Ordering::Relaxed) > max || bytes.load(Ordering::Relaxed) > OUTCOME_BYTES_MAX {
                break;
            }
            if cancelled() {
                stopped.store(true, Ordering::Relaxed);
                break;
            }
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(candidate) = files.get(index) else { break };
            let mut lines = Lines::new(query, max);
            match one(&starts[candidate.start], candidate, &matcher, &mut searcher, &mut lines, cancelled) {
                Ok(()) => searched.fetch_add(1, Ordering::Relaxed),
                Err(_) => skipped.fetch_add(1, Ordering::Relaxed),
            };
            if lines.matches > 0 {
                matches.fetch_add(lines.matches, Ordering::Relaxed);
                bytes.fetch_add(lines.bytes, Ordering::Relaxed);
                found.push((index, lines.lines));
            }
        }
        found
    };
    let threads = threads.min(files.len()).max(1);
    let mut found = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut found = work();
        for other in others {
            // A thread that panicked has told so; what the others found still stands.
            found.append(&mut other.join().unwrap_or_default());
        }
        found
    });
    if stopped.into_inner() || cancelled() {
        return Err(ScanError::Cancelled);
    }
    found.sort_unstable_by_key(|(index, _)| *index);
    let (hits, truncated) = first(found, files, max, context_lines(query));
    Ok(Outcome { hits, truncated, files_searched: searched.into_inner(), skipped: skipped.into_inner() })
}

/// The first `max` matches with the lines around them, and whether there was more.
fn first(found: Vec<(usize, Vec<Line>)>, files: &[Candidate], max: usize, context: u32) -> (Vec<Hit>, bool) {
    let (mut hits, mut left, mut bytes) = (Vec::new(), max, 0_usize);
    for (index, lines) in found {
        if left == 0 {
            return (hits, true);
        }
        let path = &files[index].path;
        let mut last = 0_u32;
        for line in lines {
            bytes = bytes.saturating_add(cost(path, &line.text));
            if (left == 0 && !line.is_context) || bytes > OUTCOME_BYTES_MAX {
                return (hits, true);
            }
            if line.is_context && left == 0 && line.number > last.saturating_add(context) {
                continue;
            }
            if !line.is_context {
                left -= 1;
                last = line.number;
            }
            hits.push(Hit { path: path.clone(), line: line.number, text: line.text, is_context: line.is_context });
        }
    }
    (hits, false)
}

fn cost(path: &Path, text: &str) -> usize {
    path.as_os_str().len().saturating_add(text.len()).saturating_add(HIT_BYTES)
}

fn context_lines(query: &Query) -> u32 {
    query.context_lines.min(CONTEXT_LINES_MAX)
}

fn searcher(query: &Query) -> Searcher {
    let context = context_lines(query) as usize;
    let mut builder = SearcherBuilder::new();
    builder.line_number(true).before_context(context).after_context(context);
    builder.line_terminator(LineTerminator::crlf());
    builder.binary_detection(BinaryDetection::quit(0)).heap_limit(Some(LINE_BUFFER_BYTES_MAX));
    builder.build()
}

/// Err: it could not be read, to its end at least; nothing of it is given then.
fn one(
    start: &Start,
    candidate: &Candidate,
    matcher: &RegexMatcher,
    searcher: &mut Searcher,
    lines: &mut Lines,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> io::Result<()> {
    let refused = |_| io::Error::from(io::ErrorKind::PermissionDenied);
    let file = match &start.file {
        // A root that is a link beneath its granted folder was found as one.
        Some(name) => start.root.open_regular(name, OFlags::RDONLY, Links::Beneath),
        None => {
            let place = candidate.path.strip_prefix(&start.named).unwrap_or(&candidate.path);
            start.root.open_regular(place, OFlags::RDONLY, Links::Refused)
        }
    };
    let file = file.map_err(refused)?;
    if file.metadata()?.len() > FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    lines.path_bytes = candidate.path.as_os_str().len();
    // Limited again: it may grow while it is read.
    let reader = Interruptible { file: file.take(FILE_BYTES_MAX), cancelled };
    let answer = searcher.search_reader(matcher, reader, &mut *lines);
    if answer.is_err() || lines.is_binary {
        lines.forget();
    }
    answer
}

/// A file that ends with an error when the caller cancels.
struct Interruptible<'c> {
    file: io::Take<File>,
    cancelled: &'c (dyn Fn() -> bool + Sync),
}

impl Read for Interruptible<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.cancelled)() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}

/// Gathers a file's lines, no more of them than can be given.
struct Lines {
    max_matches: usize,
    max_line_bytes: usize,
    path_bytes: usize,
    lines: Vec<Line>,
    matches: usize,
    bytes: usize,
    is_binary: bool,
}

impl Lines {
    fn new(query: &Query, max_matches: usize) -> Self {
        let max_line_bytes = query.max_line_bytes.min(LINE_BYTES_MAX) as usize;
        Self { max_matches, max_line_bytes, path_bytes: 0, lines: Vec::new(), matches: 0, bytes: 0, is_binary: false }
    }

    /// Whether to go on in this file: one more match than may be given tells that there is more.
    fn push(&mut self, number: Option<u64>, bytes: &[u8], is_context: bool) -> bool {
        let text = line_text(bytes, self.max_line_bytes);
        self.bytes = self.bytes.saturating_add(self.path_bytes.saturating_add(text.len()).saturating_add(HIT_BYTES));
        self.matches += usize::from(!is_context);
        let number = number.and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX);
        self.lines.push(Line { number, text, is_context });
        self.matches <= self.max_matches && self.bytes <= OUTCOME_BYTES_MAX
    }

    fn forget(&mut self) {
        (self.lines, self.matches, self.bytes) = (Vec::new(), 0, 0);
    }
}

impl Sink for &mut Lines {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        Ok(self.push(found.line_number(), found.bytes(), false))
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.push(near.line_number(), near.bytes(), true))
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.is_binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

fn line_text(bytes: &[u8], max_bytes: usize) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    // A character more than fits, so that what is replaced at the cut is cut off again.
    let bytes = &bytes[..bytes.len().min(max_bytes.saturating_add(4))];
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    text.truncate(text.floor_char_boundary(max_bytes));
    text
}

#[cfg(test)]
mod tests {
    use super::line_text;

    #[test]
    fn lines_are_cut_at_characters() {
        assert_eq!(line_text(b"abc\r\n", 10), "abc");
        assert_eq!(line_text("aéb".as_bytes(), 2), "a");
        assert_eq!(line_text("aéb".as_bytes(), 3), "aé");
        assert_eq!(line_text("a€€€".as_bytes(), 5), "a€");
        assert_eq!(line_text(b"a\xff\xffb", 100), "a\u{fffd}\u{fffd}b");
        assert_eq!(line_text(b"\xff\xff\xff", 4), "\u{fffd}");
        assert_eq!(line_text(b"abc", 0), "");
    }
}
