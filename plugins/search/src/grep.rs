//! The tool `grep`.

use pith_sdk::paths::{GuestPath, relative};
use pith_sdk::scan::{self, Hit, Outcome, Query};
use pith_sdk::text::{Cut, MAX_BYTES, MAX_LINE_CHARS, brief, shell_word, size};
use pith_sdk::{Context, Error, ErrorKind, Input, Output, Schema, Tool};
use serde::Deserialize;

use crate::findings::{finish, more, not_text, passed_over, shown};
use crate::{Scan, git_hint, glob_hint, long_line, query, refused, relative_glob};

const DEFAULT_MATCHES: u32 = 100;
/// Where a pattern is not found in so many files at most, other ways to write it are tried.
const PROBE_FILES_MAX: u32 = 5_000;

/// The tool.
pub struct Grep;

/// What `grep` is asked.
#[derive(Deserialize, Input)]
#[serde(rename_all = "camelCase")]
pub struct GrepInput {
    /// A regular expression over one line (Rust's syntax), or plain text with `literal`.
    #[input(min_length = 1)]
    pub pattern: String,
    /// The folder or file to search; the working folder if absent.
    pub path: Option<GuestPath>,
    /// Only files that match this glob, such as `*.ts` (at any depth) or `src/**/*.rs` (from `path`); `!*.md` leaves files out.
    #[input(min_length = 1)]
    pub glob: Option<String>,
    /// Whether upper and lower case are the same.
    pub ignore_case: Option<bool>,
    /// Whether the pattern is plain text.
    pub literal: Option<bool>,
    /// Lines to show before and after each match.
    #[input(min = 0, max = 100)]
    pub context: Option<u32>,
    /// How many matches to show at most; 100 if absent.
    #[input(min = 1, max = 10000)]
    pub limit: Option<u32>,
}

impl Tool for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "Search the contents of files for a pattern. Gives matching lines as `path:line: text`, in the order of paths. Ignored files (.gitignore) are left out unless path names them, hidden ones are searched. At most 100 matches, or `limit`, and 50KB; long lines are cut to 500 characters around the match.";
    const GUIDELINES: &'static [&'static str] = &["Use grep and find instead of grep, rg and find in a shell."];
    const META: Option<&'static str> = Some(r#"{"readOnlyHint":true}"#);
    type Input = GrepInput;

    fn schema() -> Schema {
        GrepInput::schema()
    }

    fn run(input: GrepInput, context: &Context) -> Result<Output, Error> {
        grep(input, &context.cwd(), scan::run)
    }
}

/// `grep`, over any scan.
pub fn grep(input: GrepInput, cwd: &str, scan: impl Scan) -> Result<Output, Error> {
    let path = match &input.path {
        Some(path) => path.clone(),
        None => GuestPath::granted(".")?,
    };
    if input.pattern.contains('\n') {
        return Err(one_line());
    }
    let asked = asked(&input, &path);
    let outcome = scan(&asked).map_err(|refusal| bad_pattern(refused(refusal, &path), &input))?;
    if outcome.hits.is_empty() && !outcome.truncated {
        return nothing(&input, &path, &outcome, |other| {
            found_by(&scan, &Query { max_results: 1, ..other(asked.clone()) })
        });
    }
    Ok(matches(&outcome, cwd, asked.max_results))
}

/// What the host is asked.
fn asked(input: &GrepInput, path: &GuestPath) -> Query {
    Query {
        pattern: Some(input.pattern.clone()),
        literal: input.literal.unwrap_or(false),
        ignore_case: input.ignore_case.unwrap_or(false),
        globs: input.glob.iter().map(|glob| relative_glob(glob, path)).collect(),
        context_lines: input.context.unwrap_or(0),
        ..query(path, input.limit.unwrap_or(DEFAULT_MATCHES))
    }
}

