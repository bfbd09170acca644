//! The conversation as another model may be sent it: what every wire has to leave out or change. (pi's rules.)
//!
//! A message is of the same model where provider, wire and model id are equal. Only then thoughts and proofs go back, and only
//! then ids of calls stay as they are, where the wire takes them at all. What a model made up (names, ids) is sent as providers
//! take it, or one bad word would be refused in every later request.

use pith_core::{ModelCard, ModelRequest};
use pith_protocol::{AssistantMessage, Content, Message, StopReason, Thinking};
use serde_json::{Map, Value};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
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
        name: Cow<'a, str>,
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

/// How a wire wants the ids of calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdLaw {
    /// The longest, in bytes.
    pub limit: usize,
    /// A longer one ends with a hash, so that it stays apart from others with the same beginning.
    pub hashed: bool,
    /// Of the same model's ids all printable ASCII is taken; else letters, digits, `_` and `-`, as of other models' ids.
    pub printable: bool,
}

/// The longest name of a tool that providers take.
const NAME_LIMIT_CHARS: usize = 64;

const NO_IMAGE: &str = "(image omitted: the model does not read images)";
const NO_TOOL_IMAGE: &str = "(tool image omitted: the model does not read images)";

/// The conversation for a model.
pub(crate) fn turns<'a>(card: &ModelCard, request: &'a ModelRequest, law: IdLaw) -> Vec<Turn<'a>> {
    let mut turns = Vec::new();
    // The open calls of each id as they are sent; none where a message is left out, so that its result is too.
    let mut calls: HashMap<&str, VecDeque<Option<Cow<'a, str>>>> = HashMap::new();
    let mut ids = Ids::new(law);
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
                // A result belongs to the nearest call of its id before it.
                assistant.tool_calls().for_each(|call| drop(calls.remove(call.id.as_str())));
                let mut sent = VecDeque::new();
                for call in assistant.tool_calls() {
                    let id = (!is_left_out).then(|| ids.sendable(&call.id, is_same));
                    sent.extend(id.clone());
                    calls.entry(&call.id).or_default().push_back(id);
                }
                if is_left_out {
                    continue;
                }
                let said: Vec<_> =
                    assistant.content.iter().filter_map(|block| said(block, is_same, &mut sent)).collect();
                if !said.is_empty() {
                    turns.push(Turn::Assistant(said));
                }
            }
            Message::ToolResult(result) => {
                // A result without its call is an error on every wire, and so is a second one.
                let open = calls.get_mut(result.tool_call_id.as_str());
                let Some(Some(id)) = open.and_then(VecDeque::pop_front) else { continue };
                let parts = parts(&result.content, card.reads_images, NO_TOOL_IMAGE);
                turns.push(Turn::Result { id, parts, is_error: result.is_error });
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

/// A block as it is sent; `ids` are the message's calls' in their order.
fn said<'a>(block: &'a Content, is_same: bool, ids: &mut VecDeque<Cow<'a, str>>) -> Option<Said<'a>> {
    match block {
        Content::Text(text) => (!text.text.trim().is_empty()).then_some(Said::Text(&text.text)),
        Content::Thinking(thinking) => {
            let counts = thinking.thinking_signature.is_some() || !thinking.thinking.trim().is_empty();
            (is_same && counts).then_some(Said::Thinking(thinking))
        }
        Content::ToolCall(call) => {
            let id = ids.pop_front()?;
            Some(Said::Call { id, name: sendable_name(&call.name), arguments: &call.arguments })
        }
        _ => None,
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// A name that a model called, as all providers take it. It need not be a tool's: the call was answered long ago.
fn sendable_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return Cow::Borrowed("unnamed");
    }
    if name.len() <= NAME_LIMIT_CHARS && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    name.chars().take(NAME_LIMIT_CHARS).map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// The ids of calls that are sent: each once.
struct Ids<'a> {
    law: IdLaw,
    sent: HashSet<Cow<'a, str>>,
    /// Where the search for an id's next stand-in goes on.
    salts: HashMap<&'a str, u32>,
}

impl<'a> Ids<'a> {
    fn new(law: IdLaw) -> Self {
        Self { law, sent: HashSet::new(), salts: HashMap::new() }
    }

    /// An id of a call as the wire takes it, unlike all before.
    fn sendable(&mut self, id: &'a str, is_same: bool) -> Cow<'a, str> {
        let law = self.law;
        let is_taken = |c: char| is_plain(c) || (is_same && law.printable && c.is_ascii_graphic());
        let fits = !id.is_empty() && id.len() <= law.limit && id.chars().all(is_taken);
        if fits && self.sent.insert(Cow::Borrowed(id)) {
            return Cow::Borrowed(id);
        }
        // One character more than the limit tells that there were more.
        let start = id.chars().take(law.limit + 1).map(|c| if is_plain(c) { c } else { '_' });
        let mut plain: String = start.collect();
        let is_cut = plain.len() > law.limit;
        plain.truncate(law.limit);
        let needs_hash = plain.is_empty() || (is_cut && law.hashed);
        if !needs_hash && self.sent.insert(Cow::Owned(plain.clone())) {
            return Cow::Owned(plain);
        }
        plain.truncate(law.limit - 9);
        if plain.is_empty() {
            "call".clone_into(&mut plain);
        }
        let salt = self.salts.entry(id).or_default();
        loop {
            let candidate = format!("{plain}_{:08x}", fnv1a(id, *salt));
            *salt = salt.wrapping_add(1);
            if self.sent.insert(Cow::Owned(candidate.clone())) {
                return Cow::Owned(candidate);
            }
        }
    }
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
                Content::ToolCall(call) => call.name.len().min(NAME_LIMIT_CHARS) + json_bytes(&call.arguments),
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

    const ANTHROPIC: IdLaw = IdLaw { limit: 64, hashed: false, printable: false };
    const OPENAI: IdLaw = IdLaw { limit: 40, hashed: true, printable: true };

    fn sent(law: IdLaw, is_same: bool, ids: &[&str]) -> Vec<String> {
        let mut laws = Ids::new(law);
        ids.iter().map(|id| laws.sendable(id, is_same).into_owned()).collect()
    }

    #[test]
    fn foreign_ids_fit_and_stay_apart() {
        let one = |law, id: &str| sent(law, false, &[id]).remove(0);
        assert_eq!(one(OPENAI, "toolu_01"), "toolu_01");
        assert_eq!(one(ANTHROPIC, "functions.read:0"), "functions_read_0");
        assert_eq!(one(OPENAI, "call_1|fc_2"), "call_1_fc_2");
        assert_eq!(one(ANTHROPIC, &"x".repeat(70)), "x".repeat(64));
        let long = |end: &str| one(OPENAI, &format!("{}{end}", "x".repeat(50)));
        assert_eq!(long("a").len(), 40);
        assert_ne!(long("a"), long("b"));
        assert!(!one(ANTHROPIC, "").is_empty());
        assert_ne!(sent(ANTHROPIC, false, &["a_b", "a.b"])[1], "a_b");
    }

    #[test]
    fn the_same_models_ids_stay_where_the_wire_takes_them() {
        let bad = ["functions.read:0", "a b", "\u{1b}[31m", "é", "", "x"];
        assert_eq!(sent(OPENAI, true, &bad)[..4], ["functions.read:0", "a_b", "__31m", "_"]);
        assert_eq!(sent(ANTHROPIC, true, &bad)[..4], ["functions_read_0", "a_b", "__31m", "_"]);
        for law in [ANTHROPIC, OPENAI] {
            let long = ["y".repeat(100_000), "é".repeat(100), "y".repeat(99_999)];
            let mut all: Vec<&str> = bad.iter().copied().chain(long.iter().map(String::as_str)).collect();
            all.extend_from_within(..);
            let ids = sent(law, true, &all);
            let fits = |id: &String| (1..=law.limit).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic());
            assert!(ids.iter().all(fits), "{ids:?}");
            assert_eq!(ids.iter().collect::<HashSet<_>>().len(), all.len(), "{ids:?}");
            assert_eq!(ids, sent(law, true, &all), "the same in every request");
        }
    }
}
