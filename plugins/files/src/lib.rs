//! The shipped plugin `files`: the tools [`Read`], [`Write`], [`Edit`] and [`Ls`] over the folders that were granted.
//!
//! The folders are the sandbox; what a tool cannot reach is not there for it. Most modules know nothing of a host and are
//! tested on the machine that builds them: `page` (some lines of a file), `matching` and `diff` (edits), `image` (whether
//! a picture is whole), `listing` (a folder's names).

mod bmp;
mod diff;
mod disk;
mod edit;
mod folded;
mod image;
mod letters;
mod listing;
mod ls;
mod matching;
mod misses;
mod page;
mod place;
mod read;
mod sniff;
mod write;

pub use edit::Edit;
pub use ls::Ls;
pub use read::Read;
pub use write::Write;

pith_sdk::tools!(Read, Write, Edit, Ls);
