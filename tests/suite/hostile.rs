//! Guests that loop, take all memory, trap, recurse or lie: each costs its one call, and the session goes on.

use pith_plugin::Limits;
use pith_protocol::{Content, Event, StopReason};
use pith_runtime::{Environment, Options, Places, SessionChoice};
use pith_tests::{Behaviour, Bench, Guest, Home, Run, plugin_source, target_folder};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A guard's deadline, as the contract's table has it.
const GUARD: Duration = Duration::from_secs(1);

/// Plays calls of a guest's tools, one in each reply, then a last word.
fn play(home: &Home, guest: &Guest, calls: &[&str]) -> Run {
    let plugin = guest.save(&home.root().join("mine.wasm")).to_string_lossy().into_owned();
    let mut replies: Vec<Value> = Vec::new();
    for (number, name) in calls.iter().enumerate() {
        replies.push(json!({ "calls": [{ "id": format!("{number}-{name}"), "name": name, "arguments": {} }] }));
    }
    replies.push(json!({ "text": "the session goes on" }));
    home.play(Value::Array(replies), &["--plugin", &plugin]).ok()
}

#[test]
fn a_bad_call_costs_itself_only() {
    let guest = Guest::new()
        .tool("fine", Behaviour::Fine("all well".into()))
        .tool("trap", Behaviour::Trap)
        .tool("recurse", Behaviour::Recurse)
        .tool("memory", Behaviour::Memory)
        .tool("lie", Behaviour::Lie);
    let home = Home::new();
    let run = play(&home, &guest, &["trap", "fine", "recurse", "fine", "memory", "fine", "lie", "fine"]);
    for (id, text, is_error) in run.results() {
        assert_eq!(is_error, !id.ends_with("fine"), "{id}: {text}");
        assert_eq!(text == "all well", id.ends_with("fine"), "{id}: {text}");
        // Neither a trap's text nor an address reaches the model.
        assert!(!text.contains("wasm") && !text.contains("0x"), "{id}: {text}");
    }
    let (text, _) = run.result("4-memory");
    assert!(text.contains("memory") && text.contains("64 MiB"), "the limit is named: {text}");
    let (text, _) = run.result("2-recurse");
    assert!(text.contains("stack") || text.contains("deep"), "the cause is named: {text}");
    let faults: Vec<Value> = run.events().into_iter().filter(|event| event["type"] == "plugin_fault").collect();
    assert_eq!(faults.len(), 4, "{run}");
    assert!(faults.iter().all(
        |fault| fault["plugin"] == "mine" && fault["export"].as_str().is_some_and(|export| export.contains("call"))
    ));
}

#[test]
fn three_faults_in_a_row_disable_what_is_offered() {
    let guest = Guest::new().tool("trap", Behaviour::Trap).tool("fine", Behaviour::Fine("all well".into()));
    let run = play(&Home::new(), &guest, &["trap", "trap", "trap", "fine", "trap"]);
    let (text, is_error) = run.result("3-fine");
    assert!(is_error, "a tool of a plugin that was disabled ran: {text}");
    // The shipped ones are not touched by it, and a refusal is no fault.
    let guest =
        Guest::new().tool("no", Behaviour::Refuse("not today".into())).tool("fine", Behaviour::Fine("all well".into()));
    let run = play(&Home::new(), &guest, &["no", "no", "no", "no", "fine"]);
    assert_eq!(run.result("3-no"), ("not today".to_owned(), true));
    assert_eq!(run.result("4-fine"), ("all well".to_owned(), false));
}

#[test]
fn a_guard_that_fails_blocks_for_ever_and_never_vanishes() {
    for does in [Behaviour::Trap, Behaviour::Memory, Behaviour::Recurse] {
        let home = Home::new();
        let plugin =
            Guest::new().gate(does.clone()).save(&home.root().join("mine.wasm")).to_string_lossy().into_owned();
        let mut replies: Vec<Value> =
            (0..10).map(|n| json!({ "calls": [{ "id": format!("c{n}"), "name": "bash", "arguments": { "command": "touch ran" } }] })).collect();
        replies.push(json!({ "text": "done" }));
        let run = home.play(Value::Array(replies), &["--plugin", &plugin]).ok();
        let results = run.results();
        assert_eq!(results.len(), 10);
        for (id, text, is_error) in results {
            assert!(is_error && text.contains("mine"), "{does:?} {id}: {text}");
        }
        assert!(run.result("c9").0.contains("disabled after 3 faults"), "{run}");
        assert!(!home.work().join("ran").exists(), "{does:?}: a call passed a guard that failed");
    }
}

