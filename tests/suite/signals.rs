//! Ctrl-C and SIGTERM: the exit code, and a session in which every call is answered.

use crate::children::Held;
use pith_tests::{Answer, Home, Running, Server, Wire};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

#[test]
fn a_signal_ends_the_run_and_leaves_a_valid_session() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        for mode in ["json", "text"] {
            let home = Home::new();
            let held = Held::new(&home);
            let running = sleeping(&home, mode);
            running.signal(signal);
            let run = running.finish().exits(code);
            let file = home.session();
            assert_answered(&file);
            let text = Home::messages(&file).iter().map(Value::to_string).collect::<String>();
            assert!(text.contains("finished-2"), "what was done is kept: {run}\n{text}");
            // The child went with it.
            held.ends();
            // And the session goes on.
            let model = home.scripted(json!([{ "text": "back" }]));
            home.pith(&["--model", &model, "-c", "-p", "go on"]).ok().prints("back");
        }
    }
}

#[test]
fn a_signal_while_the_model_speaks_keeps_what_it_said() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "word ".repeat(2000), "delay_ms": 50 }]));
    let mut running = home.start(&["--mode", "json", "--model", &model, "go"]);
    running.wait_line(|line| line.contains("\"text_delta\""));
    running.signal(Signal::INT);
    let run = running.finish().exits(130);
    let last = run.events().pop().expect("events");
    assert_eq!(last, json!({ "type": "agent_settled", "aborted": true }));
    let reply = Home::messages(&home.session()).pop().expect("a message");
    assert_eq!(reply["stopReason"], "aborted");
    assert!(reply["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("word")), "{reply}");
}

/// What a command had said when it was stopped is in the session, for the model's next turn.
#[test]
fn a_command_that_is_stopped_keeps_what_it_said() {
    let home = Home::new();
    let command = "echo partial; until [ -e never ]; do sleep 0.01; done";
    let model =
        home.scripted(json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": command } }] }]));
    let mut running = home.start(&["--mode", "json", "--model", &model, "go"]);
    running.wait_line(|line| line.contains("tool_execution_update") && line.contains("partial"));
    running.signal(Signal::INT);
    let run = running.finish().exits(130);
    assert_eq!(run.result("c"), ("partial\n\nOperation aborted".to_owned(), true), "{run}");
}

/// Outside of `/tmp`, so that programs could reach it by its own name; and the next starts remove it.
#[test]
fn a_killed_process_leaves_its_temporary_folders_to_later_starts() {
    let temp = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let temp = temp.path().canonicalize().expect("it is there");
    let home = Home::new().with("TMPDIR", temp.to_str().expect("text"));
    let left =
        || -> Vec<PathBuf> { fs::read_dir(&temp).expect("it is there").flatten().map(|entry| entry.path()).collect() };
    let command = format!(
        "for d in {}/pith-*; do ls -A $d | grep . && echo se''en; mv $d $d.old; rm -rf $d; done; echo tr''ied; \
         until [ -e never ]; do sleep 0.01; done",
        temp.display()
    );
    let replies = json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": command } }] }]);
    let model = home.scripted(replies);
    let mut running = home.start(&["--mode", "json", "--model", &model, "go"]);
    let line = running.wait_line(|line| line.contains("tool_execution_update") && line.contains("tried"));
    assert!(!line.contains("seen"), "{line}");
    running.signal(Signal::KILL);
    running.finish();
    let one = match &left()[..] {
        [one] => one.clone(),
        other => panic!("{other:?}"),
    };
    assert!(one.join("tmp").is_dir(), "{}", one.display());
    let model = home.scripted(json!([{ "text": "hi" }]));
    home.pith(&["--model", &model, "-p", "go"]).ok();
    assert_eq!(left(), std::slice::from_ref(&one), "its process might just be making it");
    let mark = File::options().write(true).open(one.join(".pith-session")).expect("it is there");
    mark.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("it is ours");
    // A short run may end before its sweep gets there.
    for _ in 0..20 {
        home.pith(&["--model", &model, "-p", "go"]).ok();
        if left().is_empty() {
            return;
        }
    }
    panic!("{:?}", left());
}

/// Writes are in place: one that has begun is finished, whatever the moment of the signal.
#[test]
fn an_abort_tears_no_file() {
    // As much as `edit` takes.
    let rest = "a line of a file that takes a while to be written again\n".repeat(160_000);
    let (old, new) = (format!("old head\n{rest}"), format!("a new and longer head\n{rest}"));
    let mut written = 0;
    for attempt in 0..10_u64 {
        let home = Home::new();
        let file = home.write("large.txt", &old);
        let edits = json!([{ "oldText": "old head", "newText": "a new and longer head" }]);
        let arguments = json!({ "path": "large.txt", "edits": edits });
        let model = home.scripted(json!([{ "calls": [{ "id": "c", "name": "edit", "arguments": arguments }] }]));
        let mut running = home.start(&["--mode", "json", "--model", &model, "go"]);
        running.wait_event("tool_execution_start");
        let first = || {
            let mut byte = [0];
            std::io::Read::read_exact(&mut std::fs::File::open(&file).expect("it is there"), &mut byte)
                .map(|()| byte[0])
        };
        let began = std::time::Instant::now();
        while first().is_ok_and(|byte| byte == b'o') && began.elapsed() < std::time::Duration::from_secs(30) {}
        std::thread::sleep(std::time::Duration::from_micros(attempt * 300));
        running.signal(Signal::INT);
        let run = running.finish();
        let is = home.read("large.txt");
        assert!(is == old || is == new, "torn: {} bytes, {run}", is.len());
        written += usize::from(is == new);
    }
    assert!(written > 0, "no signal came while the file was written");
}

#[test]
fn a_signal_ends_a_wait_before_another_try() {
    let busy = json!({ "error": { "message": "Slow down", "type": "rate_limit_error" } });
    let server = Server::start(move |_| Answer::json(429, &busy).header("retry-after", "50"));
    let home = Wire::OpenAi.home(&server);
    let mut running = home.start(&["--mode", "json", "--model", "openai/m", "go"]);
    running.wait_event("auto_retry_start");
    let began = std::time::Instant::now();
    running.signal(Signal::INT);
    running.finish().exits(130);
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(server.requests().len(), 1);
}

/// What sends a signal to a process and to its group says one word twice: the run still ends in order.
#[test]
fn a_signal_said_twice_at_once_is_one() {
    let home = Home::new();
    let running = sleeping(&home, "json");
    running.signal(Signal::TERM);
    running.signal(Signal::TERM);
    let run = running.finish().exits(143);
    assert_eq!(run.events().pop(), Some(json!({ "type": "agent_settled", "aborted": true })));
    assert_answered(&home.session());
}

/// `pith | less`: the reader stopped reading, and the pipe is full.
#[test]
fn a_reader_that_does_not_read_does_not_hold_up_ctrl_c() {
    use std::process::Stdio;
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "word ".repeat(200_000) }]));
    let mut command = home.command(&["--mode", "json", "--model", &model, "go"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while home.sessions().is_empty() {
        assert!(std::time::Instant::now() < until, "the run did not begin");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::INT).expect("it is there");
    let code = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status.code();
        }
        if std::time::Instant::now() >= until {
            child.kill().expect("it is there");
            panic!("Ctrl-C was not heard while nobody read");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert_eq!(code, Some(130));
}

/// `pith`, while its bash sleeps, after a first call has finished.
fn sleeping(home: &Home, mode: &str) -> Running {
    let model = home.scripted(json!([{ "text": "Two.", "calls": [
        { "id": "quick", "name": "bash", "arguments": { "command": "echo finished-$((1+1))" } },
        { "id": "slow", "name": "bash", "arguments": { "command": "[ -p held ] && exec 9>held; sleep 300 & touch ready; wait" } }
    ] }]));
    let running = home.start(&["--mode", mode, "--model", &model, "go"]);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let ready = || {
        home.work().join("ready").exists()
            && std::fs::read_to_string(home.session()).is_ok_and(|text| text.contains("finished-2"))
    };
    while !ready() {
        assert!(std::time::Instant::now() < until, "the calls did not start");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running
}

/// Every call in the file has exactly one result, and every line is whole.
#[track_caller]
pub fn assert_answered(file: &Path) {
    let messages = Home::messages(file);
    let mut asked = Vec::new();
    let mut answered = Vec::new();
    for message in &messages {
        for block in message["content"].as_array().into_iter().flatten() {
            if block["type"] == "toolCall" {
                asked.push(block["id"].as_str().unwrap_or_default().to_owned());
            }
        }
        if message["role"] == "toolResult" {
            answered.push(message["toolCallId"].as_str().unwrap_or_default().to_owned());
        }
    }
    assert_eq!(answered.len(), answered.iter().collect::<BTreeSet<_>>().len(), "answered twice: {answered:?}");
    assert_eq!(asked.iter().collect::<BTreeSet<_>>(), answered.iter().collect(), "asked and answered");
}
