//! What the model sees of a session: the path leaf -> root, the newest compaction and the context edits applied, what a crash left mended.

use pith_protocol::{
    Content, Entry, EntryBody, EntryId, Message, StopReason, SystemMessage, ToolCall, ToolDeclaration,
    ToolResultMessage, UserMessage,
};
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

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

/// Projects the entries root -> leaf.
pub(crate) fn project(path: &[Arc<Entry>]) -> Projection {
    let edits = edits_of(path);
    let mut messages = Vec::new();
    let newest = path.iter().rposition(|entry| matches!(entry.body, EntryBody::Compaction(_)));
    let (kept, after) = match newest {
        None => (&path[..0], path),
        Some(at) => {
            if let EntryBody::Compaction(compaction) = &path[at].body {
                messages.push((&path[at].id, user_words(wrapped_summary(&compaction.summary, SO_FAR), 0)));
                let first = path[..at].iter().position(|entry| entry.id == compaction.first_kept_entry_id);
                (first.map_or(&path[..0], |first| &path[first..at]), &path[at + 1..])
            } else {
                (&path[..0], path)
            }
        }
    };
    for entry in kept.iter().chain(after) {
        match edits.get(&entry.id) {
            Some(None) => {}
            Some(Some(content)) => messages.extend(edited(entry, content).map(|message| (&entry.id, message))),
            None => messages.extend(shown(entry).map(|message| (&entry.id, message))),
        }
    }
    pair(messages)
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

fn edited(entry: &Entry, content: &[Content]) -> Option<Arc<Message>> {
    let mut message = (*shown(entry)?).clone();
    match &mut message {
        Message::User(user) => user.content = content.to_vec(),
        Message::Assistant(assistant) => assistant.content = content.to_vec(),
        Message::ToolResult(result) => result.content = content.to_vec(),
        _ => return None,
    }
    Some(Arc::new(message))
}

/// An entry as the model reads it; none where it does not.
fn shown(entry: &Entry) -> Option<Arc<Message>> {
    match &entry.body {
        EntryBody::Message(entry) => match entry.message.as_ref() {
            Message::User(_) | Message::ToolResult(_) => Some(entry.message.clone()),
            // A reply that failed or was stopped is no ground to build on; its words stay in the session.
            Message::Assistant(reply) => {
                let whole = !matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted);
                (whole && !reply.content.is_empty()).then(|| entry.message.clone())
            }
            Message::BashExecution(run) if run.exclude_from_context != Some(true) => {
                Some(user_words(bash_words(run), run.timestamp))
            }
            Message::Custom(custom) => Some(marked(&custom.custom_type, &custom.content, custom.timestamp)),
            Message::BranchSummary(branch) => {
                Some(user_words(wrapped_summary(&branch.summary, BRANCH), branch.timestamp))
            }
            Message::CompactionSummary(summary) => {
                Some(user_words(wrapped_summary(&summary.summary, SO_FAR), summary.timestamp))
            }
            Message::System(_) | Message::BashExecution(_) => None,
        },
        EntryBody::CustomMessage(custom) => Some(marked(&custom.custom_type, &custom.content, 0)),
        EntryBody::BranchSummary(branch) => Some(user_words(wrapped_summary(&branch.summary, BRANCH), 0)),
        _ => None,
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
/// number the calls of every reply afresh, so a call's result is the first one of its id that comes after it and is not taken.
fn pair(messages: Vec<(&EntryId, Arc<Message>)>) -> Projection {
    let mut results: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (place, (_, message)) in messages.iter().enumerate() {
        if let Message::ToolResult(result) = message.as_ref() {
            results.entry(&result.tool_call_id).or_default().push_back(place);
        }
    }
    let mut out = Projection::default();
    for (place, (source, message)) in messages.iter().enumerate() {
        match message.as_ref() {
            Message::ToolResult(_) => {}
            Message::Assistant(reply) => {
                out.push(Some(source), message.clone());
                for call in reply.tool_calls() {
                    let waiting = results.get_mut(call.id.as_str());
                    let taken = waiting.and_then(|places| {
                        let next = places.iter().position(|result| *result > place)?;
                        places.remove(next)
                    });
                    match taken {
                        Some(result) => out.push(Some(messages[result].0), messages[result].1.clone()),
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
    let mut left: Vec<usize> = results.into_values().flatten().collect();
    left.sort_unstable();
    for place in left {
        if let Message::ToolResult(result) = messages[place].1.as_ref() {
            out.mended.push(result.tool_call_id.clone());
        }
    }
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

/// What the model was told: sections of the prompt by name, and tools, as a path's system messages left them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptState {
    /// Sections, in the order in which they first came.
    pub sections: Vec<(String, String)>,
    /// Tools, in the order in which they were declared.
    pub tools: Vec<ToolDeclaration>,
}

impl PromptState {
    /// Replays the system messages of a path.
    pub(crate) fn replay(path: &[Arc<Entry>]) -> Self {
        let mut state = Self::default();
        for entry in path {
            if let Some(Message::System(patch)) = entry.message() {
                state.apply(patch);
            }
        }
        state
    }

    fn apply(&mut self, patch: &SystemMessage) {
        for (name, text) in &patch.sections {
            match text.as_str() {
                None => self.sections.retain(|(present, _)| present != name),
                Some(text) => match self.sections.iter_mut().find(|(present, _)| present == name) {
                    Some((_, present)) => text.clone_into(present),
                    None => self.sections.push((name.clone(), text.to_owned())),
                },
            }
        }
        for removed in &patch.tools_removed {
            // pi writes names; a declaration's name is read as well.
            let name = removed.as_str().or_else(|| removed.get("name").and_then(Value::as_str));
            self.tools.retain(|tool| Some(tool.name.as_str()) != name);
        }
        for added in &patch.tools_added {
            self.tools.retain(|tool| tool.name != added.name);
            self.tools.push(added.clone());
        }
    }

    /// The patch that makes this state `wanted`; none where it is. Sections and tools that `wanted` lacks are removed, a tool whose
    /// definition changed is removed and added.
    pub(crate) fn patch_to(&self, wanted: &Self, timestamp: i64) -> Option<SystemMessage> {
        let mut sections = Map::new();
        for (name, _) in &self.sections {
            if !wanted.sections.iter().any(|(present, _)| present == name) {
                sections.insert(name.clone(), Value::Null);
            }
        }
        for section in &wanted.sections {
            if !self.sections.contains(section) {
                sections.insert(section.0.clone(), Value::String(section.1.clone()));
            }
        }
        let gone = self.tools.iter().filter(|tool| !wanted.tools.contains(tool));
        let tools_removed: Vec<Value> = gone.map(|tool| Value::String(tool.name.clone())).collect();
        let tools_added: Vec<_> = wanted.tools.iter().filter(|tool| !self.tools.contains(tool)).cloned().collect();
        (!sections.is_empty() || !tools_removed.is_empty() || !tools_added.is_empty()).then_some(SystemMessage {
            content: Value::String(String::new()),
            sections,
            timestamp,
            tools_added,
            tools_removed,
        })
    }
}
