//! A conversation against aimock, on both wires.

use crate::{install, peer::Peer};
use pith_tests::{Home, Run, Wire};
use serde_json::{Value, json};
use std::{path::Path, process::Command};

/// A running aimock with these fixtures.
pub fn aimock(folder: &Path, fixtures: &Value) -> Peer {
    let file = folder.join("fixtures.json");
    std::fs::write(&file, json!({ "fixtures": fixtures }).to_string()).expect("it can be written");
    let cli = install::npm().join("node_modules/@copilotkit/aimock/dist/cli.js");
    Peer::start(&folder.join("aimock.log"), "/__aimock/journal", |port| {
        let mut command = Command::new(install::node());
        command.arg(cli).args(["-p", &port.to_string(), "-l", "1", "-c", "7", "--strict", "-f"]).arg(file);
        command
    })
}

/// Three prompts, each answered by calls and then by words.
fn fixtures() -> Value {
    let calls = |of: &[(&str, Value)]| {
        Value::Array(of.iter().map(|(name, arguments)| json!({ "name": name, "arguments": arguments })).collect())
    };
    let turn = |prompt: &str, say: &str, of: &[(&str, Value)], at_last: &str| {
        [
            json!({ "match": { "userMessage": prompt, "hasToolResult": true }, "response": { "content": at_last } }),
            json!({ "match": { "userMessage": prompt }, "response": { "content": say, "toolCalls": calls(of) } }),
        ]
    };
    let edit = json!({ "path": "sum.sh", "edits": [{ "oldText": "a - b", "newText": "a + b" }] });
    let turns = [
        turn(
            "look around",
            "I look at both.",
            &[
                ("read", json!({ "path": "sum.sh" })),
                ("bash", json!({ "command": "ls; sh sum.sh 2 3" })),
                ("grep", json!({ "pattern": "a - b" })),
            ],
            "It subtracts.",
        ),
        turn("repair it", "I change it.", &[("edit", edit), ("read", json!({ "path": "README.md" }))], "Changed."),
        turn(
            "does it run",
            "I run it twice.",
            &[
                ("bash", json!({ "command": "sh sum.sh 2 3" })),
                ("bash", json!({ "command": "sh sum.sh 20 30 | tee result.txt" })),
            ],
            "It adds: é, 漢, 😀.",
        ),
    ];
    turns.into_iter().flatten().collect()
}

#[test]
fn a_conversation_of_three_prompts_with_parallel_calls_on_both_wires() {
    let peer_folder = tempfile::tempdir().expect("a folder");
    for wire in Wire::ALL {
        let peer = aimock(peer_folder.path(), &fixtures());
        let home = wire.home_at(&peer.url());
        home.write("sum.sh", "a=$1 b=$2\necho $((a - b))\n");
        home.write("README.md", "Adds two numbers.\n");

        let prompt = |words: &str, more: &[&str]| {
            let mut args = vec!["--mode", "json"];
            args.extend(more);
            args.push(words);
            home.pith(&args).ok()
        };
        let first = prompt("look around", &["--model", wire.model()]);
        let second = prompt("repair it", &["-c"]);
        let third = prompt("does it run", &["-c"]);

        check_events(&first, &["read", "bash", "grep"], "It subtracts.");
        check_events(&second, &["edit", "read"], "Changed.");
        check_events(&third, &["bash", "bash"], "It adds: é, 漢, 😀.");
        assert_eq!(home.read("sum.sh"), "a=$1 b=$2\necho $((a + b))\n");
        assert_eq!(home.read("result.txt"), "50\n");

        check_session(&home);
        check_journal(&peer, wire);
    }
}

/// The events of one prompt: a turn with these calls, each ended well, then a turn with these words, which came in several pieces.
#[track_caller]
fn check_events(run: &Run, tools: &[&str], words: &str) {
    let events = run.events();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    assert_eq!(of("turn_start").len(), 2, "{run}");
    let names: Vec<&str> = of("tool_execution_start").iter().filter_map(|event| event["toolName"].as_str()).collect();
    assert_eq!(names, tools, "{run}");
    assert_eq!(of("tool_execution_end").len(), tools.len());
    assert!(of("tool_execution_end").iter().all(|event| event["isError"] == false), "{run}");
    let replies: Vec<&Value> =
        of("message_end").into_iter().filter(|event| event["message"]["role"] == "assistant").collect();
    let last = &replies.last().expect("a reply")["message"];
    assert_eq!((&last["content"][0]["text"], &last["stopReason"]), (&json!(words), &json!("stop")));
    assert_eq!(replies[0]["message"]["stopReason"], "toolUse");
    let pieces =
        |text: &str| of("message_update").iter().filter(|event| event["assistantMessageEvent"]["type"] == text).count();
    assert!(pieces("text_delta") > 2, "it came in one piece: {run}");
    // Results stand in the order the calls were asked, whoever was first.
    let asked: Vec<&Value> = replies[0]["message"]["content"]
        .as_array()
        .expect("blocks")
        .iter()
        .filter(|block| block["type"] == "toolCall")
        .map(|block| &block["id"])
        .collect();
    let answered: Vec<&Value> = of("turn_end")[0]["toolResults"]
        .as_array()
        .expect("results")
        .iter()
        .map(|result| &result["toolCallId"])
        .collect();
    assert_eq!(asked, answered);
}

