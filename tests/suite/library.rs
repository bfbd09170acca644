//! Pith as a library: the person's step, words put in while it runs, and a future dropped anywhere.

use futures::future::BoxFuture;
use pith_core::Projection;
use pith_protocol::{Content, Event, Message, StopReason};
use pith_runtime::{AskedQuestion, CanonicalCall, Decision, Environment, Options, Person, Pith, Places, SessionChoice};
use pith_tests::{Answer, Behaviour, Guest, Home, Reply, Server, Wire, target_folder};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

fn options(home: &Home) -> Options {
    let mut places = Places::beneath(&home.root().join("pith"));
    places.cache = target_folder().join("tmp/pith-cache/pith");
    let environment: Environment = home.environment().iter().collect();
    let mut options = Options::at(places, home.work(), environment);
    options.shipped = pith_bundle::shipped()
        .iter()
        .map(|plugin| pith_runtime::ShippedPlugin {
            name: plugin.name,
            component: plugin.component,
            grants: plugin.grants,
        })
        .collect();
    options
}

async fn start(options: Options) -> Pith {
    pith_runtime::start(options).await.unwrap_or_else(|error| panic!("{error}"))
}

fn words(text: &str) -> Vec<Content> {
    vec![Content::text(text)]
}

/// The tool results of a session, in the order of the file: name, text, whether it is an error.
fn results(pith: &Pith) -> Vec<(String, String, bool)> {
    let projected = pith.session().project();
    let of = |message: &Arc<Message>| match message.as_ref() {
        Message::ToolResult(result) => {
            let text = result.content.iter().filter_map(Content::as_text).collect();
            Some((result.tool_name.clone(), text, result.is_error))
        }
        _ => None,
    };
    projected.messages.iter().filter_map(of).collect()
}

/// Answers questions from a list, and keeps what it was shown.
#[derive(Default)]
struct Answers {
    decisions: Mutex<Vec<Option<Decision>>>,
    shown: Mutex<Vec<(String, Vec<(String, String, bool)>)>>,
}

impl Answers {
    fn new(decisions: &[Option<Decision>]) -> Arc<Self> {
        let mut decisions = decisions.to_vec();
        decisions.reverse();
        Arc::new(Self { decisions: Mutex::new(decisions), shown: Mutex::default() })
    }
}

impl Person for Answers {
    fn is_there(&self) -> bool {
        true
    }

    fn decide<'a>(
        &'a self,
        call: &'a CanonicalCall,
        questions: &'a [AskedQuestion],
    ) -> BoxFuture<'a, Option<Decision>> {
        let asked = questions.iter().map(|one| (one.plugin.clone(), one.text.clone(), one.can_remember)).collect();
        self.shown.lock().expect("no panic").push((call.input.to_string(), asked));
        let decision = self.decisions.lock().expect("no panic").pop().expect("asked once too often");
        Box::pin(async move { decision })
    }
}

