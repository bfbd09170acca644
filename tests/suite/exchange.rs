//! Sessions in and out: transcripts of other agents become sessions that the model goes on from; pages and Markdown that do nothing.

use pith_runtime::{
    ExchangeError, ExportFormat, ExportOrder, ImportOrder, ImportOutcome, Imported, Places, export_session,
    export_to_file, import_sessions,
};
use pith_tests::{Answer, Home, Reply, Server, Wire, case, cases, path_of, said, told};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

fn places(home: &Home) -> Places {
    let at = |name: &str| home.root().join(name).join("pith");
    Places { config: at("config"), data: at("data"), cache: at("cache"), state: at("state") }
}

fn order(home: &Home) -> ImportOrder {
    ImportOrder { workspace: home.work(), ..ImportOrder::default() }
}

#[track_caller]
fn import(home: &Home, path: &Path) -> Vec<Imported> {
    import_sessions(&places(home), path, &order(home)).unwrap_or_else(|error| panic!("{error}"))
}

/// The new session's file, and what was left out.
#[track_caller]
fn made(home: &Home, path: &Path) -> (PathBuf, String, Vec<(String, u64)>) {
    match import(home, path).remove(0).outcome {
        ImportOutcome::Made { file, id, left_out, notices, .. } => {
            assert_eq!(notices, [""; 0]);
            (file, id, left_out)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_transcript_of_claude_code_becomes_a_session() {
    let home = Home::new();
    let source = case("transcripts/claude/session.jsonl");
    let (file, _, left_out) = made(&home, &source);
    let path = path_of(&file);
    let lines = said(&path);
    let expected = [
        "user: list files",
        "assistant: (Hm, let me look.) Let me look. Bash{\"command\":\"ls\",\"description\":\"List\"} \
         Read{\"file_path\":\"/home/user/project/a.txt\"} Read{\"file_path\":\"/home/user/project/none.txt\"}",
        "toolResult!: File does not exist. Note: your current working directory is /home/user/project.",
        "toolResult: 2\t",
        "toolResult: a.txt",
        "assistant: (I saw the results.) There is one file: alpha.",
        "user: and now",
        "assistant: Now it goes on.",
        "user: delegate this",
        "assistant: Agent{\"description\":\"look\",\"prompt\":\"subtask: say hello\",\"subagent_type\":\"general-purpose\"}",
    ];
    assert_eq!(lines[..expected.len()], expected, "{lines:#?}");
    assert_eq!(lines.last().map(String::as_str), Some("compaction: Now it goes on."), "{lines:#?}");
    // A compaction keeps what Claude Code kept word for word: its last reply.
    let compaction = path.iter().find(|entry| entry["type"] == "compaction").expect("one");
    let kept = path.iter().find(|entry| entry["id"] == compaction["firstKeptEntryId"]).expect("it is on the path");
    assert_eq!(said(std::slice::from_ref(kept)), ["assistant: Now it goes on."]);
    assert_eq!(compaction["tokensBefore"], 192);
    let reply = path.iter().find(|entry| entry["message"]["role"] == "assistant").expect("a reply");
    let reply = &reply["message"];
    assert_eq!((&reply["provider"], &reply["model"]), (&json!("anthropic"), &json!("claude-sonnet-4-5")));
    assert_eq!(reply["stopReason"], "toolUse");
    let usage = &reply["usage"];
    assert_eq!(
        [&usage["input"], &usage["output"], &usage["cacheRead"], &usage["cacheWrite"], &usage["totalTokens"]],
        [100, 42, 30, 20, 192]
    );
    assert!(usage["cost"]["unknown"] == true || usage["cost"]["total"].as_f64() > Some(0.0), "{usage}");
    assert_eq!(path[0]["timestamp"], "2026-12-01T01:14:58.925Z");
    let header = &Home::entries(&file)[0];
    assert_eq!(header["cwd"], "/home/user/project");
    assert_eq!(header["parentSession"], source.canonicalize().expect("it is there").to_string_lossy().as_ref());
    // No prompt of the program, no proof of thoughts is in it.
    let text = fs::read_to_string(&file).expect("it is there");
    for gone in ["\"role\":\"system\"", "<command-name>", "thinkingSignature", "You are powered by"] {
        assert!(!text.contains(gone), "{gone}");
    }
    let count = |what: &str| left_out.iter().find(|(left, _)| left == what).map_or(0, |(_, count)| *count);
    assert!(count("notes of the program to the model") > 10, "{left_out:?}");
    assert_eq!((count("commands of the program"), count("lines of unknown types")), (3, 0), "{left_out:?}");
}

#[test]
fn a_rollout_of_codex_becomes_a_session() {
    let home = Home::new();
    let (file, _, left_out) = made(&home, &case("transcripts/codex/rollout.jsonl"));
    let path = path_of(&file);
    let lines = said(&path);
    let expected = [
        "user: list files",
        "assistant: (Hm, let me look.) Let me look. exec_command{\"cmd\":\"ls; cat none.txt\"} \
         update_plan{\"plan\":[{\"step\":\"look\",\"status\":\"completed\"}]}",
        "toolResult!: cat: none.txt: No such file or directory",
        "toolResult: unsupported call: update_plan",
        "assistant: (I saw the results.) There is one file: alpha.",
        "user: and now",
        "assistant: Now it goes on.",
        "user: [image/png] see it",
        "assistant: Now it goes on.",
        "compaction: Now it goes on.",
        "user: list files",
    ];
    assert_eq!(lines[..expected.len()], expected, "{lines:#?}");
    let replies: Vec<&Value> = path
        .iter()
        .map(|entry| &entry["message"])
        .filter(|message| message["role"] == "assistant" && message["usage"]["totalTokens"].as_u64() > Some(0))
        .collect();
    let usage = &replies[0]["usage"];
    assert_eq!(
        [&usage["input"], &usage["output"], &usage["cacheRead"], &usage["reasoning"], &usage["totalTokens"]],
        [120, 42, 30, 12, 192]
    );
    // Nobody knows what this model costs.
    assert_eq!((&usage["cost"]["unknown"], &replies[0]["model"]), (&json!(true), &json!("fake-1")));
    assert!(replies.len() >= 4, "{}", replies.len());
    let text = fs::read_to_string(&file).expect("it is there");
    assert!(!text.contains("environment_context") && !text.contains("skills_instructions"), "{left_out:?}");
}

#[test]
fn pith_goes_on_from_what_was_imported() {
    for (transcript, words) in [
        ("transcripts/claude/session.jsonl", ["Now it goes on.", "go on"]),
        ("transcripts/codex/rollout.jsonl", ["- see it\\n- list files\\n", "go on"]),
    ] {
        let server = Server::playing(vec![Answer::sse(Wire::OpenAi.sse(&Reply::text("Here I am.")))]);
        let home = Wire::OpenAi.home(&server);
        let (file, id, _) = made(&home, &case(transcript));
        let before = fs::read(&file).expect("it is there");
        home.pith(&["--session", &id, "--model", "openai/m", "-p", "go on"]).ok().prints("Here I am.");
        let request = server.requests().remove(0).json();
        let messages = request["messages"].to_string();
        for words in words {
            assert!(messages.contains(words), "{transcript}: {words}: {messages}");
        }
        // Every call has its result.
        let all = request["messages"].as_array().expect("messages");
        let calls = all.iter().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
        let results = all.iter().filter(|message| message["role"] == "tool").count();
        assert_eq!(calls.count(), results, "{messages}");
        // Its tools are ours, whatever was called before.
        let tools = request["tools"].to_string();
        assert!(!tools.contains("exec_command") && !tools.contains("\"Bash\""), "{tools}");
        let after = fs::read(&file).expect("it is there");
        assert!(after.starts_with(&before) && after.len() > before.len());
    }
}

#[test]
fn the_same_file_is_imported_once() {
    let home = Home::new();
    let source =
        home.beside("theirs/rollout.jsonl", fs::read(case("transcripts/codex/rollout.jsonl")).expect("a case"));
    let before = fs::read(&source).expect("it is there");
    let (file, id, _) = made(&home, &source);
    match &import(&home, &source)[0].outcome {
        ImportOutcome::Already { id: known } => assert_eq!(*known, id),
        other => panic!("{other:?}"),
    }
    let again = ImportOrder { again: true, ..order(&home) };
    let twice = import_sessions(&places(&home), &source, &again).expect("it is imported");
    assert!(matches!(&twice[0].outcome, ImportOutcome::Made { .. }));
    assert_eq!(home.sessions().len(), 2);
    assert!(file.is_file());
    assert_eq!(fs::read(&source).expect("it is there"), before, "the source is untouched");
}

#[test]
fn a_folder_is_imported_with_all_that_is_a_transcript() {
    let home = Home::new();
    for (name, from) in [
        ("all/project/one.jsonl", "transcripts/claude/session.jsonl"),
        ("all/project/one/subagents/agent-1.jsonl", "transcripts/claude/agent.jsonl"),
        ("all/2026/rollout-1.jsonl", "transcripts/codex/rollout.jsonl"),
        ("all/pi.jsonl", "pi/session-tools.jsonl"),
    ] {
        home.beside(name, fs::read(case(from)).expect("a case"));
    }
    home.beside("all/other.jsonl", "{\"some\":\"thing\"}\n");
    home.beside("all/notes.txt", "{\"type\":\"session\"}\n");
    let all = import(&home, &home.root().join("all"));
    let outcomes: Vec<(String, &str)> = all
        .iter()
        .map(|one| {
            let outcome = match &one.outcome {
                ImportOutcome::Made { .. } => "made",
                ImportOutcome::Aside => "aside",
                _ => "?",
            };
            (one.source.file_name().expect("a name").to_string_lossy().into_owned(), outcome)
        })
        .collect();
    let expected =
        [("rollout-1.jsonl", "made"), ("pi.jsonl", "made"), ("agent-1.jsonl", "aside"), ("one.jsonl", "made")];
    let mut expected: Vec<(String, &str)> = expected.map(|(name, outcome)| (name.to_owned(), outcome)).to_vec();
    let mut outcomes = outcomes;
    expected.sort();
    outcomes.sort();
    assert_eq!(outcomes, expected);
    assert_eq!(home.sessions().len(), 3);
    // By its own name a subagent's is imported too.
    let (file, ..) = made(&home, &home.root().join("all/project/one/subagents/agent-1.jsonl"));
    assert_eq!(said(&path_of(&file)), ["user: subtask: say hello", "assistant: Now it goes on."]);
}

#[test]
fn pis_lines_are_kept_as_they_are() {
    let home = Home::new();
    let source = case("pi/session-tools.jsonl");
    let (file, ..) = made(&home, &source);
    let text = fs::read_to_string(&file).expect("it is there");
    for line in fs::read_to_string(source).expect("a case").lines().skip(1) {
        assert!(text.contains(line), "{line}");
    }
    // All of it is of others.
    assert!(text.contains("\"customType\":\"pith/foreign\""), "{text}");
    assert!(text.lines().last().is_some_and(|line| line.contains("\"customType\":\"pith/imported\"")));
}

/// `tests/peers` has pi itself write such files and compares what both tell of them.
#[test]
fn what_pi_wrote_is_told_as_pi_tells_it() {
    let mut seen = 0;
    for entry in fs::read_dir(cases().join("pi/sessions")).expect("the cases") {
        let file = entry.expect("a case").path();
        let Some(name) = file.file_name().and_then(|name| name.to_str()?.strip_suffix(".jsonl")) else { continue };
        seen += 1;
        let expected: Vec<String> =
            serde_json::from_slice(&fs::read(file.with_file_name(format!("{name}.told.json"))).expect("it is beside"))
                .expect("a list");
        let server = Server::start(|_| Answer::sse(Wire::OpenAi.sse(&Reply::text("Here I am."))));
        let home = Wire::OpenAi.home(&server);
        let before = fs::read(&file).expect("a case");
        let last =
            || told(&server.requests().last().expect("it asked").json(), "They looked at alpha and were content.");
        // Read where it is, and imported.
        let copy = home.beside("theirs.jsonl", &before);
        home.pith(&["--session", &copy.to_string_lossy(), "--model", "openai/m", "-p", "what next?"]).ok();
        assert_eq!(last(), expected, "{name}");
        assert_eq!(fs::read(&copy).expect("it is there"), before, "{name}: pi's file is untouched");
        let (_, id, _) = made(&home, &home.beside("imported.jsonl", &before));
        home.pith(&["--session", &id, "--model", "openai/m", "-p", "what next?"]).ok();
        assert_eq!(last(), expected, "{name}, imported");
        // As JSON lines it is a session of the present format.
        let lines = exported(&copy, ExportFormat::Jsonl);
        assert!(lines.lines().next().is_some_and(|header| header.contains("\"version\":3")), "{name}: {lines}");
        let again = home.beside("again.jsonl", lines);
        home.pith(&["--session", &again.to_string_lossy(), "--model", "openai/m", "-p", "what next?"]).ok();
        assert_eq!(last(), expected, "{name}, exported");
        assert!(exported(&copy, ExportFormat::Html).ends_with("</html>\n"), "{name}");
    }
    assert_eq!(seen, 5);
}

#[test]
fn what_is_no_transcript_or_a_damaged_one_is_said() {
    let home = Home::new();
    let failed = |name: &str, bytes: &[u8]| match import(&home, &home.beside(name, bytes)).remove(0).outcome {
        ImportOutcome::Failed(error) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(failed("a.jsonl", b"hello\n"), ExchangeError::Unknown { .. }));
    assert!(matches!(failed("b.jsonl", b""), ExchangeError::Unknown { .. }));
    let meta =
        r#"{"type":"session_meta","timestamp":"2026-12-01T01:14:59.308Z","payload":{"id":"x","cwd":"relative"}}"#;
    assert!(matches!(failed("c.jsonl", meta.as_bytes()), ExchangeError::Empty { .. }));
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let user = |text: &str| json!({ "type": "response_item", "payload": { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] } });
    let lines = format!("{meta}\n{deep}\n\0\0\0\n{}\nnot json\n{{\"torn\":", user("hello"));
    let mut all = import(&home, &home.beside("d.jsonl", lines));
    let ImportOutcome::Made { notices, file, cwd, .. } = all.remove(0).outcome else { panic!("it is imported") };
    assert_eq!(notices.len(), 4, "{notices:?}");
    assert_eq!(said(&path_of(&file)), ["user: hello"]);
    assert_eq!(cwd, home.work(), "a folder that is none is not taken");
    assert_eq!(home.sessions().len(), 1, "what failed left nothing");
}

/// Whatever stands in a transcript: it is imported or refused, and what is imported is a session that opens.
#[test]
fn transcripts_that_are_changed_anywhere_do_no_harm() {
    let home = Home::new();
    let mut bits = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        usize::try_from(bits % below.max(1) as u64).unwrap_or_default()
    };
    let (mut imported, mut refused) = (0, 0);
    for name in ["transcripts/claude/session.jsonl", "transcripts/codex/rollout.jsonl", "pi/sessions/branches.jsonl"] {
        let whole = fs::read(case(name)).expect("a case");
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        for round in 0..60 {
            let mut mixed: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
            for _ in 0..=next(6) {
                let (one, other) = (next(mixed.len()), next(mixed.len()));
                match next(5) {
                    0 => mixed.swap(one, other),
                    1 => drop(mixed.remove(one)),
                    2 => mixed.insert(one, mixed[other].clone()),
                    3 => {
                        let at = next(mixed[one].len());
                        mixed[one].truncate(at);
                    }
                    _ => {
                        let at = next(mixed[one].len());
                        if let Some(byte) = mixed[one].get_mut(at) {
                            *byte = b"\0{}[]\",:0n\xff"[next(11)];
                        }
                    }
                }
            }
            let source = home.beside("changed.jsonl", mixed.concat());
            let again = ImportOrder { again: true, ..order(&home) };
            match import_sessions(&places(&home), &source, &again).expect("it is read").remove(0).outcome {
                ImportOutcome::Made { file, .. } => {
                    imported += 1;
                    assert!(exported(&file, ExportFormat::Html).ends_with("</html>\n"), "{name}, {round}");
                    assert!(!exported(&file, ExportFormat::Markdown).is_empty());
                    fs::remove_file(file).expect("it is there");
                }
                ImportOutcome::Failed(_) => refused += 1,
                other => panic!("{name}, {round}: {other:?}"),
            }
        }
    }
    assert!(imported > 150, "{imported} imported, {refused} refused");
}

#[test]
fn turns_that_codex_took_back_are_a_branch() {
    let home = Home::new();
    let item = |payload: Value| json!({ "timestamp": "2026-12-01T01:14:59.308Z", "type": "response_item", "payload": payload });
    let user = |text: &str| {
        item(json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] }))
    };
    let reply = |text: &str| {
        item(json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] }))
    };
    let lines = [
        json!({ "type": "session_meta", "payload": { "id": "x", "cwd": "/p" } }),
        user("one"),
        reply("first"),
        user("two"),
        reply("second"),
        json!({ "type": "event_msg", "payload": { "type": "thread_rolled_back", "num_turns": 1 } }),
        user("three"),
        reply("third"),
    ];
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let (file, ..) = made(&home, &home.beside("r.jsonl", text));
    assert_eq!(said(&path_of(&file)), ["user: one", "assistant: first", "user: three", "assistant: third"]);
    assert!(fs::read_to_string(&file).expect("it is there").contains("second"), "the branch is kept");
}

