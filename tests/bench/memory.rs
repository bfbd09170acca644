//! Peak memory of a process in print mode.

use crate::{Plan, figures::Figures, start::extra_plugins};
use pith_tests::{Answer, Home, Reply, Running, Server, Wire};
use serde_json::json;
use std::{fmt::Write, fs, time::Duration};

const LIMIT: Duration = Duration::from_secs(60);

/// The section of the report.
pub fn measure(plan: &Plan) -> String {
    let mut out = String::from(
        "\n## Peak memory\n\nThe kernel's high-water mark of the resident set (`VmHWM`) of `pith -p` over http, read until its end, in MiB.\n\n| what | MiB |\n|---|---|\n",
    );
    let large = "x".repeat(1 << 20);
    let turn = |reply: Reply| vec![reply, Reply::text("done")];
    let cases = [
        ("no plugins, text", None, turn(Reply::text("so far"))),
        ("shipped plugins, text", Some(0), vec![Reply::text("done")]),
        ("shipped plugins, one `read`", Some(0), turn(Reply::call("c", "read", json!({ "path": "a.txt" })))),
        (
            "shipped plugins, one `write` of 1 MB",
            Some(0),
            turn(Reply::call("c", "write", json!({ "path": "b.txt", "content": large }))),
        ),
        ("shipped and 10 plugins, one `read`", Some(10), turn(Reply::call("c", "read", json!({ "path": "a.txt" })))),
    ];
    let mut figures: Vec<Figures> = cases.iter().map(|_| Figures::default()).collect();
    for _ in 0..plan.slow_rounds {
        for ((_, extra, replies), figures) in cases.iter().zip(&mut figures) {
            let answers = replies
                .iter()
                .map(|reply| Answer::sse(Wire::OpenAi.sse(reply)).after(Duration::from_millis(20)))
                .collect();
            let server = Server::playing(answers);
            let home = Wire::OpenAi.home(&server);
            home.write("a.txt", "alpha\n".repeat(100));
            let mut args = match extra {
                None => vec!["--no-plugins".to_owned()],
                Some(extra) => extra_plugins(&home, *extra),
            };
            args.extend(["--model", "openai/m", "-p", "hi"].map(str::to_owned));
            figures.add(peak(&home, &args));
        }
    }
    for ((name, _, _), figures) in cases.iter().zip(&figures) {
        let _ = writeln!(out, "| {name} | {:.1} ({:.1}) |", figures.median(), figures.at(0.9));
    }
    out
}

fn peak(home: &Home, args: &[String]) -> f64 {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let running = Running::start(home.command(&args), LIMIT);
    let status = format!("/proc/{}/status", running.id());
    let mut peak = 0.0_f64;
    // It has ended when it has no memory any more.
    while let Some(kib) = fs::read_to_string(&status).ok().and_then(|text| high_water(&text)) {
        peak = peak.max(kib / 1024.0);
        std::thread::sleep(Duration::from_micros(300));
    }
    running.finish().ok();
    peak
}

fn high_water(status: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().trim_end_matches(" kB").parse().ok()
}
