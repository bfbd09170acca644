//! The binary's own doors. The suite in `tests/` covers the rest; cargo builds the binary for it because this test needs it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::{Command, Output, Stdio};

#[track_caller]
fn check(args: &[&str], code: i32, out: &str, err: &str) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_pith")).args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(run.status.code(), Some(code), "{args:?}\n{}{}", text(&run.stdout), text(&run.stderr));
    assert!(text(&run.stdout).contains(out), "{args:?}: {}", text(&run.stdout));
    assert!(text(&run.stderr).contains(err), "{args:?}: {}", text(&run.stderr));
    run
}

#[test]
fn the_door_says_what_it_takes() {
    check(&["--version"], 0, concat!("pith ", env!("CARGO_PKG_VERSION")), "");
    check(&["--help"], 0, "Exit codes:", "");
    check(&["demo", "--help"], 0, "sample project", "");
    check(&["completions", "bash"], 0, "_pith", "");
    check(&[], 2, "", "A message is missing");
    check(&["--no-such-flag"], 2, "", "--no-such-flag");
    check(&["-c", "--no-session", "-p", "x"], 2, "", "cannot be used with");
}
