//! What the host found, as the model reads it.

use pith_sdk::paths::relative;
use pith_sdk::scan::Hit;
use pith_sdk::text::{CutBy, MAX_BYTES, MAX_LINE_CHARS, Truncation, clip, head, size};
use serde::Serialize;

/// A result's text and what views may want to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// For the model.
    pub text: String,
    /// None where all was shown.
    pub details: Option<Details>,
}

/// What views and scripts may want to know of findings that were cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The limit, where there is at least one match more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_limit_reached: Option<u32>,
    /// The limit, where there is at least one file more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_limit_reached: Option<u32>,
    /// Where even those within the limit were too much text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
    /// Some lines were cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lines_truncated: bool,
}

/// Matches as `path:line: text`, lines around them as `path-line- text`, groups of a file's lines apart by `--` where
/// there are such lines. `truncated`: there was at least one match more than `limit`.
pub fn matches(mut hits: Vec<Hit>, cwd: &str, limit: u32, truncated: bool) -> Findings {
    if hits.is_empty() {
        return Findings { text: "No matches found.".to_owned(), details: None };
    }
    hits.sort_by(|a, b| (&a.path, a.line, a.is_context).cmp(&(&b.path, b.line, b.is_context)));
    // A line between two matches may come with both.
    hits.dedup_by(|next, kept| next.path == kept.path && next.line == kept.line);
    let with_context = hits.iter().any(|hit| hit.is_context);
    let mut text = String::new();
    let mut clipped = false;
    let mut before: Option<&Hit> = None;
    for hit in &hits {
        let goes_on = before.is_some_and(|b| b.path == hit.path && b.line.saturating_add(1) == hit.line);
        if with_context && before.is_some() && !goes_on {
            text.push_str("--\n");
        }
        let line = hit.text.trim_end_matches(['\n', '\r']);
        let shown = clip(line, MAX_LINE_CHARS);
        clipped |= shown.len() != line.len();
        let mark = if hit.is_context { '-' } else { ':' };
        let path = relative(&hit.path, cwd);
        text.push_str(&format!("{path}{mark}{}{mark} {shown}\n", hit.line));
        before = Some(hit);
    }
    let mut notices = Vec::new();
    let mut details = Details::default();
    if truncated {
        notices.push(format!(
            "{limit} matches limit reached. Use limit={} for more, or refine the pattern.",
            limit.saturating_mul(2)
        ));
        details.match_limit_reached = Some(limit);
    }
    finish(text, notices, details, clipped)
}

/// One path a line. `truncated`: there was at least one more than `limit`.
pub fn files(hits: Vec<Hit>, cwd: &str, limit: u32, truncated: bool) -> Findings {
    if hits.is_empty() {
        return Findings { text: "No files found matching the pattern.".to_owned(), details: None };
    }
    let mut paths: Vec<&str> = hits.iter().map(|hit| relative(&hit.path, cwd)).collect();
    paths.sort_unstable();
    paths.dedup();
    let text: String = paths.iter().flat_map(|path| [*path, "\n"]).collect();
    let mut notices = Vec::new();
    let mut details = Details::default();
    if truncated {
        notices.push(format!(
            "{limit} results limit reached. Use limit={} for more, or refine the pattern.",
            limit.saturating_mul(2)
        ));
        details.result_limit_reached = Some(limit);
    }
    finish(text, notices, details, false)
}

fn finish(text: String, mut notices: Vec<String>, mut details: Details, clipped: bool) -> Findings {
    let shown = head(text.trim_end_matches('\n'), usize::MAX, MAX_BYTES);
    if shown.cut_by.is_some() {
        notices.push(format!(
            "{} limit reached after {} lines. Refine the pattern.",
            size(MAX_BYTES as u64),
            shown.lines
        ));
        details.truncation = Some(Truncation::new(CutBy::Bytes, shown.text, shown.lines as u64));
    }
    if clipped {
        notices.push(format!("Some lines were cut to {MAX_LINE_CHARS} characters. Use read to see them whole."));
        details.lines_truncated = true;
    }
    let mut text = shown.text.to_owned();
    if !notices.is_empty() {
        text.push_str(&format!("\n\n[{}]", notices.join(" ")));
    }
    Findings { text, details: (details != Details::default()).then_some(details) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(path: &str, line: u32, text: &str, is_context: bool) -> Hit {
        Hit {
            path: path.into(),
            line,
            text: text.into(),
            is_context,
            match_start: 0,
            match_end: 0,
            cut_before: 0,
            cut_after: 0,
        }
    }

    #[test]
    fn matches_are_sorted_and_relative() {
        let hits = vec![
            hit("/w/b.rs", 2, "two\r\n", false),
            hit("/w/a.rs", 10, "ten", false),
            hit("/w/a.rs", 9, "nine", false),
            hit("/else/c", 1, "x", false),
        ];
        let found = matches(hits, "/w", 100, false);
        assert_eq!(found.text, "/else/c:1: x\na.rs:9: nine\na.rs:10: ten\nb.rs:2: two");
        assert_eq!(found.details, None);
        assert_eq!(matches(Vec::new(), "/w", 100, false).text, "No matches found.");
    }

    #[test]
    fn context_is_marked_merged_and_grouped() {
        let hits = vec![
            hit("/w/a", 1, "one", true),
            hit("/w/a", 2, "two", false),
            hit("/w/a", 3, "three", true),
            hit("/w/a", 3, "three", true),
            hit("/w/a", 4, "four", false),
            hit("/w/a", 9, "nine", false),
            hit("/w/b", 1, "b", false),
        ];
        let expected = "a-1- one\na:2: two\na-3- three\na:4: four\n--\na:9: nine\n--\nb:1: b";
        assert_eq!(matches(hits, "/w", 100, false).text, expected);
        // A match of one group that is context of the next is a match.
        let hits = vec![hit("/w/a", 2, "two", true), hit("/w/a", 2, "two", false)];
        assert_eq!(matches(hits, "/w", 100, false).text, "a:2: two");
    }

    #[test]
    fn notices_say_what_was_left_out() {
        let found = matches(vec![hit("/w/a", 1, &"y".repeat(501), false)], "/w", 1, true);
        let expected = format!(
            "a:1: {}... [truncated]\n\n[1 matches limit reached. Use limit=2 for more, or refine the pattern. Some lines were cut to 500 characters. Use read to see them whole.]",
            "y".repeat(500)
        );
        assert_eq!(found.text, expected);
        assert_eq!(
            found.details,
            Some(Details { match_limit_reached: Some(1), lines_truncated: true, ..Details::default() })
        );
        let many: Vec<Hit> = (1..2000).map(|n| hit("/w/a", n, &"z".repeat(94), false)).collect();
        let found = matches(many, "/w", 5000, false);
        assert!(
            found.text.ends_with("[50.0KB limit reached after 503 lines. Refine the pattern.]"),
            "{}",
            &found.text[51_000..]
        );
    }

    #[test]
    fn files_are_paths() {
        let hits = vec![hit("/w/src/b", 0, "", false), hit("/w/a", 0, "", false)];
        assert_eq!(files(hits.clone(), "/w", 1000, false).text, "a\nsrc/b");
        let cut = files(hits, "/w", 2, true);
        assert_eq!(cut.text, "a\nsrc/b\n\n[2 results limit reached. Use limit=4 for more, or refine the pattern.]");
        assert_eq!(files(Vec::new(), "/w", 9, false).text, "No files found matching the pattern.");
    }
}
