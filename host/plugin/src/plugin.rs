//! A loaded plugin: what it is, what it may, its linked code, its threads, its strikes.

use crate::{
    engine::Engines,
    files::OpenFiles,
    folders::Folders,
    imports::{dialog::Questions, process::ProcessAuthority},
    instance::Instance,
    limits::{FAULTS_IN_A_ROW, Limits, PLUGIN_INSTANCES},
    log::LogSink,
    threads::FileThreads,
    usage::Usage,
};
use pith_bindings::{compactor::CompactorPre, tool_filter::ToolFilterPre, tool_gate::ToolGatePre, tools::ToolsPre};
use pith_law::{Capability, Export, Request};
use pith_os::SpoolDir;
use pith_protocol::SessionId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};
use tokio::sync::Semaphore;
use wasmtime::{
    Engine,
    component::{Component, InstancePre},
};

/// What a plugin is and may; its instances hold it.
pub(crate) struct Facts {
    pub name: String,
    pub publisher: String,
    /// The component's sha256 in hex.
    pub digest: String,
    /// Canonical JSON.
    pub settings: String,
    pub grants: Vec<Capability>,
    pub folders: Folders,
    pub files: OpenFiles,
    pub process: ProcessAuthority,
    /// What its type asks for, files by the standard library included.
    pub asks: Vec<Request>,
    pub limits: Limits,
    pub questions: Questions,
    pub spool: SpoolDir,
    pub log: Arc<dyn LogSink>,
    pub usage: Usage,
}

/// A plugin that can be called.
pub(crate) struct Plugin {
    pub facts: Arc<Facts>,
    pub code: Code,
    /// One permit for each live instance.
    pub instances: Semaphore,
    pub threads: FileThreads,
    pub strikes: Strikes,
}

impl Plugin {
    pub fn new(facts: Facts, code: Code) -> Self {
        Self {
            facts: Arc::new(facts),
            code,
            instances: Semaphore::new(PLUGIN_INSTANCES),
            threads: FileThreads::default(),
            strikes: Strikes::default(),
        }
    }

    /// Whether the host calls this export: the component has it, and it was granted.
    pub fn serves(&self, export: Export) -> bool {
        let has = match export {
            Export::Tools => self.code.first.tools.is_some(),
            Export::ToolGate => self.code.first.gate.is_some(),
            Export::ToolFilter => self.code.first.filter.is_some(),
            Export::Compactor => self.code.first.compactor.is_some(),
            _ => false,
        };
        has && self.facts.grants.contains(&Capability::Export(export))
    }

    /// Its authorities in the text form of grants: the worst that a call of it can do.
    pub fn authorities(&self) -> Vec<String> {
        let is_authority = |grant: &&Capability| !matches!(grant, Capability::Export(_));
        self.facts.grants.iter().filter(is_authority).map(Capability::to_string).collect()
    }
}

/// A component's code, linked: ready to be instantiated.
pub(crate) struct Code {
    /// For the engine that was there first, the pooled one where there is a pool.
    pub first: Linked,
    is_pooled: bool,
    component: Component,
    /// For the on-demand engine, made when the pool is exhausted for the first time.
    spare: OnceLock<Linked>,
}

/// The exports of a component in one engine.
pub(crate) struct Linked {
    pub engine: Engine,
    pub tools: Option<ToolsPre<Instance>>,
    pub gate: Option<ToolGatePre<Instance>>,
    pub filter: Option<ToolFilterPre<Instance>>,
    pub compactor: Option<CompactorPre<Instance>>,
}

impl Linked {
    /// Checks all of the component's imports against what is linked; runs nothing.
    pub fn new(
        engines: &Engines,
        engine: &Engine,
        component: &Component,
        grants: &[Capability],
    ) -> wasmtime::Result<Self> {
        let pre: InstancePre<Instance> = engines.linkers.linker(engine, grants)?.instantiate_pre(component)?;
        let exports = |name: &str| crate::load::has_export(engine, component, name);
        Ok(Self {
            engine: engine.clone(),
            tools: exports("tools").then(|| ToolsPre::new(pre.clone())).transpose()?,
            gate: exports("tool-gate").then(|| ToolGatePre::new(pre.clone())).transpose()?,
            filter: exports("tool-filter").then(|| ToolFilterPre::new(pre.clone())).transpose()?,
            compactor: exports("compactor").then(|| CompactorPre::new(pre)).transpose()?,
        })
    }
}

impl Code {
    pub fn new(
        engines: &Engines,
        engine: &Engine,
        is_pooled: bool,
        component: Component,
        grants: &[Capability],
    ) -> wasmtime::Result<Self> {
        let first = Linked::new(engines, engine, &component, grants)?;
        Ok(Self { first, is_pooled, component, spare: OnceLock::new() })
    }

    /// The same code in the on-demand engine. None where it is in that one already.
    pub fn spare(&self, engines: &Engines, grants: &[Capability]) -> wasmtime::Result<Option<&Linked>> {
        if !self.is_pooled {
            return Ok(None);
        }
        if let Some(spare) = self.spare.get() {
            return Ok(Some(spare));
        }
        let engine = engines.on_demand()?;
        let component = crate::cache::in_memory(engine, &self.component.serialize()?)?;
        let linked = Linked::new(engines, engine, &component, grants)?;
        Ok(Some(self.spare.get_or_init(|| linked)))
    }
}

/// Faults in a row, by session and export.
#[derive(Default)]
pub(crate) struct Strikes(Mutex<HashMap<(SessionId, Export), u8>>);

impl Strikes {
    /// Three in a row: it is not called any more in this session.
    pub fn is_out(&self, session: &SessionId, export: Export) -> bool {
        let strikes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        strikes.get(&(session.clone(), export)).is_some_and(|count| *count >= FAULTS_IN_A_ROW)
    }

    /// Counts a fault; whether it was the one that disables.
    pub fn fault(&self, session: &SessionId, export: Export) -> bool {
        let mut strikes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = strikes.entry((session.clone(), export)).or_default();
        let was_out = *count >= FAULTS_IN_A_ROW;
        *count = count.saturating_add(1);
        !was_out && *count >= FAULTS_IN_A_ROW
    }

    /// It worked: what came before does not count any more.
    pub fn clear(&self, session: &SessionId, export: Export) {
        let mut strikes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if strikes.get(&(session.clone(), export)).is_some_and(|count| *count < FAULTS_IN_A_ROW) {
            strikes.remove(&(session.clone(), export));
        }
    }

    /// A person says to try again.
    pub fn forgive(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// What a plugin is called after three faults in a row.
pub(crate) const DISABLED: &str = "disabled after 3 faults";
