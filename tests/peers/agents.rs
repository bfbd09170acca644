//! Claude Code and Codex themselves write transcripts, against a server of ours; Pith imports them and goes on.

use crate::install;
use pith_runtime::{ImportOrder, ImportOutcome, Places, import_sessions};
use pith_tests::{Answer, Home, Reply, Request, Running, Server, Wire, path_of, said};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// What each of them may take for one prompt.
const LIMIT: Duration = Duration::from_secs(120);

fn places(home: &Home) -> Places {
    let at = |name: &str| home.root().join(name).join("pith");
    Places { config: at("config"), data: at("data"), cache: at("cache"), state: at("state") }
}

/// Imports the only transcript beneath a folder.
#[track_caller]
fn imported(home: &Home, folder: &Path) -> (PathBuf, String) {
    let order = ImportOrder { workspace: home.work(), ..ImportOrder::default() };
    let mut all = import_sessions(&places(home), folder, &order).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(all.len(), 1, "{all:?}");
    match all.remove(0).outcome {
        ImportOutcome::Made { file, id, notices, left_out, .. } => {
            assert_eq!(notices, [""; 0]);
            assert!(!left_out.iter().any(|(what, _)| what.contains("unknown")), "it has something new: {left_out:?}");
            (file, id)
        }
        other => panic!("{other:?}"),
    }
}

/// What Pith tells its model when it goes on.
#[track_caller]
fn goes_on(home: Home, id: &str) -> String {
    let server = Server::playing(vec![Answer::sse(Wire::OpenAi.sse(&Reply::text("Here I am.")))]);
    let home = home.with("OPENAI_BASE_URL", &format!("{}/v1", server.url())).with("OPENAI_API_KEY", "k");
    home.pith(&["--session", id, "--model", "openai/m", "-p", "go on"]).ok().prints("Here I am.");
    server.requests().remove(0).json()["messages"].to_string()
}

/// What a request's messages after the last reply say, and whether there is a result among them.
fn last_of(request: &Value) -> (String, bool) {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let new = messages.iter().rev().take_while(|message| message["role"] != "assistant");
    let blocks: Vec<Value> = new
        .flat_map(|message| match message["content"].as_array() {
            Some(blocks) => blocks.clone(),
            None => vec![json!({ "text": message["content"] })],
        })
        .collect();
    let text = blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
    (text, blocks.iter().any(|block| block["type"] == "tool_result"))
}

