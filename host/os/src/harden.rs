//! What the process does to itself before it reads anything worth stealing.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

/// The first thing that the binary does: no core dumps (children inherit that), not dumpable (no other process of the user reads its
/// memory or descriptors), inherited descriptors closed to children. The umask stays the user's.
///
/// Errors: the system refused; then keys must not be read.
pub fn harden_process() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    seal_descriptors();
    Ok(())
}

/// Sets close-on-exec on every descriptor above the standard three, whoever opened it. One system call on a current Linux.
pub fn seal_descriptors() {
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
}
