//! The shipped plugin `files`: the tools `read`, `write`, `edit` and `ls` over the folders that were granted.
//!
//! The folders are the sandbox; what a tool cannot reach is not there for it. The pure parts ([`page`], [`matching`],
//! [`diff`] ...) know nothing of a host and are tested on the machine that builds them.

pub mod diff;
pub mod disk;
pub mod folded;
pub mod listing;
pub mod matching;
pub mod page;
pub mod sniff;
mod tools;

pith_sdk::tools!(tools::Read, tools::Write, tools::Edit, tools::Ls);
