//! A command line taken apart, far enough to see which programs it would run with which words. Not a shell: what it cannot
//! know (variables, the output of commands) stays as it is written.

/// One program with its words, and whether its input comes from the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// The program first.
    pub words: Vec<String>,
    /// A `|` stands before it.
    pub piped: bool,
}

/// How deep commands within commands (`bash -c "..."`, `$(...)`) are followed.
const MAX_DEPTH: usize = 4;

/// All the simple commands, those in substitutions and quoted scripts too.
pub fn simple_commands(line: &str) -> Vec<Simple> {
    let mut commands = Vec::new();
    collect(line, 0, &mut commands);
    commands
}

fn collect(line: &str, depth: usize, commands: &mut Vec<Simple>) {
    let mut nested = Vec::new();
    let from = commands.len();
    split(line, commands, &mut nested);
    for command in &mut commands[from..] {
        command.words.drain(..wrappers(&command.words));
        if let Some(script) = script(&command.words) {
            nested.push(script);
        }
    }
    commands.retain(|command| !command.words.is_empty());
    if depth < MAX_DEPTH {
        nested.iter().for_each(|line| collect(line, depth + 1, commands));
    }
}

/// Programs that run the program named by their words.
const WRAPPERS: [&str; 12] =
    ["env", "nohup", "time", "exec", "command", "builtin", "nice", "xargs", "setsid", "stdbuf", "timeout", "busybox"];
/// Words that come before a command.
const KEYWORDS: [&str; 9] = ["if", "then", "else", "elif", "while", "until", "do", "!", "{"];

/// How many of the first words are not the program yet: keywords, settings of variables, wrappers with their options.
fn wrappers(words: &[String]) -> usize {
    let mut at = 0;
    let mut wrapped = false;
    while let Some(word) = words.get(at) {
        let is_setting = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
        });
        let is_wrapper = WRAPPERS.contains(&base(word));
        let is_option = wrapped && (word.starts_with('-') || word.starts_with(|char: char| char.is_ascii_digit()));
        wrapped |= is_wrapper;
        if !(is_setting || is_wrapper || is_option || KEYWORDS.contains(&word.as_str())) {
            break;
        }
        at += 1;
    }
    at
}

/// The script that `bash -c SCRIPT` or `eval SCRIPT` would run.
fn script(words: &[String]) -> Option<String> {
    match base(words.first()?) {
        "bash" | "sh" | "zsh" | "dash" | "ksh" => {
            let flag = words
                .iter()
                .position(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c'))?;
            words.get(flag + 1).cloned()
        }
        "eval" => Some(words[1..].join(" ")),
        _ => None,
    }
}

/// A program's name without its folder.
pub fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn split(line: &str, commands: &mut Vec<Simple>, nested: &mut Vec<String>) {
    let mut chars = line.chars().peekable();
    let mut command = Simple::default();
    let mut word: Option<String> = None;
    // A word that is quoted at all is a word even if it is empty.
    let end_word = |word: &mut Option<String>, command: &mut Simple| command.words.extend(word.take());
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some(next) => word.get_or_insert_default().push(next),
            },
            '\'' => {
                let word = word.get_or_insert_default();
                word.extend(chars.by_ref().take_while(|&char| char != '\''));
            }
            '"' => {
                let word = word.get_or_insert_default();
                while let Some(char) = chars.next() {
                    match char {
                        '"' => break,
                        '\\' if chars.peek().is_some_and(|next| matches!(next, '"' | '\\' | '$' | '`')) => {
                            word.extend(chars.next());
                        }
                        '$' if chars.next_if_eq(&'(').is_some() => nested.push(until_closed(&mut chars)),
                        '`' => nested.push(chars.by_ref().take_while(|&char| char != '`').collect()),
                        char => word.push(char),
                    }
                }
            }
            '$' if chars.next_if_eq(&'(').is_some() => {
                nested.push(until_closed(&mut chars));
                word.get_or_insert_default().push_str("$()");
            }
            '`' => {
                nested.push(chars.by_ref().take_while(|&char| char != '`').collect());
                word.get_or_insert_default().push_str("$()");
            }
            '#' if word.is_none() => while chars.next_if(|&char| char != '\n').is_some() {},
            ' ' | '\t' => end_word(&mut word, &mut command),
            '>' | '<' => {
                // A redirection is no word of the program; what it names stands behind it and is passed over below.
                let is_descriptor = word.as_deref().is_some_and(|word| word.chars().all(|char| char.is_ascii_digit()));
                if is_descriptor {
                    word = None;
                }
                end_word(&mut word, &mut command);
                while chars.next_if(|char| matches!(char, '>' | '<' | '&' | '|')).is_some() {}
                while chars.next_if(|char| matches!(char, ' ' | '\t')).is_some() {}
                while chars.next_if(|char| !matches!(char, ' ' | '\t' | '\n' | ';' | '|' | '&' | '(' | ')')).is_some() {
                }
            }
            ';' | '\n' | '|' | '&' | '(' | ')' => {
                end_word(&mut word, &mut command);
                let twice = chars.next_if_eq(&char).is_some();
                if char == '|' {
                    chars.next_if_eq(&'&');
                }
                commands.push(std::mem::take(&mut command));
                command.piped = char == '|' && !twice;
            }
            char => word.get_or_insert_default().push(char),
        }
    }
    end_word(&mut word, &mut command);
    commands.push(command);
}

/// What stands up to the parenthesis that closes, which is taken too.
fn until_closed(chars: &mut impl Iterator<Item = char>) -> String {
    let mut depth = 1;
    chars
        .take_while(|char| {
            match char {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth > 0
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        simple_commands(line)
            .iter()
            .map(|command| format!("{}{}", if command.piped { "|" } else { "" }, command.words.join(" ")))
            .collect()
    }

    #[test]
    fn lines_come_apart() {
        for (line, expected) in [
            ("ls -l", &["ls -l"][..]),
            ("a; b && c || d & e\nf", &["a", "b", "c", "d", "e", "f"]),
            ("a | b |& c", &["a", "|b", "|c"]),
            ("echo 'a; b' \"c | d\" e\\;f", &["echo a; b c | d e;f"]),
            ("(cd x && rm y)", &["cd x", "rm y"]),
            ("A=1 B=2 env C=3 nohup sudo x", &["sudo x"]),
            ("if true; then sudo x; fi", &["true", "sudo x", "fi"]),
            ("echo x > f 2>&1 y", &["echo x y"]),
            ("a # b; c\nd", &["a", "d"]),
            ("\"su\"do x", &["sudo x"]),
            ("", &[]),
            ("timeout 5 xargs -n 1 rm -rf /", &["rm -rf /"]),
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
    }

    #[test]
    fn commands_within_commands_are_found() {
        assert_eq!(words("echo $(sudo x)"), ["echo $()", "sudo x"]);
        assert_eq!(words("echo \"a `sudo x` b\""), ["echo a  b", "sudo x"]);
        assert_eq!(words("bash -c 'cd / && sudo x'"), ["bash -c cd / && sudo x", "cd /", "sudo x"]);
        assert_eq!(words("bash -lc 'sudo x'")[1], "sudo x");
        assert_eq!(words("eval sudo x")[1], "sudo x");
        assert_eq!(words("$(echo $(sudo x))"), ["$()", "echo $()", "sudo x"]);
    }

    #[test]
    fn unfinished_text_is_no_trouble() {
        for line in ["'", "\"", "$(", "`", "\\", "|", "a |", ">", "((((", "eval"] {
            words(line);
        }
        // Depth is bounded, work is linear in it.
        assert!(!words(&"$(".repeat(10_000)).is_empty());
    }
}
