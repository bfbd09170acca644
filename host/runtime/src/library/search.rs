//! Searching what was said, in all sessions: the newest first, found places as they come.

use super::{
    lines::{Word, in_order, pieces},
    sought::{SearchError, Sought},
};
use crate::{Progress, SessionSummary};
use pith_protocol::mended_line;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::{
    borrow::Cow,
    ops::{ControlFlow, Range},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Characters of a snippet before the match, of the match, and after it.
const BEFORE_CHARS: usize = 50;
const MATCH_CHARS: usize = 120;
const AFTER_CHARS: usize = 90;
/// From when on, and how often, people are told how far it is.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Files that cannot be read which are named one by one.
const UNREADABLE_SHOWN: usize = 10;

/// How every writer of this format begins a line that is searched; within texts the quotes are escaped.
const WHOLE_BEGINS: [&[u8]; 2] = [br#"{"type":"message","#, br#"{"type":"custom_message","#];

/// What is sought, and where.
#[derive(Clone, Debug, Default)]
pub struct SearchOrder {
    /// All of these have to stand in one message: phrases, whatever their case and the blanks between their words.
    pub phrases: Vec<String>,
    /// They are regular expressions instead, in the syntax of the `regex` crate; `^` and `$` are lines' ends.
    pub is_regex: bool,
    /// Also in what tools were given and gave.
    pub with_tools: bool,
    /// At most so many messages.
    pub limit: usize,
}

/// A message that has all that is sought. Its texts are foreign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The session's place in the list that was searched.
    pub session: usize,
    /// The entry.
    pub entry: String,
    /// `user`, `assistant`, `toolResult`, `bashExecution` or `custom`.
    pub role: String,
    /// When it was said.
    pub timestamp: String,
    /// What stands before the first match, on one line.
    pub before: String,
    /// The match, on one line.
    pub found: String,
    /// What stands after it, on one line.
    pub after: String,
}

/// What a search came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Messages that were found.
    pub hits: usize,
    /// Sessions that were read.
    pub sessions: usize,
    /// Bytes that were read.
    pub bytes: u64,
    /// There may be more: the limit was reached.
    pub is_cut: bool,
    /// Lines that may hold it and that no JSON reader can read.
    pub damaged_lines: u64,
    /// What people should know, a sentence each; foreign text.
    pub notices: Vec<String>,
}

/// Searches sessions in their order. `each` gets what is found as it is found, and says whether to go on.
///
/// # Errors
/// Nothing is sought, or an expression is none. Files that cannot be read are told in the notices.
pub fn search_sessions(
    sessions: &[SessionSummary],
    order: &SearchOrder,
    progress: Option<&Progress>,
    each: &mut dyn FnMut(SearchHit) -> ControlFlow<()>,
) -> Result<Searched, SearchError> {
    let sought = Sought::new(&order.phrases, order.is_regex)?;
    let mut searched = Searched::default();
    if order.limit == 0 {
        return Ok(Searched { is_cut: true, ..searched });
    }
    let damaged = AtomicU64::new(0);
    let read = |number: usize, teller: &super::lines::Teller<'_, SearchHit>| {
        let mut hits = 0;
        pieces(&sessions[number].file, &mut |piece| {
            !teller.is_over()
                && sought.candidates(piece, &mut |line| {
                    let hit = match looked_at(line, &sought, order.with_tools) {
                        Looked::Hit(hit) => hit,
                        Looked::Nothing => return true,
                        Looked::Damaged => {
                            damaged.fetch_add(1, Ordering::Relaxed);
                            return true;
                        }
                    };
                    hits += 1;
                    teller.tell(SearchHit { session: number, ..hit }) && hits < order.limit
                })
        })
    };
    let (mut told, mut unreadable) = (Instant::now(), 0usize);
    in_order(sessions.len(), &read, &|found| found >= order.limit, &mut |number, word| match word {
        Word::Found(hit) => {
            searched.hits += 1;
            let goes_on = each(hit).is_continue();
            searched.is_cut = searched.hits >= order.limit;
            goes_on && !searched.is_cut
        }
        Word::Done(done) => {
            searched.sessions += 1;
            match done {
                Ok(bytes) => searched.bytes = searched.bytes.saturating_add(bytes),
                Err(error) => {
                    unreadable += 1;
                    if unreadable <= UNREADABLE_SHOWN {
                        searched.notices.push(format!("{}: {error}", sessions[number].file.display()));
                    }
                }
            }
            if let Some(progress) = progress.filter(|_| told.elapsed() >= TOLD_AFTER) {
                told = Instant::now();
                progress(&format!("searched {} of {} sessions", searched.sessions, sessions.len()));
            }
            true
        }
    });
    if let Some(more) = unreadable.checked_sub(UNREADABLE_SHOWN).filter(|more| *more > 0) {
        searched.notices.push(format!("and {more} more files that cannot be read"));
    }
    searched.damaged_lines = damaged.into_inner();
    if searched.damaged_lines > 0 {
        searched.notices.push(format!(
            "{} damaged lines may have had it (`pith session show` names a session's)",
            searched.damaged_lines
        ));
    }
    Ok(searched)
}

