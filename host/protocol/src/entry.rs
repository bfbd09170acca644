//! Entries: the lines of a session file.

use crate::{Content, EntryId, Message, SessionId, content::lenient_content};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the session format that Pith writes.
pub const SESSION_VERSION: u32 = 3;

/// The first line of a session file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Always `session`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 3.
    #[serde(default)]
    pub version: u32,
    /// The session's id.
    pub id: SessionId,
    /// When it began.
    #[serde(default)]
    pub timestamp: String,
    /// Its working folder.
    #[serde(default)]
    pub cwd: String,
    /// The file that this one continues, forks or copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
}

/// One line after the header.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The entry's type, as on disk.
    #[serde(rename = "type")]
    pub kind: String,
    /// Unique within the file.
    pub id: EntryId,
    /// The entry before it on its path; none for a root.
    pub parent_id: Option<EntryId>,
    /// UTC with milliseconds.
    pub timestamp: String,
    /// The rest, by type.
    #[serde(flatten)]
    pub body: EntryBody,
}

/// What an entry says. Reading goes by type in `Entry::read`; a type that this version does not know, or a body that does not
/// fit its type, is `Unknown`: kept as its raw line, skipped by the projection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum EntryBody {
    Message(MessageEntry),
    ModelChange(ModelChange),
    ThinkingLevelChange(ThinkingLevelChange),
    Compaction(Compaction),
    BranchSummary(BranchSummaryEntry),
    ContextEdit(ContextEdit),
    Custom(Custom),
    CustomMessage(CustomMessageEntry),
    Label(Label),
    SessionInfo(SessionInfo),
    Unknown {},
}

/// `message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageEntry {
    /// The message.
    pub message: Message,
}

/// `model_change`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelChange {
    /// The provider.
    pub provider: String,
    /// The provider's id of the model.
    pub model_id: String,
}

/// `thinking_level_change`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingLevelChange {
    /// A level's name; others than ours may stand in foreign files.
    pub thinking_level: String,
}

/// `compaction`: older entries are replaced by a summary in the model's view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// What takes their place.
    pub summary: String,
    /// The first entry that is kept; its own id keeps none.
    pub first_kept_entry_id: EntryId,
    /// Tokens before it.
    #[serde(default)]
    pub tokens_before: u64,
    /// The whole state of prompt and tools at this point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_message: Option<Value>,
    /// For views and later compactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// `branch_summary`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummaryEntry {
    /// Where the branch ended.
    #[serde(default)]
    pub from_id: String,
    /// The summary.
    pub summary: String,
}

/// `context_edit`: changes or leaves out one entry in the model's view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextEdit {
    /// The entry that is meant; the latest edit of it on a path wins.
    pub target_id: EntryId,
    /// None leaves it out.
    pub replacement: Option<Replacement>,
}

/// What a `context_edit` shows instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replacement {
    /// The content.
    #[serde(default, deserialize_with = "lenient_content")]
    pub content: Vec<Content>,
}

/// `custom`: a plugin's state. The model does not read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Custom {
    /// `plugin-name/kind`.
    pub custom_type: String,
    /// The state.
    #[serde(default)]
    pub data: Value,
    /// The plugin's publisher: completes the namespace. pi ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
}

/// `custom_message`: a plugin's words to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessageEntry {
    /// `plugin-name/kind`.
    pub custom_type: String,
    /// For the model.
    #[serde(default, deserialize_with = "lenient_content")]
    pub content: Vec<Content>,
    /// Whether people see it.
    #[serde(default)]
    pub display: bool,
    /// For views.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The plugin's publisher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
}

/// `label`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Label {
    /// The entry that is labelled.
    pub target_id: EntryId,
    /// None clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// `session_info`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// The session's name; empty or none clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What every entry has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    id: EntryId,
    #[serde(default)]
    parent_id: Option<EntryId>,
    #[serde(default)]
    timestamp: String,
}

impl Entry {
    /// Reads one line. Fails where it is not a JSON object with `type` and `id`; a body of an unknown type or shape is `Unknown`.
    pub fn read(line: &[u8]) -> Result<Self, serde_json::Error> {
        let frame: Frame = serde_json::from_slice(line)?;
        let body = read_body(&frame.kind, line).unwrap_or(EntryBody::Unknown {});
        Ok(Self { kind: frame.kind, id: frame.id, parent_id: frame.parent_id, timestamp: frame.timestamp, body })
    }

    /// The message, where the entry is one.
    pub fn message(&self) -> Option<&Message> {
        match &self.body {
            EntryBody::Message(entry) => Some(&entry.message),
            _ => None,
        }
    }
}

fn read_body(kind: &str, line: &[u8]) -> Result<EntryBody, serde_json::Error> {
    Ok(match kind {
        "message" => EntryBody::Message(serde_json::from_slice(line)?),
        "model_change" => EntryBody::ModelChange(serde_json::from_slice(line)?),
        "thinking_level_change" => EntryBody::ThinkingLevelChange(serde_json::from_slice(line)?),
        "compaction" => EntryBody::Compaction(serde_json::from_slice(line)?),
        "branch_summary" => EntryBody::BranchSummary(serde_json::from_slice(line)?),
        "context_edit" => EntryBody::ContextEdit(serde_json::from_slice(line)?),
        "custom" => EntryBody::Custom(serde_json::from_slice(line)?),
        "custom_message" => EntryBody::CustomMessage(serde_json::from_slice(line)?),
        "label" => EntryBody::Label(serde_json::from_slice(line)?),
        "session_info" => EntryBody::SessionInfo(serde_json::from_slice(line)?),
        _ => EntryBody::Unknown {},
    })
}

impl EntryBody {
    /// The type's name on disk. `Unknown` has none of its own: Pith never writes one.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Message(_) => "message",
            Self::ModelChange(_) => "model_change",
            Self::ThinkingLevelChange(_) => "thinking_level_change",
            Self::Compaction(_) => "compaction",
            Self::BranchSummary(_) => "branch_summary",
            Self::ContextEdit(_) => "context_edit",
            Self::Custom(_) => "custom",
            Self::CustomMessage(_) => "custom_message",
            Self::Label(_) => "label",
            Self::SessionInfo(_) => "session_info",
            Self::Unknown {} => "unknown",
        }
    }
}

impl From<Message> for EntryBody {
    fn from(message: Message) -> Self {
        Self::Message(MessageEntry { message })
    }
}
