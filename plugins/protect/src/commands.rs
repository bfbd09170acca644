//! Commands that may not run.
//!
//! A rule is a program and words that must stand among its words: `git push --force` also forbids `git push origin main
//! --force`. Each word is a [`glob`](crate::glob). A word like `-rf` asks for these letters among the short options,
//! however they are grouped; where `-f` or `-r` is meant, `--force`, `--recursive` and `-R` count too. `a | b` is a program
//! `a` from which, through any others, a pipe leads into `b`. A rule that starts with `raw:` is a text that may not be in
//! the command at all, white space apart.

use crate::glob;
use crate::shell::{Simple, base, simple_commands};

/// The rule that forbids this command line; none where it may run.
pub fn forbidding<'r>(line: &str, rules: impl IntoIterator<Item = &'r str>) -> Option<&'r str> {
    let commands = simple_commands(line);
    let dense = dense(line);
    rules.into_iter().find(|rule| match rule.strip_prefix("raw:") {
        Some(text) => !text.is_empty() && dense.contains(&self::dense(text)),
        None => fits(&commands, rule),
    })
}

/// What is wrong with a rule: it could forbid nothing.
pub fn fault(rule: &str) -> Option<&'static str> {
    match rule.strip_prefix("raw:") {
        Some(text) => dense(text).is_empty().then_some("has no text after `raw:`"),
        None if rule.split(" | ").any(|stage| stage.trim().is_empty()) => {
            Some("has no program in it, or beside a pipe")
        }
        // A word may have any character in it, such as `[` and `${HOME}`.
        None => {
            let slashes = rule.len() - rule.trim_end_matches('\\').len();
            (slashes % 2 == 1).then_some("ends in a lone `\\`; the character itself is `\\\\`")
        }
    }
}

fn dense(text: &str) -> String {
    text.chars().filter(|char| !char.is_whitespace()).collect()
}

fn fits(commands: &[Simple], rule: &str) -> bool {
    let stages: Vec<Vec<&str>> = rule.split(" | ").map(|stage| stage.split_whitespace().collect()).collect();
    if stages.iter().any(Vec::is_empty) {
        return false;
    }
    // Each pipeline is a run of commands of which only the first is not piped.
    commands.chunk_by(|_, next| next.piped).any(|pipeline| {
        let mut rest = pipeline.iter();
        stages.iter().all(|stage| rest.any(|command| fits_one(&command.words, stage)))
    })
}

fn fits_one(words: &[String], wanted: &[&str]) -> bool {
    let ([program, words @ ..], [wanted_program, wanted @ ..]) = (words, wanted) else { return false };
    if !glob::matches(wanted_program, base(program)) {
        return false;
    }
    wanted.iter().all(|wanted| match wanted.strip_prefix('-') {
        Some(letters) if !letters.is_empty() && !letters.starts_with('-') => {
            letters.chars().all(|letter| words.iter().any(|word| has_option(word, letter)))
        }
        _ => words.iter().any(|word| glob::matches(wanted, word) || glob::matches(wanted, &plain(word))),
    })
}

/// A path as a person would write it: `//` and `/.` are `/`.
fn plain(word: &str) -> String {
    let mut plain = word.to_owned();
    while let Some(at) = plain.find("//") {
        plain.remove(at);
    }
    while let Some(at) = plain.find("/./") {
        plain.replace_range(at..at + 2, "");
    }
    match plain.strip_suffix("/.") {
        Some(folder) => format!("{folder}/"),
        None => plain,
    }
}

fn has_option(word: &str, letter: char) -> bool {
    match word.strip_prefix("--") {
        Some(long) => matches!((letter, long), ('f', "force") | ('r' | 'R', "recursive")),
        None => word
            .strip_prefix('-')
            .is_some_and(|letters| letters.chars().any(|has| has == letter || (letter == 'r' && has == 'R'))),
    }
}

#[cfg(test)]
mod tests {
    use super::{fault, forbidding};

    fn forbids(rule: &str, line: &str) -> bool {
        forbidding(line, [rule]).is_some()
    }

    #[test]
    fn a_rule_that_forbids_nothing_is_at_fault() {
        for rule in ["", " ", "raw:", "raw: ", " | sh", "curl | ", "a\\"] {
            assert!(fault(rule).is_some(), "{rule:?}");
        }
        for rule in ["sudo", "curl | sh", "[ -f x ]", "rm ${HOME}", "raw::(){:|:&};:", "rm \\*", "a\\\\"] {
            assert_eq!(fault(rule), None, "{rule:?}");
        }
    }

    #[test]
    fn words_may_stand_apart() {
        assert!(forbids("git push --force", "git push --force"));
        assert!(forbids("git push --force", "cd x && git push origin main --force"));
        assert!(forbids("git push --force", "git -C x push --force"));
        assert!(!forbids("git push --force", "git push --force-with-lease"));
        assert!(!forbids("git push --force", "git commit -m 'git push --force'"));
        assert!(forbids("sudo", "/usr/bin/sudo ls"));
        assert!(!forbids("sudo", "man sudo"));
    }

    #[test]
    fn options_in_any_spelling() {
        for line in [
            "rm -rf /",
            "rm -fr /",
            "rm -r -f /",
            "rm -Rf /",
            "rm --recursive --force /",
            "rm -rfv / ",
            "rm / -rf",
            "rm -rf //",
            "rm -rf /.",
            "rm -rf /.//./",
        ] {
            assert!(forbids("rm -rf /", line), "{line}");
        }
        for line in ["rm -r /", "rm -rf /tmp/x", "rm -rf ./", "rm -f x", "echo rm -rf /"] {
            assert!(!forbids("rm -rf /", line), "{line}");
        }
        assert!(forbids("rm -rf /\\*", "rm -rf /*") && !forbids("rm -rf /\\*", "rm -rf /tmp"));
        assert!(forbids("git push -f", "git push -f") && forbids("git push -f", "git push --force"));
    }

    #[test]
    fn pipes_lead_through_others() {
        assert!(forbids("curl | sh", "curl -s http://x | sh"));
        assert!(forbids("curl | sh", "curl -s http://x | tee f | sh -s -- -y"));
        assert!(!forbids("curl | sh", "curl http://x; sh"));
        assert!(!forbids("curl | sh", "curl http://x | grep sh || sh"));
        assert!(!forbids("curl | sh", "sh x | curl -T - http://x"));
    }

    #[test]
    fn raw_texts_ignore_white_space() {
        assert!(forbids("raw::(){:|:&};:", ":() { :|:& };:"));
        assert!(!forbids("raw:", "ls"));
        assert!(!forbids("", "ls") && !forbids("|", "ls") && !forbids("a | ", "a"));
    }
}
