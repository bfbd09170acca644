//! What the model sees of a session: the path leaf -> root, the newest compaction and the context edits applied, what a crash left mended.

use pith_protocol::{
    AssistantMessage, Compaction, Content, Entry, EntryBody, EntryId, Message, StopReason, ToolCall, ToolResultMessage,
    UserMessage,
};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

pub use crate::prompt_state::PromptState;

/// What a call that was never answered is told to have given.
pub(crate) const UNANSWERED: &str = "No result was recorded: the run was interrupted before this call finished. \
     It may have run in part; check before you repeat it.";

/// The model's view: user, assistant and tool result messages. Every call has exactly one result, in the order the calls were asked.
#[derive(Clone, Debug, Default)]
pub struct Projection {
    /// The messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The entry that each of them is of, as many as there are messages: a summary's is its compaction. None for a result that was mended.
    pub sources: Vec<Option<EntryId>>,
    /// Calls that had no result, and results that had no call, by id.
    pub mended: Vec<String>,
}

impl Projection {
    fn push(&mut self, source: Option<&EntryId>, message: Arc<Message>) {
        self.messages.push(message);
        self.sources.push(source.cloned());
    }
}

/// Projects the entries root -> leaf, all or those that are awake: what sleeps is not shown.
pub(crate) fn project(path: &[Arc<Entry>]) -> Projection {
    let edits = edits_of(path);
    let mut messages = Vec::new();
    let (kept, after) = match newest_compaction(path) {
        None => (&path[..0], path),
        Some((at, made)) => {
            messages.push((&path[at].id, user_words(wrapped_summary(&made.summary, SO_FAR), 0)));
            let first = path[..at].iter().position(|entry| entry.id == made.first_kept_entry_id);
            (first.map_or(&path[..0], |first| &path[first..at]), &path[at + 1..])
        }
    };
    for entry in kept.iter().chain(after) {
        let message = match edits.get(&entry.id) {
            Some(None) => None,
            Some(Some(content)) => edited(entry, content),
            None => shown(entry),
        };
        messages.extend(message.map(|message| (&entry.id, message)));
    }
    pair(messages)
}

/// The first entry that the newest compaction keeps, where it is not on the path before it: nothing from before the compaction is shown then.
pub(crate) fn lost_cut(path: &[Arc<Entry>]) -> Option<(EntryId, EntryId)> {
    let (at, made) = newest_compaction(path)?;
    let (id, first) = (&path[at].id, &made.first_kept_entry_id);
    let is_there = id == first || path[..at].iter().any(|entry| entry.id == *first);
    (!is_there).then(|| (id.clone(), first.clone()))
}

fn newest_compaction(path: &[Arc<Entry>]) -> Option<(usize, &Compaction)> {
    path.iter().enumerate().rev().find_map(|(at, entry)| match &entry.body {
        EntryBody::Compaction(made) => Some((at, made)),
        _ => None,
    })
}

/// The latest edit of each entry on the path: none leaves it out.
fn edits_of(path: &[Arc<Entry>]) -> HashMap<&EntryId, Option<&Vec<Content>>> {
    path.iter()
        .filter_map(|entry| match &entry.body {
            EntryBody::ContextEdit(edit) => {
                Some((&edit.target_id, edit.replacement.as_ref().map(|with| &with.content)))
            }
            _ => None,
        })
        .collect()
}

/// An entry with other content. Only words of the user, the model, a tool or a plugin can have one; a plugin's stay marked as its own.
fn edited(entry: &Entry, content: &[Content]) -> Option<Arc<Message>> {
    let content = content.to_vec();
    let message = match &entry.body {
        EntryBody::Message(entry) => match entry.message.as_ref() {
            Message::User(_) | Message::Assistant(_) if content.is_empty() => return None,
            Message::User(user) => Message::User(UserMessage { content, timestamp: user.timestamp }),
            Message::Assistant(reply) if is_whole(reply) => Message::Assistant(AssistantMessage {
                content,
                api: reply.api.clone(),
                provider: reply.provider.clone(),
                model: reply.model.clone(),
                usage: reply.usage.clone(),
                stop_reason: reply.stop_reason,
                timestamp: reply.timestamp,
                error_message: reply.error_message.clone(),
                response_id: reply.response_id.clone(),
                raw_stop_reason: reply.raw_stop_reason.clone(),
                duration_ms: reply.duration_ms,
                thinking_level: reply.thinking_level.clone(),
            }),
            Message::ToolResult(result) => Message::ToolResult(ToolResultMessage {
                tool_call_id: result.tool_call_id.clone(),
                tool_name: result.tool_name.clone(),
                content,
                details: result.details.clone(),
                is_error: result.is_error,
                duration_ms: result.duration_ms,
                timestamp: result.timestamp,
            }),
            Message::Custom(custom) => return Some(marked(&custom.custom_type, &content, custom.timestamp)),
            _ => return shown_message(&entry.message),
        },
        EntryBody::CustomMessage(custom) => return Some(marked(&custom.custom_type, &content, 0)),
        _ => return shown(entry),
    };
    Some(Arc::new(message))
}

/// A reply that failed or was stopped is no ground to build on; its words stay in the session.
fn is_whole(reply: &AssistantMessage) -> bool {
    !matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted)
}

