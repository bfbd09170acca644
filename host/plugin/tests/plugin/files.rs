//! Folders: what WASI opens beneath them, what it does not, `scan`, and calls that hold them.

use crate::{
    guests::{Tool, when_asked},
    house::{House, said, soon},
};
use serde_json::json;
use std::{
    os::unix::fs::symlink,
    time::{Duration, Instant},
};

/// Error codes of `wasi:filesystem`, by their place in it.
const NO_ENTRY: u8 = 20;
const UNSUPPORTED: u8 = 27;
const NOT_PERMITTED: u8 = 31;

/// Opens `path` beneath the first folder given and says "done", or the error's code as the one letter `A` + code; "none" without a folder.
fn opens(path: &str, open_flags: u8, flags: u8) -> Vec<u8> {
    let body = format!(
        "(call $folders (i32.const 160))
         (if (result i32) (i32.eqz (i32.load (i32.const 164)))
            (then (call $say (i32.const 330) (i32.const 4)))
            (else
                (call $open (i32.load (i32.load (i32.const 160))) (i32.const 1) (i32.const 340) (i32.const {length})
                    (i32.const {open_flags}) (i32.const {flags}) (i32.const 176))
                (if (result i32) (i32.load8_u (i32.const 176))
                    (then
                        (i32.store8 (i32.const 700) (i32.add (i32.const 65) (i32.load8_u (i32.const 180))))
                        (call $say (i32.const 700) (i32.const 1)))
                    (else (call $say (i32.const 256) (i32.const 4))))))",
        length = path.len()
    );
    Tool {
        world: "import wasi:filesystem/types@0.2.6; import wasi:filesystem/preopens@0.2.6;",
        imports: r#"
            (import "wasi:filesystem/preopens@0.2.6" "get-directories" (func $folders (param i32)))
            (import "wasi:filesystem/types@0.2.6" "[method]descriptor.open-at" (func $open (param i32 i32 i32 i32 i32 i32 i32)))"#,
        constants: vec![(330, "none"), (340, path)],
        body: &body,
        ..Tool::default()
    }
    .build()
}

const READ: u8 = 1;
const WRITE: u8 = 2;
const CREATE: u8 = 1;

async fn opened(house: &mut House, grants: &[&str], path: &str, open_flags: u8, flags: u8) -> String {
    house.plugins.clear();
    house.add("mine", opens(path, open_flags, flags), grants);
    let host = house.load().unwrap();
    let began = Instant::now();
    let told = said(&house.session("one").call(&host, "try", json!({})).await);
    assert!(began.elapsed() < Duration::from_secs(2), "{path}: {:?}", began.elapsed());
    assert_eq!(host.plugins()[0].threads_left_behind, 0, "{path}");
    told
}

fn code(code: u8) -> String {
    char::from(65 + code).to_string()
}

