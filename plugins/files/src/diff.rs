//! What an edit changed, as a unified diff and as numbered lines. The places are known from the edit, so only the lines in
//! them are compared.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use crate::matching::Replacement;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 4;
/// Above this product of line counts a place is shown as all old, then all new.
const MAX_COMPARISONS: usize = 1_000_000;

/// Lines of the original that went and lines of the result that came instead, both from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    old: Range<usize>,
    new: Range<usize>,
}

/// Two texts and where they differ.
#[derive(Clone, Debug)]
pub struct Diff<'a> {
    old: Vec<&'a [u8]>,
    new: Vec<&'a [u8]>,
    changes: Vec<Change>,
}

impl<'a> Diff<'a> {
    /// Of the original and what the replacements (in order, none overlapping) made of it.
    pub fn new(original: &'a [u8], edited: &'a [u8], replacements: &[Replacement]) -> Self {
        let old: Vec<&[u8]> = original.split_inclusive(|&byte| byte == b'\n').collect();
        let new: Vec<&[u8]> = edited.split_inclusive(|&byte| byte == b'\n').collect();
        let old_starts = starts(&old);
        let new_starts = starts(&new);
        let mut places: Vec<(Range<usize>, isize, isize)> = Vec::new();
        let mut shift: isize = 0;
        for replacement in replacements {
            let first = line_at(&old_starts, replacement.range.start);
            let last = line_at(&old_starts, replacement.range.end);
            let before = shift;
            shift += replacement.text.len() as isize - replacement.range.len() as isize;
            match places.last_mut() {
                Some((lines, _, after)) if first < lines.end => {
                    lines.end = (last + 1).min(old.len());
                    *after = shift;
                }
                _ => places.push((first..(last + 1).min(old.len()), before, shift)),
            }
        }
        let mut changes = Vec::new();
        for (lines, before, after) in places {
            let start = old_starts[lines.start].saturating_add_signed(before);
            let end = old_starts[lines.end].saturating_add_signed(after);
            let new_lines = new_starts.partition_point(|&at| at < start)..new_starts.partition_point(|&at| at < end);
            compare(&old, &new, lines, new_lines, &mut changes);
        }
        Self { old, new, changes }
    }

    /// The number of the first line of the result that is new, from 1.
    pub fn first_changed_line(&self) -> Option<usize> {
        self.changes.first().map(|change| change.new.start + 1)
    }

    /// A unified diff with four lines of context. Bytes that are no UTF-8 are U+FFFD.
    pub fn unified(&self, shown_path: &str) -> String {
        let mut text = format!("--- a/{shown_path}\n+++ b/{shown_path}\n");
        for hunk in self.hunks() {
            let (old, new) = self.extent(hunk);
            let _ = writeln!(text, "@@ -{} +{} @@", span(&old), span(&new));
            self.lines(hunk, |sign, line, _| {
                text.push(sign);
                text.push_str(line);
                if !line.ends_with('\n') {
                    text.push_str("\n\\ No newline at end of file\n");
                }
            });
        }
        text
    }

    /// Lines with their numbers for people: `+12 text`, `-12 text`, ` 12 text`, and `...` between places.
    pub fn numbered(&self) -> String {
        let width = self.old.len().max(self.new.len()).to_string().len();
        let mut text = String::new();
        for hunk in self.hunks() {
            if self.extent(hunk).0.start > 0 {
                let _ = writeln!(text, " {:width$} ...", "");
            }
            self.lines(hunk, |sign, line, number| {
                let _ = writeln!(text, "{sign}{:>width$} {}", number + 1, line.trim_end_matches(['\n', '\r']));
            });
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    /// Groups of changes whose contexts touch.
    fn hunks(&self) -> impl Iterator<Item = &[Change]> {
        self.changes.chunk_by(|a, b| b.old.start - a.old.end <= 2 * CONTEXT_LINES)
    }

    fn extent(&self, hunk: &[Change]) -> (Range<usize>, Range<usize>) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return (0..0, 0..0) };
        let lead = first.old.start.min(CONTEXT_LINES);
        let tail = (self.old.len() - last.old.end).min(CONTEXT_LINES);
        (first.old.start - lead..last.old.end + tail, first.new.start - lead..last.new.end + tail)
    }