/// Matches as `path:line: text`, lines around them as `path-line- text`, groups of a file's lines apart by `--` where there are such
/// lines.
fn matches(outcome: &Outcome, cwd: &str, limit: u32) -> Output {
    let with_context = outcome.hits.iter().any(|hit| hit.is_context);
    let mut text = String::new();
    let (mut longest, mut longest_bytes) = (None, 0);
    let mut before: Option<&Hit> = None;
    for hit in &outcome.hits {
        let goes_on = before.is_some_and(|b| b.path == hit.path && b.line.saturating_add(1) == hit.line);
        if with_context && before.is_some() && !goes_on {
            text.push_str("--\n");
        }
        let mark = if hit.is_context { '-' } else { ':' };
        text.push_str(&format!("{}{mark}{}{mark} ", shown(&hit.path, cwd), hit.line));
        if long_line::show(hit, &mut text) && long_line::length(hit) > longest_bytes {
            (longest, longest_bytes) = (Some(hit), long_line::length(hit));
        }
        text.push('\n');
        before = Some(hit);
    }
    let mut cut = Cut { lines_truncated: longest.is_some(), ..Cut::default() };
    let mut notices = Vec::new();
    if outcome.truncated {
        let count = outcome.hits.iter().filter(|hit| !hit.is_context).count();
        let (is_limit, notice) = more(count, limit, "matches");
        notices.push(notice);
        cut.limit_reached = is_limit.then_some(("matchLimitReached", u64::from(limit)));
    }
    let mut not_utf8: Vec<&str> = outcome.hits.iter().map(|hit| hit.path.as_str()).collect();
    not_utf8.retain(|path| path.contains(char::REPLACEMENT_CHARACTER));
    not_utf8.dedup();
    notices.extend(not_text(not_utf8.len(), "shown with \u{fffd}"));
    notices.extend(passed_over(outcome));
    if let Some(hit) = longest {
        notices.push(whole_line(hit, cwd));
    }
    finish(&text, notices, cut)
}

/// How to see a line whole.
fn whole_line(hit: &Hit, cwd: &str) -> String {
    let cut = format!("Some lines were cut to {MAX_LINE_CHARS} characters.");
    if long_line::length(hit) <= MAX_BYTES {
        return format!("{cut} Use read to see them whole.");
    }
    format!(
        "{cut} Line {} of {} is too long for read ({}): search for more of its text, or print a part of it with a shell command: sed -n {}p {} | cut -c FROM-TO",
        hit.line,
        shown(&hit.path, cwd),
        size(long_line::length(hit) as u64),
        hit.line,
        shell_word(relative(&hit.path, cwd))
    )
}

/// No match: why that may be.
fn nothing(
    input: &GrepInput,
    path: &GuestPath,
    outcome: &Outcome,
    probe: impl Fn(fn(Query) -> Query) -> Option<String>,
) -> Result<Output, Error> {
    let is_file = || std::fs::metadata(path).is_ok_and(|met| met.is_file());
    if outcome.binary > 0 && is_file() {
        return Err(Error::invalid(format!(
            "`{path}` is a binary file (it holds NUL bytes) and grep searches text. Search it with a shell command: strings {} | grep -n PATTERN",
            shell_word(path.shown())
        )));
    }
    if outcome.skipped > 0 && is_file() {
        return Err(Error::denied(format!(
            "`{path}` could not be searched: its permissions forbid it, or it is too large (256MB, or 16MB in one line)."
        )));
    }
    let mut text = String::from("No matches found.");
    match &input.glob {
        _ if outcome.files_searched > 0 => {
            let hint = match pattern_hint(input) {
                "" if outcome.files_searched <= PROBE_FILES_MAX => other_ways(input, probe),
                hint => hint,
            };
            text.push_str(hint);
        }
        Some(glob) => {
            let hint = match glob_hint(glob) {
                _ if !git_hint(path, glob).is_empty() => git_hint(path, glob).to_owned(),
                none if none.is_empty() && !glob.contains(['*', '?', '[', '{', '.', '/']) => {
                    format!(" All in a folder of that name is `**/{glob}/**`.")
                }
                hint => hint,
            };
            text.push_str(&format!(" No file was searched: the glob `{}` lets none through.{hint}", brief(glob)));
        }
        None if outcome.skipped == 0 => {
            text.push_str(&format!(
                " No file was searched: there is none in `{path}`, or all are ignored (.gitignore, .ignore). To search an ignored file or folder, give it as path."
            ));
        }
        None => {}
    }
    Ok(finish(&text, passed_over(outcome), Cut::default()))
}