/// A session with everything that a page must not obey.
fn hostile(home: &Home) -> PathBuf {
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let message = |id: &str, parent: Option<&str>, message: Value| json!({ "type": "message", "id": id, "parentId": parent, "timestamp": "2026-12-01T01:14:59.308Z", "message": message });
    let svg = "PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+";
    let lines = [
        json!({ "type": "session", "version": 3, "id": "s<1>", "timestamp": "2026-12-01T01:14:59.308Z", "cwd": "/p/<b>" }),
        message(
            "00000001",
            None,
            json!({ "role": "user", "content": [
            { "type": "text", "text": "look </pre><script>alert(1)</script> \u{202e}x\u{1b}[31mred" },
            { "type": "image", "data": png, "mimeType": "image/svg+xml" },
            { "type": "image", "data": svg, "mimeType": "image/png" } ] }),
        ),
        message(
            "00000002",
            Some("00000001"),
            json!({ "role": "assistant", "model": "m\"><img src=x>", "provider": "p", "usage": { "input": 3, "output": 4, "totalTokens": 7 },
            "stopReason": "toolUse", "content": [
            { "type": "thinking", "thinking": "<i>hm</i>" },
            { "type": "text", "text": "# Title\n\n![x](https://evil.example/p.png) [y](javascript:alert(1)) [z](https://ok.example/)\n\n<iframe src=https://evil.example></iframe>" },
            { "type": "toolCall", "id": "c1", "name": "bash<b>", "arguments": { "command": "ls </summary>" } } ] }),
        ),
        message(
            "00000003",
            Some("00000002"),
            json!({ "role": "toolResult", "toolCallId": "c1", "toolName": "bash", "isError": true,
            "content": [{ "type": "text", "text": "\u{1b}[1mout\u{1b}[0m </pre></details> ```` " }] }),
        ),
        message("00000004", Some("00000003"), json!({ "role": "user", "content": "the other way" })),
        message("00000005", Some("00000003"), json!({ "role": "user", "content": "and now" })),
        json!({ "type": "label", "id": "00000006", "parentId": "00000005", "timestamp": "2026-12-01T01:14:59.308Z", "targetId": "00000005", "label": "here <u>" }),
        json!({ "type": "compaction", "id": "00000007", "parentId": "00000006", "timestamp": "2026-12-01T01:14:59.308Z", "summary": "**sum**", "firstKeptEntryId": "00000005", "tokensBefore": 12 }),
        json!({ "type": "session_info", "id": "00000008", "parentId": "00000007", "timestamp": "2026-12-01T01:14:59.308Z", "name": "A </title><script>name" }),
    ];
    home.beside("hostile.jsonl", lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

fn exported(file: &Path, format: ExportFormat) -> String {
    let mut out = Vec::new();
    export_session(file, ExportOrder { format, is_path_only: false }, &mut out).expect("it is exported");
    String::from_utf8(out).expect("it is text")
}

#[test]
fn a_page_obeys_nothing_that_stands_in_the_session() {
    let home = Home::new();
    let page = exported(&hostile(&home), ExportFormat::Html);
    // Tags that are ours and no others.
    let known = [
        "!DOCTYPE", "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "dl", "div", "dt",
        "dd", "time", "main", "article", "span", "p", "pre", "img", "details", "summary", "strong", "code", "a", "nav",
        "ul", "li", "footer", "section", "table", "thead", "tbody", "tr", "th", "td",
    ];
    for (at, _) in page.match_indices('<') {
        let name = page[at + 1..].trim_start_matches('/');
        let name: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '!').collect();
        assert!(known.contains(&name.as_str()), "<{name} at {}", &page[at..(at + 80).min(page.len())]);
    }
    assert_eq!(page.matches("<img").count(), 1, "one picture is a picture");
    assert!(page.contains("src=\"data:image/png;base64,iVBOR"), "by its bytes, whatever it says that it is");
    for words in [
        "look &lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt; &lt;U+202E&gt;xred",
        "href=\"https://ok.example/\" rel=\"noreferrer",
        "[picture: x <code>https://evil.example/p.png</code>]",
        "(<code>javascript:alert(1)</code>)",
        "<h3>Title</h3>",
        "&lt;iframe src=https://evil.example&gt;",
        "<details class=\"call failed\"><summary><strong>bash&lt;b&gt;</strong> <code>ls &lt;/summary&gt;</code>",
        "out &lt;/pre&gt;&lt;/details&gt;",
        "<span class=\"label\">here &lt;u&gt;</span>",
        "“the other way”, 1 message, from entry <code>00000004</code>",
        "Compaction of 12 tokens",
        "<strong>sum</strong>",
        "<td>unknown</td>",
        "<title>A &lt;/title&gt;&lt;script&gt;name</title>",
        "default-src 'none'; style-src 'sha256-",
        "lang=\"en\"",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
}

#[test]
fn markdown_keeps_what_it_quotes() {
    let home = Home::new();
    let text = exported(&hostile(&home), ExportFormat::Markdown);
    for words in [
        "# A \\</title\\>\\<script\\>name\n",
        "look &lt;/pre>&lt;script>alert(1)&lt;/script> ",
        "[x](https://evil.example/p.png)",
        "<details><summary><b>bash&lt;b&gt;</b> <code>ls &lt;/summary&gt;</code>, failed</summary>",
        "`````text\nout </pre></details> ```` \n`````",
        "- the other way: 1 message, from entry `00000004`",
        "| p/m",
        "| unknown |",
        "&lt;iframe",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("![x]") && !text.contains('\u{1b}'));
}

#[test]
fn json_lines_are_the_sessions_own() {
    let home = Home::new();
    let file = hostile(&home);
    assert_eq!(exported(&file, ExportFormat::Jsonl), fs::read_to_string(&file).expect("it is there"));
    let mut out = Vec::new();
    let order = ExportOrder { format: ExportFormat::Jsonl, is_path_only: true };
    export_session(&file, order, &mut out).expect("it is exported");
    let path = String::from_utf8(out).expect("it is text");
    assert!(!path.contains("the other way") && path.contains("and now") && path.lines().count() == 8, "{path}");
}

#[test]
fn an_export_is_whole_private_and_replaces_nothing() {
    let home = Home::new();
    let file = hostile(&home);
    let order = ExportOrder { format: ExportFormat::Html, is_path_only: false };
    let target = home.work().join("out.html");
    export_to_file(&file, order, &target, false).expect("it is exported");
    assert_eq!(fs::metadata(&target).expect("it is there").permissions().mode() & 0o777, 0o600);
    fs::write(&target, "mine").expect("it can be written");
    let error = export_to_file(&file, order, &target, false).expect_err("it is there");
    assert!(matches!(error, ExchangeError::Exists { .. }), "{error}");
    assert_eq!(home.read("out.html"), "mine");
    export_to_file(&file, order, &target, true).expect("it is replaced");
    assert!(home.read("out.html").starts_with("<!DOCTYPE html>"));
    // A link is not followed to what it leads to.
    std::os::unix::fs::symlink(home.root().join("elsewhere"), home.work().join("link.html")).expect("a link");
    assert!(export_to_file(&file, order, &home.work().join("link.html"), false).is_err());
    let none = export_to_file(&file, order, &home.work().join("none/out.html"), false);
    assert!(matches!(none, Err(ExchangeError::Unwritable { .. })));
    assert_eq!(fs::read_dir(home.work()).expect("the folder").count(), 2, "nothing is left behind");
}

#[test]
fn the_command_exports_and_imports() {
    let home = Home::new();
    let transcript = home.beside("theirs/s.jsonl", fs::read(case("transcripts/claude/session.jsonl")).expect("a case"));
    let theirs = home.root().join("theirs").to_string_lossy().into_owned();
    let run = home.pith(&["session", "import", &theirs, "--json"]).ok();
    let line = run.events().remove(0);
    assert_eq!((&line["outcome"], &line["from"]), (&json!("imported"), &json!("claude")), "{line}");
    let id = line["id"].as_str().expect("an id").to_owned();
    let run = home.pith(&["session", "import", &theirs]).ok();
    assert!(run.stdout.contains(&id) && run.stdout.contains("--again"), "{run}");
    home.beside("theirs/torn.jsonl", "{\"type\":\"session_meta\",\"payload\":{\"id\":\"x\"}}\n");
    let run = home.pith(&["session", "import", &theirs]).exits(1).prints("failed: ");
    assert!(run.stdout.contains("has no conversation"), "{run}");
    home.pith(&["session", "import", &home.work().to_string_lossy()]).exits(2).says("~/.claude/projects");
    home.pith(&["session", "import", "/nowhere"]).exits(2).says("/nowhere");
    assert!(transcript.is_file());

    // A page in the present folder, never over another.
    let run = home.pith(&["session", "export", &id]).ok();
    let page = home.work().join(run.stdout.trim());
    assert!(fs::read_to_string(&page).expect("it is there").starts_with("<!DOCTYPE html>"));
    home.pith(&["session", "export", &id]).exits(2).says("--force");
    home.pith(&["session", "export", &id, "--force"]).ok();
    // The extension says the format; `-` is standard output.
    home.pith(&["session", "export", &id, "-o", "talk.md"]).ok();
    assert!(home.read("talk.md").starts_with("# list files\n"), "{}", home.read("talk.md"));
    let run = home.pith(&["session", "export", &id, "-o", "-", "--format", "jsonl"]).ok();
    let file = PathBuf::from(line["file"].as_str().expect("a file"));
    assert_eq!(run.stdout, fs::read_to_string(file).expect("it is there"));
    let run = home.pith(&["session", "export", &id, "-o", "talk.jsonl", "--path", "--json"]).ok();
    assert_eq!(run.events()[0]["title"], "list files");
    home.pith(&["session", "export", "nosuch"]).exits(2).says("nosuch");
}
