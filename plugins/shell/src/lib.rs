//! The shipped plugin `shell`: the tool `bash` over the host's `process`. The host owns groups, sandbox and spool; schema,
//! wording and truncation are decided here.

pub mod report;
pub mod tail;
mod tool;

pith_sdk::tools!(tool::Bash);
