//! Guests that loop, exhaust, trap, recurse, flood: each costs its one call.

use crate::{
    guests::{Tool, WAIT, WAIT_IMPORTS, WAIT_WORLD, tool, when_asked},
    house::{House, said, soon},
};
use serde_json::json;
use std::time::{Duration, Instant};

/// Calls the hostile way, then the friendly one: the fault is told as `cause`, and the next call works.
async fn costs_one_call(bytes: Vec<u8>, cause: &str) -> House {
    let mut house = House::new();
    house.add("hostile", bytes, &["tools"]).limits.tool_deadline = Duration::from_secs(20);
    let host = house.load().unwrap();
    assert_eq!(host.notices(), []);
    let mut talk = house.session("one");
    for _ in 0..2 {
        let outcome = talk.call(&host, "try", json!({ "do": 1 })).await;
        assert_eq!(said(&outcome), format!("fault tools.call: {cause}"));
        let events = talk.events().await;
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0]["type"], "plugin_fault");
        assert_eq!(events[0]["cause"], cause);
        assert_eq!(said(&talk.call(&host, "try", json!({})).await), "done");
    }
    house
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap() {
    let house = costs_one_call(tool("unreachable"), "trapped: unreachable code, such as a panic").await;
    let (plugin, line) = &house.log.all()[0];
    assert_eq!(plugin, "hostile");
    assert!(line.contains("wasm trap") && line.contains("backtrace"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_recursion() {
    let functions = "(func $down (param i32) (result i32) (i32.add (i32.const 1) (call $down (i32.add (local.get 0) (i32.const 1)))))";
    let body = when_asked("(call $down (i32.const 0))");
    costs_one_call(Tool { functions, body: &body, ..Tool::default() }.build(), "overflowed its stack").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_without_end() {
    let body = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable";
    costs_one_call(tool(body), "ran out of memory (limit 64 MiB)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_growth_that_the_guest_bears_is_no_fault() {
    let body = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (call $say (i32.const 256) (i32.const 4))";
    let house = House::with(&[("greedy", tool(body), &["tools"])]);
    let host = house.load().unwrap();
    assert_eq!(said(&house.session("one").call(&host, "try", json!({ "do": 1 })).await), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_too_large() {
    let body = "(drop (memory.grow (i32.const 300))) (call $say (i32.const 65536) (i32.const 17825792))";
    costs_one_call(tool(body), "gave more than 16 MiB at once").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_out_of_its_memory() {
    let body = "(call $say (i32.const 65536) (i32.const 1000000))";
    costs_one_call(tool(body), "broke the contract of its interface").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_no_json() {
    // details: some("done"), in the record at 20: 24 bytes in.
    let body = "(drop (call $say (i32.const 256) (i32.const 4))) (i32.store8 (i32.const 44) (i32.const 1)) (i32.store (i32.const 48) (i32.const 256)) (i32.store (i32.const 52) (i32.const 4)) (i32.const 16)";
    let house = House::with(&[("careless", tool(body), &["tools"])]);
    let host = house.load().unwrap();
    let outcome = said(&house.session("one").call(&host, "try", json!({ "do": 1 })).await);
    assert!(outcome == "fault tools.call: gave details that is not the JSON of the contract", "{outcome}");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_host_calls() {
    let body = when_asked(
        "(loop $more (drop (call $turn)) (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $more (i32.le_u (local.get $i) (i32.const 10000)))) (call $say (i32.const 256) (i32.const 4))",
    );
    let guest = Tool {
        world: "import pith:plugin/context@0.1.0;",
        imports: r#"(import "pith:plugin/context@0.1.0" "turn" (func $turn (result i32)))"#,
        body: &body,
        ..Tool::default()
    };
    costs_one_call(guest.build(), "called the host more than 10000 times").await;
    let body = body.replace("le_u (local.get $i) (i32.const 10000)", "lt_u (local.get $i) (i32.const 10000)");
    let house = House::with(&[("busy", Tool { body: &body, ..guest }.build(), &["tools"])]);
    let host = house.load().unwrap();
    assert_eq!(said(&house.session("one").call(&host, "try", json!({ "do": 1 })).await), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_bytes_in_one_call() {
    let body = when_asked(
        "(drop (memory.grow (i32.const 160))) (loop $more (call $log (i32.const 0) (i32.const 65536) (i32.const 8388608)) (br $more)) unreachable",
    );
    let guest = Tool {
        world: "import pith:plugin/log@0.1.0;",
        imports: r#"(import "pith:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#,
        body: &body,
        ..Tool::default()
    };
    let house = costs_one_call(guest.build(), "gave the host more than 64 MiB").await;
    // The log keeps 64 KiB of one call.
    let logged: usize =
        house.log.all().iter().filter(|(_, line)| line.contains("\0\0\0\0")).map(|(_, line)| line.len()).sum();
    assert_eq!(logged, 2 * 64 * 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_loop_ends_at_its_deadline_and_nobody_else_waits() {
    let mut house = House::with(&[("friend", Tool { name: "friend", ..Tool::default() }.build(), &["tools"])]);
    let limit = Duration::from_millis(400);
    house.add("hostile", tool("(loop $on (br $on)) unreachable"), &["tools"]).limits.tool_deadline = limit;
    let host = house.load().unwrap();
    // The worse of the two: how long after the deadline, and how long the bystander waited at most.
    soon(Duration::from_millis(100), async |number| {
        let (talk, bystander) = (house.session(&format!("one {number}")), house.session("two"));
        let mut worst = Duration::ZERO;
        let began = Instant::now();
        let hostile = async {
            let outcome = talk.call(&host, "try", json!({ "do": 1 })).await;
            (said(&outcome), began.elapsed())
        };
        tokio::pin!(hostile);
        // On the same task as the loop: the worst place for a bystander.
        let (told, took) = loop {
            let asked = Instant::now();
            tokio::select! {
                ended = &mut hostile => break ended,
                outcome = bystander.call(&host, "friend", json!({})) => {
                    assert_eq!(said(&outcome), "done");
                    worst = worst.max(asked.elapsed());
                }
            }
        };
        assert_eq!(told, "fault tools.call: exceeded its deadline of 400 ms");
        assert_eq!(said(&talk.call(&host, "try", json!({})).await), "done");
        worst.max(took.saturating_sub(limit))
    })
    .await;
}

#[tokio::test]
async fn an_endless_loop_ends_on_a_single_thread_too() {
    let mut house = House::new();
    house.add("hostile", tool("(loop $on (br $on)) unreachable"), &["tools"]).limits.tool_deadline =
        Duration::from_millis(200);
    let host = house.load().unwrap();
    soon(Duration::from_millis(300), async |number| {
        let began = Instant::now();
        let outcome = house.session(&format!("one {number}")).call(&host, "try", json!({ "do": 1 })).await;
        assert_eq!(said(&outcome), "fault tools.call: exceeded its deadline of 200 ms");
        began.elapsed()
    })
    .await;
}

/// Cancelled while it computes, and while it waits in the host.
#[tokio::test(flavor = "multi_thread")]
async fn an_abort_ends_a_call_at_once() {
    let waiting = Tool {
        name: "wait",
        world: WAIT_WORLD,
        imports: WAIT_IMPORTS,
        body: &format!("{WAIT} unreachable"),
        ..Tool::default()
    };
    let house = House::with(&[
        ("looping", tool("(loop $on (br $on)) unreachable"), &["tools"]),
        ("waiting", waiting.build(), &["tools"]),
    ]);
    let host = house.load().unwrap();
    for name in ["try", "wait"] {
        soon(Duration::from_millis(100), async |number| {
            let talk = house.session(&format!("{name} {number}"));
            let cancel = talk.cancel.clone();
            let canceller = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                cancel.cancel();
                Instant::now()
            });
            let outcome = talk.call(&host, name, json!({ "do": 1 })).await;
            let ended = Instant::now();
            assert_eq!(said(&outcome), "aborted", "{name}");
            ended.duration_since(canceller.await.unwrap())
        })
        .await;
    }
    // An abort is no fault of the guest.
    let talk = house.session("try");
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_faults_in_a_row_disable_what_is_offered_for_that_session() {
    let house = House::with(&[("hostile", tool("unreachable"), &["tools"])]);
    let host = house.load().unwrap();
    let (mut talk, other) = (house.session("one"), house.session("two"));
    let trap = "fault tools.call: trapped: unreachable code, such as a panic";
    // Two, a success, two: never three in a row.
    for friendly in [false, false, true, false, false, true] {
        let outcome = talk.call(&host, "try", if friendly { json!({}) } else { json!({ "do": 1 }) }).await;
        assert_eq!(said(&outcome), if friendly { "done" } else { trap });
    }
    talk.events().await;
    for _ in 0..3 {
        assert_eq!(said(&talk.call(&host, "try", json!({ "do": 1 })).await), trap);
    }
    let told: Vec<String> =
        talk.events().await.iter().map(|event| event["cause"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told.len(), 4);
    assert_eq!(told[3], "disabled after 3 faults");
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "fault tools.call: disabled after 3 faults");
    assert_eq!(said(&other.call(&host, "try", json!({})).await), "done");
    assert!(host.retry("hostile") && !host.retry("nobody"));
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "done");
}
