//! Stores that cannot write: what was said stays, in order, and is written when they can.

use crate::house::{Bytes, Fault, fresh, path_ids, shape, user};
use pith_core::{LINE_LIMIT_BYTES, SessionError, StoreFault, Trust, UNSAVED_LIMIT_BYTES};

#[test]
fn what_cannot_be_written_waits_and_is_written_in_order() {
    for fault in [Fault::Refuses(StoreFault::Unwritable), Fault::Partial] {
        let (session, bytes) = fresh();
        session.append(user("a")).unwrap();
        let saved = bytes.all();
        assert_eq!(session.unsaved(), None);
        bytes.fail(fault);
        session.append(user("b")).unwrap();
        let first = session.append(user("c")).unwrap().id.clone();
        assert_eq!(bytes.all(), saved, "the file is as it was");
        let waiting = session.unsaved().unwrap();
        assert_eq!(waiting.entries, 2);
        assert!(waiting.reason.contains("cannot be written") && waiting.bytes > 200, "{waiting:?}");
        assert!(matches!(session.save(), Err(SessionError::Store(_))));
        session.sync().unwrap();
        assert_eq!(session.unsaved(), Some(waiting), "a full disk does not end a run, and what waits waits on");
        // All of it is there meanwhile, by every way of reading.
        assert_eq!(shape(&session), "u:a u:b u:c");
        assert_eq!(path_ids(&session).len(), 3);
        assert!(session.raw_line(&first).unwrap().unwrap().starts_with(b"{\"type\":\"message\""));
        session.move_leaf(Some(&first)).unwrap();
        bytes.fail(Fault::None);
        session.append(user("d")).unwrap();
        assert_eq!(session.unsaved(), None);
        assert!(bytes.all().starts_with(&saved));
        assert_eq!(shape(&bytes.resume().0), "u:a u:b u:c u:d");
    }
}

#[test]
fn save_and_sync_write_what_waits() {
    for sync in [false, true] {
        let (session, bytes) = fresh();
        bytes.fail(Fault::Refuses(StoreFault::Unwritable));
        session.append(user("a")).unwrap();
        assert!(bytes.all().is_empty());
        bytes.fail(Fault::None);
        if sync { session.sync() } else { session.save() }.unwrap();
        assert_eq!((session.unsaved(), shape(&bytes.resume().0)), (None, "u:a".to_owned()));
    }
}

#[test]
fn what_waits_can_be_read_compacted_and_moved_over() {
    let (session, bytes) = fresh();
    let first = session.append(user("a")).unwrap().id.clone();
    bytes.fail(Fault::Refuses(StoreFault::Unwritable));
    let second = session.append(user("b")).unwrap().id.clone();
    session.append(user("c")).unwrap();
    session.move_leaf(Some(&first)).unwrap();
    assert_eq!(shape(&session), "u:a");
    assert_eq!(session.entry(&second).unwrap().unwrap().id, second);
    session.move_leaf(Some(&second)).unwrap();
    bytes.fail(Fault::None);
    session.save().unwrap();
    assert_eq!(shape(&bytes.resume().0), "u:a u:b");
}

#[test]
fn a_file_that_others_changed_gets_nothing_and_memory_is_as_before() {
    for kind in [StoreFault::Changed, StoreFault::TooLarge] {
        let (session, bytes) = fresh();
        session.append(user("a")).unwrap();
        bytes.fail(Fault::Refuses(kind));
        let error = session.append(user("b")).unwrap_err().to_string();
        assert!(error.contains("cannot be written"), "{error}");
        assert_eq!((shape(&session), session.unsaved()), ("u:a".to_owned(), None));
        bytes.fail(Fault::None);
        session.append(user("c")).unwrap();
        assert_eq!((shape(&bytes.resume().0).as_str(), bytes.lines().len()), ("u:a u:c", 3), "of b, nothing is left");
    }
}

#[test]
fn what_waited_already_waits_on_where_the_next_is_refused() {
    let (session, bytes) = fresh();
    bytes.fail(Fault::Refuses(StoreFault::Unwritable));
    session.append(user("a")).unwrap();
    bytes.fail(Fault::Refuses(StoreFault::Changed));
    assert!(session.append(user("b")).is_err());
    assert_eq!((shape(&session), session.unsaved().unwrap().entries), ("u:a".to_owned(), 1));
    bytes.fail(Fault::None);
    session.append(user("c")).unwrap();
    assert_eq!(shape(&bytes.resume().0), "u:a u:c");
}

#[test]
fn memory_is_bounded() {
    let (session, bytes) = fresh();
    session.append(user("a")).unwrap();
    bytes.fail(Fault::Refuses(StoreFault::Unwritable));
    let long = "x".repeat(8 << 20);
    let mut kept = 0;
    let error = loop {
        match session.append(user(&long)) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(kept, 7);
    assert!(matches!(error, SessionError::TooMuchUnsaved { .. }), "{error}");
    let waiting = session.unsaved().unwrap();
    assert!(waiting.entries == 7 && waiting.bytes <= UNSAVED_LIMIT_BYTES, "{waiting:?}");
    bytes.fail(Fault::None);
    session.append(user("b")).unwrap();
    assert_eq!(bytes.resume().0.path().len(), 9);
}

/// What an adopted session copies is not counted as waiting: it is another file's.
#[test]
fn an_adopted_session_waits_too() {
    let (session, target, _) = Bytes::case("pi/session-tools.jsonl").adopt(Trust::Foreign);
    assert_eq!(session.unsaved(), None);
    target.fail(Fault::Partial);
    session.append(user("a")).unwrap();
    assert_eq!(session.unsaved().unwrap().entries, 2, "the mark and the message");
    target.fail(Fault::None);
    session.sync().unwrap();
    assert_eq!(shape(&target.resume().0), shape(&session));
}

/// It would be left out when the file is read.
#[test]
fn an_entry_that_is_too_long_to_be_read_is_not_written() {
    let (session, bytes) = fresh();
    session.append(user("a")).unwrap();
    let long = user(&"x".repeat(LINE_LIMIT_BYTES));
    let error = session.append_all(vec![user("b").into(), long.into()]).unwrap_err();
    assert!(matches!(error, SessionError::TooLong { .. }), "{error}");
    session.append(user("c")).unwrap();
    assert_eq!((shape(&bytes.resume().0).as_str(), bytes.lines().len()), ("u:a u:c", 3));
}
