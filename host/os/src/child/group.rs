//! A child's group, and how its program's end is noticed without its number becoming another's.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Mutex, PoisonError};

use process_wrap::tokio::ChildWrapper;
use rustix::process::{Pid, Signal};

/// A child's process group, as long as its number is its own.
#[derive(Debug, Clone)]
pub struct Group {
    pid: Pid,
    /// Killed for good; from here on the program may be reaped and its number be another's.
    is_over: Arc<Mutex<bool>>,
}

impl Group {
    pub(super) fn new(pid: Pid) -> Self {
        Self { pid, is_over: Arc::default() }
    }

    /// Kills every process of it; nothing where the child was closed or dropped.
    pub fn kill(&self) {
        self.signal(false);
    }

    pub(super) fn end(&self) {
        self.signal(true);
    }

    fn signal(&self, for_good: bool) {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_over {
            // Gone already is as good.
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
            *is_over = for_good;
        }
    }
}

/// How the program's end is noticed.
#[derive(Debug)]
pub(super) enum Watch {
    /// Without reaping it: its number stays taken while its group may have to be killed.
    #[cfg(target_os = "linux")]
    Pidfd(tokio::io::unix::AsyncFd<OwnedFd>),
    /// By reaping it.
    Wait,
}

impl Watch {
    #[cfg(target_os = "linux")]
    pub(super) fn new(pid: Pid) -> Self {
        // Its successor is unsafe for the sake of types whose descriptor may change; an OwnedFd's cannot.
        #[allow(deprecated)]
        let register = |fd| tokio::io::unix::AsyncFd::with_interest(fd, tokio::io::Interest::READABLE);
        let opened = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK).map_err(io::Error::from);
        let watched = opened.and_then(register);
        watched.map_or(Self::Wait, Self::Pidfd)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn new(_pid: Pid) -> Self {
        Self::Wait
    }

    /// Code and signal, once the program itself has ended.
    pub(super) async fn ended(
        &self,
        pid: Pid,
        inner: &mut Box<dyn ChildWrapper>,
    ) -> io::Result<(Option<i32>, Option<i32>)> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Pidfd(fd) => {
                use rustix::process::{WaitId, WaitIdOptions, waitid};
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
                loop {
                    let mut ready = fd.readable().await?;
                    if let Some(status) = waitid(WaitId::Pid(pid), options)? {
                        return Ok((status.exit_status(), status.terminating_signal()));
                    }
                    ready.clear_ready();
                }
            }
            Self::Wait => {
                let _ = pid;
                let status = inner.wait().await?;
                Ok((status.code(), status.signal()))
            }
        }
    }
}
