//! Guests that use up everything, or give too much of it.

use crate::arena::{case, usual};
use futures::future::join_all;
use pith_core::RESULT_TEXT_LIMIT_BYTES;
use pith_os::SPOOL_LIMIT_BYTES;
use pith_plugin::limits::{CHILDREN, CHUNK_BYTES, PROCESS_KEEP_BYTES};
use pith_plugin::{Limits, PluginSource};
use pith_tests::{Behaviour, Guest, plugin_source};
use serde_json::{Value, json};

async fn fault(name: &str, tool: &str, input: Value, words: &str) {
    case(name, &[usual()], async |arena| {
        arena.fault(tool, input.clone(), words).await;
        arena.fine("fine", json!({}), "fine").await;
    })
    .await;
}

async fn fine(name: &str, tool: &str, input: Value, words: &str) {
    case(name, &[usual()], async |arena| arena.fine(tool, input.clone(), words).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_stack_and_tables() {
    fault("memory without end", "allocate", json!({}), "ran out of memory (limit 64 MiB)").await;
    // Of a Rust guest the stack in its memory ends first.
    fault("recursion without end, of frames in memory", "recurse", json!({}), "out of bounds memory access").await;
    let deep = Guest::new().tool("deep", Behaviour::Recurse).component();
    case("recursion without end", &[plugin_source("deep", deep, &["tools"], Limits::default())], async |arena| {
        arena.fault("deep", json!({}), "overflowed its stack").await;
    })
    .await;
    let table =
        plugin_source("table", Guest::new().tool("table", Behaviour::Table).component(), &["tools"], Limits::default());
    case("table elements without end", &[table], async |arena| {
        arena.fault("table", json!({}), "used more than 100000 table elements").await;
    })
    .await;
    case("memory without end, on all sixteen places", &[usual()], async |arena| {
        // Two by two: what sixteen may have together is a gigabyte, which is the user's to grant.
        for _ in 0..8 {
            join_all((0..2).map(|_| arena.fault("allocate", json!({}), "ran out of memory"))).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_that_are_no_answer() {
    fault("a trap", "trap", json!({}), "trapped").await;
    fault("a panic with a megabyte of words", "panic", json!({ "n": 1 << 20 }), "trapped").await;
    fault("an exit with a code", "exit", json!({ "n": 7 }), "left with exit code").await;
    fault("an exit with success", "exit", json!({ "n": 0 }), "left with exit code 0").await;
    case("a thousand traps", &[usual()], async |arena| {
        for _ in 0..1_000 {
            arena.fault("trap", json!({}), "trapped").await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_for_nobody() {
    fine("64 MiB on standard output", "stdout", json!({ "n": 1_000 }), "written").await;
    fine("64 MiB on standard error", "stderr", json!({ "n": 1_000 }), "written").await;
    fault("64 MiB on standard error, then a panic", "stderr", json!({ "n": 1_000, "deed": "panic" }), "trapped").await;
    fine("9,000 lines for the log", "log", json!({ "n": 9_000 }), "logged").await;
    fault("10,001 lines for the log", "log", json!({ "n": 10_001 }), "called the host more than 10000 times").await;
    fine("60 MiB of progress", "progress", json!({ "n": 60 }), "shown").await;
    fault("80 MiB of progress", "progress", json!({ "n": 80 }), "gave the host more than 64 MiB").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_too_long() {
    case("a result of 10 MiB", &[usual()], async |arena| {
        let (text, is_error) = arena.call("result", json!({ "n": 10 << 20 })).await;
        assert!(!is_error && text.len() < RESULT_TEXT_LIMIT_BYTES + 500, "{}", text.len());
        assert!(text.contains("10485760 bytes in all"), "{}", &text[text.len() - 200..]);
    })
    .await;
    fault("a result of 17 MiB", "result", json!({ "n": 17 << 20 }), "gave more than 16 MiB at once").await;
    case("a refusal of 10 MiB", &[usual()], async |arena| {
        let (text, is_error) = arena.call("refusal", json!({ "n": 10 << 20 })).await;
        assert!(is_error && text.len() < RESULT_TEXT_LIMIT_BYTES + 500, "{}", text.len());
    })
    .await;
    fine("100,000 empty blocks", "blocks", json!({ "n": 100_000 }), "").await;
    fault("2,000,000 empty blocks", "blocks", json!({ "n": 2_000_000 }), "").await;
    fine("a picture of 10 MiB", "picture", json!({ "n": 10 << 20 }), "see").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_the_host() {
    fault("17 MiB in one host call", "hostcall", json!({ "n": 17 << 20 }), "gave more than 16 MiB at once").await;
    fine("10,000 host calls", "hostcalls", json!({ "n": 10_000 }), "called").await;
    fault("10,001 host calls", "hostcalls", json!({ "n": 10_001 }), "called the host more than 10000 times").await;
    case("more open files than resources", &[usual()], async |arena| {
        std::fs::write(arena.work().join("file"), "x").unwrap();
        arena.fine("handles", json!({ "n": 900, "path": "file" }), "900 open").await;
        arena.fault("handles", json!({ "n": 1_100, "path": "file" }), "held more than 1000 host resources").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_of_a_session() {
    for (name, input, words) in [
        ("1,001 entries of state", json!({ "n": 1_001, "path": "10" }), "at most 1000 entries"),
        ("1,001 kinds of state", json!({ "n": 1_001, "path": "10", "deed": "kinds" }), "at most 1000 entries"),
        ("one entry of more than 256 KiB", json!({ "n": 1, "path": "262143" }), "at most 256 KiB"),
        ("more than 16 MiB of state", json!({ "n": 70, "path": "262142" }), "at most 16 MiB"),
        ("state nested 100,000 deep", json!({ "n": 1, "path": "100000", "deed": "deep" }), "no JSON"),
        ("state that is no JSON", json!({ "n": 1, "deed": "no-json" }), "no JSON"),
    ] {
        case(name, &[usual()], async |arena| {
            let (text, is_error) = arena.call("state", input.clone()).await;
            assert!(is_error && text.contains(words), "{name}: {text}");
        })
        .await;
    }
    case("16 MiB of state in one session, then more", &[usual()], async |arena| {
        let session = arena.bench.beside("full");
        let input = json!({ "n": 60, "path": "262142" });
        assert!(!crate::arena::said(&session, "state", input.clone()).await.1);
        let (text, is_error) = crate::arena::said(&session, "state", input).await;
        assert!(is_error && text.contains("at most 16 MiB"), "{text}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs() {
    case("a ninth program of one call", &[usual()], async |arena| {
        let (text, is_error) = arena.call("spawn", json!({ "n": CHILDREN + 1, "path": "sleep 1000" })).await;
        assert!(is_error && text.contains("at most 8 programs"), "{text}");
        arena.fine("spawn", json!({ "n": CHILDREN, "path": "sleep 1000" }), "8 run").await;
    })
    .await;
    case("100 MB of a program's output", &[usual()], async |arena| {
        let (text, is_error) = arena.call("chunks", json!({ "path": "head -c 100000000 /dev/zero" })).await;
        let words: Vec<&str> = text.split(' ').collect();
        let longest: usize = words[0].parse().unwrap_or_else(|_| panic!("{text}"));
        assert!(!is_error && longest <= CHUNK_BYTES + pith_os::CHUNK_BYTES && words[1] == "100000000", "{text}");
        assert!(spooled(&arena.bench.spool()) <= SPOOL_LIMIT_BYTES + 1_000);
    })
    .await;
    case("100 MB of a program's output, kept", &[usual()], async |arena| {
        let (text, is_error) = arena.call("run", json!({ "path": "head -c 100000000 /dev/zero" })).await;
        let kept: usize = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"));
        assert!(!is_error && kept <= PROCESS_KEEP_BYTES + 200, "{text}");
        assert!(spooled(&arena.bench.spool()) <= SPOOL_LIMIT_BYTES + 1_000);
    })
    .await;
    case("output without end until the timeout", &[usual()], async |arena| {
        let (text, is_error) = arena.call("run", json!({ "path": "yes", "n": 500 })).await;
        assert!(!is_error, "{text}");
        assert!(spooled(&arena.bench.spool()) <= SPOOL_LIMIT_BYTES + 1_000);
    })
    .await;
}

fn spooled(folder: &std::path::Path) -> u64 {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_granted() {
    let bare: PluginSource =
        PluginSource { grants: vec!["tools".parse().unwrap(), "process=bash".parse().unwrap()], ..usual() };
    case("surroundings, network and programs by the standard library", &[bare], async |arena| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        arena.fine("surroundings", json!({}), "0 variables, 0 arguments").await;
        let (text, _) = arena.call("network", json!({ "path": address })).await;
        assert_eq!(text.trim_end(), "worked:");
        arena.fine("program", json!({}), "did not run").await;
        arena.fine("path", json!({ "deed": "read", "path": "/etc/passwd" }), "error").await;
    })
    .await;
}
