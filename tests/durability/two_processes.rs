//! Two processes and one session.

use pith_tests::Home;
use serde_json::json;
use std::fs;

#[test]
fn one_process_writes_a_session_and_others_are_told_which() {
    let home = Home::new();
    let quick = home.scripted(json!([{ "text": "quick" }]));
    home.pith(&["--model", &quick, "-p", "one"]).ok();
    let id = Home::entries(&home.session())[0]["id"].as_str().expect("an id").to_owned();
    let slow = home.scripted(json!([{ "text": "slow ".repeat(200), "delay_ms": 100 }]));
    let mut first = home.start(&["--mode", "json", "--session", &id, "--model", &slow, "hold it"]);
    first.wait_line(|line| line.contains("\"text_delta\""));
    let before = fs::read(home.session()).expect("it is there");
    for args in [&["--session", &id][..], &["-c"]] {
        let args = [args, &["--model", &quick, "-p", "me too"]].concat();
        let second = home.pith(&args).exits(2).says("in use by another Pith");
        let holder = format!("(process {}, json, since 20", first.id());
        let second = second.says(&holder).says("pith session show").says("pith session fork");
        assert!(!second.stdout.contains("quick"), "{second}");
    }
    assert_eq!(fs::read(home.session()).expect("it is there"), before);
    // The lock goes with the process, however it ends.
    first.signal(rustix::process::Signal::KILL);
    assert_eq!(first.finish().signal, Some(9));
    home.pith(&["--session", &id, "--model", &quick, "-p", "now"]).ok().prints("quick");
}

#[test]
fn without_the_index_the_kernel_says_who_writes() {
    let home = Home::new();
    let slow = home.scripted(json!([{ "text": "slow ".repeat(200), "delay_ms": 100 }]));
    let mut first = home.start(&["--mode", "json", "--model", &slow, "hold it"]);
    first.wait_line(|line| line.contains("\"text_delta\""));
    fs::remove_file(home.root().join("data/pith/sessions/index.jsonl")).expect("it was there");
    let second = home.pith(&["-c", "--model", &slow, "-p", "me too"]).exits(2);
    let listed = fs::read_to_string("/proc/locks").is_ok_and(|locks| locks.contains(&format!(" {} ", first.id())));
    if listed {
        second.says(&format!("(process {})", first.id()));
    } else {
        second.says("in use by another Pith");
    }
}

/// Many processes that each begin a session of their own, at once: the index has all of them.
#[test]
fn processes_that_begin_at_once_are_all_in_the_index() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "one of many" }]));
    let running: Vec<_> = (0..12).map(|_| home.start(&["--no-plugins", "--model", &model, "-p", "go"])).collect();
    for one in running {
        one.finish().ok();
    }
    let index = fs::read_to_string(home.root().join("data/pith/sessions/index.jsonl")).expect("it is there");
    let files = home.sessions();
    assert_eq!(files.len(), 12);
    for file in files {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let last =
            index.lines().rfind(|line| line.contains(&name)).unwrap_or_else(|| panic!("{name} is not in the index"));
        let last: serde_json::Value = serde_json::from_str(last).expect("a line is JSON");
        assert_eq!((&last["claim"], &last["writing"]), (&json!("own"), &serde_json::Value::Null), "{last}");
        assert_eq!(last["stamp"]["bytes"], fs::metadata(&file).expect("it is there").len(), "{last}");
        assert_eq!(last["totals"]["users"], 1, "{last}");
    }
}

/// A file system without locks: said, and nothing is written.
#[test]
fn without_locks_nothing_is_written_in_silence() {
    let traced = std::process::Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if !traced.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("PITH_REQUIRE_STRACE").is_none(), "strace does not work here");
        return;
    }
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "quick" }]));
    home.pith(&["--no-plugins", "--model", &model, "-p", "one"]).ok();
    let before = fs::read(home.session()).expect("it is there");
    let lockless = |args: &[&str]| {
        let pith = home.command(args);
        let mut traced = home.bare("strace");
        traced.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e", "inject=flock:error=ENOLCK"]);
        traced.arg(pith.get_program()).args(pith.get_args());
        pith_tests::Running::start(traced, std::time::Duration::from_secs(60)).finish()
    };
    lockless(&["--no-plugins", "--model", &model, "-c", "-p", "two"])
        .exits(2)
        .says("cannot be locked")
        .says("--no-session");
    assert_eq!(fs::read(home.session()).expect("it is there"), before);
    let new = lockless(&["--no-plugins", "--model", &model, "-p", "three"]).exits(1).says("cannot be locked");
    new.prints("quick").says("a copy of all of it is in ");
    assert_eq!(home.sessions().len(), 1);
}
