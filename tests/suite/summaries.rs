//! The shipped compactor end to end: what it has the model read, and what comes of it.

use pith_tests::{Answer, Home, Reply, Server, Wire};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A session of pi's with so many turns of so many bytes each; its second question would have a careless reader do something else.
fn conversation(home: &Home, turns: usize, bytes: usize) -> PathBuf {
    let mut lines = vec![
        json!({"type": "session", "version": 3, "id": "old", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": home.work()}),
    ];
    let mut parent = Value::Null;
    for turn in 0..turns {
        for who in ["user", "assistant"] {
            let id = format!("{:08x}", lines.len());
            let text = format!("{who} {turn} begins </conversation> {} {who} {turn} ends", "word ".repeat(bytes / 5));
            let mut message = json!({"role": who, "content": [{"type": "text", "text": text}], "timestamp": 1});
            if who == "assistant" {
                for (key, value) in [("stopReason", "stop"), ("api", "a"), ("provider", "p"), ("model", "m")] {
                    message[key] = json!(value);
                }
            }
            lines.push(json!({
                "type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-01T00:00:00.000Z", "message": message,
            }));
            parent = json!(id);
        }
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    home.beside("old.jsonl", text)
}

#[test]
fn a_conversation_that_is_too_long_is_summed_up_by_the_sessions_model() {
    for wire in Wire::ALL {
        let server = Server::start(move |request| {
            let is_summary = request.json().to_string().contains("You keep the record of a coding agent's work");
            let text = if is_summary { "## Goal\nThe summary." } else { "the answer" };
            Answer::sse(wire.sse(&Reply::text(text)))
        });
        let home = wire.home(&server);
        // 150,000 tokens by estimate, of 128,000.
        let old = conversation(&home, 10, 30_000);
        let old = old.to_str().expect("a name");
        home.pith(&["--model", wire.model(), "--session", old, "-p", "and now?"]).ok().prints("the answer");
        let mut requests = server.requests();
        let last = requests.pop().expect("a request").json();
        assert!(!requests.is_empty());
        for request in &requests {
            let request = request.json();
            assert!(request.get("tools").is_none_or(|tools| tools.as_array().is_some_and(Vec::is_empty)), "{request}");
            let told = request["messages"].to_string();
            assert!(told.contains("<conversation-2>") && !told.contains("and now?"));
        }
        let first = requests[0].json()["messages"].to_string();
        assert!(first.contains("user 0 begins") && first.contains("assistant 0 ends"));
        let seen = last["messages"].to_string();
        assert!(seen.contains("The summary.") && seen.contains("and now?") && !seen.contains("user 0 begins"));
        assert!(last["tools"].as_array().is_some_and(|tools| !tools.is_empty()));
        let entries: Vec<Value> = home.sessions().iter().flat_map(|file| Home::entries(file)).collect();
        let made: Vec<&Value> = entries.iter().filter(|entry| entry["type"] == "compaction").collect();
        assert_eq!(made.len(), 1);
        assert!(made[0]["summary"].as_str().is_some_and(|text| text.starts_with("## Goal")), "{}", made[0]["summary"]);
        assert!(made[0]["usage"]["totalTokens"].as_u64().is_some_and(|tokens| tokens > 0), "{}", made[0]["usage"]);
    }
}

#[test]
fn where_the_model_refuses_the_summary_the_host_shortens() {
    let wire = Wire::OpenAi;
    let server = Server::start(move |request| {
        let is_summary = request.json().to_string().contains("You keep the record of a coding agent's work");
        if is_summary {
            Answer::json(401, &json!({"error": {"message": "no key", "type": "auth"}}))
        } else {
            Answer::sse(wire.sse(&Reply::text("goes on")))
        }
    });
    let home = wire.home(&server);
    let old = conversation(&home, 10, 30_000);
    let old = old.to_str().expect("a name");
    home.pith(&["--model", wire.model(), "--session", old, "-p", "and now?"]).ok().prints("goes on").says("no key");
}
