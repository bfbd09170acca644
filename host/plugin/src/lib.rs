//! Gate: plugins are WebAssembly components, and this is where they run. Linking by grant, a fresh instance for each call, limits on
//! everything, faults apart from refusals.
//!
//! `host` is the whole; `load` brings a component in, `call` is one call's way, `imports` and `exports` have one file for each interface,
//! `limits` has every number. It serves `core`'s ports `Tools` and `Hooks`.

mod cache;
mod call;
mod cause;
mod conversation;
mod convert;
mod deadline;
mod definition;
mod engine;
mod error;
mod exports;
mod files;
mod folders;
mod host;
mod imports;
mod instance;
pub mod limits;
mod load;
mod log;
mod plugin;
mod quota;
mod stdio;
mod threads;
mod usage;
mod wasi;
mod writing;

pub use error::LoadError;
pub use folders::Places;
pub use host::{HostConfig, LoadedPlugin, Notice, PluginCode, PluginHost, PluginSource};
pub use limits::Limits;
pub use log::{LogLevel, LogLine, LogSink, NoLog};
pub use usage::{FunctionUse, PluginUse, WallTimes};
