//! Print and JSON: what goes in, what comes out, on which stream, with which exit code.

use pith_tests::{Answer, Home, Reply, Running, Server, Wire};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn print_gives_the_last_words_and_nothing_else() {
    let home = Home::new();
    home.write("a.txt", "alpha\n");
    let model = home.scripted(json!([
        { "text": "I will look.", "calls": [{ "name": "read", "arguments": { "path": "a.txt" } }] },
        { "expect": { "last_result_contains": ["alpha"] }, "text": "It says alpha." }
    ]));
    let run = home.pith(&["--model", &model, "-p", "what does a.txt say?"]).ok();
    assert_eq!(run.stdout, "It says alpha.\n", "{run}");
    run.says("scripted");
}

#[test]
fn a_failed_reply_exits_1_and_says_why() {
    let home = Home::new();
    let model = home.scripted(json!([{ "error": { "message": "it broke", "kind": "invalid" } }]));
    for mode in ["text", "json"] {
        let run = home.pith(&["--mode", mode, "--model", &model, "hi"]).exits(1);
        if mode == "text" {
            assert!(run.stdout.is_empty(), "{run}");
            run.says("it broke");
        }
    }
}

#[test]
fn a_reply_that_was_cut_exits_1() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "It begins", "stop": "length" }]));
    for mode in ["text", "json"] {
        home.pith(&["--mode", mode, "--model", &model, "hi"]).exits(1).prints("It begins");
    }
}

#[test]
fn piped_text_and_files_reach_the_model() {
    let home = Home::new();
    home.write("notes.md", "remember the milk\n");
    let server = Server::playing(vec![Answer::sse(Wire::OpenAi.sse(&Reply::text("ok")))]);
    let home = home.with("OPENAI_BASE_URL", &format!("{}/v1", server.url()));
    home.pith_reading(&["--model", "openai/m", "-p", "@notes.md", "summarise"], "piped words\n").ok();
    let request = server.requests().remove(0).json();
    let sent = request["messages"].as_array().and_then(|messages| messages.last()).expect("a message").to_string();
    for words in ["piped words", "remember the milk", "notes.md", "summarise"] {
        assert!(sent.contains(words), "{words}: {sent}");
    }
    assert!(sent.find("piped words") < sent.find("summarise"), "{sent}");
    // A pipe alone is a message too.
    let model = home.scripted(json!([{ "expect": { "last_user_contains": "piped alone" }, "text": "ok" }]));
    home.pith_reading(&["--model", &model, "-p"], "piped alone").ok();
}

#[test]
fn what_is_piped_has_a_limit() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "never" }]));
    let run = home.pith_reading(&["--model", &model, "-p", "hi"], &"x".repeat((10 << 20) + 1)).exits(2);
    run.says("10 MiB");
    assert!(home.sessions().is_empty());
}

#[test]
fn a_picture_is_attached_as_one() {
    // A PNG of one pixel.
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";
    let server = Server::playing(vec![Answer::sse(Wire::Anthropic.sse(&Reply::text("a dot")))]);
    let home = Wire::Anthropic.home(&server);
    home.write("dot.png", PNG);
    home.pith(&["--model", "anthropic/claude-sonnet-4-5", "-p", "@dot.png", "what is it?"]).ok().prints("a dot");
    let sent = server.requests().remove(0).json();
    assert!(sent["messages"].to_string().contains("\"media_type\":\"image/png\""), "{}", sent["messages"]);
}

#[test]
fn files_that_cannot_be_attached_are_refused() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "hi" }]));
    home.write("binary", b"\0\x01\x02\xff\xfe\0\0");
    let fifo = home.work().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    for file in ["@none.md", "@binary", "@fifo", "@."] {
        let run = home.pith(&["--model", &model, "-p", file, "hi"]).exits(2);
        run.says(&file[1..]);
    }
}

#[test]
fn json_prints_the_header_then_events_a_line_each() {
    let home = Home::new();
    home.write("a.txt", "alpha\n");
    let run = home
        .play(
            json!([
                { "text": "Look.", "calls": [{ "id": "c1", "name": "read", "arguments": { "path": "a.txt" } }] },
                { "text": "Done." }
            ]),
            &[],
        )
        .ok();
    let events = run.events();
    assert_eq!(events[0]["type"], "session");
    assert_eq!(events[0]["version"], 3);
    assert_eq!(events[0]["cwd"], json!(home.work()));
    let header = &Home::entries(&home.session())[0];
    assert_eq!(&events[0], header, "the header is the file's first line");
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds[1..3], ["agent_start", "turn_start"]);
    assert_eq!(kinds[kinds.len() - 2..], ["agent_end", "agent_settled"]);
    assert_eq!(run.result("c1"), ("alpha\n".to_owned(), false));
    // The deltas of the text, put together, are the text.
    let deltas: String = events
        .iter()
        .map(|event| &event["assistantMessageEvent"])
        .filter(|delta| delta["type"] == "text_delta")
        .filter_map(|delta| delta["delta"].as_str())
        .collect();
    assert_eq!(deltas, "Look.Done.");
    // Messages of agent_end are those of the message_end events.
    let ended: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "message_end").map(|event| &event["message"]).collect();
    let all = events.iter().find(|event| event["type"] == "agent_end").expect("an end")["messages"]
        .as_array()
        .expect("messages");
    assert_eq!(all.iter().collect::<Vec<_>>(), ended);
}

