//! One file: opened beneath its folder, read by a thread that keeps its buffer and its automaton from file to file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::agenda::Found;
use super::lines::Lines;
use super::{
    CONTEXT_LINES_MAX, FILE_BYTES_MAX, LINE_BUFFER_BYTES_MAX, LINE_BYTES_MAX, PATTERN_COMPILED_BYTES_MAX, Query,
    ScanError, max_results,
};

/// Files up to this length are read whole, with one call; longer ones piece by piece. Also the room that each thread keeps for it.
const WHOLE_BYTES_MAX: usize = 256 * 1024;

/// Compiles a query's pattern.
pub(super) fn matcher(pattern: &str, query: &Query) -> Result<RegexMatcher, ScanError> {
    if !query.literal {
        // By itself first: the builder puts it in a group, in which `a)(b` would pass and errors would be told of another text.
        let mut parser = regex_syntax::ParserBuilder::new();
        parser.utf8(false).multi_line(true).crlf(true).case_insensitive(query.ignore_case);
        parser.build().parse(pattern).map_err(|error| ScanError::Pattern { message: error.to_string() })?;
    }
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(query.ignore_case).fixed_strings(query.literal);
    // `^` and `$` are of lines, for the searcher looks at many at once; also in files from Windows.
    builder.multi_line(true).crlf(true);
    builder.size_limit(PATTERN_COMPILED_BYTES_MAX).dfa_size_limit(PATTERN_COMPILED_BYTES_MAX);
    builder.build(pattern).map_err(|error| ScanError::Pattern { message: error.to_string() })
}

/// What one file gave.
pub(super) enum Searched {
    Text(Found),
    /// It holds NUL bytes. Told only where the pattern stands in it, or of a root.
    Binary,
}

/// A thread's automaton and buffers.
pub(super) struct Hand<'q> {
    matcher: RegexMatcher,
    /// For what is in memory whole.
    slices: Searcher,
    /// For what is read piece by piece, or in UTF-16.
    pieces: Searcher,
    buffer: Vec<u8>,
    max_matches: usize,
    max_line_bytes: usize,
    /// Asked for every file, and for every piece of a long one.
    is_over: &'q (dyn Fn() -> bool + Sync),
}

impl<'q> Hand<'q> {
    pub fn new(query: &Query, matcher: &RegexMatcher, is_over: &'q (dyn Fn() -> bool + Sync)) -> Self {
        Self {
            // Its own, for threads wait for each other at a shared one's caches.
            matcher: matcher.clone(),
            slices: searcher(query, BinaryDetection::none()),
            pieces: searcher(query, BinaryDetection::quit(0)),
            buffer: Vec::new(),
            max_matches: max_results(query),
            max_line_bytes: query.max_line_bytes.min(LINE_BYTES_MAX) as usize,
            is_over,
        }
    }

    /// Searches an open regular file of this length. Err: it could not be read, to its end at least; nothing of it is given then.
    /// `is_root`: say that it is binary in any case.
    pub fn search(&mut self, file: File, length: u64, path: &Path, is_root: bool) -> io::Result<Searched> {
        if length > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut lines = Lines {
            matcher: &self.matcher,
            path,
            max_matches: self.max_matches,
            max_line_bytes: self.max_line_bytes,
            whole: None,
            found: Found::default(),
            is_binary: false,
        };
        let mut is_binary = false;
        match usize::try_from(length) {
            Ok(length @ 1..=WHOLE_BYTES_MAX) => {
                if self.buffer.is_empty() {
                    self.buffer.resize(WHOLE_BYTES_MAX, 0);
                }
                let read = fill(&file, &mut self.buffer[..length])?;
                let bytes = &self.buffer[..read];
                if has_mark(bytes) {
                    self.pieces.search_slice(&self.matcher, bytes, &mut lines)?;
                } else {
                    lines.whole = Some(bytes);
                    self.slices.search_slice(&self.matcher, bytes, &mut lines)?;
                    is_binary = is_root && lines.whole.is_some() && bytes.contains(&0);
                }
                is_binary |= lines.is_binary;
            }
            // Files of length 0 too: on some file systems they have content.
            _ => {
                // Limited again: it may grow while it is read.
                let reader = Interruptible { file: file.take(FILE_BYTES_MAX), is_over: self.is_over };
                self.pieces.search_reader(&self.matcher, reader, &mut lines)?;
                is_binary = lines.is_binary && (is_root || lines.found.matches > 0);
                if lines.is_binary && !is_binary {
                    lines.found = Found::default();
                }
            }
        }
        Ok(if is_binary { Searched::Binary } else { Searched::Text(lines.found) })
    }
}

fn searcher(query: &Query, binary: BinaryDetection) -> Searcher {
    let context = query.context_lines.min(CONTEXT_LINES_MAX) as usize;
    let mut builder = SearcherBuilder::new();
    builder.line_number(true).before_context(context).after_context(context);
    builder.line_terminator(LineTerminator::crlf());
    builder.binary_detection(binary).heap_limit(Some(LINE_BUFFER_BYTES_MAX));
    builder.build()
}

/// Reads until the buffer is full or the file ends. A file that grows meanwhile is what it was when it was opened.
fn fill(mut file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// It begins with a byte order mark.
fn has_mark(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") || bytes.starts_with(b"\xef\xbb\xbf")
}

/// A file that ends with an error when nobody wants more of it.
struct Interruptible<'c> {
    file: io::Take<File>,
    is_over: &'c (dyn Fn() -> bool + Sync),
}

impl Read for Interruptible<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.is_over)() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}
