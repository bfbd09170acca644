//! One call of one export: a place in the queue, a fresh instance, limits, a deadline, an end.

use crate::{
    cause::{Exceeded, cause, deadline_cause},
    convert::NotJson,
    deadline::Deadline,
    engine::Engines,
    instance::Instance,
    limits::{END_GRACE, HOST_CALL_BYTES, PROCESS_INSTANCES, SESSION_INSTANCES, WRITE_GRACE},
    log::{LogLevel, LogLine},
    plugin::{DISABLED, Linked, Plugin},
    stdio::Kept,
    usage::End,
    writing::Writing,
};
use futures::future::BoxFuture;
use pith_core::{CallScope, Fault};
use pith_law::Export;
use pith_protocol::{Event, GuestError, GuestErrorKind, SessionId};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, SemaphorePermit};
use wasmtime::{PoolConcurrencyLimitError, Store};

/// How a call ended that gave nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ended {
    /// The guest said no, or the host in its stead.
    Refused(GuestError),
    /// It failed.
    Fault(Fault),
    /// The run was aborted.
    Aborted,
}

/// What is called: an export, by its names.
#[derive(Clone, Copy)]
pub(crate) struct Called {
    pub export: Export,
    /// As faults name it, such as `tools.call`.
    pub name: &'static str,
}

/// Instantiates and calls. May be called again in another engine, as long as no guest ran.
pub(crate) type Work<T> =
    Arc<dyn for<'s> Fn(&'s Linked, &'s mut Store<Instance>) -> BoxFuture<'s, wasmtime::Result<T>> + Send + Sync>;

/// What all calls of the process share.
pub(crate) struct Caller {
    pub engines: Arc<Engines>,
    instances: Semaphore,
    /// Of sessions that have calls now.
    sessions: Mutex<HashMap<SessionId, Weak<Semaphore>>>,
}

/// How the instance's own part ended.
enum Served<T> {
    Gave(T, Box<Instance>),
    Failed { cause: String, detail: String },
    Late { detail: String },
    Aborted,
}

impl Caller {
    pub fn new(engines: Arc<Engines>) -> Self {
        Self { engines, instances: Semaphore::new(PROCESS_INSTANCES), sessions: Mutex::default() }
    }

