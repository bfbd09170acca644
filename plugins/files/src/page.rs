//! Some lines of a text file, read without holding the rest.

use std::io::{self, BufRead, Read};

use pith_sdk::text::{Cut, CutBy, MAX_BYTES, MAX_LINES, Truncation, count, shell_word, size, with_notices};

/// How many bytes are read on to learn how many lines there are. Beyond it the notice says "more than".
pub const COUNT_BYTES: u64 = 256 * 1024 * 1024;

/// Lines of a file, and what is known of the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    text: String,
    /// From 1.
    first_line: usize,
    lines: usize,
    /// Of the file, as far as it was counted.
    total_lines: usize,
    total_is_exact: bool,
    /// The caller's own limit is not a cut.
    cut_by: Option<CutBy>,
    /// Bytes of the first line asked for, where it alone is too long.
    long_line_bytes: Option<u64>,
    valid_utf8: bool,
}

/// The file has fewer lines than the offset says; this many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastEnd(pub usize);

impl Page {
    /// Reads from line `offset` (from 1), at most `limit` lines and the limits of every result. A byte order mark is left
    /// out, invalid UTF-8 replaced.
    pub fn read(reader: &mut impl BufRead, offset: usize, limit: Option<usize>) -> io::Result<Result<Self, PastEnd>> {
        let first_line = offset.max(1);
        let mut total_lines = skip_lines(reader, first_line - 1)?;
        if total_lines + 1 < first_line {
            return Ok(Err(PastEnd(total_lines)));
        }
        let max_lines = limit.unwrap_or(usize::MAX).min(MAX_LINES);
        let (mut bytes, mut lines, mut cut_by, mut long_line_bytes) = (Vec::new(), 0, None, None);
        let mut at_end = false;
        while lines < max_lines {
            let before = bytes.len();
            // Two more than fit: the line's end does not count, and one byte must show that there are more.
            let room = (MAX_BYTES - before.min(MAX_BYTES)) as u64 + 2;
            let read = reader.take(room).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                at_end = true;
                break;
            }
            total_lines += 1;
            let ends = bytes.last() == Some(&b'\n');
            if bytes.len() - usize::from(ends) > MAX_BYTES {
                bytes.truncate(before);
                cut_by = Some(CutBy::Bytes);
                let rest = if ends { 0 } else { reader.skip_until(b'\n')? };
                if lines == 0 {
                    long_line_bytes = Some((read + rest) as u64);
                }
                break;
            }
            lines += 1;
        }
        if lines == 0 && long_line_bytes.is_none() && first_line > 1 && max_lines > 0 {
            return Ok(Err(PastEnd(total_lines)));
        }
        if !at_end {
            let (lines, is_all) = count_lines(reader, COUNT_BYTES)?;
            total_lines += lines;
            at_end = is_all;
        }
        let has_more = total_lines > first_line - 1 + lines;
        if cut_by.is_none() && has_more && lines == MAX_LINES && limit.is_none_or(|limit| limit > MAX_LINES) {
            cut_by = Some(CutBy::Lines);
        }
        if first_line == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        let (text, valid_utf8) = match String::from_utf8(bytes) {
            Ok(text) => (text, true),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
        };
        let total_is_exact = at_end;
        Ok(Ok(Self { text, first_line, lines, total_lines, total_is_exact, cut_by, long_line_bytes, valid_utf8 }))
    }

    /// The lines, and a notice in brackets where there is more, with the offset that goes on. `note` is one more notice.
    pub fn to_text(&self, shown_path: &str, note: Option<String>) -> String {
        let mut notices = Vec::new();
        let next = self.first_line + self.lines;
        let total = format!("{}{}", if self.total_is_exact { "" } else { "more than " }, self.total_lines);
        if let Some(bytes) = self.long_line_bytes {
            notices.push(format!(
                "Line {0} is {1}, exceeds {2} limit. Read a part of it with a shell command: `sed -n '{0}p' {3} | head -c {4}`.",
                self.first_line,
                size(bytes),
                size(MAX_BYTES as u64),
                shell_word(shown_path),
                MAX_BYTES
            ));
            if self.first_line < self.total_lines {
                notices.push(format!("Use offset={} to continue after it.", self.first_line + 1));
            }
        } else if next <= self.total_lines {
            notices.push(match self.cut_by {
                Some(cut_by) => {
                    let limit = match cut_by {
                        CutBy::Lines => String::new(),
                        CutBy::Bytes => format!(" ({} limit)", size(MAX_BYTES as u64)),
                    };
                    let last = next - 1;
                    format!(
                        "Showing lines {}-{last} of {total}{limit}. Use offset={next} to continue.",
                        self.first_line
                    )
                }
                None => {
                    let rest = count(self.total_lines + 1 - next, "more line");
                    let or_more = if self.total_is_exact { "" } else { " at least" };
                    format!("{rest}{or_more} in file. Use offset={next} to continue.")
                }
            });
        } else if self.total_lines == 0 {
            notices.push("The file is empty.".to_owned());
        }
        if self.lines > 0 && self.text.trim().is_empty() {
            // Some providers take no text of white space only, and no reader sees it.
            notices.insert(0, format!("{} shown, with nothing but white space.", count(self.lines, "line")));
        }
        if !self.valid_utf8 {
            notices.push(
                "The file is not valid UTF-8: bytes shown as \u{fffd} are something else. edit keeps them, but finds no oldText that has them."
                    .to_owned(),
            );
        }
        notices.extend(note);
        with_notices(if self.text.trim().is_empty() { "" } else { &self.text }, &notices)
    }

    /// What views and scripts may want to know.
    pub fn cut(&self) -> Cut {
        let truncation = self.cut_by.map(|cut_by| Truncation {
            total_lines: self.total_is_exact.then_some(self.total_lines as u64),
            first_line_exceeds_limit: self.long_line_bytes.is_some(),
            ..Truncation::new(cut_by, &self.text, self.lines as u64)
        });
        Cut { truncation, ..Cut::default() }
    }
}

