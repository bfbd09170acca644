//! Disks that are full, folders that nobody may write to, and room that comes back.

use crate::whole::whole;
use pith_tests::{Home, Running, Terminal};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Whether this user may mount, in a mount namespace.
fn can_mount() -> bool {
    let tried = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status();
    let can = tried.is_ok_and(|status| status.success());
    assert!(
        can || std::env::var_os("PITH_REQUIRE_SANDBOX").is_none(),
        "mount namespaces do not work here, and PITH_REQUIRE_SANDBOX is set"
    );
    can
}

/// Runs `pith` behind a script that mounts something; `$DATA` is the data folder, `$OUT` one that outlives the mount.
fn mounted(home: &Home, script: &str, args: &[&str]) -> pith_tests::Run {
    let pith = home.command(args);
    let out = home.root().join("out");
    fs::create_dir_all(&out).expect("a folder");
    let mut command = home.bare("unshare");
    command.env("DATA", home.root().join("data")).env("OUT", out).args(["-rm", "sh", "-c", script, "sh"]);
    command.arg(pith.get_program()).args(pith.get_args());
    Running::start(command, Duration::from_secs(60)).finish()
}

/// The path of the copy that standard error names.
#[track_caller]
fn rescued(run: &pith_tests::Run) -> PathBuf {
    let from = run.stderr.find("a copy of all of it is in ").unwrap_or_else(|| panic!("no copy is named: {run}"));
    let rest = &run.stderr[from + "a copy of all of it is in ".len()..];
    PathBuf::from(rest.split(';').next().expect("a path"))
}

fn texts(messages: &[Value]) -> Vec<String> {
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str()).collect(),
    };
    messages.iter().filter(|message| message["role"] != "system").map(text).collect()
}

/// Two calls of 40 kB between two answers: more than there is room for.
fn long_winded(home: &Home) -> String {
    home.write("given", "some words\n");
    let call = |id: &str| json!({ "id": id, "name": "read", "arguments": { "path": "given" } });
    let long = |mark: &str| format!("{mark} {}", "long ".repeat(8_000));
    home.scripted(json!([
        { "text": long("first"), "calls": [call("c1")] },
        { "text": long("second"), "calls": [call("c2")] },
        { "text": "the answer" },
    ]))
}

#[track_caller]
fn is_all_there(copy: &Path) {
    let read = whole(copy);
    let texts = texts(&read.messages);
    let begins: Vec<&str> = texts.iter().map(|text| text.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(begins, ["go", "first", "some", "second", "some", "the"], "{}", copy.display());
}

#[test]
fn on_a_full_disk_the_run_ends_well_and_a_copy_is_made() {
    if !can_mount() {
        return;
    }
    let home = Home::new();
    let model = long_winded(&home);
    let script = "mount -t tmpfs -o size=64k tmpfs $DATA || exit 99; \"$@\"; code=$?; cp -R $DATA/. $OUT; exit $code";
    let run = mounted(&home, script, &["--model", &model, "-p", "go"]).exits(1).prints("the answer");
    let run = run.says("No space left on device").says("the session is not saved: ").says("stays in memory");
    assert_eq!(run.stderr.matches("stays in memory").count(), 1, "once: {run}");
    let copy = rescued(&run);
    is_all_there(&copy);
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&copy).expect("it is there").permissions().mode() & 0o7777, 0o600);
    }
    // What was on the disk has whole lines only.
    let mut on_disk = Vec::new();
    find(&home.root().join("out"), &mut on_disk);
    assert_eq!(on_disk.len(), 1, "{on_disk:?}");
    let read = whole(&on_disk[0]);
    assert!(read.said.is_empty() && fs::read(&on_disk[0]).expect("it is there").ends_with(b"\n"));
    assert!(texts(&read.messages).first().is_some_and(|text| text == "go"));
    // The copy goes on.
    let model = home.scripted(json!([{ "expect": { "messages": 7 }, "text": "on it goes" }]));
    home.pith(&["--session", &copy.to_string_lossy(), "--trust-session", "--model", &model, "-p", "more"]).ok();
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") && !path.ends_with("index.jsonl") {
            found.push(path);
        }
    }
}

