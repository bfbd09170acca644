//! Gates and filters: what a guard that fails guards does not pass.

use crate::{
    guests::{filter, gate},
    house::{House, Talk, canonical},
};
use pith_core::{Filtered, Hooks, Judgement, Stop, Verdict};
use pith_plugin::PluginHost;
use pith_protocol::{CallOrigin, Caller, Content, Image, ToolOutput};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn origin() -> CallOrigin {
    CallOrigin {
        caller: Caller::Model,
        plugin: None,
        served_by: "pith/shell".to_owned(),
        digest: None,
        parent_call_id: None,
        depth: 0,
        authorities: vec!["process=bash".to_owned()],
    }
}

async fn judge(host: &PluginHost, talk: &Talk, input: Value) -> Vec<Judgement> {
    host.judge(&canonical("bash", input), &origin(), talk.scope()).await
}

fn cause(verdict: &Result<Verdict, Stop>) -> &str {
    match verdict {
        Err(Stop::Fault(fault)) => &fault.cause,
        Err(Stop::Refused(refusal)) => &refusal.message,
        Ok(_) => "none",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_answer_in_their_order_each_for_itself() {
    let house = House::with(&[
        ("passes", gate("", "", "(call $pass)"), &["tool-gate"]),
        ("denies", gate("", "", "(call $deny)"), &["tool-gate"]),
        ("refuses", gate("", "", "(call $refuse (i32.const 4) (i32.const 256) (i32.const 4))"), &["tool-gate"]),
        ("traps", gate("", "", "unreachable"), &["tool-gate"]),
    ]);
    let host = house.load().unwrap();
    let talk = house.session("one");
    let judged = judge(&host, &talk, json!({ "command": "ls" })).await;
    let names: Vec<&str> = judged.iter().map(|judgement| judgement.plugin.as_str()).collect();
    assert_eq!(names, ["passes", "denies", "refuses", "traps"]);
    assert_eq!(judged[0].verdict, Ok(Verdict::Pass));
    assert_eq!(judged[1].verdict, Ok(Verdict::Deny("not so".to_owned())));
    assert_eq!(cause(&judged[2].verdict), "done");
    assert!(cause(&judged[3].verdict).starts_with("trapped"), "{:?}", judged[3].verdict);
    assert_eq!(judged[0].digest, host.plugins()[0].digest);
}

/// Hostile case 1: a gate that traps on long input is made to, three times; then comes the call that it would have denied.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_faults_three_times_denies_all() {
    let body = "(if (result i32) (i32.gt_u (call $length (local.get $call)) (i32.const 1000000)) (then unreachable) (else (call $pass)))";
    let house = House::with(&[("guard", gate("", "", body), &["tool-gate"])]);
    let host = house.load().unwrap();
    let mut talk = house.session("one");
    let small = json!({ "command": "rm -rf x" });
    assert_eq!(judge(&host, &talk, small.clone()).await[0].verdict, Ok(Verdict::Pass));
    let long = json!({ "command": "x".repeat(1_100_000) });
    for _ in 0..3 {
        assert!(cause(&judge(&host, &talk, long.clone()).await[0].verdict).starts_with("trapped"));
    }
    for _ in 0..10 {
        assert_eq!(cause(&judge(&host, &talk, small.clone()).await[0].verdict), "disabled after 3 faults");
    }
    let faults = talk.events().await;
    assert_eq!(faults.len(), 4, "three faults, and that it is out: {faults:?}");
    assert_eq!(faults[0]["export"], "tool-gate.before-call");
    // What it guards elsewhere is guarded as before.
    let other = house.session("two");
    assert_eq!(judge(&host, &other, small.clone()).await[0].verdict, Ok(Verdict::Pass));
    assert!(host.retry("guard"));
    assert_eq!(judge(&host, &talk, small).await[0].verdict, Ok(Verdict::Pass));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_loops_blocks_within_its_deadline_and_the_others_are_heard() {
    let house = House::with(&[
        ("looping", gate("", "", "(loop $on (br $on)) unreachable"), &["tool-gate"]),
        ("passes", gate("", "", "(call $pass)"), &["tool-gate"]),
    ]);
    let host = house.load().unwrap();
    let talk = house.session("one");
    let began = Instant::now();
    let judged = judge(&host, &talk, json!({})).await;
    let took = began.elapsed();
    assert_eq!(cause(&judged[0].verdict), "exceeded its deadline of 1 s");
    assert_eq!(judged[1].verdict, Ok(Verdict::Pass));
    assert!(took < Duration::from_millis(1100), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_was_not_granted_does_not_start() {
    let house = House::with(&[("guard", gate("", "", "(call $pass)"), &["tools"])]);
    let error = house.load().err().unwrap();
    assert_eq!(error.grant_arguments(), ["--grant guard:tool-gate"]);
}

async fn filtered(body: &str, output: ToolOutput) -> Filtered {
    let house = House::with(&[("filter", filter(body), &["tool-filter"])]);
    let host = house.load().unwrap();
    host.filter(&canonical("bash", json!({})), &origin(), output, house.session("one").scope()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_keeps_replaces_or_stops() {
    let image = Content::Image(Image { data: "AAAA".to_owned(), mime_type: "image/png".to_owned() });
    let output = ToolOutput { content: vec![Content::text("secret"), image], ..ToolOutput::default() };
    let kept = filtered("(call $keep)", output.clone()).await;
    assert!(matches!(&kept, Filtered::Output(kept) if *kept == output), "{kept:?}");
    let replaced = filtered("(call $replace)", output.clone()).await;
    assert!(matches!(&replaced, Filtered::Output(new) if new.content == [Content::text("done")]), "{replaced:?}");
    let refused = filtered("(call $refuse (i32.const 2) (i32.const 256) (i32.const 4))", output.clone()).await;
    assert!(matches!(&refused, Filtered::Stopped { stop: Stop::Refused(_), .. }), "{refused:?}");
    let trapped = filtered("unreachable", output).await;
    assert!(
        matches!(&trapped, Filtered::Stopped { stop: Stop::Fault(_), plugin } if plugin == "filter"),
        "{trapped:?}"
    );
}
