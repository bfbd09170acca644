//! What the model reads when a command is over, or goes on in the background.

use pith_sdk::text::{CutBy, MAX_BYTES, MAX_LINES, Truncation, count, size, with_notices};
use serde::Serialize;

use crate::tail::Kept;

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// None where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The timeout that was reached, in seconds as the call gave it.
    pub timed_out_after: Option<String>,
    /// Where the whole output is, if the host kept it apart.
    pub spool: Option<Spool>,
}

/// A file with an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spool {
    /// A guest path.
    pub path: String,
    /// It has all of the output; else its beginning and its end.
    pub is_whole: bool,
}

/// What a call gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// For the model.
    pub text: String,
    /// The command failed.
    pub is_error: bool,
    /// For views and scripts.
    pub details: Details,
}

/// What views and scripts may want to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// None where it goes on, or was ended by its timeout; 128 and the signal's number where a signal ended it.
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncation: Option<Truncation>,
    /// A guest path with the whole output, where the host kept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    full_output_path: Option<String>,
    /// It goes on in the background.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    running: bool,
}

/// The first signal's exit code, as shells give it.
const SIGNALS_FROM: i32 = 128;

/// What is said of a command that is over.
pub fn report(kept: &Kept, ending: &Ending) -> Answer {
    let mut text = with_notices(&output(kept), notice(kept, ending.spool.as_ref()).as_slice());
    let code = ending.code.or_else(|| ending.signal.map(|signal| SIGNALS_FROM.saturating_add(signal)));
    let fault = match (&ending.timed_out_after, code) {
        (Some(seconds), _) => {
            let unit = if seconds == "1" { "second" } else { "seconds" };
            Some(format!(
                "Command timed out after {seconds} {unit} and was ended. Give a larger `timeout`, or let it run with `background`."
            ))
        }
        (None, Some(0)) => None,
        (None, Some(code)) => Some(format!("Command exited with code {code}{}", signal_of(code))),
        (None, None) => Some("Command ended without an exit code".to_owned()),
    };
    if let Some(fault) = &fault {
        text.push_str("\n\n");
        text.push_str(fault);
    }
    let details = Details {
        exit_code: code.filter(|_| ending.timed_out_after.is_none()),
        truncation: truncation(kept),
        full_output_path: ending.spool.as_ref().filter(|_| kept.cut || kept.has_binary).map(|spool| spool.path.clone()),
        running: false,
    };
    Answer { text, is_error: fault.is_some(), details }
}

/// What is said of a command that goes on, with its output in the file at `path`. `until` says what ends it at the latest, `why` why it
/// goes on although that was not asked for.
pub fn left_running(kept: &Kept, path: String, until: &str, why: &str) -> Answer {
    let so_far = match kept {
        Kept { total_bytes: 0, .. } => "(no output yet)".to_owned(),
        kept => output(kept),
    };
    let notice = format!(
        "It goes on in the background{why}. Output: {path} (read or search that file; its last line will say how it ended). \
         `bash_stop` ends it; {until} does too."
    );
    let details =
        Details { exit_code: None, truncation: truncation(kept), full_output_path: Some(path), running: true };
    Answer { text: with_notices(&so_far, &[notice]), is_error: false, details }
}

/// What is shown of the output itself.
fn output(kept: &Kept) -> String {
    if kept.is_binary {
        format!("(binary output, {} bytes)", kept.total_bytes)
    } else if kept.text.is_empty() {
        "(no output)".to_owned()
    } else {
        kept.text.clone()
    }
}

/// What is missing, and the way to it; none where nothing is.
fn notice(kept: &Kept, spool: Option<&Spool>) -> Option<String> {
    let last = kept.total_lines;
    let what = if kept.is_binary {
        "Binary data is not shown".to_owned()
    } else if kept.partial_line {
        format!("Showing the last {} of line {last}", size(kept.text.len() as u64))
    } else if kept.cut {
        let first = (last + 1).saturating_sub(kept.lines);
        let limit = if kept.lines as usize >= MAX_LINES { "" } else { &format!(" ({} limit)", size(MAX_BYTES as u64)) };
        format!("Showing lines {first}-{last} of {last}{limit}")
    } else if kept.has_binary {
        "Binary data is not shown".to_owned()
    } else {
        return None;
    };
    let whole = if kept.has_binary { "Raw output" } else { "Full output" };
    Some(match spool {
        Some(Spool { path, is_whole: true }) => format!("{what}. {whole}: {path}"),
        Some(Spool { path, is_whole: false }) => {
            format!(
                "{what}, {} in all. Its beginning and its end: {path}; the middle was not kept",
                size(kept.total_bytes)
            )
        }
        None if kept.has_binary => format!("{what}: pipe it through `xxd` or `strings`, or write it to a file"),
        None => format!(
            "{what}, {} in all. The rest was not kept: write it to a file and search that",
            size(kept.total_bytes)
        ),
    })
}

fn truncation(kept: &Kept) -> Option<Truncation> {
    let truncated_by = if kept.lines as usize >= MAX_LINES { CutBy::Lines } else { CutBy::Bytes };
    kept.cut.then(|| Truncation {
        total_lines: Some(kept.total_lines),
        total_bytes: Some(kept.total_bytes),
        last_line_partial: kept.partial_line,
        ..Truncation::new(truncated_by, &kept.text, kept.lines)
    })
}