#[test]
fn the_system_prompt_has_instructions_from_the_root_down_and_the_folder() {
    let server = Server::playing(vec![Answer::sse(Wire::OpenAi.sse(&Reply::text("ok")))]);
    let home = Wire::OpenAi.home(&server);
    home.beside("CLAUDE.md", "the outer rule\n");
    home.write("AGENTS.md", "the inner rule\n");
    home.write("CLAUDE.md", "not read beside AGENTS.md\n");
    home.pith(&["--model", "openai/m", "-p", "hi"]).ok();
    let request = server.requests().remove(0).json();
    let system = request["messages"][0]["content"].to_string();
    assert_eq!(request["messages"][0]["role"], "system");
    let (outer, inner) = (system.find("the outer rule").expect("outer"), system.find("the inner rule").expect("inner"));
    assert!(outer < inner && !system.contains("not read beside"), "{system}");
    assert!(system.contains(&*home.work().to_string_lossy()), "{system}");
    assert!(system.contains("Use read to examine files"), "the tools' guidelines: {system}");
    let tools: Vec<&str> = request["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str())
        .collect();
    assert_eq!(tools, ["read", "write", "edit", "ls", "grep", "find", "bash", "bash_stop"]);
}

#[test]
fn instructions_that_are_no_file_stop_nothing() {
    let home = Home::new();
    assert!(
        std::process::Command::new("mkfifo").arg(home.work().join("AGENTS.md")).status().expect("mkfifo").success()
    );
    std::fs::create_dir(home.root().join("CLAUDE.md")).expect("a folder");
    let model = home.scripted(json!([{ "text": "on we go" }]));
    home.pith(&["--model", &model, "-p", "hi"]).ok().prints("on we go").says("AGENTS.md");
}

#[test]
fn without_plugins_prompt_to_text_works() {
    let server = Server::playing(vec![Answer::sse(Wire::OpenAi.sse(&Reply::text("plain")))]);
    let home = Wire::OpenAi.home(&server);
    home.pith(&["--model", "openai/m", "--no-plugins", "-p", "hi"]).ok().prints("plain");
    assert!(server.requests()[0].json().get("tools").is_none());
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure_with_its_reason() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "lost" }]));
    for mode in ["text", "json"] {
        let mut shell = home.bare("bash");
        let pith = pith_tests::pith_binary();
        shell.args(["-c", r#""$0" --mode "$2" --model "$1" -p go > /dev/full"#]).arg(pith).arg(&model).arg(mode);
        let run = pith_tests::Running::start(shell, std::time::Duration::from_secs(25)).finish();
        assert_eq!(run.code, Some(1), "{run}");
        run.says("error: standard output cannot be written: No space left on device");
    }
}

#[test]
fn a_reader_that_is_gone_ends_the_run() {
    let home = Home::new();
    let model = home.scripted(json!([
        { "text": "x".repeat(4000), "calls": [{ "name": "bash", "arguments": { "command": "sleep 30" } }] },
        { "text": "never" }
    ]));
    let mut shell = home.bare("bash");
    let pith = pith_tests::pith_binary();
    shell.args(["-c", r#""$0" --mode json --model "$1" go | head -n 1; exit ${PIPESTATUS[0]}"#]).arg(pith).arg(&model);
    let run = pith_tests::Running::start(shell, std::time::Duration::from_secs(25)).finish();
    assert_ne!(run.code, Some(0), "{run}");
}

/// What the system does not give is said in a sentence, whatever it is.
#[test]
fn a_system_that_gives_little_is_told_of() {
    let home = Home::new();
    let model = home.scripted(json!([{ "calls": [{ "id": "1", "name": "ls", "arguments": {} }] }, { "text": "done" }]));
    let pith = home.command(&["--model", &model, "-p", "go"]);
    let run = |before: &str| {
        let mut limited = home.bare("bash");
        limited.args(["-c", &format!("{before}; exec \"$0\" \"$@\"")]).arg(pith.get_program()).args(pith.get_args());
        let run = Running::start(limited, Duration::from_secs(60)).finish();
        assert!(!run.to_string().contains("panicked"), "{before}: {run}");
        run
    };
    run("ulimit -n 64").ok().prints("done\n");
    run("ulimit -n 16").exits(2).says("Too many open files");
    run("ulimit -v 300000").ok().says("the system gives this process no more memory");
    run("export XDG_STATE_HOME=/proc/none").ok().prints("done\n");
}
