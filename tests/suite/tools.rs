//! The shipped tools and the loop around them, on real files and processes, called by the scripted model.

use pith_tests::{Behaviour, Guest, Home};
use serde_json::{Value, json};

/// Plays one batch of calls, then a last word.
fn batch(home: &Home, calls: Value) -> pith_tests::Run {
    home.play(json!([{ "calls": calls }, { "text": "done" }]), &[]).ok()
}

/// One call: its result's text and whether it is an error.
fn call(home: &Home, name: &str, arguments: Value) -> (String, bool) {
    batch(home, json!([{ "id": "c", "name": name, "arguments": arguments }])).result("c")
}

#[track_caller]
fn check(home: &Home, name: &str, arguments: Value, has: &str) -> String {
    let (text, is_error) = call(home, name, arguments);
    assert!(!is_error && text.contains(has), "{name}: {text}");
    text
}

#[track_caller]
fn check_error(home: &Home, name: &str, arguments: Value, has: &str) -> String {
    let (text, is_error) = call(home, name, arguments);
    assert!(is_error && text.contains(has), "{name}: {text}");
    text
}

#[test]
fn files_are_read_written_edited_and_listed() {
    let home = Home::new();
    home.write("src/a.txt", "one\ntwo\nthree\n");
    check(&home, "read", json!({ "path": "src/a.txt" }), "one\ntwo\nthree");
    let page = check(&home, "read", json!({ "path": "src/a.txt", "offset": 2, "limit": 1 }), "two");
    assert!(!page.contains("one") && page.contains('3'), "{page}");
    check(&home, "write", json!({ "path": "new/deep/b.txt", "content": "beta\n" }), "5 bytes");
    assert_eq!(home.read("new/deep/b.txt"), "beta\n");
    let edits = json!([{ "oldText": "two", "newText": "TWO" }, { "oldText": "three", "newText": "THREE" }]);
    check(&home, "edit", json!({ "path": "src/a.txt", "edits": edits }), "2 blocks");
    assert_eq!(home.read("src/a.txt"), "one\nTWO\nTHREE\n");
    check_error(
        &home,
        "edit",
        json!({ "path": "src/a.txt", "edits": [{ "oldText": "absent", "newText": "" }] }),
        "src/a.txt",
    );
    assert_eq!(home.read("src/a.txt"), "one\nTWO\nTHREE\n");
    let listing = check(&home, "ls", json!({}), "src/");
    assert!(listing.contains("new/"), "{listing}");
    check_error(&home, "read", json!({ "path": "none.txt" }), "none.txt");
}

#[test]
fn grep_and_find_search() {
    let home = Home::new();
    home.write("src/a.rs", "fn alpha() {}\nfn beta() {}\n");
    home.write("src/b.txt", "alpha\n");
    home.write("ignored/c.rs", "alpha\n");
    home.write(".gitignore", "ignored/\n");
    std::fs::create_dir(home.work().join(".git")).expect("a folder");
    let found = check(&home, "grep", json!({ "pattern": "alp.a", "glob": "*.rs" }), "src/a.rs:1: fn alpha() {}");
    assert!(!found.contains("b.txt") && !found.contains("ignored"), "{found}");
    let found = check(&home, "find", json!({ "pattern": "*.rs" }), "src/a.rs");
    assert!(!found.contains("ignored"), "{found}");
    check_error(&home, "grep", json!({ "pattern": "(" }), "");
}

#[test]
fn bash_runs_in_the_workspace() {
    let home = Home::new();
    home.write("a.txt", "x");
    check(&home, "bash", json!({ "command": "pwd; ls; echo to-stderr >&2" }), &home.work().to_string_lossy());
    let (text, is_error) = call(&home, "bash", json!({ "command": "echo out; exit 3" }));
    assert!(is_error && text.contains("out") && text.contains('3'), "{text}");
    check(&home, "bash", json!({ "command": "read line; echo got:$line" }), "got:");
    let long = check(&home, "bash", json!({ "command": "seq 1 100000" }), "100000");
    assert!(long.len() < 60_000, "{} bytes", long.len());
    // The whole output lies where `read` can get it.
    let place = long
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| "[]().,:;`'\"".contains(c)))
        .find(|word| word.contains("/spool/"));
    let place = place.unwrap_or_else(|| panic!("no spool file is named: {}", &long[long.len() - 400..])).to_owned();
    assert_eq!(std::fs::read_to_string(&place).expect("it is there").lines().count(), 100_000);
}

