//! `process.child`: a program that runs while its guest looks on.

use super::process::{Alive, exit, refused};
use crate::{
    convert::refusal,
    instance::Instance,
    limits::{CHUNK_BYTES, HOST_CALLS},
};
use pith_bindings::imports::pith::plugin::{
    process::{self as wit, HostChild},
    types::{Error, ErrorKind},
};
use pith_os::{Background, Chunk, ProcessError, Whole};
use std::time::{Duration, Instant};
use wasmtime::component::Resource;

/// What a guest's `child` stands for: nothing more, once it was detached. The entry stays, so that its number is nobody else's.
pub(super) struct Held(Option<Running>);

struct Running {
    child: pith_os::Child,
    whole: Whole,
    alive: Alive,
    started: Instant,
    /// What runs, in words.
    shown: String,
    /// What came while output of the other stream was gathered.
    waiting: Option<Chunk>,
}

impl Held {
    pub fn new(child: pith_os::Child, whole: Whole, alive: Alive, shown: String) -> Self {
        Self(Some(Running { child, whole, alive, started: Instant::now(), shown, waiting: None }))
    }
}

impl Running {
    /// A guest path with the whole output, where it became long.
    fn path(&self) -> Option<String> {
        self.whole.path().map(|path| path.to_string_lossy().into_owned())
    }

    /// The next chunk, with what else is there already or comes while it is gathered.
    async fn next(&mut self, wait: Option<Duration>, gathering: Duration) -> Result<Chunk, ProcessError> {
        let first = match self.waiting.take() {
            Some(waiting) => waiting,
            None => self.child.next(wait).await?,
        };
        let (mut bytes, is_stdout) = match first {
            Chunk::Stdout(bytes) => (bytes, true),
            Chunk::Stderr(bytes) => (bytes, false),
            Chunk::Exit(_) => return Ok(first),
        };
        let until = Instant::now() + gathering;
        while bytes.len() < CHUNK_BYTES {
            let left = until.saturating_duration_since(Instant::now());
            match (self.child.next(Some(left)).await, is_stdout) {
                (Ok(Chunk::Stdout(more)), true) | (Ok(Chunk::Stderr(more)), false) => bytes.extend_from_slice(&more),
                (Ok(Chunk::Exit(_)) | Err(_), _) => break, // both are said again
                (Ok(other), _) => {
                    self.waiting = Some(other);
                    break;
                }
            }
        }
        self.whole.append(&bytes);
        Ok(if is_stdout { Chunk::Stdout(bytes) } else { Chunk::Stderr(bytes) })
    }
}

/// How long output is gathered before the guest gets it, after so many host calls: the program is read from all the while and never
/// waits, and a call's host calls last for hours of output, however chatty.
fn gathering(host_calls: u32) -> Duration {
    Duration::from_millis(match host_calls.saturating_mul(10) / HOST_CALLS {
        0 => 0,
        1..3 => 20,
        3..6 => 500,
        6..8 => 5_000,
        _ => 30_000,
    })
}

fn detached() -> Error {
    refusal(ErrorKind::Conflict, "this program was detached")
}

impl Instance {
    fn held(&mut self, child: &Resource<wit::Child>) -> wasmtime::Result<&mut Option<Running>> {
        Ok(&mut self.table.get_mut(&Resource::<Held>::new_borrow(child.rep()))?.0)
    }
}

impl HostChild for Instance {
    async fn next(
        &mut self,
        child: Resource<wit::Child>,
        wait_ms: Option<u32>,
    ) -> wasmtime::Result<Result<wit::Chunk, Error>> {
        self.enter(0)?;
        let gathering = gathering(self.host_calls());
        let Some(running) = self.held(&child)? else { return Ok(Err(detached())) };
        let wait = wait_ms.map(|ms| Duration::from_millis(ms.into()));
        Ok(match running.next(wait, gathering).await {
            Ok(Chunk::Stdout(bytes)) => Ok(wit::Chunk::Stdout(bytes)),
            Ok(Chunk::Stderr(bytes)) => Ok(wit::Chunk::Stderr(bytes)),
            Ok(Chunk::Exit(ended)) => Ok(wit::Chunk::Exit(exit(ended, running.path()))),
            Err(error) => Err(refused(&error)),
        })
    }

    async fn write(&mut self, child: Resource<wit::Child>, bytes: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        self.enter(bytes.len())?;
        let Some(running) = self.held(&child)? else { return Ok(Err(detached())) };
        Ok(running.child.write(&bytes).map_err(|error| refused(&error)))
    }

    async fn close_stdin(&mut self, child: Resource<wit::Child>) -> wasmtime::Result<()> {
        self.enter(0)?;
        if let Some(running) = self.held(&child)? {
            running.child.close_stdin();
        }
        Ok(())
    }

    async fn kill(&mut self, child: Resource<wit::Child>) -> wasmtime::Result<()> {
        self.enter(0)?;
        if let Some(running) = self.held(&child)? {
            running.child.kill();
        }
        Ok(())
    }

    async fn detach(&mut self, child: Resource<wit::Child>) -> wasmtime::Result<Result<String, Error>> {
        self.enter(0)?;
        let Some(Running { child, mut whole, alive, started, shown, waiting }) = self.held(&child)?.take() else {
            return Ok(Err(detached()));
        };
        if let Some(Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) = waiting {
            whole.append(&bytes);
        }
        let file = match whole.into_file() {
            Ok(file) => file,
            Err(error) => return Ok(Err(refusal(ErrorKind::Internal, format!("no spool: {error}")))),
        };
        let path = file.path().to_owned();
        self.facts.process.keep_detached(path.clone(), shown, Background::new(child, file, started, alive));
        Ok(Ok(path.to_string_lossy().into_owned()))
    }

    async fn drop(&mut self, child: Resource<wit::Child>) -> wasmtime::Result<()> {
        if let Held(Some(Running { child, .. })) = self.table.delete::<Held>(Resource::new_own(child.rep()))? {
            child.close().await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_calls_last_for_hours_of_output() {
        // A guest that shows every piece makes two calls for each.
        let all: Duration = (0..HOST_CALLS).step_by(2).map(gathering).sum();
        assert!(all > Duration::from_secs(4 * 3600), "{all:?}");
        assert_eq!(gathering(900), Duration::ZERO);
    }
}
