//! Replacing texts that a model remembers: each old text must be there once, first exactly, then as it might have been
//! retyped. Everything outside the matches stays byte for byte, whether it is text or not.

use std::ops::Range;

use pith_sdk::Error;

use crate::folded::{Folded, loose_needle};
use crate::letters::is_space;
use crate::misses;
use crate::page::newlines;

/// One replacement, as the model asks for it.
#[derive(Clone, Debug, serde::Deserialize, pith_sdk::Input)]
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
    /// The whole file afterwards.
    pub bytes: Vec<u8>,
    /// In the original's order, none overlapping.
    pub replacements: Vec<Replacement>,
    /// How many edits were only found by folding.
    pub loose: usize,
}

/// Where an old text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// From 1.
    pub line: usize,
    /// In bytes of the original.
    pub range: Range<usize>,
}

/// The most lines of a file that is edited: each costs some tens of bytes.
const MAX_LINES: usize = 2_000_000;

const BOM: &str = "\u{feff}";

/// Applies all edits to `original`, each found in the original as it was. `shown_path` is for the messages.
///
/// An old text that is there once as written, but again where folding makes no difference between them, is refused: the
/// model may have retyped the other one.
pub fn apply(original: &[u8], edits: &[Edit], shown_path: &str) -> Result<Edited, Error> {
    if edits.is_empty() {
        return Err(Error::invalid("`edits` is empty; give at least one replacement."));
    }
    let which = |i: usize| if edits.len() == 1 { "oldText".to_owned() } else { format!("edits[{i}].oldText") };
    let bom = if original.starts_with(BOM.as_bytes()) { BOM.len() } else { 0 };
    let body = &original[bom..];
    let stand_in = absent(edits);
    let exact = Folded::exact(body, stand_in);
    let loose = Folded::loose(body, stand_in);
    if exact.is_too_much() || loose.is_too_much() || newlines(body) > MAX_LINES {
        return Err(Error::limit(format!(
            "`{shown_path}` has too many lines or special characters for edit. Change it with a shell command, such as sed."
        )));
    }
    let mut found: Vec<(usize, Replacement)> = Vec::with_capacity(edits.len());
    let mut by_folding = 0;
    for (i, edit) in edits.iter().enumerate() {
        let old = edit.old_text.strip_prefix(BOM).unwrap_or(&edit.old_text).replace("\r\n", "\n");
        if old.is_empty() {
            return Err(Error::invalid(format!(
                "{} is empty. Give the text to replace; to add text, repeat a line beside it in both texts, and to make a new file use write.",
                which(i)
            )));
        }
        let written = occurrences(&exact, &old, old.len());
        if written.len() > 1 {
            return Err(Error::invalid(misses::ambiguous(&written, &which(i), shown_path)));
        }
        let alike = loose_occurrences(&loose, &old);
        let place = match (&written[..], &alike[..]) {
            ([], []) => {
                return Err(Error::invalid(misses::not_found(
                    exact.text(),
                    &old,
                    edit,
                    &which(i),
                    shown_path,
                    stand_in,
                )));
            }
            ([place], alike) if alike.len() <= 1 => place,
            ([place], alike) => {
                return Err(Error::invalid(misses::ambiguous_alike(place, alike, &which(i), shown_path)));
            }
            (_, [place]) => {
                by_folding += 1;
                place
            }
            (_, several) => return Err(Error::invalid(misses::ambiguous(several, &which(i), shown_path))),
        };
        let range = place.range.start + bom..place.range.end + bom;
        let text = with_line_ends(&edit.new_text, original, range.start);
        // In the file's order, without `sort`: that would be 6 kB of the component, for a handful of edits.
        let at = found.partition_point(|(_, other)| (other.range.start, other.range.end) <= (range.start, range.end));
        found.insert(at, (i, Replacement { range, text }));
    }
    for pair in found.windows(2) {
        let [(a, first), (b, second)] = pair else { continue };
        if second.range.start < first.range.end {
            return Err(Error::invalid(format!(
                "edits[{a}] and edits[{b}] overlap in `{shown_path}`. All edits are found in the file as it was before; make one edit of these two."
            )));
        }
    }
    let replacements: Vec<Replacement> = found.into_iter().map(|(_, replacement)| replacement).collect();
    let bytes = replaced(original, &replacements);
    if bytes == original {
        return Err(Error::invalid(format!(
            "No change made to `{shown_path}`: every newText is what the file already has. If that is what you want, it is done; otherwise read the file again."
        )));
    }
    Ok(Edited { bytes, replacements, loose: by_folding })
}

