//! From a component's bytes to a plugin that can be called. Nothing of the guest runs here but `specs`, and that only when its answer is
//! not kept from an earlier start.

use crate::{
    cache::{CodeCache, hex_digest, in_memory},
    call::Caller,
    definition::Definitions,
    error::LoadError,
    exports,
    files::OpenFiles,
    folders::Folders,
    host::{PluginCode, PluginSource},
    imports::{self, dialog::Questions, process::ProcessAuthority},
    limits::{COMPACTOR_DEADLINE, COMPONENT_BYTES, MODEL_WAIT, QUESTION_WAIT, TOOL_DEADLINE_MAX},
    log::LogSink,
    plugin::{Code, Facts, Plugin},
    usage::Usage,
};
use pith_core::canonical_json;
use pith_law::{Authority, Capability, Export, ImportKind, Request, export_request, import_kind, missing};
use pith_os::{OpenError, Sandbox, SpoolDir, read_regular};
use std::{borrow::Cow, ffi::OsString, path::PathBuf, sync::Arc};
use wasmtime::{Engine, component::Component};

/// The versions of the contract that are served: additions within a minor version keep old guests linking.
const CONTRACT: &str = "0.1.";
/// The versions of WASI that are served.
const WASI: &str = "0.2.";
/// Exports that this host calls.
const CALLED: [Export; 4] = [Export::Tools, Export::ToolGate, Export::ToolFilter, Export::Compactor];

/// What loading a plugin needs beside the plugin.
pub(crate) struct Loader<'l> {
    pub caller: &'l Caller,
    pub cache: &'l CodeCache,
    pub spool: &'l SpoolDir,
    pub log: &'l Arc<dyn LogSink>,
    pub environment: &'l [(OsString, OsString)],
    pub sandbox: &'l Sandbox,
    /// Folders that some plugin may write to.
    pub writable: &'l [PathBuf],
}

impl Loader<'_> {
    /// Loads one. May run beside others, outside any async runtime.
    pub fn load(&self, source: PluginSource, folders: Folders) -> Result<(Plugin, Definitions), LoadError> {
        let plugin = source.name.as_str();
        let bytes = read(plugin, source.code)?;
        check_bytes(plugin, &bytes)?;
        let digest = hex_digest(&bytes);
        let Compiled { engine, component, is_pooled } = self
            .component(plugin, &digest, &bytes)
            .map_err(|error| LoadError::Compile { plugin: plugin.to_owned(), source: error.into_boxed_dyn_error() })?;
        let asks = check_type(plugin, &engine, &component, &source.grants)?;
        let code = Code::new(&self.caller.engines, &engine, is_pooled, component, &source.grants)
            .map_err(|error| LoadError::Link { plugin: plugin.to_owned(), source: error.into_boxed_dyn_error() })?;
        let process = ProcessAuthority::new(
            &source.grants,
            self.environment,
            source.inherits_environment,
            self.writable,
            self.sandbox.clone(),
        );
        let mut limits = source.limits;
        limits.tool_deadline = limits.tool_deadline.min(TOOL_DEADLINE_MAX);
        limits.question_wait = limits.question_wait.min(QUESTION_WAIT);
        limits.compactor_deadline = limits.compactor_deadline.min(COMPACTOR_DEADLINE);
        limits.model_wait = limits.model_wait.min(MODEL_WAIT);
        let facts = Facts {
            name: source.name,
            publisher: source.publisher,
            digest,
            settings: canonical_json(&source.settings),
            grants: source.grants,
            folders,
            files: OpenFiles::default(),
            process,
            asks,
            limits,
            questions: Questions::default(),
            spool: self.spool.clone(),
            log: self.log.clone(),
            usage: Usage::default(),
        };
        let plugin = Plugin::new(facts, code);
        let definitions = if plugin.serves(Export::Tools) { self.definitions(&plugin) } else { Definitions::default() };
        Ok((plugin, definitions))
    }

    /// From the cache, or compiled; in the pool, or on demand where a component has more of something than a slot of the pool.
    fn component(&self, plugin: &str, digest: &str, bytes: &[u8]) -> wasmtime::Result<Compiled> {
        let engines = &self.caller.engines;
        let first = engines.first()?;
        let compiled = |engine: &Engine, component| Compiled {
            engine: engine.clone(),
            component,
            is_pooled: engines.pooled().is_some_and(|pooled| Engine::same(pooled, engine)),
        };
        if let Some(component) = self.cache.load(first, digest) {
            return Ok(compiled(first, component));
        }
        let spare = engines.on_demand()?;
        if let Some(component) = self.cache.load(spare, digest) {
            return Ok(compiled(spare, component));
        }
        self.log.compiling(plugin, bytes.len());
        let code = self.cache.compile(first, digest, bytes)?;
        // From the file where it could be kept: pages of a mapped one are shared and come when they are used.
        let open = |engine| self.cache.load(engine, digest).map_or_else(|| in_memory(engine, &code), Ok);
        match open(first) {
            Ok(component) => Ok(compiled(first, component)),
            Err(_) => Ok(compiled(spare, open(spare)?)),
        }
    }

    /// Kept from an earlier start, or asked for. What failed is asked again at the next start.
    fn definitions(&self, plugin: &Plugin) -> Definitions {
        let settings = format!("{}\0{}", env!("CARGO_PKG_VERSION"), plugin.facts.settings);
        let key = format!("{}-{}", plugin.facts.digest, &hex_digest(settings.as_bytes())[..16]);
        if let Some(kept) = self.cache.load_specs(&key).and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            return kept;
        }
        match exports::tools::specs(self.caller, plugin) {
            Ok(specs) => {
                let definitions = Definitions::check(specs);
                if let Ok(bytes) = serde_json::to_vec(&definitions) {
                    self.cache.keep_specs(&key, &bytes);
                }
                definitions
            }
            Err(reason) => {
                Definitions { specs: Vec::new(), refused: vec![format!("its tools are not offered: {reason}")] }
            }
        }
    }
}

