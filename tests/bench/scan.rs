//! `grep` and `find` through the dispatch against ripgrep with as many threads, on a tree of 20,000 files that is the same everywhere.

use crate::{Plan, figures::Figures};
use pith_tests::{Bench, shipped_sources};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const FOLDERS: usize = 1_000;
const FILES: usize = 20_000;
/// Files that are as long as logs and bundles are.
const LARGE_FILES: usize = 12;
const LARGE_BYTES: usize = 4 << 20;
/// Lines of which all files are made.
const POOL_LINES: usize = 4_096;
/// What stands in few files.
const RARE: &str = "quadrillion_sentinel";
/// Matches that `grep` shows where nobody says how many: as many lines are read of ripgrep, as pi does.
const SHOWN: usize = 100;
/// Clock ticks in a second, as the files of /proc count them.
const TICKS: f64 = 100.0;

/// One search in both forms.
struct Case {
    name: &'static str,
    tool: &'static str,
    arguments: Value,
    rg: Vec<&'static str>,
    /// Lines that are read of ripgrep before it is stopped; none: all.
    first: Option<usize>,
}

/// Wall time in milliseconds; processor time of all rounds in ticks.
#[derive(Default)]
struct Side {
    wall: Figures,
    ticks: u64,
}

/// The section of the report.
pub fn measure(plan: &Plan) -> String {
    let mut out = String::from("\n## Searching\n\n");
    let version = Command::new("rg").arg("--version").output();
    let Some(version) = version.ok().filter(|output| output.status.success()) else {
        out.push_str("**Not measured: there is no `rg` (ripgrep) on this machine's PATH.**\n");
        return out;
    };
    let version = String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default().to_owned();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(rounds(plan, &version, out))
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "a literal in 40 lines of 20,000 files",
            tool: "grep",
            arguments: json!({ "pattern": RARE, "literal": true }),
            rg: vec!["-n", "-F", "-e", RARE],
            first: None,
        },
        Case {
            name: "the same in any case",
            tool: "grep",
            arguments: json!({ "pattern": RARE.to_uppercase(), "literal": true, "ignoreCase": true }),
            rg: vec!["-n", "-F", "-i", "-e", RARE],
            first: None,
        },
        Case {
            name: r"a regular expression, `\w+_sentinel\((\d+), `",
            tool: "grep",
            arguments: json!({ "pattern": r"\w+_sentinel\((\d+), " }),
            rg: vec!["-n", "-e", r"\w+_sentinel\((\d+), "],
            first: None,
        },
        Case {
            name: "a word in every file, the first 100 lines",
            tool: "grep",
            arguments: json!({ "pattern": "return" }),
            rg: vec!["-n", "-e", "return"],
            first: Some(SHOWN),
        },
        Case {
            name: "`find` of 100 names by a glob",
            tool: "find",
            arguments: json!({ "pattern": "*.spec.ts" }),
            rg: vec!["--files", "-g", "*.spec.ts"],
            first: None,
        },
    ]
}

