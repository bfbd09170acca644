//! Messages, as they stand in session files and events.

use crate::{
    Content, ToolDeclaration, Usage,
    content::{lenient_content, or_default},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    /// What the model was told: sections of the prompt and tools, as patches.
    System(SystemMessage),
    /// The user's words.
    User(UserMessage),
    /// The model's words and calls.
    Assistant(AssistantMessage),
    /// What a call gave.
    ToolResult(ToolResultMessage),
    /// A command that the user ran.
    BashExecution(BashExecution),
    /// A plugin's own message.
    Custom(CustomMessage),
    /// The summary of a branch that was left.
    BranchSummary(BranchSummary),
    /// The summary of what was compacted.
    CompactionSummary(CompactionSummary),
}

/// What the model was told from here on: a patch of the state that all system messages of a path give together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemMessage {
    /// Free text; empty where sections carry it. pi writes a string here.
    #[serde(default)]
    pub content: Value,
    /// Sections by name, in order; null removes one.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub sections: Map<String, Value>,
    /// Milliseconds since 1970.
    #[serde(default, deserialize_with = "or_default")]
    pub timestamp: i64,
    /// Tools declared from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_added: Vec<ToolDeclaration>,
    /// Names of tools that are gone from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_removed: Vec<Value>,
}

/// The user's words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// Words and pictures.
    #[serde(default, deserialize_with = "lenient_content")]
    pub content: Vec<Content>,
    /// Milliseconds since 1970.
    #[serde(default, deserialize_with = "or_default")]
    pub timestamp: i64,
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// Not yet.
    #[default]
    Pending,
    /// It was done.
    Stop,
    /// Its output limit cut it.
    Length,
    /// It asks for tools.
    ToolUse,
    /// It failed; `AssistantMessage::error_message` says how.
    Error,
    /// The user or the host stopped it.
    Aborted,
}

/// The model's words and calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// Words, thoughts and calls, in the order they came.
    #[serde(default, deserialize_with = "lenient_content")]
    pub content: Vec<Content>,
    /// The wire: `anthropic-messages`, `openai-completions`, `scripted` ...
    #[serde(default)]
    pub api: String,
    /// Who served it.
    #[serde(default)]
    pub provider: String,
    /// The provider's id of the model that was asked.
    #[serde(default)]
    pub model: String,
    /// Tokens.
    #[serde(default, deserialize_with = "or_default")]
    pub usage: Usage,
    /// Why it ended.
    #[serde(default, deserialize_with = "or_default")]
    pub stop_reason: StopReason,
    /// Milliseconds since 1970.
    #[serde(default, deserialize_with = "or_default")]
    pub timestamp: i64,
    /// What went wrong, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The provider's id of this reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The provider's own word for why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_stop_reason: Option<String>,
    /// Wall time from request to end, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub duration_ms: Option<u64>,
    /// The level that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
}

impl AssistantMessage {
    /// The calls that it asks for, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &crate::ToolCall> {
        self.content.iter().filter_map(|block| match block {
            Content::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Its words, blocks joined by nothing.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Content::as_text).collect()
    }
}

/// What a call gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// The call.
    pub tool_call_id: String,
    /// The tool.
    #[serde(default)]
    pub tool_name: String,
    /// For the model.
    #[serde(default, deserialize_with = "lenient_content")]
    pub content: Vec<Content>,
    /// For views.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// It failed, or never ran.
    #[serde(default)]
    pub is_error: bool,
    /// Wall time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub duration_ms: Option<u64>,
    /// Milliseconds since 1970.
    #[serde(default, deserialize_with = "or_default")]
    pub timestamp: i64,
}

/// A command that the user ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BashExecution {
    /// The command.
    pub command: String,
    /// What it printed.
    pub output: String,
    /// None where a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The user stopped it.
    pub cancelled: bool,
    /// There was more output.
    pub truncated: bool,
    /// A file with the whole output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
    /// Not for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_from_context: Option<bool>,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

/// A plugin's own message that the model reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomMessage {
    /// `plugin-name/kind`.
    pub custom_type: String,
    /// For the model.
    #[serde(deserialize_with = "lenient_content")]
    pub content: Vec<Content>,
    /// Whether people see it.
    pub display: bool,
    /// For views.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

/// The summary of a branch that was left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BranchSummary {
    /// The summary.
    pub summary: String,
    /// Where the branch ended.
    pub from_id: String,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

/// The summary of what was compacted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompactionSummary {
    /// The summary.
    pub summary: String,
    /// Tokens before it.
    pub tokens_before: u64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}
