//! The names in a folder, as `ls` shows them.

use pith_sdk::text::{Cut, MAX_BYTES, head, size, with_notices};

/// Entries shown where the call says nothing.
pub const DEFAULT_ENTRIES: usize = 500;
/// The most entries of a folder that are looked at.
pub const MAX_ENTRIES: usize = 200_000;

/// A listing and what was left out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// One name a line; folders end with `/`.
    pub text: String,
    /// What was left out.
    pub cut: Cut,
}

/// Sorts names without regard to case and shows the first `limit`. `all` says that `names` is the whole folder, but for `unnamed` entries
/// whose names are no text.
pub fn list(mut names: Vec<String>, limit: usize, all: bool, unnamed: usize) -> Listing {
    if names.is_empty() && unnamed == 0 {
        return Listing { text: "(empty folder)".to_owned(), cut: Cut::default() };
    }
    let total = names.len();
    let quoted = names.iter().any(|name| name.starts_with('"'));
    first_sorted(&mut names, limit);
    let joined = names.join("\n");
    let shown = head(&joined, usize::MAX, MAX_BYTES);
    let mut notices = Vec::new();
    let of = if all { format!("{total}") } else { format!("more than {total}") };
    if shown.cut_by.is_some() {
        notices.push(format!(
            "{} of {of} entries shown ({} limit). For others search by a pattern.",
            shown.lines,
            size(MAX_BYTES as u64)
        ));
    } else if total > limit || !all {
        let way =
            if limit < total { format!(" Use limit={} for more.", limit.saturating_mul(2)) } else { String::new() };
        notices.push(format!("{} of {of} entries shown.{way}", names.len()));
    }
    if quoted {
        notices.push("Names in quotes are JSON strings: they have control characters or quotes.".to_owned());
    }
    if unnamed > 0 {
        let names = if unnamed == 1 { "1 name that is" } else { &format!("{unnamed} names that are") };
        notices.push(format!("{names} not UTF-8 left out; only a shell command can reach such files."));
    }
    let limit_reached = (total > limit || !all).then_some(("entryLimitReached", limit as u64));
    let cut = Cut { limit_reached, truncation: shown.truncation(), ..Cut::default() };
    Listing { text: with_notices(shown.text, &notices), cut }
}

/// Keeps the first `limit` names in the order that has no regard to case and to a folder's slash.
fn first_sorted(names: &mut Vec<String>, limit: usize) {
    // A name after its key in one text, apart by what no name has: strings are sorted by less code than pairs.
    let keyed = |name: String| format!("{}\0{name}", name.strip_suffix('/').unwrap_or(&name).to_lowercase());
    let mut sorted: Vec<String> = names.drain(..).map(keyed).collect();
    sorted.sort_unstable();
    sorted.truncate(limit);
    names.extend(sorted.iter().filter_map(|keyed| keyed.split_once('\0')).map(|(_, name)| name.to_owned()));
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
        assert_eq!(listing.cut, Cut::default());
        assert_eq!(list(Vec::new(), 500, true, 0).text, "(empty folder)");
        assert_eq!(
            list(Vec::new(), 500, true, 1).text,
            "[1 name that is not UTF-8 left out; only a shell command can reach such files.]"
        );
    }

    #[test]
    fn the_limit_is_said_only_where_it_cut() {
        assert_eq!(list(names(&["a", "b"]), 2, true, 0).text, "a\nb");
        let cut = list(names(&["a", "b", "c"]), 2, true, 0);
        assert_eq!(cut.text, "a\nb\n\n[2 of 3 entries shown. Use limit=4 for more.]");
        assert_eq!(cut.cut, Cut { limit_reached: Some(("entryLimitReached", 2)), ..Cut::default() });
    }

    #[test]
    fn bytes_cut_on_whole_names() {
        let many: Vec<String> = (0..2000).map(|n| format!("{n:0>100}")).collect();
        let listing = list(many, 2000, true, 0);
        assert!(
            listing.text.ends_with("[506 of 2000 entries shown (50.0KB limit). For others search by a pattern.]"),
            "{}",
            &listing.text[listing.text.len() - 80..]
        );
    }
}
