//! `--mode json` against what pi 1.6.0 printed for the same conversation (`cases/pi`): the same events in the same order, with the same
//! fields. Ours may have more fields. What differs from run to run or by who writes it (times, tokens, the prompt, words of errors) is
//! compared by type only.

use crate::signals::assert_answered;
use pith_tests::{Answer, Home, Reply, Run, Server, Wire, case_text};
use rustix::process::Signal;
use serde_json::{Value, json};

fn recorded(name: &str) -> Vec<Value> {
    let text = case_text(&format!("pi/{name}.jsonl"));
    text.lines().map(|line| serde_json::from_str(line).expect("a recorded line is JSON")).collect()
}

fn sse(reply: &Reply) -> Answer {
    Answer::sse(Wire::OpenAi.sse(reply))
}

/// The ids that the recording's calls have, in order.
fn call_ids(events: &[Value]) -> Vec<String> {
    let starts = events.iter().filter(|event| event["type"] == "tool_execution_start");
    starts.filter_map(|event| event["toolCallId"].as_str()).map(str::to_owned).collect()
}

fn home(answers: Vec<Answer>) -> (Home, Server) {
    let server = Server::playing(answers);
    let home = Wire::OpenAi.home(&server);
    home.write("a.txt", "hello from a\n");
    (home, server)
}

#[test]
fn text() {
    let (home, _server) = home(vec![sse(&Reply::text("Hi there, friend."))]);
    let run = home.pith(&["--mode", "json", "--model", "openai/fake-1", "-p", "hello"]).ok();
    check(&recorded("text"), &run.events());
}

#[test]
fn tools() {
    let pi = recorded("tools");
    let ids = call_ids(&pi);
    let asks = Reply::text("Let me look.").and_call(&ids[0], "bash", json!({ "command": "ls -la" }));
    let asks = asks.and_call(&ids[1], "read", json!({ "path": "a.txt" }));
    let (home, _server) =
        home(vec![sse(&asks), sse(&Reply::text("There are 2 files.").thinking("I saw the listing."))]);
    let run = home.pith(&["--mode", "json", "--model", "openai/fake-1", "-p", "list files"]).ok();
    check(&pi, &run.events());
    // And what went into the file is what pi puts there.
    let theirs = recorded("session-tools");
    let mut ours = Home::entries(&home.session());
    // Results are in the file as they came, which is another order each time.
    for results in ours
        .chunk_by_mut(|a, b| a["message"]["role"] == b["message"]["role"])
        .filter(|chunk| chunk[0]["message"]["role"] == "toolResult")
    {
        results.sort_by_key(|entry| ids.iter().position(|id| entry["message"]["toolCallId"] == json!(id)));
    }
    let kinds = |entries: &[Value]| {
        entries.iter().map(|entry| format!("{} {}", entry["type"], entry["message"]["role"])).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&theirs), kinds(&ours));
    for (theirs, ours) in theirs.iter().zip(&ours) {
        fields(theirs, ours, "entry", ours);
    }
}

#[test]
fn bad_arguments() {
    let pi = recorded("bad-arguments");
    let ids = call_ids(&pi);
    let asks = Reply::call(&ids[0], "nope", json!({ "command": "ls -la" })).and_call(
        &ids[1],
        "read",
        json!({ "paths": "a.txt" }),
    );
    let (home, server) = home(vec![sse(&asks), sse(&Reply::text("Sorry."))]);
    let run = home.pith(&["--mode", "json", "--model", "openai/fake-1", "-p", "bad args"]).ok();
    check(&pi, &run.events());
    let sent = server.requests()[1].json()["messages"].to_string();
    assert!(sent.contains("Tool nope not found") && sent.contains("Validation failed for tool"), "{sent}");
}

#[test]
fn error() {
    let refused =
        json!({ "error": { "message": "Invalid key", "type": "authentication_error", "param": null, "code": null } });
    let (home, server) = home(vec![Answer::json(401, &refused)]);
    let run = home.pith(&["--mode", "json", "--model", "openai/fake-1", "-p", "boom"]).exits(1);
    check(&recorded("error"), &run.events());
    assert_eq!(server.requests().len(), 1, "a wrong key is not tried again");
}

#[test]
fn abort() {
    let pi = recorded("abort");
    let ids = call_ids(&pi);
    let (home, _server) = home(vec![sse(&Reply::call(&ids[0], "bash", json!({ "command": "sleep 30" })))]);
    let mut running = home.start(&["--mode", "json", "--model", "openai/fake-1", "-p", "slow"]);
    running.wait_event("tool_execution_start");
    running.signal(Signal::INT);
    let run = running.finish().exits(130);
    // pi's was recorded over RPC, which prints no header.
    check(&pi, &run.events()[1..]);
    assert_answered(&home.session());
}

/// Kinds of events that pi has not.
const OWN: [&str; 3] = ["gate_verdict", "plugin_fault", "notice"];

/// Compares two recordings of one conversation.
#[track_caller]
fn check(theirs: &[Value], ours: &[Value]) {
    let (theirs, ours) = (told(theirs), told(ours));
    let names = |events: &[Value]| events.iter().map(name).collect::<Vec<_>>();
    assert_eq!(names(&theirs), names(&ours), "the order of events");
    for (theirs, ours) in theirs.iter().zip(&ours) {
        fields(theirs, ours, &name(theirs), ours);
    }
}

