//! Capabilities: what a plugin may be given, in the text form `CAPABILITY[=BOUND]` that grants and `--grant` share.

use crate::{fold_plugin_name, folder::normalise};
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$case_doc])* $case),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$case),*];

            /// The word of the contract.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$case => $text),* }
            }

            /// The one that is called so.
            pub fn named(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$case),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

named! {
    /// An exported interface of `pith:plugin`: a power over the work. It has no bound.
    #[allow(missing_docs)]
    Export {
        Tools = "tools",
        ToolGate = "tool-gate",
        ToolRewrite = "tool-rewrite",
        ToolFilter = "tool-filter",
        RequestHook = "request-hook",
        ContextHook = "context-hook",
        Prompt = "prompt",
        InputHook = "input-hook",
        StopHook = "stop-hook",
        SessionGate = "session-gate",
        Observer = "observer",
        Compactor = "compactor",
        Commands = "commands",
        EntryView = "entry-view",
        Provider = "provider",
    }
}

named! {
    /// An authority that is neither files nor processes.
    Authority {
        /// HTTP requests; the bound is a URL pattern, kept as text.
        Http = "http",
        /// Secrets put into requests; the bound is a name.
        Secrets = "secrets",
        /// Reads the conversation; the bound is one of the kinds of entries, all without.
        SessionRead = "session-read",
        /// Names the session and labels its entries.
        SessionLabels = "session-labels",
        /// Puts messages before the model; the bound is one of the methods, all without.
        Agent = "agent",
        /// Calls tools; the bound is a tool's name.
        ToolCalls = "tool-calls",
        /// Asks a model; the bound is `provider/model`, any without.
        Models = "models",
        /// Shows things to the person.
        Ui = "ui",
        /// Asks the person.
        Dialog = "dialog",
        /// Keeps text outside sessions.
        Storage = "storage",
    }
}

/// Whether a capability is written with a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundLaw {
    /// Never.
    None,
    /// With one it is less.
    Optional,
    /// Always.
    Required,
}

impl Authority {
    /// Whether this one has a bound.
    pub fn bound_law(self) -> BoundLaw {
        match self {
            Self::Http | Self::Secrets | Self::ToolCalls => BoundLaw::Required,
            Self::SessionRead | Self::Agent | Self::Models => BoundLaw::Optional,
            Self::SessionLabels | Self::Ui | Self::Dialog | Self::Storage => BoundLaw::None,
        }
    }
}

/// A folder that a grant names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Folder {
    /// The working folder.
    Workspace,
    /// Where long outputs of the session lie; never writable.
    Spool,
    /// The plugin's own folder.
    PluginData,
    /// A folder for temporary files.
    Temp,
    /// The folders of skills; never writable.
    Skills,
    /// An absolute path, normalised.
    Path(PathBuf),
}

/// What may be done in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// Read.
    Read,
    /// Read, write, create, delete.
    ReadWrite,
}

/// The bound of `files`: `FOLDER[:r|:rw]`, read-only where it does not say.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilesBound {
    /// Where.
    pub folder: Folder,
    /// What.
    pub access: Access,
}

/// The bound of `process`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProcessBound {
    /// A bare program name, without `/`, `:` and white space.
    Program(String),
    /// `env:NAME`: a variable that the plugin may set for its programs.
    Variable(String),
}

/// Something that a plugin may be given. Several bounds of one kind are several capabilities.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Capability {
    /// The host calls this export.
    Export(Export),
    /// `wasi:filesystem` and `scan`, within one folder.
    Files(FilesBound),
    /// `process`, for one program or variable.
    Process(ProcessBound),
    /// Anything else; the bound as text.
    Authority(Authority, Option<String>),
}

