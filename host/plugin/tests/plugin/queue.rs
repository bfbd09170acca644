//! Many calls at once: the pool, what serves when it is exhausted, and the queue of a plugin.

use crate::{
    guests::{Tool, WAIT, WAIT_IMPORTS, WAIT_WORLD},
    house::{House, said},
};
use futures::future::join_all;
use serde_json::json;
use std::time::{Duration, Instant};

/// Says in the log that it runs, then waits in the host for an hour.
fn waiting(name: &str) -> Vec<u8> {
    Tool {
        name,
        world: &format!("{WAIT_WORLD} import pith:plugin/log@0.1.0;"),
        imports: &format!(r#"{WAIT_IMPORTS} (import "pith:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#),
        body: &format!("(call $log (i32.const 0) (i32.const 256) (i32.const 4)) {WAIT} unreachable"),
        ..Tool::default()
    }
    .build()
}

#[tokio::test(flavor = "multi_thread")]
async fn past_the_pool_calls_are_served_on_demand() {
    let names = ["a", "b", "c", "d", "e"];
    let mut house = House::new();
    for name in names {
        house.add(name, waiting(name), &["tools"]);
    }
    let host = house.load().unwrap();
    let talk = house.session("one");
    let calls = join_all((0..16).flat_map(|_| names).map(|name| talk.call(&host, name, json!({}))));
    let all_run = async {
        while house.log.all().len() < 80 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        talk.cancel.cancel();
    };
    let limit = Duration::from_secs(20);
    let (outcomes, ()) =
        tokio::time::timeout(limit, async { tokio::join!(calls, all_run) }).await.expect("all 80 run at once");
    assert!(outcomes.iter().all(|outcome| said(outcome) == "aborted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_seventeenth_call_of_a_plugin_waits_within_its_deadline() {
    let mut house = House::new();
    house.add("mine", waiting("wait"), &["tools"]).limits.tool_deadline = Duration::from_millis(500);
    let host = house.load().unwrap();
    let talk = house.session("one");
    let began = Instant::now();
    let outcomes = join_all((0..17).map(|_| talk.call(&host, "wait", json!({})))).await;
    assert!(began.elapsed() < Duration::from_millis(700), "{:?}", began.elapsed());
    assert_eq!(house.log.all().iter().filter(|(_, line)| line == "done").count(), 16);
    let late = outcomes.iter().filter(|outcome| said(outcome).ends_with("in the queue of its calls")).count();
    let causes: Vec<String> = outcomes.iter().map(said).collect();
    assert!(late <= 1, "{causes:?}");
    assert!(
        causes.iter().all(|cause| cause.contains("exceeded its deadline of 500 ms") || cause.contains("disabled")),
        "{causes:?}"
    );
}
