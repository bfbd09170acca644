//! Codex's rollouts: JSON lines, each with a `type` and a `payload`; the conversation is its `response_item`s, in their order.

use super::draft::{Draft, picture_at, priced, thoughts};
use pith_protocol::{
    AssistantMessage, Content, EntryBody, EntryId, Message, StopReason, ToolCall, ToolResultMessage, Usage, UserMessage,
};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// What the program says to the model in the user's name begins with one of these, in versions that do not say so otherwise.
const HARNESS: [&str; 8] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<skills_instructions>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
];

/// What of the user's words a compaction repeats, in bytes.
const KEPT_WORDS_LIMIT_BYTES: usize = 64 << 10;

/// Whether a line is one of a rollout.
pub(super) fn is_line(line: &Value) -> bool {
    let kind = line["type"].as_str().unwrap_or_default();
    let is_known = matches!(kind, "session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted");
    is_known && line["payload"].is_object()
}

/// A reply and its results, until the next one begins: the program says late what it took.
struct Reply {
    time: i64,
    message: AssistantMessage,
    results: Vec<(i64, ToolResultMessage)>,
    has_usage: bool,
}

#[derive(Default)]
pub(super) struct Codex {
    provider: String,
    model: String,
    effort: Option<String>,
    reply: Option<Reply>,
    /// The tool of each call.
    calls: HashMap<String, String>,
    /// Where each of the user's messages of the path hangs.
    turns: Vec<Option<EntryId>>,
    /// Each request's tokens have a line of their own.
    has_records: bool,
    has_meta: bool,
}

impl Codex {
    pub fn line(&mut self, line: &Value, draft: &mut Draft) {
        let time = draft.time(&line["timestamp"]);
        let payload = &line["payload"];
        match line["type"].as_str().unwrap_or_default() {
            // Further ones are those of the sessions that this one goes on from.
            "session_meta" if !self.has_meta => {
                self.has_meta = true;
                let text = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
                (draft.id, draft.cwd, self.provider) = (text("id"), text("cwd"), text("model_provider"));
                if self.provider.is_empty() {
                    self.provider = "openai".to_owned();
                }
                if !payload["base_instructions"].is_null() || !payload["instructions"].is_null() {
                    draft.leave_out("instructions to the model");
                }
            }
            "turn_context" => {
                if let Some(model) = payload["model"].as_str() {
                    model.clone_into(&mut self.model);
                }
                self.effort = payload["effort"].as_str().map(str::to_owned);
            }
            "response_item" => self.item(payload, time, draft),
            "token_usage_record" => {
                self.has_records = true;
                self.used(&payload["usage"]);
            }
            "compacted" => self.compacted(payload, time, draft),
            "event_msg" => self.event(payload, draft),
            "session_meta" | "world_state" | "ghost_snapshot" => {}
            _ => draft.leave_out("lines of unknown types"),
        }
    }

    /// All that is still open.
    pub fn finish(&mut self, draft: &mut Draft) {
        let Some(Reply { time, mut message, results, .. }) = self.reply.take() else { return };
        let has_calls = message.tool_calls().next().is_some();
        message.stop_reason = if has_calls { StopReason::ToolUse } else { StopReason::Stop };
        message.usage = priced(&message.provider, &message.model, std::mem::take(&mut message.usage), 0);
        draft.push(draft.leaf(), time, EntryBody::from(Message::Assistant(message)), false);
        for (time, result) in results {
            draft.push(draft.leaf(), time, Message::ToolResult(result).into(), false);
        }
    }

    fn event(&mut self, payload: &Value, draft: &mut Draft) {
        match payload["type"].as_str().unwrap_or_default() {
            "token_count" if !self.has_records => self.used(&payload["info"]["last_token_usage"]),
            "thread_name_updated" => {
                let name = payload["thread_name"].as_str().or(payload["name"].as_str());
                draft.name = name.map(str::to_owned).or(draft.name.take());
            }
            "thread_rolled_back" => {
                self.finish(draft);
                let turns = payload["num_turns"].as_u64().and_then(|turns| usize::try_from(turns).ok()).unwrap_or(1);
                let left = self.turns.len().saturating_sub(turns);
                if let Some(parent) = self.turns.get(left).cloned() {
                    self.turns.truncate(left);
                    draft.go_to(parent);
                }
            }
            _ => {}
        }
    }

