//! The plain face: a conversation line by line, for every terminal and every reader of one.
//!
//! `conversation` is the loop, `beside` what goes on while it waits for a run. The `keyboard` alone reads the terminal, `pasted` keeps its lines
//! together that are one message, the `screen` alone writes to it (and the `editor`, while a line is edited); `transcript` turns events into
//! lines, `command` a line of the user's into what it means, `sessions` does what commands
//! say of the session's tree and of other sessions. `question` asks, one thing at a time: for gates itself, for plugins by `dialog`
//! and, of a form, `field`.

mod beside;
mod command;
mod conversation;
mod dialog;
mod editor;
mod field;
mod keyboard;
mod live;
mod mention;
mod modes;
mod pasted;
mod question;
mod screen;
mod sessions;
mod style;
mod transcript;

pub use conversation::{Beginning, converse};
