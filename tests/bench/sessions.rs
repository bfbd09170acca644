//! Sessions: what an append costs, how fast a file opens and in how much memory, how long many take to be listed and searched, what a
//! compaction takes. Each beside the plain way of doing it, in the same run.

pub mod child;
mod corpus;
mod grounds;

use crate::{Plan, figures::Figures};
use corpus::Shape;
use grounds::Grounds;
use pith_protocol::{Content, EntryBody, Message, MessageEntry, UserMessage};
use pith_runtime::{Index, SessionChoice};
use serde_json::Value;
use std::{
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
    sync::Arc,
    time::Instant,
};

/// The section of the report.
pub fn measure(plan: &Plan) -> String {
    let mut out = String::from("\n## Sessions\n");
    append(plan, &mut out);
    open(plan, &mut out);
    compact(plan, &mut out);
    list(plan, &mut out);
    out
}

/// Entries of one round of appending.
const ENTRIES: usize = 200;
/// Entries of a turn.
const TURN: usize = 5;
/// Characters of each.
const CHARS: usize = 1_000;

fn append(plan: &Plan, out: &mut String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let policies = ["never", "turn", "append"];
    let mut all: Vec<_> = policies
        .iter()
        .map(|sync| {
            let grounds = Grounds::new(sync);
            let pith = runtime.block_on(grounds.start(SessionChoice::New, false));
            pith.session().append(message(0)).expect("it creates the file");
            pith.session().sync().expect("it is made durable");
            (pith, grounds, Figures::default())
        })
        .collect();
    let plain = Grounds::new("never");
    let mut file = File::options().create(true).append(true).open(plain.root().join("plain")).expect("a file");
    let line = serde_json::to_string(&message(0)).expect("an entry") + "\n";
    let mut plainly: Vec<Figures> = policies.iter().map(|_| Figures::default()).collect();
    for _ in 0..plan.slow_rounds {
        for (policy, sync) in policies.iter().enumerate() {
            let (pith, _, took) = &mut all[policy];
            let session = pith.session();
            let began = Instant::now();
            for at in 0..ENTRIES {
                session.append(message(at)).expect("it is kept");
                if *sync == "turn" && at % TURN == TURN - 1 {
                    session.sync().expect("it is made durable");
                }
            }
            took.add(began.elapsed().as_secs_f64() * 1e6 / ENTRIES as f64);
            let began = Instant::now();
            for at in 0..ENTRIES {
                file.write_all(line.as_bytes()).expect("it is written");
                if *sync == "append" || *sync == "turn" && at % TURN == TURN - 1 {
                    file.sync_data().expect("it is made durable");
                }
            }
            plainly[policy].add(began.elapsed().as_secs_f64() * 1e6 / ENTRIES as f64);
        }
    }
    let _ = writeln!(
        out,
        "\n### Appending\n\nAn entry of {CHARS} characters, in microseconds; `turn` makes {TURN} of them durable at once. `plain` is `write(2)` of the same line, \
         with `fdatasync(2)` as often.\n\n| durable with | plain | Pith | Pith less plain |\n|---|---|---|---|"
    );
    for ((sync, (.., took)), plain) in policies.iter().zip(&all).zip(&plainly) {
        let less = took.less(plain);
        let _ = writeln!(
            out,
            "| `{sync}` | {:.1} ({:.1}) | {:.1} ({:.1}) | {:.1} |",
            plain.median(),
            plain.at(0.9),
            took.median(),
            took.at(0.9),
            less.median()
        );
    }
}

fn message(at: usize) -> EntryBody {
    let content = vec![Content::text("x".repeat(CHARS))];
    let timestamp = i64::try_from(at).unwrap_or(0);
    EntryBody::Message(MessageEntry { message: Arc::new(Message::User(UserMessage { content, timestamp })) })
}

/// One file that is opened.
struct Opened {
    name: &'static str,
    grounds: Grounds,
    file: PathBuf,
    bytes: u64,
    rounds: usize,
    plain: Figures,
    took: Figures,
    projected: Figures,
    plain_peak: Figures,
    peak: Figures,
    seen: u64,
}

fn open(plan: &Plan, out: &mut String) {
    const MB: u64 = 1_000_000;
    let mut files = vec![
        ("1 MB", MB, Shape::Linear, plan.slow_rounds),
        ("100 MB", 100 * MB, Shape::Linear, plan.slow_rounds),
        ("100 MB, compacted", 100 * MB, Shape::Compacted, plan.slow_rounds),
        ("100 MB, of branches", 100 * MB, Shape::Branched, plan.slow_rounds),
    ];
    if plan.is_whole {
        files.push(("1 GB", 1_000 * MB, Shape::Linear, 3));
        files.push(("1 GB, compacted", 1_000 * MB, Shape::Compacted, 3));
    }
    let _ = writeln!(
        out,
        "\n### Opening\n\nA process of its own opens the file by the library, without plugins (`open`: reads, locks, checks; the start itself is in it), and \
         projects it. `plain` reads a line at a time and parses each with `serde_json` into a `Value`, which is dropped. Page cache warm. Files not named otherwise were never compacted, so that all of them \
         is what the model would see; compacted ones keep 15 turns of 120. Peaks are `VmHWM`.\n\n\
         | file | plain ms | open ms | open / plain | project ms | messages seen | plain peak MiB | peak MiB |\n|---|---|---|---|---|---|---|---|"
    );
    for (number, (name, bytes, shape, rounds)) in files.into_iter().enumerate() {
        // One at a time: a gigabyte each.
        let grounds = Grounds::new("never");
        let id = format!("0199c8a0-0000-7000-8000-{number:012x}");
        let file = grounds.file("bench", &id);
        let bytes = corpus::write(&file, bytes, shape, &id, &grounds.workspace());
        Index::at(grounds.places()).trust(&file).expect("it is ours");
        let mut opened = Opened {
            name,
            grounds,
            file,
            bytes,
            rounds,
            plain: Figures::default(),
            took: Figures::default(),
            projected: Figures::default(),
            plain_peak: Figures::default(),
            peak: Figures::default(),
            seen: 0,
        };
        opened.measure();
        let _ = writeln!(out, "{}", opened.row());
    }
}

