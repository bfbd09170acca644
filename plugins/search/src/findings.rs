//! What both tools do with what was found: notices of what was left out, and details of it.

use std::borrow::Cow;

use pith_sdk::paths::relative;
use pith_sdk::text::{Cut, MAX_BYTES, head, listed, size, with_notices};
use pith_sdk::{Output, scan::Outcome};

use crate::MAX_RESULTS;

/// A path as the model is shown it: relative to the working folder, on one line.
pub fn shown<'p>(path: &'p str, cwd: &str) -> Cow<'p, str> {
    listed(relative(path, cwd))
}

/// What to say of `truncated`: `count` of at most `limit` results are given, and there is more. Whether the limit is why comes first.
pub fn more(count: usize, limit: u32, noun: &str) -> (bool, String) {
    if count < limit as usize {
        let why = "Not everything was searched: it is too much for one search. Narrow it with a path or glob.";
        return (false, why.to_owned());
    }
    let way = match limit.saturating_mul(2).min(MAX_RESULTS) {
        more if more > limit => format!("Use limit={more} for more, or refine the pattern."),
        _ => "Refine the pattern.".to_owned(),
    };
    (true, format!("{limit} {noun} limit reached. {way}"))
}

/// What to say of paths that are not UTF-8; `fate` says what became of them.
pub fn not_text(paths: usize, fate: &str) -> Option<String> {
    let paths = match paths {
        0 => return None,
        1 => "1 path that is",
        many => &format!("{many} paths that are"),
    };
    Some(format!("{paths} not UTF-8 {fate}; only a shell command can reach such files."))
}

/// What of the files was passed over, as far as it is known: after an early stop it is not.
pub fn passed_over(outcome: &Outcome) -> Vec<String> {
    let mut notices = Vec::new();
    if outcome.truncated {
        return notices;
    }
    match outcome.binary {
        0 => {}
        1 => notices.push("1 binary file matches too and is not shown.".to_owned()),
        many => notices.push(format!("{many} binary files match too and are not shown.")),
    }
    match outcome.skipped {
        0 => {}
        1 => notices.push("1 file or folder could not be searched (no permission, or too large).".to_owned()),
        many => notices.push(format!("{many} files or folders could not be searched (no permission, or too large).")),
    }
    notices
}

/// Cuts the text to what one result may show, and says what was left out.
pub fn finish(text: &str, mut notices: Vec<String>, mut cut: Cut) -> Output {
    let shown = head(text.trim_end_matches('\n'), usize::MAX, MAX_BYTES);
    if shown.cut_by.is_some() {
        let limit = size(MAX_BYTES as u64);
        notices.insert(0, format!("{limit} limit reached after {} lines. Refine the pattern.", shown.lines));
    }
    cut.truncation = shown.truncation();
    Output::text(with_notices(shown.text, &notices)).details_if(cut.if_any())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_on_its_line() {
        assert_eq!(shown("/w/a b.rs", "/w"), "a b.rs");
        assert_eq!(shown("/w/a\nb\t\"c\"", "/w"), r#""a\nb\t\"c\"""#);
    }

    #[test]
    fn the_way_to_more_ends_at_the_hosts_limit() {
        assert_eq!(
            more(100, 100, "matches").1,
            "100 matches limit reached. Use limit=200 for more, or refine the pattern."
        );
        assert_eq!(more(6000, 6000, "m").1, "6000 m limit reached. Use limit=10000 for more, or refine the pattern.");
        assert_eq!(more(10_000, 10_000, "m").1, "10000 m limit reached. Refine the pattern.");
        assert!(!more(99, 100, "m").0);
    }

    #[test]
    fn bytes_cut_on_whole_lines() {
        let many = format!("{}\n", "z".repeat(99)).repeat(2000);
        let text = finish(&many, vec!["Last.".to_owned()], Cut::default()).to_text();
        assert!(
            text.ends_with("\n\n[50.0KB limit reached after 512 lines. Refine the pattern. Last.]"),
            "{}",
            &text[51_000..]
        );
    }
}
