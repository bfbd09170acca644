//! A house around the gate: sessions whose lines are kept in memory, a log that can be read, folders that go with it.

use futures::{future::BoxFuture, stream::BoxStream};
use pith_core::{
    AskedQuestion, Asker, CallOutcome, CallScope, CanonicalCall, Clock, Decision, FailureKind, Inbox, Meter, Model,
    ModelCard, ModelEvent, ModelFailure, ModelRequest, Outbox, Person, Progress, RetryLaw, RunFacts, Session, Store,
    StoreError, Tools,
};
use pith_law::Capability;
use pith_os::SpoolDir;
use pith_plugin::{HostConfig, Limits, LoadError, LogLine, LogSink, Places, PluginCode, PluginHost, PluginSource};
use pith_protocol::{AssistantMessage, Caller, Content, SessionId, StopReason, ThinkingLevel, Usage};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// Lines that plugins and faults wrote.
#[derive(Default)]
pub struct Lines(Mutex<Vec<(String, String)>>);

impl LogSink for Lines {
    fn write(&self, line: LogLine<'_>) {
        self.0.lock().unwrap().push((line.plugin.to_owned(), line.message.to_owned()));
    }
}

impl Lines {
    pub fn all(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().clone()
    }
}

/// A session's lines.
#[derive(Default)]
pub struct Memory(pub Mutex<Vec<u8>>);

pub struct SharedMemory(pub Arc<Memory>);

impl Store for SharedMemory {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        self.0.0.lock().unwrap().extend_from_slice(lines);
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let start = offset as usize;
        Ok(self.0.0.lock().unwrap()[start..start + length].to_vec())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Real time; ids that count.
pub struct Ticks(Instant, AtomicU32);

impl Clock for Ticks {
    fn now_millis(&self) -> i64 {
        1_796_000_000_000
    }

    fn monotonic_millis(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn random_u32(&self) -> u32 {
        self.1.fetch_add(1, Ordering::Relaxed)
    }
}

pub struct House {
    pub dir: tempfile::TempDir,
    pub log: Arc<Lines>,
    pub plugins: Vec<PluginSource>,
    pub reserved: Vec<PathBuf>,
    pub reserved_tools: Vec<String>,
}

impl House {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work", "state"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir, log: Arc::default(), plugins: Vec::new(), reserved: Vec::new(), reserved_tools: Vec::new() }
    }

    /// A house with these plugins, each with what it needs to be called.
    pub fn with(plugins: &[(&str, Vec<u8>, &[&str])]) -> Self {
        let mut house = Self::new();
        for (name, bytes, grants) in plugins {
            house.add(name, bytes.clone(), grants);
        }
        house
    }

    pub fn add(&mut self, name: &str, bytes: Vec<u8>, grants: &[&str]) -> &mut PluginSource {
        let grants: Vec<Capability> = grants.iter().map(|text| text.parse().unwrap()).collect();
        self.plugins.push(PluginSource {
            name: name.to_owned(),
            publisher: "local:test".to_owned(),
            code: PluginCode::Bytes(bytes.into()),
            grants,
            settings: json!({ "b": 1, "a": true }),
            limits: Limits::default(),
            is_shipped: false,
            inherits_environment: false,
        });
        self.plugins.last_mut().unwrap()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// The working folder without links.
    pub fn work(&self) -> PathBuf {
        std::fs::canonicalize(self.at("work")).unwrap()
    }

    pub fn cache(&self) -> PathBuf {
        self.at("cache")
    }

    pub fn load(&self) -> Result<PluginHost, LoadError> {
        PluginHost::load(HostConfig {
            cache_dir: self.cache(),
            places: Places {
                workspace: self.at("work"),
                spool: PathBuf::new(),
                plugin_data: self.at("state/plugin-data"),
                temp: self.at("state/temp"),
                skills: Vec::new(),
                reserved: self.reserved.clone(),
            },
            spool: SpoolDir::new(self.at("state/spool")).unwrap(),
            sandbox: pith_os::Sandbox::off(),
            plugins: self.plugins.clone(),
            environment: std::env::vars_os().collect(),
            reserved_tools: self.reserved_tools.clone(),
            log: self.log.clone(),
        })
    }

    pub fn session(&self, id: &str) -> Talk {
        let memory = Arc::new(Memory::default());
        let clock = Arc::new(Ticks(Instant::now(), AtomicU32::new(1)));
        let store = Box::new(SharedMemory(memory.clone()));
        let session = Session::create(SessionId::from(id), &self.work(), store, clock);
        let outbox = Outbox::new();
        let inbox = outbox.attach();
        let model = Arc::new(Replies::default());
        let retry = RetryLaw { base: Duration::from_millis(1), ..RetryLaw::default() };
        let asker = Asker::new(model.clone(), retry, Arc::new(Ticks(Instant::now(), AtomicU32::new(0))));
        let (cancel, person) = (CancellationToken::new(), Arc::new(Nobody));
        Talk { session, memory, outbox, inbox, cancel, person, model, asker, spent: Meter::default() }
    }
}

/// Whom no plugin may ask.
struct Nobody;

impl Person for Nobody {
    fn is_there(&self) -> bool {
        false
    }

