//! The behaviour tables of the shipped tools, through the host and natively.

use pith_tests::{Home, Row, Seen, Table};
use serde_json::{Value, json};

/// How many rows there are at least, in all.
const MIN_ROWS: usize = 150;
/// The tools that have a table.
const TOOLS: [&str; 7] = ["read", "write", "edit", "ls", "grep", "find", "bash"];

#[test]
fn the_tables_have_their_rows() {
    let rows: Vec<usize> = TOOLS.iter().map(|tool| Table::load(tool).rows.len()).collect();
    let native = TOOLS.iter().flat_map(|tool| Table::load(tool).rows).filter(|row| row.host_only.is_none()).count();
    assert!(rows.iter().sum::<usize>() >= MIN_ROWS && native >= MIN_ROWS * 3 / 4, "{rows:?}, {native} natively");
}

/// Runs a row in a fresh home and says what was wrong.
fn in_fresh_folders(row: &Row, call: impl Fn(&Home, &Value) -> Seen) -> Option<String> {
    let home = Home::new();
    let outside = home.root().join("outside");
    std::fs::create_dir(&outside).expect("a folder");
    home.beside("config/pith/settings.toml", row.settings());
    let ground = row.lay(&home.work(), &outside);
    let seen = call(&home, &row.arguments(&ground));
    row.differs(&ground, &seen)
}

/// All rows; everything that differs is told at once.
#[track_caller]
fn check(tool: &str, rows: impl Iterator<Item = Row>, call: impl Fn(&Home, &Value) -> Seen) {
    let (mut count, mut wrong) = (0, Vec::new());
    for row in rows {
        count += 1;
        wrong.extend(in_fresh_folders(&row, &call));
    }
    assert!(count > 0, "{tool} has no rows");
    assert!(wrong.is_empty(), "{tool}: {} of {count} rows differ:\n\n{}\n", wrong.len(), wrong.join("\n\n"));
}

/// The binary, the shipped component, a scripted model.
#[track_caller]
fn through_the_host(tool: &str) {
    check(tool, Table::load(tool).rows.into_iter(), |home, arguments| {
        let calls = json!([{ "calls": [{ "id": "c", "name": tool, "arguments": arguments }] }, { "text": "done" }]);
        let run = home.play(calls, &[]).ok();
        let end = run.events().into_iter().find(|event| event["type"] == "tool_execution_end");
        let end = end.unwrap_or_else(|| panic!("no result: {run}"));
        Seen::of_event(&end)
    });
}

/// The plugin's code, linked into this program.
#[track_caller]
fn natively(tool: &str) {
    let rows = Table::load(tool).rows.into_iter().filter(|row| row.host_only.is_none());
    check(tool, rows, |home, arguments| pith_tests::native::call(tool, &home.work(), arguments));
}

macro_rules! tables {
    ($($tool:ident),+) => {
        mod host {
            $(#[test] fn $tool() { super::through_the_host(stringify!($tool)); })+
        }
        mod native {
            $(#[test] fn $tool() { super::natively(stringify!($tool)); })+
        }
    };
}

tables!(read, write, edit, ls, grep, find, bash);
