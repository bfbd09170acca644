//! From a stream's events to a reply. Blocks of tools that run on the provider's side are skipped.

use crate::{
    SseEvent, StreamEnd,
    errors::{self, Trouble},
    reply::{BLOCK_LIMIT, Place, Reply, ReplyStart},
    wire_json::{count, parse_event, text},
};
use pith_core::{FailureKind, ModelEvent};
use pith_protocol::{StopReason, Usage};
use serde_json::Value;
use std::collections::HashMap;

/// The state between two events.
#[derive(Debug)]
pub struct MessagesFold {
    reply: Reply,
    /// Our block under each index of the provider's; none for blocks that are skipped.
    blocks: HashMap<u64, Option<Open>>,
    stop_reason: Option<String>,
    explanation: Option<String>,
    has_begun: bool,
}

#[derive(Debug)]
struct Open {
    place: Place,
    /// A call's arguments, where its start held them; they count if no piece of them follows.
    whole_input: Option<String>,
}

impl MessagesFold {
    /// The state before the first event.
    pub fn new(start: ReplyStart) -> Self {
        Self {
            reply: Reply::new(start),
            blocks: HashMap::new(),
            stop_reason: None,
            explanation: None,
            has_begun: false,
        }
    }

    /// Takes one event. After `ModelEvent::Done` nothing comes any more.
    pub fn push(&mut self, event: &SseEvent) -> Vec<ModelEvent> {
        if !self.reply.is_done() {
            self.take(event);
        }
        self.reply.take_events()
    }

    /// The stream is over; gives `ModelEvent::Done`, unless it was given.
    pub fn finish(&mut self, end: StreamEnd) -> Vec<ModelEvent> {
        match end {
            _ if self.reply.is_done() => {}
            StreamEnd::Cancelled => self.reply.abort(),
            // The stop reason comes after all blocks: only the last word is missing.
            StreamEnd::Closed if self.stop_reason.is_some() => self.complete(),
            StreamEnd::Closed => self.reply.fail_early(),
        }
        self.reply.take_events()
    }

    /// The stream broke off; gives `ModelEvent::Done`, unless it was given.
    pub(crate) fn break_off(&mut self, trouble: Trouble) -> Vec<ModelEvent> {
        match &self.stop_reason {
            _ if self.reply.is_done() => {}
            Some(_) => self.complete(),
            None => self.reply.fail(trouble, None),
        }
        self.reply.take_events()
    }

