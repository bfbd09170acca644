//! How much text a model is shown, the same for every tool: 2,000 lines or 50 KiB, whichever comes first, on whole lines.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};

mod quoting;

pub use quoting::{listed, shell_word};

/// The most lines that one result shows.
pub const MAX_LINES: usize = 2_000;
/// The most bytes that one result shows.
pub const MAX_BYTES: usize = 50 * 1024;
/// The most characters of one line in a list of findings.
pub const MAX_LINE_CHARS: usize = 500;

/// Which limit was reached first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CutBy {
    /// The count of lines.
    Lines,
    /// The count of bytes.
    Bytes,
}

/// What a result's details say of text that was cut, under the names that other agents' sessions use too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Truncation {
    /// Always true.
    pub truncated: bool,
    /// The limit that was reached first.
    pub truncated_by: CutBy,
    /// Lines of the whole, where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_lines: Option<u64>,
    /// Bytes of the whole, where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Lines shown.
    pub output_lines: u64,
    /// Bytes shown.
    pub output_bytes: u64,
    /// The last line alone is over the limit; its end is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub last_line_partial: bool,
    /// The first line alone is over the limit; nothing is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub first_line_exceeds_limit: bool,
    /// [`MAX_LINES`].
    pub max_lines: usize,
    /// [`MAX_BYTES`].
    pub max_bytes: usize,
}

impl Truncation {
    /// So many lines of `shown` were kept, by the limits of every result.
    pub fn new(truncated_by: CutBy, shown: &str, lines: u64) -> Self {
        Self {
            truncated: true,
            truncated_by,
            total_lines: None,
            total_bytes: None,
            output_lines: lines,
            output_bytes: shown.len() as u64,
            last_line_partial: false,
            first_line_exceeds_limit: false,
            max_lines: MAX_LINES,
            max_bytes: MAX_BYTES,
        }
    }
}

/// The beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// Whole lines, without the end of the last one where something was cut.
    pub text: &'a str,
    /// How many lines `text` has.
    pub lines: usize,
    /// None where nothing was cut.
    pub cut_by: Option<CutBy>,
}

impl Head<'_> {
    /// What the details say of the cut; none where nothing was cut.
    pub fn truncation(&self) -> Option<Truncation> {
        Some(Truncation::new(self.cut_by?, self.text, self.lines as u64))
    }
}

/// What was left out of a result, for its details.
///
/// ```
/// use pith_sdk::{Output, text::{Cut, with_notices}};
///
/// let cut = Cut { limit_reached: Some(("noteLimitReached", 2)), ..Cut::default() };
/// let text = with_notices("first\nsecond", &["2 of 3 notes shown. Use limit=4 for more.".to_owned()]);
/// let output = Output::text(text).details_if(cut.if_any());
/// assert_eq!(output.to_text(), "first\nsecond\n\n[2 of 3 notes shown. Use limit=4 for more.]");
/// assert_eq!(output.details.as_deref(), Some(r#"{"noteLimitReached":2}"#));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The key and the limit of a count, where there is at least one thing more.
    pub limit_reached: Option<(&'static str, u64)>,
    /// Where even what is within the limit was too much text.
    pub truncation: Option<Truncation>,
    /// Some lines were cut.
    pub lines_truncated: bool,
}

impl Cut {
    /// Itself where anything was left out: for [`Output::details_if`](crate::Output::details_if).
    pub fn if_any(&self) -> Option<&Self> {
        (*self != Self::default()).then_some(self)
    }
}

impl Serialize for Cut {
    /// An object without what did not happen: `{"entryLimitReached":500,"truncation":{...},"linesTruncated":true}`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some((key, limit)) = self.limit_reached {
            map.serialize_entry(key, &limit)?;
        }
        if let Some(truncation) = &self.truncation {
            map.serialize_entry("truncation", truncation)?;
        }
        if self.lines_truncated {
            map.serialize_entry("linesTruncated", &true)?;
        }
        map.end()
    }
}

/// A text, and after a blank line what is to be said of it, in brackets. Line ends before the notices go; without notices
/// the text is as it was.
pub fn with_notices(text: &str, notices: &[String]) -> String {
    if notices.is_empty() {
        return text.to_owned();
    }
    let text = text.trim_end_matches(['\n', '\r']);
    let gap = if text.is_empty() { "" } else { "\n\n" };
    format!("{text}{gap}[{}]", notices.join(" "))
}

/// The first whole lines of `text` within both limits; none at all where the first is too long.
pub fn head(text: &str, max_lines: usize, max_bytes: usize) -> Head<'_> {
    let mut end = 0;
    let mut lines = 0;
    for line in text.split_inclusive('\n') {
        let content = line.strip_suffix('\n').unwrap_or(line);
        let cut_by = if lines == max_lines {
            CutBy::Lines
        } else if end + content.len() > max_bytes {
            CutBy::Bytes
        } else {
            end += line.len();
            lines += 1;
            continue;
        };
        let text = &text[..end];
        return Head { text: text.strip_suffix('\n').unwrap_or(text), lines, cut_by: Some(cut_by) };
    }
    Head { text, lines, cut_by: None }
}

