//! The conversation as another model may be sent it: what every wire has to leave out or change. (pi's rules.)
//!
//! A message is of the same model where provider, wire and model id are equal. Only then thoughts and proofs go back, and only
//! then ids of calls stay as they are.

use pith_core::{ModelCard, ModelRequest};
use pith_protocol::{AssistantMessage, Content, Message, StopReason, Thinking};
use serde_json::{Map, Value};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

/// Words or a picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    Image { data: &'a str, mime_type: &'a str },
}

/// A block of the model's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said<'a> {
    Text(&'a str),
    /// Of the same model only.
    Thinking(&'a Thinking),
    Call {
        id: Cow<'a, str>,
        name: &'a str,
        arguments: &'a Map<String, Value>,
    },
}

/// One step of the conversation; none of them is empty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Turn<'a> {
    User(Vec<Part<'a>>),
    Assistant(Vec<Said<'a>>),
    /// A call's result; without parts where it had none.
    Result {
        id: Cow<'a, str>,
        parts: Vec<Part<'a>>,
        is_error: bool,
    },
}

/// How a wire wants the ids of other models' calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdLaw {
    /// The longest, in bytes.
    pub limit: usize,
    /// A longer one ends with a hash, so that it stays apart from others with the same beginning.
    pub hashed: bool,
}

const NO_IMAGE: &str = "(image omitted: the model does not read images)";
const NO_TOOL_IMAGE: &str = "(tool image omitted: the model does not read images)";

/// The conversation for a model.
pub(crate) fn turns<'a>(card: &ModelCard, request: &'a ModelRequest, law: IdLaw) -> Vec<Turn<'a>> {
    let mut turns = Vec::new();
    // Each open call's id as it is sent; none where its message is left out, so that its result is too.
    let mut calls: HashMap<&str, Option<Cow<'a, str>>> = HashMap::new();
    let mut sent_ids: HashSet<Cow<'a, str>> = HashSet::new();
    for message in &request.messages {
        match &**message {
            Message::User(user) => {
                let parts = parts(&user.content, card.reads_images, NO_IMAGE);
                if !parts.is_empty() {
                    turns.push(Turn::User(parts));
                }
            }
            Message::Assistant(assistant) => {
                let is_left_out = matches!(assistant.stop_reason, StopReason::Error | StopReason::Aborted);
                let is_same = is_same_model(card, assistant);
                for call in assistant.tool_calls() {
                    let id = if is_same && !call.id.is_empty() {
                        Cow::Borrowed(call.id.as_str())
                    } else {
                        foreign_id(&call.id, law, &sent_ids)
                    };
                    if !is_left_out {
                        sent_ids.insert(id.clone());
                    }
                    calls.insert(&call.id, (!is_left_out).then_some(id));
                }
                if is_left_out {
                    continue;
                }
                let said: Vec<_> = assistant.content.iter().filter_map(|block| said(block, is_same, &calls)).collect();
                if !said.is_empty() {
                    turns.push(Turn::Assistant(said));
                }
            }
            Message::ToolResult(result) => {
                // A result without its call is an error on every wire.
                let Some(Some(id)) = calls.get(result.tool_call_id.as_str()) else { continue };
                let parts = parts(&result.content, card.reads_images, NO_TOOL_IMAGE);
                turns.push(Turn::Result { id: id.clone(), parts, is_error: result.is_error });
            }
            // The projection holds none of the others.
            _ => {}
        }
    }
    turns
}

fn is_same_model(card: &ModelCard, message: &AssistantMessage) -> bool {
    message.provider == card.model.provider && message.api == card.api && message.model == card.model.id
}

fn parts<'a>(content: &'a [Content], reads_images: bool, placeholder: &'static str) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    for block in content {
        match block {
            Content::Text(text) if !text.text.trim().is_empty() => parts.push(Part::Text(&text.text)),
            Content::Image(image) if reads_images => {
                parts.push(Part::Image { data: &image.data, mime_type: &image.mime_type });
            }
            // A run of pictures is one line.
            Content::Image(_) if parts.last() != Some(&Part::Text(placeholder)) => parts.push(Part::Text(placeholder)),
            _ => {}
        }
    }
    parts
}

fn said<'a>(block: &'a Content, is_same: bool, calls: &HashMap<&str, Option<Cow<'a, str>>>) -> Option<Said<'a>> {
    match block {
        Content::Text(text) => (!text.text.trim().is_empty()).then_some(Said::Text(&text.text)),
        Content::Thinking(thinking) => {
            let counts = thinking.thinking_signature.is_some() || !thinking.thinking.trim().is_empty();
            (is_same && counts).then_some(Said::Thinking(thinking))
        }
        Content::ToolCall(call) => {
            let id = calls.get(call.id.as_str())?.clone()?;
            Some(Said::Call { id, name: &call.name, arguments: &call.arguments })
        }
        _ => None,
    }
}

