//! Where a case happens: shipped tools and hostile plugins in one host, a bystander among them, and an eye on memory.

use pith_plugin::{Limits, PluginSource};
use pith_tests::{Bench, Bystander, Latencies, hostile_component, plugin_source, shipped_sources};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio::sync::Mutex;

/// How much longer than in the quiet the bystander's calls may take, all but one in a hundred.
const SLOWER: Duration = Duration::from_millis(100);
/// How much longer the longest of them may take: two threads and two cores serve case and bystander, so one call may wait for a burst of work.
const SLOWEST: Duration = Duration::from_millis(500);
/// How much the process may grow during a case, in KiB.
const GROWTH_KIB: u64 = 320 << 10;
/// A machine that is busy with something else makes one try slow, not all of them.
const TRIES: u32 = 3;
/// The calls that the bystander makes at least, in the quiet and in each case.
const CALLS: usize = 40;

/// One case at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// A case's place.
pub struct Arena {
    pub bench: Bench,
    sessions: AtomicU32,
}

/// The hostile guest with these limits and settings; it may read and write in the working folder and run bash.
pub fn hostile(deadline: Duration, settings: Value) -> PluginSource {
    let limits = Limits { tool_deadline: deadline, ..Limits::default() };
    let grants = ["tools", "files=workspace:rw", "process=bash"];
    PluginSource { settings, ..plugin_source("hostile", hostile_component(), &grants, limits) }
}

/// The same with enough time.
pub fn usual() -> PluginSource {
    hostile(Duration::from_secs(30), json!({}))
}

/// Runs a case with these plugins beside the shipped ones. It may run more than once.
pub async fn case(name: &str, plugins: &[PluginSource], body: impl AsyncFn(&Arena)) {
    let _turn = TURN.lock().await;
    let mut worst = String::new();
    for _ in 0..TRIES {
        let sources: Vec<PluginSource> = shipped_sources()
            .into_iter()
            .filter(|plugin| plugin.name == "files" || plugin.name == "search")
            .chain(plugins.iter().cloned())
            .collect();
        let arena = Arena { bench: Bench::new(sources), sessions: AtomicU32::new(0) };
        let bystander = Bystander::start(&arena.bench);
        bystander.calls(CALLS).await;
        let quiet = bystander.take();
        let before = memory("VmRSS");
        forget_peak();
        body(&arena).await;
        bystander.calls(CALLS).await;
        let seen = bystander.take();
        let grown = memory("VmHWM").saturating_sub(before);
        bystander.stop().await;
        print(name, &seen, &quiet, grown);
        let is_served =
            seen.within(0.99) <= quiet.within(0.99) + SLOWER && seen.within(1.0) <= quiet.within(1.0) + SLOWEST;
        if is_served && grown <= GROWTH_KIB {
            return;
        }
        worst = format!("{seen} (quiet: {quiet}); grown by {} MiB", grown >> 10);
    }
    panic!("{name}: {worst}");
}

/// The figures of a case, for whoever looks with `--nocapture`.
#[allow(clippy::print_stdout, reason = "figures are what a case is for")]
fn print(name: &str, seen: &Latencies, quiet: &Latencies, grown_kib: u64) {
    let quiet = quiet.within(0.99).as_secs_f64() * 1e3;
    println!("{name:56} {seen}; quiet p99 {quiet:5.2} ms; +{} MiB", grown_kib >> 10);
}

impl Arena {
    /// Another host, with these plugins.
    pub fn with(&self, plugins: Vec<PluginSource>) -> Self {
        Self { bench: Bench::new(plugins), sessions: AtomicU32::new(0) }
    }

    pub fn work(&self) -> PathBuf {
        self.bench.work()
    }

    /// Calls a tool in a session of its own; what it said, and whether as an error.
    pub async fn call(&self, tool: &str, input: Value) -> (String, bool) {
        let session = format!("s{}", self.sessions.fetch_add(1, Ordering::Relaxed));
        said(&self.bench.beside(&session), tool, input).await
    }

    /// A call whose fault has these words in it.
    #[track_caller]
    pub fn fault(&self, tool: &str, input: Value, words: &str) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let (text, is_error) = self.call(tool, input).await;
            assert!(is_error && text.contains("plugin ") && text.contains(words), "{place}: {tool}: {}", short(&text));
        }
    }

    /// A call that ends well, with these words.
    #[track_caller]
    pub fn fine(&self, tool: &str, input: Value, words: &str) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let (text, is_error) = self.call(tool, input).await;
            assert!(!is_error && text.contains(words), "{place}: {tool}: {}", short(&text));
        }
    }
}

/// What a call in this session said, and whether as an error.
pub async fn said(bench: &Bench, tool: &str, input: Value) -> (String, bool) {
    let output = bench.call(tool, input).await.output;
    let text = output.content.iter().filter_map(|block| block.as_text()).collect::<Vec<_>>().join("|");
    (text, output.is_error)
}

pub fn short(text: &str) -> String {
    text.chars().take(300).collect()
}

/// A line of `/proc/self/status`, in KiB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("the kernel says it")
}

/// From here on `VmHWM` is the peak.
fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("a process's own");
}