/// The line itself, or its first `max_chars` characters with a mark that says so.
pub fn clip(line: &str, max_chars: usize) -> Cow<'_, str> {
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => Cow::Owned(format!("{}... [truncated]", &line[..end])),
        None => Cow::Borrowed(line),
    }
}

/// A path, pattern or the like as a sentence repeats it: itself, or its beginning and its end where it has more than
/// [`MAX_LINE_CHARS`] characters.
pub fn brief(text: &str) -> Cow<'_, str> {
    const HALF: usize = MAX_LINE_CHARS / 2;
    if text.len() <= MAX_LINE_CHARS || text.chars().nth(MAX_LINE_CHARS).is_none() {
        return Cow::Borrowed(text);
    }
    let begin = text.char_indices().nth(HALF).map_or(0, |(at, _)| at);
    let end = text.char_indices().nth_back(HALF - 1).map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{}...{}", &text[..begin], &text[end..]))
}

/// A count of bytes for people: `512B`, `50.0KB`, `1.2MB`, in steps of 1,024.
pub fn size(bytes: u64) -> String {
    let tenths = |unit: u64| {
        let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
        (tenths / 10, tenths % 10)
    };
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let (whole, tenth) = tenths(1024);
    if whole < 1024 {
        return format!("{whole}.{tenth}KB");
    }
    let (whole, tenth) = tenths(1024 * 1024);
    format!("{whole}.{tenth}MB")
}

/// `1 line`, `2 lines`: a count and its noun.
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_left_as_it_is() {
        for text in ["", "a", "a\n", "a\nb", "a\n\n"] {
            assert_eq!(head(text, 2, 100).text, text);
            assert_eq!(head(text, 2, 100).cut_by, None);
        }
    }

    #[test]
    fn cuts_on_whole_lines() {
        assert_eq!(head("a\nb\nc\n", 2, 100), Head { text: "a\nb", lines: 2, cut_by: Some(CutBy::Lines) });
        assert_eq!(head("aaa\nbbb\nccc", 9, 7), Head { text: "aaa\nbbb", lines: 2, cut_by: Some(CutBy::Bytes) });
        assert_eq!(head("aaa\nbbb", 9, 6), Head { text: "aaa", lines: 1, cut_by: Some(CutBy::Bytes) });
        assert_eq!(head("aaaa", 9, 3), Head { text: "", lines: 0, cut_by: Some(CutBy::Bytes) });
    }

    #[test]
    fn details_name_only_what_was_cut() {
        let json = |cut: &Cut| serde_json::to_value(cut).unwrap();
        assert_eq!(Cut::default().if_any(), None);
        let limit = Cut { limit_reached: Some(("entryLimitReached", 2)), lines_truncated: true, ..Cut::default() };
        assert_eq!(json(&limit), serde_json::json!({ "entryLimitReached": 2, "linesTruncated": true }));
        let truncation = head("aaa\nbbb", 9, 6).truncation();
        let cut = Cut { truncation, ..Cut::default() };
        assert_eq!(json(&cut)["truncation"]["outputLines"], 1);
        assert!(cut.if_any().is_some() && head("a", 9, 6).truncation().is_none());
    }

    #[test]
    fn notices_stand_after_a_blank_line() {
        let notices = ["One.".to_owned(), "Two.".to_owned()];
        for (text, expected) in [("a", "a\n\n[One. Two.]"), ("a\r\n\n", "a\n\n[One. Two.]"), ("", "[One. Two.]")] {
            assert_eq!(with_notices(text, &notices), expected);
        }
        assert_eq!(with_notices("a\n", &[]), "a\n");
    }

    #[test]
    fn clips_characters_not_bytes() {
        assert_eq!(clip("äöü", 3), "äöü");
        assert_eq!(clip("äöüß", 3), "äöü... [truncated]");
    }

    #[test]
    fn what_is_repeated_is_cut_in_its_middle() {
        let most = "ä".repeat(MAX_LINE_CHARS);
        assert_eq!(brief(&most), most);
        assert_eq!(brief(&format!("{most}ö")), format!("{0}...{1}ö", "ä".repeat(250), "ä".repeat(249)));
    }

    #[test]
    fn sizes_and_counts_read_well() {
        assert_eq!(size(1023), "1023B");
        assert_eq!(size(MAX_BYTES as u64), "50.0KB");
        assert_eq!(size(1024 * 1024 - 1), "1.0MB");
        assert_eq!(size(u64::MAX), "17592186044416.0MB");
        assert_eq!((count(1, "line"), count(0, "line")), ("1 line".into(), "0 lines".into()));
    }
}
