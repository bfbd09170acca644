//! A context that never overflows, end to end: a real server that refuses what is too long, real sessions.

use pith_tests::{Answer, Home, Reply, Server, Wire};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A session of pi's with so many turns of so many bytes each.
fn conversation(home: &Home, turns: usize, bytes: usize) -> PathBuf {
    let mut lines = vec![
        json!({"type": "session", "version": 3, "id": "old", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": home.work()}),
    ];
    let mut parent = Value::Null;
    let mut push = |message: Value| {
        let id = format!("{:08x}", lines.len());
        lines.push(json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-01T00:00:00.000Z", "message": message}));
        parent = json!(id);
    };
    for turn in 0..turns {
        let text = |who: &str| format!("{who} {turn} begins {} {who} {turn} ends", "word ".repeat(bytes / 5));
        push(json!({"role": "user", "content": [{"type": "text", "text": text("question")}], "timestamp": 1}));
        push(
            json!({"role": "assistant", "content": [{"type": "text", "text": text("answer")}], "stopReason": "stop", "timestamp": 1,
            "api": "a", "provider": "p", "model": "m"}),
        );
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    home.beside("old.jsonl", text)
}

fn too_long(wire: Wire) -> Answer {
    let error = match wire {
        Wire::OpenAi => json!({"error": {
            "message": "This model's maximum context length is 16384 tokens. However, your messages resulted in 50000 tokens.",
            "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}),
        Wire::Anthropic => json!({"type": "error", "error": {
            "type": "invalid_request_error", "message": "prompt is too long: 50000 tokens > 16384 maximum"}}),
    };
    Answer::json(400, &error)
}

/// What of the conversation a request carries.
fn sent(request: &pith_tests::Request) -> String {
    request.json()["messages"].to_string()
}

fn compactions(home: &Home) -> Vec<Value> {
    let entries = home.sessions().into_iter().flat_map(|file| Home::entries(&file));
    entries.filter(|entry| entry["type"] == "compaction").collect()
}

#[test]
fn without_plugins_a_conversation_that_is_too_long_is_trimmed() {
    for wire in Wire::ALL {
        let server = Server::playing(vec![Answer::sse(wire.sse(&Reply::text("fits")))]);
        let home = wire.home(&server);
        // 150,000 tokens by estimate, of 128,000.
        let old = conversation(&home, 10, 30_000);
        let old = old.to_str().expect("a name");
        let run = home.pith(&["--no-plugins", "--model", wire.model(), "--session", old, "-p", "and now?"]).ok();
        run.prints("fits")
            .says("older messages were left out of what the model sees and not summed up: no plugin here");
        let request = server.requests().remove(0);
        let sent = sent(&request);
        assert!(request.body.len() < 4 * 128_000 * 3 / 4, "{}", request.body.len());
        for (part, there) in
            [("question 0 begins", true), ("answer 3 ends", false), ("answer 9 ends", true), ("and now?", true)]
        {
            assert_eq!(sent.contains(part), there, "{part}");
        }
        let made = compactions(&home);
        assert_eq!(made.len(), 1);
        assert!(made[0]["summary"].as_str().is_some_and(|summary| summary.contains("question 0 begins")));
        assert!(made[0]["tokensBefore"].as_u64().is_some_and(|tokens| tokens > 140_000), "{}", made[0]["tokensBefore"]);
        assert_eq!(made[0]["systemMessage"]["role"], "system");
    }
}

#[test]
fn a_request_that_the_server_refuses_as_too_long_is_sent_again_shorter() {
    for wire in Wire::ALL {
        let server = Server::playing(vec![
            too_long(wire),
            Answer::sse(wire.sse(&Reply::text("fits"))),
            Answer::sse(wire.sse(&Reply::text("still fits"))),
        ]);
        let home = wire.home(&server);
        let old = conversation(&home, 8, 12_000);
        let old = old.to_str().expect("a name");
        let args = ["--no-plugins", "--mode", "json", "--model", wire.model()];
        let run = home.pith(&[&args[..], &["--session", old, "-p", "and now?"]].concat()).ok();
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        let (first, second) = (sent(&requests[0]), sent(&requests[1]));
        assert!(
            first.contains("question 1 begins") && !second.contains("question 1 begins") && second.contains("and now?")
        );
        // The window that the server named is what counts, not that of the table.
        assert!(second.len() < 16_384 * 4, "{}", second.len());
        let ended: Vec<Value> = run.events().into_iter().filter(|event| event["type"] == "compaction_end").collect();
        assert_eq!(ended.len(), 1);
        assert_eq!((&ended[0]["reason"], &ended[0]["willRetry"]), (&json!("overflow"), &json!(true)));
        home.pith(&["--no-plugins", "--model", wire.model(), "-c", "-p", "go on"]).ok().prints("still fits");
    }
}

#[test]
fn a_request_that_stays_too_long_is_an_error_that_says_so() {
    let wire = Wire::OpenAi;
    let server = Server::start(move |_| too_long(wire));
    let home = wire.home(&server);
    let old = conversation(&home, 8, 12_000);
    let old = old.to_str().expect("a name");
    let run = home.pith(&["--no-plugins", "--model", wire.model(), "--session", old, "-p", "and now?"]).exits(1);
    run.says("shortened twice and is still too long").says("hint: use a model with a larger window");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn switched_off_the_error_says_how_to_go_on() {
    let wire = Wire::OpenAi;
    let server = Server::start(move |_| too_long(wire));
    let home = wire.home(&server);
    home.beside("config/pith/settings.toml", "[compaction]\nenabled = false\n");
    let old = conversation(&home, 8, 12_000);
    let old = old.to_str().expect("a name");
    let run = home.pith(&["--no-plugins", "--model", wire.model(), "--session", old, "-p", "and now?"]).exits(1);
    run.says("automatic compaction is off: compact by hand");
    assert_eq!(server.requests().len(), 1);
    assert!(compactions(&home).is_empty());
}
