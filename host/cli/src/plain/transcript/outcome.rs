//! What is shown beneath a call that is over: what it changed, or the end of what it gave. By what a result is, never by a tool's name.

use crate::{
    harmless::{harmless, harmless_line},
    plain::style::Style,
};
use pith_protocol::{Content, ToolResultView};
use serde_json::Value;

/// Lines of a change that are shown: one small edit with its surroundings.
const CHANGE_LINES: usize = 12;
/// Lines of an output that are shown, which are its last: there stand the verdict of a test run, the error, the exit code.
const OUTPUT_LINES: usize = 5;
/// Rows of the terminal that one line of others may take.
const LINE_ROWS: usize = 2;
/// What lies beneath a call is set in.
const INDENT: &str = "    ";
/// A tab's columns, where a line does not begin at the terminal's first.
const TAB: &str = "    ";
/// Characters of a call's name where it is told apart from those beside it.
const NAME_CHARS: usize = 32;
/// Of a longer one, the characters around the place where it differs: before it, and from it on.
const DIFFERS_CHARS: (usize, usize) = (4, 22);
/// How far the beginning of the word is looked for that differs, in characters.
const WORD_CHARS: usize = 16;

/// A unified diff among a result's details, under the names that tools give it.
pub fn change(result: &ToolResultView) -> Option<&str> {
    let details = result.details.as_ref().and_then(Value::as_object)?;
    let texts = ["patch", "diff"].into_iter().filter_map(|key| details.get(key).and_then(Value::as_str));
    texts.into_iter().find(|text| text.lines().any(|line| line.starts_with("@@ -")))
}

/// What a change comes to, `+2 -1`, and its first lines.
pub fn change_lines(style: Style, patch: &str) -> (String, Vec<String>) {
    let whole = harmless(patch);
    let mut lines: Vec<&str> = whole.lines().collect();
    // The file is named by the call above; of more than one each is named.
    let begins = ["--- ", "+++ ", "@@ -"];
    let files =
        lines.windows(3).filter(|three| three.iter().zip(begins).all(|(line, with)| line.starts_with(with))).count();
    if files <= 1 {
        let first = lines.iter().position(|line| line.starts_with("@@ -")).unwrap_or(0);
        lines.drain(..first);
    }
    let headers = if files <= 1 { 0 } else { files };
    let counted = |sign: char| lines.iter().filter(|line| line.starts_with(sign)).count().saturating_sub(headers);
    let sum = format!("+{} -{}", counted('+'), counted('-'));
    let mut shown: Vec<String> = lines
        .iter()
        .take(CHANGE_LINES)
        .map(|line| {
            let text = set_in(style, line);
            match line.chars().next() {
                Some('+') => style.green(&text),
                Some('-') => style.red(&text),
                _ => style.dim(&text),
            }
        })
        .collect();
    if let Some(more) = lines.len().checked_sub(CHANGE_LINES).filter(|more| *more > 0) {
        shown.push(style.dim(&format!("{INDENT}... {}", count(more, "more line"))));
    }
    (sum, shown)
}

/// The last lines of an output; empty ones do not count.
pub fn last_lines(style: Style, text: &str) -> Vec<String> {
    let whole = harmless(text);
    let lines: Vec<&str> = whole.lines().filter(|line| !line.trim().is_empty()).collect();
    let before = lines.len().saturating_sub(OUTPUT_LINES);
    let mut shown = Vec::with_capacity(OUTPUT_LINES + 1);
    if before > 0 {
        shown.push(style.dim(&format!("{INDENT}... {} before", count(before, "line"))));
    }
    shown.extend(lines.iter().skip(before).map(|line| style.dim(&set_in(style, line))));
    shown
}

/// A line of others beneath a call.
fn set_in(style: Style, line: &str) -> String {
    let limit = style.width().saturating_mul(LINE_ROWS).saturating_sub(INDENT.len() + 1);
    let line = harmless_line(&line.trim_end().replace('\t', TAB), limit);
    if line.is_empty() { line } else { format!("{INDENT}{line}") }
}

/// The one line that a text has; none where it has more.
pub fn only_line(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("(no words)");
    lines.next().is_none().then_some(first)
}

/// How large a result is, in a word.
pub fn size(result: &ToolResultView, text: &str) -> String {
    match pictures(result) {
        0 => count(text.lines().count(), "line"),
        pictures => count(pictures, "picture"),
    }
}

/// How many pictures a result has.
pub fn pictures(result: &ToolResultView) -> usize {
    result.content.iter().filter(|block| matches!(block, Content::Image(_))).count()
}

