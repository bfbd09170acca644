//! What the process does to itself before it reads anything worth stealing.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit of open files as the user had set it, where it was raised.
static OPEN_FILES_BEFORE: OnceLock<Rlimit> = OnceLock::new();

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

/// Lets this process open as many files as the system lets it: plugins, programs and sessions share the limit, and the usual 1,024 is kept
/// low for programs that use `select`. Children get the user's own limit back. Where it cannot be raised it stays.
pub fn raise_open_files() {
    let before = getrlimit(Resource::Nofile);
    if before.current.is_some() && before.current != before.maximum {
        let raised = Rlimit { current: before.maximum, maximum: before.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            let _ = OPEN_FILES_BEFORE.set(before);
        }
    }
}

/// What a child's limit of open files is to be again.
pub(crate) fn open_files_before() -> Option<Rlimit> {
    OPEN_FILES_BEFORE.get().copied()
}

/// While it is held, children are born with the limit that the user had set: what they start at once would not be reached by
/// [`open_files_before`]. It is this process's limit too, so it is left as it is where that many files are open already.
pub(crate) struct UsersOpenFiles(());

/// Descriptors that a start needs, with room.
const START_DESCRIPTORS: u64 = 32;
/// How many hold it now: a start that hangs on a dead mount does not hold up the others.
static STARTING: Mutex<usize> = Mutex::new(0);

impl UsersOpenFiles {
    pub fn hold() -> Option<Self> {
        let before = *OPEN_FILES_BEFORE.get()?;
        // The system gives the lowest number that is free.
        let free = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 0).ok()?;
        let used = u64::try_from(free.as_raw_fd()).ok()?;
        if before.current.is_none_or(|limit| used.saturating_add(START_DESCRIPTORS) > limit) {
            return None;
        }
        let mut starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if *starting == 0 {
            setrlimit(Resource::Nofile, before).ok()?;
        }
        *starting = starting.saturating_add(1);
        Some(Self(()))
    }
}

impl Drop for UsersOpenFiles {
    fn drop(&mut self) {
        let mut starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        *starting = starting.saturating_sub(1);
        if *starting == 0 {
            let now = getrlimit(Resource::Nofile);
            let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now });
        }
    }
}
