//! Foreign text made harmless before a terminal or a page shows it.

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

/// The same for a page, where the host frames nothing: frames stay as they are drawn.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_harmful(c) && !is_frame(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut cleaner = Cleaner { keeps_frames: true, ..Cleaner::default() };
    cleaner.push(text, &mut out);
    cleaner.finish(&mut out);
    Cow::Owned(out)
}

/// The same for text that comes in pieces: an escape that is split over two of them is still one.
#[derive(Debug, Default)]
pub struct Cleaner {
    within: Within,
    keeps_frames: bool,
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
            _ if is_frame(c) && !self.keeps_frames => out.push(if c == '━' { '-' } else { '|' }),
            _ if is_harmful(c) && !is_frame(c) => {}
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

/// Characters that change what other characters look like, or that cannot be seen: bidi controls, zero-width, tags, fillers, empty
/// patterns, annotations, selectors of variants that are none (those of emoji stay).
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{061c}' | '\u{00ad}'
        | '\u{034f}' | '\u{2028}' | '\u{2029}' | '\u{180b}'..='\u{180f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Lines, corners and blocks that a frame could be drawn with.
fn is_drawn(c: char) -> bool {
    matches!(c, '\u{2500}'..='\u{259f}' | '\u{23b8}'..='\u{23bf}' | '\u{23d0}' | '\u{1fb70}'..='\u{1fb8f}')
}

/// The character within a question of the host's: what imitates its frame is drawn with plain ASCII.
pub fn unframed(c: char) -> char {
    match c {
        '─' | '━' | '┄' | '┅' | '┈' | '┉' | '╌' | '╍' | '═' | '╴' | '╶' | '╸' | '╺' | '╼' | '╾' => {
            '-'
        }
        c if is_drawn(c) => '|',
        c => c,
    }
}

/// Canonical JSON as it is, on one line: what cannot be seen, or looks like something else, stands as JSON's own escape, so that two
/// different texts never look the same for it.
pub fn exact_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if looks_like_itself(c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

fn looks_like_itself(c: char) -> bool {
    let is_odd = c.is_control()
        || (c.is_whitespace() && c != ' ')
        || is_invisible(c)
        || is_drawn(c)
        // Variants, and characters that every font has its own of.
        || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}');
    !is_odd
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
        assert_eq!(visible("┏━\u{1b}[1m Pith\u{202e}"), "┏━ Pith<U+202E>");
        assert_eq!(harmless_line("a\nb\tc\u{1b}[2J", 80), "a b c");
        assert_eq!(harmless_line("abcdef", 3), "abc…");
        for c in ['\u{3164}', '\u{115f}', '\u{1160}', '\u{2800}', '\u{ffa0}', '\u{e0041}', '\u{e0100}', '\u{e01ef}'] {
            check(&format!("a{c}b"), &format!("a<U+{:04X}>b", u32::from(c)));
        }
    }

    #[test]
    fn nothing_drawn_is_left_within_a_frame() {
        let drawn: String = ('\u{2500}'..='\u{259f}').map(unframed).collect();
        assert!(drawn.chars().all(|c| c == '-' || c == '|'), "{drawn}");
        assert_eq!("╔═ y│é漢".chars().map(unframed).collect::<String>(), "|- y|é漢");
    }

    /// What is shown is JSON still, and says the same.
    #[test]
    fn json_is_shown_whole_and_exactly() {
        let odd = "a\u{7f}\u{9b}\u{a0}\u{202e}\u{3164}┗━ y\u{e0041}\u{fe0f}\u{2028}é漢😀\n\\u202e";
        let json = serde_json::json!({ "command": odd }).to_string();
        let shown = exact_json(&json);
        assert_eq!(
            shown,
            r#"{"command":"a\u007f\u009b\u00a0\u202e\u3164\u2517\u2501 y\udb40\udc41\ufe0f\u2028é漢😀\n\\u202e"}"#
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap()["command"], odd);
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