/// A private-use character that no old text has: it stands for what is no text and is never found.
fn absent(edits: &[Edit]) -> char {
    let is_free = |char: &char| edits.iter().all(|edit| !edit.old_text.contains(*char));
    ('\u{f0000}'..='\u{ffffd}').find(is_free).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn replaced(original: &[u8], replacements: &[Replacement]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(original.len());
    let mut at = 0;
    for replacement in replacements {
        bytes.extend_from_slice(&original[at..replacement.range.start]);
        bytes.extend_from_slice(replacement.text.as_bytes());
        at = replacement.range.end;
    }
    bytes.extend_from_slice(&original[at..]);
    bytes
}

/// How many occurrences are told apart; more is only "several".
pub(crate) const MAX_OCCURRENCES: usize = 100;

/// All places of `needle`, overlapping ones too: `aa` in `aaa` is not unique. Only its first `kept` bytes are the place.
fn occurrences(folded: &Folded<'_>, needle: &str, kept: usize) -> Vec<Place> {
    let text = folded.text();
    let mut found = Vec::new();
    let step = needle.chars().next().map_or(1, char::len_utf8);
    let (mut from, mut line, mut counted) = (0, 1, 0);
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(needle)) {
        let start = from + at;
        from = start + step;
        line += newlines(&text.as_bytes()[counted..start]);
        counted = start;
        // A part of one character is not what was meant.
        if let Some(range) = folded.original(start..start + kept) {
            found.push(Place { line, range });
        }
        if found.len() == MAX_OCCURRENCES {
            break;
        }
    }
    found
}

fn loose_occurrences(folded: &Folded<'_>, old: &str) -> Vec<Place> {
    let needle = loose_needle(old);
    let trimmed = needle.trim_end_matches(is_space);
    if trimmed.trim().is_empty() {
        // Nothing is left to be known by but line ends.
        let is_blank_lines = needle.contains('\n') && trimmed.len() == needle.len();
        return if is_blank_lines { occurrences(folded, &needle, needle.len()) } else { Vec::new() };
    }
    let mut found = occurrences(folded, &needle, needle.len());
    if trimmed.len() < needle.len() {
        // The model's own trailing white space, where the file's lines end.
        found.extend(occurrences(folded, &format!("{trimmed}\n"), trimmed.len()));
        let text = folded.text();
        if let Some(start) = text.len().checked_sub(trimmed.len())
            && text.ends_with(trimmed)
            && let Some(range) = folded.original(start..text.len())
        {
            found.push(Place { line: newlines(&text.as_bytes()[..start]) + 1, range });
        }
    }
    found
}

/// `text` with the line ends of the line of `original` in which `at` lies.
fn with_line_ends(text: &str, original: &[u8], at: usize) -> String {
    let text = text.replace("\r\n", "\n");
    let (before, after) = original.split_at(at);
    let is_crlf = match after.iter().position(|&byte| byte == b'\n') {
        Some(0) => before.ends_with(b"\r"),
        Some(end) => after[..end].ends_with(b"\r"),
        None => before.iter().rposition(|&byte| byte == b'\n').is_some_and(|end| before[..end].ends_with(b"\r")),
    };
    if is_crlf { text.replace('\n', "\r\n") } else { text }
}

#[cfg(test)]
mod tests;
