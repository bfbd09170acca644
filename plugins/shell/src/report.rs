//! What the model reads when a command is over.

use pith_sdk::text::{CutBy, MAX_BYTES, MAX_LINES, Truncation, count, size};
use serde::Serialize;

use crate::tail::Kept;

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// None where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The timeout that was reached, as the call gave it.
    pub timed_out_after: Option<String>,
    /// A guest path with the whole output.
    pub spool: Option<String>,
}

/// The text, and whether it is an error's.
pub fn report(kept: &Kept, ending: &Ending) -> (String, bool) {
    let mut text = if kept.text.is_empty() { "(no output)".to_owned() } else { kept.text.clone() };
    if kept.cut {
        text.push_str(&format!("\n\n[{}]", notice(kept, ending.spool.as_deref())));
    }
    let fault = match ending {
        Ending { timed_out_after: Some(seconds), .. } => Some(format!(
            "Command timed out after {seconds} seconds and was ended. Give a larger timeout, or run less."
        )),
        Ending { signal: Some(signal), .. } => Some(format!("Command was ended by signal {signal}{}", name(*signal))),
        Ending { code: Some(0), .. } => None,
        Ending { code: Some(code), .. } => Some(format!("Command exited with code {code}")),
        Ending { .. } => Some("Command ended without an exit code".to_owned()),
    };
    if let Some(fault) = &fault {
        text.push_str("\n\n");
        text.push_str(fault);
    }
    (text, fault.is_some())
}

fn notice(kept: &Kept, spool: Option<&str>) -> String {
    let last = kept.total_lines;
    let what = if kept.partial_line {
        format!("Showing the last {} of line {last}", size(kept.text.len() as u64))
    } else {
        let first = (last + 1).saturating_sub(kept.lines);
        let limit = if kept.lines as usize >= MAX_LINES { "" } else { &format!(" ({} limit)", size(MAX_BYTES as u64)) };
        format!("Showing lines {first}-{last} of {last}{limit}")
    };
    match spool {
        Some(path) => format!("{what}. Full output: {path}"),
        None => format!(
            "{what}, {} in all. The rest was not kept: write it to a file and search that.",
            size(kept.total_bytes)
        ),
    }
}

/// What views and scripts may want to know of output that was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    truncation: Truncation,
    /// A guest path with the whole output, where the host kept it.
    full_output_path: Option<String>,
}

/// None where all was shown.
pub fn details(kept: &Kept, ending: &Ending) -> Option<Details> {
    let truncated_by = if kept.lines as usize >= MAX_LINES { CutBy::Lines } else { CutBy::Bytes };
    let truncation = Truncation {
        total_lines: Some(kept.total_lines),
        total_bytes: Some(kept.total_bytes),
        last_line_partial: kept.partial_line,
        ..Truncation::new(truncated_by, &kept.text, kept.lines)
    };
    kept.cut.then(|| Details { truncation, full_output_path: ending.spool.clone() })
}

/// What the person sees while the command runs.
pub fn partial(kept: &Kept) -> String {
    if kept.cut { format!("[{}]\n{}", count(kept.lines as usize, "last line"), kept.text) } else { kept.text.clone() }
}

/// Names of the signals that commands are usually ended by (Linux and macOS agree on these).
fn name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tail::Tail;

    fn kept(text: &str) -> Kept {
        let mut tail = Tail::default();
        tail.push(text.as_bytes());
        tail.kept()
    }

    fn exit(code: i32) -> Ending {
        Ending { code: Some(code), ..Ending::default() }
    }

    #[test]
    fn endings_are_said() {
        assert_eq!(report(&kept("hi\n"), &exit(0)), ("hi".into(), false));
        assert_eq!(report(&kept(""), &exit(0)), ("(no output)".into(), false));
        assert_eq!(report(&kept("no\n"), &exit(2)), ("no\n\nCommand exited with code 2".into(), true));
        let killed = Ending { signal: Some(9), ..Ending::default() };
        assert_eq!(report(&kept(""), &killed), ("(no output)\n\nCommand was ended by signal 9 (SIGKILL)".into(), true));
        let late = Ending { signal: Some(9), timed_out_after: Some("2.5".into()), ..Ending::default() };
        let (text, is_error) = report(&kept("half"), &late);
        assert!(text.starts_with("half\n\nCommand timed out after 2.5 seconds") && is_error, "{text}");
        assert!(report(&kept(""), &Ending::default()).1);
    }

    #[test]
    fn what_was_cut_is_said_with_the_way_to_the_rest() {
        let many: String = (1..=2500).map(|n| format!("{n}\n")).collect();
        let spooled = Ending { spool: Some("/spool/1".into()), ..exit(0) };
        let (text, is_error) = report(&kept(&many), &spooled);
        assert!(
            text.ends_with("\n2500\n\n[Showing lines 501-2500 of 2500. Full output: /spool/1]"),
            "{}",
            &text[text.len() - 90..]
        );
        assert!(!is_error);
        let (text, _) = report(&kept(&many), &exit(0));
        assert!(text.ends_with(
            "Showing lines 501-2500 of 2500, 11.1KB in all. The rest was not kept: write it to a file and search that.]"
        ));
        let (text, _) = report(&kept(&"x".repeat(100_000)), &spooled);
        assert!(text.ends_with("[Showing the last 50.0KB of line 1. Full output: /spool/1]"));
        let wide = format!("{}\n", "x".repeat(1023)).repeat(60);
        let (text, _) = report(&kept(&wide), &exit(1));
        assert!(text.contains("[Showing lines 11-60 of 60 (50.0KB limit), 60.0KB in all.") && text.ends_with("code 1"));
        assert_eq!(details(&kept(&many), &spooled).unwrap().full_output_path.as_deref(), Some("/spool/1"));
        assert_eq!(details(&kept("a"), &spooled), None);
    }
}
