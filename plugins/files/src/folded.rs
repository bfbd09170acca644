//! A text made comparable, with the way back: every place of the folded text knows where in the file it came from.

use std::borrow::Cow;
use std::ops::Range;

use crate::letters::{fold, is_mark, is_space};

/// The most places at which folding may change the step of the way back: some ten megabytes, for each of two forms. A file
/// that has more is no text that people edit.
pub const MAX_PIECES: usize = 2_000_000;

/// A file's text in which `\r\n` is `\n` and, if loose, typographic characters are plain and lines have no trailing white
/// space. Bytes that are no UTF-8 are a stand-in, a character that nothing searched for has.
#[derive(Clone, Debug)]
pub struct Folded<'a> {
    text: Cow<'a, str>,
    /// Where the way back changes its step, in order; none where nothing was folded.
    pieces: Vec<Piece>,
    /// Bytes of the original.
    end: usize,
    is_loose: bool,
}

/// From `at` in the folded text on, up to the next piece.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: u32,
    original: u32,
    /// All of it stands for one part of the original, else byte for byte.
    is_one: bool,
}

impl<'a> Folded<'a> {
    /// Line ends only. The original has at most `u32::MAX` bytes.
    pub fn exact(original: &'a [u8], stand_in: char) -> Self {
        if let Ok(text) = std::str::from_utf8(original)
            && !text.contains("\r\n")
        {
            return Self { text: Cow::Borrowed(text), pieces: Vec::new(), end: original.len(), is_loose: false };
        }
        let mut folded = Builder::with_capacity(original.len());
        let mut at = 0;
        for chunk in original.utf8_chunks() {
            let mut from = 0;
            for (end, _) in chunk.valid().match_indices("\r\n") {
                folded.same(at + from, &chunk.valid()[from..end]);
                folded.one(at + end, |text| text.push('\n'));
                from = end + 2;
            }
            folded.same(at + from, &chunk.valid()[from..]);
            at += chunk.valid().len();
            if !chunk.invalid().is_empty() {
                folded.one(at, |text| text.push(stand_in));
                at += chunk.invalid().len();
            }
        }
        folded.finish(original.len(), false)
    }

    /// As a model that retyped it might have written it. The original has at most `u32::MAX` bytes.
    pub fn loose(original: &[u8], stand_in: char) -> Self {
        let mut folded = Builder::with_capacity(original.len());
        let mut at = 0;
        for line in original.split_inclusive(|&byte| byte == b'\n') {
            let content = without_end(line);
            folded.line(at, without_trailing_space(content), stand_in);
            if line.ends_with(b"\n") {
                folded.one(at + content.len(), |text| text.push('\n'));
            }
            at += line.len();
        }
        folded.finish(original.len(), true)
    }

    /// Whether there were more than [`MAX_PIECES`]; then nothing that it says holds.
    pub fn is_too_much(&self) -> bool {
        self.pieces.len() > MAX_PIECES
    }

    /// The folded text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where a range of the folded text lies in the original; none where it would split one character of it. White space
    /// that was dropped before its end belongs to it.
    pub fn original(&self, range: Range<usize>) -> Option<Range<usize>> {
        if self.is_loose && self.text[range.end..].chars().next().is_some_and(is_mark) {
            return None;
        }
        let start = self.origin(range.start)?;
        let end = if range.end == self.text.len() { self.end } else { self.origin(range.end)? };
        Some(start..end)
    }

    fn origin(&self, at: usize) -> Option<usize> {
        let next = self.pieces.partition_point(|piece| piece.at as usize <= at);
        let Some(piece) = next.checked_sub(1).and_then(|i| self.pieces.get(i)) else { return Some(at) };
        let step = at - piece.at as usize;
        (step == 0 || !piece.is_one).then_some(piece.original as usize + step)
    }
}

