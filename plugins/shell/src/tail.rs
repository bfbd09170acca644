//! The end of a stream, kept in bounded memory however long the stream is.

use std::collections::VecDeque;

use pith_sdk::text::{MAX_BYTES, MAX_LINES};

/// Takes bytes as they come and keeps the last lines, as a terminal would show them: what was overwritten after a `\r` is
/// gone, escape sequences are left out.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    lines: VecDeque<String>,
    lines_bytes: usize,
    /// The line that has no end yet.
    open: Vec<u8>,
    /// A `\r` was seen: the next byte, unless it ends the line, starts the line anew.
    returned: bool,
    /// The front of `open` was dropped.
    open_is_cut: bool,
    dropped: bool,
    total_lines: u64,
    total_bytes: u64,
}

/// What is left of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The last lines, without a line end at the end.
    pub text: String,
    /// How many lines `text` has.
    pub lines: u64,
    /// Of the whole stream.
    pub total_lines: u64,
    /// Of the whole stream, as they came.
    pub total_bytes: u64,
    /// Lines before these were dropped, or the first of these is only the end of a line.
    pub cut: bool,
    /// The text is the end of one line that is too long itself.
    pub partial_line: bool,
}

impl Tail {
    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total_bytes = self.total_bytes.saturating_add(bytes.len() as u64);
        let mut rest = self.skip(bytes);
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend(&rest[..at]);
            if rest[at] == b'\n' {
                self.end_line();
            } else {
                self.returned = true;
            }
            rest = &rest[at + 1..];
        }
        self.extend(rest);
    }

    /// Leaves out the lines that later ones of the same chunk would push out anyway, without looking into them.
    fn skip<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some((at, _)) = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').nth(MAX_LINES) else {
            return bytes;
        };
        let (skipped, rest) = bytes.split_at(at + 1);
        self.total_lines += skipped.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.lines.clear();
        self.lines_bytes = 0;
        self.open.clear();
        self.open_is_cut = false;
        self.returned = false;
        self.dropped = true;
        rest
    }

    fn extend(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.returned) {
            self.open.clear();
            self.open_is_cut = false;
        }
        self.open.extend_from_slice(bytes);
        // Cut rarely, so that a long line costs no copying for each chunk.
        if self.open.len() > 4 * MAX_BYTES {
            self.open.drain(..self.open.len() - 2 * MAX_BYTES);
            self.open_is_cut = true;
        }
    }

    fn end_line(&mut self) {
        self.returned = false;
        let cut = std::mem::take(&mut self.open_is_cut);
        let line = shown(&self.open);
        self.open.clear();
        self.total_lines += 1;
        if cut || line.len() > MAX_BYTES {
            self.lines.clear();
            self.lines_bytes = 0;
            self.dropped = true;
        }
        self.lines_bytes += line.len() + 1;
        self.lines.push_back(line);
        // One line too many is kept while a last open line may still turn out to be empty.
        while self.lines.len() > 1 && (self.lines.len() > MAX_LINES || self.lines_bytes > MAX_BYTES + 1) {
            if let Some(line) = self.lines.pop_front() {
                self.lines_bytes -= line.len() + 1;
            }
            self.dropped = true;
        }
    }

    /// What would be shown if the stream ended here.
    pub fn kept(&self) -> Kept {
        let open = shown(&self.open);
        let mut lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        let mut total_lines = self.total_lines;
        if !open.is_empty() {
            lines.push(&open);
            total_lines += 1;
        }
        let mut bytes = 0;
        let mut first = lines.len();
        while first > 0 && lines.len() - first < MAX_LINES && bytes + lines[first - 1].len() <= MAX_BYTES {
            first -= 1;
            bytes += lines[first].len() + 1;
        }
        let mut cut = self.dropped || self.open_is_cut || first > 0;
        // A last line that is too long alone: its end.
        if first == lines.len()
            && let Some(line) = lines.last()
        {
            let text = end_of(line, MAX_BYTES).to_owned();
            return Kept { text, lines: 1, total_lines, total_bytes: self.total_bytes, cut: true, partial_line: true };
        }
        cut |= first > 0;
        Kept {
            text: lines[first..].join("\n"),
            lines: (lines.len() - first) as u64,
            total_lines,
            total_bytes: self.total_bytes,
            cut,
            partial_line: false,
        }
    }
}

/// The last bytes of a text, on a character's boundary.
fn end_of(text: &str, max_bytes: usize) -> &str {
    let mut at = text.len().saturating_sub(max_bytes);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    &text[at..]
}

