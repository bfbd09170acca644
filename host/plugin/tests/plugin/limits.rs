//! `LIMITS.md` is true: every limit has its row, its value, and a test that is there.

use pith_plugin::limits::{self, Limits};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// A limit's value as the table writes it.
trait Written {
    fn written(self, in_table: &str) -> bool;
}

macro_rules! number {
    ($($kind:ty),+) => {$(
        impl Written for $kind {
            fn written(self, in_table: &str) -> bool {
                let number = self as u128;
                quantity(in_table, &[("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20)]) == Some(number)
            }
        }
    )+};
}

number!(u8, u32, u64, usize);

impl Written for Duration {
    fn written(self, in_table: &str) -> bool {
        quantity(in_table, &[("ms", 1), ("s", 1_000), ("h", 3_600_000)]) == Some(self.as_millis())
    }
}

/// `64 MiB`, `10,000`, with these units.
fn quantity(text: &str, units: &[(&str, u128)]) -> Option<u128> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number: u128 = number.replace(',', "").parse().ok()?;
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| number * factor)
}

macro_rules! values {
    ($room:ident: $($name:ident),+ $(,)?) => {
        BTreeMap::from([$((stringify!($name), Box::new(|text: &str| $room::$name.written(text)) as Box<dyn Fn(&str) -> bool>)),+])
    };
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(place: &str) -> String {
    let path = repository().join(place);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of every row of every table.
fn rows() -> Vec<Vec<String>> {
    let text = read("host/plugin/LIMITS.md");
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what |"));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn every_limit_has_one_row_with_its_value() {
    let values = values![limits:
        COMPONENT_BYTES,
        MEMORY_BYTES,
        TABLE_ELEMENTS,
        CORE_INSTANCES,
        RESOURCES,
        OPEN_FILES,
        WRITE_GRACE,
        HOST_CALL_BYTES,
        EXPORTED_CALL_BYTES,
        HOST_CALLS,
        COMPACTOR_DEADLINE,
        SUMMARY_BYTES,
        MODEL_REQUEST_BYTES,
        MODEL_REQUESTS,
        MODEL_WAIT,
        GUARD_DEADLINE,
        SPECS_DEADLINE,
        TOOL_DEADLINE,
        TOOL_DEADLINE_MAX,
        END_GRACE,
        TICK,
        PLUGIN_INSTANCES,
        SESSION_INSTANCES,
        PROCESS_INSTANCES,
        POOL_SLOTS,
        THREADS_LEFT_BEHIND,
        FAULTS_IN_A_ROW,
        STDIO_BYTES,
        LOG_BYTES,
        PROGRESS_BYTES,
        PROGRESS_INTERVAL,
        STATE_BYTES,
        STATE_ENTRIES,
        STATE_SESSION_BYTES,
        TOOLS,
        DESCRIPTION_BYTES,
        SCHEMA_BYTES,
        SCHEMA_DEPTH,
        GUIDELINES,
        GUIDELINE_BYTES,
        CHILDREN,
        PROCESS_KEEP_BYTES,
        SPAWN_KEEP_BYTES,
        CHUNK_BYTES,
        RANDOM_BYTES,
        QUESTIONS_OPEN,
        QUESTIONS_A_MINUTE,
        QUESTION_WAIT,
        QUESTION_BYTES,
        QUESTION_PARTS,
    ];
    all_written("", &["host/plugin/src/limits.rs"], &[], &values);
    let defaults = Limits::default();
    assert_eq!((defaults.memory_bytes, defaults.tool_deadline), (limits::MEMORY_BYTES, limits::TOOL_DEADLINE));
    assert_eq!(defaults.question_wait, limits::QUESTION_WAIT);
}

/// The hands' limits that bound plugins. What else is public there is no bound on what a plugin asks for.
#[test]
fn every_limit_of_the_hands_has_one_row_with_its_value() {
    let values = values![pith_os:
        ROOTS_MAX,
        PATTERN_BYTES_MAX,
        PATTERN_COMPILED_BYTES_MAX,
        GLOBS_MAX,
        GLOB_BYTES_MAX,
        RESULTS_MAX,
        CONTEXT_LINES_MAX,
        LINE_BYTES_MAX,
        OUTCOME_BYTES_MAX,
        FILE_BYTES_MAX,
        LINE_BUFFER_BYTES_MAX,
        ENTRIES_MAX,
        IGNORE_BYTES_MAX,
        IGNORE_RULES_MAX,
        SPOOL_LIMIT_BYTES,
        SPOOL_FILE_LIMIT_BYTES,
        STDIN_PENDING_BYTES,
    ];
    // The machine's cores, and how much is read at once.
    let others = ["THREADS_MAX", "CHUNK_BYTES"];
    let sources = ["host/os/src/scan.rs", "host/os/src/spool.rs", "host/os/src/process.rs"];
    all_written("pith_os::", &sources, &others, &values);
}

/// Every public constant of these files, but for some, has one row, with the value that it has.
fn all_written(room: &str, sources: &[&str], others: &[&str], values: &BTreeMap<&str, Box<dyn Fn(&str) -> bool>>) {
    let text: String = sources.iter().map(|source| read(source)).collect();
    let public = text.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    let constants: Vec<&str> = public.filter(|name| !others.contains(name)).collect();
    let rows = rows();
    for constant in &constants {
        let found: Vec<_> = rows.iter().filter(|row| row[1] == format!("`{room}{constant}`")).collect();
        assert_eq!(found.len(), 1, "{constant} has {} rows in LIMITS.md", found.len());
        let is_written = values.get(constant).unwrap_or_else(|| panic!("{constant} is not in the list above"));
        assert!(is_written(&found[0][2]), "LIMITS.md says {} of {constant}", found[0][2]);
    }
    assert_eq!(values.len(), constants.len(), "{constants:?}");
}

#[test]
fn every_row_has_a_test_that_is_there() {
    let rows = rows();
    assert!(rows.len() > 40, "{}", rows.len());
    for row in &rows {
        assert_eq!(row.len(), 5, "{row:?}");
        for test in row[4].split(", ") {
            let test = test.trim_matches('`');
            let (place, name) = test.split_once("::").unwrap_or_else(|| panic!("{test} is no test"));
            let text = read(place);
            let at = text.find(&format!("fn {name}()")).unwrap_or_else(|| panic!("there is no test {test}"));
            // The attribute stands right above.
            let above = text[..at].trim_end_matches("async ").trim_end();
            let attribute = above.lines().last().unwrap_or_default();
            assert!(
                attribute.contains("test") && attribute.starts_with("#[") || attribute.starts_with("    #["),
                "{test}"
            );
        }
    }
}
