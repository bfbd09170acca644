//! The real loop and a real session over scripted ports.

use futures::{StreamExt, future::BoxFuture, stream::BoxStream};
use pith_core::{
    Agent, AskedQuestion, BYTES_PER_TOKEN, Budgets, CallOutcome, CallScope, CanonicalCall, Clock, CompactionLaw,
    Decision, Dispatcher, FailureKind, Fault, Filtered, Hooks, Judgement, Mailbox, Model, ModelCard, ModelEvent,
    ModelFailure, ModelRequest, OfferedTool, Outbox, PICTURE_TOKENS, Person, RetryLaw, RunEnd, Session, Spool, Stop,
    Store, StoreError, Summarised, SummaryJob, Tools, TreeReader, Trust,
};
use pith_protocol::{
    AssistantMessage, CallOrigin, Compaction, Content, EntryBody, Execution, Exposure, GuestError, GuestErrorKind,
    Message, ModelRef, SessionId, StopReason, ThinkingLevel, ToolCall, ToolOutput, ToolResultMessage, ToolSpec, Usage,
    UserMessage,
};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// What the model does with a request.
pub enum Reply {
    Message(AssistantMessage),
    Fails(FailureKind, Option<u64>),
    /// As a provider with this window: too much is refused, all else answered with these words.
    Windowed(u64, &'static str),
}

/// What the compactor does with a job.
pub enum Writes {
    Text(String),
    Refuses,
    Traps,
    LeavesIt,
    /// Never ends; the run is cancelled.
    Hangs,
}

#[derive(Clone)]
pub struct World(pub Arc<Inner>);

pub struct Inner {
    pub card: ModelCard,
    pub replies: Mutex<VecDeque<Reply>>,
    pub requests: Mutex<Vec<ModelRequest>>,
    pub writes: Mutex<VecDeque<Writes>>,
    pub jobs: Mutex<Vec<SummaryJob>>,
    /// What the tool `look` gives.
    pub output: Mutex<Vec<Content>>,
    /// Said to the agent while the next summary is written.
    pub steered: Mutex<Option<(Mailbox, String)>>,
    pub lines: Mutex<Vec<u8>>,
    pub id: AtomicU32,
    pub cancel: CancellationToken,
    pub law: Mutex<CompactionLaw>,
    pub interactive: bool,
}

impl World {
    pub fn new(window_tokens: u64, replies: Vec<Reply>, writes: Vec<Writes>) -> Self {
        Self::with(window_tokens, replies, writes, false)
    }

    pub fn with(window_tokens: u64, replies: Vec<Reply>, writes: Vec<Writes>, interactive: bool) -> Self {
        let model = ModelRef { provider: "test".to_owned(), id: "m".to_owned() };
        Self(Arc::new(Inner {
            card: ModelCard {
                model,
                api: "test".to_owned(),
                window_tokens,
                output_tokens: 1_000,
                reads_images: true,
                thinks: false,
            },
            replies: Mutex::new(replies.into()),
            requests: Mutex::default(),
            writes: Mutex::new(writes.into()),
            jobs: Mutex::default(),
            output: Mutex::new(vec![Content::text("seen")]),
            steered: Mutex::default(),
            lines: Mutex::default(),
            id: AtomicU32::new(1),
            cancel: CancellationToken::new(),
            law: Mutex::default(),
            interactive,
        }))
    }

    pub fn law(self, law: CompactionLaw) -> Self {
        *self.0.law.lock().unwrap() = law;
        self
    }

    pub fn agent(&self) -> Agent {
        let clock: Arc<dyn Clock> = Arc::new(self.clone());
        let port = Arc::new(self.clone());
        let dispatcher = Dispatcher::new(port.clone(), port.clone(), port.clone(), port.clone(), clock.clone());
        Agent {
            session: Session::create(SessionId::from("s"), Path::new("/w"), Box::new(self.clone()), clock),
            model: port,
            dispatcher: Arc::new(dispatcher),
            outbox: Outbox::new(),
            mailbox: Mailbox::default(),
            thinking: ThinkingLevel::Off,
            face: "library".to_owned(),
            interactive: self.0.interactive,
            retry: RetryLaw::default(),
            budgets: Budgets::new(self.0.law.lock().unwrap().clone()),
        }
    }

