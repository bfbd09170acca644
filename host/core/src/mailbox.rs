//! The one mailbox of a session: words for the loop, put there by faces, imports and timers while it runs.

use pith_protocol::{Content, CustomMessageEntry, EntryBody, Message, UserMessage};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Messages that wait, in each queue.
pub const QUEUE_MESSAGES: usize = 1000;

/// Something that is said to the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// By the user.
    User(Vec<Content>),
    /// By a plugin, or by a program in a plugin's manner: recorded as a `custom_message`, and never as the user's.
    Plugin(CustomMessageEntry),
}

impl From<Vec<Content>> for Said {
    fn from(content: Vec<Content>) -> Self {
        Self::User(content)
    }
}

impl Said {
    /// How it is recorded.
    pub(crate) fn into_body(self, timestamp: i64) -> EntryBody {
        match self {
            Self::User(content) => Message::User(UserMessage { content, timestamp }).into(),
            Self::Plugin(message) => EntryBody::CustomMessage(message),
        }
    }

    fn words(&self) -> String {
        let content = match self {
            Self::User(content) => content,
            Self::Plugin(message) if !message.display => return format!("({})", message.custom_type),
            Self::Plugin(message) => &message.content,
        };
        content.iter().filter_map(Content::as_text).collect()
    }
}

/// When a message that did not come from the user reaches the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// After the present turn's tools. Where no run goes on, it begins one.
    Steer,
    /// When the agent would stop. Where no run goes on, it begins one.
    FollowUp,
    /// Behind the user's next message. Never begins a run.
    NextRun,
}

/// Three queues: what reaches the model after the present turn's tools, when it would stop, and with the user's next message. Of the first two
/// one message is taken at a time.
#[derive(Clone, Default)]
pub struct Mailbox(Arc<Mutex<Queues>>);

#[derive(Default)]
struct Queues {
    steering: VecDeque<Said>,
    follow_up: VecDeque<Said>,
    next_run: VecDeque<Said>,
}

/// The queue is full.
#[derive(Debug, thiserror::Error)]
#[error("{QUEUE_MESSAGES} messages wait already")]
pub struct MailboxFull;

impl Mailbox {
    /// Puts something into a queue.
    ///
    /// # Errors
    /// `QUEUE_MESSAGES` wait there.
    pub fn put(&self, said: impl Into<Said>, delivery: Delivery) -> Result<(), MailboxFull> {
        let mut queues = self.lock();
        let queue = match delivery {
            Delivery::Steer => &mut queues.steering,
            Delivery::FollowUp => &mut queues.follow_up,
            Delivery::NextRun => &mut queues.next_run,
        };
        if queue.len() >= QUEUE_MESSAGES {
            return Err(MailboxFull);
        }
        queue.push_back(said.into());
        Ok(())
    }

    /// For after the present turn's tools.
    pub fn steer(&self, content: Vec<Content>) -> Result<(), MailboxFull> {
        self.put(content, Delivery::Steer)
    }

    /// For when the agent would stop.
    pub fn follow_up(&self, content: Vec<Content>) -> Result<(), MailboxFull> {
        self.put(content, Delivery::FollowUp)
    }

    pub(crate) fn take_steering(&self) -> Option<Said> {
        self.lock().steering.pop_front()
    }

    pub(crate) fn take_follow_up(&self) -> Option<Said> {
        self.lock().follow_up.pop_front()
    }

    /// All that waits for the user's next message.
    pub(crate) fn take_next_run(&self) -> Vec<Said> {
        self.lock().next_run.drain(..).collect()
    }

    /// Takes all of the user's words that wait out again: steering first, then follow-ups. For a face whose run ended before they were
    /// read. What plugins said waits on.
    pub fn take_back(&self) -> Vec<Vec<Content>> {
        let mut queues = self.lock();
        let mut taken = Vec::new();
        let Queues { steering, follow_up, .. } = &mut *queues;
        for queue in [steering, follow_up] {
            let (users, plugins): (VecDeque<Said>, VecDeque<Said>) =
                queue.drain(..).partition(|said| matches!(said, Said::User(_)));
            taken.extend(users.into_iter().filter_map(|said| match said {
                Said::User(content) => Some(content),
                Said::Plugin(_) => None,
            }));
            *queue = plugins;
        }
        taken
    }

    /// The words that wait: steering, follow-ups.
    pub fn waiting(&self) -> (Vec<String>, Vec<String>) {
        let queues = self.lock();
        let words = |queue: &VecDeque<Said>| queue.iter().map(Said::words).collect();
        (words(&queues.steering), words(&queues.follow_up))
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