/// The events that do not hang on time: partial output is left out, deltas of one block are put together, calls that ended side by
/// side stand in the order in which they began.
fn told(events: &[Value]) -> Vec<Value> {
    let order = call_ids(events);
    let mut told: Vec<Value> = Vec::new();
    for event in events {
        let kind = event["type"].as_str().unwrap_or_default();
        if kind == "tool_execution_update" || OWN.contains(&kind) {
            continue;
        }
        if let Some(delta) = event["assistantMessageEvent"]["delta"].as_str()
            && let Some(before) = told.last_mut()
            && name(before) == name(event)
        {
            let whole = format!("{}{delta}", before["assistantMessageEvent"]["delta"].as_str().unwrap_or_default());
            before["assistantMessageEvent"]["delta"] = json!(whole);
            continue;
        }
        told.push(event.clone());
    }
    for ends in
        told.chunk_by_mut(|a, b| a["type"] == b["type"]).filter(|chunk| chunk[0]["type"] == "tool_execution_end")
    {
        ends.sort_by_key(|event| order.iter().position(|id| event["toolCallId"] == json!(id)));
    }
    told
}

fn name(event: &Value) -> String {
    let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let delta = &event["assistantMessageEvent"];
    format!("{} {}{} {}", of(&event["type"]), of(&event["message"]["role"]), of(&delta["type"]), delta["contentIndex"])
}

/// Fields whose values are not the same in two runs, or are in each program's own words: only their types are compared.
const VARYING: &[&str] = &[
    "id",
    "parentId",
    "timestamp",
    "durationMs",
    "cwd",
    "responseId",
    "provider",
    "errorMessage",
    "text",
    "modelId",
    "thinkingSignature",
    "rawStopReason",
];
/// Numbers that the provider or the clock gives; a field of them may be missing where it is not known.
const TOKENS: &[&str] = &["usage"];
/// Fields of pi's that belong to its own tools, not to the protocol: `details` and `structuredContent` are what a tool puts there.
const OF_TOOLS: &[&str] = &["details", "structuredContent"];

#[track_caller]
fn fields(theirs: &Value, ours: &Value, place: &str, whole: &Value) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                let place = format!("{place}.{key}");
                let Some(own) = ours.get(key) else {
                    assert!(OF_TOOLS.contains(&key.as_str()), "{place} is missing in {whole}");
                    continue;
                };
                if TOKENS.contains(&key.as_str()) {
                    for number in ["input", "output", "cacheRead", "cacheWrite", "totalTokens"] {
                        assert!(own[number].is_u64(), "{place}.{number} is no number in {whole}");
                    }
                    assert!(own["cost"]["total"].is_number(), "{place}.cost.total is no number in {whole}");
                } else if VARYING.contains(&key.as_str()) {
                    let kind = |value: &Value| std::mem::discriminant(value);
                    assert_eq!(kind(value), kind(own), "{place}: the type of {own} in {whole}");
                } else if !OF_TOOLS.contains(&key.as_str()) && key != "sections" && key != "toolsAdded" {
                    fields(value, own, &place, whole);
                } else if key == "sections" {
                    assert!(
                        own.as_object().is_some_and(|sections| sections.values().all(Value::is_string)),
                        "{place}: {own}"
                    );
                } else if key == "toolsAdded" {
                    for tool in own.as_array().expect("a list of tools") {
                        fields(
                            &json!({ "name": tool["name"], "description": tool["description"], "parameters": {} }),
                            tool,
                            &place,
                            whole,
                        );
                    }
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            assert_eq!(theirs.len(), ours.len(), "{place}: how many in {whole}");
            for (theirs, ours) in theirs.iter().zip(ours) {
                fields(theirs, ours, place, whole);
            }
        }
        _ => assert_eq!(theirs, ours, "{place} in {whole}"),
    }
}

/// The comparison itself can fail.
#[test]
fn the_comparison_sees_what_is_missing_and_what_is_different() {
    let pi = recorded("text");
    check(&pi, &pi);
    let fails = |ours: Vec<Value>| std::panic::catch_unwind(|| check(&pi, &ours)).is_err();
    for at in 0..pi.len() {
        let mut ours = pi.clone();
        ours.remove(at);
        assert!(fails(ours), "event {at} is missing");
    }
    let mut ours = pi.clone();
    let end = ours.iter_mut().rfind(|event| event["type"] == "message_end").expect("an end");
    end["message"].as_object_mut().expect("a message").remove("stopReason");
    assert!(fails(ours));
    let mut ours = pi.clone();
    let end = ours.iter_mut().rfind(|event| event["type"] == "message_end").expect("an end");
    end["message"]["stopReason"] = json!("length");
    assert!(fails(ours));
}

/// Both faces end with the same code; only JSON says it in events.
#[test]
fn text_and_json_end_alike() {
    let (home, _server) = home(vec![sse(&Reply::text("a")), sse(&Reply::text("a").cut())]);
    let print: Run = home.pith(&["--model", "openai/fake-1", "-p", "hello"]).ok();
    assert_eq!(print.stdout, "a\n");
    home.pith(&["--model", "openai/fake-1", "-p", "hello"]).exits(1);
}
