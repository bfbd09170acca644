//! Where a child is started from: here, or from a thread that gives it what holds it.

use std::io;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession, ResetSigmask};

use crate::harden::UsersOpenFiles;
use crate::process::Command;
use crate::sandbox::SandboxError;
#[cfg(target_os = "linux")]
use crate::sandbox::{Start, on_held, on_lasting};

/// What [`Place::start`] is to do.
pub(crate) struct Place {
    #[cfg(target_os = "linux")]
    start: Start,
}

type Started = io::Result<Box<dyn ChildWrapper>>;

/// Ctrl-Z stops whatever is in our process group. A child that it met on its way into its own would stay stopped, for nobody continues that
/// one; and a start that waits for it would never let this process be stopped. So these signals wait until the child has its session, where
/// they mean nothing.
fn spawn(command: tokio::process::Command) -> Started {
    let stops = SigSet::from_iter([Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU]);
    let before = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let users = UsersOpenFiles::hold();
    let started = CommandWrap::from(command).wrap(ProcessSession).wrap(ResetSigmask).spawn();
    drop(users);
    before.thread_set_mask()?;
    started
}

#[cfg(target_os = "linux")]
impl Place {
    /// Turns the command into one for its sandbox.
    pub fn of(command: &mut Command) -> Result<Self, SandboxError> {
        let start = match command.sandbox.take() {
            Some(sandbox) => sandbox.enter(command)?,
            None => Start::Here,
        };
        Ok(Self { start })
    }

    /// Whether the program is another's child, not ours.
    pub fn is_wrapped(&self) -> bool {
        matches!(self.start, Start::Lasting { .. })
    }

    /// Starts it in a session of its own. Blocks until the program is loaded, as the system's own call does.
    pub fn start(self, command: tokio::process::Command) -> Result<Started, SandboxError> {
        let runtime = tokio::runtime::Handle::current();
        let within = move || {
            let _runtime = runtime.enter();
            spawn(command)
        };
        let late = |late: Started| {
            // Nobody waits for it any more.
            if let Ok(mut late) = late {
                let _ = late.start_kill();
            }
        };
        match self.start {
            Start::Here => Ok(within()),
            Start::Lasting { scoped } => on_lasting(scoped, within, late),
            Start::Held(hold) => on_held(*hold, within, late),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Place {
    pub fn of(command: &mut Command) -> Result<Self, SandboxError> {
        if let Some(sandbox) = command.sandbox.take() {
            sandbox.enter(command)?;
        }
        Ok(Self {})
    }

    pub fn is_wrapped(&self) -> bool {
        false
    }

    pub fn start(self, command: tokio::process::Command) -> Result<Started, SandboxError> {
        Ok(spawn(command))
    }
}