/// What is buffered of a reader; empty at its end.
fn filled(reader: &mut impl BufRead) -> io::Result<&[u8]> {
    loop {
        match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // What is buffered now; the borrow of the first answer cannot leave the loop.
            Ok(_) => return reader.fill_buf(),
            Err(error) => return Err(error),
        }
    }
}

/// Goes past `lines` lines, or to the end; how many there were. A last line without an end counts.
fn skip_lines(reader: &mut impl BufRead, lines: usize) -> io::Result<usize> {
    let (mut skipped, mut in_line) = (0, false);
    while skipped < lines {
        let buffer = filled(reader)?;
        let Some(last) = buffer.last() else { return Ok(skipped + usize::from(in_line)) };
        let ends = newlines(buffer);
        if skipped + ends < lines {
            skipped += ends;
            in_line = *last != b'\n';
            let all = buffer.len();
            reader.consume(all);
        } else {
            let places = buffer.iter().enumerate().filter(|&(_, &byte)| byte == b'\n');
            let end = places.map(|(at, _)| at + 1).nth(lines - skipped - 1).unwrap_or(buffer.len());
            reader.consume(end);
            skipped = lines;
        }
    }
    Ok(skipped)
}

/// How many lines follow, as far as they end within `max_bytes` or so, and whether that is all.
fn count_lines(reader: &mut impl BufRead, max_bytes: u64) -> io::Result<(usize, bool)> {
    let (mut lines, mut bytes, mut in_line) = (0, 0, false);
    while bytes < max_bytes {
        let buffer = filled(reader)?;
        let Some(last) = buffer.last() else { return Ok((lines + usize::from(in_line), true)) };
        lines += newlines(buffer);
        in_line = *last != b'\n';
        bytes += buffer.len() as u64;
        let all = buffer.len();
        reader.consume(all);
    }
    Ok((lines, false))
}

