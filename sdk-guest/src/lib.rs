//! What makes a guest pleasant to write: Rust bindings of Pith's contract (`wit/`), traits for what a plugin offers, and
//! the small things that every tool needs (text limits, paths, schemas).
//!
//! A plugin is a `cdylib` for `wasm32-wasip2`. It implements [`Tool`], [`Gate`] or [`Filter`] and names its types in
//! [`tools!`], [`export_gate!`] or [`export_filter!`]; the component then exports exactly those interfaces, and imports
//! exactly the authorities that its code uses. `examples/word-count` is a whole one.
//!
//! Everything here also compiles for the machine it is built on, so that the pure parts of a plugin are tested there: see
//! [`testing`].

mod authorities;
mod call;
mod context_of_call;
mod error;
mod input;
mod output;
mod schema;
mod tool;

#[allow(unsafe_code, missing_docs, clippy::all, rust_2018_idioms, reason = "generated from wit/ by wit-bindgen")]
#[doc(hidden)]
pub mod bindings;

pub mod log;
pub mod paths;
pub mod progress;
pub mod settings;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod text;

/// The authorities and services of the host, as `wit/imports.wit` describes them.
pub use authorities::{
    agent, context, dialog, http, models, process, scan, secrets, session_labels, session_read, state, storage,
    tool_calls, tool_updates, ui,
};
pub use bindings::imports::pith::plugin::call_types::CallOrigin as Origin;
pub use bindings::imports::pith::plugin::tool_types::{Execution, Exposure, ToolOutput as Output, ToolSpec};
pub use bindings::imports::pith::plugin::types::{Content, Error, ErrorKind, Image};
pub use bindings::tool_gate::exports::pith::plugin::tool_gate::{Question, Verdict};

pub use call::{Call, Text};
pub use context_of_call::Context;
pub use error::Explain;
pub use input::{Field, Input};
/// Derives [`Input`](trait@Input).
pub use pith_sdk_macros::Input;
pub use schema::{Property, Schema};
pub use tool::{Filter, Gate, Tool};

pub use serde_json;

#[doc(hidden)]
pub mod glue {
    //! What the export macros expand to calls of.
    pub use crate::tool::{after_call, before_call, call, spec, unknown_tool};
}
