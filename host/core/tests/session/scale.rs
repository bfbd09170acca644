//! Long paths and many entries: nothing recurses, nothing is quadratic. Work is bounded by the test's own end, not by a clock.

use crate::house::{Bytes, assert_paired, file, fresh, line, path_ids, shape, user};
use pith_core::EntryKind;
use pith_protocol::EntryId;
use std::fmt::Write;

const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"x\",\"timestamp\":\"\",\"cwd\":\"/w\"}\n";

#[test]
fn a_million_tiny_entries_on_one_path() {
    let mut text = HEADER.to_owned();
    for n in 0..1_000_000u32 {
        let parent = n.checked_sub(1).map_or("null".to_owned(), |parent| format!("\"{parent:08x}\""));
        writeln!(text, r#"{{"type":"label","id":"{n:08x}","parentId":{parent},"targetId":"z"}}"#).unwrap();
    }
    let (session, diagnostics) = Bytes::of(text).resume();
    assert_eq!((session.totals().entries, diagnostics.len()), (1_000_000, 0));
    let middle = EntryId::from_bits(500_000);
    assert_eq!(session.move_leaf(Some(&middle)).unwrap().left.len(), 499_999);
    assert_eq!(session.path().len(), 500_002);
}

#[test]
fn a_path_of_200_000_messages_with_calls_that_repeat_their_ids() {
    let mut text = HEADER.to_owned();
    for n in 0..200_000u32 {
        let parent = n.checked_sub(1).map_or("null".to_owned(), |parent| format!("\"{parent:08x}\""));
        // First results without calls, then calls without results: the worst for pairing.
        let message = if n < 100_000 {
            r#"{"role":"toolResult","toolCallId":"c","content":"r"}"#
        } else {
            r#"{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":{}}],"stopReason":"toolUse"}"#
        };
        writeln!(text, r#"{{"type":"message","id":"{n:08x}","parentId":{parent},"timestamp":"","message":{message}}}"#)
            .unwrap();
    }
    let (session, _) = Bytes::of(text).resume();
    assert_paired(&session);
    let projected = session.project();
    assert_eq!((projected.messages.len(), projected.mended.len()), (200_000, 200_000));
}

#[test]
fn many_branches_cost_no_body() {
    let mut lines = vec![line("r", None, "root")];
    lines.extend((0..10_000).map(|n| line(&format!("b{n}"), Some("r"), "branch")));
    let (session, _) = file(&lines.iter().map(String::as_str).collect::<Vec<_>>()).resume();
    assert_eq!((session.path().len(), session.totals().entries), (2, 10_001));
    assert_eq!(session.outline().iter().filter(|one| one.kind == EntryKind::User).count(), 10_001);
    session.move_leaf(Some(&EntryId::from("b77"))).unwrap();
    assert_eq!(path_ids(&session)[..2], ["r", "b77"]);
}

#[test]
fn a_line_at_a_time_and_many_at_once_are_the_same() {
    let (session, bytes) = fresh();
    for n in 0..300 {
        session.append(user(&format!("{n} {}", "x".repeat(n * 37)))).unwrap();
    }
    assert_eq!(shape(&bytes.resume().0), shape(&session));
}