#[test]
fn what_claude_code_writes_is_imported() {
    let home = Home::new();
    home.write("a.txt", "alpha\n");
    let file = home.work().join("a.txt");
    let server = Server::start(move |request: &Request| {
        if request.method != "POST" || !request.path.contains("/messages") {
            return Answer::json(
                404,
                &json!({ "type": "error", "error": { "type": "not_found_error", "message": "no" } }),
            );
        }
        if request.path.contains("count_tokens") {
            return Answer::json(200, &json!({ "input_tokens": 100 }));
        }
        let body = request.json();
        let (text, has_result) = last_of(&body);
        let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        let reply = match has_result {
            true => Reply::text("There is one file: alpha.").thinking("I saw it."),
            false if has_tools && text.contains("list files") => Reply::text("Let me look.")
                .and_call("toolu_1", "Bash", json!({ "command": "ls" }))
                .and_call("toolu_2", "Read", json!({ "file_path": file })),
            false => Reply::text("Now it goes on."),
        };
        // Every reply has an id of its own, as the provider's have.
        let stream = String::from_utf8_lossy(&Wire::Anthropic.sse(&reply))
            .replace("msg_1", &format!("msg_{}", body.to_string().len()));
        Answer::sse(stream)
    });
    let (claude, _) = install::agents();
    let ask = |more: &[&str]| {
        let mut command: Command = home.bare(&claude.to_string_lossy());
        command
            .env("ANTHROPIC_BASE_URL", server.url())
            .env("ANTHROPIC_API_KEY", "x")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .args(["--model", "claude-sonnet-5-5", "--allowedTools", "Bash,Read"])
            .args(more);
        Running::start(command, LIMIT).finish().ok()
    };
    ask(&["-p", "list files"]).prints("There is one file: alpha.");
    ask(&["-c", "-p", "and now"]).prints("Now it goes on.");
    let (file, id) = imported(&home, &home.root().join("home/.claude/projects"));
    let lines = said(&path_of(&file));
    assert_eq!(lines[0], "user: list files");
    assert!(lines[1].starts_with("assistant: Let me look. Bash{") && lines[1].contains("Read{"), "{lines:#?}");
    let mut results = lines[2..4].to_vec();
    results.sort();
    assert!(
        results[0].starts_with("toolResult: ") && results.iter().any(|line| line == "toolResult: a.txt"),
        "{lines:#?}"
    );
    let rest = ["assistant: (I saw it.) There is one file: alpha.", "user: and now", "assistant: Now it goes on."];
    assert_eq!(lines[4..], rest, "{lines:#?}");
    let told = goes_on(home, &id);
    for words in ["list files", "Let me look.", "alpha", "and now", "Now it goes on.", "go on"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

/// A reply on the wire that Codex speaks.
fn responses(items: &[Value]) -> Answer {
    let mut out = format!("data: {}\n\n", json!({ "type": "response.created", "response": { "id": "r" } }));
    for (index, item) in items.iter().enumerate() {
        for kind in ["response.output_item.added", "response.output_item.done"] {
            out.push_str(&format!("data: {}\n\n", json!({ "type": kind, "output_index": index, "item": item })));
        }
    }
    let usage = json!({ "input_tokens": 150, "input_tokens_details": { "cached_tokens": 30 }, "output_tokens": 42,
        "output_tokens_details": { "reasoning_tokens": 12 }, "total_tokens": 192 });
    let done = json!({ "type": "response.completed", "response": { "id": "r", "usage": usage } });
    out.push_str(&format!("data: {done}\n\n"));
    Answer::sse(out)
}

#[test]
fn what_codex_writes_is_imported() {
    let home = Home::new();
    home.write("a.txt", "alpha\n");
    let server = Server::start(|request: &Request| {
        if request.method != "POST" || !request.path.contains("/responses") {
            return Answer::json(404, &json!({ "error": { "message": "no" } }));
        }
        let body = request.json();
        let last = body["input"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
        let words = |text: &str| json!({ "type": "message", "id": "m", "role": "assistant", "content": [{ "type": "output_text", "text": text, "annotations": [] }] });
        let thought = json!({ "type": "reasoning", "id": "rs", "summary": [{ "type": "summary_text", "text": "Hm." }], "encrypted_content": "ZW5j" });
        let call = |id: &str, command: &str| json!({ "type": "function_call", "id": id, "call_id": id, "name": "exec_command", "arguments": json!({ "cmd": command }).to_string() });
        if last["type"] == "function_call_output" {
            responses(&[words("There is one file: alpha.")])
        } else if last.to_string().contains("list files") {
            responses(&[thought, words("Let me look."), call("call_1", "ls"), call("call_2", "cat none.txt")])
        } else {
            responses(&[words("Now it goes on.")])
        }
    });
    let config = format!(
        "model = \"fake-1\"\nmodel_provider = \"fake\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
         [model_providers.fake]\nname = \"fake\"\nbase_url = \"{}/v1\"\nenv_key = \"FAKE_KEY\"\nwire_api = \"responses\"\n",
        server.url()
    );
    home.beside("home/.codex/config.toml", config);
    let (_, codex) = install::agents();
    let ask = |more: &[&str]| {
        let mut command: Command = home.bare(&codex.to_string_lossy());
        command.env("FAKE_KEY", "x").args(["exec", "--skip-git-repo-check"]).args(more);
        Running::start(command, LIMIT).finish().ok()
    };
    ask(&["list files"]).prints("There is one file: alpha.");
    ask(&["resume", "--last", "and now"]).prints("Now it goes on.");
    let (file, id) = imported(&home, &home.root().join("home/.codex/sessions"));
    let path = path_of(&file);
    let expected = [
        "user: list files",
        "assistant: (Hm.) Let me look. exec_command{\"cmd\":\"ls\"} exec_command{\"cmd\":\"cat none.txt\"}",
        "toolResult: a.txt",
        "toolResult!: cat: none.txt: No such file or directory",
        "assistant: There is one file: alpha.",
        "user: and now",
        "assistant: Now it goes on.",
    ];
    assert_eq!(said(&path), expected);
    let usage =
        &path.iter().find(|entry| entry["message"]["role"] == "assistant").expect("a reply")["message"]["usage"];
    assert_eq!([&usage["input"], &usage["cacheRead"], &usage["output"], &usage["reasoning"]], [120, 30, 42, 12]);
    let told = goes_on(home, &id);
    for words in ["list files", "Let me look.", "a.txt", "and now", "Now it goes on.", "go on"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}