/// How many line ends there are, eight bytes at a time: guests have no wider instructions.
pub(crate) fn newlines(bytes: &[u8]) -> usize {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const ENDS: u64 = u64::from_ne_bytes([b'\n'; 8]);
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut count = rest.iter().filter(|&&byte| byte == b'\n').count();
    // A sum of a byte's width holds 255.
    for words in words.chunks(255) {
        let mut sums: u64 = 0;
        for word in words {
            let differs = u64::from_ne_bytes(*word) ^ ENDS;
            // The top bit of each byte that is zero, and of no other; no byte carries into the next.
            let is_end = !((differs & LOW).wrapping_add(LOW) | differs | LOW);
            sums = sums.wrapping_add(is_end >> 7);
        }
        let pairs = (sums & EVEN) + ((sums >> 8) & EVEN);
        count += (pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as usize;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: impl AsRef<[u8]>, offset: usize, limit: Option<usize>) -> Page {
        Page::read(&mut text.as_ref(), offset, limit).unwrap().unwrap()
    }

    fn shown(text: impl AsRef<[u8]>, offset: usize, limit: Option<usize>) -> String {
        read(text, offset, limit).to_text("f", None)
    }

    fn numbered(lines: usize) -> String {
        (1..=lines).map(|n| format!("line {n}\n")).collect()
    }

    #[test]
    fn what_fits_comes_as_it_is() {
        for text in ["a", "a\n", "a\r\nb", "x\n\ny\n", "\n\na"] {
            assert_eq!(shown(text, 1, None), text);
            assert_eq!(read(text, 1, None).cut().if_any(), None);
        }
        assert_eq!(shown("\u{feff}a\n", 1, None), "a\n");
        assert_eq!(shown("", 1, None), "[The file is empty.]");
        assert_eq!(shown("a\n", 0, None), "a\n");
        assert_eq!(shown("\n \n", 1, None), "[2 lines shown, with nothing but white space.]");
    }

    #[test]
    fn line_ends_are_counted_wherever_they_are() {
        let text: Vec<u8> = (0..9_000_u32)
            .map(|n| if n % 7 < 3 { b'\n' } else { [0x0b, 0x09, 0x8a, 0xf5, 0x0a][n as usize % 5] })
            .collect();
        for start in 0..20 {
            for end in [start, start + 1, start + 7, start + 8, 4_000, text.len()] {
                let part = &text[start..end];
                assert_eq!(newlines(part), part.iter().filter(|&&byte| byte == b'\n').count(), "{start}..{end}");
            }
        }
    }

    #[test]
    fn lines_are_skipped_across_buffers() {
        let text = "a\n\nbc\ndef\n\n\nlast";
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for capacity in 1..text.len() {
            for skipped in 0..9 {
                let mut reader = io::BufReader::with_capacity(capacity, text.as_bytes());
                assert_eq!(skip_lines(&mut reader, skipped).unwrap(), skipped.min(lines.len()), "{capacity} {skipped}");
                let mut rest = String::new();
                reader.read_to_string(&mut rest).unwrap();
                assert_eq!(rest, lines[skipped.min(lines.len())..].concat());
            }
            let mut reader = io::BufReader::with_capacity(capacity, text.as_bytes());
            assert_eq!(count_lines(&mut reader, 1_000).unwrap(), (7, true));
        }
        assert_eq!(count_lines(&mut "a\nb\n".as_bytes(), 3).unwrap(), (2, false));
        assert_eq!(count_lines(&mut "a\nb".as_bytes(), 1_000).unwrap(), (2, true));
    }

    #[test]
    fn exactly_the_limit_is_whole() {
        assert_eq!(shown(numbered(2000), 1, None), numbered(2000));
        let wide = "x".repeat(MAX_BYTES);
        assert_eq!(shown(&wide, 1, None), wide);
        assert_eq!(shown(format!("{wide}\n"), 1, None), format!("{wide}\n"));
    }

    #[test]
    fn a_line_too_many_names_the_next_offset() {
        let page = shown(numbered(2001), 1, None);
        assert!(
            page.ends_with("line 2000\n\n[Showing lines 1-2000 of 2001. Use offset=2001 to continue.]"),
            "{}",
            &page[page.len() - 100..]
        );
        assert_eq!(shown(numbered(2001), 2001, None), "line 2001\n");
    }

    #[test]
    fn bytes_cut_on_whole_lines() {
        let line = format!("{}\n", "x".repeat(1023));
        let page = shown(line.repeat(60), 1, None);
        assert!(page.ends_with("x\n\n[Showing lines 1-50 of 60 (50.0KB limit). Use offset=51 to continue.]"));
        assert_eq!(page.matches('\n').count(), 51);
    }

    #[test]
    fn the_callers_limit_tells_the_rest() {
        assert_eq!(
            shown(numbered(5), 2, Some(2)),
            "line 2\nline 3\n\n[2 more lines in file. Use offset=4 to continue.]"
        );
        assert_eq!(shown(numbered(5), 4, Some(2)), "line 4\nline 5\n");
        assert_eq!(shown(numbered(5), 4, Some(1)), "line 4\n\n[1 more line in file. Use offset=5 to continue.]");
        assert_eq!(read(numbered(5), 2, Some(2)).cut().if_any(), None);
        let page = shown(numbered(5000), 1, Some(4000));
        assert!(page.ends_with("[Showing lines 1-2000 of 5000. Use offset=2001 to continue.]"));
    }

    #[test]
    fn past_the_end_tells_the_length() {
        for (text, offset, lines) in [("a\nb\n", 3, 2), ("a\nb", 9, 2), ("", 2, 0)] {
            assert_eq!(Page::read(&mut text.as_bytes(), offset, None).unwrap(), Err(PastEnd(lines)), "{text:?}");
        }
    }

    #[test]
    fn one_line_that_is_too_long_is_said() {
        let text = format!("short\n{}\nlast\n", "y".repeat(120_000));
        let page = shown(&text, 2, None);
        assert!(page.starts_with("[Line 2 is 117.2KB, exceeds 50.0KB limit."), "{page}");
        assert!(page.contains("`sed -n '2p' f | head -c 51200`. Use offset=3 to continue after it.]"), "{page}");
        let page = shown(&text, 1, None);
        assert!(page.starts_with("short\n\n[Showing lines 1-1 of 3 (50.0KB limit). Use offset=2"), "{page}");
        assert_eq!(shown(&text, 3, None), "last\n");
    }

    #[test]
    fn invalid_utf8_is_shown_and_said() {
        let page = shown(b"caf\xe9\n", 1, None);
        assert!(page.starts_with("caf\u{fffd}\n\n[The file is not valid UTF-8"), "{page}");
    }
}