/// What is found first by another query.
fn found_by(scan: &impl Scan, query: &Query) -> Option<String> {
    let found = scan(query).ok()?.hits.into_iter().find(|hit| !hit.is_context)?;
    found.text.get(found.match_start as usize..found.match_end as usize).map(str::to_owned)
}

/// Whether the pattern would be found as plain text, or in another case. A turn of the model costs more than a second look at few files.
fn other_ways(input: &GrepInput, probe: impl Fn(fn(Query) -> Query) -> Option<String>) -> &'static str {
    let has_signs = input.pattern.contains(['(', ')', '[', ']', '{', '}', '.', '*', '+', '?', '^', '$', '|', '\\']);
    if has_signs && !input.literal.unwrap_or(false) {
        match probe(|query| Query { literal: true, ignore_case: true, ..query }) {
            Some(found) if found == input.pattern || input.ignore_case.unwrap_or(false) => {
                return " As plain text it is there: give literal=true.";
            }
            Some(_) => return " As plain text it is there, in another case: give literal=true and ignoreCase=true.",
            None => {}
        }
    }
    if !input.ignore_case.unwrap_or(false)
        && input.pattern.chars().any(char::is_alphabetic)
        && probe(|query| Query { ignore_case: true, ..query }).is_some()
    {
        return " In another case it is there: give ignoreCase=true.";
    }
    ""
}

/// What may be wrong with a pattern that was found nowhere; it begins with a blank where there is something.
fn pattern_hint(input: &GrepInput) -> &'static str {
    let is_literal = input.literal.unwrap_or(false);
    if !is_literal && input.pattern.contains("\\|") {
        " In this syntax `\\|` is a plain `|`; alternatives are written `a|b`."
    } else if is_literal && input.pattern.contains('\\') {
        " With literal=true a `\\` is searched for as it is."
    } else {
        ""
    }
}

fn one_line() -> Error {
    Error::invalid(
        "The pattern has a line break, but lines are searched one by one. Search for one of the lines, with context=N to see those around it.",
    )
}

