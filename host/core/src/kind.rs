//! What an entry is, in one byte: enough to walk a tree without reading it.

use pith_protocol::{Custom, Entry, EntryBody, Message};
use serde::{Deserialize, Serialize};

/// `customType` of the entry that moves the leaf: the tree goes on from its parent. pi ignores it.
pub(crate) const LEAF: &str = "pith/leaf";
/// `customType` of the entry before which everything in the file is of others.
pub(crate) const FOREIGN: &str = "pith/foreign";
/// `customType` of the entry before which everything in the file is as good as our own: the user said so.
pub(crate) const TRUSTED: &str = "pith/trusted";

/// What an entry is. Messages are told apart by their role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// What the model was told.
    System,
    /// The user's words.
    User,
    /// A reply.
    Assistant,
    /// What a call gave.
    ToolResult,
    /// A command of the user's.
    BashExecution,
    /// A message of another role.
    OtherMessage,
    /// `model_change`.
    ModelChange,
    /// `thinking_level_change`.
    ThinkingLevelChange,
    /// `compaction`.
    Compaction,
    /// `branch_summary`.
    BranchSummary,
    /// `context_edit`.
    ContextEdit,
    /// `custom`: a plugin's state.
    Custom,
    /// `custom_message`: a plugin's words.
    CustomMessage,
    /// `label`.
    Label,
    /// `session_info`.
    SessionInfo,
    /// `usage`.
    Usage,
    /// `custom` of Pith's own: the leaf was moved to its parent.
    Leaf,
    /// `custom` of Pith's own: what stands before it in the file is of others, or is trusted.
    Mark,
    /// A type that this version does not know.
    Unknown,
}

impl EntryKind {
    /// Whether its body may be left on disk once a compaction has taken its place.
    pub(crate) fn may_sleep(self) -> bool {
        matches!(self, Self::User | Self::Assistant | Self::ToolResult | Self::BashExecution)
    }

    /// Whether a `context_edit` may be of it.
    pub(crate) fn may_be_edited(self) -> bool {
        matches!(self, Self::User | Self::Assistant | Self::ToolResult | Self::CustomMessage)
    }

    /// By type on disk; `role` of messages, `custom_type` of `custom` entries without a publisher.
    pub(crate) fn named(kind: &str, role: Option<&str>, custom_type: Option<&str>) -> Self {
        match kind {
            "message" => match role {
                Some("system") => Self::System,
                Some("user") => Self::User,
                Some("assistant") => Self::Assistant,
                Some("toolResult") => Self::ToolResult,
                Some("bashExecution") => Self::BashExecution,
                _ => Self::OtherMessage,
            },
            "model_change" => Self::ModelChange,
            "thinking_level_change" => Self::ThinkingLevelChange,
            "compaction" => Self::Compaction,
            "branch_summary" => Self::BranchSummary,
            "context_edit" => Self::ContextEdit,
            "custom" => match custom_type {
                Some(LEAF) => Self::Leaf,
                Some(FOREIGN | TRUSTED) => Self::Mark,
                _ => Self::Custom,
            },
            "custom_message" => Self::CustomMessage,
            "label" => Self::Label,
            "session_info" => Self::SessionInfo,
            "usage" => Self::Usage,
            _ => Self::Unknown,
        }
    }

    /// Of an entry in memory.
    pub(crate) fn of(entry: &Entry) -> Self {
        let role = entry.message().map(|message| match message {
            Message::System(_) => "system",
            Message::User(_) => "user",
            Message::Assistant(_) => "assistant",
            Message::ToolResult(_) => "toolResult",
            Message::BashExecution(_) => "bashExecution",
            Message::Custom(_) | Message::BranchSummary(_) | Message::CompactionSummary(_) => "other",
        });
        let custom_type = match &entry.body {
            EntryBody::Custom(Custom { custom_type, publisher: None, .. }) => Some(custom_type.as_str()),
            _ => None,
        };
        Self::named(&entry.kind, role, custom_type)
    }
}
