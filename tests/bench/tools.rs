//! The file tools against native code that does the same, through the dispatch: `ls` of 10,000 entries, `read` of a file of 1 MB.

use crate::{Plan, figures::Figures};
use pith_tests::{Bench, shipped_sources};
use serde_json::{Value, json};
use std::{
    fmt::Write,
    fs::{self, File},
    hint::black_box,
    io::{BufRead, BufReader},
    path::Path,
    time::Instant,
};

const ENTRIES: usize = 10_000;
const LINES: usize = 20_000;
/// What the tools show at most.
const SHOWN_ENTRIES: usize = 500;
const SHOWN_LINES: usize = 2_000;
const SHOWN_BYTES: usize = 50 * 1024;

/// The section of the report.
pub fn measure(plan: &Plan) -> String {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(rounds(plan))
}

async fn rounds(plan: &Plan) -> String {
    let bench = Bench::new(shipped_sources());
    let work = bench.work();
    for number in 0..ENTRIES {
        fs::create_dir_all(work.join("many")).expect("a folder");
        fs::write(work.join(format!("many/entry-{number:05}.txt")), "").expect("a file");
    }
    // 50 bytes a line: 1 MB.
    let text: String =
        (0..LINES).map(|number| format!("{number:06} a line as there are many in a source file\n")).collect();
    fs::write(work.join("large.txt"), &text).expect("a file");
    let (list, page, last) = (
        json!({ "path": "many" }),
        json!({ "path": "large.txt" }),
        json!({ "path": "large.txt", "offset": LINES - 100 }),
    );
    let large = work.join("large.txt");
    let cases: [(&str, &str, &Value, Box<dyn Fn() -> usize>); 3] = [
        (
            "`ls` of 10,000 entries",
            "ls",
            &list,
            Box::new({
                let many = work.join("many");
                move || native_ls(&many)
            }),
        ),
        (
            "`read` of 1 MB, from its start",
            "read",
            &page,
            Box::new({
                let large = large.clone();
                move || native_read(&large, 1)
            }),
        ),
        ("`read` of 1 MB, its last 100 lines", "read", &last, Box::new(move || native_read(&large, LINES - 100))),
    ];
    let mut figures: Vec<[Figures; 2]> = cases.iter().map(|_| Default::default()).collect();
    for round in 0..=plan.rounds {
        for ((name, tool, arguments, native), figures) in cases.iter().zip(&mut figures) {
            let began = Instant::now();
            black_box(native());
            let alone = began.elapsed();
            let began = Instant::now();
            let done = bench.call(tool, (*arguments).clone()).await;
            let took = began.elapsed();
            assert!(!done.output.is_error, "{name}: {:?}", done.output);
            // The first round warms up.
            if round > 0 {
                figures[0].add_time(alone);
                figures[1].add_time(took);
            }
        }
    }
    let mut out = String::from(
        "\n## The file tools\n\nA call through the dispatch, in a fresh instance, against native code that gives the same lines (read the folder with each entry's kind, \
         sort, join 500; count all lines of the file, join 2,000 or 50 KiB), in milliseconds, warm.\n\n| call | native | Pith | Pith / native |\n|---|---|---|---|\n",
    );
    for ((name, ..), [native, ours]) in cases.iter().zip(&figures) {
        let _ = writeln!(
            out,
            "| {name} | {:.2} ({:.2}) | {:.2} ({:.2}) | {:.1} |",
            native.median(),
            native.at(0.9),
            ours.median(),
            ours.at(0.9),
            ours.over(native).median()
        );
    }
    out
}

fn native_ls(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| {
        let entry = entry.expect("an entry");
        let mut name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().expect("a kind").is_dir() {
            name.push('/');
        }
        name
    });
    let mut names: Vec<String> = entries.collect();
    names.sort_by_cached_key(|name| name.to_lowercase());
    names.truncate(SHOWN_ENTRIES);
    names.join("\n").len()
}

fn native_read(file: &Path, from: usize) -> usize {
    let mut reader = BufReader::with_capacity(64 * 1024, File::open(file).expect("a file"));
    let (mut shown, mut shown_lines, mut line) = (String::new(), 0, String::new());
    let mut number = 0;
    while reader.read_line(&mut line).expect("text") > 0 {
        number += 1;
        if number >= from && shown_lines < SHOWN_LINES && shown.len() + line.len() <= SHOWN_BYTES {
            shown.push_str(&line);
            shown_lines += 1;
        }
        line.clear();
    }
    shown.len() + number
}