/// What a model wrote, folded as [`Folded::loose`] does, except that the last line keeps its trailing white space: it may
/// be the beginning of a longer line.
pub fn loose_needle(written: &str) -> String {
    let (lines, last) = written.split_at(written.rfind('\n').map_or(0, |end| end + 1));
    let mut needle = Folded::loose(lines.as_bytes(), char::REPLACEMENT_CHARACTER).text.into_owned();
    last.chars().for_each(|char| fold(char, &mut needle));
    needle
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn without_trailing_space(content: &[u8]) -> &[u8] {
    // Most lines: their last byte is a letter's.
    if content.last().is_none_or(|byte| byte.is_ascii_graphic()) {
        return content;
    }
    let Some(last) = content.utf8_chunks().last().filter(|last| last.invalid().is_empty()) else { return content };
    let space = last.valid().len() - last.valid().trim_end_matches(is_space).len();
    &content[..content.len() - space]
}

struct Builder {
    text: String,
    pieces: Vec<Piece>,
}

impl Builder {
    fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), pieces: Vec::new() }
    }

    /// A part of a line, folded character by character.
    fn line(&mut self, at: usize, bytes: &[u8], stand_in: char) {
        let mut at = at;
        for chunk in bytes.utf8_chunks() {
            let valid = chunk.valid();
            let mut from = 0;
            while let Some(special) = valid.as_bytes()[from..].iter().position(|byte| !byte.is_ascii()) {
                self.same(at + from, &valid[from..from + special]);
                from += special;
                let Some(char) = valid[from..].chars().next() else { break };
                self.letter(at + from, char);
                from += char.len_utf8();
            }
            self.same(at + from, &valid[from..]);
            at += valid.len();
            if !chunk.invalid().is_empty() {
                self.one(at, |text| text.push(stand_in));
                at += chunk.invalid().len();
            }
        }
    }

    /// Text that stays as it is, from this offset of the original.
    fn same(&mut self, original: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        self.piece(self.text.len(), original, false);
        self.text.push_str(text);
    }

    /// What one character at this offset of the original became.
    fn one(&mut self, original: usize, push: impl FnOnce(&mut String)) {
        self.piece(self.text.len(), original, true);
        push(&mut self.text);
    }

    /// One character, folded.
    fn letter(&mut self, original: usize, char: char) {
        let at = self.text.len();
        fold(char, &mut self.text);
        let is_same = self.text[at..].chars().eq([char]);
        self.piece(at, original, !is_same);
    }

    /// A piece that begins at `at`, where the one before does not just go on.
    fn piece(&mut self, at: usize, original: usize, is_one: bool) {
        let goes_on = |piece: &Piece| !piece.is_one && piece.original as usize + (at - piece.at as usize) == original;
        if self.pieces.len() <= MAX_PIECES && (is_one || !self.pieces.last().is_some_and(goes_on)) {
            // Larger files are refused long before; saturation keeps the impossible case from wrapping.
            let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
            self.pieces.push(Piece { at: narrow(at), original: narrow(original), is_one });
        }
    }

    fn finish<'a>(self, end: usize, is_loose: bool) -> Folded<'a> {
        Folded { text: Cow::Owned(self.text), pieces: self.pieces, end, is_loose }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAND_IN: char = '\u{f0000}';

    #[test]
    fn exact_folds_line_ends_only_and_finds_back() {
        let original = "a \r\nb\n\rc\r\n";
        let folded = Folded::exact(original.as_bytes(), STAND_IN);
        assert_eq!(folded.text(), "a \nb\n\rc\n");
        let at = folded.text().find("b\n").unwrap();
        assert_eq!(&original[folded.original(at..at + 2).unwrap()], "b\n");
        assert_eq!(&original[folded.original(0..3).unwrap()], "a \r\n");
        assert_eq!(&original[folded.original(0..2).unwrap()], "a ");
        assert_eq!(folded.original(0..8), Some(0..original.len()));
    }

    #[test]
    fn loose_folds_quotes_dashes_and_trailing_space() {
        let original = "say \u{201c}hi\u{201d}\u{a0}\u{2014} it\u{2019}s  \t\r\nnext";
        let folded = Folded::loose(original.as_bytes(), STAND_IN);
        assert_eq!(folded.text(), "say \"hi\" - it's\nnext");
        let end = folded.text().find('\n').unwrap();
        // The dropped white space goes with what stands before it, the line's end stays.
        assert_eq!(&original[folded.original(0..end).unwrap()], "say \u{201c}hi\u{201d}\u{a0}\u{2014} it\u{2019}s  \t");
        assert_eq!(&original[folded.original(end..end + 5).unwrap()], "\r\nnext");
    }

    #[test]
    fn a_place_inside_one_character_has_no_way_back() {
        let folded = Folded::loose("a\u{2026}b\u{e9}e\u{301}c".as_bytes(), STAND_IN);
        assert_eq!(folded.text(), "a...be\u{301}e\u{301}c");
        assert_eq!(folded.original(1..4), Some(1..4));
        assert_eq!(folded.original(1..2), None);
        assert_eq!(folded.original(3..5), None);
        // Half of a letter, whether it was composed or not.
        assert_eq!((folded.original(5..6), folded.original(8..9)), (None, None));
        assert_eq!((folded.original(5..8), folded.original(8..11)), (Some(5..7), Some(7..10)));
    }

    #[test]
    fn bytes_that_are_no_text_stand_for_themselves() {
        for folded in [Folded::exact(b"a\xff\xfeb\r\nc", STAND_IN), Folded::loose(b"a\xff\xfeb\r\nc", STAND_IN)] {
            assert_eq!(folded.text(), format!("a{STAND_IN}{STAND_IN}b\nc"));
            assert_eq!(folded.original(9..12), Some(3..7), "{folded:?}");
            assert_eq!(folded.original(0..5), Some(0..2));
        }
    }

    #[test]
    fn a_needle_keeps_the_space_at_its_very_end() {
        assert_eq!(loose_needle("a  \nlet x = "), "a\nlet x = ");
        assert_eq!(loose_needle("a  \n"), "a\n");
        assert_eq!(loose_needle("\u{2018}a\u{2019} "), "'a' ");
    }
}
