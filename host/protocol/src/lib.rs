//! Words: messages, entries, events, commands, tool specs and ids. No IO, no async.
//!
//! Only these types go to disk or over a wire. The shapes are those of pi's session format, version 3, and of the events that
//! it prints in JSON mode, with additions that its readers ignore; see `ARCHITECTURE.md`, "Words on disk".

mod call;
mod command;
mod content;
mod entry;
mod event;
mod id;
mod message;
mod model;
mod time;
mod tool;

pub use call::{CallOrigin, Caller, GuestError, GuestErrorKind};
pub use command::Command;
pub use content::{Content, Image, Text, Thinking, ToolCall};
pub use entry::{
    BranchSummaryEntry, Compaction, ContextEdit, Custom, CustomMessageEntry, Entry, EntryBody, Header, Label,
    MessageEntry, ModelChange, Replacement, SESSION_VERSION, SessionInfo, ThinkingLevelChange, UsageEntry, mended_line,
};
pub use event::{AssistantDelta, CompactionReason, CompactionResult, Delta, Event, ToolResultView, VerdictKind};
pub use id::{EntryId, SessionId};
pub use message::{
    AssistantMessage, BashExecution, BranchSummary, CompactionSummary, CustomMessage, Message, StopReason,
    SystemMessage, ToolResultMessage, UserMessage,
};
pub use model::{Cost, InvalidModelRef, ModelRef, ThinkingLevel, Usage};
pub use time::{iso_from_millis, millis_from_iso};
pub use tool::{Execution, Exposure, ToolDeclaration, ToolOutput, ToolSpec};
