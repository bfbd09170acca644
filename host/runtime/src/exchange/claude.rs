//! Claude Code's transcripts: JSON lines that hang together by `uuid` and `parentUuid`.
//!
//! A reply is a line for each of its blocks, all with one message id; each result hangs from the line of its own call, so the file's tree forks
//! at parallel calls where the conversation does not. Here a reply and its results are one chain, and what hangs from any of them goes on
//! from its end. Branches stay where the user went back, and where a subagent's conversation (`isSidechain`) stands in the same file.

use super::draft::{Draft, picture, priced, thoughts};
use pith_protocol::{
    AssistantMessage, Content, EntryBody, EntryId, Message, StopReason, ToolCall, ToolResultMessage, Usage, UserMessage,
};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Lines that users do not write and models do not read; what else has no place here is counted.
const SILENT: [&str; 13] = [
    "queue-operation",
    "last-prompt",
    "mode",
    "permission-mode",
    "atis-latch",
    "tools-used",
    "cost-state",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "file-history-snapshot",
    "progress",
    "agent-name",
];

/// Whether a line is one of these transcripts.
pub(super) fn is_line(line: &Value) -> bool {
    let is_chained = line["uuid"].is_string() && line.get("parentUuid").is_some() && line["sessionId"].is_string();
    let is_title = line["type"] == "summary" && line["leafUuid"].is_string();
    let is_beside = line["sessionId"].is_string() && line["type"].as_str().is_some_and(|kind| SILENT.contains(&kind));
    is_chained || is_title || is_beside
}

/// Whether it is of a subagent.
pub(super) fn is_aside(line: &Value) -> bool {
    line["isSidechain"] == true
}

/// What a line became.
#[derive(Clone)]
enum Spot {
    /// An entry; none: before the first.
    Entry(Option<EntryId>),
    /// A reply.
    Reply(usize),
    /// A result of this reply.
    Result(usize),
}

/// A reply and its results, until something goes on from them.
struct Reply {
    parent: Option<EntryId>,
    message_id: String,
    time: i64,
    is_aside: bool,
    message: AssistantMessage,
    written_for_an_hour: u64,
    results: Vec<(i64, ToolResultMessage)>,
    /// In the draft: its last entry.
    end: Option<Option<EntryId>>,
}

#[derive(Default)]
pub(super) struct Claude {
    spots: HashMap<String, Spot>,
    replies: Vec<Reply>,
    /// All before this one are in the draft.
    first_open: usize,
    /// The open reply of each message id.
    open: HashMap<String, usize>,
    /// The tool of each call, and the reply that asked for it.
    calls: HashMap<String, (String, usize)>,
    /// Of a compaction whose summary is in the next line: where it stands, the first that is kept, tokens before it.
    boundary: Option<(Option<EntryId>, Option<EntryId>, u64)>,
    has_own_title: bool,
}

impl Claude {
    pub fn line(&mut self, line: &Value, draft: &mut Draft) {
        let text = |name: &str| line[name].as_str();
        if draft.id.is_empty() {
            text("sessionId").unwrap_or_default().clone_into(&mut draft.id);
        }
        if draft.cwd.is_empty() {
            text("cwd").unwrap_or_default().clone_into(&mut draft.cwd);
        }
        match text("type").unwrap_or_default() {
            "user" => self.user(line, draft),
            "assistant" => self.assistant(line, draft),
            "system" if line["subtype"] == "compact_boundary" => self.compacted(line, draft),
            "custom-title" => {
                draft.name = text("customTitle").map(str::to_owned);
                self.has_own_title = true;
            }
            "ai-title" if !self.has_own_title => draft.name = text("aiTitle").map(str::to_owned),
            "summary" if !self.has_own_title => draft.name = text("summary").map(str::to_owned),
            kind => {
                match kind {
                    "attachment" if line["attachment"]["type"] == "file" => {
                        draft.leave_out("files that were attached");
                    }
                    "attachment" => draft.leave_out("notes of the program to the model"),
                    "system" => draft.leave_out("notes of the program to the user"),
                    kind if SILENT.contains(&kind) => {}
                    _ => draft.leave_out("lines of unknown types"),
                }
                self.pass(line);
            }
        }
    }

