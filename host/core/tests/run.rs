//! The loop and the dispatch over ports: what is asked, in which order it happens, what is recorded.
#![allow(clippy::unwrap_used, missing_docs)]

use futures::{StreamExt, future::BoxFuture, stream::BoxStream};
use pith_core::{
    Agent, AskedQuestion, Budgets, CallOutcome, CallScope, CanonicalCall, Clock, Decision, Dispatcher, FailureKind,
    Fault, Filtered, Hooks, Judgement, Mailbox, Model, ModelCard, ModelEvent, ModelFailure, ModelRequest, OfferedTool,
    Outbox, Person, RetryLaw, RunEnd, Session, Spool, Stop, Store, StoreError, StoreFault, Tools, UserCall,
    UserCallError, Verdict,
};
use pith_protocol::{
    AssistantMessage, CallOrigin, Content, Event, Execution, Exposure, GuestError, GuestErrorKind, Message, ModelRef,
    SessionId, StopReason, ThinkingLevel, ToolCall, ToolOutput, ToolSpec,
};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// The world of one test. Everything that happens is noted in order.
#[derive(Clone)]
struct World(Arc<Inner>);

struct Inner {
    card: ModelCard,
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<ModelRequest>>,
    notes: Mutex<Vec<String>>,
    tools: Vec<Arc<OfferedTool>>,
    verdicts: Mutex<Vec<(&'static str, Result<Verdict, Stop>)>>,
    decision: Mutex<Option<Option<Decision>>>,
    filter: Mutex<Option<Filtered>>,
    time: AtomicU64,
    id: AtomicU32,
    cancel: CancellationToken,
    /// Nothing can be written any more.
    is_full: AtomicBool,
}

type Reply = (AssistantMessage, Option<ModelFailure>);

impl World {
    fn new(replies: Vec<Reply>) -> Self {
        let tool = |name: &str, execution| {
            Arc::new(OfferedTool {
                spec: Arc::new(ToolSpec {
                    name: name.to_owned(),
                    label: None,
                    description: format!("the tool {name}"),
                    input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false}),
                    output_schema: None,
                    execution,
                    exposure: Exposure::Direct,
                    guidelines: Vec::new(),
                    meta: None,
                }),
                plugin: "p".to_owned(),
                served_by: "test/p".to_owned(),
                digest: None,
                authorities: Vec::new(),
            })
        };
        let tools = vec![
            tool("slow", Execution::Parallel),
            tool("fast", Execution::Parallel),
            tool("turn", Execution::Sequential),
            tool("trap", Execution::Parallel),
            tool("no", Execution::Parallel),
            tool("end", Execution::Parallel),
            tool("hang", Execution::Parallel),
            tool("long", Execution::Parallel),
        ];
        Self(Arc::new(Inner {
            card: ModelCard {
                model: ModelRef { provider: "test".to_owned(), id: "m".to_owned() },
                api: "test".to_owned(),
                window_tokens: 1000,
                output_tokens: 100,
                reads_images: false,
                thinks: false,
            },
            replies: Mutex::new(replies.into()),
            requests: Mutex::default(),
            notes: Mutex::default(),
            tools,
            verdicts: Mutex::default(),
            decision: Mutex::default(),
            filter: Mutex::default(),
            time: AtomicU64::new(0),
            id: AtomicU32::new(0),
            cancel: CancellationToken::new(),
            is_full: AtomicBool::new(false),
        }))
    }

    fn note(&self, what: impl Into<String>) {
        self.0.notes.lock().unwrap().push(what.into());
    }

    fn notes(&self) -> Vec<String> {
        self.0.notes.lock().unwrap().clone()
    }

    fn agent(&self) -> Agent {
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
            interactive: false,
            retry: RetryLaw::default(),
            budgets: Budgets::default(),
        }
    }

    async fn run(&self, agent: &Agent) -> RunEnd {
        let sections = vec![("preamble".to_owned(), "You are a test.".to_owned())];
        agent.run(vec![Content::text("go")], sections, self.0.cancel.clone()).await.unwrap()
    }
}

impl Model for World {
    fn card(&self) -> &ModelCard {
        &self.0.card
    }

    fn ask(&self, request: ModelRequest, _: CancellationToken) -> BoxStream<'static, ModelEvent> {
        self.0.requests.lock().unwrap().push(request);
        let (message, failure) = self.0.replies.lock().unwrap().pop_front().expect("a reply for every request");
        futures::stream::iter(vec![ModelEvent::Started, ModelEvent::Done { message, failure }]).boxed()
    }
}

