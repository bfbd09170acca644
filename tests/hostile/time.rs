//! Guests that never come back.

use crate::arena::{case, hostile};
use futures::future::join_all;
use pith_plugin::{Limits, PluginSource};
use pith_tests::{Behaviour, Guest, plugin_source};
use serde_json::json;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_millis(400);

/// The hostile guest without folders: its calls run on the threads that everybody shares.
fn folderless() -> PluginSource {
    let mut plugin = hostile(DEADLINE, json!({}));
    plugin.grants.retain(|grant| !grant.to_string().starts_with("files"));
    plugin
}

async fn never_back(name: &str, plugin: PluginSource, tool: &str) {
    case(name, &[plugin], async |arena| {
        let began = Instant::now();
        arena.fault(tool, json!({}), "deadline of 400 ms").await;
        assert!(began.elapsed() < DEADLINE + Duration::from_secs(2), "{:?}", began.elapsed());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop() {
    never_back("a loop", hostile(DEADLINE, json!({})), "loop").await;
    never_back("a loop, without folders", folderless(), "loop").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_at_the_clock() {
    never_back("a loop that looks at the clock", hostile(DEADLINE, json!({})), "clock").await;
    never_back("a loop that looks at the clock, without folders", folderless(), "clock").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleep() {
    never_back("a sleep of eleven days", hostile(DEADLINE, json!({})), "sleep").await;
    never_back("a sleep of eleven days, without folders", folderless(), "sleep").await;
    never_back("naps of a nanosecond", hostile(DEADLINE, json!({})), "naps").await;
    never_back("naps of a nanosecond, without folders", folderless(), "naps").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_loops_as_a_plugin_may_have() {
    for (name, plugin) in
        [("sixteen loops", hostile(DEADLINE, json!({}))), ("sixteen loops, without folders", folderless())]
    {
        case(name, &[plugin], async |arena| {
            join_all((0..16).map(|_| arena.fault("loop", json!({}), "deadline"))).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_sleepers_at_once() {
    // The queue is the plugin's own: whoever does not call it waits for nobody.
    case("two hundred calls that sleep", &[folderless()], async |arena| {
        join_all((0..200).map(|_| arena.fault("sleep", json!({}), "deadline"))).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_of_a_loop() {
    case(
        "loops that are given up, a hundred times",
        &[hostile(DEADLINE, json!({})), tool_without_folders()],
        async |arena| {
            for tool in ["loop", "looping"] {
                for _ in 0..50 {
                    let call = arena.call(tool, json!({}));
                    assert!(tokio::time::timeout(Duration::from_millis(5), call).await.is_err());
                }
            }
        },
    )
    .await;
}

fn tool_without_folders() -> PluginSource {
    let guest = Guest::new().tool("looping", Behaviour::Loop);
    plugin_source("looping", guest.component(), &["tools"], Limits { tool_deadline: DEADLINE, ..Limits::default() })
}
