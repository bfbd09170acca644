//! The process closed to others, before any key is read.

use std::sync::OnceLock;

/// What came of it: none before it was tried.
static TRIED: OnceLock<Result<(), String>> = OnceLock::new();

/// Makes this process not dumpable, without core files, its descriptors closed to children, and lets it open
/// as many files as the system does: see `pith_os::harden_process`, `pith_os::raise_open_files`. The binary's
/// first deed; programs that embed this library decide for themselves. Where the system refuses, [`crate::start`] does too.
pub fn harden_process() {
    TRIED.get_or_init(|| pith_os::harden_process().map_err(|error| error.to_string()));
    pith_os::raise_open_files();
}

/// Why it failed, where it was tried and did.
pub(crate) fn failure() -> Option<String> {
    TRIED.get().and_then(|tried| tried.clone().err())
}
