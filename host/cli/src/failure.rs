//! How a program that failed ends: a sentence, its sources, a hint, an exit code.

use crate::harmless::harmless;
use std::{error::Error, io::Write};

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

/// Harmless, and lines after the first set in: what a message quotes of others shall not look like a line of ours.
pub fn indented(text: &str) -> String {
    harmless(text).trim_end().replace('\n', "\n  ")
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
