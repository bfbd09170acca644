//! The engines: one with a pool of slots for calls, one on demand for when the pool is exhausted; and the clock that interrupts guests.

use crate::{
    imports::Linkers,
    limits::{CORE_INSTANCES, POOL_SLOTS, TABLE_ELEMENTS, TICK},
};
use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread::JoinHandle,
};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Memory of a slot that stays resident between two instances, in bytes: 32 us instead of 51 for a fresh instance and a call.
const KEEP_RESIDENT_BYTES: usize = 64 << 10;

/// Both engines. They compile the same code; a component compiled by one loads in the other.
pub(crate) struct Engines {
    /// None where the address space has no room for the pool.
    pooled: Option<Engine>,
    on_demand: OnceLock<Engine>,
    /// What components are linked with, made when it is first needed.
    pub linkers: Linkers,
    ticker: Ticker,
}

/// While it lives, guests are interrupted every tick.
pub(crate) struct Running<'e>(&'e Ticker);

impl Engines {
    pub fn new() -> wasmtime::Result<Arc<Self>> {
        let ticker = Ticker::start();
        let pooled = Engine::new(&config(InstanceAllocationStrategy::Pooling(pool()))).ok();
        let engines = Self { pooled, on_demand: OnceLock::new(), linkers: Linkers::default(), ticker };
        match &engines.pooled {
            Some(engine) => engines.ticker.add(engine),
            None => drop(engines.on_demand()?),
        }
        Ok(Arc::new(engines))
    }

    /// The engine that components are compiled and checked with.
    pub fn first(&self) -> wasmtime::Result<&Engine> {
        self.pooled.as_ref().map_or_else(|| self.on_demand(), Ok)
    }

    pub fn pooled(&self) -> Option<&Engine> {
        self.pooled.as_ref()
    }

    /// Made when it is first needed.
    pub fn on_demand(&self) -> wasmtime::Result<&Engine> {
        if let Some(engine) = self.on_demand.get() {
            return Ok(engine);
        }
        let engine = Engine::new(&config(InstanceAllocationStrategy::OnDemand))?;
        // Two calls may race to make it: the first is kept.
        let kept = self.on_demand.get_or_init(|| {
            self.ticker.add(&engine);
            engine
        });
        Ok(kept)
    }

    /// Notes that a guest runs.
    pub fn run(&self) -> Running<'_> {
        self.ticker.enter();
        Running(&self.ticker)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

fn config(strategy: InstanceAllocationStrategy) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true).wasm_component_model(true).allocation_strategy(strategy);
    config
}

/// The defaults of wasmtime hold 1,000 of everything and cost 4 ms at start.
fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    let per_component = u32::try_from(CORE_INSTANCES).unwrap_or(u32::MAX);
    pool.total_component_instances(POOL_SLOTS)
        .total_core_instances(POOL_SLOTS.saturating_mul(6))
        .total_memories(POOL_SLOTS.saturating_mul(2))
        .total_tables(POOL_SLOTS.saturating_mul(4))
        .total_stacks(POOL_SLOTS)
        .max_core_instances_per_component(per_component)
        .max_memories_per_component(4)
        .max_tables_per_component(8)
        .table_elements(TABLE_ELEMENTS)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES);
    pool
}

/// One plain thread: it sleeps for good while no guest runs, and is joined when the engines go.
struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    engines: Vec<Engine>,
    running: usize,
    over: bool,
}

impl Ticker {
    fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = std::thread::Builder::new().name("pith-ticker".to_owned()).spawn(move || own.tick()).ok();
        Self { shared, thread }
    }

    fn add(&self, engine: &Engine) {
        self.shared.lock().engines.push(engine.clone());
    }

    fn enter(&self) {
        let mut state = self.shared.lock();
        state.running = state.running.saturating_add(1);
        if state.running == 1 {
            self.shared.changed.notify_all();
        }
    }

    fn leave(&self) {
        let mut state = self.shared.lock();
        state.running = state.running.saturating_sub(1);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked: it only adds to counters.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) {
        let mut state = self.lock();
        while !state.over {
            if state.running == 0 {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state = self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            for engine in &state.engines {
                engine.increment_epoch();
            }
        }
    }
}
