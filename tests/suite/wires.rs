//! Both wires end to end: real bytes over real sockets, cut where networks cut them, and the errors that servers really send.

use pith_tests::{Answer, Authority, Home, Reply, Server, Wire, case_text};
use serde_json::{Value, json};
use std::time::Duration;

fn stream(wire: Wire, reply: &Reply) -> Answer {
    Answer::sse(wire.sse(reply))
}

#[test]
fn a_conversation_with_tools_on_both_wires_in_any_pieces() {
    for wire in Wire::ALL {
        for piece in [1, 7, 4096] {
            let asks = Reply::text("Let me look.").thinking("Both files.").and_call(
                "call_1",
                "read",
                json!({ "path": "a.txt" }),
            );
            let asks = asks.and_call("call_2", "bash", json!({ "command": "cat b.txt" }));
            let replies = [asks, Reply::text("Alpha and beta: é, 漢, 😀.").in_pieces(9)];
            let answers =
                replies.iter().map(|reply| stream(wire, reply).paced(piece, Duration::from_micros(20))).collect();
            let server = Server::playing(answers);
            let home = wire.home(&server);
            home.write("a.txt", "alpha\n");
            home.write("b.txt", "beta\n");
            let run = home.pith(&["--model", wire.model(), "-p", "what do they say?"]).ok();
            assert_eq!(run.stdout, "Alpha and beta: é, 漢, 😀.\n", "{wire:?} in pieces of {piece}");
            let requests = server.requests();
            assert!(requests.iter().all(|request| request.path == wire.path() && request.method == "POST"));
            let second = requests[1].json();
            let sent = second["messages"].to_string();
            assert!(sent.contains("alpha\\n") && sent.contains("beta"), "{sent}");
            assert_eq!(second["stream"], true);
            let session = Home::messages(&home.session());
            let roles: Vec<&str> = session.iter().filter_map(|message| message["role"].as_str()).collect();
            assert_eq!(roles, ["system", "user", "assistant", "toolResult", "toolResult", "assistant"]);
            assert_eq!(session[2]["content"][0]["thinking"], "Both files.");
            assert_eq!(session[2]["usage"]["output"], 7);
        }
    }
}

#[test]
fn keys_go_where_the_official_clients_put_them() {
    for (wire, header, value) in
        [(Wire::OpenAi, "authorization", "Bearer k-openai"), (Wire::Anthropic, "x-api-key", "k-anthropic")]
    {
        let server = Server::playing(vec![stream(wire, &Reply::text("ok"))]);
        wire.home(&server).pith(&["--model", wire.model(), "-p", "hi"]).ok();
        let request = server.requests().remove(0);
        assert_eq!(request.header(header), Some(value));
        assert!(request.header("user-agent").is_some_and(|agent| agent.starts_with("pith/")), "{:?}", request.headers);
        if wire == Wire::Anthropic {
            assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
            assert_eq!(request.header("authorization"), None);
        }
    }
}

#[test]
fn a_local_server_needs_no_key_and_its_only_model_is_found() {
    let server = Server::start(|request| match request.path.as_str() {
        "/v1/models" => Answer::json(200, &json!({ "object": "list", "data": [{ "id": "smol", "object": "model" }] })),
        _ => stream(Wire::OpenAi, &Reply::text("local")),
    });
    let home = Home::new().with("OPENAI_BASE_URL", &format!("{}/v1/", server.url()));
    home.pith(&["-p", "hi"]).ok().prints("local");
    let requests = server.requests();
    let asked = requests.iter().find(|request| request.method == "POST").expect("a request");
    assert_eq!(
        (asked.path.as_str(), &asked.json()["model"], asked.header("authorization")),
        ("/v1/chat/completions", &json!("smol"), None)
    );

    // Of two it is not known which.
    let server = Server::start(|_| Answer::json(200, &json!({ "data": [{ "id": "a" }, { "id": "b" }] })));
    let home = Home::new().with("OPENAI_BASE_URL", &format!("{}/v1", server.url()));
    let run = home.pith(&["-p", "hi"]).exits(2);
    assert!(server.requests().iter().all(|request| request.method == "GET"), "{run}");
    // One that is named is asked.
    let server = Server::playing(vec![stream(Wire::OpenAi, &Reply::text("named"))]);
    let home =
        Home::new().with("OPENAI_BASE_URL", &format!("{}/v1", server.url())).with("PITH_MODEL", "openai/from-env");
    home.pith(&["-p", "hi"]).ok().prints("named");
    assert_eq!(server.requests()[0].json()["model"], "from-env");
}

