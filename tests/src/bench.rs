//! Plugins and the dispatch over them without a session's loop: for tests and figures of single calls.

use crate::place::target_folder;
use futures::{
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt},
};
use pith_core::{
    AskedQuestion, Asker, CallScope, CanonicalCall, Clock, Decision, Dispatched, Dispatcher, FailureKind, Meter, Model,
    ModelCard, ModelEvent, ModelFailure, ModelRequest, Outbox, Person, Progress, RetryLaw, RunFacts, Session, Spool,
    Store, StoreError,
};
use pith_plugin::{HostConfig, Limits, LoadError, NoLog, Places, PluginCode, PluginHost, PluginSource};
use pith_protocol::{AssistantMessage, CallOrigin, Caller, ModelRef, SessionId, StopReason, ThinkingLevel, ToolCall};
use pith_runtime::SystemClock;
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Loaded plugins, and the one path to them.
pub struct Bench {
    /// The plugins.
    pub host: Arc<PluginHost>,
    /// The path of every call.
    pub dispatcher: Dispatcher,
    session: Session,
    clock: Arc<dyn Clock>,
    work: Arc<TempDir>,
}

/// The shipped plugins with their grants.
pub fn shipped_sources() -> Vec<PluginSource> {
    let source = |plugin: &pith_bundle::Shipped| {
        plugin_source(plugin.name, Cow::Borrowed(plugin.component), plugin.grants, Limits::default())
    };
    pith_bundle::shipped().iter().map(|plugin| PluginSource { is_shipped: true, ..source(plugin) }).collect()
}

/// One plugin with its grants, in the text form.
///
/// # Panics
/// Where a grant is none.
pub fn plugin_source(
    name: &str,
    component: impl Into<Cow<'static, [u8]>>,
    grants: &[&str],
    limits: Limits,
) -> PluginSource {
    PluginSource {
        name: name.to_owned(),
        publisher: "test".to_owned(),
        code: PluginCode::Bytes(component.into()),
        grants: grants.iter().map(|grant| grant.parse().expect("a capability")).collect(),
        settings: json!({}),
        limits,
        is_shipped: false,
        inherits_environment: false,
    }
}

