//! One line of a session file: a damaged one loses only itself.

use crate::skim::Skimmed;
use pith_protocol::Header;
use std::fmt;

/// The longest line that is read, in bytes. One entry is one line; images make long ones.
pub const LINE_LIMIT_BYTES: usize = 64 << 20;

/// Places on a damaged line from which a whole entry is looked for.
const TRIES: usize = 4096;

/// How a line is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineFault {
    /// NUL bytes: what a crash leaves of blocks that were never written.
    Nul,
    /// It ends in the middle.
    Torn,
    /// No entry.
    NotAnEntry,
    /// Over `LINE_LIMIT_BYTES`.
    TooLong,
    /// A header where an entry should be.
    SecondHeader,
    /// There are more entries than can be counted.
    TooMany,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nul => "NUL bytes",
            Self::Torn => "it ends in the middle",
            Self::NotAnEntry => "no entry",
            Self::TooLong => "over 64 MiB",
            Self::SecondHeader => "a second header",
            Self::TooMany => "too many entries",
        })
    }
}

/// An entry, and which bytes of its line it is.
pub(crate) struct Found<'a> {
    pub skimmed: Skimmed<'a>,
    pub start: usize,
    pub end: usize,
}

/// The line without what is no part of JSON at its ends, NUL bytes before it included.
pub(crate) fn trimmed(bytes: &[u8]) -> (usize, usize) {
    let start = bytes.iter().take_while(|byte| **byte == 0 || byte.is_ascii_whitespace()).count();
    let blank = bytes[start..].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
    (start, bytes.len() - blank)
}

/// Reads a line. Where a torn entry stands before a whole one (a crash, then an append that did not begin a fresh line), the whole one is
/// found: the last place from which the line reads as an entry to its end.
pub(crate) fn read_entry(bytes: &[u8]) -> Result<Found<'_>, LineFault> {
    let (lead, end) = trimmed(bytes);
    let error = match Skimmed::read(&bytes[lead..end]) {
        Ok(skimmed) => return Ok(Found { skimmed, start: lead, end }),
        Err(error) => error,
    };
    // Text that merely quotes an entry's beginning is met from the right, escaped, and a block of an entry is read to its own end only. All
    // tries together read the line a few times at most.
    let mut room = bytes.len().saturating_mul(4);
    let mut from = end;
    for _ in 0..TRIES {
        let Some(start) = rfind_start(bytes, from).filter(|start| *start > lead) else { break };
        match Skimmed::read(&bytes[start..end]) {
            // A block of a torn entry's content, which may end where the line was torn, is no entry.
            Ok(skimmed) if skimmed.is_of_session() => return Ok(Found { skimmed, start, end }),
            Ok(_) => {}
            Err(error) => match room.checked_sub(error.column()) {
                Some(left) => room = left,
                None => break,
            },
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
    let (start, end) = trimmed(bytes);
    serde_json::from_slice::<Header>(&bytes[start..end]).ok().filter(|header| header.kind == "session")
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
