//! Entries: the lines of a session file.

use crate::{
    Content, EntryId, Message, SessionId, Usage,
    content::{lenient_content, or_default},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

/// The version of the session format that Pith writes.
pub const SESSION_VERSION: u32 = 3;

/// The first line of a session file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Always `session`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 3.
    #[serde(default)]
    pub version: u32,
    /// The session's id.
    pub id: SessionId,
    /// When it began.
    #[serde(default)]
    pub timestamp: String,
    /// Its working folder.
    #[serde(default)]
    pub cwd: String,
    /// The file that this one continues, forks or copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
}

/// One line after the header.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The entry's type, as on disk.
    #[serde(rename = "type")]
    pub kind: String,
    /// Unique within the file.
    pub id: EntryId,
    /// The entry before it on its path; none for a root.
    pub parent_id: Option<EntryId>,
    /// UTC with milliseconds.
    pub timestamp: String,
    /// The rest, by type.
    #[serde(flatten)]
    pub body: EntryBody,
}

/// What an entry says. Reading goes by type in `Entry::read`; a type that this version does not know, or a body that does not
/// fit its type, is `Unknown`: kept as its raw line, skipped by the projection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum EntryBody {
    Message(MessageEntry),
    ModelChange(ModelChange),
    ThinkingLevelChange(ThinkingLevelChange),
    Compaction(Compaction),
    BranchSummary(BranchSummaryEntry),
    ContextEdit(ContextEdit),
    Custom(Custom),
    CustomMessage(CustomMessageEntry),
    Label(Label),
    SessionInfo(SessionInfo),
    Usage(UsageEntry),
    Unknown {},
}

/// `message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageEntry {
    /// The message; shared with every view of it.
    pub message: Arc<Message>,
}

/// `model_change`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelChange {
    /// The provider.
    pub provider: String,
    /// The provider's id of the model.
    pub model_id: String,
}

/// `thinking_level_change`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingLevelChange {
    /// A level's name; others than ours may stand in foreign files.
    pub thinking_level: String,
}

/// `compaction`: older entries are replaced by a summary in the model's view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// What takes their place.
    pub summary: String,
    /// The first entry that is kept; its own id keeps none.
    pub first_kept_entry_id: EntryId,
    /// Tokens before it.
    #[serde(default)]
    pub tokens_before: u64,
    /// The whole state of prompt and tools at this point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_message: Option<Value>,
    /// For views and later compactions: `readFiles` and `modifiedFiles`, lists of paths, where Pith or pi made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// What making the summary took.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub usage: Option<Usage>,
    /// The summary is another's than the writing program's own.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub from_hook: Option<bool>,
}

/// `branch_summary`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummaryEntry {
    /// Where the branch ended.
    #[serde(default)]
    pub from_id: String,
    /// The summary.
    pub summary: String,
    /// For views and later summaries: `readFiles` and `modifiedFiles`, lists of paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// What making the summary took.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub usage: Option<Usage>,
    /// The summary is another's than the writing program's own.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "or_default")]
    pub from_hook: Option<bool>,
}

/// `context_edit`: changes or leaves out one entry in the model's view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextEdit {
    /// The entry that is meant; the latest edit of it on a path wins.
    pub target_id: EntryId,
    /// None leaves it out.
    pub replacement: Option<Replacement>,
}

/// What a `context_edit` shows instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replacement {
    /// The content.
    #[serde(default, deserialize_with = "lenient_content")]
    pub content: Vec<Content>,
}

/// `custom`: a plugin's state. The model does not read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Custom {
    /// `plugin-name/kind`.
    pub custom_type: String,
    /// The state.
    #[serde(default)]
    pub data: Value,
    /// The plugin's publisher: completes the namespace. pi ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
}

/// `custom_message`: a plugin's words to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessageEntry {
    /// `plugin-name/kind`.
    pub custom_type: String,
    /// For the model.
    #[serde(default, deserialize_with = "lenient_content")]
    pub content: Vec<Content>,
    /// Whether people see it.
    #[serde(default)]
    pub display: bool,
    /// For views.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The plugin's publisher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
}