/// A component's code in one of the engines.
struct Compiled {
    engine: Engine,
    component: Component,
    is_pooled: bool,
}

fn read(plugin: &str, code: PluginCode) -> Result<Cow<'static, [u8]>, LoadError> {
    match code {
        PluginCode::Bytes(bytes) => Ok(bytes),
        PluginCode::File(path) => match read_regular(&path, COMPONENT_BYTES as u64) {
            Ok(bytes) => Ok(bytes.into()),
            Err(OpenError::TooLarge { .. }) => Err(too_large(plugin)),
            Err(source) => Err(LoadError::Unreadable { plugin: plugin.to_owned(), source }),
        },
    }
}

fn too_large(plugin: &str) -> LoadError {
    LoadError::TooLarge { plugin: plugin.to_owned(), limit_bytes: COMPONENT_BYTES }
}

/// By content, never by name.
fn check_bytes(plugin: &str, bytes: &[u8]) -> Result<(), LoadError> {
    let plugin = plugin.to_owned();
    if Engine::detect_precompiled(bytes).is_some() || bytes.starts_with(b"\x7fELF") {
        return Err(LoadError::Precompiled { plugin });
    }
    if bytes.len() > COMPONENT_BYTES {
        return Err(too_large(&plugin));
    }
    match (bytes.get(..4), bytes.get(4..8)) {
        (Some(b"\0asm"), Some([_, _, 1, 0])) => Ok(()),
        (Some(b"\0asm"), Some([_, _, 0, 0])) => Err(LoadError::CoreModule { plugin }),
        _ => Err(LoadError::NotAComponent { plugin }),
    }
}

/// Reads what the component asks for, and compares it with what is served and what was granted. Gives what it asks for; folders that the
/// standard library would use are among it, and are no reason to refuse it.
fn check_type(
    plugin: &str,
    engine: &Engine,
    component: &Component,
    grants: &[Capability],
) -> Result<Vec<Request>, LoadError> {
    let kind = component.component_type();
    let unknown = |name: &str, is_export| LoadError::UnknownInterface {
        plugin: plugin.to_owned(),
        interface: name.to_owned(),
        is_export,
    };
    let mut requests = Vec::new();
    for (name, _) in kind.imports(engine) {
        let version = if name.starts_with("wasi:") { WASI } else { CONTRACT };
        match import_kind(name) {
            ImportKind::Unknown => return Err(unknown(name, false)),
            _ if !is_version(name, version) => return Err(unknown(name, false)),
            ImportKind::AlwaysGranted | ImportKind::Standard | ImportKind::Types => {}
            ImportKind::Request(request) => {
                // `wasi:http` is asked for by its presence; nothing serves it yet, so a grant does not help.
                let is_granted = grants.iter().any(|grant| request.is_served_by(grant));
                let is_refused_by_grant = request == Request::Authority(Authority::Http) && name.starts_with("wasi:");
                if !imports::is_served(request) && (is_granted || !is_refused_by_grant) {
                    return Err(unknown(name, false));
                }
                requests.push(request);
            }
        }
    }
    for (name, _) in kind.exports(engine).filter(|(name, _)| name.starts_with("pith:")) {
        let called =
            export_request(name).filter(|request| CALLED.iter().any(|export| *request == Request::Export(*export)));
        match called {
            Some(request) if is_version(name, CONTRACT) => requests.push(request),
            _ => return Err(unknown(name, true)),
        }
    }
    let missing = missing(&requests, grants);
    if !missing.is_empty() {
        return Err(LoadError::MissingGrants { plugin: plugin.to_owned(), missing });
    }
    if kind.imports(engine).any(|(name, _)| name.starts_with("wasi:filesystem/")) {
        requests.push(Request::Files);
    }
    Ok(requests)
}

fn is_version(name: &str, served: &str) -> bool {
    name.split_once('@').is_some_and(|(_, version)| version.starts_with(served) && !version.contains('-'))
}

/// Whether the component exports this interface of the contract.
pub(crate) fn has_export(engine: &Engine, component: &Component, interface: &str) -> bool {
    let wanted = format!("pith:plugin/{interface}@{CONTRACT}");
    component.component_type().exports(engine).any(|(name, _)| name.starts_with(&wanted))
}
