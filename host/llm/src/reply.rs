//! A reply as it grows: blocks, their events, and the message that they end as. Both wires and the scripted provider build on it.

use crate::{Prices, errors::Trouble, nesting::Nesting};
use pith_core::{FailureKind, ModelCard, ModelEvent, ModelRequest};
use pith_protocol::{
    AssistantMessage, Content, Cost, Delta, Message, StopReason, Text, Thinking, ThinkingLevel, ToolCall, Usage,
};
use serde_json::{Map, Value};
use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
};

/// The most blocks of one reply.
pub const BLOCK_LIMIT: usize = 1_024;

/// How a stream of events ended that told of no end itself.
#[derive(Clone, Debug)]
pub enum StreamEnd {
    /// The provider closed it.
    Closed,
    /// The user or the host cancelled the request.
    Cancelled,
}

/// What a reply is folded into: whose it is and what of the request matters for it.
#[derive(Clone, Debug)]
pub struct ReplyStart {
    api: String,
    provider: String,
    model: String,
    prices: Option<Prices>,
    thinking_level: Option<String>,
    /// Ids of the conversation's calls: some providers count from 0 in every reply.
    taken_ids: HashSet<String>,
}

impl ReplyStart {
    /// For the answer to a request.
    pub fn new(card: &ModelCard, prices: Option<Prices>, request: &ModelRequest) -> Self {
        let calls = request.messages.iter().filter_map(|message| match &**message {
            Message::Assistant(message) => Some(message.tool_calls().map(|call| call.id.clone())),
            _ => None,
        });
        let thinks = card.thinks && request.thinking != ThinkingLevel::Off;
        Self {
            api: card.api.clone(),
            provider: card.model.provider.clone(),
            model: card.model.id.clone(),
            prices,
            thinking_level: thinks.then(|| request.thinking.as_str().to_owned()),
            taken_ids: calls.flatten().collect(),
        }
    }
}

/// A block's place in the reply.
pub(crate) type Place = usize;

#[derive(Debug)]
enum Block {
    Text(String),
    Thinking { text: String, signature: Option<String>, redacted: bool },
    Call(Call),
}

/// A call in the making.
#[derive(Debug, Default)]
struct Call {
    /// The provider's id; empty until it comes.
    given_id: String,
    name: String,
    arguments: String,
    nesting: Nesting,
    /// Whether arguments that `nesting` calls whole are JSON: parsed when that is first asked, and only blanks can follow.
    is_json: Option<bool>,
    /// Ours, once the call was announced; the start waits for id and name.
    id: Option<String>,
    /// No name ever came.
    is_unnamed: bool,
}

#[derive(Debug)]
struct Slot {
    block: Block,
    ended: bool,
    /// Replaced by a reply that the provider began afresh in the same stream.
    dropped: bool,
}

/// What a provider tells of a reply's tokens.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// The tokens; their sum and cost are not looked at.
    pub usage: Usage,
    /// Of what was written to the cache, what is kept for an hour.
    pub written_for_an_hour: u64,
    /// The whole reply's cost in US dollars, where the provider says it.
    pub told_cost: Option<f64>,
}

/// The reply.
#[derive(Debug)]
pub(crate) struct Reply {
    start: ReplyStart,
    slots: Vec<Slot>,
    /// The first place that no fresh beginning replaced.
    live_from: Place,
    usage: Usage,
    response_id: Option<String>,
    events: Vec<ModelEvent>,
    has_started: bool,
    /// The provider told of tokens.
    is_counted: bool,
    is_done: bool,
}

impl Reply {
    pub fn new(start: ReplyStart) -> Self {
        Self {
            start,
            slots: Vec::new(),
            live_from: 0,
            usage: Usage::default(),
            response_id: None,
            events: Vec::new(),
            has_started: false,
            is_counted: false,
            is_done: false,
        }
    }

