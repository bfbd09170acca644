//! Replies as the two wires carry them.

use crate::{home::Home, server::Server};
use serde_json::{Value, json};

/// A provider's wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// `openai-completions`.
    OpenAi,
    /// `anthropic-messages`.
    Anthropic,
}

/// What a model shall say.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    thinking: Option<String>,
    text: Option<String>,
    calls: Vec<(String, String, String)>,
    stop: Option<&'static str>,
    deltas: usize,
}

impl Reply {
    /// Words only.
    pub fn text(text: &str) -> Self {
        Self { text: Some(text.to_owned()), deltas: 1, ..Self::default() }
    }

    /// A call only.
    pub fn call(id: &str, name: &str, arguments: Value) -> Self {
        Self { deltas: 1, ..Self::default() }.and_call(id, name, arguments)
    }

    /// And a call more.
    pub fn and_call(mut self, id: &str, name: &str, arguments: Value) -> Self {
        self.calls.push((id.to_owned(), name.to_owned(), arguments.to_string()));
        self
    }

    /// After thoughts.
    pub fn thinking(mut self, text: &str) -> Self {
        self.thinking = Some(text.to_owned());
        self
    }

    /// Cut by the output limit.
    pub fn cut(mut self) -> Self {
        self.stop = Some("length");
        self
    }

    /// Words in so many pieces.
    pub fn in_pieces(mut self, pieces: usize) -> Self {
        self.deltas = pieces.max(1);
        self
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(chars.len().div_ceil(self.deltas.max(1)).max(1)).map(|piece| piece.iter().collect()).collect()
    }
}

impl Wire {
    /// Both.
    pub const ALL: [Self; 2] = [Self::OpenAi, Self::Anthropic];

    /// A home that knows this server and a key for it.
    pub fn home(self, server: &Server) -> Home {
        self.home_at(&server.url())
    }

    /// The same for any server, by its address without `/v1`.
    pub fn home_at(self, url: &str) -> Home {
        match self {
            Self::OpenAi => {
                Home::new().with("OPENAI_BASE_URL", &format!("{url}/v1")).with("OPENAI_API_KEY", "k-openai")
            }
            Self::Anthropic => Home::new().with("ANTHROPIC_BASE_URL", url).with("ANTHROPIC_API_KEY", "k-anthropic"),
        }
    }

    /// A model of it, as `--model` wants it.
    pub fn model(self) -> &'static str {
        match self {
            Self::OpenAi => "openai/fake-1",
            Self::Anthropic => "anthropic/fake-1",
        }
    }

    /// Where requests go.
    pub fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/v1/chat/completions",
            Self::Anthropic => "/v1/messages",
        }
    }

    /// A reply's stream of events.
    pub fn sse(self, reply: &Reply) -> Vec<u8> {
        match self {
            Self::OpenAi => openai(reply),
            Self::Anthropic => anthropic(reply),
        }
    }
}

fn openai(reply: &Reply) -> Vec<u8> {
    let mut out = String::new();
    let mut push = |delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk = json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake-1", "choices": [choice] });
        out.push_str(&format!("data: {chunk}\n\n"));
    };
    push(json!({ "role": "assistant", "content": "" }), None);
    if let Some(thinking) = &reply.thinking {
        push(json!({ "reasoning_content": thinking }), None);
    }
    if let Some(text) = &reply.text {
        for piece in reply.pieces(text) {
            push(json!({ "content": piece }), None);
        }
    }
    for (index, (id, name, arguments)) in reply.calls.iter().enumerate() {
        let head =
            json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": "" } });
        push(json!({ "tool_calls": [head] }), None);
        push(json!({ "tool_calls": [{ "index": index, "function": { "arguments": arguments } }] }), None);
    }
    let stop = reply.stop.unwrap_or(if reply.calls.is_empty() { "stop" } else { "tool_calls" });
    push(json!({}), Some(stop));
    let usage = json!({ "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18 });
    let last = json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake-1", "choices": [], "usage": usage });
    out.push_str(&format!("data: {last}\n\ndata: [DONE]\n\n"));
    out.into_bytes()
}

fn anthropic(reply: &Reply) -> Vec<u8> {
    let mut out = String::new();
    let mut push = |event: Value| {
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        out.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    };
    let usage = json!({ "input_tokens": 11, "output_tokens": 1 });
    push(
        json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant", "model": "fake-1",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage } }),
    );
    push(json!({ "type": "ping" }));
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        push(json!({ "type": "content_block_stop", "index": index }));
        index += 1;
    };
    if let Some(thinking) = &reply.thinking {
        let deltas = vec![
            json!({ "type": "thinking_delta", "thinking": thinking }),
            json!({ "type": "signature_delta", "signature": "c2lnbmVk" }),
        ];
        block(json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas);
    }
    if let Some(text) = &reply.text {
        let deltas = reply.pieces(text).iter().map(|piece| json!({ "type": "text_delta", "text": piece })).collect();
        block(json!({ "type": "text", "text": "" }), deltas);
    }
    for (id, name, arguments) in &reply.calls {
        let start = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
        block(start, vec![json!({ "type": "input_json_delta", "partial_json": arguments })]);
    }
    let stop = match reply.stop {
        Some(_) => "max_tokens",
        None if reply.calls.is_empty() => "end_turn",
        None => "tool_use",
    };
    push(
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": { "output_tokens": 7 } }),
    );
    push(json!({ "type": "message_stop" }));
    out.into_bytes()
}