    pub async fn run(&self, agent: &Agent, prompt: &str) -> RunEnd {
        let sections = vec![("preamble".to_owned(), "You are a test.".to_owned())];
        agent.run(vec![Content::text(prompt)], sections, self.0.cancel.clone()).await.unwrap()
    }

    pub fn requests(&self) -> Vec<ModelRequest> {
        self.0.requests.lock().unwrap().clone()
    }

    pub fn jobs(&self) -> Vec<SummaryJob> {
        self.0.jobs.lock().unwrap().clone()
    }

    /// The same file, read again.
    pub fn reloaded(&self) -> Session {
        let mut reader = TreeReader::new();
        let lines = self.0.lines.lock().unwrap().clone();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            reader.push_line(line.strip_suffix(b"\n").unwrap(), true).unwrap();
        }
        let clock: Arc<dyn Clock> = Arc::new(self.clone());
        Session::resume(reader.finish().unwrap(), Path::new("/w"), Box::new(self.clone()), clock, Trust::Own).unwrap().0
    }
}

/// What a provider would count, in estimated tokens.
pub fn size(request: &ModelRequest) -> u64 {
    let block = |block: &Content| match block {
        Content::Text(text) => (text.text.len() as u64).div_ceil(BYTES_PER_TOKEN),
        Content::Image(_) => PICTURE_TOKENS,
        Content::ToolCall(call) => {
            (serde_json::to_string(&call.arguments).unwrap().len() as u64).div_ceil(BYTES_PER_TOKEN)
        }
        _ => 0,
    };
    let prompt: u64 = request.system.iter().map(|text| (text.len() as u64).div_ceil(BYTES_PER_TOKEN)).sum();
    let tools = serde_json::to_string(&request.tools).unwrap().len() as u64 / BYTES_PER_TOKEN;
    let messages: u64 = request
        .messages
        .iter()
        .map(|message| match message.as_ref() {
            Message::User(user) => user.content.iter().map(block).sum(),
            Message::Assistant(reply) => reply.content.iter().map(block).sum(),
            Message::ToolResult(result) => result.content.iter().map(block).sum::<u64>(),
            other => panic!("not for a model: {other:?}"),
        })
        .sum();
    prompt + tools + messages
}

impl Model for World {
    fn card(&self) -> &ModelCard {
        &self.0.card
    }

    fn ask(&self, request: ModelRequest, _: CancellationToken) -> BoxStream<'static, ModelEvent> {
        let took = size(&request);
        self.0.requests.lock().unwrap().push(request);
        let reply = self.0.replies.lock().unwrap().pop_front().expect("a reply for every request");
        let overflow = |window| {
            let failure = ModelFailure { kind: FailureKind::Overflow, retry_after: None, window_tokens: window };
            (failed("the prompt is too long"), Some(failure))
        };
        let (mut message, failure) = match reply {
            Reply::Message(message) => (message, None),
            Reply::Fails(FailureKind::Overflow, window) => overflow(window),
            Reply::Fails(kind, window_tokens) => {
                (failed("it failed"), Some(ModelFailure { kind, retry_after: None, window_tokens }))
            }
            Reply::Windowed(window, _) if took > window => overflow(None),
            Reply::Windowed(_, words) => (said(words, 0), None),
        };
        message.provider = "test".to_owned();
        message.model = "m".to_owned();
        futures::stream::iter(vec![ModelEvent::Started, ModelEvent::Done { message, failure }]).boxed()
    }
}

pub fn failed(words: &str) -> AssistantMessage {
    let error_message = Some(words.to_owned());
    AssistantMessage { stop_reason: StopReason::Error, error_message, ..AssistantMessage::default() }
}