/// A line as text, without escape sequences and control characters but tabs.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    if !text.contains(|char: char| char.is_control() && char != '\t') {
        return text.into_owned();
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => match chars.next() {
                // CSI: parameters, then one final character.
                Some('[') => while chars.next().is_some_and(|char| !matches!(char, '@'..='~')) {},
                // OSC, DCS, APC, PM, SOS: a string up to BEL or ESC \.
                Some(']' | 'P' | '_' | '^' | 'X') => {
                    while let Some(char) = chars.next() {
                        if char == '\u{7}' || (char == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                // A charset and the like: one character more.
                Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
                    chars.next();
                }
                _ => {}
            },
            // A backspace takes back what was written, as in progress spinners and man pages.
            '\u{8}' => {
                plain.pop();
            }
            '\t' => plain.push('\t'),
            char if char.is_control() => {}
            char => plain.push(char),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: impl AsRef<[u8]>) -> Kept {
        // In chunks of every size that matters, the result is the same.
        let bytes = text.as_ref();
        let mut whole = Tail::default();
        whole.push(bytes);
        for size in [1, 3, 1000] {
            let mut tail = Tail::default();
            bytes.chunks(size).for_each(|chunk| tail.push(chunk));
            assert_eq!(tail.kept(), whole.kept(), "in chunks of {size}");
        }
        whole.kept()
    }

    #[test]
    fn what_fits_is_whole() {
        for (text, lines, total) in
            [("", "", 0), ("a", "a", 1), ("a\n", "a", 1), ("a\n\nb", "a\n\nb", 3), ("\n\n", "\n", 2)]
        {
            let kept = kept(text);
            assert_eq!((kept.text.as_str(), kept.total_lines, kept.cut), (lines, total, false), "{text:?}");
        }
    }

    #[test]
    fn the_last_lines_stay() {
        let text: String = (1..=2500).map(|n| format!("{n}\n")).collect();
        let kept = kept(&text);
        assert!(kept.text.starts_with("501\n") && kept.text.ends_with("\n2500"));
        assert_eq!((kept.lines, kept.total_lines, kept.total_bytes, kept.cut), (2000, 2500, text.len() as u64, true));
        let exact: String = (1..=2000).map(|n| format!("{n}\n")).collect();
        assert!(!super::tests::kept(&exact).cut);
        let kept = super::tests::kept("y\n".repeat(100_000));
        assert_eq!((kept.lines, kept.total_lines, kept.text.len(), kept.cut), (2000, 100_000, 3999, true));
        let open = super::tests::kept(format!("{exact}end"));
        assert!(open.cut && open.text.starts_with("2\n") && open.text.ends_with("\nend"));
    }

    #[test]
    fn the_last_bytes_stay_on_whole_lines() {
        let text = format!("{}\n", "x".repeat(1023)).repeat(60);
        let kept = kept(&text);
        assert_eq!((kept.lines, kept.total_lines, kept.cut, kept.partial_line), (50, 60, true, false));
        assert_eq!(kept.text.len(), MAX_BYTES - 1);
    }

    #[test]
    fn a_line_too_long_alone_keeps_its_end() {
        for end in ["", "\n"] {
            let kept = kept(format!("first\n{}END{end}", "ä".repeat(60_000)));
            assert!(kept.partial_line && kept.cut && kept.text.ends_with("END"));
            assert!(kept.text.len() <= MAX_BYTES);
            assert_eq!((kept.lines, kept.total_lines), (1, 2));
        }
        let mut tail = Tail::default();
        for _ in 0..1000 {
            tail.push(&[b'y'; 10_000]);
            assert!(tail.open.len() <= 4 * MAX_BYTES);
        }
        assert_eq!(tail.kept().total_bytes, 10_000_000);
    }

    #[test]
    fn overwritten_lines_are_gone() {
        assert_eq!(kept("10%\r50%\r100%\ndone").text, "100%\ndone");
        assert_eq!(kept("a\r\nb\r\n").text, "a\nb");
        assert_eq!(kept("99%\r").text, "99%");
        assert_eq!(kept("x\r\r\ny").text, "x\ny");
        let spinner = "working /\r".repeat(100_000);
        let kept = kept(&spinner);
        assert_eq!((kept.text.as_str(), kept.total_lines, kept.cut), ("working /", 1, false));
    }

    #[test]
    fn escapes_and_control_characters_are_left_out() {
        assert_eq!(
            kept("\u{1b}[31mred\u{1b}[0m \u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\\u{7}\0\tend").text,
            "red link\tend"
        );
        assert_eq!(kept("\u{1b}(Bplain|\u{8}/\u{8}-").text, "plain-");
        assert_eq!(kept(b"caf\xe9").text, "caf\u{fffd}");
        assert_eq!(kept("cut \u{1b}[3").text, "cut ");
    }
}