#[test]
fn links_do_not_lead_out_of_the_workspace() {
    let home = Home::new();
    let secret = home.beside("secret.txt", "a secret\n");
    std::os::unix::fs::symlink(&secret, home.work().join("link")).expect("a link");
    std::os::unix::fs::symlink(home.root(), home.work().join("up")).expect("a link");
    for path in ["link", "up/secret.txt", "../secret.txt", &*secret.to_string_lossy(), "/etc/passwd"] {
        let (text, is_error) = call(&home, "read", json!({ "path": path }));
        assert!(is_error && !text.contains("a secret") && !text.contains("root:"), "{path}: {text}");
        let (_, is_error) = call(&home, "write", json!({ "path": path, "content": "overwritten" }));
        assert!(is_error, "{path}");
    }
    assert_eq!(std::fs::read_to_string(secret).expect("it is there"), "a secret\n");
    let found = check(&home, "grep", json!({ "pattern": "secret" }), "");
    assert!(!found.contains("a secret"), "{found}");
}

#[test]
fn a_fifo_in_the_workspace_stops_nothing() {
    let home = Home::new();
    assert!(std::process::Command::new("mkfifo").arg(home.work().join("fifo")).status().expect("mkfifo").success());
    home.write("a.txt", "alpha");
    let run = batch(
        &home,
        json!([
            { "id": "read", "name": "read", "arguments": { "path": "fifo" } },
            { "id": "grep", "name": "grep", "arguments": { "pattern": "alpha" } },
            { "id": "ls", "name": "ls", "arguments": {} }
        ]),
    );
    assert!(run.result("read").1, "{run}");
    assert!(run.result("grep").0.contains("a.txt:1: alpha"), "{run}");
    assert!(run.wall < std::time::Duration::from_secs(20), "{run}");
}

#[test]
fn calls_of_one_reply_run_side_by_side() {
    let home = Home::new();
    // Each waits for the other: one by one they would wait for ever.
    let meet = |own: &str, other: &str| {
        format!("touch {own}; for i in $(seq 1 2000); do [ -e {other} ] && exit 0; sleep 0.01; done; exit 1")
    };
    let run = batch(
        &home,
        json!([
            { "id": "a", "name": "bash", "arguments": { "command": meet("a", "b") } },
            { "id": "b", "name": "bash", "arguments": { "command": meet("b", "a") } }
        ]),
    );
    assert!(!run.result("a").1 && !run.result("b").1, "{run}");
}

#[test]
fn a_tool_that_asks_for_it_makes_its_batch_run_in_order() {
    let home = Home::new();
    home.write("n.txt", "0");
    let step =
        |n: u32| json!({ "path": "n.txt", "edits": [{ "oldText": n.to_string(), "newText": (n + 1).to_string() }] });
    let run = batch(
        &home,
        json!([
            { "id": "1", "name": "edit", "arguments": step(0) },
            { "id": "2", "name": "bash", "arguments": { "command": "sleep 0.2; cat n.txt; echo 2 > n.txt" } },
            { "id": "3", "name": "edit", "arguments": step(2) }
        ]),
    );
    assert_eq!((run.result("2").0.trim(), home.read("n.txt").trim()), ("1", "3"), "{run}");
    let order: Vec<String> = run.results().into_iter().map(|(id, _, _)| id).collect();
    assert_eq!(order, ["1", "2", "3"]);
}

#[test]
fn protect_refuses_what_it_guards() {
    let home = Home::new();
    home.write(".env", "KEY=1\n");
    home.write("a.txt", "x");
    for (name, arguments) in [
        ("write", json!({ "path": ".env", "content": "KEY=2" })),
        ("edit", json!({ "path": "./sub/../.env", "edits": [{ "oldText": "1", "newText": "2" }] })),
        ("write", json!({ "path": ".git/hooks/pre-commit", "content": "x" })),
        ("bash", json!({ "command": "cd /tmp && sudo rm -rf /" })),
    ] {
        check_error(&home, name, arguments, "protect");
    }
    assert_eq!(home.read(".env"), "KEY=1\n");
    assert!(!home.work().join(".git").exists());
    // The event says who denied and why, in full; the model gets it marked.
    let run = batch(&home, json!([{ "id": "c", "name": "write", "arguments": { "path": ".env", "content": "" } }]));
    let verdict = run.events().into_iter().find(|event| event["type"] == "gate_verdict").expect("a verdict");
    assert_eq!(
        (&verdict["plugin"], &verdict["verdict"], &verdict["toolCallId"]),
        (&json!("protect"), &json!("deny"), &json!("c"))
    );
    // Without the gate the same call passes.
    home.pith(&["--no-plugins", "--model", &home.scripted(json!([{ "text": "x" }])), "-p", "go"]).ok();
}

