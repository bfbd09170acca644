//! `--plugin` and what it grants, what is refused at load, and the cache of compiled code.

use pith_tests::{Behaviour, Guest, Home, case};
use serde_json::json;
use std::{fs, path::PathBuf};

/// A home with a guest's component in it.
fn with(guest: &Guest) -> (Home, String) {
    let home = Home::new();
    let file = guest.save(&home.root().join("mine.wasm"));
    (home, file.to_string_lossy().into_owned())
}

/// A start that is refused, and says this.
#[track_caller]
fn refused(home: &Home, plugin: &str, says: &str) {
    let model = home.scripted(json!([{ "text": "never" }]));
    let run = home.pith(&["--plugin", plugin, "--model", &model, "-p", "go"]).exits(2);
    let run = run.says(says);
    assert!(!run.stdout.contains("never") && home.sessions().is_empty(), "{run}");
}

#[test]
fn naming_a_plugin_offers_its_tools_beside_the_shipped_ones() {
    let (home, plugin) = with(&Guest::new().tool("shout", Behaviour::Echo));
    let run = home
        .play(
            json!([
                { "expect": { "tools": ["shout", "read", "bash"] }, "calls": [{ "id": "c", "name": "shout", "arguments": { "b": 1, "a": [true, null] } }] },
                { "text": "done" }
            ]),
            &["--plugin", &plugin],
        )
        .ok();
    // What the tool got is the canonical form.
    assert_eq!(run.result("c"), (r#"{"a":[true,null],"b":1}"#.to_owned(), false), "{run}");
}

#[test]
fn naming_a_plugin_puts_its_gate_before_every_call() {
    let (home, plugin) = with(&Guest::new().gate(Behaviour::Deny("not on my watch".into())));
    home.write("a.txt", "alpha");
    let run = home
        .play(
            json!([
                { "calls": [{ "id": "c", "name": "read", "arguments": { "path": "a.txt" } }] },
                { "expect": { "result_is_error": true, "last_result_contains": ["mine", "not on my watch"] }, "text": "done" }
            ]),
            &["--plugin", &plugin],
        )
        .ok();
    assert!(!run.stdout.contains("\"alpha"), "{run}");
    let verdict = run.events().into_iter().find(|event| event["type"] == "gate_verdict").expect("a verdict");
    assert_eq!((&verdict["plugin"], &verdict["reason"]), (&json!("mine"), &json!("not on my watch")));
}

#[test]
fn a_gate_sees_the_very_bytes_that_the_tool_gets() {
    // Spaces, order, escapes, a number in exponent form, and a string where the schema wants a number: one canonical form for all.
    let text = r#"{ "limit" : "2", "path":"\u0061.txt",  "offset": 1.0e0 }"#;
    let canonical = r#"{"limit":2,"offset":1,"path":"a.txt"}"#;
    let (home, plugin) = with(&Guest::new().gate(Behaviour::DenyInput));
    let call = json!([{ "calls": [{ "id": "c", "name": "read", "arguments_text": text }] }, { "text": "done" }]);
    let run = home.play(call, &["--plugin", &plugin]).ok();
    let verdict = run.events().into_iter().find(|event| event["type"] == "gate_verdict").expect("a verdict");
    assert_eq!(verdict["reason"], canonical);
    let (home, plugin) = with(&Guest::new().tool("echo", Behaviour::Echo));
    let call = json!([{ "calls": [{ "id": "c", "name": "echo", "arguments_text": text.replace("\"2\"", "2") }] }, { "text": "done" }]);
    assert_eq!(home.play(call, &["--plugin", &plugin]).ok().result("c").0, canonical);
}

#[test]
fn a_filter_sees_results_where_it_was_granted() {
    let filter = Guest::new().filter(Behaviour::Fine("replaced".into()));
    let (home, plugin) = with(&filter);
    home.write("a.txt", "alpha");
    let call = || json!([{ "calls": [{ "id": "c", "name": "read", "arguments": { "path": "a.txt" } }] }, { "expect": { "last_result_contains": ["replaced"] }, "text": "done" }]);
    // Naming the file does not grant it: results are more than gates may see.
    refused(&home, &plugin, "--grant mine:tool-filter");
    let run = home.play(call(), &["--plugin", &plugin, "--grant", "mine:tool-filter"]).ok();
    assert_eq!(run.result("c").0, "replaced", "{run}");
    assert!(!std::fs::read_to_string(home.session()).expect("it is there").contains("alpha"));
}

#[test]
fn a_filter_that_fails_withholds_the_result() {
    for does in [Behaviour::Trap, Behaviour::Memory, Behaviour::Refuse("no".into())] {
        let (home, plugin) = with(&Guest::new().filter(does.clone()));
        home.write("a.txt", "alpha");
        let call = json!({ "calls": [{ "name": "read", "arguments": { "path": "a.txt" } }] });
        let run = home
            .play(
                json!([call, call, call, call, call, { "text": "done" }]),
                &["--plugin", &plugin, "--grant", "mine:tool-filter"],
            )
            .ok();
        let results = run.results();
        assert_eq!(results.len(), 5);
        assert!(
            results.iter().all(|(_, text, is_error)| *is_error && !text.contains("alpha") && text.contains("withheld")),
            "{does:?}: {run}"
        );
    }
}

#[test]
fn processes_that_start_together_share_an_empty_cache() {
    let home = Home::with_cold_cache();
    home.write("a.txt", "alpha");
    let runs: Vec<_> = (0..4)
        .map(|_| {
            let model = home.scripted(json!([{ "calls": [{ "id": "c", "name": "read", "arguments": { "path": "a.txt" } }] }, { "text": "done" }]));
            home.start(&["--mode", "json", "--model", &model, "go"])
        })
        .collect();
    for run in runs {
        let run = run.finish().ok();
        assert_eq!(run.result("c").0, "alpha", "{run}");
    }
    assert_eq!(home.sessions().len(), 4);
}

#[test]
fn a_gate_that_asks_is_denied_where_nobody_can_answer() {
    let (home, plugin) = with(&Guest::new().gate(Behaviour::Ask("may it?".into(), None)));
    home.write("a.txt", "alpha");
    let run = home
        .play(
            json!([{ "calls": [{ "id": "c", "name": "read", "arguments": { "path": "a.txt" } }] }, { "text": "done" }]),
            &["--plugin", &plugin],
        )
        .ok();
    let (text, is_error) = run.result("c");
    assert!(is_error && text.contains("may it?") && !text.contains("alpha"), "{text}");
}

#[test]
fn a_gate_that_refuses_to_judge_blocks() {
    let (home, plugin) = with(&Guest::new().gate(Behaviour::Refuse("no opinion".into())));
    let run = home
        .play(
            json!([{ "calls": [{ "id": "c", "name": "ls", "arguments": {} }] }, { "text": "done" }]),
            &["--plugin", &plugin],
        )
        .ok();
    assert!(run.result("c").1, "{run}");
}

#[test]
fn what_is_no_component_is_refused_by_content() {
    let home = Home::new();
    let file = |name: &str, bytes: &[u8]| home.beside(name, bytes).to_string_lossy().into_owned();
    let guest = Guest::new().tool("mine", Behaviour::Echo);
    let component = guest.component();
    refused(&home, &file("core.wasm", &guest.core_module()), "core");
    refused(&home, &file("text.wasm", b"(component)"), "component");
    refused(&home, &file("empty.wasm", b""), "component");
    refused(&home, &file("half.wasm", &component[..component.len() / 2]), "half");
    refused(&home, &file("junk.wasm", &[b"\0asm\x0d\0\x01\0".as_slice(), &[0xff; 64]].concat()), "junk");
    refused(&home, &home.root().join("none.wasm").to_string_lossy(), "none.wasm");
    refused(&home, &home.work().to_string_lossy(), "work");
    let fifo = home.root().join("fifo.wasm");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    refused(&home, &fifo.to_string_lossy(), "fifo");
}

#[test]
fn precompiled_code_is_refused_whatever_it_is_called() {
    // The cache itself has some.
    let home = Home::with_cold_cache();
    let model = home.scripted(json!([{ "text": "hi" }]));
    home.pith(&["--model", &model, "-p", "go"]).ok();
    let native = files_beneath(&home.root().join("cache"))
        .into_iter()
        .filter(|file| fs::read(file).is_ok_and(|bytes| bytes.windows(4).take(64).any(|window| window == b"\x7fELF")));
    let native: Vec<PathBuf> = native.collect();
    assert!(!native.is_empty(), "the cache has compiled code");
    for (number, file) in native.iter().take(1).enumerate() {
        let bytes = fs::read(file).expect("it is there");
        let start = bytes.windows(4).position(|window| window == b"\x7fELF").expect("just found");
        let plugin = home.beside(&format!("native-{number}.wasm"), &bytes[start..]);
        let model = home.scripted(json!([{ "text": "never" }]));
        let run = home.pith(&["--plugin", &plugin.to_string_lossy(), "--model", &model, "-p", "go"]).exits(2);
        run.says("precompiled");
    }
}

#[test]
fn an_import_that_nobody_serves_is_refused_by_name() {
    for name in ["rust-wasip2-rustup", "c-clang19", "zig", "assemblyscript"] {
        let home = Home::new();
        refused(&home, &case(&format!("components/{name}.wasm")).to_string_lossy(), "log");
    }
}

#[test]
fn an_ungranted_import_does_not_start() {
    for (import, argument) in [("dialog", "--grant mine:dialog"), ("process", "--grant mine:process=")] {
        let (home, plugin) = with(&Guest::new().tool("mine", Behaviour::Echo).import(import));
        refused(&home, &plugin, argument);
    }
    // Part of the contract, and not served yet: refused by name, grant or no grant.
    for import in ["ui", "agent"] {
        let (home, plugin) = with(&Guest::new().tool("mine", Behaviour::Echo).import(import));
        refused(&home, &plugin, &format!("pith:plugin/{import}"));
        let model = home.scripted(json!([{ "text": "never" }]));
        let run =
            home.pith(&["--plugin", &plugin, "--grant", &format!("mine:{import}"), "--model", &model, "-p", "go"]);
        run.exits(2).says(&format!("pith:plugin/{import}"));
    }
}

#[test]
fn two_plugins_of_one_name_and_a_reserved_tool_name() {
    let (home, plugin) = with(&Guest::new().tool("mine", Behaviour::Echo));
    let model = home.scripted(json!([{ "text": "never" }]));
    home.pith(&["--plugin", &plugin, "--plugin", &plugin, "--model", &model, "-p", "go"]).exits(2).says("mine");
    // A tool that takes a shipped one's name is left out by name; the start goes on, and the shipped one serves.
    let (home, plugin) =
        with(&Guest::new().tool("READ", Behaviour::Echo).tool("read", Behaviour::Echo).tool("other", Behaviour::Echo));
    home.write("a.txt", "alpha");
    let run = home
        .play(
            json!([{ "expect": { "tools": ["other"] }, "calls": [{ "id": "c", "name": "read", "arguments": { "path": "a.txt" } }] }, { "text": "done" }]),
            &["--plugin", &plugin],
        )
        .ok();
    assert_eq!(run.result("c").0, "alpha", "{run}");
    run.says("read");
}

#[test]
fn the_cache_is_private_and_a_changed_byte_in_it_is_never_run() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::with_cold_cache();
    home.write("a.txt", "alpha");
    let play = || {
        let run = home.play(json!([{ "calls": [{ "id": "c", "name": "read", "arguments": { "path": "a.txt" } }] }, { "text": "done" }]), &[]).ok();
        assert_eq!(run.result("c").0, "alpha", "{run}");
    };
    play();
    let files = files_beneath(&home.root().join("cache/pith"));
    assert!(!files.is_empty());
    for file in &files {
        let mode = fs::metadata(file.parent().expect("a folder")).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", file.display());
    }
    // One byte in the middle of each; then each cut in half; then all empty.
    for spoil in [
        |bytes: &mut Vec<u8>| {
            let middle = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(middle) {
                *byte ^= 1;
            }
        },
        |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2),
        |bytes: &mut Vec<u8>| bytes.clear(),
    ] {
        for file in files_beneath(&home.root().join("cache/pith")) {
            let mut bytes = fs::read(&file).expect("it is there");
            spoil(&mut bytes);
            fs::write(&file, bytes).expect("it can be written");
        }
        play();
    }
}

fn files_beneath(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_beneath(&path));
        } else {
            found.push(path);
        }
    }
    found
}
