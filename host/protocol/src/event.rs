//! Events: what a session tells every face. The JSON face prints each as one line.

use crate::{Content, Entry, EntryId, Message, ToolCall, ToolOutput, ToolResultMessage, Usage};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::sync::Arc;

/// What happened. Names and payloads are pi's, except for those that say that they are Pith's own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Event {
    /// A run began.
    AgentStart,
    /// A turn began.
    TurnStart,
    /// A message began: the user's and results whole, the model's empty.
    MessageStart {
        /// The message.
        message: Arc<Message>,
    },
    /// A piece of the model's message.
    MessageUpdate {
        /// Tokens so far.
        usage: Usage,
        /// The piece.
        assistant_message_event: AssistantDelta,
    },
    /// A message is complete.
    MessageEnd {
        /// The message.
        message: Arc<Message>,
    },
    /// A call is about to be judged and run.
    ToolExecutionStart {
        /// The call.
        tool_call_id: String,
        /// The tool.
        tool_name: String,
        /// What the model sent.
        args: Value,
    },
    /// A call's partial output; the newest replaces the one before.
    ToolExecutionUpdate {
        /// The call.
        tool_call_id: String,
        /// The tool.
        tool_name: String,
        /// What the model sent.
        args: Value,
        /// The output so far.
        partial_result: ToolResultView,
    },
    /// A call is over.
    ToolExecutionEnd {
        /// The call.
        tool_call_id: String,
        /// The tool.
        tool_name: String,
        /// What it gave.
        result: ToolResultView,
        /// It failed, or never ran.
        is_error: bool,
        /// Wall time in milliseconds; none where nothing ran.
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// A turn is over.
    TurnEnd {
        /// The model's message.
        message: Arc<Message>,
        /// The results, in the order the calls were asked.
        tool_results: Vec<Arc<Message>>,
    },
    /// A run is over.
    AgentEnd {
        /// All that the run added.
        messages: Vec<Arc<Message>>,
        /// The host will try again.
        will_retry: bool,
    },
    /// Nothing more happens by itself.
    AgentSettled {
        /// The user or the host stopped the run.
        aborted: bool,
    },
    /// Messages wait.
    QueueUpdate {
        /// For after the present turn's tools.
        steering: Vec<String>,
        /// For when the agent would stop.
        follow_up: Vec<String>,
    },
    /// An entry that is no message was appended.
    EntryAppended {
        /// The entry.
        entry: Arc<Entry>,
    },
    /// A failed request will be tried again.
    AutoRetryStart {
        /// From 1.
        attempt: u32,
        /// How many there are.
        max_attempts: u32,
        /// The wait before it.
        delay_ms: u64,
        /// What failed.
        error_message: String,
    },
    /// Trying again is over.
    AutoRetryEnd {
        /// It worked.
        success: bool,
        /// The last attempt.
        attempt: u32,
        /// What failed last.
        #[serde(skip_serializing_if = "Option::is_none")]
        final_error: Option<String>,
    },
    /// Older messages are about to be summed up or left out, so that the rest fits the model's window.
    CompactionStart {
        /// Why.
        reason: CompactionReason,
    },
    /// That is over.
    CompactionEnd {
        /// Why it began.
        reason: CompactionReason,
        /// What it came to; none where it failed, was stopped, or there was nothing to do.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<CompactionResult>,
        /// It was stopped.
        aborted: bool,
        /// The request that did not fit is sent again.
        will_retry: bool,
        /// What failed. With a `result`: why the summary is the host's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
    },
    /// The session was named, or lost its name.
    SessionInfoChanged {
        /// None where it has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The leaf was moved: what follows goes on from another entry. Pith's own.
    LeafMoved {
        /// The new leaf; none before the first entry.
        leaf_id: Option<EntryId>,
        /// The leaf before.
        from_id: Option<EntryId>,
    },
    /// A gate asked or denied. Pith's own.
    GateVerdict {
        /// The call.
        tool_call_id: String,
        /// The tool.
        tool_name: String,
        /// The gate's plugin.
        plugin: String,
        /// What it said.
        verdict: VerdictKind,
        /// In its words, whole.
        reason: String,
    },
    /// A plugin failed; its call was lost, the session goes on. Pith's own.
    PluginFault {
        /// The plugin.
        plugin: String,
        /// The export that was called.
        export: String,
        /// What happened, and which limit, if one was reached.
        cause: String,
    },
    /// Something that people should know and nothing above says. Pith's own.
    Notice {
        /// One sentence.
        message: String,
    },
}

/// Why messages are summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CompactionReason {
    /// The user, or a plugin, asked.
    Manual,
    /// The window is nearly full.
    Threshold,
    /// The provider refused a request as too long.
    Overflow,
}

/// What summing up came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionResult {
    /// What stands for the older messages.
    pub summary: String,
    /// The first entry that is kept.
    pub first_kept_entry_id: EntryId,
    /// Tokens before.
    pub tokens_before: u64,
    /// Estimated tokens after.
    pub estimated_tokens_after: u64,
    /// What making it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// For views: `readFiles` and `modifiedFiles`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// A gate's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    /// A person decides.
    Ask,
    /// Nothing runs.
    Deny,
}

/// A piece of the model's message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantDelta {
    /// What kind, and its data.
    #[serde(flatten)]
    pub delta: Delta,
}

/// Pieces of a model's message. `content_index` counts blocks from 0, in the order in which they began.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Delta {
    TextStart {
        content_index: usize,
    },
    TextDelta {
        content_index: usize,
        delta: String,
    },
    TextEnd {
        content_index: usize,
        content: String,
    },
    ThinkingStart {
        content_index: usize,
    },
    ThinkingDelta {
        content_index: usize,
        delta: String,
    },
    ThinkingEnd {
        content_index: usize,
        content: String,
    },
    #[serde(rename = "toolcall_start")]
    ToolCallStart {
        content_index: usize,
        id: String,
        tool_name: String,
    },
    #[serde(rename = "toolcall_delta")]
    ToolCallDelta {
        content_index: usize,
        delta: String,
    },
    #[serde(rename = "toolcall_end")]
    ToolCallEnd {
        content_index: usize,
        #[serde(serialize_with = "as_block")]
        tool_call: ToolCall,
    },
}

/// A call as it stands in a message: with its `type`.
fn as_block<S: Serializer>(call: &ToolCall, serializer: S) -> Result<S::Ok, S::Error> {
    Content::ToolCall(call.clone()).serialize(serializer)
}

/// A result as events show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultView {
    /// For the model.
    pub content: Vec<Content>,
    /// For scripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// For views.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl From<&ToolOutput> for ToolResultView {
    fn from(output: &ToolOutput) -> Self {
        Self {
            content: output.content.clone(),
            structured_content: output.structured.clone(),
            details: output.details.clone(),
        }
    }
}

impl From<&ToolResultMessage> for ToolResultView {
    fn from(message: &ToolResultMessage) -> Self {
        Self { content: message.content.clone(), structured_content: None, details: message.details.clone() }
    }
}
