//! Hands: processes and their groups, spooled output, parallel file scan, the one opener of foreign paths.
//!
//! Depends on nothing else of ours. For Unix; Linux is what is tested. On Windows the crate is empty.
#![cfg(unix)]

mod background;
mod child;
mod harden;
mod open;
mod place;
mod process;
mod program;
mod run;
mod sandbox;
mod scan;
mod spool;
mod whole;

pub use background::Background;
pub use child::{Child, DRAIN_IDLE, DRAIN_LIMIT, DRAIN_LIMIT_BYTES, Group, START_LIMIT};
pub use harden::{harden_process, raise_open_files, seal_descriptors};
pub use open::{Kind, OpenError, Root, open_regular, read_regular};
pub use process::{CHUNK_BYTES, Chunk, Command, Exit, Output, ProcessError, STDIN_PENDING_BYTES};
pub use program::{clean_environment, find_program};
pub use run::{OnChunk, run};
#[cfg(target_os = "linux")]
pub use sandbox::PROBE_LIMIT as SANDBOX_PROBE_LIMIT;
pub use sandbox::{
    LANDLOCK_ABI_WHOLE, OnDecided, Sandbox, SandboxBackend, SandboxError, SandboxFolder, SandboxGap, SandboxGround,
    SandboxInForce, SandboxLevel, SandboxMachine, decide_sandbox,
};
pub use scan::{
    CONTEXT_LINES_MAX, ENTRIES_MAX, FILE_BYTES_MAX, GLOB_BYTES_MAX, GLOBS_MAX, Hit, IGNORE_BYTES_MAX, IGNORE_RULES_MAX,
    LINE_BUFFER_BYTES_MAX, LINE_BYTES_MAX, OUTCOME_BYTES_MAX, Outcome, PATTERN_BYTES_MAX, PATTERN_COMPILED_BYTES_MAX,
    Query, RESULTS_MAX, ROOTS_MAX, ScanError, THREADS_MAX, scan,
};
pub use spool::{SPOOL_FILE_LIMIT_BYTES, SPOOL_LIMIT_BYTES, SpoolDir, SpoolFile};
pub use whole::Whole;
