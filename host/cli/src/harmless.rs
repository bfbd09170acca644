//! Foreign text made harmless before a terminal shows it.

use std::borrow::Cow;

/// Text without control characters and escapes (newlines and tabs stay); bidi and zero-width characters are made visible.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            '\u{1b}' => skip_escape(&mut rest),
            _ if is_invisible(c) => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
            _ if is_harmful(c) => {}
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
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
    (c.is_control() && c != '\n' && c != '\t') || is_invisible(c)
}

/// Characters that change what other characters look like, or that cannot be seen: bidi controls, zero-width, tags, variation of nothing.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{061c}' | '\u{00ad}'
        | '\u{2028}' | '\u{2029}' | '\u{180e}' | '\u{e0000}'..='\u{e007f}')
}

/// What an escape begins is dropped whole: CSI to its final byte, OSC and the like to BEL or ST, otherwise one character.
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => {
            while let Some(c) = rest.next_if(|c| !('\u{40}'..='\u{7e}').contains(c) && *c != '\n') {
                let _ = c;
            }
            rest.next_if(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = rest.next_if(|c| *c != '\n') {
                if c == '\u{7}' {
                    return;
                }
                if c == '\u{1b}' {
                    rest.next_if_eq(&'\\');
                    return;
                }
            }
        }
        _ => {}
    }
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
        assert_eq!(harmless_line("a\nb\tc\u{1b}[2J", 80), "a b c");
        assert_eq!(harmless_line("abcdef", 3), "abc…");
    }
}
