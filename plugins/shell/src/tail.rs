//! The end of a stream, kept in bounded memory however long the stream is.

use std::collections::VecDeque;

use pith_sdk::text::{MAX_BYTES, MAX_LINES};

use crate::line::{Line, overwrites};

/// So many bytes of text between two pieces of binary data belong to it: what stands between two line ends there by chance.
const GAP_BYTES: u64 = 32;

/// Takes bytes as they come and keeps the last lines, as a terminal would show them: what was overwritten after a `\r` is
/// gone, escape sequences are left out. Binary data is counted, not kept.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    lines: VecDeque<Line>,
    /// Of the texts of `lines`, an end of line each.
    lines_bytes: usize,
    /// The line that has no end yet.
    open: Vec<u8>,
    /// What stood in the line before the last `\r`; it stays where nothing takes its place.
    before: Vec<u8>,
    /// A `\r` was seen: the next byte, unless it ends the line, starts the line anew.
    returned: bool,
    /// Bytes dropped from the front of `open`.
    open_cut: u64,
    dropped: bool,
    total_lines: u64,
    total_bytes: u64,
}

/// What is left of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The last lines, without a line end at the end. Binary data in it is a line that says so.
    pub text: String,
    /// How many lines of the stream `text` stands for.
    pub lines: u64,
    /// Of the whole stream.
    pub total_lines: u64,
    /// Of the whole stream, as they came.
    pub total_bytes: u64,
    /// Lines before these were dropped, or the first of these is only the end of a line.
    pub cut: bool,
    /// The text is the end of one line that is too long itself.
    pub partial_line: bool,
    /// Some of it was binary.
    pub has_binary: bool,
    /// All of it was binary; `text` is empty then.
    pub is_binary: bool,
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
        self.before.clear();
        self.open_cut = 0;
        self.returned = false;
        self.dropped = true;
        rest
    }

    fn extend(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.returned) {
            if overwrites(&self.open) {
                std::mem::swap(&mut self.before, &mut self.open);
            }
            self.open.clear();
            self.open_cut = 0;
        }
        self.open.extend_from_slice(bytes);
        // Cut rarely, so that a long line costs no copying for each chunk.
        if self.open.len() > 4 * MAX_BYTES {
            let surplus = self.open.len() - 2 * MAX_BYTES;
            self.open.drain(..surplus);
            self.open_cut = self.open_cut.saturating_add(surplus as u64);
        }
    }

    fn end_line(&mut self) {
        self.returned = false;
        let mut line = self.open_line();
        line.bytes = line.bytes.saturating_add(1);
        let is_cut = std::mem::take(&mut self.open_cut) > 0;
        self.open.clear();
        self.before.clear();
        self.total_lines += 1;
        if !line.is_binary && (is_cut || line.text.len() > MAX_BYTES) {
            self.lines.clear();
            self.lines_bytes = 0;
            self.dropped = true;
        }
        self.lines_bytes += line.text.len() + 1;
        self.lines.push_back(line);
        // One line too many is kept while a last open line may still turn out to be empty.
        while self.lines.len() > 1 && (self.lines.len() > MAX_LINES || self.lines_bytes > MAX_BYTES + 1) {
            if let Some(line) = self.lines.pop_front() {
                self.lines_bytes -= line.text.len() + 1;
            }
            self.dropped = true;
        }
    }

    /// The line that has no end yet, as it would be shown.
    fn open_line(&self) -> Line {
        if self.open_cut == 0 && !self.before.is_empty() && !overwrites(&self.open) {
            return Line::new(&self.before);
        }
        let mut line = Line::new(&self.open);
        line.bytes = line.bytes.saturating_add(self.open_cut);
        line
    }

    /// What would be shown if the stream ended here.
    pub fn kept(&self) -> Kept {
        let open = self.open_line();
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        let mut total_lines = self.total_lines;
        let has_open = open.is_binary || !open.text.is_empty();
        if has_open {
            lines.push(&open);
            total_lines += 1;
        }
        let mut bytes = 0;
        let mut first = lines.len();
        while first > 0 && lines.len() - first < MAX_LINES && bytes + lines[first - 1].text.len() <= MAX_BYTES {
            first -= 1;
            bytes += lines[first].text.len() + 1;
        }
        let kept = Kept {
            text: String::new(),
            lines: 1,
            total_lines,
            total_bytes: self.total_bytes,
            cut: true,
            partial_line: true,
            has_binary: false,
            is_binary: false,
        };
        // A last line that is too long alone: its end.
        if first == lines.len()
            && let Some(line) = lines.last()
        {
            return Kept { text: end_of(&line.text, MAX_BYTES).to_owned(), ..kept };
        }
        let lines = &lines[first..];
        let pieces = pieces(lines);
        let is_binary = matches!(&pieces[..], [Piece::Binary(_)]);
        let open_is_cut = has_open && !open.is_binary && self.open_cut > 0;
        Kept {
            has_binary: pieces.iter().any(|piece| matches!(piece, Piece::Binary(_))),
            is_binary,
            text: if is_binary { String::new() } else { joined(&pieces) },
            lines: lines.len() as u64,
            cut: self.dropped || open_is_cut || first > 0,
            partial_line: false,
            ..kept
        }
    }
}

