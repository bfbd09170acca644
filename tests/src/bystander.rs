//! A session that has done nothing wrong: it makes small calls all the time, and how long each takes is written down.

use crate::bench::Bench;
use serde_json::json;
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The file that it reads.
const FILE: &str = "bystander.txt";
/// Its pause between two calls.
const PAUSE: Duration = Duration::from_millis(1);

/// The session, at work.
pub struct Bystander {
    seen: Arc<Mutex<Vec<Duration>>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// How long calls took.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Bystander {
    /// Starts calling the shipped tool `read` in a session of its own, beside this one, on the present runtime.
    ///
    /// # Panics
    /// Where its file cannot be written.
    pub fn start(beside: &Bench) -> Self {
        let bench = beside.beside("bystander");
        std::fs::write(bench.work().join(FILE), "nothing to see here\n").expect("the working folder can be written");
        let (seen, stop) = (Arc::<Mutex<Vec<Duration>>>::default(), CancellationToken::new());
        let (own, until) = (seen.clone(), stop.clone());
        let task = tokio::spawn(async move {
            while !until.is_cancelled() {
                let began = Instant::now();
                let output = bench.call("read", json!({ "path": FILE })).await.output;
                own.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed());
                assert!(!output.is_error, "the bystander's call failed: {output:?}");
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { seen, stop, task }
    }

    /// Waits until it has made so many calls since the last [`Bystander::take`].
    ///
    /// # Panics
    /// Where that takes a minute, or a call of it failed.
    pub async fn calls(&self, count: usize) {
        let made = async {
            while self.seen.lock().unwrap_or_else(PoisonError::into_inner).len() < count {
                assert!(!self.task.is_finished(), "the bystander ended");
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), made).await.expect("the bystander is served");
    }

    /// What it saw since the last time.
    pub fn take(&self) -> Latencies {
        let mut taken = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        taken.sort_unstable();
        Latencies(taken)
    }

    /// Ends it.
    ///
    /// # Panics
    /// Where one of its calls failed.
    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("none of its calls failed");
    }
}

impl Latencies {
    /// How many calls there were.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time within which this part of the calls ended; nothing without calls.
    pub fn within(&self, part: f64) -> Duration {
        let at = ((self.0.len() as f64 * part).ceil() as usize).clamp(1, self.0.len().max(1)) - 1;
        self.0.get(at).copied().unwrap_or_default()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |part| self.within(part).as_secs_f64() * 1e3;
        write!(f, "{:5} calls, p50 {:6.2} ms, p99 {:6.2} ms, max {:6.2} ms", self.count(), ms(0.5), ms(0.99), ms(1.0))
    }
}
