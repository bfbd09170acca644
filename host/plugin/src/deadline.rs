//! A call's one deadline, which stands still while a person is asked.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Shared by whoever ends the call and whoever works for it.
pub(crate) struct Deadline(watch::Sender<State>);

#[derive(Clone, Copy)]
struct State {
    at: Instant,
    /// Since when a person is asked.
    held: Option<Instant>,
}

impl State {
    fn left(&self, now: Instant) -> Duration {
        self.at.saturating_duration_since(self.held.unwrap_or(now))
    }

    fn release(&mut self, now: Instant) {
        if let Some(since) = self.held.take() {
            self.at += now.saturating_duration_since(since);
        }
    }
}

impl Deadline {
    pub fn at(at: Instant) -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(State { at, held: None })))
    }

    /// The time that is left; of one that stands still, what was left then.
    pub fn left(&self) -> Duration {
        self.0.borrow().left(Instant::now())
    }

    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Stands still until this is dropped. A guest does one thing at a time, so there is one at most.
    pub fn hold(self: &Arc<Self>) -> Held {
        self.0.send_modify(|state| state.held = Some(Instant::now()));
        Held(self.clone())
    }

    /// Comes when it has passed by so much.
    pub async fn passed(&self, by: Duration) {
        let mut states = self.0.subscribe();
        loop {
            let State { at, held } = *states.borrow_and_update();
            let due = async {
                match held {
                    Some(_) => std::future::pending().await,
                    None => tokio::time::sleep_until((at + by).into()).await,
                }
            };
            tokio::select! {
                biased;
                // The other side is `self`: it cannot be gone.
                _ = states.changed() => {}
                () = due => return,
            }
        }
    }
}

/// A deadline that stands still.
pub(crate) struct Held(Arc<Deadline>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.release(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_left_afterwards() {
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let mut state = State { at: after(10), held: None };
        assert_eq!(state.left(after(4)), Duration::from_secs(6));
        state.held = Some(after(4));
        assert_eq!(state.left(after(600)), Duration::from_secs(6));
        state.release(after(600));
        assert_eq!(state.left(after(601)), Duration::from_secs(5));
        assert_eq!(state.left(after(700)), Duration::ZERO);
    }

    #[tokio::test]
    async fn it_passes_only_when_it_moves() {
        let deadline = Deadline::at(Instant::now() + Duration::from_millis(30));
        let held = deadline.hold();
        let passed = deadline.passed(Duration::ZERO);
        tokio::pin!(passed);
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut passed).await.is_err());
        assert!(!deadline.is_over());
        drop(held);
        passed.await;
        assert!(deadline.is_over());
    }
}