async fn rounds(plan: &Plan, version: &str, mut out: String) -> String {
    let bench = Bench::new(shipped_sources());
    let work = bench.work();
    let bytes = grow(&work);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let cases = cases();
    let mut sides: Vec<[Side; 2]> = cases.iter().map(|_| Default::default()).collect();
    for round in 0..=plan.rounds {
        for (case, [theirs, ours]) in cases.iter().zip(&mut sides) {
            let (before, began) = (ticks(), Instant::now());
            let expected = ripgrep(case, &work, threads);
            let (took, after) = (began.elapsed(), ticks());
            let mut arguments = case.arguments.clone();
            arguments["path"] = json!(work);
            let began = Instant::now();
            let done = bench.call(case.tool, arguments).await;
            let (took_ours, after_ours) = (began.elapsed(), ticks());
            let text: String = done.output.content.iter().filter_map(|block| block.as_text()).collect();
            assert!(!done.output.is_error, "{}: {text}", case.name);
            // The first round warms up, and compares what both found.
            if round == 0 {
                compare(case, &expected, &text, &work);
                continue;
            }
            theirs.add(took, before.1, after.1);
            ours.add(took_ours, after.0, after_ours.0);
        }
    }
    let _ = writeln!(
        out,
        "A call through the dispatch, in a fresh instance, against a whole run of {version}, both with {threads} threads, warm, on the same {FILES} files \
         ({} MB, {LARGE_FILES} of them of {} MB, and 2,000 ignored ones). Milliseconds of wall time; `CPU` is user and system time of all threads. Where ripgrep is asked for the \
         first 100 lines, it is stopped after them; Pith's are the first in the order of paths. Both find the same.\n\n\
         | search | rg | Pith | Pith / rg | rg CPU | Pith CPU |\n|---|---|---|---|---|---|",
        bytes >> 20,
        LARGE_BYTES >> 20,
    );
    for (case, [theirs, ours]) in cases.iter().zip(&sides) {
        let _ = writeln!(
            out,
            "| {} | {:.1} ({:.1}) | {:.1} ({:.1}) | {:.2} | {:.0} | {:.0} |",
            case.name,
            theirs.wall.median(),
            theirs.wall.at(0.9),
            ours.wall.median(),
            ours.wall.at(0.9),
            ours.wall.over(&theirs.wall).median(),
            theirs.cpu(plan.rounds),
            ours.cpu(plan.rounds),
        );
    }
    out
}

impl Side {
    fn add(&mut self, took: Duration, before: u64, after: u64) {
        self.wall.add_time(took);
        self.ticks += after.saturating_sub(before);
    }

    /// Milliseconds a round.
    fn cpu(&self, rounds: usize) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "small counts")]
        let (ticks, rounds) = (self.ticks as f64, rounds as f64);
        ticks * 1e3 / TICKS / rounds
    }
}

/// Processor time so far, in ticks: this process's own, and that of its children that ended.
fn ticks() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may hold blanks: state is the third field, utime the fourteenth.
    let fields: Vec<u64> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
        .unwrap_or_default();
    let at = |field: usize| fields.get(field - 3).copied().unwrap_or(0);
    (at(14) + at(15), at(16) + at(17))
}

/// Runs it and gives its lines, read as a program reads them that shows them.
fn ripgrep(case: &Case, work: &Path, threads: usize) -> Vec<String> {
    let mut child = Command::new("rg")
        .args(["--no-config", "--hidden", "--no-heading", "--color=never", "-j", &threads.to_string()])
        .args(&case.rg)
        .arg(".")
        .current_dir(work)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rg starts");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut lines = Vec::new();
    match case.first {
        Some(first) => {
            lines.extend((&mut output).lines().take(first).map(|line| line.expect("text")));
            child.kill().expect("it can be stopped");
        }
        None => {
            let mut all = String::new();
            output.read_to_string(&mut all).expect("text");
            lines.extend(all.lines().map(str::to_owned));
        }
    }
    child.wait().expect("it ends");
    lines
}

/// Both found the same, where ripgrep found all.
fn compare(case: &Case, theirs: &[String], ours: &str, work: &Path) {
    let ours = ours.split("\n\n[").next().unwrap_or_default();
    let name = work.file_name().map(|name| format!("{}/", name.to_string_lossy())).unwrap_or_default();
    let place = |line: &str, root: &str| {
        let line = line.strip_prefix(root).unwrap_or(line);
        line.splitn(3, ':').take(2).collect::<Vec<_>>().join(":")
    };
    let ours: BTreeSet<String> = ours.lines().map(|line| place(line, &name)).collect();
    if case.first.is_some() {
        assert_eq!(ours.len(), SHOWN, "{}", case.name);
        return;
    }
    let theirs: BTreeSet<String> = theirs.iter().map(|line| place(line, "./")).collect();
    assert!(!theirs.is_empty(), "{}: nothing to find", case.name);
    assert_eq!(ours, theirs, "{}", case.name);
}

