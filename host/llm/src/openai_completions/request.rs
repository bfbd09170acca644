//! From a request of ours to the body of one of theirs.

use super::THINKING_FIELDS;
use crate::{
    Target,
    replay::{self, IdLaw, Part, Said, Turn},
};
use pith_core::ModelRequest;
use pith_protocol::ToolDeclaration;
use serde_json::{Map, Value, json};

const IDS: IdLaw = IdLaw { limit: 40, hashed: true, printable: true };

/// The longest cache key that the provider takes, in characters.
const CACHE_KEY_LIMIT_CHARS: usize = 64;

/// The body of `POST /chat/completions`.
pub fn completions_body(target: &Target, request: &ModelRequest) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(target.card.model.id));
    body.insert("stream".to_owned(), json!(true));
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    // Where the window is only assumed, a server whose window is smaller would refuse what is assumed to fit.
    if target.is_known || request.output_tokens.is_some() {
        let field = if target.is_official { "max_completion_tokens" } else { "max_tokens" };
        body.insert(field.to_owned(), json!(target.fitted_output(request)));
    }
    if let Some(effort) = target.effort(request.thinking) {
        body.insert("reasoning_effort".to_owned(), json!(effort));
    }
    if let Some(key) = request.cache_key.as_deref().filter(|key| target.is_official && !key.is_empty()) {
        let key: String = key.chars().take(CACHE_KEY_LIMIT_CHARS).collect();
        body.insert("prompt_cache_key".to_owned(), json!(key));
    }
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    let mut messages = Vec::new();
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|section| !section.trim().is_empty()).collect();
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system.join("\n\n")}));
    }
    push_turns(&replay::turns(&target.card, request, IDS), &mut messages);
    body.insert("messages".to_owned(), Value::Array(messages));
    Value::Object(body)
}

fn tool(tool: &ToolDeclaration) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    })
}

fn push_turns(turns: &[Turn<'_>], messages: &mut Vec<Value>) {
    let mut images: Vec<&Part<'_>> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        match turn {
            Turn::User(parts) => messages.push(json!({"role": "user", "content": user_content(parts)})),
            Turn::Assistant(said) => messages.extend(assistant(said)),
            Turn::Result { id, parts, .. } => {
                let words = joined(parts);
                let found = images.len();
                images.extend(parts.iter().filter(|part| matches!(part, Part::Image { .. })));
                let content = match (words.is_empty(), images.len() > found) {
                    (false, _) => words,
                    (true, true) => "(see attached image)".to_owned(),
                    (true, false) => "(no tool output)".to_owned(),
                };
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
                // A tool message holds words only; what pictures there were follows all results of the turn.
                let is_last = !matches!(turns.get(at + 1), Some(Turn::Result { .. }));
                if is_last && !images.is_empty() {
                    let mut content = vec![json!({"type": "text", "text": "Attached image(s) from tool result:"})];
                    content.extend(images.drain(..).map(part_block));
                    messages.push(json!({"role": "user", "content": content}));
                }
            }
        }
    }
}

/// A string where there are words only: not every look-alike reads lists.
fn user_content(parts: &[Part<'_>]) -> Value {
    if parts.iter().any(|part| matches!(part, Part::Image { .. })) {
        parts.iter().map(part_block).collect()
    } else {
        json!(joined(parts))
    }
}

fn joined(parts: &[Part<'_>]) -> String {
    let words: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(*text),
            Part::Image { .. } => None,
        })
        .collect();
    words.join("\n")
}

fn part_block(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image { data, mime_type } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{mime_type};base64,{data}")}})
        }
    }
}

/// None where nothing is left to send.
fn assistant(said: &[Said<'_>]) -> Option<Value> {
    let mut words = String::new();
    let mut calls = Vec::new();
    let mut thoughts: Vec<(&str, String)> = Vec::new();
    for block in said {
        match block {
            Said::Text(text) => words.push_str(text),
            Said::Call { id, name, arguments } => calls.push(json!({
                "id": id,
                "type": "function",
                "function": {"name": name, "arguments": Value::Object((*arguments).clone()).to_string()},
            })),
            // Thoughts go back in the field that they came in, or not at all.
            Said::Thinking(thinking) => {
                let field = thinking.thinking_signature.as_deref();
                let Some(field) = THINKING_FIELDS.into_iter().find(|known| Some(*known) == field) else { continue };
                match thoughts.iter_mut().find(|(known, _)| *known == field) {
                    Some((_, text)) => text.push_str(&thinking.thinking),
                    None => thoughts.push((field, thinking.thinking.clone())),
                }
            }
        }
    }
    if words.is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = json!({"role": "assistant", "content": words});
    for (field, text) in thoughts {
        message[field] = json!(text);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    Some(message)
}