pub fn said(words: &str, total_tokens: u64) -> AssistantMessage {
    AssistantMessage {
        content: vec![Content::text(words)],
        stop_reason: StopReason::Stop,
        provider: "test".to_owned(),
        model: "m".to_owned(),
        usage: Usage { total_tokens, ..Usage::default() },
        ..AssistantMessage::default()
    }
}

pub fn says(words: &str) -> Reply {
    Reply::Message(said(words, 0))
}

pub fn asks(calls: &[(&str, Value)]) -> AssistantMessage {
    let call = |(index, (name, arguments)): (usize, &(&str, Value))| {
        Content::ToolCall(ToolCall {
            id: format!("c{index}"),
            name: (*name).to_owned(),
            arguments: arguments.as_object().cloned().unwrap(),
            arguments_error: None,
            thought_signature: None,
            arguments_text: None,
        })
    };
    let content = calls.iter().enumerate().map(call).collect();
    AssistantMessage { content, stop_reason: StopReason::ToolUse, ..said("", 0) }
}

pub fn writes(text: &str) -> Writes {
    Writes::Text(text.to_owned())
}

impl Tools for World {
    fn offered(&self) -> Vec<Arc<OfferedTool>> {
        let tool = |name: &str, required: bool, meta: Option<Value>| {
            let required = if required { json!(["path"]) } else { json!([]) };
            let input_schema = json!({
                "type": "object",
                "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                "required": required
            });
            Arc::new(OfferedTool {
                spec: Arc::new(ToolSpec {
                    name: name.to_owned(),
                    label: None,
                    description: "a tool".to_owned(),
                    input_schema,
                    output_schema: None,
                    execution: Execution::Parallel,
                    exposure: Exposure::Direct,
                    guidelines: Vec::new(),
                    meta,
                }),
                plugin: "p".to_owned(),
                served_by: "test/p".to_owned(),
                digest: None,
                authorities: Vec::new(),
            })
        };
        let reads = || Some(json!({"readOnlyHint": true}));
        vec![tool("see", true, reads()), tool("put", true, None), tool("look", false, reads())]
    }

    fn run<'a>(&'a self, _: &'a OfferedTool, call: &'a CanonicalCall, _: CallScope) -> BoxFuture<'a, CallOutcome> {
        let content = self.0.output.lock().unwrap().clone();
        let is_error = call.input.contains("absent");
        Box::pin(async move { CallOutcome::Output(ToolOutput { content, is_error, ..ToolOutput::default() }) })
    }
}

impl Hooks for World {
    fn judge<'a>(&'a self, _: &'a CanonicalCall, _: &'a CallOrigin, _: CallScope) -> BoxFuture<'a, Vec<Judgement>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn filter<'a>(
        &'a self,
        _: &'a CanonicalCall,
        _: &'a CallOrigin,
        output: ToolOutput,
        _: CallScope,
    ) -> BoxFuture<'a, Filtered> {
        Box::pin(std::future::ready(Filtered::Output(output)))
    }

    fn summarise<'a>(&'a self, job: &'a SummaryJob, _: CallScope) -> BoxFuture<'a, Summarised> {
        self.0.jobs.lock().unwrap().push(job.clone());
        if let Some((mailbox, words)) = self.0.steered.lock().unwrap().take() {
            mailbox.steer(vec![Content::text(words)]).unwrap();
        }
        let plugin = "notes".to_owned();
        let writes = self.0.writes.lock().unwrap().pop_front().unwrap_or(Writes::LeavesIt);
        Box::pin(async move {
            match writes {
                Writes::Text(text) => Summarised::Summary { plugin, text, details: Some(json!({"own": 1})) },
                Writes::LeavesIt => Summarised::None,
                Writes::Refuses => {
                    let refusal =
                        GuestError { kind: GuestErrorKind::Unavailable, message: "no model answers".to_owned() };
                    Summarised::Stopped { plugin, stop: Stop::Refused(refusal) }
                }
                Writes::Traps => {
                    let (export, cause) = ("compactor.compact".to_owned(), "it trapped".to_owned());
                    let fault = Fault { plugin: plugin.clone(), export, cause };
                    Summarised::Stopped { plugin, stop: Stop::Fault(fault) }
                }
                Writes::Hangs => {
                    self.0.cancel.cancel();
                    std::future::pending().await
                }
            }
        })
    }
}

