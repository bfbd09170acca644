//! Why a plugin does not start.

use pith_law::{CapabilityError, FolderRefusal, Request};
use std::path::PathBuf;

/// A plugin that does not start, and why. With any of these the whole start ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It asks for more than it has.
    #[error("plugin {plugin} asks for what it was not granted: {list}; grant it with {arguments}",
        list = names(.missing), arguments = grant_arguments(.plugin, .missing).join(" "))]
    MissingGrants {
        /// The plugin.
        plugin: String,
        /// Everything that is missing.
        missing: Vec<Request>,
    },
    /// Its file cannot be read.
    #[error("plugin {plugin}: {source}")]
    Unreadable {
        /// The plugin.
        plugin: String,
        /// Why.
        #[source]
        source: pith_os::OpenError,
    },
    /// Its file is larger than a component may be.
    #[error("plugin {plugin} is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The plugin.
        plugin: String,
        /// [`crate::limits::COMPONENT_BYTES`].
        limit_bytes: usize,
    },
    /// Native code: refused everywhere, by content.
    #[error("plugin {plugin} is precompiled code; only WebAssembly components are loaded")]
    Precompiled {
        /// The plugin.
        plugin: String,
    },
    /// A core module.
    #[error(
        "plugin {plugin} is a core WebAssembly module, not a component; build it for wasm32-wasip2, or make a component of it"
    )]
    CoreModule {
        /// The plugin.
        plugin: String,
    },
    /// No WebAssembly at all.
    #[error("plugin {plugin} is not a WebAssembly component")]
    NotAComponent {
        /// The plugin.
        plugin: String,
    },
    /// Its code cannot be compiled.
    #[error("plugin {plugin} cannot be compiled: {source}")]
    Compile {
        /// The plugin.
        plugin: String,
        /// The compiler's words.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It imports or exports an interface of ours that this host does not serve, or imports one that nobody serves.
    #[error("plugin {plugin} {verb} {interface}, which this version of Pith does not serve", verb = if *.is_export { "exports" } else { "imports" })]
    UnknownInterface {
        /// The plugin.
        plugin: String,
        /// As the component names it.
        interface: String,
        /// An export of the component; else an import.
        is_export: bool,
    },
    /// Its types are not those of the interface that it names.
    #[error("plugin {plugin} does not fit the contract: {source}")]
    Link {
        /// The plugin.
        plugin: String,
        /// The linker's words.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A folder of its grants is kept from plugins.
    #[error("plugin {plugin} cannot be given {capability}: {source}")]
    Folder {
        /// The plugin.
        plugin: String,
        /// The grant.
        capability: String,
        /// Which rule.
        #[source]
        source: FolderRefusal,
    },
    /// A folder of its grants cannot be opened.
    #[error("plugin {plugin} cannot be given {capability}: {path}: {source}", path = .path.display())]
    FolderUnusable {
        /// The plugin.
        plugin: String,
        /// The grant.
        capability: String,
        /// The folder.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// Two plugins have one name.
    #[error("two plugins are called {plugin}")]
    RepeatedName {
        /// The name.
        plugin: String,
    },
    /// A name that is not `[a-z0-9-]`.
    #[error("{plugin:?} is no plugin name: a-z, 0-9 and -")]
    Name {
        /// As given.
        plugin: String,
    },
    /// A grant cannot be read.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// The engine itself does not start.
    #[error("the WebAssembly engine does not start: {source}")]
    Engine {
        /// Its words.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system refused a thread.
    #[error("plugin {plugin} was not loaded: its loader failed")]
    Loader {
        /// The plugin.
        plugin: String,
    },
}

impl LoadError {
    /// The arguments that would grant what is missing, one for each: `--grant NAME:CAPABILITY[=BOUND]`.
    pub fn grant_arguments(&self) -> Vec<String> {
        match self {
            Self::MissingGrants { plugin, missing } => grant_arguments(plugin, missing),
            _ => Vec::new(),
        }
    }
}

fn grant_arguments(plugin: &str, missing: &[Request]) -> Vec<String> {
    missing.iter().map(|request| format!("--grant {}", request.argument(plugin))).collect()
}

fn names(missing: &[Request]) -> String {
    missing.iter().map(Request::to_string).collect::<Vec<_>>().join(", ")
}
