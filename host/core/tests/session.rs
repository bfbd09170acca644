//! The tree and the projection, on real lines: what is appended is read back, what is damaged loses only itself.
#![allow(clippy::unwrap_used, missing_docs)]

use futures::future::BoxFuture;
use pith_core::{Clock, Diagnostic, LineFault, LoadedTree, Session, Store, StoreError, StoreFault, TreeReader, Trust};
use pith_protocol::{
    AssistantMessage, Content, Entry, Message, SessionId, StopReason, ToolCall, ToolResultMessage, UserMessage,
};
use proptest::prelude::*;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

/// Bytes that two sessions can share, as a file's.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Store for Bytes {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        self.0.lock().unwrap().extend_from_slice(lines);
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let start = offset as usize;
        Ok(self.0.lock().unwrap()[start..start + length].to_vec())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Bytes {
    fn of(path: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases").join(path);
        Self(Arc::new(Mutex::new(std::fs::read(path).unwrap())))
    }

    fn load(&self) -> LoadedTree {
        let bytes = self.0.lock().unwrap();
        let mut reader = TreeReader::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ended = line.ends_with(b"\n");
            reader.push_line(line.strip_suffix(b"\n").unwrap_or(line), ended).unwrap();
        }
        reader.finish().unwrap()
    }

    fn resume(&self) -> (Session, Vec<Diagnostic>) {
        Session::resume(self.load(), Path::new("/w"), Box::new(self.clone()), Arc::new(Ticks::default()), Trust::Own)
            .unwrap()
    }
}

/// A clock that counts, and ids that count.
#[derive(Default)]
struct Ticks {
    time: AtomicI64,
    id: AtomicU32,
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

fn fresh() -> (Session, Bytes) {
    let bytes = Bytes::default();
    let session =
        Session::create(SessionId::from("s1"), Path::new("/w"), Box::new(bytes.clone()), Arc::new(Ticks::default()));
    (session, bytes)
}

fn user(text: &str) -> Message {
    Message::User(UserMessage { content: vec![Content::text(text)], timestamp: 1 })
}

fn calls(ids: &[&str]) -> Message {
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

fn result(id: &str) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: id.to_owned(),
        content: vec![Content::text(format!("result of {id}"))],
        ..ToolResultMessage::default()
    })
}

/// The projection in one line: `u:text`, `a[calls]`, `r:id` or `r:id!` for a mended one.
fn shape(session: &Session) -> String {
    let words: Vec<String> = session
        .project()
        .messages
        .iter()
        .map(|message| match message.as_ref() {
            Message::User(user) => {
                format!("u:{}", user.content.iter().filter_map(Content::as_text).collect::<String>())
            }
            Message::Assistant(reply) if reply.tool_calls().next().is_none() => format!("a:{}", reply.text()),
            Message::Assistant(reply) => {
                format!("a[{}]", reply.tool_calls().map(|call| call.id.as_str()).collect::<Vec<_>>().join(","))
            }
            Message::ToolResult(result) => {
                format!("r:{}{}", result.tool_call_id, if result.is_error { "!" } else { "" })
            }
            other => format!("{other:?}"),
        })
        .collect();
    words.join(" ")
}

