//! Many calls at once: the pool, what serves when it is exhausted, and the queue of a plugin.

use crate::{
    guests::{Tool, WAIT, WAIT_IMPORTS, WAIT_WORLD},
    house::{House, said},
};
use futures::future::join_all;
use serde_json::json;
use std::time::Duration;

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

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn five_plugins() -> House {
    let mut house = House::new();
    for name in NAMES {
        house.add(name, waiting(name), &["tools"]);
    }
    house
}

/// Waits until so many calls run at once.
async fn running(house: &House, count: usize) {
    let all_run = async {
        while house.log.all().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all_run).await.expect("so many run at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn past_the_pool_calls_are_served_on_demand() {
    let house = five_plugins();
    let host = house.load().unwrap();
    let talks = [house.session("one"), house.session("two")];
    let calls = talks.iter().flat_map(|talk| (0..8).flat_map(|_| NAMES).map(|name| talk.call(&host, name, json!({}))));
    let all_run = async {
        running(&house, 80).await;
        talks.iter().for_each(|talk| talk.cancel.cancel());
    };
    let (outcomes, ()) = tokio::join!(join_all(calls), all_run);
    assert!(outcomes.iter().all(|outcome| said(outcome) == "aborted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sixty_fifth_call_of_a_session_waits_and_other_sessions_do_not() {
    let house = five_plugins();
    let host = house.load().unwrap();
    let (talk, other) = (house.session("one"), house.session("two"));
    let calls = (0..13).flat_map(|_| NAMES).map(|name| talk.call(&host, name, json!({})));
    let others = async {
        running(&house, 64).await;
        let last = async {
            running(&house, 65).await;
            other.cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(other.call(&host, "a", json!({})), last);
        assert_eq!(said(&outcome), "aborted");
        let so_far = house.log.all().len();
        talk.cancel.cancel();
        so_far
    };
    let (outcomes, ran) = tokio::join!(join_all(calls), others);
    assert_eq!((outcomes.len(), ran), (65, 65), "64 of the one session, one of the other");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_seventeenth_call_of_a_plugin_waits_for_a_place() {
    let house = House::with(&[("mine", waiting("wait"), &["tools"])]);
    let host = house.load().unwrap();
    let (talk, other) = (house.session("one"), house.session("two"));
    let sixteen = join_all((0..16).map(|_| talk.call(&host, "wait", json!({}))));
    let seventeenth = async {
        running(&house, 16).await;
        let call = other.call(&host, "wait", json!({}));
        tokio::pin!(call);
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut call).await.is_err());
        assert_eq!(house.log.all().len(), 16, "it waits");
        talk.cancel.cancel();
        let cancel = async {
            running(&house, 17).await;
            other.cancel.cancel();
        };
        tokio::join!(call, cancel).0
    };
    let (outcomes, last) = tokio::join!(sixteen, seventeenth);
    assert!(outcomes.iter().chain([&last]).all(|outcome| said(outcome) == "aborted"));
}

/// Its deadline runs while it waits. That is not its plugin's fault, so it never disables it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_gets_no_place_in_time_fails_without_a_strike() {
    let mut house = five_plugins();
    house.plugins[4].limits.tool_deadline = Duration::from_millis(50);
    let host = house.load().unwrap();
    let talk = house.session("one");
    let others = join_all((0..16).flat_map(|_| &NAMES[..4]).map(|name| talk.call(&host, name, json!({}))));
    let late = async {
        running(&house, 64).await;
        for _ in 0..4 {
            let told = said(&talk.call(&host, "e", json!({})).await);
            assert_eq!(told, "fault tools.call: exceeded its deadline of 50 ms in the queue of its calls");
        }
        talk.cancel.cancel();
    };
    tokio::join!(others, late);
    assert_eq!(house.log.all().len(), 64);
}
