//! Where children are started from. What a thread is held to, its children inherit; and when it ends, the kernel kills children that asked
//! for that: bubblewrap's `--die-with-parent` means the thread, not the process. So there are threads that last.
//!
//! One does for all starts. But a start reads a program from a disk, and a disk may hang; so where a start is not done in time, another thread
//! takes the next ones from the same queue, and the one that hangs is left behind until it comes back.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{SandboxError, calls, landlock};

/// The longest that a start may take: it reads the program from a disk.
const START_LIMIT: Duration = Duration::from_secs(30);
/// From then on a start counts as hanging, and others no longer wait for it.
const HANGING_FROM: Duration = Duration::from_secs(5);
/// Threads that last, of each kind; all but one of them hang, or did so once.
const THREADS_MAX: usize = 16;
/// Starts that wait for those before them; more are refused.
const QUEUE_MAX: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that last as long as the process, and what they have to do.
struct Starters {
    queue: Mutex<Queue>,
    came: Condvar,
    /// They are held from abstract sockets of others.
    scoped: bool,
}

struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static SCOPED: Starters = Starters::new(true);
static PLAIN: Starters = Starters::new(false);

impl Starters {
    const fn new(scoped: bool) -> Self {
        let queue = Mutex::new(Queue { jobs: VecDeque::new(), threads: 0, idle: 0 });
        Self { queue, came: Condvar::new(), scoped }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&'static self, job: Job) -> Result<(), SandboxError> {
        let mut queue = self.queue();
        if queue.jobs.len() >= QUEUE_MAX {
            return Err(failed("too many programs wait to be started"));
        }
        queue.jobs.push_back(job);
        let is_first = queue.threads == 0;
        drop(queue);
        if is_first {
            self.one_more()?;
        }
        self.came.notify_one();
        Ok(())
    }

    /// One thread more, where none has nothing to do.
    fn one_more(&'static self) -> Result<(), SandboxError> {
        {
            let mut queue = self.queue();
            if queue.idle > 0 {
                return Ok(());
            }
            if queue.threads >= THREADS_MAX {
                return Err(failed("the starts of many programs hang"));
            }
            queue.threads += 1;
            queue.idle += 1;
        }
        let begun = self.begin();
        if begun.is_err() {
            let mut queue = self.queue();
            queue.threads -= 1;
            queue.idle -= 1;
        }
        begun
    }

    fn begin(&'static self) -> Result<(), SandboxError> {
        let (ready, is_ready) = sync_channel(1);
        let body = move || {
            let held = if self.scoped { landlock::hold_abstract_sockets() } else { Ok(()) };
            let held = held.and_then(|()| calls::deny_of_the_kernel());
            let is_held = held.is_ok();
            let _ = ready.send(held);
            if is_held {
                self.serve();
            }
        };
        thread::Builder::new().name("pith-start".to_owned()).spawn(body).map_err(unstarted)?;
        is_ready.recv_timeout(START_LIMIT).map_err(|_| failed("its thread did not begin"))?
    }

    /// Ends with the process. The thread was counted as idle when it began.
    fn serve(&self) -> ! {
        loop {
            let mut queue = self.queue();
            let job = loop {
                match queue.jobs.pop_front() {
                    Some(job) => break job,
                    None => queue = self.came.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            queue.idle -= 1;
            drop(queue);
            // A thread that ended would take its children with it.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            self.queue().idle += 1;
        }
    }
}

/// Does the work on a thread that lasts. Blocks meanwhile; the result of work that is not done in time is `late`'s.
pub(crate) fn on_lasting<T: Send + 'static>(
    scoped: bool,
    work: impl FnOnce() -> T + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> Result<T, SandboxError> {
    served(if scoped { &SCOPED } else { &PLAIN }, work, late)
}

fn served<T: Send + 'static>(
    starters: &'static Starters,
    work: impl FnOnce() -> T + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> Result<T, SandboxError> {
    let until = Instant::now() + START_LIMIT;
    let (done, result) = sync_channel(1);
    starters.put(Box::new(move || {
        if let Err(unwanted) = done.send(work()) {
            late(unwanted.0);
        }
    }))?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match result.recv_timeout(left.min(HANGING_FROM)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => return Err(failed("its thread failed")),
            Err(RecvTimeoutError::Timeout) if left <= HANGING_FROM => return Err(failed("the start took too long")),
            // This one hangs, or waits for one that does.
            Err(RecvTimeoutError::Timeout) => starters.one_more()?,
        }
    }
}

/// Does the work on a thread of its own, which is held by `hold` first and ends with it. The result of work that is not done in time is `late`'s.
pub(crate) fn on_held<T: Send + 'static>(
    hold: landlock::Hold,
    work: impl FnOnce() -> T + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> Result<T, SandboxError> {
    let (done, result) = sync_channel(1);
    let body = move || {
        if let Err(unwanted) = done.send(hold.take_hold().map(|()| work()))
            && let Ok(unwanted) = unwanted.0
        {
            late(unwanted);
        }
    };
    thread::Builder::new().name("pith-start".to_owned()).spawn(body).map_err(unstarted)?;
    result.recv_timeout(START_LIMIT).map_err(|error| match error {
        RecvTimeoutError::Timeout => failed("the start took too long"),
        RecvTimeoutError::Disconnected => failed("its thread failed"),
    })?
}

fn failed(reason: &str) -> SandboxError {
    SandboxError::Failed { reason: reason.to_owned() }
}

fn unstarted(error: io::Error) -> SandboxError {
    SandboxError::Failed { reason: format!("no thread to start it from: {error}") }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    static TRIED: Starters = Starters::new(false);

    #[test]
    fn a_start_that_hangs_holds_up_the_others_only_for_a_while() {
        let (release, released) = channel::<()>();
        let hanging = thread::spawn(move || {
            served(&TRIED, move || released.recv().is_ok(), drop).is_ok_and(|was_released| was_released)
        });
        while TRIED.queue().threads == 0 {
            thread::yield_now();
        }
        for n in 0..3 {
            assert_eq!(served(&TRIED, move || n, drop).unwrap(), n);
        }
        // Work that panics costs itself.
        assert!(served(&TRIED, || panic!("of its own"), drop::<()>).is_err());
        assert_eq!(served(&TRIED, || 7, drop).unwrap(), 7);
        // One is left behind, one serves; two who wait may both see that nobody is idle.
        assert!((2..=3).contains(&TRIED.queue().threads));
        release.send(()).unwrap();
        assert!(hanging.join().unwrap());
    }
}