#[test]
fn the_model_is_the_flags_then_the_sessions_then_the_environments_then_the_settings() {
    let server = Server::start(|_| stream(Wire::OpenAi, &Reply::text("ok")));
    let home = Wire::OpenAi.home(&server).with("PITH_MODEL", "openai/from-env");
    home.beside("config/pith/settings.toml", "model = \"openai/from-settings\"\n");
    home.pith(&["--model", "openai/from-flag", "-p", "hi"]).ok();
    home.pith(&["-c", "-p", "hi"]).ok();
    home.pith(&["-p", "hi"]).ok();
    let home = home.with("PITH_MODEL", "");
    home.pith(&["-p", "hi"]).ok();
    let models: Vec<Value> = server.requests().iter().map(|request| request.json()["model"].clone()).collect();
    assert_eq!(models, ["from-flag", "from-flag", "from-env", "from-settings"]);
}

#[test]
fn too_many_requests_are_tried_again_when_the_server_says() {
    for wire in Wire::ALL {
        let busy = json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "Slow down" } });
        let server = Server::playing(vec![
            Answer::json(429, &busy).header("retry-after", "1"),
            stream(wire, &Reply::text("now")),
        ]);
        let run = wire.home(&server).pith(&["--mode", "json", "--model", wire.model(), "hi"]).ok();
        let events = run.events();
        let start = events.iter().find(|event| event["type"] == "auto_retry_start").expect("it is said");
        assert_eq!((&start["attempt"], &start["delayMs"]), (&json!(1), &json!(1000)), "{start}");
        assert!(start["errorMessage"].as_str().is_some_and(|text| text.contains("Slow down")), "{start}");
        let end = events.iter().find(|event| event["type"] == "auto_retry_end").expect("it is said");
        assert_eq!(end["success"], true);
        let requests = server.requests();
        let waited = requests[1].at - requests[0].at;
        assert!(waited >= Duration::from_millis(990) && waited < Duration::from_secs(10), "{waited:?}");
        // The failed attempt is not in the model's view.
        assert_eq!(requests[0].json()["messages"], requests[1].json()["messages"]);
    }
}

