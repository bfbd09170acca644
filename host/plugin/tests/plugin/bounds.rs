//! Limits that no other file here is about, each reached by a guest.

use crate::{
    guests::{Tool, WAIT, WAIT_IMPORTS, WAIT_WORLD, tool, when_asked},
    house::{House, said},
};
use futures::future::join_all;
use pith_plugin::limits::{
    CORE_INSTANCES, PROCESS_INSTANCES, PROCESS_KEEP_BYTES, PROGRESS_BYTES, SESSION_INSTANCES, STATE_BYTES,
    STATE_SESSION_BYTES, TABLE_ELEMENTS, TOOL_DEADLINE, TOOL_DEADLINE_MAX,
};
use pith_plugin::{Limits, PluginUse};
use serde_json::{Value, json};
use std::time::Duration;

async fn says(house: &House, input: Value) -> String {
    let host = house.load().unwrap();
    said(&house.session("one").call(&host, "try", input).await)
}

/// In the pool, and on demand, where a slot's own limit is not met first.
#[tokio::test(flavor = "multi_thread")]
async fn table_elements_without_end() {
    let tables = |count: usize| "(table 0 funcref)".repeat(count);
    let body = when_asked(
        "(loop $more (br_if $more (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1)))) unreachable",
    );
    for more in [0, 20] {
        let functions = format!("(table $t 0 funcref) {}", tables(more));
        let house = House::with(&[(
            "hostile",
            Tool { functions: &functions, body: &body, ..Tool::default() }.build(),
            &["tools"],
        )]);
        let told = says(&house, json!({ "do": 1 })).await;
        assert_eq!(told, format!("fault tools.call: used more than {TABLE_ELEMENTS} table elements"), "{more}");
        assert_eq!(says(&house, json!({})).await, "done");
    }
}

/// Appends an empty core module to a component, and so many instances of it.
fn with_core_instances(mut component: Vec<u8>, count: usize) -> Vec<u8> {
    // The component encoder of these tests makes three modules: the guest's, and two that tie its imports.
    let modules = u8::try_from(core_modules(&component)).unwrap();
    component.extend([1, 8]);
    component.extend(b"\0asm\x01\0\0\0");
    let count = u8::try_from(count).unwrap();
    component.extend([2, 1 + 3 * count, count]);
    for _ in 0..count {
        component.extend([0, modules, 0]);
    }
    component
}

fn core_modules(component: &[u8]) -> usize {
    let (mut at, mut modules) = (8, 0);
    while at < component.len() {
        modules += usize::from(component[at] == 1);
        at += 1;
        let (mut length, mut shift) = (0usize, 0);
        loop {
            let byte = component[at];
            at += 1;
            length |= usize::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                break;
            }
        }
        at += length;
    }
    modules
}

