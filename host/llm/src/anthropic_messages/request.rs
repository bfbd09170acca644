//! From a request of ours to the body of one of theirs.

use crate::{
    Target,
    replay::{self, IdLaw, Part, Said, Turn},
    target::Asked,
};
use pith_core::ModelRequest;
use pith_protocol::ToolDeclaration;
use serde_json::{Map, Value, json};

const IDS: IdLaw = IdLaw { limit: 64, hashed: false, printable: false };

/// The least budget for thoughts that the provider takes, in tokens; also what is kept for the answer.
const LEAST_TOKENS: u64 = 1_024;

/// The body of `POST /v1/messages`.
pub fn messages_body(target: &Target, request: &ModelRequest) -> Value {
    let mut turns = replay::turns(&target.card, request, IDS);
    let max_tokens = target.fitted_output(request);
    let asked = target.asked_thinking(request.thinking);
    if asked == Asked::Disabled {
        without_thoughts(&mut turns);
    }
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(target.card.model.id));
    body.insert("max_tokens".to_owned(), json!(max_tokens));
    body.insert("stream".to_owned(), json!(true));
    let mut system: Vec<Value> = request
        .system
        .iter()
        .filter(|section| !section.trim().is_empty())
        .map(|section| json!({"type": "text", "text": section}))
        .collect();
    mark(system.last_mut());
    if !system.is_empty() {
        body.insert("system".to_owned(), Value::Array(system));
    }
    ask_for_thoughts(&mut body, asked, max_tokens, &turns);
    if !request.tools.is_empty() {
        let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
        mark(tools.last_mut());
        body.insert("tools".to_owned(), Value::Array(tools));
    }
    let mut messages = messages(&turns);
    let last_user = messages.iter_mut().rev().find(|message| message["role"] == "user");
    mark(last_user.and_then(|message| message["content"].as_array_mut()).and_then(|blocks| blocks.last_mut()));
    body.insert("messages".to_owned(), Value::Array(messages));
    Value::Object(body)
}

/// What a body asks for that needs a header, `anthropic-beta`.
pub(crate) fn beta(body: &Value) -> Option<&'static str> {
    let thinking = body.get("thinking")?;
    match thinking.get("type").and_then(Value::as_str) {
        // Thoughts between calls; adaptive models have them by themselves.
        Some("enabled") if body.get("tools").is_some() => Some("interleaved-thinking-2025-05-14"),
        _ => thinking.get("block_binding").map(|_| "thinking-binding-controls-2026-08-01"),
    }
}

/// Everything up to here is worth caching.
fn mark(block: Option<&mut Value>) {
    if let Some(Value::Object(block)) = block {
        block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
}

fn ask_for_thoughts(body: &mut Map<String, Value>, asked: Asked, max_tokens: u64, turns: &[Turn<'_>]) {
    let thinking = match asked {
        Asked::Nothing => return,
        Asked::Disabled => json!({"type": "disabled"}),
        Asked::Budget(budget) => {
            let budget = budget.min(max_tokens.saturating_sub(LEAST_TOKENS));
            if budget < LEAST_TOKENS || !can_think(turns) {
                return;
            }
            json!({"type": "enabled", "budget_tokens": budget})
        }
        Asked::Adaptive { effort, is_bound } => {
            body.insert("output_config".to_owned(), json!({"effort": effort}));
            // The newer models send no words of their thoughts unless they are asked to.
            let mut thinking = json!({"type": "adaptive", "display": "summarized"});
            // A compaction or an edit changes what stood before a thought: it is worth less than the conversation.
            if is_bound {
                thinking["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
            }
            thinking
        }
    };
    body.insert("thinking".to_owned(), thinking);
}

/// A reply of thoughts alone stays: what is left of it must not be nothing.
fn without_thoughts(turns: &mut [Turn<'_>]) {
    for turn in turns {
        if let Turn::Assistant(said) = turn
            && said.iter().any(|block| !matches!(block, Said::Thinking(_)))
        {
            said.retain(|block| !matches!(block, Said::Thinking(_)));
        }
    }
}

/// A reply that was begun without thoughts (by another model, or before thinking was switched on) must be ended without: the
/// provider refuses thinking where the reply that results follow does not begin with thoughts.
fn can_think(turns: &[Turn<'_>]) -> bool {
    let since = turns.iter().rposition(|turn| matches!(turn, Turn::User(_))).map_or(0, |at| at + 1);
    let first = turns[since..].iter().find_map(|turn| match turn {
        Turn::Assistant(said) => Some(said),
        _ => None,
    });
    first.is_none_or(|said| match said.first() {
        Some(Said::Thinking(thinking)) => thinking.thinking_signature.is_some(),
        _ => false,
    })
}

fn tool(tool: &ToolDeclaration) -> Value {
    let mut schema = tool.parameters.clone();
    if let Some(schema) = schema.as_object_mut() {
        schema.entry("type").or_insert_with(|| json!("object"));
    }
    json!({"name": tool.name, "description": tool.description, "input_schema": schema})
}

fn messages(turns: &[Turn<'_>]) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut turns = turns.iter().peekable();
    while let Some(turn) = turns.next() {
        match turn {
            Turn::User(parts) => messages.push(json!({"role": "user", "content": blocks(parts)})),
            Turn::Assistant(said) => {
                let content: Vec<Value> = said.iter().map(said_block).collect();
                messages.push(json!({"role": "assistant", "content": content}));
            }
            Turn::Result { .. } => {
                let mut content = Vec::new();
                let mut later = Vec::new();
                let mut result = Some(turn);
                while let Some(Turn::Result { id, parts, is_error }) = result {
                    content.push(result_block(id, parts, *is_error, &mut later));
                    result = turns.next_if(|turn| matches!(turn, Turn::Result { .. }));
                }
                content.append(&mut later);
                messages.push(json!({"role": "user", "content": content}));
            }
        }
    }
    messages
}

fn said_block(said: &Said<'_>) -> Value {
    match said {
        Said::Text(text) => json!({"type": "text", "text": text}),
        Said::Thinking(thinking) => match &thinking.thinking_signature {
            Some(data) if thinking.redacted == Some(true) => json!({"type": "redacted_thinking", "data": data}),
            Some(signature) => json!({"type": "thinking", "thinking": thinking.thinking, "signature": signature}),
            // Thoughts without proof are not taken as thoughts.
            None => json!({"type": "text", "text": thinking.thinking}),
        },
        Said::Call { id, name, arguments } => json!({"type": "tool_use", "id": id, "name": name, "input": arguments}),
    }
}

/// Pictures of a failed result stand after all results: in it the provider takes words only.
fn result_block(id: &str, parts: &[Part<'_>], is_error: bool, later: &mut Vec<Value>) -> Value {
    let is_image = |part: &&Part<'_>| matches!(part, Part::Image { .. });
    let mut content = blocks(parts);
    if is_error && parts.iter().any(|part| is_image(&part)) {
        content.retain(|block| block["type"] == "text");
        later.push(json!({"type": "text", "text": format!("Images of the failed result {id}:")}));
        later.extend(parts.iter().filter(is_image).map(block));
    }
    if content.is_empty() {
        content.push(
            json!({"type": "text", "text": if parts.is_empty() { "(no tool output)" } else { "(see attached image)" }}),
        );
    }
    let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
    if is_error {
        result["is_error"] = json!(true);
    }
    result
}

fn blocks(parts: &[Part<'_>]) -> Vec<Value> {
    parts.iter().map(block).collect()
}

fn block(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image { data, mime_type } => {
            json!({"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data}})
        }
    }
}