/// A session through the library, with this guest.
async fn session(home: &Home, guest: &Guest, replies: Value) -> pith_runtime::Pith {
    let mut places = Places::beneath(&home.root().join("pith"));
    places.cache = target_folder().join("tmp/pith-cache/pith");
    let environment: Environment = home.environment().iter().collect();
    let mut options = Options::at(places, home.work(), environment);
    options.session = SessionChoice::Memory;
    options.model = Some(home.scripted(replies));
    options.plugins = vec![guest.save(&home.root().join("mine.wasm"))];
    pith_runtime::start(options).await.expect("it starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_is_back_soon_after_the_deadline_of_a_loop() {
    let home = Home::new();
    let guest = Guest::new().gate(Behaviour::Loop).tool("fine", Behaviour::Fine("x".into()));
    let call = |id: &str| json!({ "calls": [{ "id": id, "name": "fine", "arguments": {} }] });
    let pith = session(&home, &guest, json!([call("1"), call("2"), call("3"), call("4"), { "text": "done" }])).await;
    let mut inbox = pith.events();
    let (mut began, mut over, mut texts) = (None, Vec::new(), Vec::new());
    let watch = async {
        while let Some(event) = inbox.next().await {
            match event {
                Event::ToolExecutionStart { .. } => began = Some(Instant::now()),
                Event::ToolExecutionEnd { result, .. } => {
                    over.push(began.take().expect("it began").elapsed());
                    texts.extend(result.content.iter().filter_map(Content::as_text).map(str::to_owned));
                }
                Event::AgentSettled { .. } => break,
                _ => {}
            }
        }
    };
    let (end, ()) = tokio::join!(pith.prompt(vec![Content::text("go")]), watch);
    assert_eq!(end.expect("it ends").stop_reason, StopReason::Stop);
    assert!(texts[0].contains("deadline") && texts[0].contains("1 s"), "{texts:?}");
    // Three ran into their deadline; then the guard is shut, and denies at once.
    let mut late: Vec<Duration> = over[..3].iter().map(|took| took.saturating_sub(GUARD)).collect();
    late.sort();
    assert!(over[..3].iter().all(|took| *took >= GUARD - Duration::from_millis(100)), "too early: {over:?}");
    // A busy machine makes one late, not all; it also tells of the beginning late.
    assert!(late[0] <= Duration::from_millis(100), "after the deadline: {late:?}");
    assert!(late[2] <= Duration::from_secs(1), "after the deadline: {late:?}");
    assert!(over[3] < Duration::from_millis(500), "disabled, and still asked: {over:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tools_own_limits_hold() {
    let limits = Limits { tool_deadline: Duration::from_millis(300), memory_bytes: 4 << 20, ..Limits::default() };
    let guest = Guest::new()
        .tool("loop", Behaviour::Loop)
        .tool("memory", Behaviour::Memory)
        .tool("fine", Behaviour::Fine("all well".into()));
    let bench = Bench::new(vec![plugin_source("mine", guest.component(), &["tools"], limits.clone())]);
    let mut late = Vec::new();
    for _ in 0..9 {
        let began = Instant::now();
        let output = bench.call("loop", json!({})).await.output;
        let took = began.elapsed();
        assert!(output.is_error && took >= limits.tool_deadline - Duration::from_millis(5), "{took:?}: {output:?}");
        assert!(output.content[0].as_text().is_some_and(|text| text.contains("deadline")), "{output:?}");
        late.push(took.saturating_sub(limits.tool_deadline));
        let output = bench.call("memory", json!({})).await.output;
        assert!(output.content[0].as_text().is_some_and(|text| text.contains("4 MiB")), "{output:?}");
        let output = bench.call("fine", json!({})).await.output;
        assert_eq!((output.is_error, output.content[0].as_text()), (false, Some("all well")));
    }
    late.sort();
    assert!(late[4] <= Duration::from_millis(100), "after the deadline: {late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_in_a_tool_ends_when_the_run_is_aborted_and_holds_nobody_up() {
    let home = Home::new();
    let guest = Guest::new().tool("loop", Behaviour::Loop).tool("fine", Behaviour::Fine("all well".into()));
    let both = json!({ "calls": [{ "id": "l", "name": "loop", "arguments": {} }, { "id": "f", "name": "fine", "arguments": {} }] });
    let pith = session(&home, &guest, json!([both, { "text": "again" }])).await;
    let mut inbox = pith.events();
    let mut aborted = None;
    let watch = async {
        while let Some(event) = inbox.next().await {
            match event {
                // The other call of the same plugin is served meanwhile.
                Event::ToolExecutionEnd { tool_name, is_error, .. } if tool_name == "fine" => {
                    assert!(!is_error);
                    aborted = Some(Instant::now());
                    assert!(pith.abort());
                }
                Event::AgentSettled { aborted } => {
                    assert!(aborted);
                    break;
                }
                _ => {}
            }
        }
    };
    let (end, ()) = tokio::join!(pith.prompt(vec![Content::text("go")]), watch);
    let took = aborted.expect("the other call ended").elapsed();
    assert_eq!(end.expect("it ends").stop_reason, StopReason::Aborted);
    assert!(took < Duration::from_secs(1), "{took:?} after the abort");
    let end = pith.prompt(vec![Content::text("go on")]).await.expect("it ends");
    assert_eq!(end.stop_reason, StopReason::Stop);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bystander_is_not_held_up() {
    // Two sessions of one process: in one a guard loops, in the other tools are called.
    let (bad, good) = (Home::new(), Home::new());
    let looping = Guest::new().gate(Behaviour::Loop).tool("fine", Behaviour::Fine("x".into()));
    let call = json!({ "calls": [{ "name": "fine", "arguments": {} }] });
    let slow = session(&bad, &looping, json!([call.clone(), call.clone(), call.clone(), { "text": "done" }])).await;
    let calls: Vec<Value> = (0..50).map(|_| call.clone()).chain([json!({ "text": "done" })]).collect();
    let quick = session(&good, &Guest::new().tool("fine", Behaviour::Fine("x".into())), Value::Array(calls)).await;
    let began = Instant::now();
    let timed = async {
        let end = quick.prompt(vec![Content::text("go")]).await;
        (end, began.elapsed())
    };
    let (slow, (end, took)) = tokio::join!(slow.prompt(vec![Content::text("go")]), timed);
    assert_eq!(end.expect("it ends").stop_reason, StopReason::Stop);
    assert!(took < Duration::from_millis(2500), "fifty calls took {took:?} beside a loop");
    assert_eq!(slow.expect("it ends").stop_reason, StopReason::Stop);
    assert!(began.elapsed() >= 3 * GUARD - Duration::from_millis(50));
}
