//! One line of output as a model reads it: no escape sequences, no control characters, and whether it is text at all.

/// From so many characters on that no text has, and from such a share of the line, a line is binary data.
const STRANGE_CHARS: usize = 3;
const STRANGE_PERCENT: usize = 30;

/// A line without its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Empty where it is binary.
    pub text: String,
    /// As they came.
    pub bytes: u64,
    /// It is no text.
    pub is_binary: bool,
}

impl Line {
    /// Reads a line: escape sequences and control characters but tabs are left out, what a backspace takes back is gone, a NUL is shown as
    /// `␀`, invalid UTF-8 as U+FFFD.
    pub fn new(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let bytes = bytes.len() as u64;
        let is_plain = |char: char| (!char.is_control() || char == '\t') && char != char::REPLACEMENT_CHARACTER;
        if text.chars().all(is_plain) {
            return Self { text: text.into_owned(), bytes, is_binary: false };
        }
        let mut plain = Plain::default();
        plain.read(&text);
        if plain.strange >= STRANGE_CHARS && plain.strange * 100 >= plain.chars * STRANGE_PERCENT {
            return Self { text: String::new(), bytes, is_binary: true };
        }
        Self { text: plain.text, bytes, is_binary: false }
    }
}

/// Whether these bytes, after a `\r`, take the place of what stood in the line: they show something, or erase it.
pub fn overwrites(bytes: &[u8]) -> bool {
    if !bytes.contains(&0x1b) {
        return bytes.iter().any(|byte| *byte >= b' ');
    }
    let has = |erase: &[u8]| bytes.windows(erase.len()).any(|window| window == erase);
    let line = Line::new(bytes);
    line.is_binary || !line.text.is_empty() || has(b"\x1b[K") || has(b"\x1b[2K")
}

#[derive(Default)]
struct Plain {
    text: String,
    chars: usize,
    /// Characters that no text has.
    strange: usize,
}

impl Plain {
    fn read(&mut self, text: &str) {
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            self.chars += 1;
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
                    self.text.pop();
                }
                '\t' => self.text.push('\t'),
                '\0' => {
                    self.strange += 1;
                    self.text.push('␀');
                }
                '\u{7}' | '\u{b}' | '\u{c}' => {}
                char if char.is_control() => self.strange += 1,
                char => {
                    self.strange += usize::from(char == char::REPLACEMENT_CHARACTER);
                    self.text.push(char);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: impl AsRef<[u8]>) -> String {
        let line = Line::new(bytes.as_ref());
        assert!(!line.is_binary && line.bytes == bytes.as_ref().len() as u64, "{line:?}");
        line.text
    }

    #[test]
    fn escapes_and_control_characters_are_left_out() {
        assert_eq!(
            text("\u{1b}[1;31mred\u{1b}[0m \u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\\u{7}\tend"),
            "red link\tend"
        );
        assert_eq!(text("\u{1b}(Bplain|\u{8}/\u{8}-"), "plain-");
        assert_eq!(text("cut \u{1b}[3"), "cut ");
        assert_eq!(text("a\u{1}b\u{85}c"), "abc");
        assert_eq!(text("grüße 日本 🦀"), "grüße 日本 🦀");
    }

    #[test]
    fn what_is_not_quite_text_is_shown() {
        assert_eq!(text(b"caf\xe9"), "caf\u{fffd}");
        assert_eq!(text(b"a\xff\0b"), "a\u{fffd}␀b");
        assert_eq!(text(b"PATH=/bin\0HOME=/root\0LANG=C\0"), "PATH=/bin␀HOME=/root␀LANG=C␀");
    }

    #[test]
    fn binary_data_is_known_as_such() {
        let binary =
            |bytes: &[u8]| Line::new(bytes) == Line { text: String::new(), bytes: bytes.len() as u64, is_binary: true };
        assert!(binary(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0"));
        assert!(binary(&[0; 1000]));
        assert!(binary(b"U\0T\0F\x001\x006\0"));
        assert!(!binary(b"\x89PNG\r"));
    }

    #[test]
    fn what_overwrites() {
        for (bytes, does) in [
            (&b"x"[..], true),
            (b" ", true),
            (b"", false),
            (b"\x1b[0m", false),
            (b"\x1b[K", true),
            (b"\x1b[2K", true),
            (b"\x1b[31mx", true),
        ] {
            assert_eq!(overwrites(bytes), does, "{bytes:?}");
        }
    }
}
