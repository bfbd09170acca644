//! When and on what: shape, no names.

use crate::Plan;
use std::{fs, process::Command};

/// The report's first lines.
pub fn heading(plan: &Plan) -> String {
    let said = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let value = text.lines().find_map(|line| {
            line.strip_prefix(name).and_then(|rest| rest.split_once(':')).map(|(_, value)| value.trim().to_owned())
        });
        value.unwrap_or_default()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory: f64 = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0.0);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let disturbed = if load.parse().unwrap_or(0.0) >= 1.0 {
        " (over 1: other work may have run beside it, so compare within this run)"
    } else {
        ""
    };
    format!(
        "# Figures\n\nWhat the next work has to beat. Written by `pith-bench`; every number was measured in this one run.\n\n\
         - {date}; {cores} cores ({cpu}), {memory:.0} GiB of memory, Linux {kernel}; load before the run {load}{disturbed}\n\
         - release profile of the workspace (no LTO, 16 codegen units, overflow checks), {rustc}\n\
         - medians of {rounds} rounds ({slow} where a round takes a second), all parts interleaved; p90 in brackets\n",
        date = said("date", &["-u", "+%Y-%m-%d"]),
        cpu = field("/proc/cpuinfo", "model name\t"),
        memory = memory / 1024.0 / 1024.0,
        kernel = said("uname", &["-r"]).split('-').next().unwrap_or_default(),
        rustc = said("rustc", &["--version"]).split(" (").next().unwrap_or_default(),
        rounds = plan.rounds,
        slow = plan.slow_rounds,
    )
}
