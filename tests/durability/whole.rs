//! What is asked of every session file, whatever happened to its writer.

use pith_core::{LoadedTree, TreeReader};
use serde_json::{Value, json};
use std::{collections::HashSet, fs, path::Path};

/// A session file, read as Pith reads it.
pub struct Whole {
    pub loaded: LoadedTree,
    /// The messages of its whole lines.
    pub messages: Vec<Value>,
    /// What was wrong with it.
    pub said: Vec<String>,
}

/// Reads a session file, which must open. Only an entry that was cut off may be wrong with it, and no result is without its call.
#[track_caller]
pub fn whole(file: &Path) -> Whole {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut reader = TreeReader::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        reader.push_line(text, text.len() < line.len()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
    let loaded = reader.finish().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let said: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    for line in &said {
        let is_torn = ["ends in the middle", "(no entry)", "torn entry"].iter().any(|words| line.contains(words));
        assert!(is_torn, "{}: {line}", file.display());
    }
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let messages: Vec<Value> =
        lines.filter(|entry| entry["type"] == "message").map(|entry| entry["message"].clone()).collect();
    let mut called = HashSet::new();
    for message in &messages {
        for block in message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "toolCall") {
            called.insert(block["id"].clone());
        }
        let is_result = message["role"] == "toolResult";
        assert!(
            !is_result || called.contains(&message["toolCallId"]),
            "{}: a result without its call: {message}",
            file.display()
        );
    }
    Whole { loaded, messages, said }
}

/// The messages that a run in `--mode json` had told before its end, whole lines only.
pub fn told(stdout: &str) -> Vec<Value> {
    let lines = stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["type"] == "message_end").map(|event| event["message"].clone()).collect()
}

/// All that was told is in the file.
#[track_caller]
pub fn has_all(file: &Path, told: &[Value]) {
    let whole = whole(file);
    for message in told {
        assert!(whole.messages.contains(message), "{}: lost: {message}", file.display());
    }
}

/// Replies with calls, `turns` of them, and an answer. Nothing is asked of a process.
pub fn busy(turns: usize) -> Value {
    let calls = |turn: usize| {
        let call = |n: usize, name: &str, arguments: Value| json!({ "id": format!("call-{turn}-{n}"), "name": name, "arguments": arguments });
        json!({ "text": format!("turn {turn}"), "calls": [
            call(0, "write", json!({ "path": format!("file-{turn}"), "content": "words ".repeat(200) })),
            call(1, "ls", json!({})),
            call(2, "read", json!({ "path": "given" })),
        ] })
    };
    let mut replies: Vec<Value> = (0..turns).map(calls).collect();
    replies.push(json!({ "text": "all done" }));
    Value::Array(replies)
}
