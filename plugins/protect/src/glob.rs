//! Patterns for one word or one name: `*` is any text, `?` one character, `\` takes the next character as it is.

/// Whether the whole of `text` is what the pattern says.
pub fn matches(pattern: &str, text: &str) -> bool {
    matches_by(pattern, text, |a, b| a == b)
}

/// [`matches`], where case does not matter.
pub fn matches_any_case(pattern: &str, text: &str) -> bool {
    matches_by(pattern, text, |a, b| {
        a == b
            || if a.is_ascii() && b.is_ascii() {
                a.eq_ignore_ascii_case(&b)
            } else {
                a.to_lowercase().eq(b.to_lowercase())
            }
    })
}

/// What is wrong with a pattern: what looks like a part of one elsewhere and would be taken as it is written here, or the other way round.
pub fn fault(pattern: &str) -> Option<&'static str> {
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' if chars.next().is_none() => return Some("ends in a lone `\\`; the character itself is `\\\\`"),
            '[' => {
                return Some(
                    "has a `[`, and there are no sets here: name each in a rule of its own; the character itself is `\\[`",
                );
            }
            '{' => {
                return Some(
                    "has a `{`, and there are no alternatives here: name each in a rule of its own; the character itself is `\\{`",
                );
            }
            _ => {}
        }
    }
    (pattern == "**").then_some("has a `**`, which is one name here, as `*` is: a rule fits at any depth without it")
}

/// Allocates nothing: a gate asks this for each rule, in a fresh instance.
fn matches_by(mut pattern: &str, mut text: &str, same: impl Fn(char, char) -> bool) -> bool {
    // What stood behind the last `*`, and the text that it was tried on: going back only there keeps this from growing
    // beyond pattern times text.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        let Some((char, rest_of_text)) = first(text) else {
            return pattern.bytes().all(|byte| byte == b'*');
        };
        let fits = match first(pattern) {
            Some(('*', rest)) => {
                pattern = rest;
                retry = Some((rest, text));
                continue;
            }
            Some(('?', rest)) => Some(rest),
            Some(('\\', rest)) => {
                let (wanted, rest) = first(rest).unwrap_or(('\\', ""));
                same(wanted, char).then_some(rest)
            }
            Some((wanted, rest)) => same(wanted, char).then_some(rest),
            None => None,
        };
        (pattern, text) = match (fits, retry) {
            (Some(rest), _) => (rest, rest_of_text),
            (None, Some((behind_star, tried))) => {
                let Some((_, next)) = first(tried) else { return false };
                retry = Some((behind_star, next));
                (behind_star, next)
            }
            (None, None) => return false,
        };
    }
}

/// The first character and what follows.
fn first(text: &str) -> Option<(char, &str)> {
    let mut chars = text.chars();
    Some((chars.next()?, chars.as_str()))
}

#[cfg(test)]
mod tests {
    use super::{matches, matches_any_case};

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*.pem", "a.pem", true),
            ("*.pem", "a.pem.txt", false),
            (".env.*", ".env.local", true),
            (".env.*", ".env", false),
            ("id_rsa*", "id_rsa", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("/\\*", "/*", true),
            ("/\\*", "/etc", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("", "", true),
            ("*", "", true),
            ("\\", "\\", true),
            ("a\\*", "a*", true),
            ("*\\*", "ab*", true),
            ("*.tar.*", "a.tar.tar.gz", true),
            ("ä?", "äö", true),
            ("a", "", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
            assert_eq!(matches_any_case(pattern, text), expected, "{pattern} {text}");
        }
        assert!(!matches(&"*a".repeat(50), &"a".repeat(49)));
    }
    #[test]
    fn case_does_not_matter_where_it_is_said() {
        for (pattern, text) in [("*.PEM", "a.pem"), ("id_rsa*", "ID_RSA.pub"), ("Ä*", "ärger"), ("\\A", "a")] {
            assert!(matches_any_case(pattern, text) && !matches(pattern, text), "{pattern} {text}");
        }
        assert!(!matches_any_case("a", "b") && !matches_any_case("ä", "ö"));
    }
}
