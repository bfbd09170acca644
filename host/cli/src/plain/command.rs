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

/// Commands to Pith. `None`: nothing stood after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// What there is.
    Help,
    /// A new session.
    New,
    /// Which session this is.
    Session,
    /// The branches; or to go on from one of them.
    Tree(Option<String>),
    /// A new session from what stands before a message, or from all of the path.
    Fork(Option<String>),
    /// A new session from all of the path.
    Clone,
    /// Labels an entry.
    Label(Option<String>),
    /// Names the session.
    Name(Option<String>),
    /// Takes the last exchange out of what the model reads.
    Undo,
    /// Takes that back.
    Redo,
    /// Sums up older messages.
    Compact(Option<String>),
    /// The folder's sessions.
    Sessions,
    /// Goes on with another session.
    Resume(Option<String>),
    /// Leaves.
    Quit,
}

/// What a command is made of.
enum Takes {
    Nothing(Order),
    /// Words, or nothing.
    Words(fn(Option<String>) -> Order),
}

const ORDERS: [(&str, Takes); 15] = [
    ("help", Takes::Nothing(Order::Help)),
    ("new", Takes::Nothing(Order::New)),
    ("session", Takes::Nothing(Order::Session)),
    ("sessions", Takes::Nothing(Order::Sessions)),
    ("resume", Takes::Words(Order::Resume)),
    ("tree", Takes::Words(Order::Tree)),
    ("fork", Takes::Words(Order::Fork)),
    ("clone", Takes::Nothing(Order::Clone)),
    ("label", Takes::Words(Order::Label)),
    ("name", Takes::Words(Order::Name)),
    ("undo", Takes::Nothing(Order::Undo)),
    ("redo", Takes::Nothing(Order::Redo)),
    ("compact", Takes::Words(Order::Compact)),
    ("quit", Takes::Nothing(Order::Quit)),
    ("exit", Takes::Nothing(Order::Quit)),
];

/// What `/help` says.
pub const HELP: &str = "\
Write to the model; Enter sends. A backslash at the end of a line continues it, pasted lines stay together.
  @FILE          within a message: a text file or picture to attach
  !COMMAND       run a command yourself; the model reads it and its output with your next message
  !!COMMAND      the same, kept from the model
  /session       which session this is, where it is kept, what it took
  /new           begin a new session
  /sessions      the folder's sessions; /resume N goes on with one, /name NAME names this one
  /tree          the messages of all branches; /tree N goes on from one, your words come back to be changed;
                 /tree N sum [WISHES] also sums up the branch that you leave
  /fork [N]      a new session of what stands before message N; /clone of all. /label N WORDS marks one
  /undo          take the last exchange out of what the model reads (files stay as they are); /redo brings it back
  /compact [WISHES]  sum up older messages now; by itself that happens when the model's window is nearly full
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
        Some((_, Takes::Nothing(order))) if more.trim().is_empty() => Said::Order(order.clone()),
        Some((_, Takes::Nothing(_))) => {
            Said::Wrong(format!("/{name} takes nothing after it; to send this as a message, begin it with a blank"))
        }
        Some((_, Takes::Words(order))) => {
            let words = more.trim();
            Said::Order(order((!words.is_empty()).then(|| words.to_owned())))
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
            ("/tree", Said::Order(Order::Tree(None))),
            ("/tree 3 sum it up", Said::Order(Order::Tree(Some("3 sum it up".to_owned())))),
            ("/name  My talk ", Said::Order(Order::Name(Some("My talk".to_owned())))),
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
        for (name, _) in ORDERS {
            assert!(name == "exit" || HELP.contains(&format!("/{name}")), "{name}");
        }
    }
}
