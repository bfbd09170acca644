//! Guests whose answers are not what their contract says.

use crate::arena::{case, hostile, usual};
use pith_core::Tools;
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_that_are_none() {
    for (deed, n) in [
        ("words", 0),
        ("deep", 100_000),
        ("deep-objects", 100_000),
        ("open", 1_000_000),
        ("duplicate", 0),
        ("surrogate", 0),
        ("huge-number", 0),
        ("inexact", 0),
    ] {
        case(&format!("details and structured output: {deed}"), &[usual()], async |arena| {
            for tool in ["details", "structured"] {
                arena.fault(tool, json!({ "deed": deed, "n": n }), "not the JSON of the contract").await;
            }
        })
        .await;
    }
    for (deed, n) in [("long", 10 << 20), ("many", 2_000_000)] {
        case(&format!("details of megabytes: {deed}"), &[usual()], async |arena| {
            let (text, _) = arena.call("details", json!({ "deed": deed, "n": n })).await;
            assert!(!text.contains("ddd"), "{}", crate::arena::short(&text));
        })
        .await;
    }
}

/// What the plugin says of its tools, and what the host makes of it; loading is a part of the case.
async fn specs(deed: &str, words: &[&str], offered: &[&str]) {
    case(&format!("specs: {deed}"), &[], async |arena| {
        let plugin = hostile(Duration::from_secs(5), json!({ "specs": deed }));
        let cache = tempfile::tempdir().unwrap();
        let path = cache.path().join("compiled");
        let loading = tokio::task::spawn_blocking(move || pith_tests::Bench::load(vec![plugin], &path));
        let bench = loading.await.unwrap().expect("it loads without its tools");
        let names: Vec<String> = bench.host.offered().iter().map(|tool| tool.spec.name.clone()).collect();
        let told: String = bench.host.notices().iter().map(|notice| notice.text.clone() + "\n").collect();
        for word in words {
            assert!(told.contains(word), "{word}: {}", crate::arena::short(&told));
        }
        assert!(told.len() < 20_000 || deed == "refuse", "{} bytes of notices", told.len());
        assert!(!told.contains('\u{1b}'), "{told}");
        assert_eq!(names.iter().map(String::as_str).take(3).collect::<Vec<_>>(), offered, "{told}");
        assert!(names.len() <= pith_plugin::limits::TOOLS);
        drop(bench);
        arena.fine("ls", json!({}), "bystander.txt").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tools_say_of_themselves() {
    specs("loop", &["exceeded its deadline of 5 s"], &[]).await;
    specs("sleep", &["exceeded its deadline of 5 s"], &[]).await;
    specs("panic", &["trapped"], &[]).await;
    specs("allocate", &["ran out of memory"], &[]).await;
    specs("refuse", &["refused"], &[]).await;
    specs("flood", &["gave more than 16 MiB at once"], &[]).await;
    specs("many", &["more than 64 tools"], &["tool-0", "tool-1", "tool-2"]).await;
    let words = [
        "a name is a-z",
        "reserved",
        "its description is longer",
        "its label is longer",
        "more than 5 guidelines",
        "a guideline is longer",
        "nested deeper",
        "refers to something outside itself",
        "not one of an object",
        "not the JSON of the contract",
    ];
    specs("lies", &words, &["honest"]).await;
}

/// Hostile case 7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_collide() {
    use pith_plugin::Limits;
    use pith_tests::{Behaviour, Guest, plugin_source};
    let named = |plugin: &str, tool: &str| {
        let guest = Guest::new().tool(tool, Behaviour::Fine(plugin.to_owned()));
        plugin_source(plugin, guest.component(), &["tools"], Limits::default())
    };
    let plugins = [named("first", "read-file"), named("second", "read_file"), named("third", "read")];
    case("names that collide", &plugins, async |arena| {
        arena.fine("read-file", json!({}), "first").await;
        let (text, is_error) = arena.call("read_file", json!({})).await;
        assert!(is_error && text.contains("not found"), "{text}");
        // The shipped tool stood there first.
        arena.fine("read", json!({ "path": "bystander.txt" }), "nothing to see").await;
        let told: Vec<&str> = arena.bench.host.notices().iter().map(|notice| notice.plugin.as_str()).collect();
        assert_eq!(told, ["second", "third"]);
    })
    .await;
}
