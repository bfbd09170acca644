//! What is measured in a process of its own, so that its high-water mark of memory is its own too: `pith-bench --measure WHAT ...` prints one
//! line of JSON.

use super::grounds::Grounds;
use pith_protocol::{Content, Event};
use pith_runtime::{Index, Pith, SessionChoice};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// Measures in a child.
///
/// # Panics
/// Where it fails.
pub fn measure(what: &str, grounds: &Grounds, file: &Path) -> Value {
    let program = std::env::current_exe().expect("this program");
    let output =
        Command::new(program).args(["--measure", what]).arg(grounds.root()).arg(file).output().expect("it starts");
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a line of JSON")
}

/// The child's side. None where the arguments are not a child's.
pub fn run(args: &[String]) -> Option<Value> {
    let [flag, what, root, file] = args else { return None };
    if flag != "--measure" {
        return None;
    }
    let (grounds, file) = (Grounds::at(root.into()), Path::new(file));
    let mut measured = match what.as_str() {
        "parse" => parse(file),
        "open" => opened(&grounds, file),
        "trim" => compact(&grounds, file, false),
        "compact" => compact(&grounds, file, true),
        "list" => list(&grounds),
        _ => return None,
    };
    measured["peakMib"] = json!(peak_mib());
    Some(measured)
}

/// The plain way: a line at a time, each parsed by serde_json and dropped.
fn parse(file: &Path) -> Value {
    let began = Instant::now();
    let mut reader = BufReader::with_capacity(1 << 20, File::open(file).expect("the file"));
    let (mut line, mut lines) = (Vec::new(), 0u64);
    while reader.read_until(b'\n', &mut line).expect("it can be read") > 0 {
        let value: Value = serde_json::from_slice(&line).expect("it is JSON");
        assert!(value.is_object());
        lines += 1;
        line.clear();
    }
    json!({ "ms": millis(began), "count": lines })
}

fn opened(grounds: &Grounds, file: &Path) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let began = Instant::now();
    let pith = runtime.block_on(grounds.start(SessionChoice::Open(file.to_string_lossy().into_owned()), false));
    let ms = millis(began);
    let projecting = Instant::now();
    let messages = pith.session().project().messages.len();
    json!({ "ms": ms, "projectMs": millis(projecting), "count": messages })
}

/// From a prompt until the compaction is over that it begins with.
fn compact(grounds: &Grounds, file: &Path, with_plugins: bool) -> Value {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let pith: Pith = grounds.start(SessionChoice::Open(file.to_string_lossy().into_owned()), with_plugins).await;
        let mut events = pith.events();
        let began = Instant::now();
        // On a thread of its own, so that it sees each event when it comes.
        let watching = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Event::CompactionEnd { result, error_message, .. } = event {
                    // Where no plugin wrote it, that is said.
                    assert!(result.is_some() && error_message.is_none() == with_plugins, "{error_message:?}");
                    return Some(millis(began));
                }
            }
            None
        });
        let end = tokio::time::timeout(Duration::from_secs(120), pith.prompt(vec![Content::text("go on")]));
        end.await.expect("in time").expect("it ends");
        pith.close_events();
        let ms = watching.await.expect("it does not panic");
        json!({ "ms": ms.expect("the window is full") })
    })
}

fn list(grounds: &Grounds) -> Value {
    let began = Instant::now();
    let listing = Index::at(grounds.places()).list(None).expect("it can be listed");
    json!({ "ms": millis(began), "count": listing.sessions.len() })
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

fn peak_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
