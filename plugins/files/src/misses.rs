//! What an edit is told whose text is not in the file once: where it is, what is nearly it, what to do.

use crate::matching::{Edit, MAX_OCCURRENCES, Place};
use crate::page::newlines;

/// The most lines that are named.
const MAX_LINES_NAMED: usize = 8;
/// The most characters of a line that is quoted, and that two lines are compared by.
const MAX_QUOTED_CHARS: usize = 120;
/// The most lines that are compared with the one that is missing.
const MAX_COMPARED_LINES: usize = 200_000;

/// It is there more than once.
pub(crate) fn ambiguous(places: &[Place], which: &str, shown_path: &str) -> String {
    let many = if places.len() >= MAX_OCCURRENCES { "at least " } else { "" };
    format!(
        "Found {many}{} occurrences of {which} in `{shown_path}` ({}). It must be unique: add lines before or after it until it is.",
        places.len(),
        lines(places)
    )
}

/// It is there once, and where folding makes no difference once more.
pub(crate) fn ambiguous_alike(place: &Place, alike: &[Place], which: &str, shown_path: &str) -> String {
    format!(
        "Found {which} in `{shown_path}` exactly as written at line {}, but {} times ({}) where trailing white space and the shape of quotes, dashes and spaces are ignored. It must be unique: add lines before or after it until it is.",
        place.line,
        alike.len(),
        lines(alike)
    )
}

fn lines(places: &[Place]) -> String {
    let mut numbers = Vec::new();
    for place in places {
        if let Err(at) = numbers.binary_search(&place.line) {
            numbers.insert(at, place.line);
        }
    }
    let more = if numbers.len() > MAX_LINES_NAMED { ", ..." } else { "" };
    let noun = if numbers.len() == 1 { "line" } else { "lines" };
    let named: Vec<String> = numbers.iter().take(MAX_LINES_NAMED).map(usize::to_string).collect();
    format!("{noun} {}{more}", named.join(", "))
}

/// It is nowhere. Says what the file has instead, where some of it is there.
pub(crate) fn not_found(text: &str, old: &str, edit: &Edit, which: &str, shown_path: &str, stand_in: char) -> String {
    let shown = |line: &str| quoted(line, stand_in);
    let head = format!("Could not find {which} in `{shown_path}`.");
    if old.trim().is_empty() {
        return format!("{head} It is only white space: include a line beside it in both texts.");
    }
    if old.contains(char::REPLACEMENT_CHARACTER) && text.contains(stand_in) {
        return format!(
            "{head} It has \u{fffd}, which read shows for bytes that are not UTF-8: use only the text beside them; edit leaves those bytes as they are."
        );
    }
    let new = edit.new_text.replace("\r\n", "\n");
    if !new.trim().is_empty()
        && !old.contains(new.trim())
        && let Some(at) = text.find(&new)
    {
        let line = newlines(&text.as_bytes()[..at]) + 1;
        return format!(
            "{head} Its newText is there already, at line {line}: this change may have been made before. Read the file again before you go on."
        );
    }
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
        return match most_alike(&lines, first) {
            Some(i) => format!(
                "{head} The line most like its first one is line {}: `{}`. Read the file there and copy the text exactly, with its white space.",
                i + 1,
                shown(lines[i])
            ),
            None => format!(
                "{head} No line is like its first one. Read the file again and copy the text exactly, with its white space."
            ),
        };
    };
    let matched = run(start);
    let number = start + matched + 1;
    match (wanted.get(matched), lines.get(start + matched)) {
        (None, _) => format!(
            "{head} The same words start at line {}, but the indentation or white space differs. Read those lines and copy them exactly.",
            start + 1
        ),
        (Some(wanted), Some(line)) => format!(
            "{head} It agrees from line {} on, but line {number} is `{}` and not `{}`. Read those lines and copy them exactly.",
            start + 1,
            shown(line),
            shown(wanted)
        ),
        (Some(_), None) => {
            format!(
                "{head} It agrees from line {} on, but the file ends after line {}: leave out the rest.",
                start + 1,
                lines.len()
            )
        }
    }
}

fn quoted(line: &str, stand_in: char) -> String {
    pith_sdk::text::clip(line, MAX_QUOTED_CHARS).replace(stand_in, "\u{fffd}")
}

/// The line that shares the most pairs of neighbouring bytes with `wanted`, where it shares more than half.
fn most_alike(lines: &[&str], wanted: &str) -> Option<usize> {
    let mut whole = [0_u16; PAIRS];
    let mut pairs_wanted = 0;
    for pair in pairs(wanted) {
        whole[pair] += 1;
        pairs_wanted += 1;
    }
    let mut best = (0, 0);
    for (i, line) in lines.iter().take(MAX_COMPARED_LINES).enumerate() {
        let (mut left, mut shared, mut all) = (whole, 0_usize, 0_usize);
        for pair in pairs(line) {
            all += 1;
            if let Some(fewer) = left[pair].checked_sub(1) {
                left[pair] = fewer;
                shared += 1;
            }
        }
        // Of a thousand: all that both have, by all that each has.
        let score = (2_000 * shared).checked_div(pairs_wanted + all).unwrap_or(0);
        if score > best.0 {
            best = (score, i);
        }
    }
    (best.0 > MIN_ALIKE).then_some(best.1)
}

/// What a line must share to be named, of a thousand.
const MIN_ALIKE: usize = 550;
/// Buckets that pairs of bytes are counted in.
const PAIRS: usize = 256;

/// Neighbouring bytes of a line's beginning, white space left out.
fn pairs(line: &str) -> impl Iterator<Item = usize> {
    let bytes = || line.bytes().filter(|byte| !byte.is_ascii_whitespace()).take(MAX_QUOTED_CHARS);
    bytes().zip(bytes().skip(1)).map(|(a, b)| usize::from(a.wrapping_mul(31) ^ b.wrapping_mul(7)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_was_meant_is_found() {
        let lines = ["use std::fs;", "", "    let total = first + second;", "    let rest = third;"];
        assert_eq!(most_alike(&lines, "let total = first + scond;"), Some(2));
        assert_eq!(most_alike(&lines, "let  rest=third;"), Some(3));
        assert_eq!(most_alike(&lines, "completely other words"), None);
        assert_eq!(most_alike(&lines, ""), None);
        assert_eq!(most_alike(&[], "a"), None);
    }
}
