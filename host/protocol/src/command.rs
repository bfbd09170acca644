//! What faces ask of a session.

use crate::{Content, EntryId};
use serde::{Deserialize, Serialize};

/// One word into a session's mailbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    /// Starts a run.
    Prompt {
        /// The user's message.
        content: Vec<Content>,
    },
    /// Reaches the model after the present turn's tools.
    Steer {
        /// The user's message.
        content: Vec<Content>,
    },
    /// Reaches the model when it would stop.
    FollowUp {
        /// The user's message.
        content: Vec<Content>,
    },
    /// Ends the run, a compaction or a summary; finished results stay, open calls are answered.
    Abort,
    /// Sums up older messages.
    #[serde(rename_all = "camelCase")]
    Compact {
        /// The user's wishes for the summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        custom_instructions: Option<String>,
    },
    /// Goes on from another entry.
    #[serde(rename_all = "camelCase")]
    MoveLeaf {
        /// None: before the first.
        #[serde(default)]
        entry_id: Option<EntryId>,
        /// The branch that is left is summed up.
        #[serde(default)]
        summarize: bool,
        /// The user's wishes for that summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        custom_instructions: Option<String>,
    },
    /// Takes the last exchange out of what the model reads.
    Undo,
    /// Takes the newest undo back.
    Redo,
    /// A new session of what stands before a user's message.
    #[serde(rename_all = "camelCase")]
    Fork {
        /// The message.
        entry_id: EntryId,
    },
    /// A new session of the whole path.
    Clone,
    /// Names the session; a blank name takes it away.
    SetSessionName {
        /// The name.
        name: String,
    },
    /// Labels an entry.
    #[serde(rename_all = "camelCase")]
    SetLabel {
        /// The entry.
        entry_id: EntryId,
        /// None takes its label away.
        #[serde(default)]
        label: Option<String>,
    },
}
