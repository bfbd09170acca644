//! A program that was left running: its output goes to a file, whose last line says how it ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::child::{Child, Group};
use crate::process::{Chunk, Exit, ProcessError};
use crate::spool::SpoolFile;

/// How long [`Background::stop`] waits for the last line of a killed program.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// A program that nobody waits for. Dropped, it is ended with its whole process group, at once and without a runtime's help, and its
/// file says so.
///
/// The last line of the file is this host's: `[exited with code 0 after 12 s]`, `[ended by signal 9 after 0.3 s]`,
/// `[timed out after 5.0 s and was ended]`, `[stopped after 70 s]`, `[ended with the session after 70 s]`. A program can write such a line
/// itself; only for one that is over it is the last.
#[derive(Debug)]
pub struct Background {
    shared: Arc<Shared>,
    group: Group,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// None once the last line is written.
    file: Mutex<Option<SpoolFile>>,
    since: Instant,
}

impl Background {
    /// Goes on with a child that started at `since`: a task reads its output into `file` and keeps its timeout. Standard input is closed.
    /// `held` is dropped when it has ended. Needs a tokio runtime.
    pub fn new(child: Child, file: SpoolFile, since: Instant, held: impl Send + 'static) -> Self {
        let shared = Arc::new(Shared { file: Mutex::new(Some(file)), since });
        let cancel = CancellationToken::new();
        let group = child.group();
        let (of_task, cancelled) = (shared.clone(), cancel.clone());
        let task = tokio::spawn(async move {
            let how = follow(child, &of_task, &cancelled).await;
            of_task.end(&how);
            drop(held);
        });
        Self { shared, group, cancel, task }
    }

    /// Whether it has not ended yet.
    pub fn is_running(&self) -> bool {
        self.shared.lock().is_some()
    }

    /// How long it has been running, or has been known.
    pub fn age(&self) -> Duration {
        self.shared.since.elapsed()
    }

    /// Ends it, and waits until its file has its last line: some milliseconds, three seconds at most. Whether it was still running.
    pub async fn stop(mut self) -> bool {
        let was_running = self.is_running();
        self.cancel.cancel();
        // Past the limit the drop writes the line.
        let _ = timeout(STOP_LIMIT, &mut self.task).await;
        was_running
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // In this order: once killed, the task would say what it died of.
        self.shared.end(&Ended::WithSession);
        self.group.kill();
        // The child, dropped with its task, reaps the program.
        self.task.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<SpoolFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, bytes: &[u8]) {
        if let Some(file) = &mut *self.lock() {
            file.append(bytes);
        }
    }

    /// Writes the last line, once.
    fn end(&self, how: &Ended) {
        if let Some(file) = self.lock().take() {
            file.end(&how.line(&spoken(self.since.elapsed())));
        }
    }
}

/// How it ended.
enum Ended {
    Itself(Exit),
    Stopped,
    WithSession,
    Lost(ProcessError),
}

impl Ended {
    fn line(&self, after: &str) -> String {
        match self {
            Self::Itself(Exit { timed_out: true, .. }) => format!("[timed out after {after} and was ended]"),
            Self::Itself(Exit { code: Some(code), .. }) => format!("[exited with code {code} after {after}]"),
            Self::Itself(Exit { signal, .. }) => {
                format!("[ended by signal {} after {after}]", signal.unwrap_or_default())
            }
            Self::Stopped => format!("[stopped after {after}]"),
            Self::WithSession => format!("[ended with the session after {after}]"),
            Self::Lost(error) => format!("[could not be followed any more after {after} and was ended: {error}]"),
        }
    }
}

async fn follow(mut child: Child, shared: &Shared, cancel: &CancellationToken) -> Ended {
    child.close_stdin();
    let ended = loop {
        let chunk = tokio::select! {
            biased;
            () = cancel.cancelled() => break Ended::Stopped,
            chunk = child.next(None) => chunk,
        };
        match chunk {
            Ok(Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) => shared.append(&bytes),
            Ok(Chunk::Exit(exit)) => break Ended::Itself(exit),
            Err(error) => break Ended::Lost(error),
        }
    };
    child.close().await;
    ended
}

/// `0.3 s`, `12 s`.
fn spoken(time: Duration) -> String {
    if time < Duration::from_secs(10) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} s", time.as_secs())
    }
}
