//! A line too long to be shown: the part around its match, and how much was cut on each side.

use std::fmt::Write;

use pith_sdk::scan::Hit;
use pith_sdk::text::MAX_LINE_CHARS;

/// Appends the line, or of a long one the part around its match. True: something was cut.
pub fn show(hit: &Hit, out: &mut String) -> bool {
    let text = hit.text.as_str();
    let (from, to) = window(text, hit.match_start as usize, hit.match_end as usize);
    let before = hit.cut_before as usize + from;
    let after = hit.cut_after as usize + text.len() - to;
    if before > 0 {
        let _ = write!(out, "[{before} bytes cut]...");
    }
    out.push_str(&text[from..to]);
    if after > 0 {
        let _ = write!(out, "...[{after} bytes cut]");
    }
    before > 0 || after > 0
}

/// The whole line's length in bytes.
pub fn length(hit: &Hit) -> usize {
    hit.text.len().saturating_add(hit.cut_before as usize).saturating_add(hit.cut_after as usize)
}

/// Which bytes of a text are shown: the beginning, if the match stands there, else a quarter of the room before the match.
fn window(text: &str, match_start: usize, match_end: usize) -> (usize, usize) {
    if text.len() <= MAX_LINE_CHARS {
        return (0, text.len());
    }
    let at: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    if at.len() <= MAX_LINE_CHARS {
        return (0, text.len());
    }
    let lead = MAX_LINE_CHARS / 4;
    let chars_before = |byte: usize| at.partition_point(|start| *start < byte);
    let start = if chars_before(match_end) <= MAX_LINE_CHARS - lead {
        0
    } else {
        chars_before(match_start).saturating_sub(lead).min(at.len() - MAX_LINE_CHARS)
    };
    let end = at.get(start + MAX_LINE_CHARS).copied().unwrap_or(text.len());
    (at[start], end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, at: std::ops::Range<usize>, cut: (u32, u32)) -> (String, bool) {
        let hit = Hit {
            path: String::new(),
            line: 1,
            text: text.to_owned(),
            is_context: false,
            match_start: at.start as u32,
            match_end: at.end as u32,
            cut_before: cut.0,
            cut_after: cut.1,
        };
        let mut out = String::new();
        let cut = show(&hit, &mut out);
        (out, cut)
    }

    #[test]
    fn what_fits_is_shown_as_it_is() {
        let exact = "é".repeat(500);
        assert_eq!(shown(&exact, 998..1000, (0, 0)), (exact, false));
        assert_eq!(shown("", 0..0, (0, 0)), (String::new(), false));
    }

    #[test]
    fn a_match_near_the_beginning_leaves_the_beginning() {
        let line = format!("needle{}", "x".repeat(495));
        assert_eq!(shown(&line, 0..6, (0, 0)).0, format!("{}...[1 bytes cut]", &line[..500]));
    }

    #[test]
    fn a_match_far_in_stands_in_what_is_shown() {
        let line = format!("{}needle{}", "é".repeat(600), "y".repeat(1000));
        let expected = format!("[950 bytes cut]...{}needle{}...[631 bytes cut]", "é".repeat(125), "y".repeat(369));
        assert_eq!(shown(&line, 1200..1206, (0, 0)).0, expected);
        let (text, _) = shown(&line, 1200..1206, (70_000, 5));
        assert!(text.starts_with("[70950 bytes cut]...") && text.ends_with("...[636 bytes cut]"), "{text}");
        let end = format!("{}needle", "x".repeat(600));
        assert_eq!(shown(&end, 600..606, (0, 0)).0, format!("[106 bytes cut]...{}needle", "x".repeat(494)));
    }
}