    fn take(&mut self, event: &SseEvent) {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return;
        }
        let event_data = match parse_event(data) {
            Ok(value) => value,
            Err(_) if event.name == "error" => return self.reply.fail(errors::of_event_text(data), None),
            Err(error) => {
                let message = format!("the provider sent an event that is not JSON: {error}");
                return self.reply.fail(Trouble::new(FailureKind::Unavailable, message), None);
            }
        };
        let kind = match text(&event_data, "type") {
            "" => event.name.as_str(),
            kind => kind,
        };
        match kind {
            "message_start" => self.begin(&event_data),
            "content_block_start" => self.begin_block(&event_data),
            "content_block_delta" => self.take_delta(&event_data),
            "content_block_stop" => self.end_block(&event_data),
            "message_delta" => self.take_message_delta(&event_data),
            "message_stop" => self.complete(),
            "error" => self.reply.fail(errors::of_event(&event_data), None),
            _ => {
                if let Some(trouble) = errors::in_event(&event_data) {
                    self.reply.fail(trouble, None);
                }
            }
        }
        if self.reply.is_overfull() {
            let message = format!("the reply has more than {BLOCK_LIMIT} blocks");
            self.reply.fail(Trouble::new(FailureKind::Other, message), None);
        }
    }

    fn begin(&mut self, event: &Value) {
        if std::mem::replace(&mut self.has_begun, true) {
            // A proxy that tried again in mid-stream: the second message is whole, the first is not.
            self.reply.restart();
            self.blocks.clear();
            self.stop_reason = None;
        }
        self.reply.started();
        let message = event.get("message").unwrap_or(&Value::Null);
        self.reply.set_response_id(text(message, "id"));
        self.take_usage(message.get("usage"));
    }

    fn begin_block(&mut self, event: &Value) {
        let index = count(event, "/index").unwrap_or(0);
        self.end_at(index);
        let block = event.get("content_block").unwrap_or(&Value::Null);
        let mut whole_input: Option<&Value> = None;
        let place = match text(block, "type") {
            "text" => {
                let place = self.reply.begin_text();
                self.reply.push(place, text(block, "text"));
                Some(place)
            }
            "thinking" => {
                let place = self.reply.begin_thinking(None, false);
                self.reply.push(place, text(block, "thinking"));
                self.reply.push_signature(place, text(block, "signature"));
                Some(place)
            }
            "redacted_thinking" => Some(self.reply.begin_thinking(Some(text(block, "data").to_owned()), true)),
            "tool_use" => {
                let place = self.reply.begin_call();
                self.reply.name_call(place, text(block, "id"), text(block, "name"));
                whole_input = block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()));
                Some(place)
            }
            _ => None,
        };
        let whole_input = whole_input.map(ToString::to_string);
        self.blocks.insert(index, place.map(|place| Open { place, whole_input }));
    }

    fn take_delta(&mut self, event: &Value) {
        let index = count(event, "/index").unwrap_or(0);
        let delta = event.get("delta").unwrap_or(&Value::Null);
        let kind = text(delta, "type");
        // Some look-alikes leave the start of a block out.
        if !self.blocks.contains_key(&index) {
            let place = match kind {
                "text_delta" => Some(self.reply.begin_text()),
                "thinking_delta" => Some(self.reply.begin_thinking(None, false)),
                _ => None,
            };
            self.blocks.insert(index, place.map(|place| Open { place, whole_input: None }));
        }
        let Some(Some(open)) = self.blocks.get_mut(&index) else { return };
        match kind {
            "text_delta" => self.reply.push(open.place, text(delta, "text")),
            "thinking_delta" => self.reply.push(open.place, text(delta, "thinking")),
            "signature_delta" => self.reply.push_signature(open.place, text(delta, "signature")),
            "input_json_delta" => {
                let piece = text(delta, "partial_json");
                if !piece.is_empty() {
                    open.whole_input = None;
                }
                self.reply.push(open.place, piece);
            }
            _ => {}
        }
    }

    fn end_block(&mut self, event: &Value) {
        self.end_at(count(event, "/index").unwrap_or(0));
    }

    fn end_at(&mut self, index: u64) {
        if let Some(Some(open)) = self.blocks.remove(&index) {
            if let Some(input) = open.whole_input {
                self.reply.push(open.place, &input);
            }
            self.reply.end(open.place);
        }
    }

    fn take_message_delta(&mut self, event: &Value) {
        let delta = event.get("delta").unwrap_or(&Value::Null);
        if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty()) {
            self.stop_reason = Some(reason.to_owned());
        }
        if let Some(words) = delta.pointer("/stop_details/explanation").and_then(Value::as_str) {
            self.explanation = Some(errors::one_line(words));
        }
        self.take_usage(event.get("usage"));
    }

    /// Later numbers replace earlier ones; what is left out stays.
    fn take_usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
        let so_far = self.reply.usage().clone();
        self.reply.set_usage(Usage {
            input: count(usage, "/input_tokens").unwrap_or(so_far.input),
            output: count(usage, "/output_tokens").unwrap_or(so_far.output),
            cache_read: count(usage, "/cache_read_input_tokens").unwrap_or(so_far.cache_read),
            cache_write: count(usage, "/cache_creation_input_tokens").unwrap_or(so_far.cache_write),
            reasoning: count(usage, "/output_tokens_details/thinking_tokens").or(so_far.reasoning),
            ..Usage::default()
        });
    }

    fn complete(&mut self) {
        let mut open: Vec<u64> = self.blocks.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|index| self.end_at(index));
        let raw = self.stop_reason.take();
        let raw = raw.as_deref();
        match raw {
            Some("max_tokens" | "model_context_window_exceeded") => self.reply.finish(StopReason::Length, raw),
            Some(reason @ ("refusal" | "sensitive")) => {
                let words = self.explanation.take().unwrap_or_else(|| "the provider refused to answer".to_owned());
                self.reply.fail(Trouble::new(FailureKind::Refused, format!("{words} ({reason})")), raw);
            }
            _ if self.reply.has_calls() => self.reply.finish(StopReason::ToolUse, raw),
            _ => self.reply.finish(StopReason::Stop, raw),
        }
    }
}
