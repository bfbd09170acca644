//! The names in a folder, as `ls` shows them.

use pith_sdk::text::{CutBy, MAX_BYTES, Truncation, head, size};
use serde::Serialize;

/// Entries shown where the call says nothing.
pub const DEFAULT_ENTRIES: usize = 500;
/// The most entries of a folder that are looked at.
pub const MAX_ENTRIES: usize = 200_000;

/// A listing and what was left out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// One name a line; folders end with `/`.
    pub text: String,
    /// None where all is shown.
    pub details: Option<Details>,
}

/// What views and scripts may want to know of a listing that was cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The limit, where there are more entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_limit_reached: Option<usize>,
    /// Where even those within the limit were too much text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
}

/// Sorts names without regard to case and shows the first `limit`. `all` says that `names` is the whole folder, but for `unnamed` entries
/// whose names are no text.
pub fn list(mut names: Vec<String>, limit: usize, all: bool, unnamed: usize) -> Listing {
    if names.is_empty() && unnamed == 0 {
        return Listing { text: "(empty folder)".to_owned(), details: None };
    }
    let total = names.len();
    let quoted = names.iter().any(|name| name.starts_with('"'));
    first_sorted(&mut names, limit);
    let joined = names.join("\n");
    let shown = head(&joined, usize::MAX, MAX_BYTES);
    let mut notices = Vec::new();
    let mut details = Details::default();
    let of = if all { format!("{total}") } else { format!("more than {total}") };
    if shown.cut_by.is_some() {
        notices.push(format!(
            "{} of {of} entries shown ({} limit). Use find with a pattern for others.",
            shown.lines,
            size(MAX_BYTES as u64)
        ));
        details.truncation = Some(Truncation::new(CutBy::Bytes, shown.text, shown.lines as u64));
    } else if total > limit || !all {
        let way =
            if limit < total { format!(" Use limit={} for more.", limit.saturating_mul(2)) } else { String::new() };
        notices.push(format!("{} of {of} entries shown.{way}", names.len()));
    }
    if total > limit || !all {
        details.entry_limit_reached = Some(limit);
    }
    if quoted {
        notices.push("Names in quotes are JSON strings: they have control characters or quotes.".to_owned());
    }
    if unnamed > 0 {
        let names = if unnamed == 1 { "1 name that is" } else { &format!("{unnamed} names that are") };
        notices.push(format!("{names} not UTF-8 left out; only bash can reach such files."));
    }
    let gap = if shown.text.is_empty() { "" } else { "\n\n" };
    let text = if notices.is_empty() { joined } else { format!("{}{gap}[{}]", shown.text, notices.join(" ")) };
    Listing { text, details: (details != Details::default()).then_some(details) }
}

/// Keeps the first `limit` names in the order that has no regard to case and to a folder's slash. Only those are sorted.
fn first_sorted(names: &mut Vec<String>, limit: usize) {
    let key = |name: &str| name.strip_suffix('/').unwrap_or(name).to_lowercase();
    let mut keyed: Vec<(String, String)> = names.drain(..).map(|name| (key(&name), name)).collect();
    if limit < keyed.len() {
        keyed.select_nth_unstable(limit);
        keyed.truncate(limit);
    }
    keyed.sort_unstable();
    names.extend(keyed.into_iter().map(|(_, name)| name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn sorts_without_case_and_keeps_dotfiles() {
        let listing = list(names(&["b", "A/", ".git/", "a.c", "C"]), 500, true, 0);
        assert_eq!(listing.text, ".git/\nA/\na.c\nb\nC");
        assert_eq!(listing.details, None);
        assert_eq!(list(Vec::new(), 500, true, 0).text, "(empty folder)");
        assert_eq!(
            list(Vec::new(), 500, true, 1).text,
            "[1 name that is not UTF-8 left out; only bash can reach such files.]"
        );
    }

    #[test]
    fn the_limit_is_said_only_where_it_cut() {
        assert_eq!(list(names(&["a", "b"]), 2, true, 0).text, "a\nb");
        let cut = list(names(&["a", "b", "c"]), 2, true, 0);
        assert_eq!(cut.text, "a\nb\n\n[2 of 3 entries shown. Use limit=4 for more.]");
        assert_eq!(cut.details, Some(Details { entry_limit_reached: Some(2), truncation: None }));
    }

    #[test]
    fn bytes_cut_on_whole_names() {
        let many: Vec<String> = (0..2000).map(|n| format!("{n:0>100}")).collect();
        let listing = list(many, 2000, true, 0);
        assert!(
            listing.text.ends_with("[506 of 2000 entries shown (50.0KB limit). Use find with a pattern for others.]"),
            "{}",
            &listing.text[listing.text.len() - 80..]
        );
    }
}