#[test]
fn an_unknown_tool_and_wrong_arguments_go_back_to_the_model() {
    let home = Home::new();
    home.write("a.txt", "alpha");
    let run = home
        .play(
            json!([
                { "calls": [
                    { "id": "1", "name": "teleport", "arguments": {} },
                    { "id": "2", "name": "read", "arguments": { "file": "a.txt" } },
                    { "id": "3", "name": "read", "arguments_text": "{\"path\": \"a.txt\", \"path\": \"b.txt\"}" },
                    { "id": "4", "name": "read", "arguments_text": "{\"path\": \"a.t" },
                    { "id": "5", "name": "read", "arguments": { "path": "a.txt", "limit": "1" } }
                ] },
                { "expect": { "last_result_contains": ["teleport not found", "Validation failed for tool \"read\""] }, "text": "I see." }
            ]),
            &[],
        )
        .ok();
    for id in ["1", "2", "3", "4"] {
        assert!(run.result(id).1, "{id}: {run}");
    }
    // A number in a string is what small models send: it is taken.
    assert_eq!(run.result("5"), ("alpha".to_owned(), false), "{run}");
}

#[test]
fn a_reply_that_was_cut_runs_no_tool() {
    let home = Home::new();
    let run = home
        .play(
            json!([
                { "calls": [{ "id": "c", "name": "write", "arguments": { "path": "a.txt", "content": "half" } }], "stop": "length" },
                { "expect": { "result_is_error": true, "last_result_contains": ["cut off"] }, "text": "again" }
            ]),
            &[],
        )
        .ok();
    assert!(run.result("c").1);
    assert!(!home.work().join("a.txt").exists());
}

#[test]
fn a_run_ends_only_when_every_result_of_a_batch_says_so() {
    let home = Home::new();
    let plugin =
        Guest::new().tool("finish", Behaviour::Terminate("bye".into())).tool("go-on", Behaviour::Fine("more".into()));
    let plugin = plugin.save(&home.root().join("ends.wasm")).to_string_lossy().into_owned();
    let run = home.play(
        json!([
            { "calls": [{ "name": "finish", "arguments": {} }, { "name": "go-on", "arguments": {} }] },
            { "calls": [{ "name": "finish", "arguments": {} }, { "name": "finish", "arguments": {} }] },
            { "text": "never asked" }
        ]),
        &["--plugin", &plugin],
    );
    let run = run.ok();
    assert!(!run.stdout.contains("never asked"), "{run}");
    assert_eq!(run.events().iter().filter(|event| event["type"] == "turn_start").count(), 2);
}

#[test]
fn what_was_asked_is_kept_as_it_was_sent_and_results_in_order() {
    let home = Home::new();
    batch(
        &home,
        json!([
            { "id": "slow", "name": "bash", "arguments": { "command": "sleep 0.3; echo slow" } },
            { "id": "quick", "name": "bash", "arguments": { "command": "echo quick" } }
        ]),
    );
    let results: Vec<String> = Home::messages(&home.session())
        .into_iter()
        .filter(|message| message["role"] == "toolResult")
        .filter_map(|message| message["toolCallId"].as_str().map(str::to_owned))
        .collect();
    // In the file as they came; a kill in between would lose nothing.
    assert_eq!(results, ["quick", "slow"]);
    let model = home.scripted(json!([{ "expect": { "messages": 6 }, "text": "x" }]));
    home.pith(&["--model", &model, "-c", "-p", "go on"]).ok();
}

#[test]
fn bytes_that_are_no_text_stop_nothing() {
    let home = Home::new();
    home.write("bin", b"\0\x01\xff\xfe");
    check(&home, "bash", json!({ "command": "printf 'a\\377\\000b\\033[2Jc'" }), "a");
    check_error(&home, "read", json!({ "path": "bin" }), "binary");
    check(&home, "grep", json!({ "pattern": "x" }), "");
}