impl Person for World {
    fn is_there(&self) -> bool {
        self.0.interactive
    }

    fn decide<'a>(&'a self, _: &'a CanonicalCall, _: &'a [AskedQuestion]) -> BoxFuture<'a, Option<Decision>> {
        Box::pin(std::future::ready(None))
    }
}

impl Spool for World {
    fn keep(&self, name: &str, _: &str) -> Option<String> {
        Some(format!("/spool/{name}"))
    }
}

impl Clock for World {
    fn now_millis(&self) -> i64 {
        0
    }

    fn monotonic_millis(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        // Nothing here is late.
        Box::pin(std::future::pending())
    }

    fn random_u32(&self) -> u32 {
        self.0.id.fetch_add(1, Ordering::Relaxed)
    }
}

impl Store for World {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        self.0.lines.lock().unwrap().extend_from_slice(lines);
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let offset = usize::try_from(offset).unwrap();
        Ok(self.0.lines.lock().unwrap()[offset..offset + length].to_vec())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Words of about so many tokens that can be told apart.
pub fn words(mark: &str, tokens: usize) -> String {
    let mut text = format!("{mark} begins ");
    let end = format!(" {mark} ends");
    text.push_str(&"x".repeat((tokens * 4).saturating_sub(text.len() + end.len())));
    text.push_str(&end);
    text
}

pub fn user(text: String) -> Message {
    Message::User(UserMessage { content: vec![Content::text(text)], timestamp: 0 })
}

/// Turns of a user's words and a reply, of so many tokens each.
pub fn talk(agent: &Agent, turns: std::ops::Range<usize>, tokens: usize) {
    for turn in turns {
        agent.session.append(user(words(&format!("question {turn}"), tokens))).unwrap();
        agent.session.append(Message::Assistant(said(&words(&format!("answer {turn}"), tokens), 0))).unwrap();
    }
}

/// A call of a tool and its result.
pub fn called(agent: &Agent, id: &str, name: &str, arguments: Value, result: String, is_error: bool) {
    let mut reply = asks(&[(name, arguments)]);
    if let Content::ToolCall(call) = &mut reply.content[0] {
        call.id = id.to_owned();
    }
    agent.session.append(Message::Assistant(reply)).unwrap();
    let result = ToolResultMessage {
        tool_call_id: id.to_owned(),
        tool_name: name.to_owned(),
        content: vec![Content::text(result)],
        is_error,
        ..ToolResultMessage::default()
    };
    agent.session.append(Message::ToolResult(result)).unwrap();
}

pub fn compactions(session: &Session) -> Vec<Compaction> {
    session
        .path()
        .iter()
        .filter_map(|entry| match &entry.body {
            EntryBody::Compaction(compaction) => Some(compaction.clone()),
            _ => None,
        })
        .collect()
}

pub fn text(request: &ModelRequest) -> String {
    serde_json::to_string(&request.messages).unwrap()
}

/// Every result follows its call, every call has its result.
#[track_caller]
pub fn paired(request: &ModelRequest) {
    let mut open: VecDeque<String> = VecDeque::new();
    for message in &request.messages {
        match message.as_ref() {
            Message::ToolResult(result) => assert_eq!(open.pop_front().as_deref(), Some(result.tool_call_id.as_str())),
            other => {
                assert!(open.is_empty(), "{open:?} before {other:?}");
                if let Message::Assistant(reply) = other {
                    open = reply.tool_calls().map(|call| call.id.clone()).collect();
                }
            }
        }
    }
    assert!(open.is_empty());
}

/// All events that were sent, as the JSON face prints them.
pub async fn events(agent: Agent, mut inbox: pith_core::Inbox) -> Vec<Value> {
    agent.outbox.close();
    let mut all = Vec::new();
    while let Some(event) = inbox.next().await {
        all.push(serde_json::to_value(event).unwrap());
    }
    all
}

pub fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}
