//! Where children are started from. What a thread is held to, its children inherit; and when it ends, the kernel kills children that asked
//! for that: bubblewrap's `--die-with-parent` means the thread, not the process.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::{SandboxError, landlock};

/// The longest that a start may take: it reads the program from a disk.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Starts that wait for the one before them; more wait to be let in.
const QUEUE: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// Two threads that last as long as the process: with and without the hold on abstract sockets.
static SCOPED: OnceLock<Result<SyncSender<Job>, SandboxError>> = OnceLock::new();
static PLAIN: OnceLock<Result<SyncSender<Job>, SandboxError>> = OnceLock::new();

/// Does the work on a thread that lasts. Blocks meanwhile; the result of work that is not done in time is `late`'s.
pub(crate) fn on_lasting<T: Send + 'static>(
    scoped: bool,
    work: impl FnOnce() -> T + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> Result<T, SandboxError> {
    let thread = if scoped { &SCOPED } else { &PLAIN };
    let jobs = thread.get_or_init(|| begin(scoped)).as_ref().map_err(Clone::clone)?;
    let (done, result) = sync_channel(1);
    let job: Job = Box::new(move || {
        if let Err(unwanted) = done.send(work()) {
            late(unwanted.0);
        }
    });
    jobs.send(job).map_err(|_| failed("its thread is gone"))?;
    result.recv_timeout(START_LIMIT).map_err(|error| match error {
        RecvTimeoutError::Timeout => failed("the start took too long"),
        RecvTimeoutError::Disconnected => failed("its thread failed"),
    })
}

fn begin(scoped: bool) -> Result<SyncSender<Job>, SandboxError> {
    let (jobs, queue) = sync_channel::<Job>(QUEUE);
    let (ready, is_ready) = sync_channel(1);
    let body = move || {
        let held = if scoped { landlock::hold_abstract_sockets() } else { Ok(()) };
        let is_held = held.is_ok();
        let _ = ready.send(held);
        if is_held {
            // Ends with the process: the other side is kept in a static.
            while let Ok(job) = queue.recv() {
                job();
            }
        }
    };
    thread::Builder::new().name("pith-start".to_owned()).spawn(body).map_err(unstarted)?;
    is_ready.recv_timeout(START_LIMIT).map_err(|_| failed("its thread did not begin"))??;
    Ok(jobs)
}

/// Does the work on a thread of its own, which is held by `hold` first and ends with it.
pub(crate) fn on_held<T: Send + 'static>(
    hold: landlock::Hold,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SandboxError> {
    let body = move || hold.take_hold().map(|()| work());
    let thread = thread::Builder::new().name("pith-start".to_owned()).spawn(body).map_err(unstarted)?;
    thread.join().map_err(|_| failed("its thread failed"))?
}

fn failed(reason: &str) -> SandboxError {
    SandboxError::Failed { reason: reason.to_owned() }
}

fn unstarted(error: io::Error) -> SandboxError {
    SandboxError::Failed { reason: format!("no thread to start it from: {error}") }
}
