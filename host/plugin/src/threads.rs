//! Threads for calls that hold folders: file work blocks, so such a call runs whole on a thread of its own.
//!
//! A thread that a dead mount holds cannot be ended. Its call ends at the deadline all the same; the thread is counted, left behind, and
//! never joined.

use crate::limits::THREADS_LEFT_BEHIND;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// One plugin's threads. They are made when needed and kept for the next call; how many work at once is bounded by the plugin's live instances.
#[derive(Default)]
pub(crate) struct FileThreads {
    idle: Mutex<Vec<Worker>>,
    left_behind: Arc<AtomicUsize>,
}

struct Worker {
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
}

/// A call that runs on a thread. Dropping it leaves the thread behind; it ends when its job does.
pub(crate) struct Threaded<'t, T> {
    threads: &'t FileThreads,
    worker: Option<Worker>,
    answer: oneshot::Receiver<T>,
    abandoned: Arc<AtomicUsize>,
}

/// `Threaded::abandoned`: the caller waits, has gone, or the job is over.
const WAITED_FOR: usize = 0;
const ABANDONED: usize = 1;
const OVER: usize = 2;

impl FileThreads {
    /// Starts a job. None where too many threads are stuck, or the system has no more.
    pub fn start<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<Threaded<'_, T>> {
        if self.left_behind.load(Ordering::Relaxed) >= THREADS_LEFT_BEHIND {
            return None;
        }
        let (give, answer) = oneshot::channel();
        let abandoned = Arc::new(AtomicUsize::new(WAITED_FOR));
        let (state, left_behind) = (abandoned.clone(), self.left_behind.clone());
        let job: Job = Box::new(move || {
            let made = job();
            // Nobody waits for it where the call has ended.
            let _ = give.send(made);
            if state.swap(OVER, Ordering::AcqRel) == ABANDONED {
                left_behind.fetch_sub(1, Ordering::Relaxed);
            }
        });
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let worker = match idle {
            Some(worker) => worker,
            None => Worker::start()?,
        };
        worker.jobs.send(job).ok()?;
        Some(Threaded { threads: self, worker: Some(worker), answer, abandoned })
    }

    /// Threads that work for a call that is over.
    pub fn left_behind(&self) -> usize {
        self.left_behind.load(Ordering::Relaxed)
    }
}

impl<T> Threaded<'_, T> {
    /// Waits for the job. None where it panicked.
    pub async fn finish(mut self) -> Option<T> {
        let answer = (&mut self.answer).await.ok();
        // A thread whose job panicked is gone.
        if let (Some(worker), true) = (self.worker.take(), answer.is_some()) {
            self.threads.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        }
        answer
    }
}

impl<T> Drop for Threaded<'_, T> {
    fn drop(&mut self) {
        // Counted before the state changes, so that the job's own count back never comes first.
        if self.worker.is_some() {
            self.threads.left_behind.fetch_add(1, Ordering::Relaxed);
            if self.abandoned.swap(ABANDONED, Ordering::AcqRel) == OVER {
                self.threads.left_behind.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Worker {
    fn start() -> Option<Self> {
        let (jobs, work) = mpsc::channel::<Job>();
        let run = move || {
            for job in work {
                job();
            }
        };
        let thread = std::thread::Builder::new().name("pith-files".to_owned()).spawn(run).ok()?;
        Some(Self { jobs, thread })
    }
}

impl Drop for FileThreads {
    fn drop(&mut self) {
        let idle = std::mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner));
        for worker in idle {
            drop(worker.jobs);
            // An idle thread ends at once; a panic of its last job was seen by that job's caller.
            let _ = worker.thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn threads_are_kept_for_the_next_call_and_counted_while_stuck() {
        let threads = FileThreads::default();
        let id = || std::thread::current().id();
        let first = threads.start(id).unwrap().finish().await.unwrap();
        let second = threads.start(id).unwrap().finish().await.unwrap();
        assert_eq!(first, second);

        let (release, hold) = mpsc::channel::<()>();
        drop(threads.start(move || hold.recv().is_ok()).unwrap());
        assert_eq!(threads.left_behind(), 1);
        assert_ne!(threads.start(id).unwrap().finish().await.unwrap(), first);
        release.send(()).unwrap();
        while threads.left_behind() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn no_more_are_started_where_too_many_are_stuck() {
        let threads = FileThreads::default();
        let (release, hold) = mpsc::channel::<()>();
        let hold = Arc::new(Mutex::new(hold));
        for _ in 0..THREADS_LEFT_BEHIND {
            let hold = hold.clone();
            // All wait for the one that waits for the word.
            drop(threads.start(move || hold.lock().unwrap_or_else(PoisonError::into_inner).recv().is_ok()).unwrap());
        }
        assert_eq!(threads.left_behind(), THREADS_LEFT_BEHIND);
        assert!(threads.start(|| ()).is_none());
        drop(release);
        while threads.left_behind() > 0 {
            tokio::task::yield_now().await;
        }
        threads.start(|| ()).unwrap().finish().await.unwrap();
    }
}
