//! A text made comparable, with the way back: every byte of the folded text knows where it came from.

use std::ops::Range;

/// A text in which `\r\n` is `\n` and, if loose, typographic characters are plain and lines have no trailing white space.
#[derive(Clone, Debug)]
pub struct Folded {
    text: String,
    /// Offset in the original of each byte of `text`, and of the end; none where nothing was folded.
    origin: Option<Vec<u32>>,
}

impl Folded {
    /// Line ends only. The original has at most `u32::MAX` bytes.
    pub fn exact(original: &str) -> Self {
        if !original.contains("\r\n") {
            return Self { text: original.to_owned(), origin: None };
        }
        let mut folded = Builder::with_capacity(original.len());
        let mut chars = original.char_indices().peekable();
        while let Some((at, char)) = chars.next() {
            if char == '\r' && chars.next_if(|&(_, next)| next == '\n').is_some() {
                folded.push(at, '\n');
            } else {
                folded.push(at, char);
            }
        }
        folded.finish(original.len())
    }

    /// As a model that retyped it might have written it. The original has at most `u32::MAX` bytes.
    pub fn loose(original: &str) -> Self {
        let mut folded = Builder::with_capacity(original.len());
        let mut offset = 0;
        for line in original.split_inclusive('\n') {
            let content = without_end(line);
            let kept = content.trim_end_matches(is_space);
            for (at, char) in kept.char_indices() {
                folded.push(offset + at, plain(char));
            }
            if line.len() > content.len() {
                folded.push(offset + content.len(), '\n');
            }
            offset += line.len();
        }
        folded.finish(original.len())
    }

    /// The folded text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where a range of the folded text lies in the original. White space that was dropped before its end belongs to it.
    pub fn original(&self, range: Range<usize>) -> Range<usize> {
        match &self.origin {
            None => range,
            Some(origin) => origin[range.start] as usize..origin[range.end] as usize,
        }
    }
}

/// What a model wrote, folded as [`Folded::loose`] does, except that the last line keeps its trailing white space: it may
/// be the beginning of a longer line.
pub fn loose_needle(written: &str) -> String {
    let (lines, last) =
        written.rsplit_once('\n').map_or(("", written), |(_, last)| written.split_at(written.len() - last.len()));
    let mut needle = Folded::loose(lines).text;
    needle.extend(last.chars().map(plain));
    needle
}

/// White space that may trail, after folding.
pub fn is_space(char: char) -> bool {
    matches!(plain(char), ' ' | '\t')
}

fn without_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// The ASCII character that people and models type for a typographic one.
fn plain(char: char) -> char {
    match char {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        char => char,
    }
}

struct Builder {
    text: String,
    origin: Vec<u32>,
}

impl Builder {
    fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), origin: Vec::with_capacity(bytes + 1) }
    }

    fn push(&mut self, origin: usize, char: char) {
        self.text.push(char);
        // Larger files are refused long before; saturation keeps the impossible case from wrapping.
        let origin = u32::try_from(origin).unwrap_or(u32::MAX);
        self.origin.extend(std::iter::repeat_n(origin, char.len_utf8()));
    }

    fn finish(mut self, end: usize) -> Folded {
        self.origin.push(u32::try_from(end).unwrap_or(u32::MAX));
        Folded { text: self.text, origin: Some(self.origin) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_folds_line_ends_only_and_finds_back() {
        let original = "a \r\nb\n\rc\r\n";
        let folded = Folded::exact(original);
        assert_eq!(folded.text(), "a \nb\n\rc\n");
        let at = folded.text().find("b\n").unwrap();
        assert_eq!(&original[folded.original(at..at + 2)], "b\n");
        assert_eq!(&original[folded.original(0..3)], "a \r\n");
        assert_eq!(&original[folded.original(0..2)], "a ");
        assert_eq!(folded.original(0..8), 0..original.len());
    }

    #[test]
    fn loose_folds_quotes_dashes_and_trailing_space() {
        let original = "say \u{201c}hi\u{201d}\u{a0}\u{2014} it\u{2019}s  \t\r\nnext";
        let folded = Folded::loose(original);
        assert_eq!(folded.text(), "say \"hi\" - it's\nnext");
        let end = folded.text().find('\n').unwrap();
        // The dropped white space goes with what stands before it, the line's end stays.
        assert_eq!(&original[folded.original(0..end)], "say \u{201c}hi\u{201d}\u{a0}\u{2014} it\u{2019}s  \t");
        assert_eq!(&original[folded.original(end..end + 5)], "\r\nnext");
    }

    #[test]
    fn a_needle_keeps_the_space_at_its_very_end() {
        assert_eq!(loose_needle("a  \nlet x = "), "a\nlet x = ");
        assert_eq!(loose_needle("a  \n"), "a\n");
        assert_eq!(loose_needle("\u{2018}a\u{2019} "), "'a' ");
    }
}
