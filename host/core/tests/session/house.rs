//! What the tests stand on: a store that is bytes, as a file is, and can fail as a disk does; a clock and ids that count; short words for
//! messages.

use futures::future::BoxFuture;
use pith_core::{Clock, Diagnostic, LoadedTree, ReadError, Session, Store, StoreError, StoreFault, TreeReader, Trust};
use pith_protocol::{
    AssistantMessage, Content, Cost, Entry, Message, SessionId, StopReason, ToolCall, ToolResultMessage, Usage,
    UserMessage,
};
use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

/// Bytes that two sessions can share, as a file's.
#[derive(Clone, Default)]
pub struct Bytes(pub Arc<Mutex<Vec<u8>>>, Arc<Mutex<Fault>>);

/// How writes go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Fault {
    /// They do.
    #[default]
    None,
    /// Nothing is written.
    Refuses(StoreFault),
    /// Half is written, and cut off again.
    Partial,
}

impl Store for Bytes {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        assert!(lines.ends_with(b"\n"), "whole lines are written");
        let mut bytes = self.0.lock().unwrap();
        match *self.1.lock().unwrap() {
            Fault::None => bytes.extend_from_slice(lines),
            Fault::Refuses(kind) => return Err(failure(kind)),
            Fault::Partial => {
                let before = bytes.len();
                bytes.extend_from_slice(&lines[..lines.len() / 2]);
                bytes.truncate(before);
                return Err(failure(StoreFault::Unwritable));
            }
        }
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let start = usize::try_from(offset).unwrap();
        self.0.lock().unwrap().get(start..start + length).map(<[u8]>::to_vec).ok_or(failure(StoreFault::Unreadable))
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn failure(kind: StoreFault) -> StoreError {
    StoreError { kind, file: "x".to_owned(), action: "written", source: std::io::ErrorKind::StorageFull.into() }
}

impl Bytes {
    pub fn of(text: impl AsRef<[u8]>) -> Self {
        Self(Arc::new(Mutex::new(text.as_ref().to_vec())), Arc::default())
    }

    /// One of the shared cases.
    pub fn case(path: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases").join(path);
        Self::of(std::fs::read(path).unwrap())
    }

    pub fn fail(&self, fault: Fault) {
        *self.1.lock().unwrap() = fault;
    }

    pub fn all(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.all()).unwrap()
    }

    pub fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }

    pub fn try_load(&self) -> Result<LoadedTree, ReadError> {
        let bytes = self.0.lock().unwrap();
        let mut reader = TreeReader::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ended = line.ends_with(b"\n");
            reader.push_line(line.strip_suffix(b"\n").unwrap_or(line), ended)?;
        }
        reader.finish()
    }

    pub fn load(&self) -> LoadedTree {
        self.try_load().unwrap()
    }

    pub fn resume(&self) -> (Session, Vec<Diagnostic>) {
        self.resume_as(Trust::Own)
    }

    pub fn resume_as(&self, trust: Trust) -> (Session, Vec<Diagnostic>) {
        let clock = Ticks { id: AtomicU32::new(self.fresh_ids()), ..Ticks::default() };
        Session::resume(self.load(), Path::new("/w"), Box::new(self.clone()), Arc::new(clock), trust).unwrap()
    }

    /// Ids go on somewhere else: a counter that began again would repeat them, and the tree would draw again.
    fn fresh_ids(&self) -> u32 {
        u32::try_from(self.0.lock().unwrap().len()).unwrap().wrapping_mul(7919)
    }

    pub fn adopt(&self, trust: Trust) -> (Session, Self, Vec<Diagnostic>) {
        let target = Self::default();
        let clock = Ticks { id: AtomicU32::new(self.fresh_ids()), ..Ticks::default() };
        let (session, diagnostics) = Session::adopt(
            self.load(),
            self,
            "/elsewhere/session.jsonl".to_owned(),
            SessionId::from("mine"),
            Path::new("/w"),
            Box::new(target.clone()),
            Arc::new(clock),
            trust,
        )
        .unwrap();
        (session, target, diagnostics)
    }
}

/// A clock that counts, and ids that count.
#[derive(Default)]
pub struct Ticks {
    pub time: AtomicI64,
    pub id: AtomicU32,
}

