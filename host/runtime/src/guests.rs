//! The plugins of a session, loaded: what `core` calls its tools and hooks.

use crate::{
    environment::Environment,
    log::FileLog,
    notice::one_line,
    places::Places,
    plugins::{Origin, Planned, Written, unread, useless},
    sandbox,
    scratch::{self, OwnFolders, Scratch},
    settings::Settings,
    usage::Recorder,
};
use futures::future::BoxFuture;
use pith_core::{
    CallOutcome, CallScope, CanonicalCall, Fault, Filtered, Hooks, Judgement, OfferedTool, Outbox, Spool, Tools,
};
use pith_law::Capability;
use pith_os::{Sandbox, SandboxLevel, SandboxMachine};
use pith_plugin::{
    HostConfig, Limits, LoadError, LogLevel, LogLine, LogSink, Notice, PluginCode, PluginHost, PluginSource, limits,
};
use pith_protocol::{CallOrigin, ToolOutput};
use serde_json::{Map, Value};
use std::{
    borrow::Cow,
    error::Error,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

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
    /// None without plugins.
    pub usage: Option<Recorder>,
    /// What holds programs; none where no plugin may run any.
    pub sandbox: Option<Sandbox>,
}

/// Guests that do not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestsError {
    /// One of them. Its words and those of all its causes, on one line: a component's own names are in them, so it has no `source` that
    /// would say them again as they are.
    #[error("{}", whole(.0))]
    Load(LoadError),
    /// A grant of what its plugin does not ask for: it is a mistake, of the name or of what the plugin needs.
    #[error("--grant {text} is of no use: plugin {plugin} asks for {list}",
        list = if asks.is_empty() { "nothing".to_owned() } else { asks.join(", ") })]
    UselessGrant {
        /// As written.
        text: String,
        /// The plugin.
        plugin: String,
        /// What its type asks for.
        asks: Vec<String>,
    },
    /// No folder at all can be made: neither in Pith's places, nor a temporary one, nor one in memory.
    #[error("no folder for plugins can be made, the last try was at {path}: {source}", path = path.display())]
    Folder {
        /// Where.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
}

impl From<LoadError> for GuestsError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

/// An error with its causes, those that it has not in its own words already.
fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    one_line(&text)
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
    /// Who is told what takes long.
    pub progress: Option<Progress>,
    /// How far programs are held, and what of the machine may be used for it.
    pub sandbox: SandboxLevel,
    pub sandbox_mask: SandboxMachine,
    /// Where is said what holds them.
    pub outbox: Outbox,
}

impl House<'_> {
    /// Loads them all. Blocks: compiling takes its time at the first start.
    pub fn load(&self, planned: Vec<Planned>) -> Result<Guests, GuestsError> {
        if planned.is_empty() {
            let (scratch, spool) = scratch::untouched(self.places, self.session, self.is_kept);
            return Ok(Guests {
                tools: Arc::new(NoPlugins),
                hooks: Arc::new(NoPlugins),
                spool,
                notices: Vec::new(),
                scratch,
                usage: None,
                sandbox: None,
            });
        }
        let own = scratch::make(self.places, &std::env::temp_dir(), self.session, self.is_kept, &planned)
            .map_err(|(path, source)| GuestsError::Folder { path, source })?;
        let OwnFolders { mut scratch, mut notices, outputs, spool, plugin_data, temp } = own;
        let runs_programs = planned.iter().any(sandbox::runs_programs);
        let names: Vec<String> = planned.iter().map(|plugin| plugin.name.clone()).collect();
        let written: Vec<Written> = planned.iter().map(|plugin| plugin.written.clone()).collect();
        let sandbox = sandbox::of_session(self, &planned, &[outputs.path(), &temp], &mut scratch, &mut notices);
        let host = PluginHost::load(HostConfig {
            cache_dir: self.places.compiled(),
            places: pith_plugin::Places {
                workspace: self.workspace.to_owned(),
                spool: outputs.path().to_owned(),
                plugin_data,
                temp,
                skills: Vec::new(),
                reserved: self.places.reserved(),
            },
            spool: outputs,
            sandbox: sandbox.clone(),
            plugins: planned.into_iter().map(|plugin| self.source(plugin)).collect(),
            environment: self.environment.for_children(),
            // Shipped plugins stand first, so that their tools have their names before any other's.
            reserved_tools: Vec::new(),
            log: Arc::new(Log { file: FileLog::new(self.places.log_file()), progress: self.progress.clone() }),
        })?;
        for (written, loaded) in written.iter().zip(host.plugins()) {
            if let Some(text) = useless(written, &loaded.asks).next() {
                let asks = loaded.asks.iter().map(ToString::to_string).collect();
                return Err(GuestsError::UselessGrant { text: text.to_owned(), plugin: loaded.name, asks });
            }
        }
        notices.extend(unread(self.settings.plugins.keys(), &names));
        notices.extend(host.notices().iter().map(|notice| told(notice, &names)));
        let host = Arc::new(host);
        let file = self.is_kept.then(|| self.places.plugin_use_file());
        let usage = Some(Recorder::new(host.clone(), file));
        Ok(Guests {
            tools: host.clone(),
            hooks: host,
            spool,
            notices,
            scratch,
            usage,
            sandbox: runs_programs.then_some(sandbox),
        })
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

/// What the gate says of a plugin, or of itself: then it names nobody who was loaded.
fn told(notice: &Notice, loaded: &[String]) -> String {
    if loaded.contains(&notice.plugin) {
        format!("plugin {}: {}", notice.plugin, notice.text)
    } else {
        notice.text.clone()
    }
}

/// Who is told what the start is busy with, while it is: one line. Called from the threads that work.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// The component from which on compiling takes long enough to be told, in bytes: about a second.
const TOLD_FROM_BYTES: usize = 800_000;

/// Plugins' lines go to the file; what takes long is told.
struct Log {
    file: FileLog,
    progress: Option<Progress>,
}

impl LogSink for Log {
    fn compiling(&self, plugin: &str, bytes: usize) {
        if let Some(progress) = &self.progress
            && bytes >= TOLD_FROM_BYTES
        {
            let megabytes = bytes as f64 / 1e6;
            progress(&format!("compiling plugin {plugin} ({megabytes:.1} MB), at its first start only ..."));
        }
    }

    fn write(&self, line: LogLine<'_>) {
        let level = match line.level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        };
        self.file.write(level, line.plugin, line.message);
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
