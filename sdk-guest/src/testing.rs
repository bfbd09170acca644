//! Tests of a plugin without a host, for its pure parts: a [`Place`] to stand in, and calls as the host would make them.
//!
//! Not in components: only where the plugin's code is built for the machine that tests it.
//!
//! ```
//! use pith_sdk::{Context, Error, Input, Output, Tool, serde_json::json, testing::Place};
//!
//! #[derive(serde::Deserialize, Input)]
//! struct Shout {
//!     /// What to say.
//!     text: String,
//! }
//!
//! impl Tool for Shout {
//!     const NAME: &'static str = "shout";
//!     const DESCRIPTION: &'static str = "Says it louder.";
//!     type Input = Self;
//!
//!     fn run(input: Self, _: &Context) -> Result<Output, Error> {
//!         Ok(Output::text(input.text.to_uppercase()))
//!     }
//! }
//!
//! let place = Place::fresh();
//! assert_eq!(place.call::<Shout>(&json!({ "text": "hey" }))?.to_text(), "HEY");
//! assert!(place.call::<Shout>(&json!({ "words": "hey" })).is_err());
//! # Ok::<(), Error>(())
//! ```
//!
//! # What is as in the host, and what is not
//!
//! Input is checked against the tool's schema (the keywords that the derive and the builder write) and comes as canonical JSON.
//! `context`, `log`, `progress`, `settings` and `state` are answered by the place. Paths are checked against the folders of the
//! place; a link that leads out is refused by [`GuestPath`](crate::paths::GuestPath) only, not by `std::fs`. `process`,
//! `scan`, `http`, `dialog` and the others that reach the world panic, and say so: for these, run the component in the real
//! program (`pith_tests::author`). Limits of memory, time and size are the host's and are not here.

mod fit;
mod place;
mod saved;

pub use place::{Facts, Place};

#[cfg(not(doc))]
pub(crate) use place::{granted_folders, here, needs_host};