impl Tools for World {
    fn offered(&self) -> Vec<Arc<OfferedTool>> {
        self.0.tools.clone()
    }

    fn run<'a>(
        &'a self,
        tool: &'a OfferedTool,
        call: &'a CanonicalCall,
        scope: CallScope,
    ) -> BoxFuture<'a, CallOutcome> {
        Box::pin(async move {
            let name = tool.spec.name.as_str();
            self.note(format!("run {name} {}", call.input));
            let output = |text: &str| ToolOutput { content: vec![Content::text(text)], ..ToolOutput::default() };
            match name {
                "slow" => {
                    for _ in 0..5 {
                        tokio::task::yield_now().await;
                    }
                    self.note("slow is done");
                    CallOutcome::Output(output("slow result"))
                }
                "trap" => CallOutcome::Fault(Fault {
                    plugin: "p".to_owned(),
                    export: "tools.call".to_owned(),
                    cause: "trapped".to_owned(),
                }),
                "no" => CallOutcome::Refusal(GuestError {
                    kind: GuestErrorKind::NotFound,
                    message: "no such thing".to_owned(),
                }),
                "end" => CallOutcome::Output(ToolOutput { terminate: true, ..output("ended") }),
                "hang" => {
                    self.0.cancel.cancel();
                    scope.cancel.cancelled().await;
                    std::future::pending().await
                }
                "long" => CallOutcome::Output(output(&"é".repeat(100_000))),
                _ => {
                    self.note(format!("{name} is done"));
                    CallOutcome::Output(output(&format!("{name} result")))
                }
            }
        })
    }
}

impl Hooks for World {
    fn judge<'a>(&'a self, call: &'a CanonicalCall, _: &'a CallOrigin, _: CallScope) -> BoxFuture<'a, Vec<Judgement>> {
        self.note(format!("judge {} {}", call.name, call.input));
        let verdicts = self.0.verdicts.lock().unwrap().clone();
        let judgement =
            |(plugin, verdict): (&str, _)| Judgement { plugin: plugin.to_owned(), digest: "d".to_owned(), verdict };
        Box::pin(std::future::ready(verdicts.into_iter().map(judgement).collect()))
    }

    fn filter<'a>(
        &'a self,
        call: &'a CanonicalCall,
        _: &'a CallOrigin,
        output: ToolOutput,
        _: CallScope,
    ) -> BoxFuture<'a, Filtered> {
        self.note(format!("filter {} {}", call.name, call.input));
        let with = self.0.filter.lock().unwrap().clone();
        Box::pin(std::future::ready(with.unwrap_or(Filtered::Output(output))))
    }
}

impl Person for World {
    fn is_there(&self) -> bool {
        self.0.decision.lock().unwrap().is_some()
    }

    fn decide<'a>(&'a self, call: &'a CanonicalCall, asked: &'a [AskedQuestion]) -> BoxFuture<'a, Option<Decision>> {
        let who: Vec<&str> = asked.iter().map(|question| question.plugin.as_str()).collect();
        self.note(format!("ask the person for {} about {} {}", who.join("+"), call.name, call.input));
        Box::pin(std::future::ready(self.0.decision.lock().unwrap().flatten()))
    }
}

impl Spool for World {
    fn keep(&self, name: &str, text: &str) -> Option<String> {
        self.note(format!("spool {name} {}", text.len()));
        Some(format!("/spool/{name}"))
    }
}

impl Clock for World {
    fn now_millis(&self) -> i64 {
        0
    }

    fn monotonic_millis(&self) -> u64 {
        self.0.time.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.note(format!("sleep {}", duration.as_millis()));
        Box::pin(std::future::ready(()))
    }

    fn random_u32(&self) -> u32 {
        self.0.id.fetch_add(1, Ordering::Relaxed)
    }
}

impl Store for World {
    fn append(&self, _: &[u8]) -> Result<(), StoreError> {
        if self.0.is_full.load(Ordering::Relaxed) {
            let source = std::io::ErrorKind::StorageFull.into();
            return Err(StoreError {
                kind: StoreFault::Changed,
                file: "session".to_owned(),
                action: "written",
                source,
            });
        }
        Ok(())
    }

