//! Patterns for one word or one name: `*` is any text, `?` one character, `\` takes the next character as it is.

/// Whether the whole of `text` is what the pattern says.
pub fn matches(pattern: &str, text: &str) -> bool {
    let tokens = tokens(pattern);
    let chars: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where the last `*` stood, and up to where its text reached: going back only there keeps this from growing beyond
    // pattern times text.
    let mut retry: Option<(usize, usize)> = None;
    while t < chars.len() {
        match tokens.get(p) {
            Some(Token::Any) => {
                retry = Some((p, t));
                p += 1;
            }
            Some(Token::One) => {
                p += 1;
                t += 1;
            }
            Some(Token::Char(char)) if *char == chars[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((star, reached)) => {
                    p = star + 1;
                    t = reached + 1;
                    retry = Some((star, t));
                }
                None => return false,
            },
        }
    }
    tokens[p..].iter().all(|token| matches!(token, Token::Any))
}

enum Token {
    Any,
    One,
    Char(char),
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut chars = pattern.chars();
    let mut tokens = Vec::new();
    while let Some(char) = chars.next() {
        tokens.push(match char {
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => Token::Char(chars.next().unwrap_or('\\')),
            char => Token::Char(char),
        });
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::matches;

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
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        assert!(!matches(&"*a".repeat(50), &"a".repeat(49)));
    }
}
