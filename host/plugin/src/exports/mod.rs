//! What plugins export, one file each: how the host calls it.

pub(crate) mod compactor;
pub(crate) mod tool_filter;
pub(crate) mod tool_gate;
pub(crate) mod tools;
