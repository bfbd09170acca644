//! From a stream's events to a reply.
//!
//! What look-alikes do differently is read tolerantly: arguments before the call's id, several calls under one index or none, ids
//! and names repeated or empty, content as a list of parts, no `finish_reason`, no `[DONE]`, usage in several places. What is never
//! done: complete arguments that were cut, or give out a call without id or name.

use super::THINKING_FIELDS;
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
pub struct CompletionsFold {
    reply: Reply,
    text: Option<Place>,
    thinking: Option<Place>,
    /// The newest call under each index.
    calls: HashMap<u64, Place>,
    last_call: Option<Place>,
    refusal: String,
    finish_reason: Option<String>,
}

impl CompletionsFold {
    /// The state before the first event.
    pub fn new(start: ReplyStart) -> Self {
        Self {
            reply: Reply::new(start),
            text: None,
            thinking: None,
            calls: HashMap::new(),
            last_call: None,
            refusal: String::new(),
            finish_reason: None,
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
            // Some servers close without [DONE]; all that matters was said.
            StreamEnd::Closed if self.finish_reason.is_some() => self.complete(),
            StreamEnd::Closed => self.reply.fail_early(),
        }
        self.reply.take_events()
    }

    /// The stream broke off; gives `ModelEvent::Done`, unless it was given.
    pub(crate) fn break_off(&mut self, trouble: Trouble) -> Vec<ModelEvent> {
        match &self.finish_reason {
            _ if self.reply.is_done() => {}
            Some(_) => self.complete(),
            None => self.reply.fail(trouble, None),
        }
        self.reply.take_events()
    }

    fn take(&mut self, event: &SseEvent) {
        let data = event.data.trim();
        if data == "[DONE]" {
            return self.complete();
        }
        if data.is_empty() {
            return;
        }
        let chunk = match parse_event(data) {
            Ok(chunk) => chunk,
            Err(_) if event.name == "error" => {
                let trouble = errors::of_event_text(data);
                return self.reply.fail(trouble, self.finish_reason.as_deref());
            }
            Err(error) => {
                let message = format!("the provider sent an event that is not JSON: {error}");
                return self.reply.fail(Trouble::new(FailureKind::Unavailable, message), None);
            }
        };
        let failed = errors::in_event(&chunk).or_else(|| (event.name == "error").then(|| errors::of_event(&chunk)));
        if let Some(trouble) = failed {
            return self.reply.fail(trouble, Some("error"));
        }
        self.reply.set_response_id(text(&chunk, "id"));
        let choices = chunk.get("choices").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if let Some(choice) = choices.iter().find(|choice| count(choice, "/index").unwrap_or(0) == 0) {
            self.reply.started();
            self.take_choice(choice);
        }
        let usage = [chunk.get("usage"), chunk.pointer("/choices/0/usage"), chunk.pointer("/x_groq/usage")];
        if let Some(usage) = usage.into_iter().flatten().find(|usage| usage.is_object()) {
            self.reply.set_usage(usage_of(usage));
        }
        if self.reply.is_overfull() {
            let message = format!("the reply has more than {BLOCK_LIMIT} blocks");
            self.reply.fail(Trouble::new(FailureKind::Other, message), None);
        }
    }

