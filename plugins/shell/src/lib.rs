//! The shipped plugin `shell`: the tools `bash` and `bash_stop` over the host's `process`. The host owns groups, sandbox and spool; schema,
//! wording and truncation are decided here. All but [`tool`] knows nothing of a host.

pub mod follow;
pub mod jobs;
pub mod line;
pub mod report;
pub mod stop;
pub mod tail;
pub mod tool;

pith_sdk::tools!(tool::Bash, tool::BashStop);