#[test]
fn more_core_instances_than_one_may_have() {
    let house = House::with(&[("many", with_core_instances(tool("unreachable"), 40), &["tools"])]);
    let host = house.load().unwrap();
    let told = format!(
        "its tools are not offered: tools.specs has more than {CORE_INSTANCES} core instances, memories or tables"
    );
    assert_eq!(host.notices()[0].text, told);
    let house = House::with(&[("few", with_core_instances(tool("unreachable"), 10), &["tools"])]);
    assert_eq!(house.load().unwrap().notices(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_without_end() {
    let body = when_asked(
        "(loop $more (drop (call $subscribe (i64.const 1))) (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $more (i32.lt_u (local.get $i) (i32.const 1001)))) (call $say (i32.const 256) (i32.const 4))",
    );
    let guest = Tool { world: WAIT_WORLD, imports: WAIT_IMPORTS, body: &body, ..Tool::default() }.build();
    let house = House::with(&[("hostile", guest, &["tools"])]);
    let told = says(&house, json!({ "do": 1 })).await;
    assert_eq!(told, "fault tools.call: held more than 1000 host resources, or one that is not its own");
    assert_eq!(says(&house, json!({})).await, "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bytes_without_end() {
    let guest = |bytes: u32| {
        let body =
            format!("(call $random (i64.const {bytes}) (i32.const 160)) (call $say (i32.const 256) (i32.const 4))");
        Tool {
            world: "import wasi:random/random@0.2.6;",
            imports: r#"(import "wasi:random/random@0.2.6" "get-random-bytes" (func $random (param i64 i32)))"#,
            body: &body,
            ..Tool::default()
        }
        .build()
    };
    let house = House::with(&[("hostile", guest((1 << 20) + 1), &["tools"])]);
    let told = says(&house, json!({})).await;
    assert_eq!(told, "fault tools.call: asked for more than 1 MiB of random bytes at once");
    assert_eq!(says(&House::with(&[("mine", guest(1 << 20), &["tools"])]), json!({})).await, "done");
}

/// What a call has left is what its plugin may use: the default, or its own limit within the longest.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_tool_call() {
    for (own, expected) in [
        (Limits::default().tool_deadline, TOOL_DEADLINE),
        (Duration::from_secs(7), Duration::from_secs(7)),
        (2 * TOOL_DEADLINE_MAX, TOOL_DEADLINE_MAX),
    ] {
        let most = expected.as_millis();
        let body = format!(
            "(local.set $i (call $left))
             (if (i32.or (i32.gt_u (local.get $i) (i32.const {most})) (i32.lt_u (local.get $i) (i32.const {}))) (then unreachable))
             (call $say (i32.const 256) (i32.const 4))",
            most - 5_000
        );
        let guest = Tool {
            world: "import pith:plugin/context@0.1.0;",
            imports: r#"(import "pith:plugin/context@0.1.0" "remaining-ms" (func $left (result i32)))"#,
            body: &body,
            ..Tool::default()
        };
        let mut house = House::new();
        house.add("mine", guest.build(), &["tools"]).limits.tool_deadline = own;
        assert_eq!(says(&house, json!({})).await, "done", "{own:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_has_its_own_limit_of_memory() {
    let body = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable";
    let mut house = House::new();
    house.add("small", tool(body), &["tools"]).limits.memory_bytes = 4 << 20;
    assert_eq!(says(&house, json!({ "do": 1 })).await, "fault tools.call: ran out of memory (limit 4 MiB)");
    house.plugins[0].limits.memory_bytes = 256 << 20;
    assert_eq!(says(&house, json!({ "do": 1 })).await, "fault tools.call: ran out of memory (limit 256 MiB)");
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_output_is_cut_to_its_end() {
    // One update of a megabyte of zeros, and "done" after it.
    let body = "(drop (memory.grow (i32.const 20)))
        (i32.store (i32.const 164) (i32.const 65536)) (i32.store (i32.const 168) (i32.const 1048576))
        (i32.store (i32.const 192) (i32.const 256)) (i32.store (i32.const 196) (i32.const 4))
        (call $update (i32.const 160) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0))
        (call $say (i32.const 256) (i32.const 4))";
    let guest = Tool {
        world: "import pith:plugin/progress@0.1.0;",
        imports: r#"(import "pith:plugin/progress@0.1.0" "update" (func $update (param i32 i32 i32 i32 i32)))"#,
        body,
        ..Tool::default()
    };
    let house = House::with(&[("mine", guest.build(), &["tools"])]);
    let host = house.load().unwrap();
    let mut talk = house.session("one");
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "done");
    let events = talk.events().await;
    let shown = events[0]["partialResult"]["content"].as_array().unwrap();
    let lengths: Vec<usize> = shown.iter().map(|block| block["text"].as_str().unwrap().len()).collect();
    assert_eq!(lengths, [PROGRESS_BYTES - 4, 4], "the end is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn state_has_a_limit_in_bytes() {
    // A string of as many bytes as an entry may have, saved until it is refused: the refusal is said.
    let body = format!(
        "(drop (memory.grow (i32.const 8)))
         (memory.fill (i32.const 65536) (i32.const 120) (i32.const {STATE_BYTES}))
         (i32.store8 (i32.const 65536) (i32.const 34)) (i32.store8 (i32.const {last}) (i32.const 34))
         (loop $more
            (call $save (i32.const 320) (i32.const 4) (i32.const 65536) (i32.const {STATE_BYTES}) (i32.const 160))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $more (i32.eqz (i32.load8_u (i32.const 160)))))
         (if (i32.ne (local.get $i) (i32.const {entries})) (then unreachable))
         (call $say (i32.load (i32.const 168)) (i32.load (i32.const 172)))",
        last = 65_536 + STATE_BYTES - 1,
        entries = STATE_SESSION_BYTES / STATE_BYTES + 1,
    );
    let guest = Tool {
        world: "import pith:plugin/state@0.1.0;",
        imports: r#"(import "pith:plugin/state@0.1.0" "save" (func $save (param i32 i32 i32 i32 i32)))"#,
        constants: vec![(320, "todo")],
        body: &body,
        ..Tool::default()
    };
    let house = House::with(&[("mine", guest.build(), &["tools"])]);
    assert_eq!(says(&house, json!({})).await, "a plugin has at most 16 MiB of entries in a session");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_two_hundred_and_fifty_seventh_call_of_the_process_waits() {
    // Each plugin's tool has a name of its own.
    let mut house = House::new();
    let names: Vec<String> = (0..17).map(|n| format!("wait-{n:02}")).collect();
    for name in &names {
        let guest = Tool {
            name,
            world: &format!("{WAIT_WORLD} import pith:plugin/log@0.1.0;"),
            imports: &format!(
                r#"{WAIT_IMPORTS} (import "pith:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#
            ),
            body: &format!("(call $log (i32.const 0) (i32.const 256) (i32.const 4)) {WAIT} unreachable"),
            ..Tool::default()
        };
        house.add(name, guest.build(), &["tools"]);
    }
    let host = house.load().unwrap();
    let talks: Vec<_> = (0..5).map(|n| house.session(&format!("session {n}"))).collect();
    let calls = (0..260).map(|n| talks[n / 52].call(&host, &names[n % names.len()], json!({})));
    let watch = async {
        let all_run = async {
            while house.log.all().len() < PROCESS_INSTANCES {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all_run).await.expect("so many run at once");
        // Nothing frees a place, so nothing more can begin.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let ran = house.log.all().len();
        talks.iter().for_each(|talk| talk.cancel.cancel());
        ran
    };
    let (outcomes, ran) = tokio::join!(join_all(calls), watch);
    assert_eq!((ran, outcomes.len()), (PROCESS_INSTANCES, 260));
    assert!(52 < SESSION_INSTANCES && outcomes.iter().all(|outcome| said(outcome) == "aborted"));
}

/// A program's output past what is kept in memory: the head is told, the whole is in the spool.
#[tokio::test(flavor = "multi_thread")]
async fn the_output_of_a_program_that_is_kept() {
    let script = "head -c 1000000 /dev/zero | tr '\\0' x";
    let body = format!(
        "(i32.store (i32.const 400) (i32.const 390)) (i32.store (i32.const 404) (i32.const 2))
         (i32.store (i32.const 408) (i32.const 600)) (i32.store (i32.const 412) (i32.const {script}))
         (call $run (i32.const 320) (i32.const 4) (i32.const 400) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 160))
         (if (i32.load8_u (i32.const 160)) (then unreachable))
         (call $say (i32.load (i32.const 196)) (i32.load (i32.const 200)))",
        script = script.len()
    );
    let guest = Tool {
        world: "import pith:plugin/process@0.1.0;",
        imports: r#"(import "pith:plugin/process@0.1.0" "run" (func $run (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
        constants: vec![(320, "bash"), (390, "-c"), (600, script)],
        body: &body,
        ..Tool::default()
    };
    let house = House::with(&[("mine", guest.build(), &["tools", "process=bash"])]);
    let told = says(&house, json!({})).await;
    assert!(told.len() >= 1_000 && told.len() <= PROCESS_KEEP_BYTES, "{} bytes", told.len());
    let spooled: u64 =
        std::fs::read_dir(house.at("state/spool")).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(spooled, 1_000_000);
}

/// The counts of a guest that does a little of everything.
#[tokio::test(flavor = "multi_thread")]
async fn what_calls_use_is_counted() {
    let body = when_asked(
        "(if (i32.gt_u (local.get $length) (i32.const 20)) (then unreachable))
         (if (i32.gt_u (local.get $length) (i32.const 12)) (then (return (call $refuse (i32.const 0) (i32.const 256) (i32.const 4)))))
         (drop (memory.grow (i32.const 16)))
         (loop $more (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $more (i32.lt_u (local.get $i)
            (if (result i32) (i32.eq (local.get $length) (i32.const 8)) (then (i32.const -1)) (else (i32.const 20000000))))))
         (call $log (i32.const 0) (i32.const 256) (i32.const 100))
         (call $say (i32.const 256) (i32.const 4))",
    );
    let guest = Tool {
        world: "import pith:plugin/log@0.1.0;",
        imports: r#"(import "pith:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#,
        body: &body,
        ..Tool::default()
    };
    let house = House::with(&[("mine", guest.build(), &["tools"])]);
    let host = house.load().unwrap();
    let talk = house.session("one");
    let call = async |input| said(&talk.call(&host, "try", input).await);
    assert_eq!(call(json!({ "n": 1 })).await, "done");
    assert_eq!(call(json!({ "n": "refuse" })).await, "refused Invalid: done");
    assert!(call(json!({ "n": "a trap, by its length" })).await.starts_with("fault"));
    // This one computes for seconds, and is given up.
    let dropped = tokio::time::timeout(Duration::from_millis(20), talk.call(&host, "try", json!({ "n": 22 })));
    assert!(dropped.await.is_err());
    let [PluginUse { name, digest, functions, .. }] = &host.usage()[..] else { panic!("one plugin") };
    assert_eq!((name.as_str(), digest.len()), ("mine", 64));
    assert_eq!(functions.keys().collect::<Vec<_>>(), ["tools.call", "tools.specs"]);
    let used = &functions["tools.call"];
    assert_eq!((used.calls, used.refusals, used.faults, used.aborted), (4, 1, 1, 1));
    // "call-1", "try" and the input; the text, and what the log was given.
    assert_eq!(used.bytes_in, 4 * 9 + 7 + 14 + 29 + 8);
    assert_eq!(used.bytes_out, 104);
    assert_eq!(used.peak_memory_bytes, (2 + 16) << 16);
    // Twenty million steps take milliseconds of a processor, and no second on the slowest.
    assert!((1_000_000..5_000_000_000).contains(&used.cpu_nanos), "{}", used.cpu_nanos);
    assert!(used.wall.within(1.0).unwrap() >= Duration::from_millis(1));
}
