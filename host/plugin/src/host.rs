//! The gate as a whole: loads plugins, and serves `core`'s ports with them.

use crate::{
    cache::CodeCache,
    call::{Caller, Ended},
    definition::Definitions,
    engine::Engines,
    error::LoadError,
    exports,
    folders::{Folders, Places, granted_folders, writable_paths},
    limits::Limits,
    load::Loader,
    log::LogSink,
    plugin::Plugin,
    usage::PluginUse,
};
use futures::future::{BoxFuture, join, join_all};
use pith_core::{
    CallOutcome, CallScope, CanonicalCall, Fault, Filtered, Hooks, Judgement, OfferedTool, Summarised, SummaryJob,
    Tools, Verdict,
};
use pith_law::{Capability, Export, Request, fold_plugin_name, fold_tool_name};
use pith_os::{Sandbox, SpoolDir};
use pith_protocol::{CallOrigin, Exposure, ToolOutput};
use serde_json::Value;
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A component's bytes, or where they are.
#[derive(Clone, Debug)]
pub enum PluginCode {
    /// The component itself.
    Bytes(Cow<'static, [u8]>),
    /// A file that the user named.
    File(PathBuf),
}

/// A plugin to load.
#[derive(Clone, Debug)]
pub struct PluginSource {
    /// `[a-z0-9-]`; unique.
    pub name: String,
    /// A key's fingerprint, else the source: `local:` and the real path, a registry. Completes the plugin's namespace.
    pub publisher: String,
    /// Its component.
    pub code: PluginCode,
    /// What it was granted: exports that are called, imports that are linked, their bounds.
    pub grants: Vec<Capability>,
    /// Its settings.
    pub settings: Value,
    /// Its limits.
    pub limits: Limits,
    /// It comes with Pith: its tools may have the reserved names.
    pub is_shipped: bool,
    /// Its programs get the whole of [`HostConfig::environment`]; else a short list of it.
    pub inherits_environment: bool,
}

/// What the gate needs from the house.
pub struct HostConfig {
    /// Compiled code is kept here: made with mode 0700; not used where others may enter it.
    pub cache_dir: PathBuf,
    /// Where the folders of grants are.
    pub places: Places,
    /// Where programs' long outputs go.
    pub spool: SpoolDir,
    /// What holds plugins' programs.
    pub sandbox: Sandbox,
    /// In the order in which they are asked; the shipped ones first.
    pub plugins: Vec<PluginSource>,
    /// The user's environment, already without any variable that a credential is read from.
    pub environment: Vec<(OsString, OsString)>,
    /// Tools' names that only shipped plugins may have.
    pub reserved_tools: Vec<String>,
    /// Where plugins' lines and the texts of faults go.
    pub log: Arc<dyn LogSink>,
}

/// Something that the user should know of a plugin that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The plugin.
    pub plugin: String,
    /// One sentence that goes on from "Plugin NAME: ". May have the plugin's own words in it.
    pub text: String,
}

/// A plugin that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedPlugin {
    /// Its name.
    pub name: String,
    /// Its publisher.
    pub publisher: String,
    /// Its component's sha256 in hex.
    pub digest: String,
    /// What it was granted.
    pub grants: Vec<Capability>,
    /// What its type asks for: exports that want to be called, imports that want to be linked. `Files` also where only the standard
    /// library asks for folders.
    pub asks: Vec<Request>,
    /// Its threads that hang in the file system, left behind by calls that are over.
    pub threads_left_behind: usize,
}

/// The plugins of a process. Serves tools and hooks to any number of sessions.
pub struct PluginHost {
    caller: Caller,
    plugins: Vec<Arc<Plugin>>,
    offered: Vec<Arc<OfferedTool>>,
    /// Which plugin serves a tool, by the tool's name.
    serving: HashMap<String, Arc<Plugin>>,
    notices: Vec<Notice>,
}

impl PluginHost {
    /// Loads all plugins, on as many threads as there are cores; the first error, in the order of the plugins, ends it.
    ///
    /// Blocks: about 2 ms for three plugins whose code is kept, 0.2 s for each 150 kB that has to be compiled. Needs no async runtime and may be
    /// called within one.
    pub fn load(mut config: HostConfig) -> Result<Self, LoadError> {
        let engine_failed = |error: wasmtime::Error| LoadError::Engine { source: error.into_boxed_dyn_error() };
        check_names(&config.plugins)?;
        let engines = Engines::new().map_err(engine_failed)?;
        let (cache, refused) = CodeCache::open(&config.cache_dir, engines.first().map_err(engine_failed)?);
        let mut notices: Vec<Notice> =
            refused.into_iter().map(|text| Notice { plugin: "pith".to_owned(), text }).collect();
        let caller = Caller::new(engines);
        let sources = std::mem::take(&mut config.plugins);
        let shipped: Vec<bool> = sources.iter().map(|source| source.is_shipped).collect();
        config.places.spool = config.spool.path().to_owned();
        config.places.reserve(&config.cache_dir);
        let folders = sources
            .iter()
            .map(|source| granted_folders(&source.name, &source.grants, &config.places))
            .collect::<Result<Vec<Folders>, LoadError>>()?;
        let writable = writable_paths(folders.iter().flat_map(|folders| &folders.list));
        let loader = Loader {
            caller: &caller,
            cache: &cache,
            spool: &config.spool,
            log: &config.log,
            environment: &config.environment,
            sandbox: &config.sandbox,
            writable: &writable,
        };
        let loaded = load_all(&loader, sources, folders)?;
        notices.extend(cache.trouble().map(|text| Notice { plugin: "pith".to_owned(), text }));
        let mut host =
            Self { caller, plugins: Vec::new(), offered: Vec::new(), serving: HashMap::new(), notices: Vec::new() };
        let mut names = Names { taken: HashMap::new(), reserved: &config.reserved_tools };
        for ((plugin, definitions), is_shipped) in loaded.into_iter().zip(shipped) {
            let plugin = Arc::new(plugin);
            notices.extend(host.offer(&plugin, definitions, is_shipped, &mut names));
            host.plugins.push(plugin);
        }
        host.notices = notices;
        Ok(host)
    }

