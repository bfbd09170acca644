//! Replacing texts that a model remembers: each old text must be there once, first exactly, then as it might have been
//! retyped. Everything outside the matches stays byte for byte.

use std::ops::Range;

use pith_sdk::Error;

use crate::folded::{Folded, is_space, loose_needle};

/// One replacement, as the model asks for it.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Edit {
    /// Must be in the file exactly once.
    pub old_text: String,
    /// Takes its place.
    pub new_text: String,
}

/// A range of the original and the text that takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// In bytes of the original.
    pub range: Range<usize>,
    /// With the line ends of the line that the range starts in.
    pub text: String,
}

/// What the edits come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The whole text afterwards.
    pub text: String,
    /// In the original's order, none overlapping.
    pub replacements: Vec<Replacement>,
    /// How many edits were only found by folding quotes, dashes and trailing white space.
    pub loose: usize,
}

const BOM: &str = "\u{feff}";

/// Applies all edits to `original`, each found in the original as it was. `shown_path` is for the messages.
pub fn apply(original: &str, edits: &[Edit], shown_path: &str) -> Result<Edited, Error> {
    if edits.is_empty() {
        return Err(Error::invalid("`edits` is empty; give at least one replacement."));
    }
    let which = |i: usize| if edits.len() == 1 { "oldText".to_owned() } else { format!("edits[{i}].oldText") };
    let bom = if original.starts_with(BOM) { BOM.len() } else { 0 };
    let body = &original[bom..];
    let exact = Folded::exact(body);
    let mut loose_body = None;
    let mut found: Vec<(usize, Replacement)> = Vec::with_capacity(edits.len());
    let mut loose = 0;
    for (i, edit) in edits.iter().enumerate() {
        let old = edit.old_text.strip_prefix(BOM).unwrap_or(&edit.old_text).replace("\r\n", "\n");
        if old.is_empty() {
            return Err(Error::invalid(format!(
                "{} is empty. Give the text to replace; to add text, repeat a line beside it in both texts, and to make a new file use write.",
                which(i)
            )));
        }
        let mut ranges = occurrences(exact.text(), &old, false);
        let mut space = &exact;
        if ranges.is_empty() {
            space = loose_body.get_or_insert_with(|| Folded::loose(body));
            ranges = loose_occurrences(space.text(), &old);
            loose += usize::from(ranges.len() == 1);
        }
        let range = match &ranges[..] {
            [range] => space.original(range.clone()),
            [] => return Err(Error::invalid(not_found(exact.text(), &old, &which(i), shown_path))),
            several => return Err(Error::invalid(ambiguous(space.text(), several, &which(i), shown_path))),
        };
        let range = range.start + bom..range.end + bom;
        let text = with_line_ends(&edit.new_text, original, range.start);
        found.push((i, Replacement { range, text }));
    }
    found.sort_by_key(|(_, replacement)| (replacement.range.start, replacement.range.end));
    for pair in found.windows(2) {
        let [(a, first), (b, second)] = pair else { continue };
        if second.range.start < first.range.end {
            return Err(Error::invalid(format!(
                "edits[{a}] and edits[{b}] overlap in {shown_path}. All edits are found in the file as it was before; make one edit of these two."
            )));
        }
    }
    let replacements: Vec<Replacement> = found.into_iter().map(|(_, replacement)| replacement).collect();
    let text = replaced(original, &replacements);
    if text == original {
        return Err(Error::invalid(format!(
            "No change made to {shown_path}: every newText is what the file already has. If that is what you want, it is done; otherwise read the file again."
        )));
    }
    Ok(Edited { text, replacements, loose })
}

fn replaced(original: &str, replacements: &[Replacement]) -> String {
    let mut text = String::with_capacity(original.len());
    let mut at = 0;
    for replacement in replacements {
        text.push_str(&original[at..replacement.range.start]);
        text.push_str(&replacement.text);
        at = replacement.range.end;
    }
    text.push_str(&original[at..]);
    text
}