#[test]
fn nothing_is_written_before_the_first_append_and_then_the_header_comes_first() {
    let (session, bytes) = fresh();
    assert!(bytes.0.lock().unwrap().is_empty());
    session.append(user("hi")).unwrap();
    let text = String::from_utf8(bytes.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with(r#"{"type":"session","version":3,"id":"s1","timestamp":""#), "{}", lines[0]);
    assert_eq!(
        lines[1],
        r#"{"type":"message","id":"00000000","parentId":null,"timestamp":"1970-01-01T00:00:00.001Z","message":{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1}}"#
    );
}

#[test]
fn results_stand_behind_their_calls_in_the_order_asked() {
    let (session, _) = fresh();
    for message in [user("go"), calls(&["c1", "c2", "c3"]), result("c3"), user("steer"), result("c1"), result("c9")] {
        session.append(message).unwrap();
    }
    assert_eq!(shape(&session), "u:go a[c1,c2,c3] r:c1 r:c2! r:c3 u:steer");
    assert_eq!(session.project().mended, ["c2", "c9"]);
}

#[test]
fn failed_and_stopped_replies_are_not_shown_to_the_model() {
    let (session, _) = fresh();
    let failed = |stop_reason| {
        Message::Assistant(AssistantMessage {
            content: vec![Content::text("half")],
            stop_reason,
            ..AssistantMessage::default()
        })
    };
    for message in
        [user("a"), failed(StopReason::Error), failed(StopReason::Aborted), user("b"), failed(StopReason::Stop)]
    {
        session.append(message).unwrap();
    }
    assert_eq!(shape(&session), "u:a u:b a:half");
}

/// Bug 01: a compaction stands between a call and its result; a later one keeps from before it.
#[test]
fn a_compaction_between_a_call_and_its_result_parts_nothing() {
    let (session, diagnostics) = Bytes::of("bugs/01-compaction-mid-pair/session.jsonl").resume();
    assert_eq!(diagnostics, []);
    let projection = session.project();
    assert_eq!(projection.mended, Vec::<String>::new());
    let shape = shape(&session);
    assert_eq!(
        shape,
        "u:The conversation so far, in short:\n<summary>\nEarlier: started; listed files.\n</summary> \
         u:list the files a[toolu_1] r:toolu_1 a:One file. u:thanks a:Welcome. u:next"
    );
}

#[test]
fn ids_that_a_server_uses_again_belong_to_the_nearest_call_before() {
    let (session, _) = fresh();
    for message in
        [user("a"), calls(&["c0"]), result("c0"), user("b"), calls(&["c0", "c1"]), result("c1"), result("c0")]
    {
        session.append(message).unwrap();
    }
    assert_eq!(shape(&session), "u:a a[c0] r:c0 u:b a[c0,c1] r:c0 r:c1");
    assert_eq!(session.project().mended, Vec::<String>::new());
}

/// Bug 07: every whole record after the damage is loaded, and the next append begins a fresh line.
#[test]
fn damage_loses_only_its_line_and_the_next_append_starts_fresh() {
    for (file, ids) in [
        ("torn-last-line.jsonl", &["m1", "m2"][..]),
        ("torn-then-rewritten.jsonl", &["m1", "m2", "m3"]),
        ("torn-glued.jsonl", &["m1", "m2", "m3"]),
        ("nul-run-midfile.jsonl", &["m1", "m2", "m3"]),
    ] {
        let bytes = Bytes::of(&format!("bugs/07-torn-lines/{file}"));
        let (session, diagnostics) = bytes.resume();
        assert!(!diagnostics.is_empty(), "{file}: damage is told");
        let path: Vec<String> = session.path().iter().map(|entry| entry.id.to_string()).collect();
        for id in ids {
            assert!(path.iter().any(|present| present == id), "{file}: {id} is lost; there are {path:?}");
        }
        session.append(user("after")).unwrap();
        let (again, _) = bytes.resume();
        let last = again.path().last().unwrap().clone();
        assert!(matches!(last.message(), Some(Message::User(_))), "{file}");
        assert_eq!(again.path().len(), path.len() + 1, "{file}: nothing more is lost by the append");
    }
}

#[test]
fn a_line_of_nul_bytes_and_one_without_an_entry_are_named_by_their_number() {
    let bytes = Bytes::default();
    let header = r#"{"type":"session","version":3,"id":"x","timestamp":"","cwd":"/w"}"#;
    let one = r#"{"type":"message","id":"m1","parentId":null,"timestamp":"","message":{"role":"user","content":"hi"}}"#;
    let odd = r#"{"type":"from_the_future","id":"f1","parentId":"m1","timestamp":"","data":{"a":[1.50,{}]}}"#;
    let text = format!("{header}\n{one}\n\0\0\0\0\n[1,2]\n{odd}\n");
    bytes.append(text.as_bytes()).unwrap();
    let (session, diagnostics) = bytes.resume();
    assert_eq!(
        diagnostics,
        [
            Diagnostic::Damaged { line: 3, fault: LineFault::Nul },
            Diagnostic::Damaged { line: 4, fault: LineFault::NotAnEntry }
        ]
    );
    assert_eq!(session.path().len(), 2, "an unknown type is kept");
    assert_eq!(shape(&session), "u:hi");
}

/// A file of others is copied as it is: key order, numbers and unknown fields survive.
#[test]
fn adopting_a_foreign_file_copies_its_raw_lines() {
    let source = Bytes::of("pi/session-tools.jsonl");
    let before = source.0.lock().unwrap().clone();
    let target = Bytes::default();
    let (session, diagnostics) = Session::adopt(
        source.load(),
        &source,
        "/elsewhere/session.jsonl".to_owned(),
        SessionId::from("mine"),
        Path::new("/w"),
        Box::new(target.clone()),
        Arc::new(Ticks::default()),
        Trust::Foreign,
    )
    .unwrap();
    assert_eq!(diagnostics, []);
    assert!(target.0.lock().unwrap().is_empty(), "nothing is written before the first append");
    session.append(user("go on")).unwrap();
    assert_eq!(*source.0.lock().unwrap(), before);
    let copied = String::from_utf8(target.0.lock().unwrap().clone()).unwrap();
    let original = String::from_utf8(before).unwrap();
    let copied_lines: Vec<&str> = copied.lines().collect();
    assert!(
        copied_lines[0].contains(r#""cwd":"/w","parentSession":"/elsewhere/session.jsonl""#),
        "{}",
        copied_lines[0]
    );
    let original_lines: Vec<&str> = original.lines().collect();
    assert_eq!(copied_lines[1..original_lines.len()], original_lines[1..]);
    let (again, _) = target.resume();
    assert_eq!(again.path().len(), original_lines.len() + 1, "a mark stands between theirs and ours");
}

#[derive(Clone, Debug)]
enum Step {
    User(String),
    Calls(Vec<u8>),
    Result(u8),
    Reopen,
    Tear(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        "\\PC{1,12}".prop_map(Step::User),
        prop::collection::vec(0u8..6, 1..4).prop_map(Step::Calls),
        (0u8..6).prop_map(Step::Result),
        Just(Step::Reopen),
        (1usize..40).prop_map(Step::Tear),
    ];
    prop::collection::vec(step, 1..25)
}

proptest! {
    /// Whatever is appended, torn and reopened: the session loads, goes on, and every call in the model's view has one result.
    #[test]
    fn any_history_projects_to_a_valid_request(steps in steps()) {
        let (mut session, bytes) = fresh();
        session.append(user("start")).unwrap();
        for step in steps {
            match step {
                Step::User(text) => drop(session.append(user(&text)).unwrap()),
                Step::Calls(ids) => {
                    let ids: Vec<String> = ids.iter().map(|id| format!("c{id}")).collect();
                    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                    drop(session.append(calls(&ids)).unwrap());
                }
                Step::Result(id) => drop(session.append(result(&format!("c{id}"))).unwrap()),
                Step::Reopen => session = reopened(&bytes),
                Step::Tear(cut) => {
                    {
                        let mut all = bytes.0.lock().unwrap();
                        let header = all.iter().position(|byte| *byte == b'\n').unwrap() + 1;
                        let keep = all.len().saturating_sub(cut).max(header);
                        all.truncate(keep);
                    }
                    session = reopened(&bytes);
                }
            }
            let messages = session.project().messages;
            let mut open: Vec<String> = Vec::new();
            for message in &messages {
                match message.as_ref() {
                    Message::ToolResult(result) => {
                        prop_assert!(!open.is_empty());
                        prop_assert_eq!(&result.tool_call_id, &open.remove(0));
                    }
                    other => {
                        prop_assert!(open.is_empty(), "a call without its result");
                        if let Message::Assistant(reply) = other {
                            open = reply.tool_calls().map(|call| call.id.clone()).collect();
                        }
                    }
                }
            }
            prop_assert!(open.is_empty());
        }
        let again = reopened(&bytes);
        let ids = |session: &Session| session.path().iter().map(|entry: &Arc<Entry>| entry.id.clone()).collect::<Vec<_>>();
        prop_assert_eq!(ids(&again), ids(&session));
    }
}

fn reopened(bytes: &Bytes) -> Session {
    let clock = Ticks { id: AtomicU32::new(rand_start(bytes)), ..Ticks::default() };
    Session::resume(bytes.load(), &PathBuf::from("/w"), Box::new(bytes.clone()), Arc::new(clock), Trust::Own).unwrap().0
}

/// Ids go on where the file's end: a counter that began again would repeat them, which the tree would draw again.
fn rand_start(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.0.lock().unwrap().len()).unwrap().wrapping_mul(7919)
}

#[test]
fn an_unwritable_store_leaves_memory_as_it_was() {
    struct Full;
    impl Store for Full {
        fn append(&self, _: &[u8]) -> Result<(), StoreError> {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            Err(StoreError { kind: StoreFault::Changed, file: "x".to_owned(), action: "written", source })
        }
        fn read(&self, _: u64, _: usize) -> Result<Vec<u8>, StoreError> {
            Ok(Vec::new())
        }
        fn sync(&self) -> Result<(), StoreError> {
            Ok(())
        }
    }
    let session = Session::create(SessionId::from("s"), Path::new("/w"), Box::new(Full), Arc::new(Ticks::default()));
    let error = session.append(user("x")).unwrap_err().to_string();
    assert!(error.contains("cannot be written"), "{error}");
    assert!(session.is_empty());
}