#[test]
fn a_server_that_asks_for_too_long_a_wait_is_not_waited_for() {
    let busy = json!({ "error": { "message": "Come back tomorrow", "type": "rate_limit_error" } });
    let server = Server::start(move |_| Answer::json(429, &busy).header("retry-after", "86400"));
    let run = Wire::OpenAi.home(&server).pith(&["--model", "openai/m", "-p", "hi"]).exits(1);
    let run = run.says("Come back tomorrow");
    assert!(run.wall < Duration::from_secs(10), "{run}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn no_tries_are_left_in_the_end() {
    let broken = json!({ "error": { "message": "Overloaded", "type": "overloaded_error" } });
    let server = Server::start(move |_| Answer::json(529, &broken));
    let home = Wire::Anthropic.home(&server);
    home.beside("config/pith/settings.toml", "[retry]\nattempts = 2\nbase_ms = 10\n");
    let run = home.pith(&["--mode", "json", "--model", "anthropic/m", "hi"]).exits(1);
    assert_eq!(server.requests().len(), 3);
    let events = run.events();
    let end = events.iter().find(|event| event["type"] == "auto_retry_end").expect("it is said");
    assert_eq!(end["success"], false);
    assert!(end["finalError"].as_str().is_some_and(|text| text.contains("Overloaded")), "{end}");
}

#[test]
fn a_redirect_is_not_followed_and_the_key_stays_here() {
    for wire in Wire::ALL {
        let other = Server::start(|_| Answer::json(200, &json!({})));
        let to = format!("{}{}", other.url(), wire.path());
        let server = Server::start(move |_| Answer::json(307, &json!({})).header("location", &to));
        let run = wire.home(&server).pith(&["--model", wire.model(), "-p", "hi"]).exits(1);
        run.says("redirect");
        assert!(other.requests().is_empty(), "{wire:?}: the redirect was followed");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn a_wrong_key_gives_a_clear_line() {
    for (wire, variable) in [(Wire::OpenAi, "OPENAI_API_KEY"), (Wire::Anthropic, "ANTHROPIC_API_KEY")] {
        let body = json!({ "type": "error", "error": { "message": "Invalid key", "type": "authentication_error" } });
        let server = Server::start(move |_| Answer::json(401, &body));
        let run = wire.home(&server).pith(&["--model", wire.model(), "-p", "hi"]).exits(1);
        let run = run.says("401").says("Invalid key").says(variable);
        assert!(!run.stderr.contains("k-openai") && !run.stderr.contains("k-anthropic"), "{run}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn a_key_that_a_server_sends_back_is_not_shown_or_kept() {
    for wire in Wire::ALL {
        let server = Server::start(|request| {
            let key = request.header("authorization").or(request.header("x-api-key")).unwrap_or_default();
            let message = format!("Incorrect API key provided: {key}.");
            Answer::json(
                401,
                &json!({ "type": "error", "error": { "message": message, "type": "authentication_error" } }),
            )
        });
        let home = wire.home(&server).with("OPENAI_API_KEY", "canary-key").with("ANTHROPIC_API_KEY", "canary-key");
        let run = home.pith(&["--model", wire.model(), "-p", "hi"]).exits(1).says("Incorrect API key");
        let json = home.pith(&["--mode", "json", "--model", wire.model(), "hi"]).exits(1);
        assert!(!run.stderr.contains("canary") && !json.stdout.contains("canary"), "{run}{json}");
        let found =
            std::process::Command::new("grep").args(["-r", "-l", "canary"]).arg(home.root()).output().expect("grep");
        assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    }
}

#[test]
fn what_no_server_answers_is_said_with_its_address() {
    // A port that nobody listens at any more.
    let url = Server::start(|_| Answer::json(200, &json!({}))).url();
    let home = Wire::OpenAi.home_at(&url);
    home.beside("config/pith/settings.toml", "[retry]\nattempts = 1\nbase_ms = 10\n");
    home.pith(&["--model", "openai/m", "-p", "hi"]).exits(1).says(url.trim_start_matches("http://"));
}

#[test]
fn a_stream_that_breaks_off_is_no_reply() {
    for wire in Wire::ALL {
        let whole = wire.sse(&Reply::text("This is all of it.").in_pieces(4));
        let half = whole[..whole.len() / 2].to_vec();
        let server = Server::start(move |_| Answer::sse(half.clone()).cut());
        let home = wire.home(&server);
        home.beside("config/pith/settings.toml", "[retry]\nattempts = 1\nbase_ms = 10\n");
        let run = home.pith(&["--model", wire.model(), "-p", "hi"]).exits(1);
        assert!(!run.stderr.is_empty(), "{run}");
        assert_eq!(server.requests().len(), 2, "it is tried again once");
    }
}

#[test]
fn a_server_without_measure_meets_a_limit() {
    // One line of 40 MB in a stream, and an error's page of 40 MB.
    let endless = [b"data: ".to_vec(), vec![b'x'; 40 << 20]].concat();
    for answer in [Answer::sse(endless.clone()), Answer::new(400, "text/html", endless)] {
        let server = Server::start(move |_| answer.clone());
        let home = Wire::OpenAi.home(&server);
        home.beside("config/pith/settings.toml", "[retry]\nattempts = 0\n");
        let run = home.pith(&["--model", "openai/m", "-p", "hi"]).exits(1);
        assert!(!run.stderr.is_empty() && run.stderr.len() < 10_000, "{} bytes of words", run.stderr.len());
        let session = std::fs::metadata(home.session()).expect("it is there").len();
        assert!(session < 200_000, "{session} bytes of session");
    }
}

#[test]
fn an_unfinished_request_is_dropped_with_the_run() {
    let server = Server::start(|_| stream(Wire::OpenAi, &Reply::text("never ending").in_pieces(3)).hanging());
    let home = Wire::OpenAi.home(&server);
    // Without its last event the reply has no end; the run is ended from outside.
    let mut running = home.start(&["--mode", "json", "--model", "openai/m", "hi"]);
    running.wait_event("turn_start");
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while server.requests().is_empty() && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    running.signal(rustix::process::Signal::TERM);
    let run = running.finish();
    assert!(run.code == Some(143) || run.code == Some(0), "{run}");
}

#[test]
fn over_tls_with_an_authority_of_ones_own() {
    let authority = Authority::new();
    let server = Server::start_tls(&authority, |_| stream(Wire::Anthropic, &Reply::text("in private")));
    let home = Wire::Anthropic.home(&server);
    let file = home.beside("authority.pem", &authority.pem);
    home.beside("config/pith/settings.toml", "[retry]\nattempts = 0\n");
    // An authority that nobody named is nobody's.
    home.pith(&["--model", "anthropic/m", "-p", "hi"]).exits(1);
    assert!(server.requests().is_empty());
    let home = home.with("SSL_CERT_FILE", &file.to_string_lossy());
    home.pith(&["--model", "anthropic/m", "-p", "hi"]).ok().prints("in private");
}

/// A recorded stream of a bug that others hit, served to a session; then a last word.
fn bug(place: &str) -> (Home, Server, pith_tests::Run) {
    let server = Server::playing(vec![
        Answer::sse(case_text(&format!("bugs/{place}"))),
        stream(Wire::OpenAi, &Reply::text("done")),
    ]);
    let home = Wire::OpenAi.home(&server);
    home.write("a.txt", "alpha");
    let run = home.pith(&["--mode", "json", "--model", "openai/m", "go"]).ok();
    (home, server, run)
}

#[test]
fn bug_03_arguments_that_were_cut_are_not_run() {
    let (home, server, run) = bug("03-truncated-args-finish-tool-calls/stream.sse");
    let (text, is_error) = run.result("call_1");
    assert!(is_error && (text.contains("cut") || text.contains("JSON")), "{text}");
    assert_eq!(std::fs::read_dir(home.work()).expect("it is there").count(), 1, "nothing was written");
    let sent = server.requests()[1].json();
    let messages = sent["messages"].as_array().expect("messages");
    let answer = messages.iter().find(|message| message["role"] == "tool").expect("the model is told");
    assert_eq!(answer["tool_call_id"], "call_1");
}

#[test]
fn bug_05_arguments_before_the_name_are_one_call() {
    let (_, server, run) = bug("05-args-before-id-and-name/stream.sse");
    assert_eq!(run.results(), [("call_7".to_owned(), "alpha".to_owned(), false)]);
    let sent = server.requests()[1].json().to_string();
    assert!(!sent.contains("\"tool_call_id\":\"\"") && !sent.contains("\"name\":\"\""), "{sent}");
}

#[test]
fn bug_17_two_calls_at_one_index_are_two() {
    for file in ["stream.sse", "stream-no-index.sse"] {
        let (_, server, run) = bug(&format!("17-parallel-same-index/{file}"));
        let ids: Vec<String> = run.results().into_iter().map(|(id, _, _)| id).collect();
        assert_eq!(ids, ["call_a", "call_b"], "{file}");
        let starts: Vec<Value> = run
            .events()
            .into_iter()
            .filter(|event| event["type"] == "tool_execution_start")
            .map(|event| event["args"].clone())
            .collect();
        assert_eq!(starts, [json!({ "city": "Oslo" }), json!({ "city": "Rome" })], "{file}");
        assert_eq!(
            server.requests()[1].json()["messages"]
                .as_array()
                .expect("messages")
                .iter()
                .filter(|message| message["role"] == "tool")
                .count(),
            2
        );
    }
}
