//! What makes a guest pleasant to write: Rust bindings of Pith's contract (`wit/`), traits for what a plugin offers, and
//! the small things that every tool needs (text limits, paths, schemas).
//!
//! A plugin is a `cdylib` for `wasm32-wasip2`. It implements [`Tool`], [`Gate`] or [`Filter`] and names its types in
//! [`tools!`], [`export_gate!`] or [`export_filter!`]; the component then exports exactly those interfaces, and imports
//! exactly the authorities that its code uses.
//!
//! # A tool
//!
//! ```
//! use pith_sdk::{Context, Error, Input, Output, Tool, paths::GuestPath};
//!
//! #[derive(serde::Deserialize, Input)]
//! struct WordCount {
//!     /// The file, relative to the working folder.
//!     path: GuestPath,
//! }
//!
//! impl Tool for WordCount {
//!     const NAME: &'static str = "word_count";
//!     const DESCRIPTION: &'static str = "Counts the words of a text file.";
//!     type Input = Self;
//!
//!     fn run(Self { path }: Self, _: &Context) -> Result<Output, Error> {
//!         let words = path.read_to_string()?.split_whitespace().count();
//!         Ok(Output::text(format!("{path} has {words} words.")))
//!     }
//! }
//!
//! pith_sdk::tools!(WordCount);
//! ```
//!
//! This is all of `examples/word-count`. Its `Cargo.toml` has `crate-type = ["cdylib"]`, and it is built and tried by
//!
//! ```text
//! cargo build --release --target wasm32-wasip2
//! pith --plugin target/wasm32-wasip2/release/word_count.wasm --grant word-count:files=workspace:r -p "..."
//! ```
//!
//! [`Input`](trait@Input) says what the derive makes of types, doc comments and attributes. The host checks each call
//! against that schema before the tool sees it. Each call runs in a fresh instance: what shall outlive it goes into [`state`],
//! [`storage`] or a file.
//!
//! # Refusals
//!
//! A tool returns [`Error`] where it cannot serve the call: the model reads the message, so it says what to do next.
//! `?` turns the standard library's errors and a plugin's own into one; [`Explain`] adds what was tried. [`paths::GuestPath`]
//! explains itself: a folder that was not granted, a name with a typing error, a link that leads out. Work that was done and
//! failed (a test run, say) is an [`Output`] with [`error`](Output::error).
//!
//! # A gate and a filter
//!
//! A gate judges every tool call before it runs; the input is borrowed, and what the view does not name is skipped.
//!
//! ```
//! use pith_sdk::{Call, Error, Filter, Gate, Origin, Output, Text, Verdict};
//!
//! struct NoLockFiles;
//!
//! #[derive(serde::Deserialize)]
//! struct Written<'a> {
//!     #[serde(borrow)]
//!     path: Text<'a>,
//! }
//!
//! impl Gate for NoLockFiles {
//!     fn before_call(call: &Call, _: &Origin) -> Result<Verdict, Error> {
//!         if !matches!(call.name(), "write" | "edit") {
//!             return Ok(Verdict::Pass);
//!         }
//!         let Written { path } = call.input()?;
//!         Ok(match path.ends_with(".lock") {
//!             true => Verdict::deny("Lock files are made by their tools: run the tool instead."),
//!             false => Verdict::Pass,
//!         })
//!     }
//! }
//!
//! pith_sdk::export_gate!(NoLockFiles);
//!
//! struct NoSecrets;
//!
//! impl Filter for NoSecrets {
//!     fn after_call(_: &Call, _: &Origin, mut output: Output) -> Result<Option<Output>, Error> {
//!         let mut changed = false;
//!         for block in &mut output.content {
//!             if let pith_sdk::Content::Text(text) = block
//!                 && text.contains("hunter2")
//!             {
//!                 *text = text.replace("hunter2", "(secret)");
//!                 changed = true;
//!             }
//!         }
//!         Ok(changed.then_some(output))
//!     }
//! }
//!
//! pith_sdk::export_filter!(NoSecrets);
//! ```
//!
//! # A compactor, and asking a model
//!
//! A compactor writes what takes the place of older messages when the model's window is nearly full. Using [`models`] makes the
//! component import it; the session's model answers, and the session counts the tokens.
//!
//! ```no_run
//! use pith_sdk::{Compactor, Error, messages::{AssistantBlock, Message}, models, summary::{Job, Summary}, Content};
//!
//! struct Brief;
//!
//! impl Compactor for Brief {
//!     fn compact(job: Job) -> Result<Option<Summary>, Error> {
//!         let mut messages = job.messages;
//!         messages.push(Message::User(vec![Content::Text("Sum up all of this in ten lines.".to_owned())]));
//!         let query = models::Query {
//!             model: None,
//!             system: "You sum up conversations.".to_owned(),
//!             messages,
//!             thinking: None,
//!             output_tokens: job.limit_tokens,
//!             schema: None,
//!         };
//!         let reply = models::complete(&query)?;
//!         let text = reply.blocks.into_iter().filter_map(|block| match block {
//!             AssistantBlock::Text(text) => Some(text),
//!             _ => None,
//!         });
//!         Ok(Some(Summary { text: text.collect(), details: None }))
//!     }
//! }
//!
//! pith_sdk::export_compactor!(Brief);
//! ```
//!
//! # Settings and state
//!
//! [`settings`] are `[plugins.NAME]` of the user's file. [`state`] is kept in the session, at the leaf: right after every fork
//! and move. A tool that changes it is [`Sequential`](Execution::Sequential).
//!
//! ```
//! use pith_sdk::{Context, Error, Execution, Input, Output, Tool, serde_json, settings, state};
//!
//! #[derive(serde::Deserialize)]
//! #[serde(default)]
//! struct Settings {
//!     most: usize,
//! }
//!
//! impl Default for Settings {
//!     fn default() -> Self {
//!         Self { most: 20 }
//!     }
//! }
//!
//! #[derive(serde::Deserialize, Input)]
//! struct Remember {
//!     /// One thing to remember.
//!     #[input(min_length = 1)]
//!     note: String,
//! }
//!
//! impl Tool for Remember {
//!     const NAME: &'static str = "remember";
//!     const DESCRIPTION: &'static str = "Remembers a note for the rest of the session.";
//!     const EXECUTION: Execution = Execution::Sequential;
//!     type Input = Self;
//!
//!     fn run(Self { note }: Self, _: &Context) -> Result<Output, Error> {
//!         let Settings { most } = settings::get()?;
//!         let saved = state::load("notes")?;
//!         let mut notes: Vec<String> = match &saved {
//!             Some(saved) => serde_json::from_str(&saved.body)?,
//!             None => Vec::new(),
//!         };
//!         if notes.len() >= most {
//!             return Err(Error::limit(format!("There are {most} notes already, the most that the settings allow.")));
//!         }
//!         notes.push(note);
//!         state::save("notes", &serde_json::to_string(&notes)?)?;
//!         Ok(Output::text(format!("Remembered as note {}.", notes.len())).details(&notes))
//!     }
//! }
//!
//! # use pith_sdk::{serde_json::json, testing::Place};
//! let place = Place::fresh().with_settings(&json!({ "most": 1 }));
//! assert_eq!(place.call::<Remember>(&json!({ "note": "a" }))?.to_text(), "Remembered as note 1.");
//! assert!(place.call::<Remember>(&json!({ "note": "b" })).is_err());
//! # Ok::<(), Error>(())
//! ```
//!
//! # Programs, and searching
//!
//! Using [`process`] or [`scan`] makes the component import them, and Pith asks for the grant by name
//! (`--grant NAME:process=git`).
//!
//! ```no_run
//! use pith_sdk::{Error, process, scan};
//!
//! fn changed_files() -> Result<String, Error> {
//!     let command = process::Command::new("git").args(["status", "--short"]).timeout_ms(10_000);
//!     Ok(process::run(&command)?.stdout)
//! }
//!
//! fn todos(folder: &str) -> Result<usize, Error> {
//!     let globs = vec!["*.rs".to_owned()];
//!     Ok(scan::run(&scan::Query { globs, ..scan::Query::lines(folder, "TODO") })?.hits.len())
//! }
//! ```
//!
//! # Tests
//!
//! Everything here also compiles for the machine it is built on. [`testing::Place`] is a folder, settings and state to stand
//! in: tools, gates and filters are called there as the host would call them, in a `mod tests` beside them, by plain
//! `cargo test`:
//!
//! ```
//! # use pith_sdk::{Context, Error, Input, Output, Tool, paths::GuestPath};
//! # #[derive(serde::Deserialize, Input)]
//! # struct WordCount {
//! #     path: GuestPath,
//! # }
//! # impl Tool for WordCount {
//! #     const NAME: &'static str = "word_count";
//! #     const DESCRIPTION: &'static str = "Counts the words of a text file.";
//! #     type Input = Self;
//! #     fn run(Self { path }: Self, _: &Context) -> Result<Output, Error> {
//! #         let words = path.read_to_string()?.split_whitespace().count();
//! #         Ok(Output::text(format!("{path} has {words} words.")))
//! #     }
//! # }
//! use pith_sdk::{serde_json::json, testing::Place};
//!
//! let place = Place::fresh().with_file("a.txt", "three words here");
//! let output = place.call::<WordCount>(&json!({ "path": "a.txt" }))?;
//! assert_eq!(output.to_text(), "a.txt has 3 words.");
//! # Ok::<(), Error>(())
//! ```
//!
//! What reaches the world needs the host. `pith_tests::author` runs the component in the real program, with a scripted model and
//! a `check` for each behaviour; `tests/suite/own_tool.rs` does so for `examples/word-count`.

mod asked;
mod authorities;
mod call;
mod canonical;
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

/// Messages of a conversation, as a compactor is given them and as [`models::complete`] takes and gives them.
pub mod messages {
    pub use crate::bindings::imports::pith::plugin::messages::*;
}

/// What a [`Compactor`] is asked for and gives.
pub mod summary {
    pub use crate::bindings::compactor::exports::pith::plugin::compactor::{Job, Part, Reason, Summary};
}

pub use call::{Call, Text};
pub use context_of_call::Context;
pub use error::Explain;
pub use input::{Field, Input};
/// Derives [`Input`](trait@Input).
pub use pith_sdk_macros::Input;
pub use schema::{Property, Schema};
pub use tool::{Compactor, Filter, Gate, Tool};

pub use serde_json;

#[doc(hidden)]
pub mod glue {
    //! What the export macros expand to calls of.
    pub use crate::tool::{after_call, before_call, call, spec, unknown_tool};
}
