//! How a program that failed ends: a sentence, its sources, a hint, an exit code.

use crate::harmless::harmless;
use std::{borrow::Cow, error::Error, io::Write};

/// The most of one word, and of a whole message, that is shown, in characters.
const WORD_CHARS: usize = 400;
const MESSAGE_CHARS: usize = 4000;

/// Done.
pub const DONE: u8 = 0;
/// The run failed, was cut, or was aborted by a plugin or the library.
pub const FAILED: u8 = 1;
/// Usage, or a start that was refused.
pub const REFUSED: u8 = 2;
/// Ctrl-C.
pub const INTERRUPTED: u8 = 130;
/// The terminal is gone (SIGHUP).
pub const HUNG_UP: u8 = 129;
/// SIGTERM.
pub const TERMINATED: u8 = 143;

/// Something that ends the program.
#[derive(Debug)]
pub struct Failure {
    /// What, with what it came from.
    pub message: String,
    /// The way out.
    pub hint: Option<String>,
    /// How the program exits.
    pub code: u8,
}

impl Failure {
    /// A start that was refused.
    pub fn refused(error: &dyn Error) -> Self {
        Self { message: chain(error), hint: None, code: REFUSED }
    }

    /// With a way out.
    pub fn hinted(mut self, hint: Option<impl Into<String>>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }

    /// Says it on standard error. A closed one is nobody to tell.
    pub fn tell(&self) {
        let mut err = std::io::stderr().lock();
        let _ = writeln!(err, "error: {}", indented(&self.message));
        if let Some(hint) = &self.hint {
            let _ = writeln!(err, "hint: {}", indented(hint));
        }
    }
}

/// Writes all of it to standard output; gives the exit code. A reader that left, such as `head`, has what it wanted.
pub fn hand_over(text: &[u8]) -> Result<u8, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::refused(&error)),
        _ => Ok(DONE),
    }
}

/// Harmless, lines after the first set in, and no more than a screen of it: what a message quotes of others shall not look like a line of
/// ours, nor drive ours away.
pub fn indented(text: &str) -> String {
    let shown = harmless(text);
    let shown = shorter(shown.trim_end());
    shown.replace('\n', "\n  ")
}

/// Long words, such as a path of thousands of characters, without their middle; then the whole without its own.
fn shorter(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(2 * MESSAGE_CHARS));
    for word in text.split_inclusive(char::is_whitespace) {
        out.push_str(&cut_middle(word, WORD_CHARS));
    }
    cut_middle(&out, MESSAGE_CHARS).into_owned()
}

/// At most so many characters, the first and the last of the text, and a mark where some are missing.
fn cut_middle(text: &str, limit: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= limit {
        return Cow::Borrowed(text);
    }
    let head: String = text.chars().take(limit / 2).collect();
    let tail: String = text.chars().skip(count - limit / 2).collect();
    Cow::Owned(format!("{head}[...]{tail}"))
}

/// An error and what it came from, joined by colons; a source whose words its parent repeats is not said twice.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let words = inner.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_message_quotes_is_short_and_set_in() {
        assert_eq!(indented("a\nerror: b\u{1b}[2J\n"), "a\n  error: b");
        let path = format!("/{}/end", "é".repeat(6000));
        let told = indented(&format!("the file {path} cannot be read: no such file"));
        assert!(told.starts_with("the file /éé") && told.ends_with("é/end cannot be read: no such file"), "{told}");
        assert!(told.chars().count() < 500, "{told}");
        assert!(indented(&"word ".repeat(10_000)).chars().count() <= MESSAGE_CHARS + 5);
    }
}