    /// Calls `each` with sign, line and number (from 0; of the old text for `-`, else of the new).
    fn lines(&self, hunk: &[Change], mut each: impl FnMut(char, &str, usize)) {
        let (old, new) = self.extent(hunk);
        let (mut at, mut new_at) = (old.start, new.start);
        for change in hunk {
            while at < change.old.start {
                each(' ', &text(self.old[at]), new_at);
                at += 1;
                new_at += 1;
            }
            change.old.clone().for_each(|line| each('-', &text(self.old[line]), line));
            change.new.clone().for_each(|line| each('+', &text(self.new[line]), line));
            (at, new_at) = (change.old.end, change.new.end);
        }
        while at < old.end {
            each(' ', &text(self.old[at]), new_at);
            at += 1;
            new_at += 1;
        }
    }
}

fn text(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line)
}

/// `first,count` as unified diffs have it: from 1, except where there is no line.
fn span(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        len => format!("{},{len}", lines.start + 1),
    }
}

/// Where each line starts, and where the last one ends.
fn starts(lines: &[&[u8]]) -> Vec<usize> {
    let ends = lines.iter().scan(0, |at, line| {
        *at += line.len();
        Some(*at)
    });
    std::iter::once(0).chain(ends).collect()
}

fn line_at(starts: &[usize], at: usize) -> usize {
    starts.partition_point(|&start| start <= at).saturating_sub(1)
}

