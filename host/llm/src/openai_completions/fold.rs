//! From a stream's events to a reply.
//!
//! What look-alikes do differently is read tolerantly: arguments before the call's id, several calls under one index or none, ids
//! and names repeated or empty, content as a list of parts, no `finish_reason`, no `[DONE]`, usage in several places. What is never
//! done: complete arguments that were cut, or give out a call without id or name.

use super::THINKING_FIELDS;
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

/// The fold of a stream of chat chunks.
pub type CompletionsFold = Fold<Completions>;

/// The state between two events.
#[derive(Debug, Default)]
pub struct Completions {
    text: Option<Place>,
    thinking: Option<Place>,
    /// The newest call under each index.
    calls: HashMap<u64, Place>,
    /// The newest call of each id.
    ids: HashMap<String, Place>,
    last_call: Option<Place>,
    refusal: String,
    finish_reason: Option<String>,
}

impl WireState for Completions {
    fn take(&mut self, reply: &mut Reply, name: &str, chunk: &Value) {
        let failed = errors::in_event(chunk).or_else(|| (name == "error").then(|| errors::of_event(chunk)));
        if let Some(trouble) = failed {
            return reply.fail(trouble, Some("error"));
        }
        reply.set_response_id(text(chunk, "id"));
        let choices = chunk.get("choices").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if let Some(choice) = choices.iter().find(|choice| count(choice, "/index").unwrap_or(0) == 0) {
            reply.started();
            self.take_choice(reply, choice);
        }
        let usage = [chunk.get("usage"), chunk.pointer("/choices/0/usage"), chunk.pointer("/x_groq/usage")];
        if let Some(usage) = usage.into_iter().flatten().find(|usage| usage.is_object()) {
            reply.set_usage(Counted { usage: usage_of(usage), told_cost: cost_of(usage), ..Counted::default() });
        }
    }

    fn take_mark(&mut self, reply: &mut Reply) {
        self.complete(reply);
    }

    fn said_its_end(&self) -> Option<&str> {
        self.finish_reason.as_deref()
    }

    fn complete(&mut self, reply: &mut Reply) {
        let raw = self.finish_reason.take();
        let has_calls = reply.has_calls();
        let raw = raw.as_deref();
        let refuse = |message: String| Trouble::new(FailureKind::Refused, message);
        if !self.refusal.is_empty() {
            let message = format!("the model refused: {}", errors::one_line(&self.refusal));
            return reply.fail(refuse(message), raw);
        }
        match raw {
            Some("length" | "max_tokens" | "model_length" | "model_context_window_exceeded") => reply.finish_cut(raw),
            Some("content_filter") => {
                reply.fail(refuse("the provider's content filter stopped the reply (content_filter)".to_owned()), raw);
            }
            Some(reason @ ("error" | "network_error")) => {
                let message = format!("the provider failed in mid-reply ({reason})");
                reply.fail(Trouble::new(FailureKind::Unavailable, message), raw);
            }
            _ if has_calls => reply.finish(StopReason::ToolUse, raw),
            _ => reply.finish(StopReason::Stop, raw),
        }
    }
}

impl Completions {
    fn take_choice(&mut self, reply: &mut Reply, choice: &Value) {
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            let thought = THINKING_FIELDS.iter().find(|field| !text(delta, field).is_empty());
            if let Some(field) = thought {
                self.think(reply, text(delta, field), Some(field));
            }
            match delta.get("content") {
                Some(Value::String(words)) => self.say(reply, words),
                Some(Value::Array(parts)) => parts.iter().for_each(|part| self.take_part(reply, part)),
                _ => {}
            }
            self.refusal.push_str(text(delta, "refusal"));
            for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                // The rest of the event is not wanted either.
                if reply.is_overfull() {
                    return;
                }
                self.take_call(reply, call);
            }
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty()) {
            self.finish_reason = Some(reason.to_owned());
        }
    }

    /// Content as a list: `{type: text, text}` and Mistral's `{type: thinking, thinking: [{type: text, text}]}`.
    fn take_part(&mut self, reply: &mut Reply, part: &Value) {
        match text(part, "type") {
            "thinking" => match part.get("thinking") {
                Some(Value::Array(parts)) => parts.iter().for_each(|part| self.think(reply, text(part, "text"), None)),
                Some(Value::String(words)) => self.think(reply, words, None),
                _ => {}
            },
            _ => self.say(reply, text(part, "text")),
        }
    }

    fn say(&mut self, reply: &mut Reply, words: &str) {
        if !words.is_empty() {
            let place = *self.text.get_or_insert_with(|| reply.begin_text());
            reply.push(place, words);
        }
    }

    fn think(&mut self, reply: &mut Reply, words: &str, field: Option<&str>) {
        if !words.is_empty() {
            let signature = || field.map(str::to_owned);
            let place = *self.thinking.get_or_insert_with(|| reply.begin_thinking(signature(), false));
            reply.push(place, words);
        }
    }

    fn take_call(&mut self, reply: &mut Reply, fragment: &Value) {
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
            None if !id.is_empty() => self.ids.get(id).copied().or(self.last_call),
            None => self.last_call,
        };
        let place =
            match open.filter(|place| !Self::begins_another(reply, *place, index.is_some(), id, name, arguments)) {
                Some(place) => place,
                None => reply.begin_call(),
            };
        if let Some(index) = index {
            self.calls.insert(index, place);
        }
        self.last_call = Some(place);
        if !id.is_empty() && reply.call_so_far(place).0.is_empty() {
            self.ids.insert(id.to_owned(), place);
        }
        reply.name_call(place, id, name);
        reply.push(place, arguments);
    }

    /// Whether a fragment for an open call is the first of another call.
    fn begins_another(reply: &mut Reply, place: Place, has_index: bool, id: &str, name: &str, arguments: &str) -> bool {
        let (open_id, open_name) = reply.call_so_far(place);
        if !id.is_empty() && !open_id.is_empty() && id != open_id {
            // Under an index, an id alone may be one that changes from piece to piece.
            return !has_index || !name.is_empty();
        }
        // Whole calls without ids, one after the other.
        id.is_empty()
            && !name.is_empty()
            && !open_name.is_empty()
            && !arguments.is_empty()
            && reply.has_whole_arguments(place)
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

/// OpenRouter says what it charges, in US dollars. A cost of nothing may be one that it does not know.
fn cost_of(usage: &Value) -> Option<f64> {
    usage.get("cost")?.as_f64().filter(|cost| cost.is_finite() && *cost > 0.0 && *cost < MOST_COST)
}

/// No reply costs more, in US dollars.
const MOST_COST: f64 = 100_000.0;