/// Three calls of `read` under a gate that asks.
async fn asked(home: &Home, remember: Option<&str>, person: Arc<Answers>) -> Pith {
    home.write("a.txt", "alpha");
    let gate = Guest::new().gate(Behaviour::Ask("may it read?".into(), remember.map(str::to_owned)));
    let call = json!({ "calls": [{ "name": "read", "arguments": { "path": "a.txt" } }] });
    let mut options = options(home);
    options.model = Some(home.scripted(json!([call, call, call, { "text": "done" }])));
    options.plugins = vec![gate.save(&home.root().join("asks.wasm"))];
    options.person = Some(person);
    let pith = start(options).await;
    let end = pith.prompt(words("go")).await.expect("it ends");
    assert_eq!(end.stop_reason, StopReason::Stop, "{end:?}");
    pith
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_person_decides_where_a_gate_asks() {
    let home = Home::new();
    let person = Answers::new(&[Some(Decision::Allow), Some(Decision::Deny), None]);
    let pith = asked(&home, None, person.clone()).await;
    let results = results(&pith);
    assert_eq!(results[0].1, "alpha");
    assert!(results[1].2 && results[1].1.contains("the user said no"), "{results:?}");
    assert!(results[2].2 && !results[2].1.contains("alpha"), "dismissed is denied: {results:?}");
    let shown = person.shown.lock().expect("no panic");
    let question = ("asks".to_owned(), "may it read?".to_owned(), false);
    assert_eq!(shown[0], (r#"{"path":"a.txt"}"#.to_owned(), vec![question]), "the very bytes are shown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_allowed_for_the_session_is_not_asked_again_and_dies_with_it() {
    let home = Home::new();
    let person = Answers::new(&[Some(Decision::AllowForSession)]);
    let pith = asked(&home, Some("reads"), person.clone()).await;
    assert!(results(&pith).iter().all(|(_, text, is_error)| text == "alpha" && !is_error));
    assert_eq!(person.shown.lock().expect("no panic").len(), 1);
    // Without a key there is nothing to remember it under; and another session asks afresh.
    let home = Home::new();
    let every = Some(Decision::AllowForSession);
    let person = Answers::new(&[every, every, every]);
    asked(&home, None, person.clone()).await;
    assert_eq!(person.shown.lock().expect("no panic").len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_cannot_allow_what_another_gate_denies() {
    let home = Home::new();
    let asks = Guest::new().gate(Behaviour::Ask("may it?".into(), None)).save(&home.root().join("asks.wasm"));
    let denies = Guest::new().gate(Behaviour::Deny("never".into())).save(&home.root().join("denies.wasm"));
    let mut options = options(&home);
    options.model = Some(home.scripted(
        json!([{ "calls": [{ "name": "bash", "arguments": { "command": "touch ran" } }] }, { "text": "done" }]),
    ));
    options.plugins = vec![asks, denies];
    let person = Answers::new(&[]);
    options.person = Some(person.clone());
    let pith = start(options).await;
    pith.prompt(words("go")).await.expect("it ends");
    let results = results(&pith);
    assert!(results[0].2 && results[0].1.contains("never"), "{results:?}");
    assert!(!home.work().join("ran").exists());
    assert!(person.shown.lock().expect("no panic").is_empty(), "the person is not asked about what is denied anyway");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steering_reaches_the_model_after_the_turns_tools_and_follow_ups_when_it_would_stop() {
    let home = Home::new();
    let mut options = options(&home);
    options.model = Some(home.scripted(json!([
        { "calls": [{ "name": "bash", "arguments": { "command": "until [ -e steered ]; do sleep 0.01; done; echo waited" } }] },
        { "expect": { "last_user_contains": "turn left" }, "text": "turning" },
        { "expect": { "last_user_contains": "and then home" }, "text": "homewards" }
    ])));
    let pith = start(options).await;
    let mut inbox = pith.events();
    let mut queues = Vec::new();
    let watch = async {
        while let Some(event) = inbox.next().await {
            match event {
                Event::ToolExecutionStart { .. } => {
                    pith.follow_up(words("and then home")).expect("there is room");
                    pith.steer(words("turn left")).expect("there is room");
                    home.write("steered", "");
                }
                Event::QueueUpdate { steering, follow_up } => queues.push((steering, follow_up)),
                Event::AgentSettled { .. } => break,
                _ => {}
            }
        }
    };
    let (end, ()) = tokio::join!(pith.prompt(words("drive")), watch);
    let end = end.expect("it ends");
    assert_eq!(end.stop_reason, StopReason::Stop, "{end:?}");
    let said: Vec<String> = pith
        .session()
        .project()
        .messages
        .iter()
        .map(|message| match message.as_ref() {
            Message::User(user) => {
                format!("user {}", user.content.iter().filter_map(Content::as_text).collect::<String>())
            }
            Message::Assistant(reply) => format!("assistant {}", reply.text()),
            Message::ToolResult(_) => "result".to_owned(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        said,
        [
            "user drive",
            "assistant ",
            "result",
            "user turn left",
            "assistant turning",
            "user and then home",
            "assistant homewards"
        ]
    );
    assert!(
        queues.iter().any(|(steering, follow_up)| steering.is_empty() && follow_up == &["and then home"]),
        "{queues:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_live_in_one_process() {
    let homes: Vec<Home> = (0..16).map(|_| Home::new()).collect();
    let runs = homes.iter().enumerate().map(|(number, home)| async move {
        home.write("own.txt", format!("number {number}"));
        let mut options = options(home);
        options.model = Some(home.scripted(
            json!([{ "calls": [{ "name": "read", "arguments": { "path": "own.txt" } }] }, { "text": "done" }]),
        ));
        let pith = start(options).await;
        pith.prompt(words("go")).await.expect("it ends");
        (number, results(&pith))
    });
    for (number, results) in futures::future::join_all(runs).await {
        assert_eq!(results[0].1, format!("number {number}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_prompt_does_not_run_beside_the_first() {
    let home = Home::new();
    let mut options = options(&home);
    options.model = Some(home.scripted(json!([{ "text": "slow ".repeat(100), "delay_ms": 20 }, { "text": "next" }])));
    let pith = start(options).await;
    let first = pith.prompt(words("one"));
    let second = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        pith.prompt(words("two")).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(second.is_err(), "{second:?}");
    assert_eq!(first.expect("it ends").stop_reason, StopReason::Stop);
    assert_eq!(pith.prompt(words("two")).await.expect("it ends").stop_reason, StopReason::Stop);
}

/// A conversation with a text, two calls side by side and one in a further turn, paced so that a drop falls anywhere.
fn paced() -> Vec<Answer> {
    let replies = [
        Reply::text("Let me look at both of them.")
            .in_pieces(8)
            .and_call("c1", "read", json!({ "path": "a.txt" }))
            .and_call("c2", "bash", json!({ "command": "echo one; sleep 0.02; echo two" })),
        Reply::call("c3", "write", json!({ "path": "b.txt", "content": "beta" })),
        Reply::text("That is all there is to say.").in_pieces(8),
    ];
    replies.iter().map(|reply| Answer::sse(Wire::OpenAi.sse(reply)).paced(64, Duration::from_micros(300))).collect()
}

/// Every call has one result right after it, in the order asked.
#[track_caller]
fn assert_valid(projection: &Projection) {
    let mut open: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for message in &projection.messages {
        match message.as_ref() {
            Message::ToolResult(result) => {
                assert!(!open.is_empty() && open.remove(0) == result.tool_call_id, "{:?}", projection.messages);
            }
            other => {
                assert!(open.is_empty(), "{open:?} are not answered: {:?}", projection.messages);
                if let Message::Assistant(reply) = other {
                    open = reply.tool_calls().map(|call| call.id.clone()).collect();
                    assert!(open.iter().all(|id| seen.insert(id.clone())), "{:?}", projection.messages);
                }
            }
        }
    }
    assert!(open.is_empty(), "{open:?} are not answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_dropped_at_any_await_leaves_a_valid_session() {
    // How long the whole takes here, so that the drops fall all over it.
    let whole = {
        let (server, home) = (Server::playing(paced()), Home::new());
        let pith = begin(&home, &server, SessionChoice::New).await;
        let began = std::time::Instant::now();
        let end = pith.prompt(words("go")).await.expect("it ends");
        assert_eq!(end.stop_reason, StopReason::Stop, "{end:?}");
        began.elapsed()
    };
    const POINTS: u32 = 40;
    let mut interrupted = 0;
    for point in 0..POINTS {
        let (server, home) = (Server::playing(paced()), Home::new());
        home.write("a.txt", "alpha");
        let pith = begin(&home, &server, SessionChoice::New).await;
        let dropped = tokio::time::timeout(whole * point / POINTS, pith.prompt(words("go"))).await.is_err();
        interrupted += u32::from(dropped);
        let file = pith.session_file().expect("it has a file");
        assert_valid(&pith.session().project());
        let in_memory = pith.session().path().len();
        drop(pith);
        if !file.exists() {
            assert_eq!(in_memory, 0, "what was said is not on disk");
            continue;
        }
        // Opened again it is what it was, every line whole, and the model is sent a valid conversation.
        let lines = Home::entries(&file);
        assert_eq!(lines.len() - 1, in_memory);
        let last = Server::playing(vec![Answer::sse(Wire::OpenAi.sse(&Reply::text("back")))]);
        let pith = begin(&home, &last, SessionChoice::Open(file.to_string_lossy().into_owned())).await;
        assert_valid(&pith.session().project());
        let end = pith.prompt(words("go on")).await.expect("it ends");
        assert_eq!(end.stop_reason, StopReason::Stop, "point {point}: {end:?}");
        assert_paired(&last.requests()[0].json());
    }
    assert!(interrupted > POINTS / 2, "only {interrupted} of {POINTS} drops fell into the run");
}

async fn begin(home: &Home, server: &Server, session: SessionChoice) -> Pith {
    let mut options = options(home);
    let url = format!("{}/v1", server.url());
    options.environment = home
        .environment()
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .chain([("OPENAI_BASE_URL", url.as_str())])
        .collect();
    options.model = Some("openai/m".to_owned());
    options.session = session;
    // The lock goes with the last who holds the file open: a guest's call that is just ending, a child that has not yet become another
    // program. That takes milliseconds.
    let until = std::time::Instant::now() + Duration::from_secs(5);
    loop {
        match pith_runtime::start(options.clone()).await {
            Ok(pith) => return pith,
            Err(error) if error.to_string().contains("in use") && std::time::Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// The request's own pairs: what a provider would check.
#[track_caller]
fn assert_paired(request: &Value) {
    let mut open: Vec<Value> = Vec::new();
    for message in request["messages"].as_array().expect("messages") {
        if message["role"] == "tool" {
            assert!(!open.is_empty() && open.remove(0) == message["tool_call_id"], "{request}");
        } else {
            assert!(open.is_empty(), "{open:?}: {request}");
            open = message["tool_calls"].as_array().into_iter().flatten().map(|call| call["id"].clone()).collect();
        }
    }
    assert!(open.is_empty(), "{open:?}: {request}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_keeps_finished_results_and_answers_open_calls() {
    let home = Home::new();
    let mut options = options(&home);
    options.model = Some(home.scripted(json!([{ "calls": [
        { "id": "quick", "name": "bash", "arguments": { "command": "echo finished" } },
        { "id": "slow", "name": "bash", "arguments": { "command": "sleep 300" } }
    ] }])));
    let pith = start(options).await;
    let mut inbox = pith.events();
    let watch = async {
        while let Some(event) = inbox.next().await {
            match event {
                Event::ToolExecutionEnd { tool_call_id, .. } if tool_call_id == "quick" => assert!(pith.abort()),
                Event::AgentSettled { .. } => break,
                _ => {}
            }
        }
    };
    let began = std::time::Instant::now();
    let (end, ()) = tokio::join!(pith.prompt(words("go")), watch);
    assert_eq!(end.expect("it ends").stop_reason, StopReason::Aborted);
    assert!(began.elapsed() < Duration::from_secs(10));
    let results = results(&pith);
    assert_eq!((results[0].1.trim(), results[0].2), ("finished", false));
    assert!(results[1].2, "{results:?}");
    assert!(!pith.abort(), "nothing runs any more");
}

/// Where nothing can hold programs, a person decides whether they run, once or for the session; a dismissed question and a "no" run nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_decides_about_programs_that_nothing_can_hold() {
    let call =
        |name: &str| json!({ "calls": [{ "name": "bash", "arguments": { "command": format!("touch {name}") } }] });
    let mask = pith_runtime::SandboxMachine { bubblewrap: false, landlock_abi: 3 };
    for (decisions, ran, asked) in [
        (vec![Some(Decision::Deny), None, Some(Decision::Allow)], [false, false, true], 3),
        (vec![Some(Decision::Allow), Some(Decision::AllowForSession)], [true, true, true], 2),
    ] {
        let home = Home::new();
        let person = Answers::new(&decisions);
        let mut options = options(&home);
        options.model = Some(home.scripted(json!([call("a"), call("b"), call("c"), { "text": "done" }])));
        options.person = Some(person.clone());
        options.sandbox_mask = mask;
        let pith = start(options).await;
        pith.prompt(words("go")).await.expect("it runs");
        let there = ["a", "b", "c"].map(|name| home.work().join(name).exists());
        assert_eq!(there, ran, "{:?}", results(&pith));
        let shown = person.shown.lock().expect("no panic");
        assert_eq!(shown.len(), asked);
        let (plugin, text, can_remember) = &shown[0].1[0];
        assert!(plugin == "the sandbox" && *can_remember, "{plugin}");
        assert!(text.contains("without a sandbox") && text.contains("Landlock is too old"), "{text}");
    }
    // Where they are held nobody is asked.
    let home = Home::new();
    let mut options = options(&home);
    options.model = Some(home.scripted(json!([call("a"), { "text": "done" }])));
    options.person = Some(Answers::new(&[]));
    let pith = start(options).await;
    pith.prompt(words("go")).await.expect("it runs");
    assert!(home.work().join("a").exists(), "{:?}", results(&pith));
}
