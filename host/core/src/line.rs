//! One line of a session file: a damaged one loses only itself.

use pith_protocol::{Entry, Header};
use std::fmt;

/// The longest line that is read, in bytes. One entry is one line; images make long ones.
pub const LINE_LIMIT_BYTES: usize = 64 << 20;

/// How a line is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFault {
    /// NUL bytes: what a crash leaves of blocks that were never written.
    Nul,
    /// It ends in the middle.
    Torn,
    /// No entry.
    NotAnEntry,
    /// Over `LINE_LIMIT_BYTES`.
    TooLong,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nul => "NUL bytes",
            Self::Torn => "it ends in the middle",
            Self::NotAnEntry => "no entry",
            Self::TooLong => "over 64 MiB",
        })
    }
}

/// An entry, and where on its line it begins.
pub(crate) struct Found {
    pub entry: Entry,
    pub start: usize,
}

/// Reads a line. Where a torn entry stands before a whole one (a crash, then an append that did not begin a fresh line), the whole one is
/// found: the last place from which the line reads as an entry to its end.
pub(crate) fn read_entry(bytes: &[u8]) -> Result<Found, LineFault> {
    let lead = bytes.iter().take_while(|byte| **byte == 0 || byte.is_ascii_whitespace()).count();
    let error = match Entry::read(&bytes[lead..]) {
        Ok(entry) => return Ok(Found { entry, start: lead }),
        Err(error) => error,
    };
    let mut from = bytes.len();
    // Each try reads to the line's end, so tries are bounded: text that merely quotes an entry's beginning is met from the right, escaped.
    for _ in 0..64 {
        let Some(start) = rfind_start(bytes, from) else { break };
        if start > lead
            && let Ok(entry) = Entry::read(&bytes[start..])
        {
            return Ok(Found { entry, start });
        }
        from = start;
    }
    Err(if bytes.contains(&0) {
        LineFault::Nul
    } else if error.is_eof() {
        LineFault::Torn
    } else {
        LineFault::NotAnEntry
    })
}

pub(crate) fn read_header(bytes: &[u8]) -> Option<Header> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice::<Header>(bytes).ok().filter(|header| header.kind == "session")
}

/// The last place before `from` where an object begins with the key `type`, as every writer of this format begins an entry.
fn rfind_start(bytes: &[u8], from: usize) -> Option<usize> {
    let begins = |start: usize| {
        let rest = &bytes[start + 1..];
        let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        rest[blank..].starts_with(b"\"type\"")
    };
    (0..from).rev().find(|start| bytes[*start] == b'{' && begins(*start))
}
