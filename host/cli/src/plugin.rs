//! `pith plugin`: what plugins used.

use crate::{
    args::PluginCommand,
    failure::{Failure, hand_over},
    harmless::harmless_line,
};
use pith_protocol::iso_from_millis;
use pith_runtime::{FunctionUse, Places, PluginUse, RecordedUse, recorded_plugin_use};
use serde_json::{Value, json};
use std::time::Duration;

/// Does what is asked for.
pub fn follow(command: PluginCommand) -> Result<u8, Failure> {
    match command {
        PluginCommand::Stats { json } => {
            let places = Places::from_process().map_err(|error| Failure::refused(&error))?;
            let all = recorded_plugin_use(&places).map_err(|error| Failure::refused(&error))?;
            let text = if json { format!("{}\n", as_json(&all)) } else { table(&all) };
            hand_over(text.as_bytes())
        }
    }
}

/// Every plugin's functions, each with its numbers: times in nanoseconds, memory and the rest in bytes.
fn as_json(all: &RecordedUse) -> Value {
    let plugins: Vec<Value> = all
        .plugins
        .iter()
        .map(|plugin| {
            let functions = plugin.functions.iter().map(|(name, used)| {
                let wall = |part| used.wall.within(part).map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
                let numbers = json!({
                    "calls": used.calls,
                    "refusals": used.refusals,
                    "faults": used.faults,
                    "aborted": used.aborted,
                    "cpu_nanos": used.cpu_nanos,
                    "wall_p50_nanos": wall(0.5),
                    "wall_p99_nanos": wall(0.99),
                    "bytes_in": used.bytes_in,
                    "bytes_out": used.bytes_out,
                    "peak_memory_bytes": used.peak_memory_bytes,
                });
                (name.clone(), numbers)
            });
            json!({
                "name": plugin.name,
                "publisher": plugin.publisher,
                "digest": plugin.digest,
                "functions": functions.collect::<serde_json::Map<_, _>>(),
            })
        })
        .collect();
    json!({
        "since": all.since_millis.map(iso_from_millis),
        "runs": all.runs,
        "damaged_lines": all.damaged_lines,
        "plugins": plugins,
    })
}

const HEAD: [&str; 12] =
    ["plugin", "version", "function", "calls", "refused", "faults", "aborted", "cpu", "p50", "p99", "in/out", "memory"];
/// The columns that are words; the others are numbers, to the right.
const WORDS: usize = 3;

/// The same for people.
fn table(all: &RecordedUse) -> String {
    let Some(since) = all.since_millis else {
        return "Nothing is recorded yet: plugins are counted when a run ends, in sessions that are kept.\n".to_owned();
    };
    let mut rows: Vec<[String; HEAD.len()]> = vec![HEAD.map(str::to_owned)];
    let mut plugins: Vec<&PluginUse> = all.plugins.iter().collect();
    plugins.sort_by(|a, b| a.name.cmp(&b.name));
    for plugin in plugins {
        for (name, used) in &plugin.functions {
            rows.push(row(plugin, name, used));
        }
    }
    let mut out = format!("Since {}, {} runs:\n\n", iso_from_millis(since), all.runs);
    out.push_str(&crate::table::table(&rows, WORDS));
    if all.damaged_lines > 0 {
        out.push_str(&format!("\n{} runs could not be read.\n", all.damaged_lines));
    }
    out
}

fn row(plugin: &PluginUse, name: &str, used: &FunctionUse) -> [String; HEAD.len()] {
    let time = |part| used.wall.within(part).map_or_else(|| "-".to_owned(), time);
    [
        harmless_line(&plugin.name, 30),
        harmless_line(&plugin.digest, 8).trim_end_matches('…').to_owned(),
        harmless_line(name, 40),
        used.calls.to_string(),
        used.refusals.to_string(),
        used.faults.to_string(),
        used.aborted.to_string(),
        self::time(Duration::from_nanos(used.cpu_nanos)),
        time(0.5),
        time(0.99),
        format!("{}/{}", bytes(used.bytes_in), bytes(used.bytes_out)),
        bytes(used.peak_memory_bytes),
    ]
}

fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..1e3 => format!("{micros:.0} us"),
        ..1e6 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}

fn bytes(bytes: u64) -> String {
    let kib = bytes as f64 / 1024.0;
    match kib {
        ..1.0 => format!("{bytes} B"),
        ..1024.0 => format!("{kib:.1} KiB"),
        _ => format!("{:.1} MiB", kib / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown =
            [950, 1_500, 2_500_000, 61_000_000_000].map(|nanos| time(Duration::from_nanos(nanos * 1_000 / 1_000)));
        assert_eq!(shown, ["1 us", "2 us", "2.5 ms", "61.0 s"]);
        assert_eq!([0, 1_023, 2_048, 3 << 20].map(bytes), ["0 B", "1023 B", "2.0 KiB", "3.0 MiB"]);
    }

    #[test]
    fn a_table_has_a_row_for_each_function_and_no_foreign_control_characters() {
        assert!(table(&RecordedUse::default()).contains("Nothing is recorded yet"));
        let used = FunctionUse { calls: 3, faults: 1, cpu_nanos: 1_500_000, ..FunctionUse::default() };
        let plugin = PluginUse {
            name: "files".to_owned(),
            publisher: "pith".to_owned(),
            digest: "0123456789abcdef".to_owned(),
            functions: [("tools.call".to_owned(), used.clone()), ("\u{1b}[2Jx".to_owned(), used)].into(),
        };
        let all = RecordedUse { since_millis: Some(0), runs: 2, plugins: vec![plugin], damaged_lines: 1 };
        let text = table(&all);
        assert!(text.starts_with("Since 1970-01-01T00:00:00.000Z, 2 runs:\n\nplugin  version   function"), "{text}");
        assert!(text.contains("01234567") && text.contains("1.5 ms") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("files")).count(), 2);
        assert_eq!(as_json(&all)["plugins"][0]["functions"]["tools.call"]["calls"], 3);
    }
}
