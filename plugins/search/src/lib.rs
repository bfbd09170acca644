//! The shipped plugin `search`: the tools `grep` and `find` over the host's `scan`, which is parallel and honours ignore
//! files. What the model reads of it is decided here.

pub mod findings;
mod tools;

pith_sdk::tools!(tools::Grep, tools::Find);