/// How many occurrences are told apart; more is only "several".
const MAX_OCCURRENCES: usize = 100;

/// All places of `needle`, overlapping ones too: `aa` in `aaa` is not unique.
fn occurrences(text: &str, needle: &str, to_line_end: bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    let step = needle.chars().next().map_or(1, char::len_utf8);
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(needle)) {
        let range = from + at..from + at + needle.len();
        from = range.start + step;
        if !to_line_end || matches!(text.as_bytes().get(range.end), None | Some(b'\n')) {
            found.push(range);
        }
        if found.len() == MAX_OCCURRENCES {
            break;
        }
    }
    found
}

fn loose_occurrences(text: &str, old: &str) -> Vec<Range<usize>> {
    let needle = loose_needle(old);
    let trimmed = needle.trim_end_matches(is_space);
    if trimmed.trim().is_empty() {
        return Vec::new();
    }
    let found = occurrences(text, &needle, false);
    if found.is_empty() && trimmed.len() < needle.len() { occurrences(text, trimmed, true) } else { found }
}

/// `text` with the line ends of the line of `original` in which `at` lies.
fn with_line_ends(text: &str, original: &str, at: usize) -> String {
    let text = text.replace("\r\n", "\n");
    let (before, after) = original.split_at(at);
    let is_crlf = match after.find('\n') {
        Some(0) => before.ends_with('\r'),
        Some(end) => after[..end].ends_with('\r'),
        None => before.rfind('\n').is_some_and(|end| before[..end].ends_with('\r')),
    };
    if is_crlf { text.replace('\n', "\r\n") } else { text }
}

fn line_number(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
}

fn ambiguous(text: &str, ranges: &[Range<usize>], which: &str, shown_path: &str) -> String {
    let lines: Vec<String> = ranges.iter().take(8).map(|range| line_number(text, range.start).to_string()).collect();
    let more = if ranges.len() > lines.len() { ", ..." } else { "" };
    let many = if ranges.len() == MAX_OCCURRENCES { "at least " } else { "" };
    format!(
        "Found {many}{} occurrences of {which} in {shown_path} (lines {}{more}). It must be unique: add lines before or after it until it is.",
        ranges.len(),
        lines.join(", ")
    )
}

/// Says what is missing and, where some lines are there, what the file has instead.
fn not_found(text: &str, old: &str, which: &str, shown_path: &str) -> String {
    let head = format!("Could not find {which} in {shown_path}.");
    let wanted: Vec<&str> = old.lines().skip_while(|line| line.trim().is_empty()).collect();
    let lines: Vec<&str> = text.lines().collect();
    let same = |a: &str, b: &str| a.trim() == b.trim();
    let run = |start: usize| lines[start..].iter().zip(&wanted).take_while(|&(a, b)| same(a, b)).count();
    let first = wanted.first().copied().unwrap_or_default();
    let best = (0..lines.len())
        .filter(|&i| same(lines[i], first))
        .take(MAX_OCCURRENCES)
        .max_by_key(|&i| (run(i), std::cmp::Reverse(i)));
    let Some(start) = best else {
        return format!(
            "{head} Not even its first line is there. Read the file again and copy the text exactly, with its white space."
        );
    };
    let matched = run(start);
    match wanted.get(matched) {
        None => format!(
            "{head} The same words start at line {}, but the indentation or white space differs. Read those lines and copy them exactly.",
            start + 1
        ),
        Some(wanted) => match lines.get(start + matched) {
            Some(line) => format!(
                "{head} It agrees from line {} on, but line {} is `{}` and not `{}`. Read those lines and copy them exactly.",
                start + 1,
                start + matched + 1,
                quoted(line),
                quoted(wanted)
            ),
            None => {
                format!("{head} It agrees from line {} on, but the file ends after line {}.", start + 1, lines.len())
            }
        },
    }
}

fn quoted(line: &str) -> String {
    pith_sdk::text::clip(line, 120).into_owned()
}

#[cfg(test)]
mod tests;
