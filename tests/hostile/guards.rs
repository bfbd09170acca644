//! Gates and filters that fail, or say too much. A guard that fails guards.

use crate::arena::{Arena, case, said};
use pith_plugin::{Limits, PluginSource};
use pith_tests::{Behaviour, Guest, plugin_source};
use serde_json::{Value, json};

fn gate(does: Behaviour) -> PluginSource {
    plugin_source("guard", Guest::new().gate(does).component(), &["tool-gate"], Limits::default())
}

fn filter(does: Behaviour) -> PluginSource {
    plugin_source("guard", Guest::new().filter(does).component(), &["tool-filter"], Limits::default())
}

/// Three failures, and what comes after them: nothing runs in any of ten calls of a session.
async fn nothing_passes(arena: &Arena, words: &str) {
    let session = arena.bench.beside("guarded");
    for n in 0..10 {
        let (text, is_error) = said(&session, "write", json!({ "path": "ran", "content": "x" })).await;
        let expected = if n < 3 { words } else { "disabled after 3 faults" };
        assert!(is_error && text.contains("guard") && text.contains(expected), "call {n}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gates_that_fail() {
    for (name, does, words) in [
        ("a gate that traps", Behaviour::Trap, "trapped"),
        ("a gate that loops", Behaviour::Loop, "deadline of 1 s"),
        ("a gate that takes all memory", Behaviour::Memory, "ran out of memory"),
        ("a gate that recurses", Behaviour::Recurse, "overflowed its stack"),
        ("a gate that takes all table elements", Behaviour::Table, "table elements"),
        ("a gate whose reason has 2 GB", Behaviour::Lie, ""),
    ] {
        // The bystander is guarded too, so it stands beside the case and is not in it.
        alone(name, gate(does), async |arena| {
            nothing_passes(arena, words).await;
            assert!(!arena.work().join("ran").exists());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_fail() {
    for (name, does, words) in [
        ("a filter that traps", Behaviour::Trap, "trapped"),
        ("a filter that loops", Behaviour::Loop, "deadline of 1 s"),
        ("a filter that takes all memory", Behaviour::Memory, "ran out of memory"),
        ("a filter whose output has 2 GB", Behaviour::Lie, ""),
    ] {
        alone(name, filter(does), async |arena| nothing_passes(arena, words).await).await;
    }
}

/// Hostile case 1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_made_to_trap() {
    let plugin = gate(Behaviour::TrapAbove(1_000_000, "not this".to_owned()));
    alone("a gate that traps on a megabyte, three times", plugin, async |arena| {
        let session = arena.bench.beside("guarded");
        let write = |content: String| json!({ "path": "ran", "content": content });
        assert!(said(&session, "write", write("x".to_owned())).await.0.contains("not this"));
        for _ in 0..3 {
            assert!(said(&session, "write", write("x".repeat(1_100_000))).await.0.contains("trapped"));
        }
        let (text, is_error) = said(&session, "write", write("x".to_owned())).await;
        assert!(is_error && text.contains("disabled after 3 faults"), "{text}");
        assert!(!arena.work().join("ran").exists());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_says_it_all() {
    alone("a gate whose reason is the 8 MB that it was shown", gate(Behaviour::DenyInput), async |arena| {
        let content = "\u{1b}[2J\n".repeat(1 << 20);
        let (text, is_error) = arena.call("write", json!({ "path": "ran", "content": content })).await;
        assert!(is_error && text.len() < 2_000, "{} bytes", text.len());
        assert!(!text.contains('\u{1b}') && !arena.work().join("ran").exists(), "{text:?}");
    })
    .await;
}

/// A case whose plugins stand in a host of their own, where the bystander is not.
async fn alone(name: &str, plugin: PluginSource, body: impl AsyncFn(&Arena)) {
    case(name, &[], async |beside| {
        let shipped = pith_tests::shipped_sources().into_iter().filter(|plugin| plugin.name == "files");
        let own = beside.with(shipped.chain([plugin.clone()]).collect());
        body(&own).await;
        assert!(own.call("no-such-tool", Value::Null).await.1);
    })
    .await;
}
