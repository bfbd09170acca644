//! Files that end anywhere, and writes that the system cuts short.

use crate::whole::{busy, whole};
use pith_runtime::{Environment, Options, Places, SessionChoice, start};
use pith_tests::{Home, Running};
use serde_json::json;
use std::{fs, time::Duration};

/// Lines at whose every byte the file is cut.
const LINES: usize = 3;

#[test]
fn a_file_that_is_cut_anywhere_loses_the_torn_line_and_no_other() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "an answer of some words" }]));
    home.pith(&["--model", &model, "-p", "go"]).ok();
    let file = home.session();
    let bytes = fs::read(&file).expect("it is there");
    let line_starts: Vec<usize> = std::iter::once(0)
        .chain(bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1))
        .collect();
    // The last of them is the file's end.
    let from = line_starts[line_starts.len() - 1 - LINES];
    let places = Places::beneath(&home.root().join("library"));
    let folder = places.sessions().join("x");
    fs::create_dir_all(&folder).expect("a folder");
    let cut = folder.join("2026_cut.jsonl");
    for end in from..=bytes.len() {
        fs::write(&cut, &bytes[..end]).expect("it can be written");
        let kept = line_starts.iter().filter(|start| **start <= end).count() - 1;
        // A line that lacks nothing but its newline is whole.
        let is_torn = end > line_starts[kept];
        let is_whole_line = is_torn && bytes[end] == b'\n';
        runtime.block_on(async {
            let mut options = Options::at(places.clone(), home.work(), Environment::default());
            options.session = SessionChoice::Open(cut.to_string_lossy().into_owned());
            options.model = Some(model.clone());
            options.load_plugins = false;
            options.trust_session = true;
            let pith = start(options).await.unwrap_or_else(|error| panic!("cut at {end}: {error}"));
            assert_eq!(pith.session().outline().len(), kept - 1 + usize::from(is_whole_line), "cut at {end}");
            let name = pith_protocol::SessionInfo { name: Some("after".to_owned()) };
            pith.session().append(pith_protocol::EntryBody::SessionInfo(name)).expect("it can be appended to");
        });
        let after = fs::read(&cut).expect("it is there");
        assert!(after.starts_with(&bytes[..end]), "cut at {end}: what was there was changed");
        let fresh = if is_torn { end + 1 } else { end };
        assert!(!is_torn || after[end] == b'\n', "cut at {end}: glued to the torn line");
        let last: serde_json::Value =
            serde_json::from_slice(&after[fresh..]).unwrap_or_else(|error| panic!("cut at {end}: {error}"));
        assert_eq!(last["name"], "after", "cut at {end}");
        let read = whole(&cut);
        assert_eq!(read.loaded.outline().len(), kept + usize::from(is_whole_line), "cut at {end}");
        assert_eq!(read.said.len(), usize::from(is_torn && !is_whole_line), "cut at {end}: {:?}", read.said);
    }
}

/// The system writes part of a line, then refuses: at many sizes.
#[test]
fn a_write_that_is_cut_short_leaves_whole_lines_only() {
    let home = Home::new();
    home.write("given", "some words\n");
    let model = home.scripted(busy(2));
    let args = ["--mode", "json", "--model", &model, "-p", "go"];
    home.pith(&args).ok();
    let length = fs::metadata(home.session()).expect("it is there").len();
    let mut met_limit = 0;
    for size in (0..length + 1000).step_by(usize::try_from(length / 40).expect("small")) {
        let home = Home::new();
        home.write("given", "some words\n");
        let pith = home.command(&args);
        let mut limited = home.bare("prlimit");
        // What the tools write is smaller than any of the session's.
        limited.arg(format!("--fsize={size}:unlimited")).arg(pith.get_program()).args(pith.get_args());
        let run = Running::start(limited, Duration::from_secs(60)).finish();
        assert!(run.signal.is_none() && !run.stderr.contains("panicked"), "{size}: {run}");
        // The run itself goes on to its end.
        assert!(run.stdout.contains("all done"), "{size}: {run}");
        if let [file] = home.sessions().as_slice() {
            let read = whole(file);
            assert!(read.said.is_empty(), "{size}: {:?}", read.said);
            let text = fs::read(file).expect("it is there");
            assert!(text.ends_with(b"\n") && text.len() as u64 <= size.max(1), "{size}: {} bytes", text.len());
        }
        if run.code == Some(1) {
            met_limit += 1;
            assert!(run.stderr.contains("the session is not saved: "), "{size}: {run}");
            // Without the limit it goes on from what is there.
            home.pith(&["--mode", "json", "--model", &model, "-c", "-p", "go"]).ok();
        } else {
            assert_eq!(run.code, Some(0), "{size}: {run}");
        }
    }
    assert!(met_limit > 20, "the limit was met {met_limit} times");
}
