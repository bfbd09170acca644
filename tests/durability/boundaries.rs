//! SIGKILL before every single write, sync, rename and cut, by `strace`.

use crate::whole::{busy, has_all, told, whole};
use pith_tests::{Home, Run, Running};
use std::{process::Command, time::Duration};

/// Set where a missing `strace` is a failure, as in CI.
const REQUIRED: &str = "PITH_REQUIRE_STRACE";
/// What is a boundary.
const CALLS: &str =
    "write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,ftruncate,link,linkat,unlink,unlinkat";
/// More boundaries than a run has.
const MOST: usize = 400;

/// Whether processes can be traced here.
fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).status();
    let can = traced.is_ok_and(|status| status.success());
    assert!(can || std::env::var_os(REQUIRED).is_none(), "strace does not work here, and {REQUIRED} is set");
    can
}

/// Runs it with a kill before the `boundary`th call of each thread; on one file alone, if there is one.
fn killed_at(home: &Home, args: &[&str], boundary: usize, file: Option<&str>) -> Run {
    let pith = home.command(args);
    let mut traced = home.bare("strace");
    traced.args(["-f", "-qq", "-o", "/dev/null"]);
    if let Some(file) = file {
        traced.args(["-P", file]);
    }
    traced.arg("-e").arg(format!("trace={CALLS}"));
    traced.arg("-e").arg(format!("inject={CALLS}:signal=SIGKILL:when={boundary}"));
    traced.arg(pith.get_program()).args(pith.get_args());
    Running::start(traced, Duration::from_secs(60)).finish()
}

/// In the JSON face its own thread has most of the writes; without its lines every write of the session is a boundary of its own.
#[test]
fn a_new_session_outlives_a_kill_at_every_boundary() {
    new_sessions(&["-p"]);
}

#[test]
fn a_new_session_outlives_a_kill_at_every_boundary_of_what_it_tells() {
    new_sessions(&["--mode", "json", "-p"]);
}

fn new_sessions(face: &[&str]) {
    if !can_trace() {
        return;
    }
    for boundary in 1..=MOST {
        let home = Home::new();
        home.write("given", "some words\n");
        let model = home.scripted(busy(2));
        let run = killed_at(&home, &[&["--model", &model], face, &["go"]].concat(), boundary, None);
        let told = told(&run.stdout);
        match home.sessions().as_slice() {
            [] => assert!(told.is_empty(), "boundary {boundary}: {run}"),
            [file] => has_all(file, &told),
            files => panic!("boundary {boundary}: {files:?}"),
        }
        // It goes on, or a new one begins, and nobody calls it foreign.
        let again = home.pith(&["--mode", "json", "--model", &model, "-c", "-p", "go on"]).ok();
        assert!(!again.stderr.contains("is not as this Pith left it"), "boundary {boundary}: {again}");
        if run.code == Some(0) {
            assert!(boundary > 10, "only {boundary} boundaries were met");
            return;
        }
    }
    panic!("a run has more than {MOST} boundaries");
}

#[test]
fn a_session_that_goes_on_outlives_a_kill_at_every_write_to_its_file() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    home.write("given", "some words\n");
    let model = home.scripted(busy(3));
    home.pith(&["--mode", "json", "--model", &model, "-p", "go"]).ok();
    let file = home.session();
    let path = file.to_string_lossy().into_owned();
    let mut committed = whole(&file).messages;
    for boundary in 1..=MOST {
        let run = killed_at(&home, &["--mode", "json", "--model", &model, "-c", "-p", "go"], boundary, Some(&path));
        assert!(!run.stderr.contains("is not as this Pith left it"), "boundary {boundary}: {run}");
        committed.extend(told(&run.stdout));
        has_all(&file, &committed);
        assert_eq!(home.sessions().len(), 1);
        if run.code == Some(0) {
            assert!(boundary > 5, "only {boundary} boundaries were met");
            return;
        }
    }
    panic!("a run has more than {MOST} boundaries");
}
