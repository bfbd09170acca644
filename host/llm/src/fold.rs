//! From a stream's events to a reply's: what is the same on every wire.

use crate::{
    SseEvent, StreamEnd,
    errors::{self, Trouble},
    reply::{BLOCK_LIMIT, Reply, ReplyStart},
    wire_json::parse_event,
};
use pith_core::{FailureKind, ModelEvent};
use serde_json::Value;

/// What a wire knows of a stream between two events, and what its events mean.
pub(crate) trait WireState {
    /// Takes one event: its name, which may be empty, and its data.
    fn take(&mut self, reply: &mut Reply, name: &str, event: &Value);

    /// Takes the mark `[DONE]`.
    fn take_mark(&mut self, reply: &mut Reply);

    /// Why the reply ended, in the provider's words, where they were said: then all that matters was.
    fn said_its_end(&self) -> Option<&str>;

    /// Ends the reply as the stream told.
    fn complete(&mut self, reply: &mut Reply);
}

/// A reply that grows from a stream's events; `MessagesFold` and `CompletionsFold` are those that there are.
#[derive(Debug)]
pub struct Fold<W: ?Sized> {
    reply: Reply,
    wire: W,
}

#[expect(private_bounds, reason = "wires are this crate's own")]
impl<W: WireState + Default> Fold<W> {
    /// The state before the first event.
    pub fn new(start: ReplyStart) -> Self {
        Self { reply: Reply::new(start), wire: W::default() }
    }
}

#[expect(private_bounds, reason = "wires are this crate's own")]
impl<W: WireState + ?Sized> Fold<W> {
    /// Takes one event. After `ModelEvent::Done` nothing comes any more.
    pub fn push(&mut self, event: &SseEvent) -> Vec<ModelEvent> {
        if !self.reply.is_done() {
            self.take(event);
        }
        self.reply.take_events()
    }

    /// Whether the reason why it ended was said.
    pub(crate) fn said_its_end(&self) -> bool {
        self.wire.said_its_end().is_some()
    }

    /// The stream is over; gives `ModelEvent::Done`, unless it was given.
    pub fn finish(&mut self, end: StreamEnd) -> Vec<ModelEvent> {
        match end {
            _ if self.reply.is_done() => {}
            StreamEnd::Cancelled => self.reply.abort(),
            // Some servers close without the last word.
            StreamEnd::Closed if self.wire.said_its_end().is_some() => self.wire.complete(&mut self.reply),
            StreamEnd::Closed => self.reply.fail_early(),
        }
        self.reply.take_events()
    }

    /// The stream broke off; gives `ModelEvent::Done`, unless it was given.
    pub(crate) fn break_off(&mut self, trouble: Trouble) -> Vec<ModelEvent> {
        match self.wire.said_its_end() {
            _ if self.reply.is_done() => {}
            Some(_) => self.wire.complete(&mut self.reply),
            None => self.reply.fail(trouble, None),
        }
        self.reply.take_events()
    }

    fn take(&mut self, event: &SseEvent) {
        let data = event.data.trim();
        match data {
            "" => return,
            "[DONE]" => return self.wire.take_mark(&mut self.reply),
            _ => {}
        }
        match parse_event(data) {
            Ok(value) => self.wire.take(&mut self.reply, &event.name, &value),
            Err(_) if event.name == "error" => {
                self.reply.fail(errors::of_event_text(data), self.wire.said_its_end());
            }
            Err(error) => {
                let message = format!("the provider sent an event that is not JSON: {error}");
                self.reply.fail(Trouble::new(FailureKind::Unavailable, message), None);
            }
        }
        if self.reply.is_overfull() {
            let message = format!("the reply has more than {BLOCK_LIMIT} blocks");
            self.reply.fail(Trouble::new(FailureKind::Other, message), None);
        }
    }
}