    /// All that is still open.
    pub fn finish(&mut self, draft: &mut Draft) {
        for index in self.first_open..self.replies.len() {
            self.close(index, draft);
        }
        self.first_open = self.replies.len();
    }

    /// A line that becomes nothing: what hangs from it hangs from its parent.
    fn pass(&mut self, line: &Value) {
        let (Some(id), parent) = (line["uuid"].as_str(), line["parentUuid"].as_str()) else { return };
        let spot = parent.and_then(|parent| self.spots.get(parent).cloned());
        let spot = spot.or_else(|| parent.is_none().then_some(Spot::Entry(None)));
        if let Some(spot) = spot {
            self.spots.insert(id.to_owned(), spot);
        }
    }

    fn is(&mut self, line: &Value, spot: Spot) {
        if let Some(id) = line["uuid"].as_str() {
            self.spots.insert(id.to_owned(), spot);
        }
    }

    /// The entry that what names this parent goes on from.
    fn parent(&mut self, parent: &Value, draft: &mut Draft) -> Option<EntryId> {
        match parent.as_str() {
            None => None,
            Some(parent) => match self.spots.get(parent).cloned() {
                Some(Spot::Entry(entry)) => entry,
                Some(Spot::Reply(index) | Spot::Result(index)) => self.close(index, draft),
                // It was lost.
                None => {
                    self.finish(draft);
                    draft.leaf()
                }
            },
        }
    }

    /// The reply and its results go into the draft, if they are not there; gives the last of them.
    fn close(&mut self, index: usize, draft: &mut Draft) -> Option<EntryId> {
        let reply = self.replies.get_mut(index)?;
        if let Some(end) = &reply.end {
            return end.clone();
        }
        let message = &mut reply.message;
        let has_calls = message.tool_calls().next().is_some();
        if message.stop_reason == StopReason::Pending {
            message.stop_reason = if has_calls { StopReason::ToolUse } else { StopReason::Stop };
        }
        message.usage =
            priced(&message.provider, &message.model, std::mem::take(&mut message.usage), reply.written_for_an_hour);
        let body = EntryBody::from(Message::Assistant(std::mem::take(message)));
        let mut end = reply.parent.clone();
        let pushed = draft.push(end.clone(), reply.time, body, reply.is_aside);
        end = pushed.or(end);
        for (time, result) in std::mem::take(&mut reply.results) {
            let pushed = draft.push(end.clone(), time, Message::ToolResult(result).into(), reply.is_aside);
            end = pushed.or(end);
        }
        reply.end = Some(end.clone());
        if self.open.get(&reply.message_id) == Some(&index) {
            self.open.remove(&reply.message_id);
        }
        end
    }

