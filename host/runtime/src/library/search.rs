//! Searching what was said. A line is looked at as bytes first, and parsed only where it may hold what is sought.

use super::ReadSession;
use crate::store::LoadError;
use memchr::memmem;
use pith_core::{EntryKind, Outlined};
use pith_protocol::{Content, EntryBody, EntryId, Message};
use std::path::Path;

/// Characters of a snippet before the match, and after its beginning.
const BEFORE_CHARS: usize = 40;
const AFTER_CHARS: usize = 120;

/// What is sought: all of the words in one message, whatever their case.
#[derive(Clone, Debug, Default)]
pub struct SearchOrder {
    /// The words; an empty list finds nothing.
    pub words: Vec<String>,
    /// Also in what tools gave.
    pub tools: bool,
}

/// A message that has all the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The entry.
    pub entry: EntryId,
    /// `user`, `assistant`, `toolResult` ...
    pub role: &'static str,
    /// When it was said.
    pub timestamp: String,
    /// Text around the first word's first place, on one line. Foreign.
    pub snippet: String,
    /// Where in the snippet the first word stands, in characters.
    pub at: usize,
}

/// The messages of one session file that have all the words, in the file's order, at most `limit`.
///
/// # Errors
/// The file cannot be read.
pub fn search_session(file: &Path, order: &SearchOrder, limit: usize) -> Result<Vec<SearchHit>, LoadError> {
    let session = ReadSession::open(file)?;
    let words: Vec<String> =
        order.words.iter().map(|word| word.to_lowercase()).filter(|word| !word.is_empty()).collect();
    let mut hits = Vec::new();
    if words.is_empty() {
        return Ok(hits);
    }
    for one in session.outline() {
        if hits.len() >= limit {
            break;
        }
        let Some(role) = role(one.kind, order.tools) else { continue };
        let Some(line) = session.line(&one).filter(|line| may_have(line, &words)) else { continue };
        hits.extend(found(&one, role, &line, &words));
    }
    Ok(hits)
}

fn role(kind: EntryKind, tools: bool) -> Option<&'static str> {
    match kind {
        EntryKind::User => Some("user"),
        EntryKind::Assistant => Some("assistant"),
        EntryKind::Compaction => Some("compaction"),
        EntryKind::BranchSummary => Some("branchSummary"),
        EntryKind::CustomMessage => Some("custom"),
        EntryKind::BashExecution => Some("bashExecution"),
        EntryKind::ToolResult if tools => Some("toolResult"),
        _ => None,
    }
}

/// Whether the line's bytes may hold the words: words of plain letters and digits stand in JSON as they are, whatever else is escaped.
fn may_have(line: &[u8], words: &[String]) -> bool {
    let lower = line.to_ascii_lowercase();
    words.iter().filter(|word| word.bytes().all(|byte| byte.is_ascii_alphanumeric())).all(|word| {
        // A writer may escape letters too; then there is a backslash and a u.
        memmem::find(&lower, word.as_bytes()).is_some() || memmem::find(&lower, b"\\u00").is_some()
    })
}

fn found(one: &Outlined, role: &'static str, line: &[u8], words: &[String]) -> Option<SearchHit> {
    let entry = pith_protocol::Entry::read(line).ok()?;
    let text = said(&entry.body);
    let lower = text.to_lowercase();
    if !words.iter().all(|word| lower.contains(word.as_str())) {
        return None;
    }
    // Lower case may be longer or shorter in bytes; characters are near enough for a snippet.
    let place = lower.find(words.first()?.as_str())?;
    let place = lower[..place].chars().count();
    let start = place.saturating_sub(BEFORE_CHARS);
    let taken: String = text.chars().skip(start).take(place - start + AFTER_CHARS).collect();
    let before: String = taken.chars().take(place - start).collect();
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let snippet = flat(&taken);
    let mut at = flat(&before).chars().count();
    if at > 0 && before.ends_with(char::is_whitespace) {
        at += 1;
    }
    Some(SearchHit { entry: one.id.clone(), role, timestamp: entry.timestamp, snippet, at })
}

/// The words of an entry, thoughts left out.
fn said(body: &EntryBody) -> String {
    let texts = |content: &[Content]| content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n");
    match body {
        EntryBody::Message(message) => match message.message.as_ref() {
            Message::User(user) => texts(&user.content),
            Message::Assistant(reply) => texts(&reply.content),
            Message::ToolResult(result) => texts(&result.content),
            Message::BashExecution(run) => format!("{}\n{}", run.command, run.output),
            Message::Custom(custom) => texts(&custom.content),
            _ => String::new(),
        },
        EntryBody::CustomMessage(custom) => texts(&custom.content),
        EntryBody::Compaction(compaction) => compaction.summary.clone(),
        EntryBody::BranchSummary(branch) => branch.summary.clone(),
        _ => String::new(),
    }
}
