//! Who asked for a call, and how a guest refuses one.

use serde::{Deserialize, Serialize};

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Caller {
    /// The model.
    Model,
    /// The user, by `!` or RPC.
    User,
    /// A plugin, through `tool-calls`.
    Plugin,
    /// A script.
    Script,
    /// An MCP server.
    Mcp,
    /// A replay.
    Replay,
    /// The host itself.
    Host,
}

impl Caller {
    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::User => "user",
            Self::Plugin => "plugin",
            Self::Script => "script",
            Self::Mcp => "mcp",
            Self::Replay => "replay",
            Self::Host => "host",
        }
    }
}

/// Who asked for a tool call, and who serves it: what only the host knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallOrigin {
    /// Who asked.
    pub caller: Caller,
    /// The plugin that asked, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// `publisher/plugin`, or `mcp:server`.
    pub served_by: String,
    /// The serving component's digest: sha256 in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The call that asked for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call_id: Option<String>,
    /// 0 for the model's own calls.
    pub depth: u32,
    /// Capabilities of the serving plugin, in the text form of grants.
    pub authorities: Vec<String>,
}

/// Why a guest refused: the only error type of the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GuestError {
    /// What kind of refusal.
    pub kind: GuestErrorKind,
    /// One sentence, fit for the model or a person once made harmless.
    pub message: String,
}

/// Kinds of refusals, as in `wit/types.wit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum GuestErrorKind {
    Invalid,
    NotFound,
    Denied,
    Conflict,
    Unavailable,
    Limit,
    Overflow,
    Unauthorized,
    Cancelled,
    Internal,
}
