//! Words of processes: what to start, what comes out, how it ended, what goes wrong.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::sandbox::{Sandbox, SandboxError};

/// A program to start. It runs in a session of its own, without a terminal, with the three standard descriptors and no other.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// Absolute; found by the caller ([`crate::find_program`]).
    pub program: PathBuf,
    /// Without the program's own name.
    pub args: Vec<OsString>,
    /// Absolute; a folder.
    pub cwd: PathBuf,
    /// The complete environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads first.
    pub stdin: Vec<u8>,
    /// Keeps standard input open after `stdin`, for [`crate::Child::write`]. Else it ends there; and where `stdin` is empty too it is
    /// `/dev/null`, not a pipe: programs such as `rg` search their input when that is a pipe.
    pub stdin_open: bool,
    /// One pipe for both outputs, so that their order is real; all of it is then `stdout`.
    pub merge_stderr: bool,
    /// From the start; then the whole group is killed.
    pub timeout: Option<Duration>,
    /// What it is held by. None: it may do whatever the user may.
    pub sandbox: Option<Sandbox>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exit {
    /// None when a signal ended it.
    pub code: Option<i32>,
    /// The signal's number.
    pub signal: Option<i32>,
    /// Its own timeout ended it.
    pub timed_out: bool,
    /// A file with the whole output, where that was longer than what is kept in memory.
    pub spool: Option<PathBuf>,
}

/// A piece of what a child says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// At most [`CHUNK_BYTES`].
    Stdout(Vec<u8>),
    /// At most [`CHUNK_BYTES`].
    Stderr(Vec<u8>),
    /// The last one, again and again.
    Exit(Exit),
}

/// What a whole run left.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// With the spool's path where there is one.
    pub exit: Exit,
    /// The last bytes of it, at most as many as were to be kept, beginning at a character of UTF-8.
    pub stdout: Vec<u8>,
    /// As `stdout`; empty where the two were merged.
    pub stderr: Vec<u8>,
    /// Bytes of standard output in all.
    pub stdout_bytes: u64,
    /// Bytes of standard error in all.
    pub stderr_bytes: u64,
    /// More was written than memory and spool hold together.
    pub spool_cut: bool,
    /// The caller's token ended it.
    pub cancelled: bool,
}

/// The most that is read from a pipe at once, in bytes: the kernel's pipe buffer.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// What a child may be given to read before it has read it, in bytes, beyond [`Command::stdin`].
pub const STDIN_PENDING_BYTES: usize = 1024 * 1024;

/// Why a process could not be started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// Program or folder is not absolute, an argument holds a NUL, a variable's name is empty or holds `=` or a NUL.
    #[error("not a valid command: {reason}")]
    Invalid {
        /// Which rule.
        reason: &'static str,
    },
    /// The folder to start in cannot be entered.
    #[error("{path}: cannot be used as working folder: {source}")]
    Folder {
        /// As given.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// The program did not start.
    #[error("{program}: {source}")]
    Spawn {
        /// As given.
        program: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// Its sandbox cannot be given.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Nothing came within the time, or more was written than the child may leave unread.
    #[error("limit reached")]
    Limit,
    /// Standard input was closed, by either side.
    #[error("standard input is closed")]
    StdinClosed,
    /// Anything else that the system says.
    #[error(transparent)]
    Io(#[from] io::Error),
}