    /// What the user should know.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// What was loaded, in the order given.
    pub fn plugins(&self) -> Vec<LoadedPlugin> {
        self.plugins
            .iter()
            .map(|plugin| LoadedPlugin {
                name: plugin.facts.name.clone(),
                publisher: plugin.facts.publisher.clone(),
                digest: plugin.facts.digest.clone(),
                grants: plugin.facts.grants.clone(),
                asks: plugin.facts.asks.clone(),
                threads_left_behind: plugin.threads.left_behind(),
            })
            .collect()
    }

    /// What the plugins used since they were loaded, in the order given.
    pub fn usage(&self) -> Vec<PluginUse> {
        let used = self.plugins.iter().map(|plugin| PluginUse {
            name: plugin.facts.name.clone(),
            publisher: plugin.facts.publisher.clone(),
            digest: plugin.facts.digest.clone(),
            functions: plugin.facts.usage.so_far(),
        });
        used.collect()
    }

    /// Calls a plugin again that three faults in a row had disabled, in all sessions. A person's or policy's to ask for.
    pub fn retry(&self, plugin: &str) -> bool {
        let found = self.plugins.iter().find(|known| known.facts.name == plugin);
        found.inspect(|plugin| plugin.strikes.forgive()).is_some()
    }

    fn offer(
        &mut self,
        plugin: &Arc<Plugin>,
        definitions: Definitions,
        is_shipped: bool,
        names: &mut Names<'_>,
    ) -> Vec<Notice> {
        let facts = &plugin.facts;
        let mut texts = definitions.refused;
        for spec in definitions.specs {
            if let Err(reason) = names.take(&spec.name, &facts.name, is_shipped) {
                texts.push(format!("its tool {} is not offered: {reason}", spec.name));
                continue;
            }
            if !matches!(spec.exposure, Exposure::Direct | Exposure::Deferred) {
                texts.push(format!("its tool {} is not for the model, and nobody else can call it yet", spec.name));
                continue;
            }
            self.serving.insert(spec.name.clone(), plugin.clone());
            self.offered.push(Arc::new(OfferedTool {
                spec: Arc::new(spec),
                plugin: facts.name.clone(),
                served_by: format!("{}/{}", facts.publisher, facts.name),
                digest: Some(facts.digest.clone()),
                authorities: plugin.authorities(),
            }));
        }
        texts.into_iter().map(|text| Notice { plugin: facts.name.clone(), text }).collect()
    }

    /// Whether the call's programs may run although nothing can hold them is a person's to decide. Without a person they are refused when
    /// they are started.
    async fn judge_unheld(&self, call: &CanonicalCall, has_person: bool) -> Option<Judgement> {
        let plugin = self.serving.get(&call.name).filter(|_| has_person)?;
        let text = plugin.facts.process.question(&plugin.facts.name).await?;
        let remember = Some(format!("unheld:{}", plugin.facts.name));
        // No plugin has such a name, so none can have the answer remembered in its place.
        let (plugin, digest) = ("the sandbox".to_owned(), String::new());
        Some(Judgement { plugin, digest, verdict: Ok(Verdict::Ask { text, remember }) })
    }

    fn serving(&self, export: Export) -> impl Iterator<Item = &Arc<Plugin>> {
        self.plugins.iter().filter(move |plugin| plugin.serves(export))
    }
}

fn check_names(plugins: &[PluginSource]) -> Result<(), LoadError> {
    let mut seen = HashSet::new();
    for source in plugins {
        let plugin = source.name.clone();
        if fold_plugin_name(&plugin).as_deref() != Some(&plugin) {
            return Err(LoadError::Name { plugin });
        }
        if !seen.insert(&source.name) {
            return Err(LoadError::RepeatedName { plugin });
        }
    }
    Ok(())
}

