//! Names in lists, sentences and commands, whatever is in them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A path as one word for `bash` and `sh`-like shells with `$'...'`, that no program takes for an option: for the commands that
/// messages propose.
pub fn shell_word(path: &str) -> Cow<'_, str> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./+@%,:=".contains(char);
    if !path.is_empty() && !path.starts_with('-') && path.chars().all(is_plain) {
        return Cow::Borrowed(path);
    }
    let here = if path.starts_with('-') { "./" } else { "" };
    if path.chars().any(char::is_control) {
        let mut word = format!("$'{here}");
        for char in path.chars() {
            match char {
                '\'' | '\\' => word.extend(['\\', char]),
                '\n' => word.push_str("\\n"),
                '\t' => word.push_str("\\t"),
                char if char.is_ascii_control() => {
                    let _ = write!(word, "\\x{:02x}", char as u32);
                }
                char => word.push(char),
            }
        }
        word.push('\'');
        return Cow::Owned(word);
    }
    Cow::Owned(format!("'{here}{}'", path.replace('\'', r"'\''")))
}

/// A name or path from the disk as a model is shown it, on one line: as it is, or as a JSON string where it has control characters
/// or begins as one. What is quoted is read back as a JSON string.
pub fn listed(name: &str) -> Cow<'_, str> {
    if !name.starts_with('"') && !name.chars().any(is_unlisted) {
        return Cow::Borrowed(name);
    }
    let mut quoted = String::from("\"");
    for char in name.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            char if is_unlisted(char) => {
                let _ = write!(quoted, "\\u{:04x}", char as u32);
            }
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// Control characters, the line ends that are none of those, and marks that turn the direction of what follows.
fn is_unlisted(char: char) -> bool {
    char.is_control() || matches!(char, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_bash_reads_back() {
        for path in
            ["a.txt", "src/a b.rs", "it's", "-rf", "a\nb\t\x1b'\\", "$HOME `x` \"y\"", "é\u{202f}x", "!x", "*", "~", ""]
        {
            let word = shell_word(path);
            let output =
                std::process::Command::new("bash").args(["-c", &format!("printf %s {word}")]).output().unwrap();
            let here = if path.starts_with('-') { "./" } else { "" };
            assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{here}{path}"), "{word}");
        }
        assert_eq!(shell_word("src/a-b_1.rs"), "src/a-b_1.rs");
    }

    #[test]
    fn names_take_one_line_and_can_be_read_back() {
        assert_eq!(listed("a \"b\" \\n.txt"), "a \"b\" \\n.txt");
        for name in ["a\nb", "\x1b[2J\"\\", "a\u{85}\u{2028}\u{202e}b", "\r\t\x7f"] {
            let listed = listed(name);
            assert!(!listed.chars().any(is_unlisted), "{listed}");
            assert_eq!(serde_json::from_str::<String>(&listed).unwrap(), name);
        }
    }
}