/// An id of another model's call, as this wire takes it.
fn foreign_id<'a>(id: &'a str, law: IdLaw, sent: &HashSet<Cow<'a, str>>) -> Cow<'a, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fits = !id.is_empty() && id.len() <= law.limit && id.chars().all(is_plain);
    if fits && !sent.contains(id) {
        return Cow::Borrowed(id);
    }
    let mut plain: String = id.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let is_cut = plain.len() > law.limit;
    plain.truncate(law.limit);
    if plain.is_empty() || (is_cut && law.hashed) || sent.contains(plain.as_str()) {
        let mut salt = 0u32;
        loop {
            let hash = fnv1a(id, salt);
            plain.truncate(law.limit - 9);
            let candidate = format!("{}_{hash:08x}", if plain.is_empty() { "call" } else { &plain });
            if !sent.contains(candidate.as_str()) {
                return Cow::Owned(candidate);
            }
            salt = salt.wrapping_add(1);
        }
    }
    Cow::Owned(plain)
}

/// 32 bits of FNV-1a: the same in every version, so that requests stay the same for the provider's cache.
fn fnv1a(text: &str, salt: u32) -> u32 {
    let bytes = text.bytes().chain(salt.to_le_bytes());
    bytes.fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// An estimate of a request's tokens, rather too high: bytes by 3.5, a picture as 4,800 of them.
pub(crate) fn estimated_tokens(request: &ModelRequest) -> u64 {
    let of_content = |content: &[Content]| -> usize {
        content
            .iter()
            .map(|block| match block {
                Content::Text(text) => text.text.len(),
                Content::Thinking(thinking) => {
                    thinking.thinking.len().max(thinking.thinking_signature.as_ref().map_or(0, String::len))
                }
                Content::Image(_) => 4_800,
                Content::ToolCall(call) => call.name.len() + json_bytes(&call.arguments),
                Content::Unknown => 0,
            })
            .sum()
    };
    let system: usize = request.system.iter().map(String::len).sum();
    let tools: usize =
        request.tools.iter().map(|tool| tool.name.len() + tool.description.len() + json_bytes(&tool.parameters)).sum();
    let messages: usize = request
        .messages
        .iter()
        .map(|message| match &**message {
            Message::User(message) => of_content(&message.content),
            Message::Assistant(message) => of_content(&message.content),
            Message::ToolResult(message) => of_content(&message.content),
            _ => 0,
        })
        .sum();
    let bytes = system.saturating_add(tools).saturating_add(messages);
    u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(2).div_ceil(7)
}

fn json_bytes(value: &impl serde::Serialize) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A value always serializes; what was counted until then is an estimate too.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// The longest reply that fits: what is wanted, or the model's own, but no more than the window leaves beside the request and a
/// margin for the estimate's error. At least 1,024, so that it is the provider who finds a request too long.
pub(crate) fn fitted_output(card: &ModelCard, request: &ModelRequest) -> u64 {
    let wanted = request.output_tokens.unwrap_or(card.output_tokens).min(card.output_tokens).max(1);
    let estimate = estimated_tokens(request);
    let left = |margin: u64| card.window_tokens.saturating_sub(estimate).saturating_sub(margin);
    let wide = (estimate.saturating_mul(15) / 100).max(4_096);
    let room = if left(wide) < 32_768 { left(4_096) } else { left(wide) };
    wanted.min(room.max(1_024))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANTHROPIC: IdLaw = IdLaw { limit: 64, hashed: false };
    const OPENAI: IdLaw = IdLaw { limit: 40, hashed: true };

    #[test]
    fn foreign_ids_fit_and_stay_apart() {
        let none = HashSet::new();
        assert_eq!(foreign_id("toolu_01", OPENAI, &none), "toolu_01");
        assert_eq!(foreign_id("functions.read:0", ANTHROPIC, &none), "functions_read_0");
        assert_eq!(foreign_id("call_1|fc_2", OPENAI, &none), "call_1_fc_2");
        assert_eq!(foreign_id(&"x".repeat(70), ANTHROPIC, &none), "x".repeat(64));
        let long = |end: &str| foreign_id(&format!("{}{end}", "x".repeat(50)), OPENAI, &HashSet::new()).into_owned();
        assert_eq!(long("a").len(), 40);
        assert_ne!(long("a"), long("b"));
        assert!(!foreign_id("", ANTHROPIC, &none).is_empty());
        let sent = HashSet::from([Cow::Borrowed("a_b")]);
        assert_ne!(foreign_id("a.b", ANTHROPIC, &sent), "a_b");
    }
}