    fn session_instances(&self, session: &SessionId) -> Arc<Semaphore> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(instances) = sessions.get(session).and_then(Weak::upgrade) {
            return instances;
        }
        sessions.retain(|_, instances| instances.strong_count() > 0);
        let instances = Arc::new(Semaphore::new(SESSION_INSTANCES));
        sessions.insert(session.clone(), Arc::downgrade(&instances));
        instances
    }

    /// Calls an export for a session: with its strikes, its events, and its saves written when it gave something that `accept` takes.
    pub async fn call<T: Send + 'static, A>(
        &self,
        plugin: &Arc<Plugin>,
        called: Called,
        limit: Duration,
        scope: CallScope,
        bytes: usize,
        work: Work<T>,
        accept: impl FnOnce(T) -> Result<A, Ended> + Send,
    ) -> Result<A, Ended> {
        let session = scope.session.id().clone();
        if plugin.strikes.is_out(&session, called.export) {
            return Err(Ended::Fault(fault(plugin, called, DISABLED.to_owned())));
        }
        let deadline = Instant::now() + limit;
        let in_session = self.session_instances(&session);
        let _places = tokio::select! {
            biased;
            () = scope.cancel.cancelled() => return Err(Ended::Aborted),
            places = tokio::time::timeout_at(deadline.into(), self.places(plugin, &in_session)) => match places {
                Ok(Some(places)) => places,
                // It is not the guest that failed: no strike.
                _ => {
                    let cause = format!("{} in the queue of its calls", deadline_cause(limit));
                    return Err(Ended::Fault(fault(plugin, called, cause)));
                }
            },
        };
        let deadline = Deadline::at(deadline);
        let begun = plugin.facts.usage.of(called.name).begin(bytes);
        let writing = Writing::default();
        let served = if plugin.facts.folders.list.is_empty() {
            serve(self.engines.clone(), plugin.clone(), called, deadline, scope.clone(), writing, work).await
        } else {
            self.serve_threaded(plugin, called, deadline, scope.clone(), writing, work).await
        };
        let ended = match served {
            Served::Gave(gave, instance) => match accept(gave) {
                Ok(accepted) => {
                    begun.end(End::Gave);
                    plugin.strikes.clear(&session, called.export);
                    return write_saves(*instance, &scope).await.map(|()| accepted);
                }
                Err(Ended::Fault(Fault { cause, .. })) => Served::Failed { cause, detail: String::new() },
                Err(ended) => {
                    begun.end(End::Refused);
                    plugin.strikes.clear(&session, called.export);
                    // A refusal is an answer: what was saved before it stands.
                    write_saves(*instance, &scope).await?;
                    return Err(ended);
                }
            },
            other => other,
        };
        let (cause, detail) = match ended {
            Served::Failed { cause, detail } => (cause, detail),
            Served::Late { detail } => (deadline_cause(limit), detail),
            Served::Aborted | Served::Gave(..) => return Err(Ended::Aborted),
        };
        begun.end(End::Fault);
        Err(Ended::Fault(strike(plugin, called, &scope, cause, &detail).await))
    }

    /// A place for one instance. Always asked for in this order, so that calls do not wait for each other's places in a ring.
    async fn places<'p>(&'p self, plugin: &'p Plugin, session: &'p Semaphore) -> Option<[SemaphorePermit<'p>; 3]> {
        let of_plugin = plugin.instances.acquire().await.ok()?;
        let of_session = session.acquire().await.ok()?;
        Some([of_plugin, of_session, self.instances.acquire().await.ok()?])
    }

    /// The same on a thread of its own, which is left behind where it does not end in time.
    async fn serve_threaded<T: Send + 'static>(
        &self,
        plugin: &Arc<Plugin>,
        called: Called,
        deadline: Arc<Deadline>,
        scope: CallScope,
        writing: Writing,
        work: Work<T>,
    ) -> Served<T> {
        let cancel = scope.cancel.clone();
        // Dropping this call ends the one on the thread: it sees its own token.
        let own_cancel = cancel.child_token();
        let _ends_with_this = own_cancel.clone().drop_guard();
        let scope = CallScope { cancel: own_cancel, ..scope };
        let (engines, own, ends) = (self.engines.clone(), plugin.clone(), deadline.clone());
        let own_writing = writing.clone();
        let runtime = tokio::runtime::Handle::current();
        let job = move || runtime.block_on(serve(engines, own, called, ends, scope, own_writing, work));
        let Some(running) = plugin.threads.start(job) else {
            let cause = "has too many threads that hang in the file system".to_owned();
            return Served::Failed { cause, detail: String::new() };
        };
        let cancelled = async {
            cancel.cancelled().await;
            let _ = tokio::time::timeout(WRITE_GRACE, writing.over()).await;
            tokio::time::sleep(END_GRACE).await;
        };
        tokio::select! {
            biased;
            served = running.finish() => served.unwrap_or_else(|| Served::Failed {
                cause: "failed within the host".to_owned(),
                detail: String::new(),
            }),
            () = cancelled => Served::Aborted,
            () = deadline.passed(END_GRACE) => Served::Late { detail: String::new() },
        }
    }
}

/// A result that breaks the contract: the model is told that, the log what it was.
pub(crate) fn broken(plugin: &Plugin, called: Called, error: &NotJson) -> Ended {
    let message = format!("{}: {error}: {}", called.name, error.why);
    plugin.facts.log.write(LogLine { level: LogLevel::Error, plugin: &plugin.facts.name, message: &message });
    Ended::Fault(fault(plugin, called, error.to_string()))
}

fn fault(plugin: &Plugin, called: Called, cause: String) -> Fault {
    Fault { plugin: plugin.facts.name.clone(), export: called.name.to_owned(), cause }
}

/// Logs a fault, tells the faces, and counts it: the third in a row disables.
async fn strike(plugin: &Plugin, called: Called, scope: &CallScope, cause: String, detail: &str) -> Fault {
    let message = format!("{}: {cause}{}{detail}", called.name, if detail.is_empty() { "" } else { "\n" });
    plugin.facts.log.write(LogLine { level: LogLevel::Error, plugin: &plugin.facts.name, message: &message });
    let fault = fault(plugin, called, cause);
    tell(scope, &fault).await;
    if plugin.strikes.fault(scope.session.id(), called.export) {
        tell(scope, &Fault { cause: DISABLED.to_owned(), ..fault.clone() }).await;
    }
    fault
}

async fn tell(scope: &CallScope, fault: &Fault) {
    let Fault { plugin, export, cause } = fault.clone();
    scope.outbox.send(Event::PluginFault { plugin, export, cause }).await;
}