/// An entry as the model reads it; none where it does not.
fn shown(entry: &Entry) -> Option<Arc<Message>> {
    match &entry.body {
        EntryBody::Message(entry) => shown_message(&entry.message),
        EntryBody::CustomMessage(custom) => Some(marked(&custom.custom_type, &custom.content, 0)),
        EntryBody::BranchSummary(branch) => Some(user_words(wrapped_summary(&branch.summary, BRANCH), 0)),
        _ => None,
    }
}

fn shown_message(message: &Arc<Message>) -> Option<Arc<Message>> {
    match message.as_ref() {
        Message::User(_) | Message::ToolResult(_) => Some(message.clone()),
        Message::Assistant(reply) => (is_whole(reply) && !reply.content.is_empty()).then(|| message.clone()),
        Message::BashExecution(run) if run.exclude_from_context != Some(true) => {
            Some(user_words(bash_words(run), run.timestamp))
        }
        Message::Custom(custom) => Some(marked(&custom.custom_type, &custom.content, custom.timestamp)),
        Message::BranchSummary(branch) => Some(user_words(wrapped_summary(&branch.summary, BRANCH), branch.timestamp)),
        Message::CompactionSummary(summary) => {
            Some(user_words(wrapped_summary(&summary.summary, SO_FAR), summary.timestamp))
        }
        Message::System(_) | Message::BashExecution(_) => None,
    }
}

const SO_FAR: &str = "The conversation so far, in short:";
const BRANCH: &str = "Another branch of this conversation was left; what happened there, in short:";

fn wrapped_summary(summary: &str, lead: &str) -> String {
    format!("{lead}\n<summary>\n{summary}\n</summary>")
}

fn user_words(text: String, timestamp: i64) -> Arc<Message> {
    Arc::new(Message::User(UserMessage { content: vec![Content::text(text)], timestamp }))
}

/// A plugin's message never passes for the user's.
fn marked(kind: &str, content: &[Content], timestamp: i64) -> Arc<Message> {
    let mut blocks = vec![Content::text(format!("[message from plugin {kind}, not from the user]"))];
    blocks.extend(content.iter().cloned());
    Arc::new(Message::User(UserMessage { content: blocks, timestamp }))
}

fn bash_words(run: &pith_protocol::BashExecution) -> String {
    let output = if run.output.is_empty() { "(no output)" } else { &run.output };
    let mut text = format!("The user ran `{}`:\n```\n{output}\n```", run.command);
    match run.exit_code {
        _ if run.cancelled => text.push_str("\nThe user stopped it."),
        Some(0) | None => {}
        Some(code) => text.push_str(&format!("\nIt ended with code {code}.")),
    }
    if let (true, Some(path)) = (run.truncated, &run.full_output_path) {
        text.push_str(&format!("\nThe output is cut; the whole is in {path}."));
    }
    text
}

/// Puts every result behind its call, in the order asked; answers calls that have none; leaves out results that have no call. Some servers
/// number the calls of every reply afresh, so a result is of the newest reply before it that has a call of its id, and of the first such call
/// there that has none yet: one that was never answered takes no later reply's result.
fn pair(messages: Vec<(&EntryId, Arc<Message>)>) -> Projection {
    // Calls of each id that wait, of the newest reply that has any; and what answers each, as places among the messages.
    let mut open: HashMap<&str, (usize, VecDeque<usize>)> = HashMap::new();
    let mut answers: HashMap<(usize, usize), usize> = HashMap::new();
    let mut left: Vec<&str> = Vec::new();
    for (place, (_, message)) in messages.iter().enumerate() {
        match message.as_ref() {
            Message::Assistant(reply) => {
                for (number, call) in reply.tool_calls().enumerate() {
                    let (of, waiting) = open.entry(call.id.as_str()).or_default();
                    if *of != place {
                        (*of, *waiting) = (place, VecDeque::new());
                    }
                    waiting.push_back(number);
                }
            }
            Message::ToolResult(result) => {
                let id = result.tool_call_id.as_str();
                match open.get_mut(id).and_then(|(of, waiting)| Some((*of, waiting.pop_front()?))) {
                    Some(call) => _ = answers.insert(call, place),
                    None => left.push(id),
                }
            }
            _ => {}
        }
    }
    let mut out = Projection::default();
    for (place, (source, message)) in messages.iter().enumerate() {
        match message.as_ref() {
            Message::ToolResult(_) => {}
            Message::Assistant(reply) => {
                out.push(Some(source), message.clone());
                for (number, call) in reply.tool_calls().enumerate() {
                    match answers.get(&(place, number)) {
                        Some(result) => out.push(Some(messages[*result].0), messages[*result].1.clone()),
                        None => {
                            out.mended.push(call.id.clone());
                            out.push(None, Arc::new(Message::ToolResult(unanswered(call, reply.timestamp))));
                        }
                    }
                }
            }
            _ => out.push(Some(source), message.clone()),
        }
    }
    out.mended.extend(left.into_iter().map(str::to_owned));
    out
}

fn unanswered(call: &ToolCall, timestamp: i64) -> ToolResultMessage {
    ToolResultMessage {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: vec![Content::text(UNANSWERED)],
        is_error: true,
        timestamp,
        ..ToolResultMessage::default()
    }
}
