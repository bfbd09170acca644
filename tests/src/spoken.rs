//! What a session file says, and what a model is told of one, in lines that a test compares.

use crate::home::Home;
use serde_json::Value;
use std::path::Path;

/// The entries root -> last entry.
///
/// # Panics
/// Where a line is no JSON.
#[track_caller]
pub fn path_of(file: &Path) -> Vec<Value> {
    let entries = Home::entries(file);
    let mut path: Vec<Value> = Vec::new();
    let mut next = entries.last().cloned();
    while let Some(entry) = next {
        next = entries.iter().find(|one| one["id"] == entry["parentId"] && entry["parentId"].is_string()).cloned();
        path.push(entry);
    }
    path.reverse();
    path
}

/// What a path says, an entry a line: of each text its last line, thoughts in round brackets, pictures in square ones, `!` after the role of a
/// result that is an error.
pub fn said(path: &[Value]) -> Vec<String> {
    path.iter()
        .filter_map(|entry| match entry["type"].as_str()? {
            "message" => {
                let message = &entry["message"];
                let blocks = message["content"].as_array()?.iter().map(|block| match block["type"].as_str() {
                    Some("toolCall") => format!("{}{}", block["name"].as_str().unwrap_or_default(), block["arguments"]),
                    Some("thinking") => format!("({})", block["thinking"].as_str().unwrap_or_default()),
                    Some("image") => format!("[{}]", block["mimeType"].as_str().unwrap_or_default()),
                    _ => block["text"].as_str().unwrap_or_default().lines().next_back().unwrap_or_default().to_owned(),
                });
                let error = if message["isError"] == true { "!" } else { "" };
                let text = blocks.collect::<Vec<_>>().join(" ");
                Some(format!("{}{error}: {text}", message["role"].as_str()?))
            }
            "compaction" => Some(format!("compaction: {}", entry["summary"].as_str()?.lines().next_back()?)),
            _ => None,
        })
        .collect()
}

/// What a request on the wire `openai-completions` tells the model, the system prompt apart: role, text, calls, and which call a result is of.
/// Of a text that has `summary` in it only that it is one: each program has words of its own around it, as around a command of the user's and a
/// plugin's message.
pub fn told(request: &Value, summary: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for message in request["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        if matches!(role, "system" | "developer") {
            continue;
        }
        let text = text_of(message);
        let text = if text.contains(summary) { "a summary".to_owned() } else { text };
        let text = text.replacen("The user ran `", "Ran `", 1).replacen("`:\n", "`\n", 1);
        let framed = text.strip_prefix("[message from plugin ").and_then(|rest| rest.split_once("]\n"));
        let text = framed.map_or(text.as_str(), |(_, text)| text);
        let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!(" {}={}{arguments}", text(&call["id"]), text(&call["function"]["name"]))
        });
        let of = message["tool_call_id"].as_str().map(|id| format!(" of {id}")).unwrap_or_default();
        out.push(format!("{role}{of}: {}{}", text.trim(), calls.collect::<String>()));
    }
    out
}

/// The words of a message, whether they stand in blocks or alone.
pub fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}