/// Adds the changes between two places, by their longest common subsequence of lines.
fn compare(old: &[&[u8]], new: &[&[u8]], mut a: Range<usize>, mut b: Range<usize>, changes: &mut Vec<Change>) {
    while !a.is_empty() && !b.is_empty() && old[a.start] == new[b.start] {
        a.start += 1;
        b.start += 1;
    }
    while !a.is_empty() && !b.is_empty() && old[a.end - 1] == new[b.end - 1] {
        a.end -= 1;
        b.end -= 1;
    }
    if a.is_empty() && b.is_empty() {
        return;
    }
    if a.len().saturating_mul(b.len()) > MAX_COMPARISONS {
        changes.push(Change { old: a, new: b });
        return;
    }
    // common[i][j]: the length of the longest common subsequence of what follows i and j.
    let columns = b.len() + 1;
    let mut common = vec![0_u32; (a.len() + 1) * columns];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * columns + j] = if old[a.start + i] == new[b.start + j] {
                common[(i + 1) * columns + j + 1] + 1
            } else {
                common[(i + 1) * columns + j].max(common[i * columns + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let (from_i, from_j) = (i, j);
        while i < a.len() || j < b.len() {
            if i < a.len() && j < b.len() && old[a.start + i] == new[b.start + j] {
                break;
            }
            let skip_old =
                j == b.len() || (i < a.len() && common[(i + 1) * columns + j] >= common[i * columns + j + 1]);
            if skip_old { i += 1 } else { j += 1 }
        }
        changes.push(Change { old: a.start + from_i..a.start + i, new: b.start + from_j..b.start + j });
        while i < a.len() && j < b.len() && old[a.start + i] == new[b.start + j] {
            i += 1;
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::{Edit, apply};

    fn edited(original: &str, edits: &[(&str, &str)]) -> (String, Vec<Replacement>) {
        let edits: Vec<Edit> =
            edits.iter().map(|&(old, new)| Edit { old_text: old.into(), new_text: new.into() }).collect();
        let edited = apply(original.as_bytes(), &edits, "f").unwrap();
        (String::from_utf8(edited.bytes).unwrap(), edited.replacements)
    }

    fn unified(original: &str, edits: &[(&str, &str)]) -> String {
        let (text, replacements) = edited(original, edits);
        let diff = Diff::new(original.as_bytes(), text.as_bytes(), &replacements).unified("f");
        assert_eq!(patched(original, &diff), text, "{diff}");
        diff
    }

    /// Applies a unified diff as `patch` would, refusing any line that does not fit.
    fn patched(original: &str, diff: &str) -> String {
        let old: Vec<&str> = original.split_inclusive('\n').collect();
        let (mut result, mut at) = (String::new(), 0);
        let mut lines = diff.split_inclusive('\n').skip(2).peekable();
        while let Some(line) = lines.next() {
            if let Some(header) = line.strip_prefix("@@ -") {
                let (span, _) = header.split_once(' ').unwrap();
                let (start, count) = span.split_once(',').unwrap_or((span, "1"));
                let start: usize = start.parse().unwrap();
                let start = if count == "0" { start } else { start - 1 };
                result.push_str(&old[at..start].concat());
                at = start;
                continue;
            }
            let (sign, text) = line.split_at(1);
            let bare = lines.next_if(|next| next.starts_with('\\')).is_some();
            let text = if bare { text.strip_suffix('\n').unwrap() } else { text };
            if sign != "+" {
                assert_eq!(old[at], text, "{diff}");
                at += 1;
            }
            if sign != "-" {
                result.push_str(text);
            }
        }
        result.push_str(&old[at..].concat());
        result
    }

    #[test]
    fn a_change_has_its_context() {
        let text: String = (1..=20).map(|n| format!("l{n}\n")).collect();
        assert_eq!(
            unified(&text, &[("l10\n", "ten\nand\n")]),
            "--- a/f\n+++ b/f\n@@ -6,9 +6,10 @@\n l6\n l7\n l8\n l9\n-l10\n+ten\n+and\n l11\n l12\n l13\n l14\n"
        );
    }

    #[test]
    fn far_changes_are_hunks_of_their_own_and_near_ones_are_not() {
        let text: String = (1..=40).map(|n| format!("l{n}\n")).collect();
        assert_eq!(unified(&text, &[("l3\n", "x\n"), ("l30\n", "")]).matches("@@ -").count(), 2);
        assert_eq!(unified(&text, &[("l3\n", "x\n"), ("l12\n", "y\n")]).matches("@@ -").count(), 1);
        assert_eq!(unified(&text, &[("l3\n", "x\n"), ("l13\n", "y\n")]).matches("@@ -").count(), 2);
    }

    #[test]
    fn ends_of_file() {
        assert!(
            unified("a\nb", &[("b", "c")])
                .ends_with("-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n")
        );
        assert!(unified("a\nb", &[("b", "b\n")]).ends_with("-b\n\\ No newline at end of file\n+b\n"));
        assert_eq!(unified("a\n", &[("a\n", "")]), "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-a\n");
        unified("a\nb\n", &[("\nb\n", "")]);
        unified("a\n\nb\n", &[("\n\n", "\n")]);
    }

    #[test]
    fn only_lines_that_differ_are_shown() {
        let diff = unified("a\nb\nc\nd\ne\n", &[("a\nb\nc\nd\ne\n", "a\nX\nc\nd\nY\n")]);
        assert_eq!(diff, "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n a\n-b\n+X\n c\n d\n-e\n+Y\n");
    }

    #[test]
    fn edits_that_share_a_line_are_one_place() {
        let diff = unified("one two\nb\n", &[("one", "1\n1"), ("two", "2")]);
        assert_eq!(diff, "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n-one two\n+1\n+1 2\n b\n");
        unified("a b\nc d\ne\n", &[("b\nc", "x"), ("d", "y\n"), ("a", "z")]);
    }

    #[test]
    fn every_small_edit_can_be_applied() {
        // All ways to replace one of the windows of a small text by one of a few texts.
        let original = "a\nb\n\nc\r\nd";
        for start in 0..original.len() {
            for end in start + 1..=original.len() {
                for new in ["", "x", "x\n", "\n", "\nx", "a\nb\n", "x\ny\nz"] {
                    let replacement = Replacement { range: start..end, text: new.to_owned() };
                    let text = format!("{}{new}{}", &original[..start], &original[end..]);
                    let diff = Diff::new(original.as_bytes(), text.as_bytes(), std::slice::from_ref(&replacement))
                        .unified("f");
                    assert_eq!(patched(original, &diff), text, "{start}..{end} {new:?}\n{diff}");
                }
            }
        }
    }

    #[test]
    fn numbered_lines_and_the_first_change() {
        let text: String = (1..=12).map(|n| format!("l{n}\n")).collect();
        let (edited, replacements) = edited(&text, &[("l10\n", "x\ny\n")]);
        let diff = Diff::new(text.as_bytes(), edited.as_bytes(), &replacements);
        assert_eq!(diff.first_changed_line(), Some(10));
        assert_eq!(diff.numbered(), "    ...\n  6 l6\n  7 l7\n  8 l8\n  9 l9\n-10 l10\n+10 x\n+11 y\n 12 l11\n 13 l12");
    }
}
