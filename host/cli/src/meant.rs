//! A subcommand that was mistyped would go to a model as a message, and cost something: it is found out before.

use crate::args::Cli;
use clap::{Command, CommandFactory, Parser, error::ErrorKind};

/// Letters that may be wrong in a word of at least six; in a shorter one, half of them.
const WRONG_LETTERS: usize = 2;

/// The subcommand that these words are a slip of, in its right spelling: the words have to be ones that it takes. None for a message.
pub fn order(words: &[String]) -> Option<String> {
    let mut command = Cli::command();
    let mut meant: Vec<&str> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for word in words {
        match nearest(&command, word) {
            Some(next) => {
                names.push(next.get_name().to_owned());
                command = next;
            }
            // A message's first word.
            None if names.is_empty() => return None,
            None => meant.push(word),
        }
    }
    let names = names.iter().map(String::as_str);
    let line: Vec<&str> = names.chain(meant).collect();
    let taken = match Cli::try_parse_from(std::iter::once("pith").chain(line.iter().copied())) {
        Ok(parsed) => parsed.command.is_some(),
        Err(error) => matches!(
            error.kind(),
            ErrorKind::DisplayHelp
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                | ErrorKind::MissingSubcommand
                | ErrorKind::MissingRequiredArgument
        ),
    };
    taken.then(|| line.join(" "))
}

fn nearest(command: &Command, word: &str) -> Option<Command> {
    let limit = if word.chars().count() < 6 { WRONG_LETTERS / 2 } else { WRONG_LETTERS };
    let found = command.get_subcommands().map(|other| (distance(word, other.get_name()), other));
    let (wrong, best) = found.min_by_key(|(wrong, _)| *wrong)?;
    (wrong <= limit).then(|| best.clone())
}

/// How many letters have to be changed, put in, left out, or swapped with the next. Words are as long as a command line lets them be: those
/// that are much longer than a name are told by their length.
fn distance(word: &str, name: &str) -> usize {
    let word: String = word.chars().take(name.len() + 3).collect();
    strsim::osa_distance(&word, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(line: &str) -> Option<String> {
        order(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn slips_of_subcommands_are_found() {
        for (typed, right) in [
            ("comletions bash", "completions bash"),
            ("completion zsh", "completions zsh"),
            ("completion", "completions"),
            ("plugins stats", "plugin stats"),
            ("plugin stat", "plugin stats"),
            ("plguin", "plugin"),
            ("dmeo", "demo"),
            ("demos", "demo"),
        ] {
            assert_eq!(meant(typed).as_deref(), Some(right), "{typed}");
        }
    }

    #[test]
    fn messages_stay_messages() {
        for message in [
            "hello",
            "what does this do",
            "demos are great",
            "completion of this function is slow",
            "memory",
            "complete this",
            "plugging along",
        ] {
            assert_eq!(meant(message), None, "{message}");
        }
        assert_eq!(order(&["demo it to me".to_owned()]), None, "one argument with spaces is a sentence");
        assert_eq!(order(&["x".repeat(100_000)]), None);
        assert_eq!(order(&[]), None);
    }
}
