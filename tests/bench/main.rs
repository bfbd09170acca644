//! Figures: start to first request, a gate call, peak memory, the demo; beside them, in the same run, what they are measured against.
//!
//! ```text
//! cargo build --release -p pith && cargo run --release -p pith-tests --bin pith-bench
//! ```
//!
//! All parts are measured interleaved (one of each, then one of each again), so that a busy core moves all of them; what is told are
//! medians. `--quick` runs three rounds and writes nothing: a smoke test.

#![allow(clippy::print_stdout, reason = "a benchmark's words go to standard output")]

mod faults;
mod figures;
mod gate;
mod machine;
mod memory;
mod scan;
mod sessions;
mod start;
mod tools;

use std::{fmt::Write, path::PathBuf, process::ExitCode};

/// What was asked for.
struct Plan {
    /// Rounds of everything that takes milliseconds.
    rounds: usize,
    /// Rounds of what takes a second.
    slow_rounds: usize,
    /// Where pi is installed, `node_modules` in it.
    pi: Option<PathBuf>,
    /// Where the results go.
    out: Option<PathBuf>,
    /// The only section that is measured.
    only: Option<String>,
    /// Not a smoke test: what takes minutes is measured too.
    is_whole: bool,
}

const USAGE: &str = "pith-bench [--quick] [--rounds N] [--only SECTION] [--pi FOLDER] [--out FILE]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(measured) = sessions::child::run(&args) {
        println!("{measured}");
        return ExitCode::SUCCESS;
    }
    let plan = match plan() {
        Ok(plan) => plan,
        Err(wrong) => {
            println!("{wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut report = machine::heading(&plan);
    let sections: [(&str, fn(&Plan) -> String); 8] = [
        ("start", start::measure),
        ("gate", gate::measure),
        ("tools", tools::measure),
        ("scan", scan::measure),
        ("faults", faults::measure),
        ("memory", memory::measure),
        ("sessions", sessions::measure),
        ("demo", start::measure_demo),
    ];
    for (name, measure) in sections {
        if plan.only.as_ref().is_none_or(|only| only == name) {
            report.push_str(&measure(&plan));
        }
    }
    let _ = writeln!(
        report,
        "\n## To reproduce\n\n```\ncargo build --release -p pith\ncargo test --release -p pith-tests --features peers --test peers   # once, installs pi\n\
         cargo run --release -p pith-tests --bin pith-bench\n```"
    );
    println!("{report}");
    if let Some(out) = &plan.out
        && let Err(error) = std::fs::write(out, &report)
    {
        println!("{}: {error}", out.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn plan() -> Result<Plan, String> {
    let peers = pith_tests::target_folder().join("peers/npm");
    let out = pith_tests::repository().join("tests/bench/RESULTS.md");
    let mut plan = Plan {
        rounds: 31,
        slow_rounds: 9,
        pi: peers.join("node_modules").is_dir().then_some(peers),
        out: Some(out),
        only: None,
        is_whole: true,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--quick" => plan = Plan { rounds: 3, slow_rounds: 1, pi: None, out: None, is_whole: false, ..plan },
            "--rounds" => plan.rounds = value()?.parse().map_err(|_| "--rounds needs a number".to_owned())?,
            // A part is no result.
            "--only" => plan = Plan { only: Some(value()?), out: None, ..plan },
            "--pi" => plan.pi = Some(value()?.into()),
            "--out" => plan.out = Some(value()?.into()),
            _ => return Err(format!("{arg} is not understood")),
        }
    }
    if plan.rounds == 0 {
        return Err("--rounds needs at least 1".to_owned());
    }
    Ok(plan)
}
