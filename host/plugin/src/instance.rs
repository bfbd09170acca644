//! What one call's instance carries: the data of its store. It ends with the call, and what it still holds of the host's resources with it.

use crate::{
    cause::Exceeded,
    deadline::Deadline,
    imports::{progress::ProgressGate, state::Saves},
    limits::{EXPORTED_CALL_BYTES, HOST_CALLS, LOG_BYTES, RESOURCES},
    plugin::Facts,
    quota::Quota,
    stdio::Kept,
    wasi,
    writing::Writing,
};
use pith_core::CallScope;
use pith_protocol::EntryId;
use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

/// The store's data; every import is implemented on it.
pub(crate) struct Instance {
    /// The plugin, as it was loaded.
    pub facts: Arc<Facts>,
    /// The function that is called, under which what it uses is counted.
    function: &'static str,
    /// What the call serves; none at load.
    pub scope: Option<CallScope>,
    pub cancel: CancellationToken,
    pub deadline: Arc<Deadline>,
    pub table: ResourceTable,
    pub quota: Quota,
    pub stdout: Kept,
    pub stderr: Kept,
    pub saves: Saves,
    /// None where there is nowhere to show it.
    pub progress: Option<Arc<ProgressGate>>,
    /// Bytes that the log still takes from this call.
    pub log_left: usize,
    /// The leaf when the call began: answers of `context` do not change within a call.
    pub leaf: Option<EntryId>,
    /// Programs that this call has running.
    pub programs: Arc<AtomicUsize>,
    /// Files that it has open for writing.
    pub writing: Writing,
    wasi: WasiCtx,
    host_calls: u32,
    /// Requests to a model.
    pub model_requests: u32,
    guest_bytes: usize,
}

impl Instance {
    /// For a call within a session.
    pub fn for_call(
        facts: Arc<Facts>,
        function: &'static str,
        scope: CallScope,
        deadline: Arc<Deadline>,
        writing: Writing,
    ) -> wasmtime::Result<Self> {
        let (stdout, stderr) = (Kept::default(), Kept::default());
        let wasi = wasi::context(&facts.folders.list, stdout.clone(), stderr.clone())?;
        let leaf = scope.session.leaf_id();
        let progress = Arc::new(ProgressGate::new(scope.progress.clone()));
        let cancel = scope.cancel.clone();
        let mut new =
            Self::new(facts, function, Some(scope), cancel, deadline, wasi, (stdout, stderr), leaf, Some(progress));
        new.writing = writing;
        Ok(new)
    }

    /// For `specs`, before there is a session: no folders, clocks that stand still, random that is not.
    pub fn pure(facts: Arc<Facts>, function: &'static str, deadline: Instant) -> Self {
        let (stdout, stderr) = (Kept::default(), Kept::default());
        let wasi = wasi::fixed_context(stdout.clone(), stderr.clone());
        let deadline = Deadline::at(deadline);
        Self::new(facts, function, None, CancellationToken::new(), deadline, wasi, (stdout, stderr), None, None)
    }

    fn new(
        facts: Arc<Facts>,
        function: &'static str,
        scope: Option<CallScope>,
        cancel: CancellationToken,
        deadline: Arc<Deadline>,
        wasi: WasiCtx,
        (stdout, stderr): (Kept, Kept),
        leaf: Option<EntryId>,
        progress: Option<Arc<ProgressGate>>,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES);
        let quota = Quota::new(facts.limits.memory_bytes);
        Self {
            facts,
            function,
            scope,
            cancel,
            deadline,
            table,
            quota,
            stdout,
            stderr,
            saves: Saves::default(),
            progress,
            log_left: LOG_BYTES,
            leaf,
            programs: Arc::default(),
            writing: Writing::default(),
            wasi,
            host_calls: 0,
            model_requests: 0,
            guest_bytes: 0,
        }
    }

    /// Whether a tool is called: what a person allowed, where the person was asked.
    pub fn is_tool_call(&self) -> bool {
        self.function == crate::exports::tools::CALL.name
    }

    /// How many calls of imports there were.
    pub fn host_calls(&self) -> u32 {
        self.host_calls
    }

    /// Every import says first that it was called, and how many bytes it was given.
    pub fn enter(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.host_calls = self.host_calls.saturating_add(1);
        self.guest_bytes = self.guest_bytes.saturating_add(bytes);
        if self.host_calls > HOST_CALLS {
            return Err(Exceeded::HostCalls.into());
        }
        if self.guest_bytes > EXPORTED_CALL_BYTES {
            return Err(Exceeded::Bytes.into());
        }
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let counters = self.facts.usage.of(self.function);
        counters.gave(self.guest_bytes);
        counters.had_memory(self.quota.memory_bytes());
    }
}

impl WasiView for Instance {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}