/// A number of things, in words.
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A call's line made short, with what tells it from the others that ran beside it: many begin with the same words.
pub fn short_name(line: &str, beside: &[String]) -> String {
    let chars: Vec<char> = line.chars().collect();
    if chars.len() <= NAME_CHARS {
        return line.to_owned();
    }
    let same = |other: &String| line.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let differs = beside.iter().filter(|other| *other != line).map(same).max().unwrap_or(0);
    let (before, from) = DIFFERS_CHARS;
    if differs + from <= NAME_CHARS + before {
        return format!("{}…", chars[..NAME_CHARS].iter().collect::<String>().trim_end());
    }
    let tool: String = line.trim_start_matches("· ").split(' ').next().unwrap_or_default().chars().take(16).collect();
    // From where that word begins, unless it is a long one.
    let back = chars[..differs].iter().rev().take(WORD_CHARS).position(|c| *c == ' ').unwrap_or(before);
    let start = differs - back;
    let end = (differs + from).min(chars.len());
    let rest = if end < chars.len() { "…" } else { "" };
    format!("· {tool} …{}{rest}", chars[start..end].iter().collect::<String>().trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PLAIN: Style = Style { colour: false, dumb: true };

    fn of(details: Value) -> ToolResultView {
        ToolResultView { details: Some(details), ..ToolResultView::default() }
    }

    #[test]
    fn a_change_is_a_unified_diff_under_either_name() {
        let patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(change(&of(json!({ "diff": "+1 b", "patch": patch }))), Some(patch));
        assert_eq!(change(&of(json!({ "diff": patch }))), Some(patch));
        for other in [json!({ "diff": "+1 b" }), json!({ "patch": 7 }), json!("@@ -1"), json!({ "exitCode": 0 })] {
            assert_eq!(change(&of(other)), None);
        }
        assert_eq!(change(&ToolResultView::default()), None);
    }

    #[test]
    fn a_change_is_summed_up_and_cut_after_twelve_lines() {
        let (sum, lines) = change_lines(PLAIN, "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n \tk\n--- a\n+++ b\u{1b}[2J\n");
        assert_eq!(sum, "+1 -1", "a removed line may begin with two dashes itself");
        assert_eq!(lines, ["    @@ -1,2 +1,2 @@", "         k", "    --- a", "    +++ b"]);
        let long = format!("@@ -0,0 +1,40 @@\n{}", "+é\n".repeat(40));
        let (sum, lines) = change_lines(PLAIN, &long);
        assert_eq!((sum.as_str(), lines.len()), ("+40 -0", 13));
        assert_eq!(lines[12], "    ... 29 more lines");
        let two = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +0,0 @@\n-a\n";
        let (sum, lines) = change_lines(PLAIN, two);
        assert_eq!((sum.as_str(), lines[0].as_str()), ("+1 -2", "    --- a/x"));
    }

    #[test]
    fn a_change_is_green_and_red_where_there_are_colours() {
        let (_, lines) = change_lines(Style { colour: true, dumb: false }, "@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!(lines[1..], ["\u{1b}[31m    -a\u{1b}[0m", "\u{1b}[32m    +b\u{1b}[0m"]);
    }

    #[test]
    fn of_an_output_the_last_five_lines_are_shown() {
        assert_eq!(last_lines(PLAIN, "a\n\n b \n"), ["    a", "     b"]);
        let text: String = (1..=20).map(|n| format!("line {n}\r\n\n")).collect();
        let lines = last_lines(PLAIN, &text);
        assert_eq!((lines.len(), lines[0].as_str(), lines[5].as_str()), (6, "    ... 15 lines before", "    line 20"));
        assert_eq!(last_lines(PLAIN, "1 %\r50 %\r100 %")[2], "    100 %");
        assert!(last_lines(PLAIN, &"x".repeat(1 << 20))[0].chars().count() <= 2 * PLAIN.width());
        assert!(last_lines(PLAIN, "\n \n").is_empty());
    }

    #[test]
    fn calls_beside_each_other_are_named_by_where_they_differ() {
        let line = |what: &str| format!("· bash cd /a/very/long/way/to/the/project && cargo test -p {what} --release");
        let lines = ["one", "two"].map(line);
        assert_eq!(short_name(&lines[0], &lines), "· bash …one --release");
        let others = [lines[1].clone(), "· bash ls".to_owned()];
        assert_eq!(short_name(&others[1], &others), "· bash ls");
        assert_eq!(short_name(&others[0], &others), "· bash cd /a/very/long/way/to/th…");
        let same = [lines[0].clone(), lines[0].clone()];
        assert_eq!(short_name(&same[0], &same), "· bash cd /a/very/long/way/to/th…");
        let wide = ["é".repeat(60), format!("{}x", "é".repeat(40))];
        assert!(short_name(&wide[0], &wide).chars().count() < 60);
    }
}