/// `label`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Label {
    /// The entry that is labelled.
    pub target_id: EntryId,
    /// None clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// `session_info`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// The session's name; empty or none clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// `usage`: tokens that no message of this session counts, such as a summary's or a plugin's own. In totals, not in what the model reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageEntry {
    /// What they were used for: `compaction`, `branch_summary`, `plugin` ...
    #[serde(default)]
    pub kind: String,
    /// The provider.
    #[serde(default)]
    pub provider: String,
    /// The provider's id of the model.
    #[serde(default)]
    pub model: String,
    /// The tokens.
    #[serde(default, deserialize_with = "or_default")]
    pub usage: Usage,
    /// Who used them, such as a plugin's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What every entry has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    id: EntryId,
    #[serde(default)]
    parent_id: Option<EntryId>,
    #[serde(default)]
    timestamp: String,
}

/// How every writer of this format begins a message.
const MESSAGE_BEGINS: &[u8] = br#"{"type":"message","#;

/// A message with its frame. Flattening would buffer the message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageLine {
    #[serde(rename = "type")]
    kind: String,
    id: EntryId,
    #[serde(default)]
    parent_id: Option<EntryId>,
    #[serde(default)]
    timestamp: String,
    message: Arc<Message>,
}

impl Entry {
    /// Reads one line. Fails where it is not a JSON object with `type` and `id`; a body of an unknown type or shape is `Unknown`.
    pub fn read(line: &[u8]) -> Result<Self, serde_json::Error> {
        // Most bytes of a file are messages that are as they should be: one pass.
        if line.starts_with(MESSAGE_BEGINS)
            && let Ok(MessageLine { kind, id, parent_id, timestamp, message }) = serde_json::from_slice(line)
        {
            return Ok(Self { kind, id, parent_id, timestamp, body: EntryBody::Message(MessageEntry { message }) });
        }
        let frame: Frame = serde_json::from_slice(line)?;
        let body = match read_body(&frame.kind, line) {
            Ok(body) => body,
            Err(_) => match mended_line(line) {
                Some(mended) => read_body(&frame.kind, &mended).unwrap_or(EntryBody::Unknown {}),
                None => EntryBody::Unknown {},
            },
        };
        Ok(Self { kind: frame.kind, id: frame.id, parent_id: frame.parent_id, timestamp: frame.timestamp, body })
    }

    /// Its type is known, but its body does not fit it: it is kept, and nothing reads it.
    pub fn is_unreadable(&self) -> bool {
        matches!(self.body, EntryBody::Unknown {}) && KINDS.contains(&self.kind.as_str())
    }

    /// The message, where the entry is one.
    pub fn message(&self) -> Option<&Message> {
        self.shared_message().map(AsRef::as_ref)
    }

    /// The same, to be kept.
    pub fn shared_message(&self) -> Option<&Arc<Message>> {
        match &self.body {
            EntryBody::Message(entry) => Some(&entry.message),
            _ => None,
        }
    }
}

/// The types that `read_body` knows.
const KINDS: [&str; 11] = [
    "message",
    "model_change",
    "thinking_level_change",
    "compaction",
    "branch_summary",
    "context_edit",
    "custom",
    "custom_message",
    "label",
    "session_info",
    "usage",
];

/// The line with U+FFFD for what is no character in it: bytes that are no UTF-8, and halves of characters, which programs whose strings are
/// UTF-16 write, such as where a text was cut. None where there is nothing of that: what cannot be read then cannot be mended so.
pub fn mended_line(line: &[u8]) -> Option<Vec<u8>> {
    match String::from_utf8_lossy(line) {
        Cow::Borrowed(_) => without_lone_surrogates(line),
        Cow::Owned(text) => Some(without_lone_surrogates(text.as_bytes()).unwrap_or_else(|| text.into_bytes())),
    }
}

/// The line with U+FFFD for every `\u` escape of half a character; none where there is no such escape.
fn without_lone_surrogates(line: &[u8]) -> Option<Vec<u8>> {
    let mut out = line.to_vec();
    let mut mended = false;
    let mut at = 0;
    while at < out.len() {
        if out[at] != b'\\' {
            at += 1;
            continue;
        }
        match unit(&out, at) {
            Some(0xd800..=0xdbff) if matches!(unit(&out, at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                out[at..at + 6].copy_from_slice(b"\\ufffd");
                mended = true;
                at += 6;
            }
            _ => at += 2,
        }
    }
    mended.then_some(out)
}

/// The UTF-16 unit that is escaped here.
fn unit(line: &[u8], at: usize) -> Option<u16> {
    let escape = line.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(escape).ok()?, 16).ok()
}

