//! From a stream's events to a reply. Blocks of tools that run on the provider's side are skipped.

use crate::{
    errors::{self, Trouble},
    fold::{Fold, WireState},
    reply::{Counted, Place, Reply},
    wire_json::{count, text},
};
use pith_core::FailureKind;
use pith_protocol::{StopReason, Usage};
use serde_json::Value;
use std::collections::HashMap;

/// The fold of a stream of messages' events.
pub type MessagesFold = Fold<Messages>;

/// The state between two events.
#[derive(Debug, Default)]
pub struct Messages {
    /// Our block under each index of the provider's; none for blocks that are skipped.
    blocks: HashMap<u64, Option<Open>>,
    stop_reason: Option<String>,
    explanation: Option<String>,
    has_begun: bool,
    /// Tokens that the cache keeps for an hour; they cost more.
    written_for_an_hour: u64,
}

#[derive(Debug)]
struct Open {
    place: Place,
    /// A call's arguments, where its start held them; they count if no piece of them follows.
    whole_input: Option<String>,
}

impl WireState for Messages {
    fn take(&mut self, reply: &mut Reply, name: &str, event: &Value) {
        let kind = match text(event, "type") {
            "" => name,
            kind => kind,
        };
        match kind {
            "message_start" => self.begin(reply, event),
            "content_block_start" => self.begin_block(reply, event),
            "content_block_delta" => self.take_delta(reply, event),
            "content_block_stop" => self.end_block(reply, event),
            "message_delta" => self.take_message_delta(reply, event),
            "message_stop" => self.complete(reply),
            "error" => reply.fail(errors::of_event(event), None),
            _ => {
                if let Some(trouble) = errors::in_event(event) {
                    reply.fail(trouble, None);
                }
            }
        }
    }

    /// The end has an event of its own; proxies add the mark.
    fn take_mark(&mut self, _: &mut Reply) {}

    fn said_its_end(&self) -> Option<&str> {
        self.stop_reason.as_deref()
    }

    fn complete(&mut self, reply: &mut Reply) {
        let mut open: Vec<u64> = self.blocks.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|index| self.end_at(reply, index));
        let raw = self.stop_reason.take();
        let raw = raw.as_deref();
        match raw {
            Some("max_tokens" | "model_context_window_exceeded") => reply.finish_cut(raw),
            Some(reason @ ("refusal" | "sensitive")) => {
                let words = self.explanation.take().unwrap_or_else(|| "the provider refused to answer".to_owned());
                reply.fail(Trouble::new(FailureKind::Refused, format!("{words} ({reason})")), raw);
            }
            _ if reply.has_calls() => reply.finish(StopReason::ToolUse, raw),
            _ => reply.finish(StopReason::Stop, raw),
        }
    }
}

impl Messages {
    fn begin(&mut self, reply: &mut Reply, event: &Value) {
        if std::mem::replace(&mut self.has_begun, true) {
            // A proxy that tried again in mid-stream: the second message is whole, the first is not.
            reply.restart();
            self.blocks.clear();
            self.stop_reason = None;
        }
        reply.started();
        let message = event.get("message").unwrap_or(&Value::Null);
        reply.set_response_id(text(message, "id"));
        self.take_usage(reply, message.get("usage"));
    }

    fn begin_block(&mut self, reply: &mut Reply, event: &Value) {
        let index = count(event, "/index").unwrap_or(0);
        self.end_at(reply, index);
        let block = event.get("content_block").unwrap_or(&Value::Null);
        let mut whole_input: Option<&Value> = None;
        let place = match text(block, "type") {
            "text" => {
                let place = reply.begin_text();
                reply.push(place, text(block, "text"));
                Some(place)
            }
            "thinking" => {
                let place = reply.begin_thinking(None, false);
                reply.push(place, text(block, "thinking"));
                reply.push_signature(place, text(block, "signature"));
                Some(place)
            }
            "redacted_thinking" => Some(reply.begin_thinking(Some(text(block, "data").to_owned()), true)),
            "tool_use" => {
                let place = reply.begin_call();
                reply.name_call(place, text(block, "id"), text(block, "name"));
                whole_input = block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()));
                Some(place)
            }
            _ => None,
        };
        let whole_input = whole_input.map(ToString::to_string);
        self.blocks.insert(index, place.map(|place| Open { place, whole_input }));
    }

    fn take_delta(&mut self, reply: &mut Reply, event: &Value) {
        let index = count(event, "/index").unwrap_or(0);
        let delta = event.get("delta").unwrap_or(&Value::Null);
        let kind = text(delta, "type");
        // Some look-alikes leave the start of a block out.
        let block = self.blocks.entry(index).or_insert_with(|| {
            let place = match kind {
                "text_delta" => reply.begin_text(),
                "thinking_delta" => reply.begin_thinking(None, false),
                _ => return None,
            };
            Some(Open { place, whole_input: None })
        });
        let Some(open) = block else { return };
        match kind {
            "text_delta" => reply.push(open.place, text(delta, "text")),
            "thinking_delta" => reply.push(open.place, text(delta, "thinking")),
            "signature_delta" => reply.push_signature(open.place, text(delta, "signature")),
            "input_json_delta" => {
                let piece = text(delta, "partial_json");
                if !piece.is_empty() {
                    open.whole_input = None;
                }
                reply.push(open.place, piece);
            }
            _ => {}
        }
    }

    fn end_block(&mut self, reply: &mut Reply, event: &Value) {
        self.end_at(reply, count(event, "/index").unwrap_or(0));
    }

    fn end_at(&mut self, reply: &mut Reply, index: u64) {
        if let Some(Some(open)) = self.blocks.remove(&index) {
            if let Some(input) = open.whole_input {
                reply.push(open.place, &input);
            }
            reply.end(open.place);
        }
    }

    fn take_message_delta(&mut self, reply: &mut Reply, event: &Value) {
        let delta = event.get("delta").unwrap_or(&Value::Null);
        if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty()) {
            self.stop_reason = Some(reason.to_owned());
        }
        if let Some(words) = delta.pointer("/stop_details/explanation").and_then(Value::as_str) {
            self.explanation = Some(errors::one_line(words));
        }
        self.take_usage(reply, event.get("usage"));
    }

    /// Later numbers replace earlier ones; what is left out stays.
    fn take_usage(&mut self, reply: &mut Reply, usage: Option<&Value>) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
        let so_far = reply.usage().clone();
        self.written_for_an_hour =
            count(usage, "/cache_creation/ephemeral_1h_input_tokens").unwrap_or(self.written_for_an_hour);
        // The sum of how long it is kept stands in for a sum that is left out.
        let for_minutes = count(usage, "/cache_creation/ephemeral_5m_input_tokens");
        let written = count(usage, "/cache_creation_input_tokens")
            .or_else(|| for_minutes.map(|tokens| tokens.saturating_add(self.written_for_an_hour)));
        let usage = Usage {
            input: count(usage, "/input_tokens").unwrap_or(so_far.input),
            output: count(usage, "/output_tokens").unwrap_or(so_far.output),
            cache_read: count(usage, "/cache_read_input_tokens").unwrap_or(so_far.cache_read),
            cache_write: written.unwrap_or(so_far.cache_write),
            reasoning: count(usage, "/output_tokens_details/thinking_tokens").or(so_far.reasoning),
            ..Usage::default()
        };
        let written_for_an_hour = self.written_for_an_hour;
        reply.set_usage(Counted { usage, written_for_an_hour, ..Counted::default() });
    }
}