impl Bench {
    /// Loads them, in folders of their own.
    ///
    /// # Panics
    /// Where one does not load.
    pub fn new(plugins: Vec<PluginSource>) -> Self {
        let cache = target_folder().join("tmp/pith-cache/pith/compiled");
        Self::load(plugins, &cache).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same with the compiled code in this folder, for plugins that may not load.
    ///
    /// # Errors
    /// The first plugin that does not load.
    pub fn load(plugins: Vec<PluginSource>, cache: &Path) -> Result<Self, LoadError> {
        let work = Arc::new(tempfile::tempdir().expect("a folder"));
        let host = Arc::new(load(work.path(), cache, plugins)?);
        Ok(Self::of(host, Arc::new(SystemClock), work, "bench"))
    }

    fn of(host: Arc<PluginHost>, clock: Arc<dyn Clock>, work: Arc<TempDir>, session: &str) -> Self {
        let workspace = work.path().join("work").canonicalize().expect("it was made at load");
        let session = Session::create(SessionId::from(session), &workspace, Box::new(Nowhere), clock.clone());
        let dispatcher =
            Dispatcher::new(host.clone(), host.clone(), Arc::new(Nobody), Arc::new(Nowhere), clock.clone());
        Self { host, dispatcher, session, clock, work }
    }

    /// Another session with the same plugins and folders.
    #[must_use]
    pub fn beside(&self, session: &str) -> Self {
        Self::of(self.host.clone(), self.clock.clone(), self.work.clone(), session)
    }

    /// Where programs' long outputs go.
    ///
    /// # Panics
    /// Where it is gone.
    pub fn spool(&self) -> PathBuf {
        self.work.path().join("spool").canonicalize().expect("it is there")
    }

    /// The workspace.
    ///
    /// # Panics
    /// Where it is gone.
    pub fn work(&self) -> PathBuf {
        self.work.path().join("work").canonicalize().expect("it is there")
    }

    /// A call by the model, the whole way.
    pub async fn call(&self, tool: &str, input: Value) -> Dispatched {
        let call = ToolCall {
            id: "c".to_owned(),
            name: tool.to_owned(),
            arguments: input.as_object().cloned().unwrap_or_default(),
            arguments_error: None,
            thought_signature: None,
            arguments_text: None,
        };
        self.dispatcher.dispatch(&call, None, self.scope()).await
    }

    /// A model's call that this plugin serves.
    pub fn origin(served_by: &str) -> CallOrigin {
        CallOrigin {
            caller: Caller::Model,
            plugin: None,
            served_by: served_by.to_owned(),
            digest: None,
            parent_call_id: None,
            depth: 0,
            authorities: vec!["files=workspace:rw".to_owned()],
        }
    }

    /// The surroundings of one call.
    pub fn scope(&self) -> CallScope {
        let outbox = Outbox::new();
        let facts = RunFacts {
            model: Some("bench/bench".to_owned()),
            thinking: ThinkingLevel::Off,
            turn: 0,
            face: "library".to_owned(),
            interactive: false,
            window_tokens: None,
            used_tokens: None,
        };
        CallScope {
            session: self.session.clone(),
            facts: Arc::new(facts),
            caller: Caller::Model,
            cancel: CancellationToken::new(),
            progress: Progress::new(outbox.clone(), "c".to_owned(), "bench".to_owned(), Value::Null),
            outbox,
            person: self.dispatcher.person(),
            asker: Asker::new(Arc::new(Nothing::new()), RetryLaw::default(), self.clock.clone()),
            spent: Meter::default(),
        }
    }
}

/// The model of calls without a conversation: whoever asks it is told that there is none.
struct Nothing(ModelCard);

impl Nothing {
    fn new() -> Self {
        let model = ModelRef { provider: "bench".to_owned(), id: "bench".to_owned() };
        let api = "bench".to_owned();
        Self(ModelCard { model, api, window_tokens: 0, output_tokens: 0, reads_images: false, thinks: false })
    }
}

impl Model for Nothing {
    fn card(&self) -> &ModelCard {
        &self.0
    }

    fn ask(&self, _: ModelRequest, _: CancellationToken) -> BoxStream<'static, ModelEvent> {
        let message = AssistantMessage {
            stop_reason: StopReason::Error,
            error_message: Some("no model is here to be asked".to_owned()),
            ..AssistantMessage::default()
        };
        let failure = ModelFailure { kind: FailureKind::Invalid, retry_after: None, window_tokens: None };
        stream::iter([ModelEvent::Done { message, failure: Some(failure) }]).boxed()
    }
}

fn load(work: &Path, cache: &Path, plugins: Vec<PluginSource>) -> Result<PluginHost, LoadError> {
    let folder = |name: &str| {
        let path = work.join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        path.canonicalize().expect("just made")
    };
    let spool = pith_os::SpoolDir::new(folder("spool")).expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    PluginHost::load(HostConfig {
        cache_dir: cache.to_owned(),
        places: Places {
            workspace: folder("work"),
            spool: spool.path().to_owned(),
            plugin_data: folder("data"),
            temp: folder("temp"),
            skills: Vec::new(),
            reserved: Vec::new(),
        },
        spool,
        sandbox: pith_os::Sandbox::off(),
        plugins,
        environment: vec![("PATH".into(), path)],
        reserved_tools: Vec::new(),
        log: Arc::new(NoLog),
    })
}

/// Keeps nothing.
struct Nowhere;

impl Store for Nowhere {
    fn append(&self, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&self, _: u64, _: usize) -> Result<Vec<u8>, StoreError> {
        Ok(Vec::new())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Spool for Nowhere {
    fn keep(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

struct Nobody;

impl Person for Nobody {
    fn is_there(&self) -> bool {
        false
    }

    fn decide<'a>(&'a self, _: &'a CanonicalCall, _: &'a [AskedQuestion]) -> BoxFuture<'a, Option<Decision>> {
        Box::pin(async { None })
    }
}