/// Text that is no capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CapabilityError {
    /// There is none of that name.
    #[error("there is no capability {name:?}; there are: {known}", known = known_names())]
    Unknown {
        /// As written.
        name: String,
    },
    /// It is never written with a bound.
    #[error("{name} has no bound; write it without {bound:?}", bound = format!("={bound}"))]
    NoBound {
        /// The capability.
        name: &'static str,
        /// As written.
        bound: String,
    },
    /// It is always written with a bound.
    #[error("{name} needs a bound: {name}={form}")]
    BoundMissing {
        /// The capability.
        name: &'static str,
        /// How a bound of it is written.
        form: &'static str,
    },
    /// Its bound cannot be read.
    #[error("{bound:?} is no bound of {name}: {reason}")]
    Bound {
        /// The capability.
        name: &'static str,
        /// As written.
        bound: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// The longest text form that is read, in bytes.
const CAPABILITY_BYTES: usize = 4096;

fn known_names() -> String {
    let exports = Export::ALL.iter().map(|export| export.as_str());
    let authorities = Authority::ALL.iter().map(|authority| authority.as_str());
    exports.chain(["files", "process"]).chain(authorities).collect::<Vec<_>>().join(", ")
}

impl FromStr for Capability {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let (name, bound) = match text.split_once('=') {
            Some((name, bound)) => (name, Some(bound)),
            None => (text, None),
        };
        if text.len() > CAPABILITY_BYTES {
            let name = name.chars().take(40).collect();
            return Err(CapabilityError::Unknown { name });
        }
        if let Some(export) = Export::named(name) {
            return match bound {
                None => Ok(Self::Export(export)),
                Some(bound) => Err(CapabilityError::NoBound { name: export.as_str(), bound: bound.to_owned() }),
            };
        }
        match (name, bound) {
            ("files", Some(bound)) => files_bound(bound).map(Self::Files),
            ("process", Some(bound)) => process_bound(bound).map(Self::Process),
            ("files", None) => Err(CapabilityError::BoundMissing { name: "files", form: FILES_FORM }),
            ("process", None) => Err(CapabilityError::BoundMissing { name: "process", form: "PROGRAM" }),
            _ => {
                let authority =
                    Authority::named(name).ok_or_else(|| CapabilityError::Unknown { name: name.to_owned() })?;
                authority_bound(authority, bound)
            }
        }
    }
}

const FILES_FORM: &str = "workspace|spool|plugin-data|temp|skills|/PATH[:rw]";

fn files_bound(text: &str) -> Result<FilesBound, CapabilityError> {
    let refused = |reason| CapabilityError::Bound { name: "files", bound: text.to_owned(), reason };
    let (folder, access) = if let Some(folder) = text.strip_suffix(":rw") {
        (folder, Access::ReadWrite)
    } else {
        (text.strip_suffix(":r").unwrap_or(text), Access::Read)
    };
    let folder = match folder {
        "workspace" => Folder::Workspace,
        "spool" => Folder::Spool,
        "plugin-data" => Folder::PluginData,
        "temp" => Folder::Temp,
        "skills" => Folder::Skills,
        path if has_control(path) => return Err(refused("it has control characters")),
        path => Folder::Path(normalise(Path::new(path)).ok_or_else(|| {
            refused("it is none of workspace, spool, plugin-data, temp, skills, and no absolute path")
        })?),
    };
    if access == Access::ReadWrite && matches!(folder, Folder::Spool | Folder::Skills) {
        return Err(refused("this folder is never writable"));
    }
    Ok(FilesBound { folder, access })
}

/// Variables that change which code a program runs: never a plugin's to set.
const VARIABLES_KEPT: [&str; 12] = [
    "PATH",
    "BASH_ENV",
    "ENV",
    "NODE_OPTIONS",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PERL5LIB",
    "PERL5OPT",
    "RUBYOPT",
    "RUBYLIB",
    "IFS",
    "SHELLOPTS",
];
const VARIABLE_PREFIXES_KEPT: [&str; 4] = ["LD_", "DYLD_", "GIT_", "BASH_FUNC_"];