/// What the person sees while the command runs.
pub fn partial(kept: &Kept) -> String {
    if kept.is_binary {
        output(kept)
    } else if kept.cut {
        format!("[{}]\n{}", count(kept.lines as usize, "last line"), kept.text)
    } else {
        kept.text.clone()
    }
}

/// The signal in a shell's exit code, in words.
fn signal_of(code: i32) -> String {
    let signal = code.saturating_sub(SIGNALS_FROM);
    match name(signal) {
        "" => String::new(),
        name => format!(" ({SIGNALS_FROM} + {signal}: {name})"),
    }
}

/// Names of the signals that commands are usually ended by. Linux and macOS agree on these, or the other's is never the cause.
fn name(signal: i32) -> &'static str {
    match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tail::Tail;

    fn kept(text: impl AsRef<[u8]>) -> Kept {
        let mut tail = Tail::default();
        tail.push(text.as_ref());
        tail.kept()
    }

    fn exit(code: i32) -> Ending {
        Ending { code: Some(code), ..Ending::default() }
    }

    fn said(output: impl AsRef<[u8]>, ending: &Ending) -> (String, bool) {
        let answer = report(&kept(output), ending);
        (answer.text, answer.is_error)
    }

    fn spooled(is_whole: bool) -> Ending {
        Ending { spool: Some(Spool { path: "/spool/1".into(), is_whole }), ..exit(0) }
    }

    #[test]
    fn endings_are_said() {
        assert_eq!(said("hi\n", &exit(0)), ("hi".into(), false));
        assert_eq!(said("", &exit(0)), ("(no output)".into(), false));
        assert_eq!(said("\u{1b}[0m\n", &exit(0)), ("(no output)".into(), false));
        assert_eq!(said("no\n", &exit(2)), ("no\n\nCommand exited with code 2".into(), true));
        assert_eq!(said("", &exit(255)), ("(no output)\n\nCommand exited with code 255".into(), true));
        let crash = "(no output)\n\nCommand exited with code 139 (128 + 11: SIGSEGV)".to_owned();
        assert_eq!(said("", &Ending { signal: Some(11), ..Ending::default() }), (crash.clone(), true));
        assert_eq!(said("", &exit(139)), (crash, true));
        let late = Ending { signal: Some(9), timed_out_after: Some("2.5".into()), ..Ending::default() };
        let (text, is_error) = said("half", &late);
        assert!(text.starts_with("half\n\nCommand timed out after 2.5 seconds and was ended.") && is_error, "{text}");
        assert!(said("", &Ending { timed_out_after: Some("1".into()), ..late }).0.contains("1 second and"));
        assert!(said("", &Ending::default()).1);
    }

    #[test]
    fn what_was_cut_is_said_with_the_way_to_the_rest() {
        let many: String = (1..=2500).map(|n| format!("{n}\n")).collect();
        let ends = |text: &str, ending: &Ending, end: &str| {
            let (text, _) = said(text, ending);
            assert!(text.ends_with(end), "{}", &text[text.len().saturating_sub(200)..]);
        };
        ends(&many, &spooled(true), "\n2500\n\n[Showing lines 501-2500 of 2500. Full output: /spool/1]");
        ends(
            &many,
            &spooled(false),
            "[Showing lines 501-2500 of 2500, 11.1KB in all. Its beginning and its end: /spool/1; the middle was not kept]",
        );
        ends(&many, &exit(0), "of 2500, 11.1KB in all. The rest was not kept: write it to a file and search that]");
        ends(&"x".repeat(100_000), &spooled(true), "[Showing the last 50.0KB of line 1. Full output: /spool/1]");
        let wide = format!("{}\n", "x".repeat(1023)).repeat(60);
        ends(&wide, &spooled(true), "\n\n[Showing lines 11-60 of 60 (50.0KB limit). Full output: /spool/1]");
        let details = serde_json(&report(&kept(&many), &spooled(true)).details);
        assert!(details.contains(r#""exitCode":0"#) && details.contains(r#""fullOutputPath":"/spool/1""#), "{details}");
        assert_eq!(serde_json(&report(&kept("a"), &spooled(true)).details), r#"{"exitCode":0}"#);
    }

    fn serde_json(details: &Details) -> String {
        pith_sdk::serde_json::to_string(details).unwrap()
    }

    #[test]
    fn binary_output_is_said_and_not_shown() {
        let (text, is_error) = said([0; 5000], &spooled(true));
        assert_eq!(text, "(binary output, 5000 bytes)\n\n[Binary data is not shown. Raw output: /spool/1]");
        assert!(!is_error);
        let (text, _) = said([b"a\n".to_vec(), vec![0; 50]].concat(), &exit(0));
        assert_eq!(
            text,
            "a\n[50 bytes of binary data]\n\n[Binary data is not shown: pipe it through `xxd` or `strings`, or write it to a file]"
        );
    }

    #[test]
    fn what_goes_on_says_where_it_is_to_be_found() {
        let answer = left_running(&kept("ready\n"), "/spool/1".into(), "the end of the session", "");
        assert_eq!(
            answer.text,
            "ready\n\n[It goes on in the background. Output: /spool/1 (read or search that file; its last line will say how it ended). \
             `bash_stop` ends it; the end of the session does too.]"
        );
        assert_eq!(serde_json(&answer.details), r#"{"exitCode":null,"fullOutputPath":"/spool/1","running":true}"#);
        assert!(left_running(&kept(""), "/spool/1".into(), "x", "").text.starts_with("(no output yet)\n\n"));
    }
}
