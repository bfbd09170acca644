//! What a line of the user's means.

/// A line, understood. Only what was typed goes through here: never a word of a model, a plugin or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing.
    Nothing,
    /// A message to the model.
    Words(String),
    /// A command to Pith.
    Order(Order),
    /// A command to a shell, by `!` or, kept from the model, by `!!`.
    Shell {
        /// The command.
        command: String,
        /// Not for the model.
        excluded: bool,
    },
    /// What looks like a command and is none: why.
    Wrong(String),
}

/// Commands to Pith.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// What there is.
    Help,
    /// A new session.
    New,
    /// Which session this is.
    Session,
    /// Leaves.
    Quit,
}

const ORDERS: [(&str, Order); 5] = [
    ("help", Order::Help),
    ("new", Order::New),
    ("session", Order::Session),
    ("quit", Order::Quit),
    ("exit", Order::Quit),
];

/// What `/help` says.
pub const HELP: &str = "\
Write to the model; Enter sends. A backslash at the end of a line continues it, pasted lines stay together.
  @FILE          within a message: a text file or picture to attach
  !COMMAND       run a command yourself; the model reads it and its output with your next message
  !!COMMAND      the same, kept from the model
  /session       which session this is, and where it is kept
  /new           begin a new session
  /quit          leave (Ctrl-D)
  /help          this
While the model works: what you type reaches it after its present step; Ctrl-C stops it, again leaves.
At the prompt: up and down go through earlier lines; a line that begins with a blank is not kept; Ctrl-C twice leaves.
A word after a slash is a command; a blank before it makes it a message. Paths such as /etc/hosts are messages.";

/// Understands a line.
pub fn understand(line: &str) -> Said {
    let words = line.trim_end();
    if words.trim().is_empty() {
        return Said::Nothing;
    }
    if let Some(command) = words.strip_prefix('!') {
        let (command, excluded) = match command.strip_prefix('!') {
            Some(command) => (command.trim(), true),
            None => (command.trim(), false),
        };
        return if command.is_empty() {
            Said::Wrong("a command is missing: !ls".to_owned())
        } else {
            Said::Shell { command: command.to_owned(), excluded }
        };
    }
    match words.strip_prefix('/') {
        Some(rest) => order(words, rest),
        None => Said::Words(words.trim_start().to_owned()),
    }
}

/// A slash and a word of letters is a command, known or not; everything else, such as a path, is a message.
fn order(words: &str, rest: &str) -> Said {
    let (name, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !is_name {
        return Said::Words(words.to_owned());
    }
    match ORDERS.iter().find(|(known, _)| *known == name) {
        Some((_, order)) if more.trim().is_empty() => Said::Order(*order),
        Some(_) => {
            Said::Wrong(format!("/{name} takes nothing after it; to send this as a message, begin it with a blank"))
        }
        None => Said::Wrong(format!(
            "there is no command /{name}; /help lists them; to send this as a message, begin it with a blank"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_they_look_like() {
        let words = |text: &str| Said::Words(text.to_owned());
        let shell = |command: &str, excluded| Said::Shell { command: command.to_owned(), excluded };
        for (line, said) in [
            ("", Said::Nothing),
            ("  \n ", Said::Nothing),
            ("hello there ", words("hello there")),
            ("a\nb", words("a\nb")),
            ("/help", Said::Order(Order::Help)),
            ("/quit ", Said::Order(Order::Quit)),
            ("/exit", Said::Order(Order::Quit)),
            ("/etc/hosts is odd", words("/etc/hosts is odd")),
            ("// a comment", words("// a comment")),
            ("/", words("/")),
            ("/usr.bin", words("/usr.bin")),
            (" /tmp is full", words("/tmp is full")),
            ("!ls -l", shell("ls -l", false)),
            ("! ls", shell("ls", false)),
            ("!!env", shell("env", true)),
            (" !important", words("!important")),
        ] {
            assert_eq!(understand(line), said, "{line:?}");
        }
        for line in ["/tmp", "/tmp is full", "/help me", "/model x", "!", "!!", "! "] {
            assert!(matches!(understand(line), Said::Wrong(_)), "{line:?}");
        }
    }

    #[test]
    fn every_command_is_in_the_help() {
        for (name, order) in ORDERS {
            assert!(name == "exit" || HELP.contains(&format!("/{name}")), "{order:?}");
        }
    }
}
