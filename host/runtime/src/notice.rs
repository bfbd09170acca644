//! Notices on one line each: they name files, and have words of plugins and sessions in them.

/// The most of one notice, in characters. Longer ones end in `...`; a path alone may have 4,096 bytes.
pub const NOTICE_LIMIT_CHARS: usize = 8_192;

/// The text on one line: whoever prints it after a word of its own (`note: `) prints no second line that looks like one. What else a
/// terminal would obey stays: faces take it out of all foreign text.
pub(crate) fn one_line(text: &str) -> String {
    let mut rest = text.chars();
    let mut line: String =
        rest.by_ref().take(NOTICE_LIMIT_CHARS).map(|c| if breaks_line(c) { ' ' } else { c }).collect();
    if rest.next().is_some() {
        line.push_str("...");
    }
    line
}

/// Whatever some program takes for the end of a line.
fn breaks_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\t' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_makes_a_second_line() {
        assert_eq!(one_line("no\r\nnote: all\u{2028}is\u{85}well\t!"), "no  note: all is well !");
        assert_eq!(one_line("Grüße, 世界"), "Grüße, 世界");
        let long = one_line(&"é".repeat(NOTICE_LIMIT_CHARS + 1));
        assert_eq!((long.chars().count(), long.ends_with("é...")), (NOTICE_LIMIT_CHARS + 3, true));
        assert_eq!(one_line(&"x".repeat(NOTICE_LIMIT_CHARS)).len(), NOTICE_LIMIT_CHARS);
    }
}
