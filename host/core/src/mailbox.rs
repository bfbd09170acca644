//! The one mailbox of a session: words for the loop, put there by faces, imports and timers while it runs.

use pith_protocol::Content;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Messages that wait, in each queue.
pub const QUEUE_MESSAGES: usize = 1000;

/// Two queues: what reaches the model after the present turn's tools, and what reaches it when it would stop. One message is taken at a time.
#[derive(Clone, Default)]
pub struct Mailbox(Arc<Mutex<Queues>>);

#[derive(Default)]
struct Queues {
    steering: VecDeque<Vec<Content>>,
    follow_up: VecDeque<Vec<Content>>,
}

/// The queue is full.
#[derive(Debug, thiserror::Error)]
#[error("{QUEUE_MESSAGES} messages wait already")]
pub struct MailboxFull;

impl Mailbox {
    /// For after the present turn's tools.
    pub fn steer(&self, content: Vec<Content>) -> Result<(), MailboxFull> {
        push(&mut self.lock().steering, content)
    }

    /// For when the agent would stop.
    pub fn follow_up(&self, content: Vec<Content>) -> Result<(), MailboxFull> {
        push(&mut self.lock().follow_up, content)
    }

    pub(crate) fn take_steering(&self) -> Option<Vec<Content>> {
        self.lock().steering.pop_front()
    }

    pub(crate) fn take_follow_up(&self) -> Option<Vec<Content>> {
        self.lock().follow_up.pop_front()
    }

    /// Takes all that waits out again: steering first, then follow-ups. For a face whose run ended before they were read.
    pub fn take_back(&self) -> Vec<Vec<Content>> {
        let mut queues = self.lock();
        let Queues { steering, follow_up } = &mut *queues;
        steering.drain(..).chain(follow_up.drain(..)).collect()
    }

    /// The words that wait: steering, follow-ups.
    pub fn waiting(&self) -> (Vec<String>, Vec<String>) {
        let queues = self.lock();
        let words = |queue: &VecDeque<Vec<Content>>| {
            queue.iter().map(|content| content.iter().filter_map(Content::as_text).collect()).collect()
        };
        (words(&queues.steering), words(&queues.follow_up))
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push(queue: &mut VecDeque<Vec<Content>>, content: Vec<Content>) -> Result<(), MailboxFull> {
    if queue.len() >= QUEUE_MESSAGES {
        return Err(MailboxFull);
    }
    queue.push_back(content);
    Ok(())
}