/// Hostile case 17, as far as it is of this room.
#[tokio::test(flavor = "multi_thread")]
async fn only_regular_files_and_folders_open() {
    let mut house = House::new();
    let at = |house: &House, name: &str| house.work().join(name);
    std::fs::write(at(&house, "file"), "text").unwrap();
    std::fs::create_dir(at(&house, "folder")).unwrap();
    std::fs::write(house.at("outside"), "secret").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at(&house, "fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(at(&house, "socket")).unwrap();
    symlink("file", at(&house, "inward")).unwrap();
    symlink("fifo", at(&house, "to-fifo")).unwrap();
    symlink("../outside", at(&house, "outward")).unwrap();
    symlink("/etc/passwd", at(&house, "absolute")).unwrap();
    let grants = &["tools", "files=workspace:rw"];
    for name in ["file", "folder", "inward", "."] {
        assert_eq!(opened(&mut house, grants, name, 0, READ).await, "done", "{name}");
    }
    for name in ["fifo", "to-fifo", "socket"] {
        for flags in [READ, WRITE, READ | WRITE] {
            assert_eq!(opened(&mut house, grants, name, 0, flags).await, code(UNSUPPORTED), "{name}");
        }
        assert_eq!(opened(&mut house, grants, name, CREATE, WRITE).await, code(UNSUPPORTED), "{name}");
    }
    for name in ["../outside", "outward", "absolute", "/etc/passwd", "folder/../../outside"] {
        assert_eq!(opened(&mut house, grants, name, 0, READ).await, code(NOT_PERMITTED), "{name}");
    }
    assert_eq!(opened(&mut house, grants, "missing", 0, READ).await, code(NO_ENTRY));
    assert_eq!(opened(&mut house, grants, "made", CREATE, WRITE).await, "done");
    assert!(at(&house, "made").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_given_as_it_was_granted() {
    let mut house = House::new();
    std::fs::write(house.work().join("file"), "text").unwrap();
    assert_eq!(opened(&mut house, &["tools"], "file", 0, READ).await, "none");
    assert_eq!(opened(&mut house, &["tools", "files=workspace"], "file", 0, READ).await, "done");
    assert_eq!(opened(&mut house, &["tools", "files=workspace"], "new", CREATE, WRITE).await, code(NOT_PERMITTED));
    assert_eq!(opened(&mut house, &["tools", "files=plugin-data:rw"], "new", CREATE, WRITE).await, "done");
    assert!(house.at("state/plugin-data/mine/new").is_file());
    std::fs::write(house.at("state/spool/long.log"), "text").unwrap();
    assert_eq!(opened(&mut house, &["tools", "files=spool"], "long.log", 0, READ).await, "done");
    assert_eq!(opened(&mut house, &["tools", "files=spool"], "new", CREATE, WRITE).await, code(NOT_PERMITTED));
}

/// The folder that was checked at load is the one that is given, not what came in its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_was_replaced_is_not_given() {
    let mut house = House::new();
    house.add("mine", opens("passwd", 0, READ), &["tools", "files=workspace:rw"]);
    let host = house.load().unwrap();
    std::fs::rename(house.at("work"), house.at("moved")).unwrap();
    symlink("/etc", house.at("work")).unwrap();
    let talk = house.session("one");
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), code(NO_ENTRY));
    std::fs::write(house.at("moved/passwd"), "mine").unwrap();
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_folders_ends_at_its_deadline_and_on_abort() {
    let guest = Tool { body: &when_asked("(loop $on (br $on)) unreachable"), ..Tool::default() };
    let mut house = House::new();
    house.add("mine", guest.build(), &["tools", "files=workspace"]).limits.tool_deadline = Duration::from_millis(200);
    let host = house.load().unwrap();
    soon(Duration::from_millis(300), async |number| {
        let talk = house.session(&format!("late {number}"));
        let began = Instant::now();
        let outcome = talk.call(&host, "try", json!({ "do": 1 })).await;
        let took = began.elapsed();
        assert_eq!(said(&outcome), "fault tools.call: exceeded its deadline of 200 ms");
        assert_eq!(said(&talk.call(&host, "try", json!({})).await), "done");
        took
    })
    .await;
    soon(Duration::from_millis(120), async |number| {
        let talk = house.session(&format!("aborted {number}"));
        let cancel = talk.cancel.clone();
        let began = Instant::now();
        let (outcome, ()) = tokio::join!(talk.call(&host, "try", json!({ "do": 1 })), async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            cancel.cancel();
        });
        assert_eq!(said(&outcome), "aborted");
        began.elapsed()
    })
    .await;
    // A thread that a busy machine made late ends all the same.
    while host.plugins()[0].threads_left_behind > 0 {
        tokio::task::yield_now().await;
    }
}

/// A call that is dropped at an await leaves nothing running.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_folders_that_is_dropped_ends_too() {
    let guest = Tool { body: &when_asked("(loop $on (br $on)) unreachable"), ..Tool::default() };
    let house = House::with(&[("mine", guest.build(), &["tools", "files=workspace"])]);
    let host = house.load().unwrap();
    let talk = house.session("one");
    let dropped = tokio::time::timeout(Duration::from_millis(50), talk.call(&host, "try", json!({ "do": 1 }))).await;
    assert!(dropped.is_err());
    let ended = async {
        while host.plugins()[0].threads_left_behind > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), ended).await.expect("the thread ended");
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "done");
}