fn read_body(kind: &str, line: &[u8]) -> Result<EntryBody, serde_json::Error> {
    Ok(match kind {
        "message" => EntryBody::Message(serde_json::from_slice(line)?),
        "model_change" => EntryBody::ModelChange(serde_json::from_slice(line)?),
        "thinking_level_change" => EntryBody::ThinkingLevelChange(serde_json::from_slice(line)?),
        "compaction" => EntryBody::Compaction(serde_json::from_slice(line)?),
        "branch_summary" => EntryBody::BranchSummary(serde_json::from_slice(line)?),
        "context_edit" => EntryBody::ContextEdit(serde_json::from_slice(line)?),
        "custom" => EntryBody::Custom(serde_json::from_slice(line)?),
        "custom_message" => EntryBody::CustomMessage(serde_json::from_slice(line)?),
        "label" => EntryBody::Label(serde_json::from_slice(line)?),
        "session_info" => EntryBody::SessionInfo(serde_json::from_slice(line)?),
        "usage" => EntryBody::Usage(serde_json::from_slice(line)?),
        _ => EntryBody::Unknown {},
    })
}

impl EntryBody {
    /// The type's name on disk. `Unknown` has none of its own: Pith never writes one.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Message(_) => "message",
            Self::ModelChange(_) => "model_change",
            Self::ThinkingLevelChange(_) => "thinking_level_change",
            Self::Compaction(_) => "compaction",
            Self::BranchSummary(_) => "branch_summary",
            Self::ContextEdit(_) => "context_edit",
            Self::Custom(_) => "custom",
            Self::CustomMessage(_) => "custom_message",
            Self::Label(_) => "label",
            Self::SessionInfo(_) => "session_info",
            Self::Usage(_) => "usage",
            Self::Unknown {} => "unknown",
        }
    }
}

impl From<Message> for EntryBody {
    fn from(message: Message) -> Self {
        Self::Message(MessageEntry { message: Arc::new(message) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn text_of(content: &str) -> String {
        let line = format!(r#"{{"type":"message","id":"a","message":{{"role":"user","content":{content}}}}}"#);
        let entry = Entry::read(line.as_bytes()).unwrap();
        match entry.message() {
            Some(Message::User(user)) => user.content.iter().filter_map(Content::as_text).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_others_write_is_read_as_far_as_it_goes() {
        assert_eq!(text_of(r#""words""#), "words");
        assert_eq!(text_of("null"), "");
        assert_eq!(
            text_of(r#"[{"type":"text","text":"a"},{"type":"text"},{"type":"new"},7,{"type":"text","text":"b"}]"#),
            "ab"
        );
        assert_eq!(text_of(r#""cut \ud83d""#), "cut \u{fffd}");
        let bytes = b"{\"type\":\"message\",\"id\":\"a\",\"message\":{\"role\":\"user\",\"content\":\"a\xff\\ud83d\"}}";
        let entry = Entry::read(bytes).unwrap();
        assert!(
            matches!(entry.message(), Some(Message::User(user)) if user.content == [Content::text("a\u{fffd}\u{fffd}")])
        );
        assert_eq!(text_of(r#""\udc00\ud83d\ude00 \\ud83d \ud83d\u0041""#), "\u{fffd}\u{1f600} \\ud83d \u{fffd}A");
        for (arguments, expected) in [("null", 0), ("[1]", 0), (r#""{\"a\":1}""#, 1), (r#"{"a":1,"b":2}"#, 2)] {
            let line = format!(
                r#"{{"type":"message","id":"a","message":{{"role":"assistant","content":[{{"type":"toolCall","id":"c","name":"n","arguments":{arguments}}}]}}}}"#
            );
            let entry = Entry::read(line.as_bytes()).unwrap();
            let Some(Message::Assistant(reply)) = entry.message() else { panic!("{entry:?}") };
            assert_eq!(reply.tool_calls().next().unwrap().arguments.len(), expected, "{arguments}");
        }
        let reply = br#"{"type":"message","id":"a","message":{"role":"assistant","content":"hi","usage":{"input":-1.5},"stopReason":"deferred","durationMs":1.5,"timestamp":"now"}}"#;
        let entry = Entry::read(reply).unwrap();
        assert!(matches!(entry.message(), Some(Message::Assistant(reply)) if reply.text() == "hi"));
        let odd = Entry::read(br#"{"type":"message","id":"a","message":{"role":"nobody"}}"#).unwrap();
        assert!(odd.is_unreadable());
        assert!(!Entry::read(br#"{"type":"from_the_future","id":"a"}"#).unwrap().is_unreadable());
    }
}
