//! The plugins of a session, loaded: what `core` calls its tools and hooks.

use crate::{
    environment::Environment,
    log::FileLog,
    places::Places,
    plugins::{Origin, Planned},
    settings::Settings,
    spool::LazySpool,
};
use futures::future::BoxFuture;
use pith_core::{CallOutcome, CallScope, CanonicalCall, Fault, Filtered, Hooks, Judgement, OfferedTool, Spool, Tools};
use pith_law::{Capability, Folder};
use pith_os::SpoolDir;
use pith_plugin::{
    HostConfig, Limits, LoadError, LogLevel, LogLine, LogSink, PluginCode, PluginHost, PluginSource, limits,
};
use pith_protocol::{CallOrigin, ToolOutput};
use serde_json::{Map, Value};
use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

/// The memory of a shipped plugin that works on files: it holds whole ones.
const FILES_MEMORY_BYTES: usize = 256 << 20;

/// What a session has of plugins.
pub(crate) struct Guests {
    pub tools: Arc<dyn Tools>,
    pub hooks: Arc<dyn Hooks>,
    pub spool: Arc<dyn Spool>,
    /// For people.
    pub notices: Vec<String>,
    pub scratch: Scratch,
}

/// Folders that go when the session's process is done with it.
pub(crate) struct Scratch {
    /// Goes with all that is in it.
    _temp: Option<TempDir>,
    /// The session's spool folder.
    spool: PathBuf,
    /// Whether the session outlives the process: then its long outputs do.
    keeps_spool: bool,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: what stays is in a private folder. An empty spool folder says nothing; one with files fails to go.
        let _ = if self.keeps_spool { std::fs::remove_dir(&self.spool) } else { std::fs::remove_dir_all(&self.spool) };
    }
}

/// Guests that do not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestsError {
    /// One of them.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A folder of theirs.
    #[error("a folder for plugins cannot be made at {path}: {source}", path = path.display())]
    Folder {
        /// Where.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
}

/// What loading needs beside the plugins.
pub(crate) struct House<'a> {
    pub places: &'a Places,
    pub environment: &'a Environment,
    pub settings: &'a Settings,
    pub workspace: &'a Path,
    /// The session's id.
    pub session: &'a str,
    /// Whether the session is on disk.
    pub is_kept: bool,
}

impl House<'_> {
    /// Loads them all. Blocks: compiling takes its time at the first start.
    pub fn load(&self, planned: Vec<Planned>) -> Result<Guests, GuestsError> {
        let path = self.places.spool(self.session);
        let mut scratch = Scratch { _temp: None, spool: path.clone(), keeps_spool: self.is_kept };
        if planned.is_empty() {
            let (tools, hooks, spool) = (Arc::new(NoPlugins), Arc::new(NoPlugins), Arc::new(LazySpool::new(path)));
            return Ok(Guests { tools, hooks, spool, notices: Vec::new(), scratch });
        }
        let spool = SpoolDir::new(&path).map_err(|source| GuestsError::Folder { path, source })?;
        let wants_temp = |grant: &Capability| matches!(grant, Capability::Files(bound) if bound.folder == Folder::Temp);
        if planned.iter().flat_map(|plugin| &plugin.grants).any(wants_temp) {
            let made = tempfile::Builder::new().prefix("pith-").tempdir();
            let made = made.map_err(|source| GuestsError::Folder { path: std::env::temp_dir(), source })?;
            scratch._temp = Some(made);
        }
        let temp = scratch._temp.as_ref().map(|dir| dir.path().to_owned()).unwrap_or_default();
        let host = PluginHost::load(HostConfig {
            cache_dir: self.places.compiled(),
            places: pith_plugin::Places {
                workspace: self.workspace.to_owned(),
                spool: spool.path().to_owned(),
                plugin_data: self.places.plugin_data(),
                temp,
                skills: Vec::new(),
                reserved: self.places.reserved(),
            },
            spool: spool.clone(),
            plugins: planned.into_iter().map(|plugin| self.source(plugin)).collect(),
            environment: self.environment.for_children(),
            // Shipped plugins stand first, so that their tools have their names before any other's.
            reserved_tools: Vec::new(),
            log: Arc::new(Log(FileLog::new(self.places.log_file()))),
        })?;
        let notices =
            host.notices().iter().map(|notice| format!("plugin {}: {}", notice.plugin, notice.text)).collect();
        let host = Arc::new(host);
        Ok(Guests { tools: host.clone(), hooks: host, spool: Arc::new(LazySpool::opened(spool)), notices, scratch })
    }

    fn source(&self, plugin: Planned) -> PluginSource {
        let is_shipped = matches!(plugin.origin, Origin::Shipped(_));
        let starts_programs = plugin.grants.iter().any(|grant| matches!(grant, Capability::Process(_)));
        let has_folders = plugin.grants.iter().any(|grant| matches!(grant, Capability::Files(_)));
        let mut limits = Limits::default();
        if is_shipped && has_folders {
            limits.memory_bytes = FILES_MEMORY_BYTES;
        }
        if is_shipped && starts_programs {
            // Its tool has a timeout of its own, which the model chooses.
            limits.tool_deadline = limits::TOOL_DEADLINE_MAX;
        }
        let settings = self.settings.plugins.get(&plugin.name).cloned();
        PluginSource {
            code: match plugin.origin {
                Origin::Shipped(bytes) => PluginCode::Bytes(Cow::Borrowed(bytes)),
                Origin::File(path) => PluginCode::File(path),
            },
            name: plugin.name,
            publisher: plugin.publisher,
            grants: plugin.grants,
            settings: settings.unwrap_or_else(|| Value::Object(Map::new())),
            limits,
            is_shipped,
            inherits_environment: is_shipped && starts_programs,
        }
    }
}

/// Plugins' lines go to the file.
struct Log(FileLog);

impl LogSink for Log {
    fn write(&self, line: LogLine<'_>) {
        let level = match line.level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        };
        self.0.write(level, line.plugin, line.message);
    }
}

/// A session without plugins: no tools, no gates, no filters.
struct NoPlugins;

impl Tools for NoPlugins {
    fn offered(&self) -> Vec<Arc<OfferedTool>> {
        Vec::new()
    }

    fn run<'a>(&'a self, tool: &'a OfferedTool, _: &'a CanonicalCall, _: CallScope) -> BoxFuture<'a, CallOutcome> {
        // Nothing is offered, so dispatch never comes here; the answer is that of a plugin that is gone.
        let cause = "no plugin is loaded".to_owned();
        let fault = Fault { plugin: tool.plugin.clone(), export: "tools.call".to_owned(), cause };
        Box::pin(async { CallOutcome::Fault(fault) })
    }
}

impl Hooks for NoPlugins {
    fn judge<'a>(&'a self, _: &'a CanonicalCall, _: &'a CallOrigin, _: CallScope) -> BoxFuture<'a, Vec<Judgement>> {
        Box::pin(async { Vec::new() })
    }

    fn filter<'a>(
        &'a self,
        _: &'a CanonicalCall,
        _: &'a CallOrigin,
        output: ToolOutput,
        _: CallScope,
    ) -> BoxFuture<'a, Filtered> {
        Box::pin(async { Filtered::Output(output) })
    }
}