/// Makes the tree: folders of folders of source files of all lengths, some large ones, ignored ones, binary ones. Gives its length in bytes.
fn grow(work: &Path) -> usize {
    let mut dice = Dice(0x5eed);
    let pool: Vec<String> = (0..POOL_LINES).map(|_| line(&mut dice)).collect();
    // What makes it a repository for ripgrep.
    fs::create_dir_all(work.join(".git")).expect("a folder");
    fs::write(work.join(".gitignore"), "/build/\n*.tmp\nnode_modules/\n").expect("a file");
    let mut bytes = 0;
    let folder = |number: usize| {
        let path = work.join(format!("part-{:02}/unit-{:02}/mod-{}", number % 23, number / 23 % 11, number));
        fs::create_dir_all(&path).expect("a folder");
        path
    };
    let folders: Vec<_> = (0..FOLDERS).map(folder).collect();
    for (number, folder) in folders.iter().enumerate().step_by(50) {
        fs::write(folder.join(".gitignore"), format!("*.cache\n!keep-{number}.cache\n")).expect("a file");
    }
    for number in 0..FILES {
        let ending = match number {
            number if number % 200 == 7 => "spec.ts",
            _ => ["rs", "ts", "py", "md", "json"][number % 5],
        };
        // Most are short, few are long: 1 to 8 KB, now and then 200 KB.
        let length = match dice.roll(100) {
            0 => 200_000,
            1..=9 => 24_000,
            _ => 1_000 + dice.roll(7_000),
        };
        let mut text = lines(&pool, length, &mut dice);
        if number % 500 == 123 {
            let _ = writeln!(text, "    let total = {RARE}({number}, left) + 1;");
        }
        bytes += text.len();
        fs::write(folders[number % FOLDERS].join(format!("file-{number:05}.{ending}")), text).expect("a file");
    }
    for number in 0..LARGE_FILES {
        let text = lines(&pool, LARGE_BYTES, &mut dice);
        bytes += text.len();
        fs::write(folders[number * 71 % FOLDERS].join(format!("large-{number}.log")), text).expect("a file");
    }
    for number in 0..200 {
        let mut binary = vec![0_u8; 20_000];
        binary.iter_mut().for_each(|byte| *byte = u8::try_from(dice.roll(256)).unwrap_or(0));
        fs::write(folders[number * 5].join(format!("picture-{number}.png")), binary).expect("a file");
    }
    for number in 0..2_000 {
        let folder = work.join(format!("build/{}", number % 40));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(format!("{number}.o.txt")), format!("{RARE}(1, 2)\n")).expect("a file");
    }
    bytes
}

fn lines(pool: &[String], length: usize, dice: &mut Dice) -> String {
    let mut text = String::with_capacity(length + 200);
    while text.len() < length {
        text.push_str(&pool[dice.roll(pool.len())]);
    }
    text
}

/// A line as there are many in source files.
fn line(dice: &mut Dice) -> String {
    const WORDS: [&str; 24] = [
        "let", "return", "value", "index", "buffer", "self", "count", "match", "offset", "request", "response", "if",
        "else", "for", "state", "handle", "length", "const", "error", "result", "write", "read", "parse", "sentinel",
    ];
    const SIGNS: [&str; 8] = [" ", "_", "(", ") ", ".", " = ", ", ", "; "];
    let mut line = "    ".repeat(dice.roll(4));
    for _ in 0..2 + dice.roll(10) {
        line.push_str(WORDS[dice.roll(WORDS.len())]);
        line.push_str(SIGNS[dice.roll(SIGNS.len())]);
    }
    line.push('\n');
    line
}

/// The same numbers everywhere: a linear congruential generator, of which the upper bits are good.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides.max(1)
    }
}
