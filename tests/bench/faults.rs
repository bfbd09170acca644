//! What guests that fail cost: memory over 1,000 traps, and the call that runs beside one that hangs.

use crate::{Plan, figures::Figures};
use pith_plugin::Limits;
use pith_tests::{Behaviour, Bench, Guest, plugin_source};
use serde_json::json;
use std::{
    fmt::Write,
    fs,
    time::{Duration, Instant},
};

const CYCLES: usize = 1_000;
/// A plugin is out after three faults in a row, so a call that works stands between them.
const TRAPS_IN_A_ROW: usize = 2;
const HUNG_FOR: Duration = Duration::from_secs(1);

/// The section of the report.
pub fn measure(plan: &Plan) -> String {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut out = String::from("\n## Guests that fail\n\n| what | |\n|---|---|\n");
    runtime.block_on(async {
        traps(&mut out).await;
        neighbour(plan, &mut out).await;
    });
    out
}

async fn traps(out: &mut String) {
    let guest = Guest::new().tool("trap", Behaviour::Trap).tool("echo", Behaviour::Echo).component();
    let bench = Bench::new(vec![plugin_source("trapping", guest, &["tools"], Limits::default())]);
    let cycle = async |count: usize| {
        let mut took = Figures::default();
        for number in 0..count {
            let began = Instant::now();
            let trapped = bench.call("trap", json!({})).await;
            took.add(began.elapsed().as_secs_f64() * 1e6);
            assert!(trapped.output.is_error, "{trapped:?}");
            if number % TRAPS_IN_A_ROW == TRAPS_IN_A_ROW - 1 {
                let worked = bench.call("echo", json!({})).await;
                assert!(!worked.output.is_error, "{worked:?}");
            }
        }
        took
    };
    cycle(CYCLES / 2).await;
    let before = resident_kib();
    let took = cycle(CYCLES).await;
    let grown = resident_kib() - before;
    let _ = writeln!(
        out,
        "| a trap and what follows it, {CYCLES} times (500 before), in microseconds | {:.0} ({:.0}) |\n\
         | growth of the resident set over them, in KiB | {grown:.0} |",
        took.median(),
        took.at(0.9)
    );
}

/// A small call, alone and beside one that spins until its deadline.
async fn neighbour(plan: &Plan, out: &mut String) {
    let limits = Limits { tool_deadline: HUNG_FOR, ..Limits::default() };
    let spinning = Guest::new().tool("spin", Behaviour::Loop).component();
    let quiet = Guest::new().tool("echo", Behaviour::Echo).component();
    let bench = Bench::new(vec![
        plugin_source("spinning", spinning, &["tools"], limits),
        plugin_source("quiet", quiet, &["tools"], Limits::default()),
    ]);
    let echo = async |figures: &mut Figures| {
        let began = Instant::now();
        let done = bench.call("echo", json!({})).await;
        figures.add(began.elapsed().as_secs_f64() * 1e6);
        assert!(!done.output.is_error, "{done:?}");
    };
    let (mut alone, mut beside) = (Figures::default(), Figures::default());
    let mut late = Figures::default();
    for _ in 0..plan.slow_rounds.min(2) {
        for _ in 0..500 {
            echo(&mut alone).await;
        }
        let began = Instant::now();
        let spin = bench.call("spin", json!({}));
        let echoes = async {
            while began.elapsed() < HUNG_FOR - Duration::from_millis(50) {
                echo(&mut beside).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let (spun, ()) = tokio::join!(spin, echoes);
        late.add((began.elapsed() - HUNG_FOR).as_secs_f64() * 1e3);
        assert!(spun.output.is_error, "{spun:?}");
    }
    let _ = writeln!(
        out,
        "| a small call alone, p50 / p99 in microseconds | {:.0} / {:.0} |\n\
         | the same while another plugin's guest spins | {:.0} / {:.0} |\n\
         | control back after the spinning guest's deadline, in milliseconds | {:.1} |",
        alone.median(),
        alone.at(0.99),
        beside.median(),
        beside.at(0.99),
        late.median()
    );
}

fn resident_kib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(f64::NAN)
}
