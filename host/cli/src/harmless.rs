//! Foreign text made harmless before a terminal shows it.

use std::borrow::Cow;

/// Text without control characters and escapes (newlines and tabs stay); bidi and zero-width characters are made visible, and the
/// characters that frame the host's own questions are replaced.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut cleaner = Cleaner::default();
    cleaner.push(text, &mut out);
    cleaner.finish(&mut out);
    Cow::Owned(out)
}

/// The same for text that comes in pieces: an escape that is split over two of them is still one.
#[derive(Debug, Default)]
pub struct Cleaner {
    within: Within,
}

/// What a piece ended in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Text,
    /// A carriage return, which is a line's end, alone or with the newline after it.
    Return,
    Escape,
    /// An escape whose final byte is to come.
    Sequence,
    /// To a byte from `@` to `~`.
    Control,
    /// A title, a link, a device's string: to BEL or ST.
    Words,
    WordsEscape,
}

impl Cleaner {
    /// Appends what is harmless of one more piece.
    pub fn push(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            self.take(c, out);
        }
    }

    /// No more comes.
    pub fn finish(&mut self, out: &mut String) {
        if self.within == Within::Return {
            out.push('\n');
        }
        self.within = Within::Text;
    }

    fn take(&mut self, c: char, out: &mut String) {
        // What an escape begins is dropped whole; a newline ends it, so that it hides one line at most.
        self.within = match (self.within, c) {
            (Within::Text, _) => return self.text(c, out),
            (Within::Return, _) => {
                out.push('\n');
                self.within = Within::Text;
                if c != '\n' {
                    self.text(c, out);
                }
                return;
            }
            (_, '\n') => {
                out.push('\n');
                Within::Text
            }
            (Within::Escape, '[') => Within::Control,
            (Within::Escape, ']' | 'P' | 'X' | '^' | '_') => Within::Words,
            (Within::Escape, '\u{1b}') | (Within::Sequence | Within::Control, '\u{1b}') => Within::Escape,
            (Within::Escape | Within::Sequence, '\u{20}'..='\u{2f}') => Within::Sequence,
            (Within::Escape | Within::Sequence, _) => Within::Text,
            (Within::Control, '\u{40}'..='\u{7e}') => Within::Text,
            (Within::Control, _) => Within::Control,
            (Within::Words, '\u{7}') | (Within::WordsEscape, '\\') => Within::Text,
            (Within::Words | Within::WordsEscape, '\u{1b}') => Within::WordsEscape,
            (Within::Words, _) => Within::Words,
            // Terminals end such a string at any escape.
            (Within::WordsEscape, '[') => Within::Control,
            (Within::WordsEscape, ']' | 'P' | 'X' | '^' | '_') => Within::Words,
            (Within::WordsEscape, _) => Within::Text,
        };
    }

    fn text(&mut self, c: char, out: &mut String) {
        match c {
            '\r' => self.within = Within::Return,
            '\u{1b}' => self.within = Within::Escape,
            _ if is_invisible(c) => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
            _ if is_frame(c) => out.push(if c == '━' { '-' } else { '|' }),
            _ if is_harmful(c) => {}
            _ => out.push(c),
        }
    }
}

/// The same on one line: newlines and tabs become spaces, and no more than `limit` characters are shown.
pub fn harmless_line(text: &str, limit: usize) -> String {
    let flat: String = harmless(text).chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).collect();
    let mut shown: String = flat.chars().take(limit).collect();
    if flat.chars().nth(limit).is_some() {
        shown.push('…');
    }
    shown
}

fn is_harmful(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || is_invisible(c) || is_frame(c)
}

/// What the host frames its questions with: no foreign text has these.
fn is_frame(c: char) -> bool {
    matches!(c, '┏' | '┃' | '┗' | '━')
}

/// Characters that change what other characters look like, or that cannot be seen: bidi controls, zero-width, tags, variation of nothing.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{061c}' | '\u{00ad}'
        | '\u{2028}' | '\u{2029}' | '\u{180e}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &str, expected: &str) {
        assert_eq!(harmless(input), expected);
    }

    #[test]
    fn escapes_and_controls_are_gone_and_invisible_characters_are_seen() {
        check("plain\ttext\nand é, 漢, 😀", "plain\ttext\nand é, 漢, 😀");
        check("\u{1b}[31mred\u{1b}[0m", "red");
        check("a\u{1b}]0;title\u{7}b", "ab");
        check("a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\b", "alinkb");
        check("a\u{1b}Pdcs\u{1b}\\b", "ab");
        check("a\u{9b}31mb", "a31mb");
        check("over\rwritten\r\nnext\u{8}\u{7f}", "over\nwritten\nnext");
        check("evil\u{202e}txt.exe", "evil<U+202E>txt.exe");
        check("zero\u{200b}width", "zero<U+200B>width");
        check("unfinished \u{1b}[", "unfinished ");
        check("unfinished \u{1b}]0;x\nnext line", "unfinished \nnext line");
        check("\u{1b}(B\u{1b}\u{1b}[1mbold", "bold");
        check("┏━ Pith asks\n┃ yes?", "|- Pith asks\n| yes?");
        assert_eq!(harmless_line("a\nb\tc\u{1b}[2J", 80), "a b c");
        assert_eq!(harmless_line("abcdef", 3), "abc…");
    }
    /// However a text is cut into pieces, what comes out is what comes out of the whole.
    #[test]
    fn pieces_are_as_harmless_as_the_whole() {
        let text = "a\u{1b}]52;c;aGk=\u{7}b\u{1b}[31;1mred\u{1b}[0m\r\nx\ry\u{1b}Pq\u{1b}\\z\u{202e}!\u{1b}]0;t\u{1b}\\end\u{1b}(Bc\r";
        let whole = harmless(text);
        assert_eq!(whole, "abred\nx\nyz<U+202E>!endc\n");
        let chars: Vec<char> = text.chars().collect();
        for size in 1..chars.len() {
            let (mut cleaner, mut out) = (Cleaner::default(), String::new());
            for piece in chars.chunks(size) {
                cleaner.push(&piece.iter().collect::<String>(), &mut out);
            }
            cleaner.finish(&mut out);
            assert_eq!(out, whole, "in pieces of {size}");
        }
    }
}