    fn decide<'a>(&'a self, _: &'a CanonicalCall, _: &'a [AskedQuestion]) -> BoxFuture<'a, Option<Decision>> {
        Box::pin(async { None })
    }
}

/// A model that gives the replies it was told to give, in order, and keeps what it was asked; without one it never answers.
pub struct Replies {
    card: ModelCard,
    replies: Mutex<VecDeque<(AssistantMessage, Option<ModelFailure>)>>,
    pub asked: Mutex<Vec<ModelRequest>>,
}

impl Default for Replies {
    fn default() -> Self {
        let card = ModelCard {
            model: "test/model".parse().unwrap(),
            api: "test".to_owned(),
            window_tokens: 8_000,
            output_tokens: 1_000,
            reads_images: false,
            thinks: false,
        };
        Self { card, replies: Mutex::default(), asked: Mutex::default() }
    }
}

impl Replies {
    pub fn will_say(&self, text: &str) {
        let usage = Usage { input: 100, output: 10, ..Usage::default() }.totalled();
        let content = vec![Content::text(text)];
        let reply = AssistantMessage {
            content,
            provider: "test".to_owned(),
            model: "model".to_owned(),
            stop_reason: StopReason::Stop,
            usage,
            ..AssistantMessage::default()
        };
        self.replies.lock().unwrap().push_back((reply, None));
    }

    pub fn will_fail(&self, kind: FailureKind, message: &str) {
        let reply = AssistantMessage {
            stop_reason: StopReason::Error,
            error_message: Some(message.to_owned()),
            ..AssistantMessage::default()
        };
        let failure = ModelFailure { kind, retry_after: None, window_tokens: None };
        self.replies.lock().unwrap().push_back((reply, Some(failure)));
    }
}

impl Model for Replies {
    fn card(&self) -> &ModelCard {
        &self.card
    }

    fn ask(&self, request: ModelRequest, cancel: CancellationToken) -> BoxStream<'static, ModelEvent> {
        self.asked.lock().unwrap().push(request);
        let next = self.replies.lock().unwrap().pop_front();
        Box::pin(futures::stream::once(async move {
            match next {
                Some((message, failure)) => ModelEvent::Done { message, failure },
                None => {
                    cancel.cancelled().await;
                    let message = AssistantMessage { stop_reason: StopReason::Aborted, ..AssistantMessage::default() };
                    ModelEvent::Done { message, failure: None }
                }
            }
        }))
    }
}

/// A session that calls tools.
pub struct Talk {
    pub session: Session,
    pub memory: Arc<Memory>,
    pub outbox: Outbox,
    pub inbox: Inbox,
    pub cancel: CancellationToken,
    pub person: Arc<dyn Person>,
    pub model: Arc<Replies>,
    pub asker: Asker,
    pub spent: Meter,
}

impl Talk {
    pub fn scope(&self) -> CallScope {
        CallScope {
            session: self.session.clone(),
            facts: Arc::new(RunFacts {
                model: Some("test/model".to_owned()),
                thinking: ThinkingLevel::Off,
                turn: 0,
                face: "library".to_owned(),
                interactive: false,
                window_tokens: None,
                used_tokens: None,
            }),
            caller: Caller::Model,
            cancel: self.cancel.clone(),
            progress: Progress::new(self.outbox.clone(), "call-1".to_owned(), "try".to_owned(), json!({})),
            outbox: self.outbox.clone(),
            person: self.person.clone(),
            asker: self.asker.clone(),
            spent: self.spent.clone(),
        }
    }

    /// Calls a tool, whatever the gates would say.
    pub async fn call(&self, host: &PluginHost, tool: &str, input: Value) -> CallOutcome {
        let offered = host.offered();
        let tool = offered.iter().find(|offered| offered.spec.name == tool).expect("the tool is offered");
        host.run(tool, &canonical(tool.spec.name.as_str(), input), self.scope()).await
    }

    /// Events that wait now, as JSON.
    pub async fn events(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(1), self.inbox.next()).await {
            events.push(serde_json::to_value(event).unwrap());
        }
        events
    }
}

pub fn canonical(name: &str, input: Value) -> CanonicalCall {
    CanonicalCall {
        id: "call-1".to_owned(),
        name: name.to_owned(),
        input: pith_core::canonical_json(&input).into(),
        value: Arc::new(input),
    }
}

/// The text of an output, or why there is none.
pub fn said(outcome: &CallOutcome) -> String {
    match outcome {
        CallOutcome::Output(output) => output.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("|"),
        CallOutcome::Refusal(refusal) => format!("refused {:?}: {}", refusal.kind, refusal.message),
        CallOutcome::Fault(fault) => format!("fault {}: {}", fault.export, fault.cause),
        CallOutcome::Aborted => "aborted".to_owned(),
    }
}

pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Measures until it is within the bound: a busy machine makes one try slow, not all of them. Each try has a number, for a session of its own.
pub async fn soon(bound: Duration, mut attempt: impl AsyncFnMut(usize) -> Duration) {
    let mut took = Vec::new();
    for number in 0..12 {
        let this = attempt(number).await;
        if this < bound {
            return;
        }
        took.push(this);
    }
    panic!("never within {bound:?}: {took:?}");
}
