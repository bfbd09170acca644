//! Reading a session file line by line into its tree, and what may be wrong with it.

use super::checks::{Checked, Checks};
use crate::Holder;
use pith_core::{LINE_LIMIT_BYTES, LoadedTree, ReadError, TreeReader};
use pith_os::OpenError;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

/// How much is read at a time, in bytes.
const READ_BYTES: usize = 256 << 10;

/// A session file that cannot be read as one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot be read to its end.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// It is no session.
    #[error("{path}: {source}", path = path.display())]
    NotASession {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: ReadError,
    },
    /// Over the limit.
    #[error("{path}: larger than {limit} bytes, which is the most that Pith reads of {what}", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// In bytes.
        limit: u64,
        /// Of what.
        what: &'static str,
    },
    /// Another process, or another session of this one, writes it.
    #[error("{path} is in use by another Pith ({holder})", path = path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// Who.
        holder: Holder,
    },
    /// The file system cannot lock files.
    #[error("{path} cannot be locked ({source}), so nothing would keep two of Pith's processes from writing it at once", path = path.display())]
    NoLocks {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// It was replaced while it was opened.
    #[error("{path} was replaced while it was opened; try again", path = path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
}

impl LoadError {
    /// What helps, where the error's own words do not say it already.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { .. } => Some(
                "end that one; or read the session with `pith session show`, go on from it in a file of its own with `pith session fork`, \
                 start a new one, or keep nothing with --no-session"
                    .to_owned(),
            ),
            Self::NoLocks { .. } => Some(
                "keep sessions on a file system with locks (XDG_DATA_HOME says where), or keep nothing with --no-session".to_owned(),
            ),
            _ => None,
        }
    }
}

/// A file that was read.
pub(super) struct Loaded {
    pub tree: LoadedTree,
    /// How long it was.
    pub end: u64,
    pub checks: Checks,
    /// Where the line of its header ends; 0 where it has none.
    pub header_end: u64,
}

/// Reads a file line by line, at most `limit` bytes of `what`.
pub(super) fn load(file: &File, path: &Path, limit: u64, what: &'static str) -> Result<Loaded, LoadError> {
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let no_session = |source| LoadError::NotASession { path: path.to_owned(), source };
    let too_large = || LoadError::TooLarge { path: path.to_owned(), limit, what };
    if file.metadata().map_err(failed)?.len() > limit {
        return Err(too_large());
    }
    let mut input = BufReader::with_capacity(READ_BYTES, Checked { file, checks: Checks::default() });
    let mut reader = TreeReader::new();
    let mut line = Vec::new();
    let (mut end, mut header_end) = (0u64, 0u64);
    loop {
        let met = next_line(&mut input, &mut line).map_err(failed)?;
        if met.bytes == 0 && !met.ended {
            let tree = reader.finish().map_err(no_session)?;
            return Ok(Loaded { tree, end, checks: input.into_inner().checks, header_end });
        }
        end = end.saturating_add(met.bytes).saturating_add(u64::from(met.ended));
        // It may grow while it is read.
        if end > limit {
            return Err(too_large());
        }
        if met.bytes > LINE_LIMIT_BYTES as u64 {
            reader.skip_line(met.bytes, met.ended);
        } else {
            reader.push_line(&line, met.ended).map_err(no_session)?;
        }
        // What stands before the header are blank lines.
        if header_end == 0 && !line.iter().all(u8::is_ascii_whitespace) {
            header_end = end;
        }
    }
}

struct Met {
    /// Without the newline.
    bytes: u64,
    /// There was one.
    ended: bool,
}

/// The next line into `line`, of which at most the limit is kept.
fn next_line(input: &mut BufReader<impl Read>, line: &mut Vec<u8>) -> io::Result<Met> {
    line.clear();
    let mut bytes: u64 = 0;
    loop {
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let newline = memchr::memchr(b'\n', piece);
        let take = newline.unwrap_or(piece.len());
        let room = LINE_LIMIT_BYTES.saturating_sub(line.len()).min(take);
        line.extend_from_slice(&piece[..room]);
        bytes = bytes.saturating_add(take as u64);
        let at_end = piece.is_empty();
        input.consume(take + usize::from(newline.is_some()));
        if newline.is_some() || at_end {
            return Ok(Met { bytes, ended: newline.is_some() });
        }
    }
}