    fn used(&mut self, usage: &Value) {
        let Some(reply) = &mut self.reply else { return };
        if usage.is_null() || std::mem::replace(&mut reply.has_usage, true) {
            return;
        }
        let count = |name: &str| usage[name].as_u64().unwrap_or_default();
        let (read, written) = (count("cached_input_tokens"), count("cache_write_input_tokens"));
        reply.message.usage = Usage {
            input: count("input_tokens").saturating_sub(read).saturating_sub(written),
            output: count("output_tokens"),
            cache_read: read,
            cache_write: written,
            reasoning: usage["reasoning_output_tokens"].as_u64().filter(|tokens| *tokens > 0),
            ..Usage::default()
        };
    }

    /// The open reply, for something more that the model said. After results it is another one.
    fn said(&mut self, content: Content, time: i64, draft: &mut Draft) {
        if self.reply.as_ref().is_some_and(|reply| !reply.results.is_empty() || reply.has_usage) {
            self.finish(draft);
        }
        let reply = self.reply.get_or_insert_with(|| Reply {
            time,
            message: AssistantMessage {
                api: "openai-responses".to_owned(),
                provider: self.provider.clone(),
                model: self.model.clone(),
                timestamp: time,
                thinking_level: self.effort.clone(),
                ..AssistantMessage::default()
            },
            results: Vec::new(),
            has_usage: false,
        });
        reply.message.content.push(content);
    }

