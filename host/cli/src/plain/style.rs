//! What the plain face may use of its terminal.

use rustix::termios::tcgetwinsize;
use std::io;

/// The width that is taken where the terminal does not say one.
const UNTOLD_WIDTH: usize = 80;
/// Narrower is taken for a terminal that says nonsense.
const LEAST_WIDTH: usize = 20;

/// Colours and width. Nothing here moves the cursor.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Dim and bright words, from the 8 colours that every terminal has.
    pub colour: bool,
    /// A terminal without escapes (`TERM=dumb`, or none said): lines as the system edits them.
    pub dumb: bool,
}

impl Style {
    /// By `TERM` and `NO_COLOR`.
    pub fn from_process() -> Self {
        let term = std::env::var("TERM").unwrap_or_default();
        let dumb = ["", "dumb", "cons25", "emacs"].contains(&term.as_str());
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: !dumb && !plain, dumb }
    }

    /// In a colour or manner, by its number in ECMA-48.
    fn with(self, manner: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\u{1b}[{manner}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// What one may read.
    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// What one should read.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What went wrong.
    pub fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    /// What came new.
    pub fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    /// A call.
    pub fn cyan(self, text: &str) -> String {
        self.with("36", text)
    }

    /// The terminal's columns, as they are now.
    pub fn width(self) -> usize {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if usize::from(size.ws_col) >= LEAST_WIDTH => usize::from(size.ws_col),
            _ => UNTOLD_WIDTH,
        }
    }
}