    /// The events since the last time.
    pub fn take_events(&mut self) -> Vec<ModelEvent> {
        std::mem::take(&mut self.events)
    }

    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The provider began to answer; only the first time counts.
    pub fn started(&mut self) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.events.push(ModelEvent::Started);
        }
    }

    pub fn set_response_id(&mut self, id: &str) {
        if !id.is_empty() {
            self.response_id = Some(id.to_owned());
        }
    }

    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Sets tokens; totals and costs follow.
    pub fn set_usage(&mut self, counted: Counted) {
        self.is_counted = true;
        let mut usage = counted.usage.totalled();
        usage.cost = match (counted.told_cost, self.start.prices) {
            // Routers know what they charge; of what for, they say nothing.
            (Some(total), _) => Cost { total, ..Cost::default() },
            (None, Some(prices)) => prices.cost(&usage, counted.written_for_an_hour),
            (None, None) => unknown_cost(),
        };
        if usage != self.usage {
            self.usage = usage;
            self.events.push(ModelEvent::Usage(self.usage.clone()));
        }
    }

    /// More blocks than a reply may have.
    pub fn is_overfull(&self) -> bool {
        self.slots.len() > BLOCK_LIMIT
    }

    pub fn begin_text(&mut self) -> Place {
        let content_index = self.place(Block::Text(String::new()));
        self.events.push(ModelEvent::Delta(Delta::TextStart { content_index }));
        content_index
    }

    pub fn begin_thinking(&mut self, signature: Option<String>, redacted: bool) -> Place {
        let content_index = self.place(Block::Thinking { text: String::new(), signature, redacted });
        self.events.push(ModelEvent::Delta(Delta::ThinkingStart { content_index }));
        content_index
    }

    /// Begins a call; it is announced when its id and name are known.
    pub fn begin_call(&mut self) -> Place {
        self.place(Block::Call(Call::default()))
    }

    fn place(&mut self, block: Block) -> Place {
        self.started();
        self.slots.push(Slot { block, ended: false, dropped: false });
        self.slots.len() - 1
    }

    /// Words for a block of words or thoughts, or arguments for a call.
    pub fn push(&mut self, place: Place, piece: &str) {
        let Some(slot) = self.slots.get_mut(place).filter(|slot| !slot.ended && !piece.is_empty()) else { return };
        let delta = piece.to_owned();
        let delta = match &mut slot.block {
            Block::Text(text) => {
                text.push_str(piece);
                Delta::TextDelta { content_index: place, delta }
            }
            Block::Thinking { text, .. } => {
                text.push_str(piece);
                Delta::ThinkingDelta { content_index: place, delta }
            }
            Block::Call(call) => {
                call.arguments.push_str(piece);
                call.nesting.push(piece);
                if call.id.is_none() {
                    return;
                }
                Delta::ToolCallDelta { content_index: place, delta }
            }
        };
        self.events.push(ModelEvent::Delta(delta));
    }

    /// A piece of the proof of thoughts.
    pub fn push_signature(&mut self, place: Place, piece: &str) {
        if let Some(Slot { block: Block::Thinking { signature, .. }, .. }) = self.slots.get_mut(place) {
            signature.get_or_insert_default().push_str(piece);
        }
    }

    /// Id and name of a call, as far as they came; what is known already stays.
    pub fn name_call(&mut self, place: Place, id: &str, name: &str) {
        let Some(call) = self.call_mut(place) else { return };
        if call.given_id.is_empty() {
            id.clone_into(&mut call.given_id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        if !call.given_id.is_empty() && !call.name.is_empty() {
            self.announce(place);
        }
    }

    /// A call's id as the provider gave it, and its name.
    pub fn call_so_far(&self, place: Place) -> (&str, &str) {
        match self.slots.get(place).map(|slot| &slot.block) {
            Some(Block::Call(call)) => (&call.given_id, &call.name),
            _ => ("", ""),
        }
    }

    /// Whether a call's arguments are a whole object. Parses them once at most, so that it may be asked for every piece.
    pub fn has_whole_arguments(&mut self, place: Place) -> bool {
        match self.slots.get_mut(place).map(|slot| &mut slot.block) {
            Some(Block::Call(call)) if call.nesting.is_whole() => {
                *call.is_json.get_or_insert_with(|| parsed(&call.arguments).is_ok())
            }
            _ => false,
        }
    }

    fn call_mut(&mut self, place: Place) -> Option<&mut Call> {
        match self.slots.get_mut(place) {
            Some(Slot { block: Block::Call(call), ended: false, .. }) => Some(call),
            _ => None,
        }
    }

    /// Announces a call, with an id of our own where the provider's is missing or taken, and what came of its arguments.
    fn announce(&mut self, place: Place) {
        let Some(Slot { block: Block::Call(call), .. }) = self.slots.get_mut(place) else { return };
        if call.id.is_some() {
            return;
        }
        let mut id = call.given_id.clone();
        while id.is_empty() || !self.start.taken_ids.insert(id.clone()) {
            // Seeded by the system's randomness, anew each time.
            id = format!("call_{:016x}", RandomState::new().hash_one(place));
        }
        if call.name.is_empty() {
            "unnamed".clone_into(&mut call.name);
            call.is_unnamed = true;
        }
        call.id = Some(id.clone());
        self.events.push(ModelEvent::Delta(Delta::ToolCallStart {
            content_index: place,
            id,
            tool_name: call.name.clone(),
        }));
        if !call.arguments.is_empty() {
            let delta = call.arguments.clone();
            self.events.push(ModelEvent::Delta(Delta::ToolCallDelta { content_index: place, delta }));
        }
    }

    /// Ends a block; each ends once.
    pub fn end(&mut self, place: Place) {
        let Some(slot) = self.slots.get(place).filter(|slot| !slot.ended) else { return };
        if matches!(slot.block, Block::Call(_)) {
            self.announce(place);
        }
        let slot = &mut self.slots[place];
        slot.ended = true;
        let delta = match &slot.block {
            Block::Text(text) => Delta::TextEnd { content_index: place, content: text.clone() },
            Block::Thinking { text, .. } => Delta::ThinkingEnd { content_index: place, content: text.clone() },
            Block::Call(call) => Delta::ToolCallEnd { content_index: place, tool_call: call.finished() },
        };
        self.events.push(ModelEvent::Delta(delta));
    }

    fn end_all(&mut self) {
        for place in self.live_from..self.slots.len() {
            self.end(place);
        }
    }

    /// The provider began its reply afresh: what came until now does not count.
    pub fn restart(&mut self) {
        self.end_all();
        self.slots.iter_mut().skip(self.live_from).for_each(|slot| slot.dropped = true);
        self.live_from = self.slots.len();
    }

    pub fn has_calls(&self) -> bool {
        self.slots.iter().any(|slot| !slot.dropped && matches!(slot.block, Block::Call(_)))
    }

    /// The reply is whole.
    pub fn finish(&mut self, stop: StopReason, raw: Option<&str>) {
        self.end_all();
        self.done(stop, raw, None);
    }

    /// The reply ended because no more tokens would fit. With nothing said and nothing counted it was the request that left no room:
    /// some servers cut it to the window's size and then have nothing to answer with.
    pub fn finish_cut(&mut self, raw: Option<&str>) {
        if self.slots.iter().all(|slot| slot.dropped) && self.usage.output == 0 {
            let message = format!("the conversation fills the model's window ({})", raw.unwrap_or("length"));
            return self.fail(Trouble::new(FailureKind::Overflow, message), raw);
        }
        self.finish(StopReason::Length, raw);
    }

    /// The request failed, maybe in mid-reply.
    pub fn fail(&mut self, trouble: Trouble, raw: Option<&str>) {
        self.cut();
        self.done(StopReason::Error, raw, Some(trouble));
    }

    /// The request was cancelled, maybe in mid-reply.
    pub fn abort(&mut self) {
        self.cut();
        self.done(StopReason::Aborted, None, None);
    }

    /// Ends what is open; a call that was not whole yet is no part of the message.
    fn cut(&mut self) {
        for place in 0..self.slots.len() {
            if self.slots[place].ended {
                continue;
            }
            let is_whole = self.has_whole_arguments(place);
            match &self.slots[place].block {
                // Never announced: nobody waits for its end.
                Block::Call(call) if call.id.is_none() => {
                    self.slots[place].ended = true;
                    self.slots[place].dropped = true;
                }
                Block::Call(_) => {
                    self.end(place);
                    self.slots[place].dropped = !is_whole;
                }
                _ => self.end(place),
            }
        }
    }

    fn done(&mut self, stop_reason: StopReason, raw: Option<&str>, trouble: Option<Trouble>) {
        if std::mem::replace(&mut self.is_done, true) {
            return;
        }
        let content = self.slots.drain(..).filter(|slot| !slot.dropped).map(|slot| slot.block.finished()).collect();
        // It was answered, and that is not free because nobody counted.
        if self.has_started && !self.is_counted {
            self.usage.cost = unknown_cost();
        }
        let (error_message, failure) = trouble.map(|trouble| (trouble.message, trouble.failure)).unzip();
        let start = &mut self.start;
        let message = AssistantMessage {
            content,
            api: std::mem::take(&mut start.api),
            provider: std::mem::take(&mut start.provider),
            model: std::mem::take(&mut start.model),
            usage: self.usage.clone(),
            stop_reason,
            error_message,
            response_id: self.response_id.take(),
            raw_stop_reason: raw.map(str::to_owned),
            thinking_level: start.thinking_level.take(),
            ..AssistantMessage::default()
        };
        self.events.push(ModelEvent::Done { message, failure });
    }

    /// A stream that broke off by itself.
    pub fn fail_early(&mut self) {
        self.fail(Trouble::new(FailureKind::Unavailable, "the stream ended early"), None);
    }
}

fn unknown_cost() -> Cost {
    Cost { unknown: true, ..Cost::default() }
}

impl Block {
    fn finished(self) -> Content {
        match self {
            Self::Text(text) => Content::Text(Text { text, text_signature: None }),
            Self::Thinking { text, signature, redacted } => Content::Thinking(Thinking {
                thinking: text,
                thinking_signature: signature.filter(|signature| !signature.is_empty()),
                redacted: redacted.then_some(true),
            }),
            Self::Call(call) => Content::ToolCall(call.finished()),
        }
    }
}

impl Call {
    fn finished(&self) -> ToolCall {
        let (arguments, arguments_error) = match parsed(&self.arguments) {
            _ if self.is_unnamed => (Map::new(), Some("the call names no tool".to_owned())),
            Ok(arguments) => (arguments, None),
            Err(reason) => (Map::new(), Some(reason)),
        };
        ToolCall {
            id: self.id.clone().unwrap_or_default(),
            name: self.name.clone(),
            arguments,
            arguments_error,
            thought_signature: None,
            arguments_text: (!self.arguments.is_empty()).then(|| self.arguments.as_str().into()),
        }
    }
}

/// Strictly a JSON object, never a repaired part of one; nothing at all is an empty object.
fn parsed(arguments: &str) -> Result<Map<String, Value>, String> {
    if arguments.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("the arguments are not a JSON object; send an object".to_owned()),
        Err(error) if error.is_eof() => Err(format!(
            "the arguments were cut after {} bytes: they are not whole JSON; send them again, whole",
            arguments.len()
        )),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    }
}