    fn take_choice(&mut self, choice: &Value) {
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            let thought = THINKING_FIELDS.iter().find(|field| !text(delta, field).is_empty());
            if let Some(field) = thought {
                self.think(text(delta, field), Some(field));
            }
            match delta.get("content") {
                Some(Value::String(words)) => self.say(words),
                Some(Value::Array(parts)) => parts.iter().for_each(|part| self.take_part(part)),
                _ => {}
            }
            self.refusal.push_str(text(delta, "refusal"));
            for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                self.take_call(call);
            }
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty()) {
            self.finish_reason = Some(reason.to_owned());
        }
    }

    /// Content as a list: `{type: text, text}` and Mistral's `{type: thinking, thinking: [{type: text, text}]}`.
    fn take_part(&mut self, part: &Value) {
        match text(part, "type") {
            "thinking" => match part.get("thinking") {
                Some(Value::Array(parts)) => parts.iter().for_each(|part| self.think(text(part, "text"), None)),
                Some(Value::String(words)) => self.think(words, None),
                _ => {}
            },
            _ => self.say(text(part, "text")),
        }
    }

    fn say(&mut self, words: &str) {
        if !words.is_empty() {
            let place = *self.text.get_or_insert_with(|| self.reply.begin_text());
            self.reply.push(place, words);
        }
    }

    fn think(&mut self, words: &str, field: Option<&str>) {
        if !words.is_empty() {
            let signature = || field.map(str::to_owned);
            let place = *self.thinking.get_or_insert_with(|| self.reply.begin_thinking(signature(), false));
            self.reply.push(place, words);
        }
    }

    fn take_call(&mut self, fragment: &Value) {
        let function = fragment.get("function").unwrap_or(&Value::Null);
        let (id, name) = (text(fragment, "id"), text(function, "name"));
        let whole;
        let arguments = match function.get("arguments") {
            Some(Value::String(piece)) => piece.as_str(),
            // Some servers send the object itself.
            Some(object @ Value::Object(_)) => {
                whole = object.to_string();
                &whole
            }
            _ => "",
        };
        let index = count(fragment, "/index");
        let open = match index {
            Some(index) => self.calls.get(&index).copied(),
            None if !id.is_empty() => self.call_with_id(id).or(self.last_call),
            None => self.last_call,
        };
        let place = match open.filter(|place| !self.begins_another(*place, index.is_some(), id, name, arguments)) {
            Some(place) => place,
            None => self.reply.begin_call(),
        };
        if let Some(index) = index {
            self.calls.insert(index, place);
        }
        self.last_call = Some(place);
        self.reply.name_call(place, id, name);
        self.reply.push(place, arguments);
    }

    /// Whether a fragment for an open call is the first of another call.
    fn begins_another(&self, place: Place, has_index: bool, id: &str, name: &str, arguments: &str) -> bool {
        let (open_id, open_name) = self.reply.call_so_far(place);
        if !id.is_empty() && !open_id.is_empty() && id != open_id {
            // Under an index, an id alone may be one that changes from piece to piece.
            return !has_index || !name.is_empty();
        }
        // Whole calls without ids, one after the other.
        id.is_empty()
            && !name.is_empty()
            && !open_name.is_empty()
            && !arguments.is_empty()
            && self.reply.has_whole_arguments(place)
    }

    fn call_with_id(&self, id: &str) -> Option<Place> {
        let last = self.last_call?;
        (0..=last).rev().find(|place| self.reply.call_so_far(*place).0 == id)
    }

    fn complete(&mut self) {
        let raw = self.finish_reason.take();
        let has_calls = self.reply.has_calls();
        let raw = raw.as_deref();
        let refuse = |message: String| Trouble::new(FailureKind::Refused, message);
        if !self.refusal.is_empty() {
            let message = format!("the model refused: {}", errors::one_line(&self.refusal));
            return self.reply.fail(refuse(message), raw);
        }
        match raw {
            Some("length" | "max_tokens") => self.reply.finish(StopReason::Length, raw),
            Some("content_filter") => {
                self.reply
                    .fail(refuse("the provider's content filter stopped the reply (content_filter)".to_owned()), raw);
            }
            Some(reason @ ("error" | "network_error")) => {
                let message = format!("the provider failed in mid-reply ({reason})");
                self.reply.fail(Trouble::new(FailureKind::Unavailable, message), raw);
            }
            _ if has_calls => self.reply.finish(StopReason::ToolUse, raw),
            _ => self.reply.finish(StopReason::Stop, raw),
        }
    }
}

/// `prompt_tokens` includes what the cache gave; ours does not.
fn usage_of(usage: &Value) -> Usage {
    let prompt = count(usage, "/prompt_tokens").unwrap_or(0);
    let cached =
        count(usage, "/prompt_tokens_details/cached_tokens").or_else(|| count(usage, "/prompt_cache_hit_tokens"));
    let cache_write = count(usage, "/prompt_tokens_details/cache_write_tokens").unwrap_or(0).min(prompt);
    let cache_read = cached.unwrap_or(0).min(prompt - cache_write);
    let output = count(usage, "/completion_tokens").unwrap_or(0);
    // Where a provider counts thoughts beside the output, they are no part of it.
    let reasoning = count(usage, "/completion_tokens_details/reasoning_tokens").filter(|thoughts| *thoughts <= output);
    Usage { input: prompt - cache_read - cache_write, output, cache_read, cache_write, reasoning, ..Usage::default() }
}
