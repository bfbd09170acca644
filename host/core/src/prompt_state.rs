//! What the model was told, as state: sections of the prompt and tools, replayed from a path's system messages.

use pith_protocol::{Entry, EntryBody, Message, SystemMessage, ToolDeclaration};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What the model was told: sections of the prompt by name, and tools, as a path's system messages left them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptState {
    /// Sections, in the order in which they first came.
    pub sections: Vec<(String, String)>,
    /// Tools, in the order in which they were declared.
    pub tools: Vec<ToolDeclaration>,
}

impl PromptState {
    /// Replays a path: the newest compaction that has one says the whole state at its place, the system messages after it change that.
    pub(crate) fn replay(path: &[Arc<Entry>]) -> Self {
        let newest = path.iter().enumerate().rev().find_map(|(at, entry)| Some((at, checkpoint_of(entry)?)));
        let mut state = Self::default();
        let after = match &newest {
            Some((at, whole)) => {
                state.apply(whole);
                at.saturating_add(1)
            }
            None => 0,
        };
        for entry in path.iter().skip(after) {
            if let Some(Message::System(patch)) = entry.message() {
                state.apply(patch);
            }
        }
        state
    }

    /// The whole state as one message, as a compaction carries it: `Compaction::system_message`.
    pub fn checkpoint(&self, timestamp: i64) -> Option<Value> {
        let whole = Self::default().patch_to(self, timestamp)?;
        serde_json::to_value(Message::System(whole)).ok()
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

/// The state that a compaction carries.
fn checkpoint_of(entry: &Entry) -> Option<SystemMessage> {
    let EntryBody::Compaction(made) = &entry.body else { return None };
    SystemMessage::deserialize(made.system_message.as_ref()?).ok()
}
