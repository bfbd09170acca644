//! What a child process of a tool sees, and what becomes of it.

use crate::signals::gone;
use pith_tests::{Home, Running, pith_binary};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt, process::Command, time::Duration};

/// What a command prints, run by the tool.
#[track_caller]
fn bash(home: &Home, command: &str) -> String {
    let run = home.play(json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": command } }] }, { "text": "done" }]), &[]).ok();
    let (text, is_error) = run.result("c");
    assert!(!is_error, "{text}");
    text
}

#[test]
fn a_child_sees_the_users_environment_without_keys() {
    let home = Home::new()
        .with("ANTHROPIC_API_KEY", "canary-anthropic")
        .with("OPENAI_API_KEY", "canary-openai")
        .with("MY_OWN_VARIABLE", "is kept");
    let text = bash(&home, "env; cat /proc/self/environ | tr '\\0' '\\n'; cat /proc/$$/environ | tr '\\0' '\\n'");
    assert!(text.contains("MY_OWN_VARIABLE=is kept"), "{text}");
    assert!(!text.contains("canary") && !text.contains("API_KEY"), "{text}");
    // Nor is a key anywhere else that Pith wrote.
    for place in ["data", "state", "config"] {
        let found =
            Command::new("grep").args(["-r", "-l", "canary-"]).arg(home.root().join(place)).output().expect("grep");
        assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    }
}

#[test]
fn a_child_has_its_own_session_and_no_terminal() {
    let text = bash(&Home::new(), "ps -o pid=,sid=,tty= -p $$");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[0], words[1], "pid and session: {text}");
    assert_eq!(words[2], "?", "a terminal: {text}");
}

#[test]
fn a_child_has_three_descriptors_and_dumps_no_core() {
    // One that was left open on purpose, as a careless parent would.
    let home = Home::new();
    let model = home.scripted(json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": "ls /proc/$$/fd; ulimit -c" } }] }, { "text": "done" }]));
    let mut shell = home.bare("bash");
    shell.args(["-c", r#"exec 7</dev/null; exec "$0" --mode json --model "$1" go"#]).arg(pith_binary()).arg(&model);
    let run = Running::start(shell, Duration::from_secs(60)).finish().ok();
    let (text, _) = run.result("c");
    let lines: Vec<&str> = text.lines().filter(|line| *line != "255").collect();
    // 255 is bash's own copy of its script, where it has one.
    assert_eq!(lines, ["0", "1", "2", "0"], "descriptors, then the limit of cores: {text}");
}

#[test]
fn what_a_command_leaves_behind_ends_with_its_timeout() {
    let home = Home::new();
    let command = "sleep 300 & echo $! > grandchild; sh -c 'sleep 301 & echo $! > great-grandchild; wait' & wait";
    let run = home
        .play(json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": command, "timeout": 1 } }] }, { "text": "done" }]), &[])
        .ok();
    let (text, is_error) = run.result("c");
    assert!(is_error && text.contains("1 second") || text.contains("timed out"), "{text}");
    for name in ["grandchild", "great-grandchild"] {
        let pid = home.read(name).trim().to_owned();
        assert!(gone(&pid), "{name} {pid} still runs");
    }
}

#[test]
fn a_command_that_ignores_the_end_is_killed() {
    let home = Home::new();
    let command = "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 0.1; done";
    let run = home
        .play(json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": command, "timeout": 1 } }] }, { "text": "done" }]), &[])
        .ok();
    assert!(run.result("c").1, "{run}");
    assert!(run.wall < Duration::from_secs(20), "{run}");
    assert!(gone(home.read("pid").trim()));
}

/// As an ordinary user: a process that is not dumpable belongs to root in `/proc`, so that not even its own user's processes read its
/// environment or memory.
#[test]
fn the_host_cannot_be_read_by_its_children() {
    let home = Home::new().with("OPENAI_API_KEY", "canary-openai");
    let command = "cat /proc/self/environ > /dev/null && echo own readable; cat /proc/$PPID/environ > /dev/null && echo host readable; \
                   ls /proc/$PPID/fd > /dev/null && echo host fds; grep -c . /proc/$PPID/status > /dev/null && echo the host is there; true";
    let model = home.scripted(
        json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": command } }] }, { "text": "done" }]),
    );
    let binary = home.root().join("pith");
    // By another program: what this process has open for writing, a child that another test just forks would have open too.
    assert!(Command::new("cp").arg(pith_binary()).arg(&binary).status().expect("cp").success());
    let mut start;
    if rustix::process::geteuid().is_root() {
        // Root reads everything; so somebody else is asked.
        let own = home.root().join("cache");
        fs::create_dir_all(&own).expect("a folder");
        assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(home.root()).status().expect("chown").success());
        fs::set_permissions(home.root(), fs::Permissions::from_mode(0o755)).expect("the owner may");
        start = home.bare("setpriv");
        start.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary).env("XDG_CACHE_HOME", own);
    } else {
        start = home.bare(&binary.to_string_lossy());
    }
    start.args(["--mode", "json", "--model", &model, "go"]);
    let run = Running::start(start, Duration::from_secs(60)).finish().ok();
    let (text, _) = run.result("c");
    assert!(text.contains("own readable") && text.contains("the host is there"), "the check itself: {text}");
    assert!(!text.contains("host readable") && !text.contains("host fds"), "{text}");
}

#[test]
fn the_host_keeps_no_core_and_leaves_nothing_in_temp() {
    let home = Home::new();
    let text = bash(&home, "grep '^Max core' /proc/$PPID/limits");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{text}");
    let left: Vec<_> =
        fs::read_dir(home.root().join("tmp")).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}