fn process_bound(text: &str) -> Result<ProcessBound, CapabilityError> {
    let refused = |reason| CapabilityError::Bound { name: "process", bound: text.to_owned(), reason };
    if let Some(variable) = text.strip_prefix("env:") {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if variable.is_empty() || !variable.bytes().all(plain) || variable.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(refused("a variable's name is letters, digits and _"));
        }
        let upper = variable.to_ascii_uppercase();
        if VARIABLES_KEPT.contains(&upper.as_str())
            || VARIABLE_PREFIXES_KEPT.iter().any(|prefix| upper.starts_with(prefix))
        {
            return Err(refused("this variable decides which code programs run"));
        }
        return Ok(ProcessBound::Variable(variable.to_owned()));
    }
    if text.is_empty() || text.starts_with(['-', '.']) {
        return Err(refused("a program is a bare name, such as git"));
    }
    if text.contains(['/', '\\', ':', '*']) || text.chars().any(char::is_whitespace) || has_control(text) {
        return Err(refused("a program is a bare name, without a path, pattern or arguments"));
    }
    Ok(ProcessBound::Program(text.to_owned()))
}

fn authority_bound(authority: Authority, bound: Option<&str>) -> Result<Capability, CapabilityError> {
    let name = authority.as_str();
    match (authority.bound_law(), bound) {
        (BoundLaw::None, Some(bound)) => Err(CapabilityError::NoBound { name, bound: bound.to_owned() }),
        (BoundLaw::Required, None) => Err(CapabilityError::BoundMissing { name, form: bound_form(authority) }),
        (_, Some(bound)) if bound.is_empty() || has_control(bound) => Err(CapabilityError::Bound {
            name,
            bound: bound.to_owned(),
            reason: "it is empty or has control characters",
        }),
        (_, bound) => Ok(Capability::Authority(authority, bound.map(str::to_owned))),
    }
}

/// How a bound is written, for people.
pub(crate) fn bound_form(authority: Authority) -> &'static str {
    match authority {
        Authority::Http => "https://HOST",
        Authority::Secrets => "NAME",
        Authority::ToolCalls => "TOOL",
        Authority::SessionRead => "KIND",
        Authority::Agent => "METHOD",
        Authority::Models => "PROVIDER/MODEL",
        Authority::SessionLabels | Authority::Ui | Authority::Dialog | Authority::Storage => "",
    }
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Export(export) => write!(f, "{export}"),
            Self::Files(bound) => write!(f, "files={bound}"),
            Self::Process(ProcessBound::Program(program)) => write!(f, "process={program}"),
            Self::Process(ProcessBound::Variable(name)) => write!(f, "process=env:{name}"),
            Self::Authority(authority, None) => write!(f, "{authority}"),
            Self::Authority(authority, Some(bound)) => write!(f, "{authority}={bound}"),
        }
    }
}

impl fmt::Display for FilesBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match self.access {
            Access::Read => "r",
            Access::ReadWrite => "rw",
        };
        match &self.folder {
            Folder::Workspace => write!(f, "workspace:{access}"),
            Folder::Spool => write!(f, "spool:{access}"),
            Folder::PluginData => write!(f, "plugin-data:{access}"),
            Folder::Temp => write!(f, "temp:{access}"),
            Folder::Skills => write!(f, "skills:{access}"),
            Folder::Path(path) => write!(f, "{}:{access}", path.display()),
        }
    }
}

/// A capability given to one plugin: the argument of `--grant`, `NAME:CAPABILITY[=BOUND]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The plugin's name.
    pub plugin: String,
    /// What it is given.
    pub capability: Capability,
}

/// Text that is no grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// It has no `NAME:`.
    #[error("{text:?} is no grant; write NAME:CAPABILITY[=BOUND], such as mine:files=workspace:rw")]
    Form {
        /// As written.
        text: String,
    },
    /// What stands after the name is no capability.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
}

/// Reads `NAME:CAPABILITY[=BOUND]`.
pub fn parse_grant(text: &str) -> Result<Grant, GrantError> {
    let form = || GrantError::Form { text: text.chars().take(200).collect() };
    let (plugin, capability) = text.split_once(':').ok_or_else(form)?;
    // As it is made of a file's name: who writes `my_tool` means the plugin of `my_tool.wasm`.
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let plugin = plugin.bytes().all(is_name).then(|| fold_plugin_name(plugin)).flatten().ok_or_else(form)?;
    Ok(Grant { plugin, capability: capability.parse()? })
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        parse_grant(text)
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.plugin, self.capability)
    }
}

#[cfg(test)]
#[path = "capability_tests.rs"]
mod tests;