fn load_all(
    loader: &Loader<'_>,
    sources: Vec<PluginSource>,
    folders: Vec<Folders>,
) -> Result<Vec<(Plugin, Definitions)>, LoadError> {
    let names: Vec<String> = sources.iter().map(|source| source.name.clone()).collect();
    let jobs: Vec<_> = sources.into_iter().zip(folders).map(|job| Mutex::new(Some(job))).collect();
    let loaded: Vec<OnceLock<_>> = jobs.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < jobs.len()) {
            let job = jobs[at].lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some((source, folders)) = job {
                let _ = loaded[at].set(loader.load(source, folders));
            }
        }
    };
    // As many threads as there are cores: more only cost their stacks and heaps.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            // One that panicked left its plugin without a result, which is told below.
            let _ = thread.join();
        }
    });
    // All have ended, so that the first error does not depend on who was faster.
    let results = loaded.into_iter().zip(names);
    results.map(|(loaded, plugin)| loaded.into_inner().unwrap_or(Err(LoadError::Loader { plugin }))).collect()
}

/// Tools' names, in the form in which two must differ.
struct Names<'n> {
    taken: HashMap<String, (String, String)>,
    reserved: &'n [String],
}

impl Names<'_> {
    fn take(&mut self, name: &str, plugin: &str, is_shipped: bool) -> Result<(), String> {
        let folded = fold_tool_name(name);
        if folded.starts_with("mcp--") {
            return Err("names that begin with mcp__ are reserved".to_owned());
        }
        if !is_shipped && self.reserved.iter().any(|reserved| fold_tool_name(reserved) == folded) {
            return Err("this name is reserved for a tool that comes with Pith".to_owned());
        }
        if let Some((other, owner)) = self.taken.get(&folded) {
            return Err(format!("plugin {owner} has one called {other}"));
        }
        self.taken.insert(folded, (name.to_owned(), plugin.to_owned()));
        Ok(())
    }
}

impl Tools for PluginHost {
    fn offered(&self) -> Vec<Arc<OfferedTool>> {
        self.offered.clone()
    }

    fn run<'a>(
        &'a self,
        tool: &'a OfferedTool,
        call: &'a CanonicalCall,
        scope: CallScope,
    ) -> BoxFuture<'a, CallOutcome> {
        Box::pin(async move {
            let served = self.serving.get(&tool.spec.name).filter(|plugin| plugin.facts.name == tool.plugin);
            let Some(plugin) = served else {
                let cause = "this tool is not loaded".to_owned();
                return CallOutcome::Fault(Fault {
                    plugin: tool.plugin.clone(),
                    export: "tools.call".to_owned(),
                    cause,
                });
            };
            match exports::tools::call(&self.caller, plugin, call, scope).await {
                Ok(output) => CallOutcome::Output(output),
                Err(Ended::Refused(refusal)) => CallOutcome::Refusal(refusal),
                Err(Ended::Fault(fault)) => CallOutcome::Fault(fault),
                Err(Ended::Aborted) => CallOutcome::Aborted,
            }
        })
    }
}

impl Hooks for PluginHost {
    fn judge<'a>(
        &'a self,
        call: &'a CanonicalCall,
        origin: &'a CallOrigin,
        scope: CallScope,
    ) -> BoxFuture<'a, Vec<Judgement>> {
        let gates = self.serving(Export::ToolGate);
        let own = self.judge_unheld(call, scope.facts.interactive);
        let judged =
            join_all(gates.map(move |gate| exports::tool_gate::judge(&self.caller, gate, call, origin, scope.clone())));
        Box::pin(async move {
            let (mut judged, own) = join(judged, own).await;
            judged.extend(own);
            judged
        })
    }

    fn filter<'a>(
        &'a self,
        call: &'a CanonicalCall,
        origin: &'a CallOrigin,
        output: ToolOutput,
        scope: CallScope,
    ) -> BoxFuture<'a, Filtered> {
        Box::pin(async move {
            let mut output = output;
            for plugin in self.serving(Export::ToolFilter) {
                let filtered =
                    exports::tool_filter::filter(&self.caller, plugin, call, origin, output, scope.clone()).await;
                match filtered {
                    Ok(replaced) => output = replaced,
                    Err(stop) => return Filtered::Stopped { plugin: plugin.facts.name.clone(), stop },
                }
            }
            Filtered::Output(output)
        })
    }

    fn summarise<'a>(&'a self, job: &'a SummaryJob, scope: CallScope) -> BoxFuture<'a, Summarised> {
        Box::pin(async move {
            let mut compactors = self.serving(Export::Compactor).peekable();
            if compactors.peek().is_none() {
                return Summarised::None;
            }
            let job = Arc::new(exports::compactor::job(job));
            for plugin in compactors {
                let name = plugin.facts.name.clone();
                match exports::compactor::compact(&self.caller, plugin, job.clone(), scope.clone()).await {
                    Ok(None) => {}
                    Ok(Some((text, details))) => return Summarised::Summary { plugin: name, text, details },
                    Err(stop) => return Summarised::Stopped { plugin: name, stop },
                }
            }
            Summarised::None
        })
    }
}