/// The host's words for a pattern, with where it is wrong and what to do.
fn bad_pattern(refusal: Error, input: &GrepInput) -> Error {
    if refusal.kind != ErrorKind::Invalid {
        return refusal;
    }
    let Some(words) = refusal.message.strip_prefix("bad pattern: ") else { return refusal };
    if words.contains("is not allowed in a regex") {
        return one_line();
    }
    let words = words.strip_prefix("regex parse error:").map_or(words, |rest| rest.trim_start_matches('\n'));
    let (picture, reason) = words.split_once("\nerror: ").unwrap_or(("", words));
    let reason = reason.trim();
    // The picture is the pattern, indented by four, and `^` under what is wrong.
    let column =
        picture.lines().rev().find_map(|line| line.find('^').filter(|_| line.trim_matches([' ', '^']).is_empty()));
    let mut message = match column.and_then(|column| column.checked_sub(3)) {
        Some(column) => format!("The pattern is no regular expression, at character {column}: {reason}.\n{picture}"),
        None => format!("The pattern cannot be used: {reason}."),
    };
    if reason.contains("look-around") || reason.contains("backreference") {
        message.push_str("\nSearch for something simpler, and choose among what is found.");
    } else if !input.literal.unwrap_or(false) {
        message.push_str("\nTo search for it as plain text, give literal=true.");
    }
    Error::invalid(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(path: &str, line: u32, text: &str, is_context: bool) -> Hit {
        let (match_start, match_end, cut_before, cut_after) = (0, 0, 0, 0);
        Hit { path: path.into(), line, text: text.into(), is_context, match_start, match_end, cut_before, cut_after }
    }

    fn outcome(hits: Vec<Hit>) -> Outcome {
        Outcome { hits, truncated: false, files_searched: 1, binary: 0, skipped: 0 }
    }

    fn input(pattern: &str) -> GrepInput {
        let (path, glob, ignore_case, literal, context, limit) = (None, None, None, None, None, None);
        GrepInput { pattern: pattern.into(), path, glob, ignore_case, literal, context, limit }
    }

    #[test]
    fn context_is_marked_and_grouped() {
        let hits = vec![
            hit("/w/a", 1, "one", true),
            hit("/w/a", 2, "two", false),
            hit("/w/a", 3, "three", true),
            hit("/w/a", 4, "four", false),
            hit("/w/a", 9, "nine", false),
            hit("/w/b", 10, "b", false),
        ];
        let expected = "a-1- one\na:2: two\na-3- three\na:4: four\n--\na:9: nine\n--\nb:10: b";
        assert_eq!(matches(&outcome(hits), "/w", 100).to_text(), expected);
    }

    #[test]
    fn what_was_passed_over_is_told_only_where_it_is_known() {
        let found = Outcome { binary: 2, skipped: 1, ..outcome(vec![hit("/w/a", 1, "x", false)]) };
        let text = matches(&found, "/w", 1).to_text();
        assert_eq!(
            text,
            "a:1: x\n\n[2 binary files match too and are not shown. 1 file or folder could not be searched (no permission, or too large).]"
        );
        let cut = Outcome { truncated: true, ..found };
        let text = matches(&cut, "/w", 1).to_text();
        assert_eq!(text, "a:1: x\n\n[1 matches limit reached. Use limit=2 for more, or refine the pattern.]");
    }

    #[test]
    fn a_path_that_is_no_text_is_told() {
        let hits = vec![hit("/w/\u{fffd}", 1, "x", false), hit("/w/\u{fffd}", 2, "x", false)];
        let text = matches(&outcome(hits), "/w", 9).to_text();
        let said = "[1 path that is not UTF-8 shown with \u{fffd}; only a shell command can reach such files.]";
        assert_eq!(text, format!("\u{fffd}:1: x\n\u{fffd}:2: x\n\n{said}"));
    }

    #[test]
    fn a_line_that_read_cannot_show_is_told() {
        let long = Hit { cut_after: 60_000, ..hit("/w/a.js", 3, &"x".repeat(2000), false) };
        let text = matches(&outcome(vec![long]), "/w", 1).to_text();
        assert!(text.contains("Line 3 of a.js is too long for read (60.5KB)"), "{text}");
        assert!(text.contains("with a shell command: sed -n 3p a.js | cut -c FROM-TO"), "{text}");
    }

    #[test]
    fn a_bad_pattern_is_shown_where_it_is_bad() {
        let message =
            |words: &str| bad_pattern(Error::invalid(format!("bad pattern: {words}")), &input("foo[")).message;
        assert_eq!(
            message("regex parse error:\n    foo[\n       ^\nerror: unclosed character class"),
            "The pattern is no regular expression, at character 4: unclosed character class.\n    foo[\n       ^\nTo search for it as plain text, give literal=true."
        );
        let around = message("regex parse error:\n    (?=a)\n    ^^^\nerror: look-around is not supported");
        assert!(around.contains("at character 1:") && around.contains("simpler"), "{around}");
        assert!(
            message("Compiled regex exceeds size limit of 10 bytes.").starts_with("The pattern cannot be used: Comp")
        );
        assert!(message("the literal \"\\n\" is not allowed in a regex").contains("line break"));
    }

    #[test]
    fn hints_for_what_others_write() {
        assert!(pattern_hint(&input(r"a\|b")).contains("a|b"));
        assert!(pattern_hint(&GrepInput { literal: Some(true), ..input(r"a\.b") }).contains("literal"));
        assert_eq!(pattern_hint(&input(r"a\.b")), "");
    }
}
