//! What faces ask of a session.

use crate::Content;
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
    /// Ends the run; finished results stay, open calls are answered.
    Abort,
}
