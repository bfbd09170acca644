//! The imports, each called by a guest.

use crate::{
    guests::{Tool, WAIT, WAIT_IMPORTS, WAIT_WORLD, when_asked},
    house::{House, said},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const WORLD: &str = "
    import pith:plugin/context@0.1.0; import pith:plugin/settings@0.1.0; import pith:plugin/state@0.1.0; import pith:plugin/secrets@0.1.0;
    import pith:plugin/reply@0.1.0; import pith:plugin/progress@0.1.0; import pith:plugin/tool-updates@0.1.0;";
const STATE: &str = r#"
    (import "pith:plugin/state@0.1.0" "load" (func $load (param i32 i32 i32)))
    (import "pith:plugin/state@0.1.0" "save" (func $save (param i32 i32 i32 i32 i32)))
    (import "pith:plugin/state@0.1.0" "save-if" (func $save_if (param i32 i32 i32 i32 i32 i32 i32 i32)))"#;
/// Says the text of an error at 160, where there is one, or else "done".
const SAY_ERROR: &str = "(if (result i32) (i32.load8_u (i32.const 160)) (then (call $say (i32.load (i32.const 168)) (i32.load (i32.const 172)))) (else (call $say (i32.const 256) (i32.const 4))))";

async fn says(guest: Tool<'_>, grants: &[&str]) -> String {
    let house = House::with(&[("mine", guest.build(), grants)]);
    let host = house.load().unwrap();
    said(&house.session("one").call(&host, "try", json!({ "do": 1 })).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_and_context_are_told() {
    for (from, at, told) in [
        (r#"settings@0.1.0" "get""#, 160, r#"{"a":true,"b":1}"#),
        (r#"context@0.1.0" "caller""#, 160, "model"),
        (r#"context@0.1.0" "cwd""#, 160, "/work"),
        (r#"context@0.1.0" "session-id""#, 164, "one"),
    ] {
        let imports = format!(r#"(import "pith:plugin/{from} (func $ask (param i32)))"#);
        let body = format!(
            "(call $ask (i32.const 160)) (call $say (i32.load (i32.const {at})) (i32.load (i32.const {})))",
            at + 4
        );
        let words = says(Tool { world: WORLD, imports: &imports, body: &body, ..Tool::default() }, &["tools"]).await;
        assert!(words.ends_with(told), "{from}: {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_answer_is_refused() {
    for (interface, function, arguments, grants, words) in [
        ("secrets", "request", 2, &["tools"][..], "nobody can be asked for a secret here"),
        ("reply", "push", 2, &["tools"], "reply.push can be called within provider.ask only"),
        ("dialog", "edit", 4, &["tools", "dialog"], "nobody can answer here"),
    ] {
        let imports = format!(
            r#"(import "pith:plugin/{interface}@0.1.0" "{function}" (func $ask (param {} i32)))"#,
            "i32 ".repeat(arguments)
        );
        let body = format!("(call $ask {} (i32.const 160)) {SAY_ERROR}", "(i32.const 0)".repeat(arguments));
        let world = format!("{WORLD} import pith:plugin/dialog@0.1.0;");
        let told = says(Tool { world: &world, imports: &imports, body: &body, ..Tool::default() }, grants).await;
        assert_eq!(told, words, "{interface}");
    }
    let imports = r#"(import "pith:plugin/secrets@0.1.0" "exists" (func $exists (param i32 i32) (result i32)))"#;
    let body = "(if (result i32) (call $exists (i32.const 256) (i32.const 4)) (then unreachable) (else (call $say (i32.const 256) (i32.const 4))))";
    assert_eq!(says(Tool { world: WORLD, imports, body, ..Tool::default() }, &["tools"]).await, "done");
}

const KIND_AND_BODY: &str = "(i32.const 320) (i32.const 4) (i32.const 340) (i32.const 7)";

fn state(body: &str) -> Vec<u8> {
    let constants = vec![(320, "todo"), (340, r#"{"n":1}"#), (360, "00000009"), (380, "not json")];
    Tool { world: WORLD, imports: STATE, constants, body, ..Tool::default() }.build()
}

fn lines(talk: &crate::house::Talk) -> Vec<Value> {
    let bytes = talk.memory.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn state_is_written_when_the_call_returns_and_not_when_it_fails() {
    // Saves, loads what it saved, and says it; where it is asked to, it fails after that.
    let body = format!(
        "(call $save {KIND_AND_BODY} (i32.const 160)) (call $load (i32.const 320) (i32.const 4) (i32.const 192)) {}",
        "(if (i32.gt_u (local.get $length) (i32.const 2)) (then unreachable)) (call $say (i32.load (i32.const 208)) (i32.load (i32.const 212)))"
    );
    let house = House::with(&[("mine", state(&body), &["tools"])]);
    let host = house.load().unwrap();
    let mut talk = house.session("one");
    assert!(said(&talk.call(&host, "try", json!({ "do": 1 })).await).starts_with("fault"));
    assert_eq!(lines(&talk), Vec::<Value>::new());
    talk.events().await;
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), r#"{"n":1}"#);
    let written = lines(&talk);
    assert_eq!(written[0]["type"], "session");
    let entry = &written[1];
    assert_eq!(
        (&entry["type"], &entry["customType"], &entry["publisher"]),
        (&json!("custom"), &json!("mine/todo"), &json!("local:test"))
    );
    assert_eq!(entry["data"], json!({ "n": 1 }));
    let events = talk.events().await;
    assert_eq!(events[0]["type"], "entry_appended");
    assert_eq!(events[0]["entry"]["id"], entry["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn state_that_is_not_the_newest_any_more_is_a_conflict() {
    let body = format!(
        "(call $save_if {KIND_AND_BODY} (i32.const 1) (i32.const 360) (i32.const 8) (i32.const 160)) {SAY_ERROR}"
    );
    let house = House::with(&[("mine", state(&body), &["tools"])]);
    let host = house.load().unwrap();
    let talk = house.session("one");
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "a newer one was saved; load it and try again");
    let first = format!(
        "(call $save_if {KIND_AND_BODY} (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 160)) {SAY_ERROR}"
    );
    let house = House::with(&[("mine", state(&first), &["tools"])]);
    let host = house.load().unwrap();
    let talk = house.session("one");
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "done");
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "a newer one was saved; load it and try again");
    assert_eq!(lines(&talk).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn state_has_its_limits() {
    let bad =
        format!("(call $save (i32.const 320) (i32.const 4) (i32.const 380) (i32.const 8) (i32.const 160)) {SAY_ERROR}");
    let long = format!(
        "(drop (memory.grow (i32.const 8))) (call $save (i32.const 320) (i32.const 4) (i32.const 65536) (i32.const 262145) (i32.const 160)) {SAY_ERROR}"
    );
    let name =
        format!("(call $save (i32.const 380) (i32.const 8) (i32.const 340) (i32.const 7) (i32.const 160)) {SAY_ERROR}");
    let many = format!(
        "(loop $more (call $save {KIND_AND_BODY} (i32.const 160)) (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $more (i32.le_u (local.get $i) (i32.const 1000)))) {SAY_ERROR}"
    );
    for (body, words) in [
        (bad, "no JSON"),
        (long, "an entry has at most 256 KiB"),
        (name, "a kind is a-z"),
        (many, "at most 1000 entries in a session"),
    ] {
        let house = House::with(&[("mine", state(&body), &["tools"])]);
        let host = house.load().unwrap();
        let told = said(&house.session("one").call(&host, "try", json!({})).await);
        assert!(told.contains(words), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_shown_ten_times_a_second_and_the_newest_is_never_held_back() {
    // A thousand updates with "a", one with "b", then a wait without end.
    let constants = vec![(320, "a"), (330, "b")];
    let update = |text: u32| {
        format!(
            "(i32.store (i32.const 164) (i32.const {text})) (i32.store (i32.const 168) (i32.const 1)) (call $update (i32.const 160) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0))"
        )
    };
    let body = format!(
        "(loop $more {} (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $more (i32.lt_u (local.get $i) (i32.const 1000)))) {} {WAIT} unreachable",
        update(320),
        update(330)
    );
    let guest = Tool {
        world: &format!("{WORLD} {WAIT_WORLD}"),
        imports: &format!(
            r#"(import "pith:plugin/progress@0.1.0" "update" (func $update (param i32 i32 i32 i32 i32))) {WAIT_IMPORTS}"#
        ),
        constants,
        body: &body,
        ..Tool::default()
    };
    let house = House::with(&[("mine", guest.build(), &["tools"])]);
    let host = house.load().unwrap();
    let mut talk = house.session("one");
    let scope = talk.scope();
    let offered = pith_core::Tools::offered(&host);
    let call = crate::house::canonical("try", json!({}));
    let began = Instant::now();
    let watch = async {
        let mut shown = Vec::new();
        while shown.last().is_none_or(|text| text != "b") {
            let event = serde_json::to_value(talk.inbox.next().await.unwrap()).unwrap();
            shown.push(event["partialResult"]["content"][0]["text"].as_str().unwrap().to_owned());
        }
        scope.cancel.cancel();
        (shown, began.elapsed())
    };
    let run = pith_core::Tools::run(&host, &offered[0], &call, scope.clone());
    let both = async { tokio::join!(run, watch) };
    let (outcome, (shown, took)) =
        tokio::time::timeout(Duration::from_secs(10), both).await.expect("the newest is shown");
    assert_eq!(said(&outcome), "aborted");
    assert!(shown.len() as u128 <= 2 + took.as_millis() / 100, "{shown:?} in {took:?}");
}

/// A guest that runs a program to its end and says its standard output, or the error. Strings lie at 320, 400, 600, 2000, 2100, 2200.
fn runs(program: &str, script: &str, cwd: &str, variable: Option<(&str, &str)>) -> Vec<u8> {
    let (name, value) = variable.unwrap_or_default();
    let constants = vec![(320, program), (390, "-c"), (600, script), (2000, cwd), (2100, name), (2200, value)];
    let body = format!(
        "(i32.store (i32.const 400) (i32.const 390)) (i32.store (i32.const 404) (i32.const 2))
         (i32.store (i32.const 408) (i32.const 600)) (i32.store (i32.const 412) (i32.const {script}))
         (i32.store (i32.const 420) (i32.const 2100)) (i32.store (i32.const 424) (i32.const {name}))
         (i32.store (i32.const 428) (i32.const 2200)) (i32.store (i32.const 432) (i32.const {value}))
         (call $run (i32.const 320) (i32.const {program}) (i32.const 400) (i32.const 2)
            (i32.const {has_cwd}) (i32.const 2000) (i32.const {cwd}) (i32.const 420) (i32.const {has_variable})
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 160))
         (if (result i32) (i32.load8_u (i32.const 160))
            (then (call $say (i32.load (i32.const 168)) (i32.load (i32.const 172))))
            (else (call $say (i32.load (i32.const 196)) (i32.load (i32.const 200)))))",
        program = program.len(),
        script = script.len(),
        has_cwd = u8::from(!cwd.is_empty()),
        cwd = cwd.len(),
        has_variable = u8::from(variable.is_some()),
        name = name.len(),
        value = value.len(),
    );
    Tool {
        world: "import pith:plugin/process@0.1.0;",
        imports: r#"(import "pith:plugin/process@0.1.0" "run" (func $run (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
        constants,
        body: &body,
        ..Tool::default()
    }
    .build()
}

async fn ran(bytes: Vec<u8>, grants: &[&str]) -> String {
    let house = House::with(&[("mine", bytes, grants)]);
    let host = house.load().unwrap();
    said(&house.session("one").call(&host, "try", json!({})).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_granted_program_runs_in_the_sessions_folder_with_a_short_environment() {
    let grants = &["tools", "process=bash", "process=env:MINE"];
    let told = ran(
        runs(
            "bash",
            "pwd; echo $MINE; env -0 | tr '\\0' '\\n' | cut -d= -f1 | sort | tr '\\n' ' '",
            "",
            Some(("MINE", "x y")),
        ),
        grants,
    )
    .await;
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].ends_with("/work"), "{told}");
    assert_eq!(lines[1], "x y");
    let allowed = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR", "NO_COLOR",
        "MINE", "PWD", "OLDPWD", "SHLVL", "_",
    ];
    for name in lines[2].split_whitespace() {
        assert!(allowed.contains(&name), "{name}");
    }
    assert!(lines[2].contains("MINE") && lines[2].contains("PATH"));
}

/// Hostile case 23, as far as it is of this room.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_granted_does_not_run() {
    let grants = &["tools", "process=bash", "process=no-such-program"];
    for (guest, words) in [
        (runs("sh", "echo ran", "", None), "running sh was not granted"),
        (runs("/bin/bash", "echo ran", "", None), "a program is a bare name: paths are not run"),
        (runs("./bash", "echo ran", "", None), "a program is a bare name: paths are not run"),
        (runs("no-such-program", "echo ran", "", None), "the program no-such-program was not found at start"),
        (runs("bash", "echo ran", "", Some(("LD_PRELOAD", "/x"))), "setting the variable LD_PRELOAD was not granted"),
        (
            runs("bash", "echo ran", "/etc", None),
            "/etc lies in no folder of this plugin; programs reach what their plugin was granted: --grant mine:files=/etc:r",
        ),
        (runs("bash", "echo ran", "work", None), "cwd has to be an absolute path"),
    ] {
        assert_eq!(ran(guest, grants).await, words);
    }
}

/// A program that a plugin could have written is not taken for one that was granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_planted_program_is_not_found() {
    let house =
        House::with(&[("mine", runs("planted", "", "", None), &["tools", "process=planted", "files=workspace:rw"])]);
    let planted = house.work().join("planted");
    std::fs::write(&planted, "#!/bin/sh\necho ran\n").unwrap();
    std::fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let load = |grants: &[&str]| {
        let mut plugin = house.plugins[0].clone();
        plugin.grants = grants.iter().map(|text| text.parse().unwrap()).collect();
        pith_plugin::PluginHost::load(pith_plugin::HostConfig {
            cache_dir: house.cache(),
            places: pith_plugin::Places { workspace: house.work(), ..Default::default() },
            spool: pith_os::SpoolDir::new(house.at("state/spool")).unwrap(),
            sandbox: pith_os::Sandbox::off(),
            plugins: vec![plugin],
            environment: vec![("PATH".into(), format!("{}:/usr/bin:/bin", house.work().display()).into())],
            reserved_tools: Vec::new(),
            log: house.log.clone(),
        })
        .unwrap()
    };
    let host = load(&["tools", "process=planted", "files=workspace:rw"]);
    assert_eq!(
        said(&house.session("one").call(&host, "try", json!({})).await),
        "the program planted was not found at start"
    );
    // Where no plugin can write, the user's own PATH stands.
    let host = load(&["tools", "process=planted"]);
    assert_eq!(said(&house.session("one").call(&host, "try", json!({})).await), "ran\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abort_kills_the_whole_group() {
    let house = House::with(&[(
        "mine",
        runs("bash", "sleep 1000 & echo $! > pid; wait", "", None),
        &["tools", "process=bash"],
    )]);
    let host = house.load().unwrap();
    let talk = house.session("one");
    let pid_file = house.work().join("pid");
    let abort = async {
        let pid = loop {
            if let Some(pid) = std::fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse::<i32>().ok())
            {
                break pid;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        talk.cancel.cancel();
        pid
    };
    let both = async { tokio::join!(talk.call(&host, "try", json!({})), abort) };
    let (outcome, pid) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
    assert_eq!(said(&outcome), "aborted");
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let gone = async {
        while rustix::process::test_kill_process(pid).is_ok() && !is_zombie(pid) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the grandchild is gone");
}

/// Killed, and not yet collected by whoever became its parent.
fn is_zombie(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

/// Spawns `seq`, reads to the end, and says where the whole is.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_output_is_whole_in_the_spool() {
    let script = "seq 1 5000";
    let body = format!(
        "(i32.store (i32.const 400) (i32.const 390)) (i32.store (i32.const 404) (i32.const 2))
         (i32.store (i32.const 408) (i32.const 600)) (i32.store (i32.const 412) (i32.const {script}))
         (call $spawn (i32.const 320) (i32.const 4) (i32.const 400) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 160))
         (if (i32.load8_u (i32.const 160)) (then unreachable))
         (local.set $i (i32.load (i32.const 164)))
         (loop $more
            (call $next (local.get $i) (i32.const 0) (i32.const 0) (i32.const 160))
            (if (i32.load8_u (i32.const 160)) (then unreachable))
            (br_if $more (i32.ne (i32.load8_u (i32.const 164)) (i32.const 2))))
         (if (i32.ne (i32.load8_u (i32.const 188)) (i32.const 1)) (then unreachable))
         (call $say (i32.load (i32.const 192)) (i32.load (i32.const 196)))",
        script = script.len()
    );
    let guest = Tool {
        world: "import pith:plugin/process@0.1.0;",
        imports: r#"(import "pith:plugin/process@0.1.0" "spawn" (func $spawn (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
            (import "pith:plugin/process@0.1.0" "[method]child.next" (func $next (param i32 i32 i32 i32)))"#,
        constants: vec![(320, "bash"), (390, "-c"), (600, script)],
        body: &body,
        ..Tool::default()
    };
    let house = House::with(&[("mine", guest.build(), &["tools", "process=bash"])]);
    let host = house.load().unwrap();
    let path = said(&house.session("one").call(&host, "try", json!({})).await);
    let whole = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(whole.lines().count(), 5000);
    assert_eq!(whole.lines().last(), Some("5000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_that_are_not_its_own_are_a_fault() {
    let guest = Tool {
        world: "import pith:plugin/process@0.1.0;",
        imports: r#"(import "pith:plugin/process@0.1.0" "[method]child.kill" (func $kill (param i32)))"#,
        body: &when_asked("(call $kill (i32.const 7)) unreachable"),
        ..Tool::default()
    };
    let house = House::with(&[("mine", guest.build(), &["tools", "process=bash"])]);
    let host = house.load().unwrap();
    let told = said(&house.session("one").call(&host, "try", json!({ "do": 1 })).await);
    assert!(told.starts_with("fault tools.call:"), "{told}");
}