impl Opened {
    fn measure(&mut self) {
        for _ in 0..self.rounds {
            let plain = child::measure("parse", &self.grounds, &self.file);
            self.plain.add(number(&plain, "ms"));
            self.plain_peak.add(number(&plain, "peakMib"));
            let open = child::measure("open", &self.grounds, &self.file);
            self.took.add(number(&open, "ms"));
            self.projected.add(number(&open, "projectMs"));
            self.peak.add(number(&open, "peakMib"));
            self.seen = open["count"].as_u64().unwrap_or(0);
        }
    }

    fn row(&self) -> String {
        format!(
            "| {} ({:.1}) | {:.1} ({:.1}) | {:.1} ({:.1}) | {:.2} | {:.2} | {} | {:.0} | {:.0} |",
            self.name,
            self.bytes as f64 / 1e6,
            self.plain.median(),
            self.plain.at(0.9),
            self.took.median(),
            self.took.at(0.9),
            self.took.over(&self.plain).median(),
            self.projected.median(),
            self.seen,
            self.plain_peak.median(),
            self.peak.median(),
        )
    }
}

fn number(measured: &Value, key: &str) -> f64 {
    measured[key].as_f64().unwrap_or(f64::NAN)
}

fn compact(plan: &Plan, out: &mut String) {
    let _ = writeln!(
        out,
        "\n### Compacting\n\nThe first compaction of a session, from the prompt until it is appended, in milliseconds; the model answers at once. A window of 128,000 tokens \
         is full with 700 kB.\n\n| what | ms |\n|---|---|"
    );
    for (name, how, bytes, rounds) in [
        ("a full window, by the host's trim", "trim", 700_000, plan.slow_rounds),
        ("a full window, by the plugin `compact`", "compact", 700_000, plan.slow_rounds),
        ("100 MB that were never compacted, by the host's trim", "trim", 100_000_000, plan.slow_rounds.min(3)),
    ] {
        let grounds = Grounds::new("never");
        let mut took = Figures::default();
        for round in 0..rounds {
            let id = format!("0199c8a0-0000-7000-8002-{round:012x}");
            let file = grounds.file("bench", &id);
            corpus::write(&file, bytes, Shape::Linear, &id, &grounds.workspace());
            Index::at(grounds.places()).trust(&file).expect("it is ours");
            took.add(number(&child::measure(how, &grounds, &file), "ms"));
        }
        let _ = writeln!(out, "| {name} | {:.1} ({:.1}) |", took.median(), took.at(0.9));
    }
}

fn list(plan: &Plan, out: &mut String) {
    let count = if plan.is_whole { 10_000 } else { 1_000 };
    let grounds = Grounds::new("never");
    let mut bytes = 0;
    for number in 0..count {
        let id = format!("0199c8a0-0000-7000-8001-{number:012x}");
        let file = grounds.file(&format!("folder-{}", number % 50), &id);
        // Most are short, some are not.
        let size = if number % 50 == 0 { 300_000 } else { 12_000 };
        bytes += corpus::write(&file, size, Shape::Linear, &id, &grounds.workspace());
    }
    let index = grounds.places().sessions().join("index.jsonl");
    let (mut cold, mut warm, mut peak) = (Figures::default(), Figures::default(), Figures::default());
    for _ in 0..plan.slow_rounds.min(5) {
        let _ = fs::remove_file(&index);
        let listed = child::measure("list", &grounds, &index);
        assert_eq!(listed["count"], count);
        cold.add(number(&listed, "ms"));
        let listed = child::measure("list", &grounds, &index);
        assert_eq!(listed["count"], count);
        warm.add(number(&listed, "ms"));
        peak.add(number(&listed, "peakMib"));
    }
    let size = fs::metadata(&index).map_or(0, |met| met.len());
    let _ = writeln!(
        out,
        "\n### Listing\n\n{count} sessions in 50 folders ({:.0} MB), in milliseconds. Without an index all files are read.\n\n| what | |\n|---|---|\n\
         | without an index | {:.0} ({:.0}) |\n| with it ({:.1} MB) | {:.1} ({:.1}) |\n| peak with it, in MiB | {:.0} |",
        bytes as f64 / 1e6,
        cold.median(),
        cold.at(0.9),
        size as f64 / 1e6,
        warm.median(),
        warm.at(0.9),
        peak.median(),
    );
}