    fn read(&self, _: u64, _: usize) -> Result<Vec<u8>, StoreError> {
        Ok(Vec::new())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.note("sync");
        Ok(())
    }
}

fn says(text: &str) -> Reply {
    let content = vec![Content::text(text)];
    (AssistantMessage { content, stop_reason: StopReason::Stop, ..AssistantMessage::default() }, None)
}

fn asks(calls: &[(&str, Value)]) -> Reply {
    let call = |(index, (name, arguments)): (usize, &(&str, Value))| {
        Content::ToolCall(ToolCall {
            id: format!("c{index}"),
            name: (*name).to_owned(),
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            arguments_error: None,
            thought_signature: None,
            arguments_text: None,
        })
    };
    let content = calls.iter().enumerate().map(call).collect();
    (AssistantMessage { content, stop_reason: StopReason::ToolUse, ..AssistantMessage::default() }, None)
}

fn fails(kind: FailureKind, retry_after: Option<Duration>) -> Reply {
    let error_message = Some("it failed".to_owned());
    let message = AssistantMessage { stop_reason: StopReason::Error, error_message, ..AssistantMessage::default() };
    (message, Some(ModelFailure { kind, retry_after, window_tokens: None }))
}

/// The results that the last request carried, as text.
fn results(world: &World) -> Vec<String> {
    let requests = world.0.requests.lock().unwrap();
    let last = requests.last().unwrap();
    last.messages
        .iter()
        .filter_map(|message| match message.as_ref() {
            Message::ToolResult(result) => Some(result.content.iter().filter_map(Content::as_text).collect()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn calls_are_judged_in_order_run_side_by_side_and_answered_in_order() {
    let world = World::new(vec![asks(&[("slow", json!({"n": 1})), ("fast", json!({"n": 2}))]), says("done")]);
    let end = world.run(&world.agent()).await;
    assert_eq!(end.stop_reason, StopReason::Stop);
    assert_eq!(
        world.notes(),
        [
            r#"judge slow {"n":1}"#,
            r#"judge fast {"n":2}"#,
            r#"run slow {"n":1}"#,
            r#"run fast {"n":2}"#,
            "fast is done",
            r#"filter fast {"n":2}"#,
            "slow is done",
            r#"filter slow {"n":1}"#,
            "sync",
            // And once more at the end of the second turn, and of the run.
            "sync",
            "sync",
        ]
    );
    assert_eq!(results(&world), ["slow result", "fast result"]);
}

#[tokio::test]
async fn one_tool_that_wants_its_turn_makes_the_whole_batch_one_by_one() {
    let world = World::new(vec![asks(&[("slow", json!({})), ("turn", json!({}))]), says("done")]);
    world.run(&world.agent()).await;
    let notes = world.notes();
    let place = |what: &str| notes.iter().position(|note| note == what).unwrap();
    assert!(place("slow is done") < place("judge turn {}"));
}

#[tokio::test]
async fn what_cannot_be_called_goes_back_to_the_model_in_words() {
    let calls = [
        ("nope", json!({})),
        ("fast", json!({"n": "x"})),
        ("fast", json!({"m": 1})),
        ("fast", json!({"n": "7"})),
        ("fast", json!({"n": 9_007_199_254_740_993_u64})),
        ("trap", json!({})),
        ("no", json!({})),
    ];
    let world = World::new(vec![asks(&calls), says("done")]);
    world.run(&world.agent()).await;
    let results = results(&world);
    let expected = [
        "Tool nope not found. There are: slow, fast",
        "Validation failed for tool \"fast\":\n  - n: ",
        "Validation failed for tool \"fast\":\n  - ",
        "fast result",
        "not exact",
        "plugin p failed in tools.call: trapped",
        "no such thing",
    ];
    for (result, part) in results.iter().zip(expected) {
        assert!(result.contains(part), "{result:?} should contain {part:?}");
    }
    assert_eq!(results.len(), expected.len());
    assert!(world.notes().contains(&r#"run fast {"n":7}"#.to_owned()), "coerced before gates and tool");
}

#[tokio::test]
async fn a_gate_that_denies_fails_or_refuses_stops_the_call() {
    let fault =
        Fault { plugin: "g".to_owned(), export: "tool-gate.before-call".to_owned(), cause: "out of memory".to_owned() };
    let refusal = GuestError { kind: GuestErrorKind::Internal, message: "cannot say".to_owned() };
    for (verdict, part) in [
        (
            Ok(Verdict::Deny("not \u{1b}[31mhere\nb\nc\nd".to_owned())),
            "denied by plugin g. Its words: not [31mhere\nb\nc",
        ),
        (Err(Stop::Fault(fault)), "out of memory"),
        (Err(Stop::Refused(refusal)), "cannot say"),
    ] {
        let world = World::new(vec![asks(&[("fast", json!({}))]), says("done")]);
        *world.0.verdicts.lock().unwrap() = vec![("a", Ok(Verdict::Pass)), ("g", verdict)];
        world.run(&world.agent()).await;
        let results = results(&world);
        assert!(results[0].contains(part) && !results[0].contains("\nd"), "{results:?}");
        assert!(!world.notes().iter().any(|note| note.starts_with("run")), "nothing ran");
    }
}

#[tokio::test]
async fn the_person_is_asked_once_for_all_gates_and_remembered_under_the_gates_key() {
    let ask = |key: Option<&str>| Ok(Verdict::Ask { text: "sure?".to_owned(), remember: key.map(str::to_owned) });
    let twice = || vec![asks(&[("fast", json!({}))]), asks(&[("fast", json!({}))]), says("done")];
    for (decision, key, asked, ran) in [
        (Some(Some(Decision::Allow)), Some("k"), 2, 2),
        (Some(Some(Decision::AllowForSession)), Some("k"), 1, 2),
        (Some(Some(Decision::AllowForSession)), None, 2, 2),
        (Some(Some(Decision::Deny)), Some("k"), 2, 0),
        (Some(None), Some("k"), 2, 0),
        (None, Some("k"), 0, 0),
    ] {
        let world = World::new(twice());
        *world.0.verdicts.lock().unwrap() = vec![("g", ask(key)), ("h", ask(key))];
        *world.0.decision.lock().unwrap() = decision;
        world.run(&world.agent()).await;
        let count = |start: &str| world.notes().iter().filter(|note| note.starts_with(start)).count();
        assert_eq!(count("ask the person for g+h about fast {}"), asked, "{decision:?} {key:?}");
        assert_eq!(count("run fast"), ran, "{decision:?} {key:?}");
    }
    // A denial beside a question: nobody is asked.
    let world = World::new(vec![asks(&[("fast", json!({}))]), says("done")]);
    *world.0.verdicts.lock().unwrap() = vec![("g", ask(None)), ("h", Ok(Verdict::Deny("no".to_owned())))];
    *world.0.decision.lock().unwrap() = Some(Some(Decision::Allow));
    world.run(&world.agent()).await;
    assert!(!world.notes().iter().any(|note| note.starts_with("ask the person") || note.starts_with("run")));
}

#[tokio::test]
async fn a_filter_that_fails_withholds_the_result_and_a_long_one_is_spooled() {
    let world = World::new(vec![asks(&[("fast", json!({}))]), says("done")]);
    let stop = Stop::Fault(Fault {
        plugin: "f".to_owned(),
        export: "tool-filter.after-call".to_owned(),
        cause: "trapped".to_owned(),
    });
    *world.0.filter.lock().unwrap() = Some(Filtered::Stopped { plugin: "f".to_owned(), stop });
    world.run(&world.agent()).await;
    assert!(results(&world)[0].contains("withheld"), "{:?}", results(&world));
    assert!(!results(&world)[0].contains("fast result"));

    let world = World::new(vec![asks(&[("long", json!({}))]), says("done")]);
    world.run(&world.agent()).await;
    let result = &results(&world)[0];
    assert!(result.len() < pith_core::RESULT_TEXT_LIMIT_BYTES + 200, "{}", result.len());
    assert!(result.ends_with("[200000 bytes in all; the whole is in /spool/long]"));
    assert!(world.notes().contains(&"spool long 200000".to_owned()));
}

#[tokio::test]
async fn a_reply_that_the_output_limit_cut_runs_no_tool() {
    let (mut cut, _) = asks(&[("fast", json!({}))]);
    cut.stop_reason = StopReason::Length;
    let world = World::new(vec![(cut, None), says("done")]);
    let end = world.run(&world.agent()).await;
    assert_eq!(end.stop_reason, StopReason::Stop);
    assert!(results(&world)[0].contains("cut off"));
    assert!(!world.notes().iter().any(|note| note.starts_with("run")));
}

#[tokio::test]
async fn the_run_ends_only_if_every_result_of_a_batch_says_so() {
    let world = World::new(vec![
        asks(&[("end", json!({})), ("fast", json!({}))]),
        asks(&[("end", json!({})), ("end", json!({}))]),
    ]);
    let end = world.run(&world.agent()).await;
    assert_eq!(end.stop_reason, StopReason::ToolUse);
    assert_eq!(world.0.requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn steering_comes_after_a_turns_tools_and_follow_ups_when_the_agent_would_stop() {
    let world = World::new(vec![asks(&[("fast", json!({}))]), says("one"), says("two"), says("three")]);
    let agent = world.agent();
    agent.mailbox.follow_up(vec![Content::text("then this")]).unwrap();
    agent.mailbox.steer(vec![Content::text("this first")]).unwrap();
    agent.mailbox.steer(vec![Content::text("and this")]).unwrap();
    world.run(&agent).await;
    let requests = world.0.requests.lock().unwrap();
    let last_user = |index: usize| {
        requests[index].messages.iter().rev().find_map(|message| match message.as_ref() {
            Message::User(user) => user.content[0].as_text().map(str::to_owned),
            _ => None,
        })
    };
    let words: Vec<_> = (0..requests.len()).map(|index| last_user(index).unwrap()).collect();
    assert_eq!(words, ["go", "this first", "and this", "then this"]);
}

#[tokio::test]
async fn an_abort_answers_every_open_call_and_asks_the_model_no_more() {
    let world = World::new(vec![asks(&[("fast", json!({})), ("hang", json!({})), ("slow", json!({}))])]);
    let agent = world.agent();
    let mut inbox = agent.outbox.attach();
    let end = world.run(&agent).await;
    assert_eq!(end.stop_reason, StopReason::Aborted);
    let projected = agent.session.project();
    assert_eq!(projected.mended, Vec::<String>::new(), "each call has its recorded answer");
    agent.outbox.close();
    let mut settled = None;
    while let Some(event) = inbox.next().await {
        if let Event::AgentSettled { aborted } = event {
            settled = Some(aborted);
        }
    }
    assert_eq!(settled, Some(true));
}

#[tokio::test]
async fn failed_requests_are_tried_again_where_that_can_help() {
    let second = Duration::from_millis(1500);
    let cases: [(Vec<Reply>, &[&str], StopReason); 5] = [
        (vec![fails(FailureKind::RateLimited, Some(second)), says("ok")], &["sleep 1500"], StopReason::Stop),
        (
            vec![fails(FailureKind::Unavailable, None), fails(FailureKind::Unavailable, None), says("ok")],
            &["sleep 2000", "sleep 4000"],
            StopReason::Stop,
        ),
        (vec![fails(FailureKind::Unauthorized, None)], &[], StopReason::Error),
        (vec![fails(FailureKind::RateLimited, Some(Duration::from_secs(3600)))], &[], StopReason::Error),
        (
            (0..4).map(|_| fails(FailureKind::Unavailable, None)).collect(),
            &["sleep 2000", "sleep 4000", "sleep 8000"],
            StopReason::Error,
        ),
    ];
    for (replies, sleeps, stop) in cases {
        let world = World::new(replies);
        let end = world.run(&world.agent()).await;
        assert_eq!(end.stop_reason, stop);
        let slept: Vec<String> = world.notes().into_iter().filter(|note| note.starts_with("sleep")).collect();
        assert_eq!(slept, sleeps);
        assert_eq!(end.failure.is_some(), stop == StopReason::Error);
    }
}

#[tokio::test]
async fn prompt_and_tools_are_recorded_once_and_patched_when_they_change() {
    let world = World::new(vec![says("one"), says("two"), says("three")]);
    let agent = world.agent();
    world.run(&agent).await;
    world.run(&agent).await;
    let systems = |agent: &Agent| {
        let path = agent.session.path();
        path.iter().filter(|entry| matches!(entry.message(), Some(Message::System(_)))).count()
    };
    assert_eq!(systems(&agent), 1);
    let sections = vec![("other".to_owned(), "Changed.".to_owned())];
    agent.run(vec![Content::text("go")], sections, CancellationToken::new()).await.unwrap();
    assert_eq!(systems(&agent), 2);
    let requests = world.0.requests.lock().unwrap();
    assert_eq!(requests[1].system, ["You are a test."]);
    assert_eq!(requests[2].system, ["Changed."]);
    assert_eq!(requests[2].tools.len(), 8);
}

#[tokio::test]
async fn a_users_call_takes_the_models_way_and_is_recorded_once_it_ran() {
    let call = |tool: &str, excluded| UserCall {
        tool: tool.to_owned(),
        arguments: serde_json::Map::from_iter([("n".to_owned(), json!(1))]),
        command: "as typed".to_owned(),
        excluded,
    };
    let world = World::new(vec![says("I see.")]);
    let agent = world.agent();
    let end = agent.user_call(call("fast", false), CancellationToken::new()).await.unwrap();
    assert!(end.duration_ms.is_some() && !end.cancelled && !end.output.is_error);
    assert_eq!(
        world.notes(),
        [r#"judge fast {"n":1}"#, r#"run fast {"n":1}"#, "fast is done", r#"filter fast {"n":1}"#, "sync"]
    );
    agent.user_call(call("slow", true), CancellationToken::new()).await.unwrap();
    // What a gate denies is not recorded, nor what is not offered.
    *world.0.verdicts.lock().unwrap() = vec![("g", Ok(Verdict::Deny("no".to_owned())))];
    let denied = agent.user_call(call("fast", false), CancellationToken::new()).await.unwrap();
    assert!(denied.output.is_error && denied.duration_ms.is_none());
    let missing = agent.user_call(call("none", false), CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&missing, UserCallError::NotOffered { offered, .. } if offered.len() == 8), "{missing}");
    world.0.verdicts.lock().unwrap().clear();
    // One that is stopped is.
    let stopped = agent.user_call(call("hang", false), world.0.cancel.clone()).await.unwrap();
    assert!(stopped.cancelled);
    let records: Vec<_> = agent
        .session
        .path()
        .iter()
        .filter_map(|entry| match entry.message() {
            Some(Message::BashExecution(run)) => {
                Some((run.output.clone(), run.exit_code, run.cancelled, run.exclude_from_context))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        records,
        [
            ("fast result".to_owned(), Some(0), false, None),
            ("slow result".to_owned(), Some(0), false, Some(true)),
            ("Operation aborted".to_owned(), None, true, None),
        ]
    );
    agent.run(vec![Content::text("go")], Vec::new(), CancellationToken::new()).await.unwrap();
    let seen = serde_json::to_string(&world.0.requests.lock().unwrap()[0].messages).unwrap();
    assert!(seen.contains("The user ran `as typed`") && seen.contains("fast result"), "{seen}");
    assert!(!seen.contains("slow result"), "{seen}");
}

#[tokio::test]
async fn a_users_call_ends_for_every_face_also_where_it_cannot_be_recorded() {
    let world = World::new(Vec::new());
    let agent = world.agent();
    let mut inbox = agent.outbox.attach();
    world.0.is_full.store(true, Ordering::Relaxed);
    let call = UserCall {
        tool: "fast".to_owned(),
        arguments: serde_json::Map::from_iter([("n".to_owned(), json!(1))]),
        command: "as typed".to_owned(),
        excluded: false,
    };
    let failed = agent.user_call(call, CancellationToken::new()).await.unwrap_err();
    assert!(matches!(failed, UserCallError::Session(_)), "{failed}");
    agent.outbox.close();
    let (mut begun, mut ended) = (0, 0);
    while let Some(event) = inbox.next().await {
        match event {
            Event::ToolExecutionStart { .. } => begun += 1,
            Event::ToolExecutionEnd { .. } => ended += 1,
            Event::MessageStart { .. } => panic!("nothing was recorded"),
            _ => {}
        }
    }
    assert_eq!((begun, ended), (1, 1));
}

#[tokio::test]
async fn what_a_run_did_not_read_can_be_taken_back() {
    let world = World::new(vec![fails(FailureKind::Invalid, None)]);
    let agent = world.agent();
    agent.mailbox.follow_up(vec![Content::text("later")]).unwrap();
    agent.mailbox.steer(vec![Content::text("now")]).unwrap();
    world.run(&agent).await;
    assert_eq!(agent.mailbox.take_back(), [vec![Content::text("now")], vec![Content::text("later")]]);
    assert_eq!(agent.mailbox.waiting(), (Vec::new(), Vec::new()));
}