#[test]
fn a_tools_endless_words_are_cut_and_kept_whole_elsewhere() {
    let words = "0123456789abcde\n".repeat(64 << 10);
    let home = Home::new();
    let plugin = Guest::new().tool("talk", Behaviour::Fine(words.clone())).save(&home.root().join("talks.wasm"));
    let run = home
        .play(
            json!([{ "calls": [{ "id": "c", "name": "talk", "arguments": {} }] }, { "text": "done" }]),
            &["--plugin", &plugin.to_string_lossy()],
        )
        .ok();
    let (text, is_error) = run.result("c");
    assert!(!is_error && text.len() < 80 << 10, "{} bytes: {}", text.len(), &text[..text.len().min(300)]);
    assert!(
        text.starts_with("0123456789abcde") && text.contains("1048576 bytes in all"),
        "head, tail and size are told"
    );
    let place = text.rsplit("the whole is in ").next().unwrap_or_default().trim_end_matches(']').to_owned();
    assert_eq!(std::fs::read_to_string(&place).unwrap_or_else(|error| panic!("{place}: {error}")), words);
    // The model can read it there.
    let model = home.scripted(
        json!([{ "calls": [{ "id": "r", "name": "read", "arguments": { "path": place } }] }, { "text": "done" }]),
    );
    let run = home.pith(&["--mode", "json", "-c", "--model", &model, "go on"]).ok();
    assert!(run.result("r").0.contains("0123456789abcde"), "{run}");
}

#[test]
fn many_calls_of_one_reply_are_all_answered() {
    let home = Home::new();
    let plugin = Guest::new().tool("fine", Behaviour::Echo).save(&home.root().join("mine.wasm"));
    let calls: Vec<Value> =
        (0..200).map(|n| json!({ "id": format!("c{n}"), "name": "fine", "arguments": { "n": n } })).collect();
    let run = home.play(json!([{ "calls": calls }, { "text": "done" }]), &["--plugin", &plugin.to_string_lossy()]).ok();
    for n in 0..200 {
        assert_eq!(run.result(&format!("c{n}")), (format!("{{\"n\":{n}}}"), false));
    }
}

#[test]
fn arguments_that_two_readers_could_read_differently_are_not_run() {
    let home = Home::new();
    let plugin = Guest::new().tool("fine", Behaviour::Echo).save(&home.root().join("mine.wasm"));
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
    let bad = [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1e999}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":9007199254740993}"#,
        &deep,
        r#"[1]"#,
        r#"{"a":1} {"a":2}"#,
        r#"{"a":NaN}"#,
    ];
    let calls: Vec<Value> = bad
        .iter()
        .enumerate()
        .map(|(n, text)| json!({ "id": format!("c{n}"), "name": "fine", "arguments_text": text }))
        .collect();
    let run = home.play(json!([{ "calls": calls }, { "text": "done" }]), &["--plugin", &plugin.to_string_lossy()]).ok();
    for (n, text) in bad.iter().enumerate() {
        let (result, is_error) = run.result(&format!("c{n}"));
        assert!(is_error, "{text} was run: {result}");
    }
}

/// A plugin has at most eight programs running: the others of a reply wait for their turn.
#[test]
fn twelve_commands_of_one_reply_all_run() {
    let home = Home::new();
    let calls: Vec<Value> = (0..12)
        .map(|number| json!({ "id": format!("c{number}"), "name": "bash", "arguments": { "command": format!("sleep 0.1; echo {number}") } }))
        .collect();
    let run = home.play(json!([{ "calls": calls }, { "text": "done" }]), &[]).ok();
    for number in 0..12 {
        let (text, is_error) = run.result(&format!("c{number}"));
        assert_eq!((text.trim(), is_error), (number.to_string().as_str(), false));
    }
}

/// A name that is no UTF-8 costs itself, not the listing.
#[test]
fn names_that_are_no_text_are_counted_and_the_rest_is_listed() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let home = Home::new();
    for name in [&b"a.txt"[..], b"bad\xff.txt", b"worse\xfe\xff", b"z.txt"] {
        std::fs::write(home.work().join(OsStr::from_bytes(name)), "x").expect("it can be written");
    }
    let run =
        home.play(json!([{ "calls": [{ "id": "l", "name": "ls", "arguments": {} }] }, { "text": "done" }]), &[]).ok();
    let (text, is_error) = run.result("l");
    assert!(!is_error && text.starts_with("a.txt\nz.txt\n") && text.contains("2 names"), "{text}");
}