impl Clock for Ticks {
    fn now_millis(&self) -> i64 {
        self.time.fetch_add(1, Ordering::Relaxed)
    }

    fn monotonic_millis(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn random_u32(&self) -> u32 {
        self.id.fetch_add(1, Ordering::Relaxed)
    }
}

pub fn fresh() -> (Session, Bytes) {
    let bytes = Bytes::default();
    let session =
        Session::create(SessionId::from("s1"), Path::new("/w"), Box::new(bytes.clone()), Arc::new(Ticks::default()));
    (session, bytes)
}

pub fn user(text: &str) -> Message {
    Message::User(UserMessage { content: vec![Content::text(text)], timestamp: 1 })
}

pub fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| {
        Content::ToolCall(ToolCall {
            id: (*id).to_owned(),
            name: "read".to_owned(),
            arguments: serde_json::Map::new(),
            arguments_error: None,
            thought_signature: None,
            arguments_text: None,
        })
    };
    let content = ids.iter().map(call).collect();
    Message::Assistant(AssistantMessage { content, stop_reason: StopReason::ToolUse, ..AssistantMessage::default() })
}

pub fn says(text: &str) -> Message {
    Message::Assistant(AssistantMessage {
        content: vec![Content::text(text)],
        stop_reason: StopReason::Stop,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        usage: used(10, 0.25),
        ..AssistantMessage::default()
    })
}

/// So many tokens, at that price for all; at none, nobody knows the price.
pub fn used(tokens: u64, price: f64) -> Usage {
    let cost = Cost { input: price, total: price, unknown: price == 0.0, ..Cost::default() };
    Usage { input: tokens, cost, ..Usage::default() }.totalled()
}

pub fn result(id: &str) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: id.to_owned(),
        content: vec![Content::text(format!("result of {id}"))],
        ..ToolResultMessage::default()
    })
}

/// The projection in one line: `u:text`, `a[calls]`, `r:id` or `r:id!` for a mended one.
pub fn shape(session: &Session) -> String {
    let words: Vec<String> = session.project().messages.iter().map(|message| word(message)).collect();
    words.join(" ")
}

fn word(message: &Message) -> String {
    match message {
        Message::User(user) => format!("u:{}", user.content.iter().filter_map(Content::as_text).collect::<String>()),
        Message::Assistant(reply) if reply.tool_calls().next().is_none() => format!("a:{}", reply.text()),
        Message::Assistant(reply) => {
            format!("a[{}]", reply.tool_calls().map(|call| call.id.as_str()).collect::<Vec<_>>().join(","))
        }
        Message::ToolResult(result) => {
            format!("r:{}{}", result.tool_call_id, if result.is_error { "!" } else { "" })
        }
        other => format!("{other:?}"),
    }
}

/// The ids root -> leaf, those that sleep as well.
pub fn path_ids(session: &Session) -> Vec<String> {
    let mut ids = Vec::new();
    session.walk_path(&mut |entry: &Entry| ids.push(entry.id.to_string())).unwrap();
    ids
}

/// Those that are awake.
pub fn awake_ids(session: &Session) -> Vec<String> {
    session.path().iter().map(|entry| entry.id.to_string()).collect()
}

/// Every call has one result, right behind it, in the order asked, and no result is without its call.
pub fn assert_paired(session: &Session) {
    let mut open: Vec<String> = Vec::new();
    for message in &session.project().messages {
        match message.as_ref() {
            Message::ToolResult(result) => {
                assert!(!open.is_empty(), "a result without its call");
                assert_eq!(result.tool_call_id, open.remove(0));
            }
            other => {
                assert!(open.is_empty(), "a call without its result");
                if let Message::Assistant(reply) = other {
                    open = reply.tool_calls().map(|call| call.id.clone()).collect();
                }
            }
        }
    }
    assert!(open.is_empty());
}

/// A file of one header and these lines.
pub fn file(lines: &[&str]) -> Bytes {
    let header = r#"{"type":"session","version":3,"id":"x","timestamp":"","cwd":"/w"}"#;
    let mut text = format!("{header}\n");
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    Bytes::of(text)
}

/// A user's message as a line.
pub fn line(id: &str, parent: Option<&str>, text: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("{parent:?}"));
    format!(
        r#"{{"type":"message","id":{id:?},"parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"user","content":{text:?}}}}}"#
    )
}