    fn user(&mut self, line: &Value, draft: &mut Draft) {
        let time = draft.time(&line["timestamp"]);
        let content = &line["message"]["content"];
        if line["isCompactSummary"] == true {
            let summary = content.as_str().map(str::to_owned).unwrap_or_else(|| {
                let blocks = self.blocks(content, draft);
                blocks.iter().filter_map(Content::as_text).collect()
            });
            let (parent, first_kept, tokens) = match self.boundary.take() {
                Some(boundary) => boundary,
                None => (self.parent(&line["parentUuid"], draft), None, 0),
            };
            let made = draft.compact(parent, time, summary, first_kept, tokens, None);
            return self.is(line, Spot::Entry(made));
        }
        if is_note(content.as_str().unwrap_or_default()) {
            draft.leave_out("commands of the program");
            return self.pass(line);
        }
        let mut at = None;
        for block in content.as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result") {
            at = Some(self.result(block, line, time, draft));
        }
        let said = self.blocks(content, draft);
        if said.is_empty() {
            match at {
                Some(spot) => self.is(line, spot),
                None => self.pass(line),
            }
            return;
        }
        let parent = match at {
            Some(Spot::Reply(index) | Spot::Result(index)) => self.close(index, draft),
            Some(Spot::Entry(entry)) => entry,
            None => self.parent(&line["parentUuid"], draft),
        };
        let message = Message::User(UserMessage { content: said, timestamp: time });
        let pushed = draft.push(parent.clone(), time, message.into(), is_aside(line));
        self.is(line, Spot::Entry(pushed.or(parent)));
    }

    /// Words and pictures.
    fn blocks(&mut self, content: &Value, draft: &mut Draft) -> Vec<Content> {
        if let Some(text) = content.as_str() {
            return if text.is_empty() { Vec::new() } else { vec![Content::text(text)] };
        }
        let mut blocks = Vec::new();
        for block in content.as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => blocks.extend(block["text"].as_str().map(Content::text)),
                Some("image") => {
                    let source = |name: &str| block["source"][name].as_str().unwrap_or_default();
                    match picture(source("media_type"), source("data")) {
                        Some(picture) => blocks.push(picture),
                        None => draft.leave_out("pictures that are damaged or elsewhere"),
                    }
                }
                Some("tool_result") => {}
                _ => draft.leave_out("blocks of unknown types"),
            }
        }
        blocks
    }

    fn result(&mut self, block: &Value, line: &Value, time: i64, draft: &mut Draft) -> Spot {
        let call_id = block["tool_use_id"].as_str().unwrap_or_default();
        let (tool, reply) = match self.calls.get(call_id) {
            Some((tool, reply)) => (tool.clone(), Some(*reply)),
            None => (String::new(), None),
        };
        let result = ToolResultMessage {
            tool_call_id: call_id.to_owned(),
            tool_name: tool,
            content: self.blocks(&block["content"], draft),
            is_error: block["is_error"] == true,
            timestamp: time,
            ..ToolResultMessage::default()
        };
        let Some(index) = reply else {
            draft.leave_out("results without a call");
            let parent = self.parent(&line["parentUuid"], draft);
            return Spot::Entry(parent);
        };
        let Some(reply) = self.replies.get_mut(index) else { return Spot::Entry(None) };
        match reply.end.clone() {
            None => reply.results.push((time, result)),
            Some(end) => {
                let is_aside = reply.is_aside;
                let pushed = draft.push(end.clone(), time, Message::ToolResult(result).into(), is_aside);
                reply.end = Some(pushed.or(end));
            }
        }
        Spot::Result(index)
    }

    fn assistant(&mut self, line: &Value, draft: &mut Draft) {
        let time = draft.time(&line["timestamp"]);
        let message = &line["message"];
        let id = message["id"].as_str().or(line["uuid"].as_str()).unwrap_or_default();
        // Servers other than the provider's may give every reply the same id: only what hangs from the reply itself is more of it.
        let before = line["parentUuid"].as_str().and_then(|parent| self.spots.get(parent));
        let open = self.open.get(id).copied();
        let index = match open.filter(|open| matches!(before, Some(Spot::Reply(of)) if of == open)) {
            Some(index) => index,
            None => {
                let parent = self.parent(&line["parentUuid"], draft);
                let index = self.replies.len();
                self.replies.push(Reply {
                    parent,
                    message_id: id.to_owned(),
                    time,
                    is_aside: is_aside(line),
                    message: begun(message, time),
                    written_for_an_hour: 0,
                    results: Vec::new(),
                    end: None,
                });
                self.open.insert(id.to_owned(), index);
                index
            }
        };
        self.is(line, Spot::Reply(index));
        let content = self.said(&message["content"], index, draft);
        let Some(reply) = self.replies.get_mut(index) else { return };
        let (usage, for_an_hour) = usage(&message["usage"]);
        (reply.message.usage, reply.written_for_an_hour) = (usage, for_an_hour);
        if let Some(reason) = message["stop_reason"].as_str() {
            reply.message.stop_reason = match reason {
                "tool_use" => StopReason::ToolUse,
                "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
                _ => StopReason::Stop,
            };
            reply.message.raw_stop_reason = Some(reason.to_owned());
        }
        if line["isApiErrorMessage"] == true {
            reply.message.stop_reason = StopReason::Error;
            reply.message.error_message = Some(content.iter().filter_map(Content::as_text).collect());
        } else {
            reply.message.content.extend(content);
        }
    }

    /// A reply's blocks.
    fn said(&mut self, content: &Value, index: usize, draft: &mut Draft) -> Vec<Content> {
        let mut blocks: Vec<Content> = content.as_str().map(Content::text).into_iter().collect();
        for block in content.as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => blocks.extend(block["text"].as_str().map(Content::text)),
                Some("thinking") => match thoughts(block["thinking"].as_str().unwrap_or_default()) {
                    Some(thoughts) => blocks.push(thoughts),
                    None => draft.leave_out("thoughts that are not shown"),
                },
                Some("redacted_thinking") => draft.leave_out("thoughts that are not shown"),
                Some("tool_use") => {
                    let id = block["id"].as_str().unwrap_or_default();
                    let name = block["name"].as_str().unwrap_or_default();
                    self.calls.insert(id.to_owned(), (name.to_owned(), index));
                    blocks.push(Content::ToolCall(ToolCall {
                        id: id.to_owned(),
                        name: name.to_owned(),
                        arguments: block["input"].as_object().cloned().unwrap_or_else(Map::new),
                        arguments_error: None,
                        thought_signature: None,
                        arguments_text: None,
                    }));
                }
                _ => draft.leave_out("blocks of unknown types"),
            }
        }
        blocks
    }

    fn compacted(&mut self, line: &Value, draft: &mut Draft) {
        self.finish(draft);
        let before =
            if line["logicalParentUuid"].is_string() { &line["logicalParentUuid"] } else { &line["parentUuid"] };
        let parent = if before.is_string() { self.parent(before, draft) } else { draft.leaf() };
        let data = &line["compactMetadata"];
        let tokens = data["preTokens"].as_u64().unwrap_or_default();
        // What is kept word for word begins with a whole reply or message.
        let first_kept = match self.kept(&data["preservedSegment"]["headUuid"]) {
            Some(kept) if draft.leaf() == parent => Some(kept),
            _ => None,
        };
        self.boundary = Some((parent.clone(), first_kept, tokens));
        self.is(line, Spot::Entry(parent));
    }

    /// The entry of a line; of a reply its first.
    fn kept(&self, line: &Value) -> Option<EntryId> {
        match self.spots.get(line.as_str()?)? {
            Spot::Entry(entry) => entry.clone(),
            // Without results its first is its last.
            Spot::Reply(index) => self.replies.get(*index).and_then(|reply| reply.first()),
            Spot::Result(_) => None,
        }
    }
}

