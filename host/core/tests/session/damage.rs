//! Damaged files, and odd ones: nothing is lost but what is named.

use crate::house::{Bytes, file, line, path_ids, shape, user};
use pith_core::{DIAGNOSTICS_KEPT, Diagnostic, LineFault, ReadError, SessionError, Trust};
use pith_protocol::{EntryId, Message};

/// Bug 07: every whole record after the damage is loaded, and the next append begins a fresh line.
#[test]
fn damage_loses_only_its_line_and_the_next_append_starts_fresh() {
    for (file, ids) in [
        ("torn-last-line.jsonl", &["m1", "m2"][..]),
        ("torn-then-rewritten.jsonl", &["m1", "m2", "m3"]),
        ("torn-glued.jsonl", &["m1", "m2", "m3"]),
        ("nul-run-midfile.jsonl", &["m1", "m2", "m3"]),
    ] {
        let bytes = Bytes::case(&format!("bugs/07-torn-lines/{file}"));
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
    let one = line("m1", None, "hi");
    let odd = r#"{"type":"from_the_future","id":"f1","parentId":"m1","timestamp":"","data":{"a":[1.50,{}]}}"#;
    let bytes = file(&[&one, "\0\0\0\0", "[1,2]", odd]);
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

#[test]
fn parents_that_are_not_there_yet_are_lost_and_never_a_loop() {
    let lines = [
        line("a", Some("a"), "self"),
        line("b", Some("d"), "forward"),
        line("c", Some("b"), "c"),
        line("d", Some("c"), "d"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (session, diagnostics) = file(&lines).resume();
    assert_eq!(path_ids(&session), ["a", "b", "c", "d"]);
    let lost = |line, id: &str| Diagnostic::LostParent { line, id: EntryId::from(id) };
    assert_eq!(diagnostics, [lost(2, "a"), lost(3, "b")]);
}

#[test]
fn an_id_that_comes_again_is_left_out() {
    let lines = [line("a", None, "first"), line("b", Some("a"), "b"), line("a", Some("b"), "again")];
    let (session, diagnostics) = file(&lines.each_ref().map(String::as_str)).resume();
    assert_eq!(shape(&session), "u:first u:b");
    assert_eq!(diagnostics, [Diagnostic::RepeatedId { line: 4, id: EntryId::from("a") }]);
}

#[test]
fn the_last_entry_of_the_file_is_the_leaf_also_on_another_branch() {
    let lines = [line("a", None, "a"), line("b", Some("a"), "b"), line("c", Some("b"), "c"), line("d", Some("a"), "d")];
    let (session, diagnostics) = file(&lines.each_ref().map(String::as_str)).resume();
    assert_eq!((shape(&session), diagnostics), ("u:a u:d".to_owned(), Vec::new()));
}

#[test]
fn byte_order_marks_carriage_returns_and_blank_lines_are_nothing() {
    let text = file(&[&line("a", None, "a"), "", &line("b", Some("a"), "b")]).text().replace('\n', "\r\n");
    let bytes = Bytes::of(format!("\u{feff}{text}"));
    let (session, diagnostics) = bytes.resume();
    assert_eq!((shape(&session), diagnostics), ("u:a u:b".to_owned(), Vec::new()));
    assert_eq!(session.raw_line(&EntryId::from("b")).unwrap().unwrap(), line("b", Some("a"), "b").as_bytes());
    session.append(user("c")).unwrap();
    assert_eq!(shape(&bytes.resume().0), "u:a u:b u:c");
}

#[test]
fn ids_may_be_any_text() {
    let lines = [line("", None, "empty"), line("ünï", Some(""), "u"), line(&"x".repeat(5000), Some("ünï"), "long")];
    let (session, diagnostics) = file(&lines.each_ref().map(String::as_str)).resume();
    assert_eq!((shape(&session), diagnostics), ("u:empty u:u u:long".to_owned(), Vec::new()));
    assert_eq!(session.entry(&EntryId::from("ünï")).unwrap().unwrap().id.as_str(), "ünï");
}

/// Damage to the header is damage to one line: what follows is there, in a new file.
#[test]
fn a_damaged_header_costs_no_entry() {
    for first in ["\0\0\0\0\0", r#"{"type":"session","version":3,"id":"x","#] {
        let bytes = Bytes::of(format!("{first}\n{}\n{}\n", line("a", None, "a"), line("b", Some("a"), "b")));
        let loaded = bytes.load();
        assert!(!loaded.is_current() && loaded.header().id.as_str().is_empty());
        assert!(loaded.diagnostics.contains(&Diagnostic::LostHeader), "{:?}", loaded.diagnostics);
        let (session, target, _) = bytes.adopt(Trust::Foreign);
        assert_eq!(shape(&session), "u:a u:b");
        session.append(user("c")).unwrap();
        assert_eq!(shape(&target.resume().0), "u:a u:b u:c");
    }
    // A header in the second line, after damage.
    let text = file(&[&line("a", None, "a")]).text();
    let (session, diagnostics) = Bytes::of(format!("{{\"torn\n{text}")).resume();
    assert_eq!(shape(&session), "u:a");
    assert_eq!(diagnostics, [Diagnostic::Damaged { line: 1, fault: LineFault::Torn }]);
}

#[test]
fn what_is_no_session_is_none() {
    for text in ["", "\n\n", "hello\n", "{\"a\":1}\n", "[]\n", "\0\0\0\n\0\n"] {
        assert!(matches!(Bytes::of(text).try_load(), Err(ReadError::NoHeader)), "{text:?}");
    }
    let entry_first = line("a", None, "a");
    assert!(matches!(Bytes::of(entry_first).try_load(), Err(ReadError::NoHeader)));
    let transcript = "{\"torn\n{\"type\":\"assistant\",\"id\":\"a\"}\n";
    assert!(matches!(Bytes::of(transcript).try_load(), Err(ReadError::NoHeader)));
    let newer = r#"{"type":"session","version":4,"id":"x"}"#;
    assert!(matches!(Bytes::of(newer).try_load(), Err(ReadError::TooNew(4))));
}

#[test]
fn a_second_header_cuts_nothing_off() {
    let header = r#"{"type":"session","version":3,"id":"y","timestamp":"","cwd":"/w"}"#;
    let (session, diagnostics) = file(&[&line("a", None, "a"), header, &line("b", Some("a"), "b")]).resume();
    assert_eq!(shape(&session), "u:a u:b");
    assert_eq!(diagnostics, [Diagnostic::Damaged { line: 3, fault: LineFault::SecondHeader }]);
}

#[test]
fn a_block_of_a_torn_reply_is_no_entry() {
    let torn = r#"{"type":"message","id":"r","parentId":"a","message":{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"n","arguments":{}}"#;
    let (session, diagnostics) = file(&[&line("a", None, "a"), torn, &line("b", Some("a"), "b")]).resume();
    assert_eq!(path_ids(&session), ["a", "b"]);
    assert_eq!(diagnostics, [Diagnostic::Damaged { line: 3, fault: LineFault::Torn }]);
}

#[test]
fn what_is_wrong_with_a_million_lines_is_said_shortly() {
    let bytes = file(&vec!["[]"; DIAGNOSTICS_KEPT + 5]);
    let (_, diagnostics) = bytes.resume();
    assert_eq!(diagnostics.len(), DIAGNOSTICS_KEPT + 1);
    assert_eq!(diagnostics.last(), Some(&Diagnostic::More { count: 5 }));
}

#[test]
fn a_line_that_changed_under_the_session_is_an_error_and_no_panic() {
    let bytes = file(&[&line("a", None, "a"), &line("b", Some("a"), "b"), &line("c", Some("a"), "c")]);
    let (session, _) = bytes.resume();
    let length = bytes.all().len();
    *bytes.0.lock().unwrap() = vec![b'x'; length];
    assert!(matches!(session.entry(&EntryId::from("b")), Err(SessionError::Changed { .. })));
    bytes.0.lock().unwrap().clear();
    assert!(matches!(session.entry(&EntryId::from("b")), Err(SessionError::Store(_))));
    assert!(session.move_leaf(Some(&EntryId::from("b"))).is_err());
    assert_eq!(path_ids(&session), ["a", "c"], "the leaf stays where it was");
}

/// In a new file, an entry that lost its parent names the one that it went on from: whatever comes there later is not taken for it.
#[test]
fn a_lost_parent_is_not_lost_again_in_a_copy() {
    let bytes = file(&[&line("a", None, "a"), &line("b", Some("gone"), "b"), &line("c", Some("b"), "c")]);
    let (session, target, diagnostics) = bytes.adopt(Trust::Foreign);
    assert_eq!(diagnostics.len(), 1);
    session.append(user("d")).unwrap();
    let lines = target.lines();
    assert_eq!((&lines[1], &lines[3]), (&line("a", None, "a"), &line("c", Some("b"), "c")));
    assert_eq!(lines[2], line("b", Some("a"), "b"));
    let (again, diagnostics) = target.resume();
    assert_eq!((shape(&again), diagnostics), ("u:a u:b u:c u:d".to_owned(), Vec::new()));
}