#[test]
fn in_a_folder_that_nobody_may_write_to_the_run_ends_well_and_a_copy_is_made() {
    if !can_mount() {
        return;
    }
    let home = Home::new();
    let model = long_winded(&home);
    let script = "mount --bind $DATA $DATA && mount -o remount,bind,ro $DATA || exit 99; exec \"$@\"";
    let run = mounted(&home, script, &["--model", &model, "-p", "go"]).exits(1).prints("the answer");
    let run = run.says("Read-only file system");
    is_all_there(&rescued(&run));
    assert!(home.sessions().is_empty());
    // One that is there is read, and goes on in memory.
    home.pith(&["--model", &home.scripted(json!([{ "text": "before" }])), "-p", "one"]).ok();
    let before = fs::read(home.session()).expect("it is there");
    let model = home.scripted(json!([{ "expect": { "messages": 3 }, "text": "after" }]));
    let run = mounted(&home, script, &["--model", &model, "-c", "-p", "two"]).exits(1).prints("after");
    assert_eq!(fs::read(home.session()).expect("it is there"), before);
    assert_eq!(texts(&whole(&rescued(&run)).messages), ["one", "before", "two", "after"]);
}

#[test]
fn where_nothing_can_be_written_at_all_that_is_said() {
    let home = Home::new();
    // The data folder is a file, and so is the temporary one.
    home.beside("data/pith", "not a folder");
    let model = home.scripted(json!([{ "text": "never lost" }]));
    let run = home.pith(&["--model", &model, "-p", "go"]).exits(1).prints("never lost");
    let copy = rescued(&run.says("data/pith").says("the session is not saved: "));
    assert!(copy.starts_with(home.root().join("tmp")), "{}", copy.display());
    let nowhere = home.beside("tmpfile", "");
    let home = home.with("TMPDIR", &nowhere.to_string_lossy());
    let run = home.pith(&["--no-plugins", "--model", &model, "-p", "go"]);
    assert_eq!(run.code, Some(1), "{run}");
    run.prints("never lost").says("a copy could not be made either");
    // And in memory nothing is missed.
    let home = home.with("TMPDIR", "/tmp");
    home.pith(&["--no-session", "--model", &model, "-p", "go"]).ok().prints("never lost");
}

#[test]
fn what_waited_in_memory_is_written_when_there_is_room_again() {
    let home = Home::new();
    let in_the_way = home.beside("data/pith", "not a folder");
    home.write("given", "some words\n");
    let call = json!({ "id": "c1", "name": "read", "arguments": { "path": "given" } });
    let model = home.scripted(json!([
        { "text": "slow ".repeat(40), "delay_ms": 50, "calls": [call] },
        { "text": "the answer" },
    ]));
    let mut running = home.start(&["--mode", "json", "--model", &model, "-p", "go"]);
    let notice = running.wait_event("notice");
    assert!(notice["message"].as_str().is_some_and(|text| text.contains("stays in memory")), "{notice}");
    fs::remove_file(in_the_way).expect("it was there");
    let notice = running.wait_event("notice");
    assert!(notice["message"].as_str().is_some_and(|text| text.contains("is saved again")), "{notice}");
    let run = running.finish().ok();
    assert!(!run.stderr.contains("not saved"), "{run}");
    let read = whole(&home.session());
    let begins: Vec<String> = texts(&read.messages).iter().map(|text| text.chars().take(4).collect()).collect();
    assert_eq!(begins, ["go", "slow", "some", "the "]);
    assert!(read.said.is_empty());
}

#[test]
fn a_conversation_that_could_not_be_saved_says_so_at_its_end() {
    let home = Home::new();
    home.beside("data/pith", "not a folder");
    let model = home.scripted(json!([{ "text": "an answer\n" }, { "text": "another answer\n" }]));
    let mut terminal = Terminal::start(&home, &["--model", &model]);
    terminal.prompt();
    terminal.line("one");
    terminal.waits("stays in memory");
    terminal.waits("an answer\n");
    terminal.prompt();
    terminal.line("two");
    terminal.waits("another answer\n");
    terminal.prompt();
    terminal.line("/quit");
    let shown = terminal.exits(1);
    assert!(shown.contains("error: the session is not saved: "), "{shown}");
    assert_eq!(shown.matches("stays in memory").count(), 1, "once: {shown}");
    let copies: Vec<PathBuf> = fs::read_dir(home.root().join("tmp"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    assert_eq!(copies.len(), 1, "{shown}");
    assert_eq!(texts(&whole(&copies[0]).messages), ["one", "an answer\n", "two", "another answer\n"]);
}