enum Looked {
    Hit(SearchHit),
    Nothing,
    Damaged,
}

/// A line, as far as it is searched. What is not is passed over without being copied.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    id: Cow<'a, str>,
    #[serde(default, borrow)]
    timestamp: Cow<'a, str>,
    #[serde(default, borrow)]
    message: Option<Said<'a>>,
    /// Of a `custom_message`.
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(default, borrow)]
    role: Cow<'a, str>,
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    command: Option<&'a RawValue>,
    #[serde(default, borrow)]
    output: Option<&'a RawValue>,
}

fn looked_at(line: &[u8], sought: &Sought, with_tools: bool) -> Looked {
    if let Ok(line) = serde_json::from_slice::<Line<'_>>(line) {
        return hit(&line, sought, with_tools).map_or(Looked::Nothing, Looked::Hit);
    }
    // Halves of characters, bytes that are no text, a torn line before a whole one: as far as it can be read elsewhere.
    let mended = mended_line(line).unwrap_or_else(|| line.to_vec());
    let begins = WHOLE_BEGINS.into_iter().filter_map(|begin| memchr::memmem::rfind(&mended, begin));
    for from in std::iter::once(0).chain(begins) {
        if let Ok(line) = serde_json::from_slice::<Line<'_>>(&mended[from..]) {
            return hit(&line, sought, with_tools).map_or(Looked::Nothing, Looked::Hit);
        }
    }
    Looked::Damaged
}

fn hit(line: &Line<'_>, sought: &Sought, with_tools: bool) -> Option<SearchHit> {
    let (role, text) = match (line.kind.as_ref(), &line.message) {
        ("message", Some(said)) => {
            let text = match said.role.as_ref() {
                "user" | "custom" => words(said.content?, false),
                "assistant" => words(said.content?, with_tools),
                "toolResult" if with_tools => words(said.content?, false),
                "bashExecution" => {
                    let output = said.output.filter(|_| with_tools);
                    [said.command, output]
                        .into_iter()
                        .flatten()
                        .map(|text| words(text, false))
                        .collect::<Vec<_>>()
                        .join("\n")
                }
                _ => return None,
            };
            (said.role.as_ref(), text)
        }
        ("custom_message", _) => ("custom", words(line.content?, false)),
        _ => return None,
    };
    let place = sought.find(&text)?;
    let (before, found, after) = around(&text, place);
    let (entry, timestamp) = (line.id.as_ref().to_owned(), line.timestamp.as_ref().to_owned());
    Some(SearchHit { session: 0, entry, role: role.to_owned(), timestamp, before, found, after })
}

