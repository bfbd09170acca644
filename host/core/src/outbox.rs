//! The one stream of events out of a session: a bounded queue to each face.

use pith_protocol::{Delta, Event};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// Events that wait for one face; past it text deltas of the same block are merged, and everything else waits.
pub const FACE_QUEUE_EVENTS: usize = 1024;

/// The sending side. Cheap to clone.
#[derive(Clone, Default)]
pub struct Outbox(Arc<Shared>);

/// One face's receiving side.
pub struct Inbox(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Notify,
    taken: Notify,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// No face listens (none yet, or it is gone): events are dropped, not kept.
    attached: bool,
    closed: bool,
}

impl Outbox {
    /// A queue with nobody on its other end: events go nowhere until `attach`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Attaches the face. There is one: a second takes the place of the first.
    pub fn attach(&self) -> Inbox {
        self.0.lock().attached = true;
        Inbox(self.0.clone())
    }

    /// Hands an event over; waits while the face is behind. Nothing is lost.
    pub async fn send(&self, event: Event) {
        let mut event = Some(event);
        loop {
            let room = self.0.taken.notified();
            {
                let mut queue = self.0.lock();
                if !queue.attached || queue.closed {
                    return;
                }
                let full = queue.events.len() >= FACE_QUEUE_EVENTS;
                match event.take() {
                    None => return,
                    Some(one) if !full => {
                        queue.events.push_back(one);
                        drop(queue);
                        self.0.arrived.notify_one();
                        return;
                    }
                    Some(one) => match queue.events.back_mut() {
                        Some(last) => match merge(last, one) {
                            Ok(()) => return,
                            Err(one) => event = Some(one),
                        },
                        None => event = Some(one),
                    },
                }
            }
            room.await;
        }
    }

    /// Hands an event over if there is room; never waits.
    pub fn offer(&self, event: Event) {
        let mut queue = self.0.lock();
        if queue.attached && !queue.closed && queue.events.len() < FACE_QUEUE_EVENTS {
            queue.events.push_back(event);
            drop(queue);
            self.0.arrived.notify_one();
        }
    }

    /// No more events come: the face's `next` gives none once it has read what is there.
    pub fn close(&self) {
        self.0.lock().closed = true;
        self.0.arrived.notify_one();
    }
}

impl Inbox {
    /// The next event; none when the session closed its side and all is read.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let arrived = self.0.arrived.notified();
            {
                let mut queue = self.0.lock();
                if let Some(event) = queue.events.pop_front() {
                    drop(queue);
                    self.0.taken.notify_waiters();
                    return Some(event);
                }
                if queue.closed {
                    return None;
                }
            }
            arrived.await;
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.attached = false;
        queue.events.clear();
        drop(queue);
        self.0.taken.notify_waiters();
    }
}

impl Shared {
    /// A panic elsewhere cannot leave the queue half changed: every change is one push or pop.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends a delta to the one before it where both are of the same block and kind.
fn merge(last: &mut Event, next: Event) -> Result<(), Event> {
    let Event::MessageUpdate { usage: new_usage, assistant_message_event: new } = next else { return Err(next) };
    if let Event::MessageUpdate { usage, assistant_message_event: old } = last {
        match (&mut old.delta, &new.delta) {
            (Delta::TextDelta { content_index: a, delta }, Delta::TextDelta { content_index: b, delta: more })
            | (
                Delta::ThinkingDelta { content_index: a, delta },
                Delta::ThinkingDelta { content_index: b, delta: more },
            )
            | (
                Delta::ToolCallDelta { content_index: a, delta },
                Delta::ToolCallDelta { content_index: b, delta: more },
            ) if a == b => {
                delta.push_str(more);
                *usage = new_usage;
                return Ok(());
            }
            _ => {}
        }
    }
    Err(Event::MessageUpdate { usage: new_usage, assistant_message_event: new })
}
