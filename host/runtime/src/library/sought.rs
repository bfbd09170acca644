//! What is sought in a message, and which lines of a file may hold it: lines are looked at as bytes, and parsed only where they may.

use regex::{Regex, RegexBuilder, bytes};
use std::ops::Range;

/// The most memory that one expression may take, in bytes.
const EXPRESSION_LIMIT_BYTES: usize = 4 << 20;
/// What stands in a file instead of characters where a writer escapes them, all but control characters.
const ESCAPES: &str = r"\\u(?:00[2-9a-fA-F]|0[1-9a-fA-F]|[1-9a-fA-F])";

/// What cannot be sought.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// Not an expression.
    #[error("{text} is no regular expression: {source}")]
    NotAnExpression {
        /// As given.
        text: String,
        /// Where.
        #[source]
        source: Box<regex::Error>,
    },
    /// Nothing is sought.
    #[error("there is nothing to search for")]
    Nothing,
}

/// All of these have to stand in one message.
pub(super) struct Sought {
    parts: Vec<Regex>,
    /// Finds a place within each line that may hold all parts; none where every line may.
    may: Option<bytes::Regex>,
}

impl Sought {
    /// Phrases are sought without regard to case, and with any blanks between their words; expressions as they are.
    pub fn new(phrases: &[String], is_regex: bool) -> Result<Self, SearchError> {
        if is_regex {
            let parts = phrases.iter().map(|text| built(text, text, false)).collect::<Result<_, _>>()?;
            return if phrases.is_empty() { Err(SearchError::Nothing) } else { Ok(Self { parts, may: None }) };
        }
        let (mut parts, mut longest) = (Vec::new(), "");
        for phrase in phrases {
            let words: Vec<String> = phrase.split_whitespace().map(regex::escape).collect();
            if words.is_empty() {
                continue;
            }
            parts.push(built(&words.join(r"\s+"), phrase, true)?);
            for run in phrase.split(is_written_otherwise) {
                if run.len() > longest.len() {
                    longest = run;
                }
            }
        }
        if parts.is_empty() {
            return Err(SearchError::Nothing);
        }
        let pattern = format!("(?i:{})|{ESCAPES}", regex::escape(longest));
        let may = bytes::RegexBuilder::new(&pattern).size_limit(EXPRESSION_LIMIT_BYTES).build().ok();
        Ok(Self { parts, may: may.filter(|_| !longest.is_empty()) })
    }

    /// Goes through the lines of a piece that may hold what is sought; `each` says whether to go on.
    pub fn candidates(&self, piece: &[u8], each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut at = 0;
        while at < piece.len() {
            let place = match &self.may {
                Some(may) => match may.find_at(piece, at) {
                    Some(found) => found.start(),
                    None => return true,
                },
                None => at,
            };
            let begin = memchr::memrchr(b'\n', &piece[at..place]).map_or(at, |newline| at + newline + 1);
            let end = memchr::memchr(b'\n', &piece[place..]).map_or(piece.len(), |newline| place + newline);
            if begin < end && !each(&piece[begin..end]) {
                return false;
            }
            at = end + 1;
        }
        true
    }

    /// Where the first of it stands in a text that has all of it, in bytes.
    pub fn find(&self, text: &str) -> Option<Range<usize>> {
        let mut first: Option<Range<usize>> = None;
        for part in &self.parts {
            let found = part.find(text)?.range();
            if first.as_ref().is_none_or(|first| found.start < first.start) {
                first = Some(found);
            }
        }
        first
    }
}

fn built(pattern: &str, text: &str, is_phrase: bool) -> Result<Regex, SearchError> {
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(is_phrase).multi_line(true).size_limit(EXPRESSION_LIMIT_BYTES);
    builder.build().map_err(|source| SearchError::NotAnExpression { text: text.to_owned(), source: Box::new(source) })
}

/// Characters that may stand otherwise in JSON than in the text, apart from `\u` escapes; blanks may be any blanks.
fn is_written_otherwise(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '\\' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sought(phrases: &[&str]) -> Sought {
        Sought::new(&phrases.iter().map(|phrase| (*phrase).to_owned()).collect::<Vec<_>>(), false).unwrap()
    }

    fn may(sought: &Sought, piece: &str) -> Vec<String> {
        let mut seen = Vec::new();
        sought.candidates(piece.as_bytes(), &mut |line| {
            seen.push(String::from_utf8_lossy(line).into_owned());
            true
        });
        seen
    }

    #[test]
    fn case_and_blanks_do_not_matter_and_all_has_to_be_there() {
        let parse = sought(&["Parse  error", "line"]);
        assert_eq!(parse.find("a PARSE\n\terror in LINE 3"), Some(2..14));
        assert_eq!(parse.find("a line: parse error"), Some(2..6));
        assert_eq!(parse.find("parse error"), None);
        assert_eq!(parse.find("parse an error line"), None);
        assert_eq!(sought(&["größe"]).find("die GRÖSSE, die GRÖẞE"), Some(17..25));
        assert_eq!(sought(&["a.c"]).find("abc a.c"), Some(4..7));
        assert_eq!(sought(&[r#"say "hi\"#]).find(r#"SAY "HI\ x"#), Some(0..8));
        assert!(matches!(Sought::new(&[" ".to_owned()], false), Err(SearchError::Nothing)));
        assert!(matches!(Sought::new(&["(".to_owned()], true), Err(SearchError::NotAnExpression { .. })));
        let expression = Sought::new(&["^b.*d$".to_owned()], true).unwrap();
        assert_eq!(expression.find("a\nbcd\n"), Some(2..5));
        assert_eq!(expression.find("a\nBcd\n"), None);
    }

    /// However a writer escapes a text, its line is not passed over.
    #[test]
    fn no_line_that_holds_it_is_passed_over() {
        let texts = ["say \"hi\" to C:\\temp/x", "Größe K\u{212a} ſ", "😀 emoji", "tab\there", "plain"];
        let escaped = |text: &str, all: bool| -> String {
            let char = |c: char| match c {
                '"' => "\\\"".to_owned(),
                '\\' => "\\\\".to_owned(),
                '/' if all => "\\/".to_owned(),
                '\t' => "\\t".to_owned(),
                c if all => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect(),
                c => c.to_string(),
            };
            text.chars().map(char).collect()
        };
        for text in texts {
            let chars: Vec<char> = text.chars().collect();
            for from in 0..chars.len() {
                for to in from + 1..=chars.len() {
                    let phrase: String = chars[from..to].iter().collect();
                    if phrase.trim().is_empty() {
                        continue;
                    }
                    let sought = sought(&[&phrase.to_uppercase()]);
                    if sought.find(text).is_none() {
                        continue;
                    }
                    for all in [false, true] {
                        let line = escaped(text, all);
                        let piece = format!("first\n{line}\nlast");
                        assert!(may(&sought, &piece).contains(&line), "{phrase:?} in {line}");
                    }
                }
            }
        }
    }

    #[test]
    fn only_lines_that_may_hold_it_are_looked_at_and_each_once() {
        let needle = sought(&["needle"]);
        assert_eq!(may(&needle, "a\nneedle NEEDLE\nb\n\nNeeDle"), ["needle NEEDLE", "NeeDle"]);
        assert_eq!(may(&needle, "hay \\u001b[1m\nhay \\u000a"), [""; 0]);
        assert_eq!(may(&needle, "n\\u0065edle\nhay"), ["n\\u0065edle"]);
        // Nothing plain in it: all lines may.
        assert_eq!(may(&sought(&["\""]), "a\n\nb\n"), ["a", "b"]);
    }
}
