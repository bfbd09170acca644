//! `pith session search`.

use super::{args::SearchArgs, list::here, short_id};
use crate::{
    failure::{DONE, Failure},
    harmless::harmless_line,
};
use pith_runtime::{Places, SearchOrder, search_session};
use serde_json::json;
use std::io::{ErrorKind, IsTerminal, Write};

/// Does it: hits are shown as they are found, the newest sessions first.
pub fn follow(places: &Places, args: &SearchArgs) -> Result<u8, Failure> {
    let order = SearchOrder { words: args.words.clone(), tools: args.tools };
    let mut left = args.limit;
    let mut out = std::io::stdout().lock();
    let bold = !args.json && out.is_terminal();
    for one in here(places, args.all)? {
        if left == 0 {
            break;
        }
        let hits = match search_session(&one.file, &order, left) {
            Ok(hits) => hits,
            Err(error) => {
                let _ = writeln!(std::io::stderr().lock(), "note: {}", harmless_line(&error.to_string(), 400));
                continue;
            }
        };
        left -= hits.len().min(left);
        for hit in hits {
            let line = if args.json {
                json!({
                    "session": one.id, "file": one.file, "entry": hit.entry, "role": hit.role,
                    "timestamp": hit.timestamp, "snippet": hit.snippet,
                })
                .to_string()
            } else {
                let word = args.words.first().map_or(0, |word| word.chars().count());
                format!(
                    "{}  {}  {}: {}",
                    short_id(&one.id),
                    harmless_line(hit.entry.as_str(), 40),
                    hit.role,
                    marked(&hit.snippet, hit.at, word, bold)
                )
            };
            match writeln!(out, "{line}") {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(DONE),
                written => written.map_err(|error| Failure::refused(&error))?,
            }
        }
    }
    Ok(DONE)
}

/// The snippet, what was sought in bold.
fn marked(snippet: &str, at: usize, length: usize, bold: bool) -> String {
    let part = |from: usize, count: usize| {
        let text: String = snippet.chars().skip(from).take(count).collect();
        let (lead, tail) = (text.starts_with(' '), text.ends_with(' '));
        let shown = harmless_line(&text, 400);
        // `harmless_line` trims; the blanks are ours to give back.
        format!(
            "{}{}{}",
            if lead && !shown.starts_with(' ') { " " } else { "" },
            shown,
            if tail && !shown.ends_with(' ') { " " } else { "" }
        )
    };
    let (before, word, after) = (part(0, at), part(at, length), part(at + length, usize::MAX));
    if bold { format!("{before}\u{1b}[1m{word}\u{1b}[0m{after}") } else { format!("{before}{word}{after}") }
}
