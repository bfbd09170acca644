//! Messages between the contract's types and ours.

use crate::convert::{NotJson, json};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use pith_bindings::imports::pith::plugin::{
    messages::{self as wit, AssistantBlock},
    types::{self, Image},
};
use pith_core::canonical_json;
use pith_protocol::{
    AssistantMessage, Content, Image as Picture, Message, StopReason, Text, Thinking, ToolCall, ToolResultMessage,
    Usage, UserMessage,
};
use serde_json::Value;

/// A message as hooks and compactors are given it: pictures without their data. None for what is no part of a conversation.
pub(crate) fn shown(message: &Message) -> Option<wit::Message> {
    match message {
        Message::User(user) => Some(wit::Message::User(contents(&user.content))),
        Message::Assistant(reply) => Some(wit::Message::Assistant(assistant(reply))),
        Message::ToolResult(result) => Some(wit::Message::Tool(wit::ToolMessage {
            call_id: result.tool_call_id.clone(),
            tool: result.tool_name.clone(),
            content: contents(&result.content),
            is_error: result.is_error,
            details: result.details.as_ref().map(canonical_json),
        })),
        Message::Custom(custom) => Some(wit::Message::Custom(wit::CustomMessage {
            kind: custom.custom_type.clone(),
            content: contents(&custom.content),
            details: custom.details.as_ref().map(canonical_json),
        })),
        _ => None,
    }
}

fn contents(blocks: &[Content]) -> Vec<types::Content> {
    let block = |block: &Content| match block {
        Content::Text(text) => Some(types::Content::Text(text.text.clone())),
        Content::Image(image) => {
            Some(types::Content::Image(Image { mime_type: image.mime_type.clone(), data: Vec::new() }))
        }
        _ => None,
    };
    blocks.iter().filter_map(block).collect()
}

/// A reply as a guest reads it.
pub(crate) fn assistant(reply: &AssistantMessage) -> wit::AssistantMessage {
    let block = |block: &Content| match block {
        Content::Text(text) => Some(AssistantBlock::Text(text.text.clone())),
        Content::Thinking(thinking) => Some(AssistantBlock::Thinking(wit::Thinking {
            text: thinking.thinking.clone(),
            signature: thinking.thinking_signature.clone(),
            redacted: thinking.redacted == Some(true),
        })),
        Content::ToolCall(call) => Some(AssistantBlock::ToolCall(wit::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            input: canonical_json(&Value::Object(call.arguments.clone())),
        })),
        _ => None,
    };
    let tokens = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    wit::AssistantMessage {
        blocks: reply.content.iter().filter_map(block).collect(),
        model: format!("{}/{}", reply.provider, reply.model),
        stop_reason: match reply.stop_reason {
            StopReason::Stop | StopReason::Pending => wit::StopReason::Stop,
            StopReason::Length => wit::StopReason::Length,
            StopReason::ToolUse => wit::StopReason::ToolUse,
            StopReason::Error => wit::StopReason::Error,
            StopReason::Aborted => wit::StopReason::Aborted,
        },
        error_message: reply.error_message.clone(),
        usage: wit::Usage {
            input: tokens(reply.usage.input),
            output: tokens(reply.usage.output),
            cache_read: tokens(reply.usage.cache_read),
            cache_write: tokens(reply.usage.cache_write),
        },
        opaque: None,
    }
}

/// What a message is counted as, in bytes of words and pictures.
pub(crate) fn message_bytes(message: &wit::Message) -> usize {
    let of =
        |blocks: &[types::Content]| blocks.iter().map(crate::convert::content_bytes).fold(0, usize::saturating_add);
    match message {
        wit::Message::User(blocks) => of(blocks),
        wit::Message::Assistant(reply) => reply.blocks.iter().map(block_bytes).fold(0, usize::saturating_add),
        wit::Message::Tool(result) => {
            of(&result.content).saturating_add(result.details.as_ref().map_or(0, String::len))
        }
        wit::Message::Custom(custom) => {
            of(&custom.content).saturating_add(custom.details.as_ref().map_or(0, String::len))
        }
    }
}

fn block_bytes(block: &AssistantBlock) -> usize {
    match block {
        AssistantBlock::Text(text) => text.len(),
        AssistantBlock::Thinking(thinking) => {
            thinking.text.len().saturating_add(thinking.signature.as_ref().map_or(0, String::len))
        }
        AssistantBlock::ToolCall(call) => {
            call.id.len().saturating_add(call.name.len()).saturating_add(call.input.len())
        }
    }
}

/// A guest's message, for a model. `provider` and `model` are those that are asked: a reply that the guest gives back is of the same.
///
/// # Errors
/// A call's input that is no JSON object.
pub(crate) fn for_model(message: wit::Message, api: &str, model: &pith_protocol::ModelRef) -> Result<Message, NotJson> {
    Ok(match message {
        wit::Message::User(blocks) => Message::User(UserMessage { content: ours(blocks), timestamp: 0 }),
        wit::Message::Custom(custom) => Message::User(UserMessage { content: ours(custom.content), timestamp: 0 }),
        wit::Message::Tool(result) => Message::ToolResult(ToolResultMessage {
            tool_call_id: result.call_id,
            tool_name: result.tool,
            content: ours(result.content),
            is_error: result.is_error,
            ..ToolResultMessage::default()
        }),
        wit::Message::Assistant(reply) => {
            let mut content = Vec::with_capacity(reply.blocks.len());
            for block in reply.blocks {
                content.push(match block {
                    AssistantBlock::Text(text) => Content::text(text),
                    AssistantBlock::Thinking(thinking) => Content::Thinking(Thinking {
                        thinking: thinking.text,
                        thinking_signature: thinking.signature,
                        redacted: thinking.redacted.then_some(true),
                    }),
                    AssistantBlock::ToolCall(call) => {
                        let Value::Object(arguments) = json("a call's input", &call.input)? else {
                            let why = "it is no object".to_owned();
                            return Err(NotJson { what: "a call's input", why });
                        };
                        Content::ToolCall(ToolCall {
                            id: call.id,
                            name: call.name,
                            arguments,
                            arguments_error: None,
                            thought_signature: None,
                            arguments_text: None,
                        })
                    }
                });
            }
            Message::Assistant(AssistantMessage {
                content,
                api: api.to_owned(),
                provider: model.provider.clone(),
                model: model.id.clone(),
                stop_reason: StopReason::Stop,
                usage: Usage::default(),
                ..AssistantMessage::default()
            })
        }
    })
}

fn ours(blocks: Vec<types::Content>) -> Vec<Content> {
    let block = |block| match block {
        types::Content::Text(text) => Content::Text(Text { text, text_signature: None }),
        types::Content::Image(image) if image.data.is_empty() => Content::text(format!("[{}]", image.mime_type)),
        types::Content::Image(image) => {
            Content::Image(Picture { data: STANDARD.encode(&image.data), mime_type: image.mime_type })
        }
        types::Content::File(file) => {
            Content::text(format!("[file {}, {}, {} bytes]", file.name, file.mime_type, file.data.len()))
        }
    };
    blocks.into_iter().map(block).collect()
}
