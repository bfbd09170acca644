//! Other programs that delete, replace or write a session's file while it is worked on.

use crate::whole::whole;
use pith_tests::{Home, Run, Running};
use serde_json::json;
use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

/// A run that answers for a second, its file beside it.
fn slow(home: &Home) -> (Running, PathBuf) {
    home.write("given", "some words\n");
    let call = json!({ "id": "c1", "name": "read", "arguments": { "path": "given" } });
    let model = home.scripted(json!([
        { "text": "slow ".repeat(20), "delay_ms": 50, "calls": [call] },
        { "text": "the answer" },
    ]));
    let mut running = home.start(&["--mode", "json", "--model", &model, "-p", "go"]);
    running.wait_line(|line| line.contains("\"text_delta\""));
    (running, home.session())
}

#[track_caller]
fn is_whole(file: &Path) {
    let read = whole(file);
    let roles: Vec<&str> = read.messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "toolResult", "assistant"], "{}", file.display());
    assert!(read.said.is_empty(), "{:?}", read.said);
}

fn notices(run: &Run) -> Vec<String> {
    let notices = run.events().into_iter().filter(|event| event["type"] == "notice");
    notices.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_deleted_file_is_written_again_with_its_folder() {
    let home = Home::new();
    let (running, file) = slow(&home);
    fs::remove_dir_all(home.root().join("data/pith/sessions")).expect("it was there");
    let run = running.finish().ok();
    assert!(notices(&run).iter().any(|text| text.contains("was deleted; it was written again")), "{run}");
    assert_eq!(home.session(), file);
    is_whole(&file);
}

#[track_caller]
fn went_on_in_another_file(home: &Home, old: &Path, run: &Run) -> PathBuf {
    let new: Vec<PathBuf> = home.sessions().into_iter().filter(|file| file != old).collect();
    assert_eq!(new.len(), 1, "{run}");
    let told = notices(run);
    let names_both =
        |text: &String| text.contains(&*old.to_string_lossy()) && text.contains(&*new[0].to_string_lossy());
    assert!(told.iter().any(names_both), "{told:?}");
    is_whole(&new[0]);
    let header = &Home::entries(&new[0])[0];
    assert_eq!(header["parentSession"], json!(old), "{header}");
    assert_ne!(header["id"], Home::entries(&new[0])[1]["id"]);
    // It is our own, and -c goes on from it.
    let model = home.scripted(json!([{ "expect": { "messages": 5 }, "text": "more" }]));
    let more = home.pith(&["--session", &new[0].to_string_lossy(), "--model", &model, "-p", "and?"]).ok();
    assert!(!more.stderr.contains("is not as this Pith left it"), "{more}");
    new[0].clone()
}

#[test]
fn behind_what_another_program_wrote_a_session_goes_on_in_a_file_of_its_own() {
    let home = Home::new();
    let (running, file) = slow(&home);
    let theirs = json!({ "type": "custom", "id": "ffffffff", "parentId": null, "timestamp": "2026-01-01T00:00:00.000Z", "customType": "their/own" });
    let mut opened = OpenOptions::new().append(true).open(&file).expect("it is there");
    opened.write_all(format!("{theirs}\n").as_bytes()).expect("it can be written");
    let before = fs::read(&file).expect("it is there");
    let run = running.finish().ok();
    assert_eq!(fs::read(&file).expect("it is there"), before, "what they wrote stands");
    went_on_in_another_file(&home, &file, &run);
    // Theirs is foreign now.
    let model = home.scripted(json!([{ "text": "theirs" }]));
    let run = home.pith(&["--session", &file.to_string_lossy(), "--model", &model, "-p", "and?"]).ok();
    run.says("is not as this Pith left it");
}

#[test]
fn a_file_that_an_editor_replaced_is_left_and_nothing_is_lost() {
    let home = Home::new();
    let (running, file) = slow(&home);
    let edited = fs::read_to_string(&file).expect("it is there").replace("go", "stop");
    let beside = file.with_extension("new");
    fs::write(&beside, &edited).expect("it can be written");
    fs::rename(&beside, &file).expect("it can be replaced");
    let run = running.finish().ok();
    assert_eq!(fs::read_to_string(&file).expect("it is there"), edited);
    went_on_in_another_file(&home, &file, &run);
}

#[test]
fn a_tail_that_cannot_be_cut_off_is_left_and_the_next_line_is_fresh() {
    let home = Home::new();
    let (mut running, file) = {
        home.write("given", "some words\n");
        let call = json!({ "id": "c1", "name": "read", "arguments": { "path": "given" } });
        let model = home.scripted(json!([
            { "text": "long ".repeat(400), "delay_ms": 1, "calls": [call] },
            { "text": "slow ".repeat(20), "delay_ms": 50 },
        ]));
        let mut running = home.start(&["--mode", "json", "--model", &model, "-p", "go"]);
        running.wait_line(|line| line.contains("\"text_delta\""));
        (running, home.session())
    };
    // From now on the file can only be appended to: not every file system, and not every user, can have that.
    let only_append = |sign: &str| std::process::Command::new("chattr").arg(format!("{sign}a")).arg(&file).status();
    if !only_append("+").is_ok_and(|status| status.success()) {
        return;
    }
    let length = fs::metadata(&file).expect("it is there").len();
    let limit = |size: &str| {
        let pid = running.id().to_string();
        let set = std::process::Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={size}:")]).status();
        assert!(set.expect("prlimit").success());
    };
    limit(&(length + 100).to_string());
    let notice = running.wait_event("notice");
    let pid = running.id().to_string();
    let lifted = std::process::Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:"]).status();
    let run = running.finish();
    only_append("-").expect("chattr");
    assert!(lifted.expect("prlimit").success());
    assert!(notice["message"].as_str().is_some_and(|text| text.contains("stays in memory")), "{notice}");
    let run = run.ok();
    let text = fs::read(&file).expect("it is there");
    assert_eq!(text.get(length as usize + 100), Some(&b'\n'), "the torn piece ends where the limit was: {run}");
    let read = whole(&file);
    let roles: Vec<&str> = read.messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(
        (roles, read.said.len()),
        (vec!["system", "user", "assistant", "toolResult", "assistant"], 1),
        "{:?}",
        read.said
    );
    let model = home.scripted(json!([{ "expect": { "messages": 5 }, "text": "more" }]));
    home.pith(&["-c", "--model", &model, "-p", "and?"]).ok();
}