/// One file for all three, each line on the one before it.
#[track_caller]
fn check_session(home: &Home) {
    let file = home.session();
    let entries = Home::entries(&file);
    let mut parent = Value::Null;
    for entry in &entries[1..] {
        assert_eq!(entry["parentId"], parent, "{entry}");
        parent = entry["id"].clone();
    }
    let messages = Home::messages(&file);
    let count = |role: &str| messages.iter().filter(|message| message["role"] == role).count();
    assert_eq!((count("system"), count("user"), count("assistant"), count("toolResult")), (1, 3, 6, 7));
}

/// What the server itself saw.
#[track_caller]
fn check_journal(peer: &Peer, wire: Wire) {
    let journal = peer.json("/__aimock/journal");
    let entries = journal.as_array().or_else(|| journal["entries"].as_array()).unwrap_or_else(|| panic!("{journal}"));
    let posts: Vec<&Value> = entries.iter().filter(|entry| entry["method"] == "POST").collect();
    assert_eq!(posts.len(), 6, "{journal}");
    for (number, post) in posts.iter().enumerate() {
        assert_eq!(post["path"], wire.path(), "{post}");
        assert_eq!(post["response"]["status"], 200, "{post}");
        let body = &post["body"];
        assert_eq!(body["model"], "fake-1", "{body}");
        let tools = body["tools"].as_array().expect("tools");
        assert_eq!(tools.len(), 8, "{body}");
        // As aimock keeps it: every wire in the shape of chat messages.
        let messages = body["messages"].as_array().expect("messages");
        let prompts = messages.iter().filter(|message| message["role"] == "user").count();
        let results = messages.iter().filter(|message| message["role"] == "tool").count();
        assert_eq!((prompts, results), (number / 2 + 1, [0, 3, 3, 5, 5, 7][number]), "request {number}: {body}");
        let ids = |role: &str, key: &str| -> Vec<String> {
            let of = messages.iter().filter(|message| message["role"] == role);
            match key {
                "tool_calls" => of
                    .flat_map(|message| message[key].as_array().cloned().unwrap_or_default())
                    .filter_map(|call| call["id"].as_str().map(str::to_owned))
                    .collect(),
                _ => of.filter_map(|message| message[key].as_str().map(str::to_owned)).collect(),
            }
        };
        assert_eq!(ids("assistant", "tool_calls"), ids("tool", "tool_call_id"), "request {number}: calls and results");
    }
    let seen = posts[5]["body"]["messages"].to_string();
    for words in ["-1", "a - b", "Successfully replaced", "Adds two numbers.", "It subtracts.", "50"] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
}

#[test]
fn an_overloaded_server_is_tried_again_and_a_wrong_key_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    for wire in Wire::ALL {
        let peer = aimock(
            folder.path(),
            &json!([
                { "match": { "userMessage": "ratelimit", "sequenceIndex": 0 }, "response": { "error": { "message": "Slow down", "type": "rate_limit_error" }, "status": 429, "retryAfter": 1 } },
                { "match": { "userMessage": "ratelimit", "sequenceIndex": 1 }, "response": { "content": "ok now" } },
                { "match": { "userMessage": "overload", "sequenceIndex": 0 }, "response": { "error": { "message": "Overloaded", "type": "overloaded_error" }, "status": 529 } },
                { "match": { "userMessage": "overload", "sequenceIndex": 1 }, "response": { "content": "ok then" } },
                { "match": { "userMessage": "boom" }, "response": { "error": { "message": "Invalid key", "type": "authentication_error" }, "status": 401 } }
            ]),
        );
        let home = wire.home_at(&peer.url());
        home.beside("config/pith/settings.toml", "[retry]\nbase_ms = 50\n");
        home.pith(&["--model", wire.model(), "-p", "ratelimit"]).ok().prints("ok now");
        home.pith(&["--model", wire.model(), "-p", "overload"]).ok().prints("ok then");
        home.pith(&["--model", wire.model(), "-p", "boom"]).exits(1).says("Invalid key");
        let journal = peer.json("/__aimock/journal");
        let entries = journal.as_array().or_else(|| journal["entries"].as_array()).expect("entries");
        assert_eq!(entries.iter().filter(|entry| entry["method"] == "POST").count(), 5, "{journal}");
    }
}