/// Makes a link and says "done", or the error's code as the letter `A` + code.
fn links(target: &str) -> Vec<u8> {
    let body = format!(
        "(call $folders (i32.const 160))
         (call $link (i32.load (i32.load (i32.const 160))) (i32.const 340) (i32.const {length}) (i32.const 330) (i32.const 4) (i32.const 176))
         (if (result i32) (i32.load8_u (i32.const 176))
            (then
                (i32.store8 (i32.const 700) (i32.add (i32.const 65) (i32.load8_u (i32.const 177))))
                (call $say (i32.const 700) (i32.const 1)))
            (else (call $say (i32.const 256) (i32.const 4))))",
        length = target.len()
    );
    Tool {
        world: "import wasi:filesystem/types@0.2.6; import wasi:filesystem/preopens@0.2.6;",
        imports: r#"
            (import "wasi:filesystem/preopens@0.2.6" "get-directories" (func $folders (param i32)))
            (import "wasi:filesystem/types@0.2.6" "[method]descriptor.symlink-at" (func $link (param i32 i32 i32 i32 i32 i32)))"#,
        constants: vec![(330, "made"), (340, target)],
        body: &body,
        ..Tool::default()
    }
    .build()
}

#[tokio::test(flavor = "multi_thread")]
async fn links_cannot_be_made_to_lead_out() {
    let mut house = House::new();
    for target in ["/etc/passwd", "..", "../outside", "folder/../../outside", "a/.."] {
        house.plugins.clear();
        house.add("mine", links(target), &["tools", "files=workspace:rw"]);
        let host = house.load().unwrap();
        assert_eq!(said(&house.session("one").call(&host, "try", json!({})).await), code(NOT_PERMITTED), "{target}");
    }
    assert!(std::fs::symlink_metadata(house.work().join("made")).is_err());
    house.plugins.clear();
    house.add("mine", links("folder/file"), &["tools", "files=workspace:rw"]);
    let host = house.load().unwrap();
    assert_eq!(said(&house.session("one").call(&host, "try", json!({})).await), "done");
    assert_eq!(std::fs::read_link(house.work().join("made")).unwrap().to_str(), Some("folder/file"));
}

/// Searches for "needle" beneath `root` and says the first hit's text, or the error.
fn scans(root: &str) -> Vec<u8> {
    let call = format!(
        "(i32.store (i32.const 480) (i32.const 340)) (i32.store (i32.const 484) (i32.const {length}))
         (call $scan (i32.const 480) (i32.const 1) (i32.const 1) (i32.const 330) (i32.const 6) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 10) (i32.const 1000) (i32.const 160))
         (if (result i32) (i32.load8_u (i32.const 160))
            (then (call $say (i32.load (i32.const 168)) (i32.load (i32.const 172))))
            (else (if (result i32) (i32.load (i32.const 168))
                (then (call $say (i32.load offset=12 (i32.load (i32.const 164))) (i32.load offset=16 (i32.load (i32.const 164)))))
                (else (call $say (i32.const 256) (i32.const 4))))))",
        length = root.len()
    );
    Tool {
        world: "import pith:plugin/scan@0.1.0;",
        imports: r#"(import "pith:plugin/scan@0.1.0" "run" (func $scan (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
        constants: vec![(330, "needle"), (340, root)],
        body: &call,
        ..Tool::default()
    }
    .build()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_stays_in_the_folders_granted() {
    let mut house = House::new();
    std::fs::write(house.work().join("hay"), "straw\na needle here\n").unwrap();
    std::fs::write(house.at("outside"), "a needle outside\n").unwrap();
    symlink("..", house.work().join("up")).unwrap();
    for (root, words) in [
        (".", "a needle here"),
        ("hay", "a needle here"),
        ("..", "not in a granted folder"),
        ("up", "not in a granted folder"),
        ("/etc", "not in a granted folder"),
        ("missing", "not found"),
    ] {
        house.plugins.clear();
        house.add("mine", scans(root), &["tools", "files=workspace"]);
        let host = house.load().unwrap();
        let told = said(&house.session("one").call(&host, "try", json!({})).await);
        assert!(told.contains(words), "{root}: {told}");
    }
}