impl Reply {
    /// Its entry, where it has no results: else they would be kept without it.
    fn first(&self) -> Option<EntryId> {
        let is_alone = self.message.tool_calls().next().is_none();
        is_alone.then(|| self.end.clone().flatten()).flatten()
    }
}

fn begun(message: &Value, time: i64) -> AssistantMessage {
    let model = message["model"].as_str().filter(|model| *model != "<synthetic>").unwrap_or_default();
    AssistantMessage {
        api: "anthropic-messages".to_owned(),
        provider: if model.is_empty() { String::new() } else { "anthropic".to_owned() },
        model: model.to_owned(),
        timestamp: time,
        response_id: message["id"].as_str().map(str::to_owned),
        ..AssistantMessage::default()
    }
}

/// Tokens, and of those written into the cache the ones that stay there for an hour.
fn usage(usage: &Value) -> (Usage, u64) {
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    let thought = usage["output_tokens_details"]["thinking_tokens"].as_u64().filter(|tokens| *tokens > 0);
    let used = Usage {
        input: count("input_tokens"),
        output: count("output_tokens"),
        cache_read: count("cache_read_input_tokens"),
        cache_write: count("cache_creation_input_tokens"),
        reasoning: thought,
        ..Usage::default()
    };
    (used, usage["cache_creation"]["ephemeral_1h_input_tokens"].as_u64().unwrap_or_default())
}

/// What the program notes of its own commands in the user's name.
fn is_note(text: &str) -> bool {
    ["<command-name>", "<command-message>", "<local-command-"].iter().any(|start| text.trim_start().starts_with(start))
}