/// The words of a message's content, a text or a list of blocks; thoughts are not searched.
fn words(content: &RawValue, with_calls: bool) -> String {
    let mut text = String::new();
    let mut add = |words: &str| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(words);
    };
    let read = serde_json::from_str::<Value>(content.get());
    // Halves of characters are seen only here.
    let mended = || serde_json::from_slice(&mended_line(content.get().as_bytes())?).ok();
    match read.or_else(|error| mended().ok_or(error)) {
        Ok(Value::String(words)) => add(&words),
        Ok(Value::Array(blocks)) => {
            for block in &blocks {
                match block.get("type").and_then(Value::as_str) {
                    Some("text") => add(block.get("text").and_then(Value::as_str).unwrap_or_default()),
                    Some("toolCall") if with_calls => {
                        add(block.get("name").and_then(Value::as_str).unwrap_or_default());
                        each_text(block.get("arguments").unwrap_or(&Value::Null), &mut add);
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
    text
}

/// The texts among a call's arguments, however deep: without recursion.
fn each_text(value: &Value, add: &mut dyn FnMut(&str)) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => add(text),
            Value::Array(values) => open.extend(values.iter().rev()),
            Value::Object(fields) => open.extend(fields.values().rev()),
            _ => {}
        }
    }
}

/// What stands around a place, on one line: blanks of any kind become one.
fn around(text: &str, place: Range<usize>) -> (String, String, String) {
    let flat = |text: &str| -> String {
        let mut out = String::new();
        for c in text.chars() {
            if !c.is_whitespace() {
                out.push(c);
            } else if !out.ends_with(' ') {
                out.push(' ');
            }
        }
        out
    };
    // Blanks may be many: more is taken than is kept.
    let (head, tail) = (&text[..place.start], &text[place.end..]);
    let head: String = head.chars().rev().take(4 * BEFORE_CHARS).collect::<Vec<_>>().into_iter().rev().collect();
    let tail: String = tail.chars().take(4 * AFTER_CHARS).collect();
    let (head, tail) = (flat(&head), flat(&tail));
    let skipped = head.chars().count().saturating_sub(BEFORE_CHARS);
    let cut = if skipped > 0 { "…" } else { "" };
    let before = format!("{cut}{}", head.chars().skip(skipped).collect::<String>());
    let mut found: String = flat(&text[place]).chars().take(MATCH_CHARS + 1).collect();
    if found.chars().count() > MATCH_CHARS {
        found.pop();
        found.push('…');
    }
    let mut after: String = tail.chars().take(AFTER_CHARS).collect();
    if tail.chars().nth(AFTER_CHARS).is_some() {
        after.push('…');
    }
    (before.trim_start().to_owned(), found, after.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_one_line_around_the_match() {
        let text = format!("{}the\n\n  Needle\tin {}", "a ".repeat(100), "b".repeat(200));
        let at = text.find("Needle").unwrap();
        let (before, found, after) = around(&text, at..at + 6);
        assert!(before.starts_with('…') && before.ends_with("a the ") && before.chars().count() <= BEFORE_CHARS + 1);
        assert_eq!(found, "Needle");
        assert!(after.starts_with(" in bbb") && after.ends_with('…'), "{after}");
        assert_eq!(around("x", 0..1), (String::new(), "x".to_owned(), String::new()));
    }

    #[test]
    fn lines_are_read_as_far_as_they_can_be() {
        let sought = Sought::new(&["needle".to_owned()], false).unwrap();
        let look = |line: &str, tools| match looked_at(line.as_bytes(), &sought, tools) {
            Looked::Hit(hit) => format!("{} {}", hit.role, hit.entry),
            Looked::Nothing => "nothing".to_owned(),
            Looked::Damaged => "damaged".to_owned(),
        };
        let said = |role: &str, content: &str| {
            format!(r#"{{"type":"message","id":"1","message":{{"role":"{role}","content":{content}}}}}"#)
        };
        let text = r#"[{"type":"text","text":"a NEEDLE"}]"#;
        assert_eq!(look(&said("user", text), false), "user 1");
        assert_eq!(look(&said("user", r#""a needle""#), false), "user 1");
        assert_eq!(
            look(&said("user", r#"[{"type":"text","text":"nee"},{"type":"text","text":"dle"}]"#), false),
            "nothing"
        );
        assert_eq!(look(&said("assistant", r#"[{"type":"thinking","thinking":"needle"}]"#), true), "nothing");
        let call = r#"[{"type":"toolCall","id":"c","name":"x","arguments":{"a":[{"b":"needle"}]}}]"#;
        assert_eq!(
            (look(&said("assistant", call), false), look(&said("assistant", call), true)),
            ("nothing".into(), "assistant 1".into())
        );
        assert_eq!(
            (look(&said("toolResult", text), false), look(&said("toolResult", text), true)),
            ("nothing".into(), "toolResult 1".into())
        );
        let bash = r#"{"type":"message","id":"1","message":{"role":"bashExecution","command":"ls","output":"needle"}}"#;
        assert_eq!((look(bash, false), look(bash, true)), ("nothing".into(), "bashExecution 1".into()));
        assert_eq!(look(&said("system", text), true), "nothing");
        assert_eq!(look(r#"{"type":"custom_message","id":"1","content":"needle"}"#, false), "custom 1");
        let whole = said("user", text);
        assert_eq!(look(&format!(r#"{{"type":"message","id":"0","mess{whole}"#), false), "user 1");
        assert_eq!(look(&said("user", r#"[{"type":"text","text":"half \ud83d needle"}]"#), false), "user 1");
        assert_eq!(look(r#"{"type":"message","id":"0","message":{"role":"user","content":"needle"#, false), "damaged");
    }
}
