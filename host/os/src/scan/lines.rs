//! One file's lines, as the searcher gives them; a long one is cut around its match.

use std::io;
use std::ops::Range;
use std::path::Path;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::agenda::Found;
use super::{Hit, OUTCOME_BYTES_MAX};

/// What is gathered of one file.
pub(super) struct Lines<'f> {
    pub matcher: &'f RegexMatcher,
    pub path: &'f Path,
    /// No more matches than these, and one.
    pub max_matches: usize,
    pub max_line_bytes: usize,
    /// The whole file, where it is searched as it is: the place to look for what makes it binary.
    pub whole: Option<&'f [u8]>,
    pub found: Found,
    pub is_binary: bool,
}

impl Lines<'_> {
    /// Asked before the first line is kept: files in which nothing is found need not be looked through.
    fn is_text(&mut self) -> bool {
        self.is_binary |= self.whole.take().is_some_and(|whole| whole.contains(&0));
        !self.is_binary
    }

    /// Whether to go on in this file: one more match than may be given tells that there is more.
    fn push(&mut self, number: Option<u64>, bytes: &[u8], is_context: bool) -> bool {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let at = if is_context { None } else { self.matcher.find(line).ok().flatten() };
        let at = at.map_or(0..0, |found| found.start()..found.end());
        let shown = window(line, &at, self.max_line_bytes);
        let (start, end) = (at.start.clamp(shown.start, shown.end), at.end.clamp(shown.start, shown.end));
        // In three parts, for an invalid byte is longer as it is shown.
        let mut text = String::from_utf8_lossy(&line[shown.start..start]).into_owned();
        let match_start = text.len();
        text.push_str(&String::from_utf8_lossy(&line[start..end]));
        let match_end = text.len();
        text.push_str(&String::from_utf8_lossy(&line[end..shown.end]));
        self.found.push(Hit {
            path: self.path.to_path_buf(),
            line: number.map_or(0, as_u32),
            text,
            is_context,
            match_start: as_u32(match_start),
            match_end: as_u32(match_end),
            cut_before: as_u32(shown.start),
            cut_after: as_u32(line.len() - shown.end),
        });
        self.found.matches <= self.max_matches && self.found.bytes <= OUTCOME_BYTES_MAX
    }
}

impl Sink for &mut Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        Ok(self.is_text() && self.push(found.line_number(), found.bytes(), false))
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.is_text() && self.push(near.line_number(), near.bytes(), true))
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.is_binary |= end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// The part of a line that is shown: its beginning, if the match stands there; else the match with a quarter of the room before it. Cut at
/// characters.
fn window(line: &[u8], at: &Range<usize>, max: usize) -> Range<usize> {
    if line.len() <= max {
        return 0..line.len();
    }
    let lead = max / 4;
    let start = if at.end <= max - lead { 0 } else { at.start.saturating_sub(lead).min(line.len() - max) };
    let (mut start, mut end) = (start, start + max);
    while start > 0 && start < at.start && is_inside(line[start]) {
        start += 1;
    }
    // At most three, lest bytes that are no text make nothing of it.
    for _ in 0..3 {
        if end > start && line.get(end).copied().is_some_and(is_inside) {
            end -= 1;
        }
    }
    start..end
}

/// A byte that begins no character.
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

fn as_u32<T: TryInto<u32>>(value: T) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::window;

    fn shown(line: &str, at: std::ops::Range<usize>, max: usize) -> &str {
        &line[window(line.as_bytes(), &at, max)]
    }

    #[test]
    fn lines_are_cut_at_characters() {
        assert_eq!(shown("abc", 0..1, 10), "abc");
        assert_eq!(shown("aéb", 0..1, 2), "a");
        assert_eq!(shown("aéb", 0..1, 3), "aé");
        assert_eq!(shown("a€€€", 0..1, 5), "a€");
        assert_eq!(shown("abc", 0..0, 0), "");
        assert_eq!(window(b"\xbf\xbf\xbf\xbf\xbf\xbf", &(0..1), 4), 0..1, "no more than three are taken off");
    }

    #[test]
    fn a_match_far_in_is_shown_with_what_stands_around_it() {
        let line = "0123456789abcdefghij";
        assert_eq!(shown(line, 0..1, 8), "01234567");
        assert_eq!(shown(line, 4..6, 8), "01234567");
        assert_eq!(shown(line, 6..8, 8), "456789ab");
        assert_eq!(shown(line, 19..20, 8), "cdefghij");
        assert_eq!(shown(line, 10..20, 4), "9abc");
        assert_eq!(shown("éééééééé", 10..12, 8), "éééé");
    }
}