    fn item(&mut self, item: &Value, time: i64, draft: &mut Draft) {
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        match text("type") {
            "message" => match text("role") {
                "user" => self.user(item, time, draft),
                "assistant" => {
                    let words: Vec<Content> = texts(&item["content"]).map(Content::text).collect();
                    words.into_iter().for_each(|words| self.said(words, time, draft));
                }
                _ => draft.leave_out("instructions to the model"),
            },
            "reasoning" => {
                let shown = |name: &str| {
                    let parts = item[name].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
                    parts.collect::<Vec<_>>().join("\n\n")
                };
                let whole = shown("content");
                match thoughts(if whole.is_empty() { shown("summary") } else { whole }.as_str()) {
                    Some(thoughts) => self.said(thoughts, time, draft),
                    None => draft.leave_out("thoughts that are not shown"),
                }
            }
            "function_call" => {
                let (arguments, error) = match serde_json::from_str(text("arguments")) {
                    Ok(Value::Object(arguments)) => (arguments, None),
                    _ => (Map::new(), Some("what the model sent is no JSON object".to_owned())),
                };
                self.call(item, text("name"), arguments, error, time, draft);
            }
            "custom_tool_call" => {
                let arguments = Map::from_iter([("input".to_owned(), item["input"].clone())]);
                self.call(item, text("name"), arguments, None, time, draft);
            }
            "local_shell_call" => {
                let arguments = item["action"].as_object().cloned().unwrap_or_default();
                self.call(item, "local_shell", arguments, None, time, draft);
            }
            "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
                self.result(item, time, draft);
            }
            "ghost_snapshot" => {}
            _ => draft.leave_out("items of unknown types"),
        }
    }

    fn user(&mut self, item: &Value, time: i64, draft: &mut Draft) {
        let mut said = Vec::new();
        let sources = &item["internal_chat_message_metadata_passthrough"]["content_item_metadata"];
        for (index, block) in item["content"].as_array().into_iter().flatten().enumerate() {
            let is_harness = sources[index]["provenance"]["type"] == "harness";
            match (block["type"].as_str().unwrap_or_default(), block["text"].as_str().unwrap_or_default()) {
                _ if is_harness => draft.leave_out("notes of the program to the model"),
                ("input_image", _) => match picture_at(block["image_url"].as_str().unwrap_or_default()) {
                    Some(picture) => said.push(picture),
                    None => draft.leave_out("pictures that are damaged or elsewhere"),
                },
                ("input_text", text) if is_of_user(text) => said.push(Content::text(text)),
                ("input_text", "</image>") => {}
                ("input_text", text) if text.starts_with("<image") => {}
                ("input_text", _) => draft.leave_out("notes of the program to the model"),
                _ => draft.leave_out("blocks of unknown types"),
            }
        }
        if said.is_empty() {
            return;
        }
        self.finish(draft);
        self.turns.push(draft.leaf());
        draft.push(draft.leaf(), time, Message::User(UserMessage { content: said, timestamp: time }).into(), false);
    }

    fn call(
        &mut self,
        item: &Value,
        name: &str,
        arguments: Map<String, Value>,
        error: Option<String>,
        time: i64,
        draft: &mut Draft,
    ) {
        let id = item["call_id"].as_str().or(item["id"].as_str()).unwrap_or_default().to_owned();
        self.calls.insert(id.clone(), name.to_owned());
        let call = ToolCall {
            id,
            name: name.to_owned(),
            arguments,
            arguments_error: error,
            thought_signature: None,
            arguments_text: None,
        };
        // Parallel calls of one reply come one after the other, and their results after them.
        self.said(Content::ToolCall(call), time, draft);
    }

    fn result(&mut self, item: &Value, time: i64, draft: &mut Draft) {
        let id = item["call_id"].as_str().unwrap_or_default();
        let Some(name) = self.calls.get(id).cloned() else {
            return draft.leave_out("results without a call");
        };
        let mut exit = None;
        let mut content = Vec::new();
        let output = if item["output"]["content"].is_null() { &item["output"] } else { &item["output"]["content"] };
        match output {
            Value::String(text) => {
                let (text, code) = printed(text);
                exit = code;
                content.push(Content::text(text));
            }
            Value::Array(blocks) => {
                for block in blocks {
                    match (block["text"].as_str(), block["image_url"].as_str().and_then(picture_at)) {
                        (Some(text), _) => content.push(Content::text(text)),
                        (None, Some(picture)) => content.push(picture),
                        (None, None) => draft.leave_out("blocks of unknown types"),
                    }
                }
            }
            _ => draft.leave_out("blocks of unknown types"),
        }
        let result = ToolResultMessage {
            tool_call_id: id.to_owned(),
            tool_name: name,
            content,
            is_error: exit.is_some_and(|code| code != 0) || item["output"]["success"] == false,
            timestamp: time,
            ..ToolResultMessage::default()
        };
        match &mut self.reply {
            Some(reply) if reply.message.tool_calls().any(|call| call.id == id) => reply.results.push((time, result)),
            _ => {
                self.finish(draft);
                draft.push(draft.leaf(), time, Message::ToolResult(result).into(), false);
            }
        }
    }

    /// The model's summary, which stands before as a reply of its own, and what the user said, which Codex keeps word for word beside it.
    fn compacted(&mut self, payload: &Value, time: i64, draft: &mut Draft) {
        let summary = payload["message"].as_str().unwrap_or_default();
        if summary.trim().is_empty() {
            self.finish(draft);
            return draft.leave_out("compactions whose summary is encrypted");
        }
        let is_summary = |reply: &Reply| {
            let text = reply.message.text();
            reply.results.is_empty() && !text.is_empty() && summary.ends_with(&text)
        };
        let usage = self.reply.take_if(|reply| is_summary(reply)).map(|reply| {
            let AssistantMessage { provider, model, usage, .. } = reply.message;
            priced(&provider, &model, usage, 0)
        });
        self.finish(draft);
        let mut kept = String::new();
        for item in payload["replacement_history"].as_array().into_iter().flatten() {
            let is_users = item["type"] == "message" && item["role"] == "user";
            let words: Vec<&str> = texts(&item["content"]).filter(|text| is_users && is_of_user(text)).collect();
            let words = words.join("\n");
            if !words.is_empty() && words != summary && kept.len().saturating_add(words.len()) < KEPT_WORDS_LIMIT_BYTES
            {
                kept.push_str(&format!("- {words}\n"));
            }
        }
        let summary = if kept.is_empty() { summary.to_owned() } else { format!("The user said:\n{kept}\n{summary}") };
        draft.compact(draft.leaf(), time, summary, None, 0, usage);
    }
}

/// Words of the user, and not of the program in the user's name.
fn is_of_user(text: &str) -> bool {
    let frames_picture = text == "</image>" || (text.starts_with("<image") && text.ends_with('>'));
    !frames_picture && !HARNESS.iter().any(|start| text.trim_start().starts_with(start))
}

fn texts(content: &Value) -> impl Iterator<Item = &str> {
    content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str()).filter(|text| !text.is_empty())
}

/// What a command printed, and how it ended, by the two forms in which Codex says so.
fn printed(output: &str) -> (String, Option<i64>) {
    if let Ok(Value::Object(whole)) = serde_json::from_str::<Value>(output)
        && let Some(text) = whole.get("output").and_then(Value::as_str)
    {
        let code = whole.get("metadata").and_then(|data| data["exit_code"].as_i64());
        return (text.to_owned(), code);
    }
    let head = output.split_once("\nOutput:\n").map(|(head, _)| head).unwrap_or_default();
    let ended = head.lines().find_map(|line| line.strip_prefix("Process exited with code ")?.trim().parse().ok());
    (output.to_owned(), ended)
}