/// What is shown as one line.
enum Piece<'a> {
    Text(&'a str),
    /// So many bytes.
    Binary(u64),
}

/// Lines of binary data that follow each other are one piece.
fn pieces<'a>(lines: &[&'a Line]) -> Vec<Piece<'a>> {
    let mut pieces = Vec::with_capacity(lines.len());
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].is_binary {
            pieces.push(Piece::Text(&lines[at].text));
            at += 1;
            continue;
        }
        let (mut bytes, mut gap) = (0_u64, 0);
        let mut end = at;
        for (index, line) in lines.iter().enumerate().skip(at) {
            if line.is_binary {
                bytes = bytes.saturating_add(gap).saturating_add(line.bytes);
                gap = 0;
                end = index + 1;
            } else {
                gap += line.bytes;
                if gap > GAP_BYTES {
                    break;
                }
            }
        }
        pieces.push(Piece::Binary(bytes));
        at = end;
    }
    pieces
}

fn joined(pieces: &[Piece<'_>]) -> String {
    let mut text = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        match piece {
            Piece::Text(line) => text.push_str(line),
            Piece::Binary(bytes) => text.push_str(&format!("[{bytes} bytes of binary data]")),
        }
    }
    text
}

/// The last bytes of a text, on a character's boundary.
fn end_of(text: &str, max_bytes: usize) -> &str {
    let mut at = text.len().saturating_sub(max_bytes);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    &text[at..]
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
    fn what_is_overwritten_by_nothing_stays() {
        assert_eq!(kept("done\r\u{1b}[0m\nnext").text, "done\nnext");
        assert_eq!(kept("99%\r\u{1b}[K\nnext").text, "\nnext");
        assert_eq!(kept("99%\r   \rdone\r\n").text, "done");
        assert_eq!(kept("a\r\u{1b}[1m\r\u{1b}[0m").text, "a");
    }

    #[test]
    fn binary_data_is_counted_and_text_around_it_kept() {
        let noise: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let all = kept(&noise);
        assert!(all.is_binary && all.text.is_empty() && all.total_bytes == 4096, "{all:?}");
        let mut mixed = b"before\n".to_vec();
        mixed.extend_from_slice(&[0x80; 1000]);
        mixed.extend_from_slice(b"\nx\n");
        mixed.extend_from_slice(&[0; 500]);
        mixed.extend_from_slice(b"\nafter it there is a line of text\nend");
        let mixed = kept(&mixed);
        assert_eq!(mixed.text, "before\n[1504 bytes of binary data]\nafter it there is a line of text\nend");
        assert!(mixed.has_binary && !mixed.is_binary && !mixed.cut);
        assert_eq!((mixed.lines, mixed.total_lines), (6, 6));
        let zeros = kept(vec![0; 1_000_000]);
        assert!(zeros.is_binary && zeros.total_bytes == 1_000_000);
        let text = kept([b"first\n".to_vec(), vec![0; 1_000_000], b"\nlast".to_vec()].concat());
        assert_eq!(text.text, "first\n[1000001 bytes of binary data]\nlast");
    }
}