/// In the pool; on demand where the pool is exhausted.
async fn serve<T: Send + 'static>(
    engines: Arc<Engines>,
    plugin: Arc<Plugin>,
    called: Called,
    deadline: Arc<Deadline>,
    scope: CallScope,
    writing: Writing,
    work: Work<T>,
) -> Served<T> {
    let facts = &plugin.facts;
    let instance = || Instance::for_call(facts.clone(), called.name, scope.clone(), deadline.clone(), writing.clone());
    let first = match instance() {
        Ok(instance) => run(&engines, &plugin.code.first, called, instance, &work).await,
        Err(error) => return not_started(&error),
    };
    let exhausted = match first {
        Run::Exhausted => plugin.code.spare(&engines, &facts.grants),
        Run::Over(served) => return served,
    };
    match (exhausted, instance()) {
        (Ok(Some(spare)), Ok(instance)) => match run(&engines, spare, called, instance, &work).await {
            Run::Over(served) => served,
            Run::Exhausted => Served::Failed { cause: NO_ROOM.to_owned(), detail: String::new() },
        },
        (Ok(None), Ok(_)) => Served::Failed { cause: NO_ROOM.to_owned(), detail: String::new() },
        (Err(error), _) | (_, Err(error)) => not_started(&error),
    }
}

const NO_ROOM: &str = "was not started: there is no room for another instance";

fn not_started<T>(error: &wasmtime::Error) -> Served<T> {
    Served::Failed { cause: "was not started".to_owned(), detail: format!("{error:#}") }
}

enum Run<T> {
    Over(Served<T>),
    Exhausted,
}

/// A store with its limits set, before any guest code.
pub(crate) fn store(linked: &Linked, instance: Instance) -> Store<Instance> {
    let mut store = Store::new(&linked.engine, instance);
    store.limiter(|instance| &mut instance.quota);
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    store.set_hostcall_fuel(HOST_CALL_BYTES);
    store
}

async fn run<T>(engines: &Engines, linked: &Linked, called: Called, instance: Instance, work: &Work<T>) -> Run<T> {
    let facts = instance.facts.clone();
    let (cancel, deadline, progress) = (instance.cancel.clone(), instance.deadline.clone(), instance.progress.clone());
    let writing = instance.writing.clone();
    let kept = [("standard error", instance.stderr.clone()), ("standard output", instance.stdout.clone())];
    let mut store = store(linked, instance);
    let _ticking = engines.run();
    let release = async {
        match &progress {
            Some(gate) => gate.release().await,
            None => std::future::pending().await,
        }
    };
    let mut going = Box::pin(facts.usage.of(called.name).timed(work(linked, &mut store)));
    let aborted = async {
        cancel.cancelled().await;
        // All that there is of it.
        if let Some(gate) = &progress {
            gate.flush();
        }
        let _ = tokio::time::timeout(WRITE_GRACE, writing.over()).await;
    };
    let gave = tokio::select! {
        biased;
        // First, so that what ends while an abort waits for it has its say.
        gave = &mut going => gave,
        () = aborted => return Run::Over(Served::Aborted),
        () = deadline.passed(Duration::ZERO) => return Run::Over(Served::Late { detail: said(&kept) }),
        () = release => return Run::Over(Served::Aborted),
    };
    drop(going);
    match gave {
        Ok(gave) => Run::Over(Served::Gave(gave, Box::new(store.into_data()))),
        Err(error) if error.is::<PoolConcurrencyLimitError>() => Run::Exhausted,
        Err(_) if cancel.is_cancelled() => Run::Over(Served::Aborted),
        Err(error) if error.downcast_ref::<Exceeded>() == Some(&Exceeded::Ended) => {
            Run::Over(Served::Late { detail: said(&kept) })
        }
        Err(error) => {
            let cause = cause(&error, store.data().quota.refused());
            Run::Over(Served::Failed { cause, detail: format!("{error:#}{}", said(&kept)) })
        }
    }
}

/// What the guest wrote, each under its name.
fn said(kept: &[(&str, Kept)]) -> String {
    let texts = kept.iter().map(|(name, kept)| (name, kept.text())).filter(|(_, text)| !text.is_empty());
    texts.map(|(name, text)| format!("\n{name}:\n{text}")).collect()
}

/// What a call saved is written now that it has returned.
async fn write_saves(mut instance: Instance, scope: &CallScope) -> Result<(), Ended> {
    let saves = std::mem::take(&mut instance.saves);
    if saves.is_empty() {
        return Ok(());
    }
    let refused = |kind, message| Err(Ended::Refused(GuestError { kind, message }));
    match saves.write(&scope.session, &instance.facts.publisher) {
        Ok(Ok(entries)) => {
            for entry in entries {
                scope.outbox.send(Event::EntryAppended { entry }).await;
            }
            Ok(())
        }
        Ok(Err(conflict)) => refused(
            GuestErrorKind::Conflict,
            format!("another call changed {} meanwhile, so nothing of this one was saved", conflict.kind),
        ),
        Err(error) => refused(GuestErrorKind::Internal, format!("the plugin's state was not saved: {error}")),
    }
}
