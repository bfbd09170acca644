//! What a session writes, and how it moves.

use crate::house::{Bytes, fresh, path_ids, result, says, shape, used, user};
use pith_core::{EntryKind, ForkOrder, ForkPoint, ModelUsage, Moved, SessionError, TITLE_CHARS};
use pith_protocol::{BranchSummaryEntry, Custom, EntryBody, EntryId, Message, ModelChange, SessionId, UsageEntry};
use serde_json::json;

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
fn a_move_is_an_entry_at_its_target() {
    let (session, bytes) = fresh();
    let ids: Vec<EntryId> = (0..4).map(|n| session.append(user(&format!("m{n}"))).unwrap().id.clone()).collect();
    let moved = session.move_leaf(Some(&ids[1])).unwrap();
    let expected = Moved {
        from: Some(ids[3].clone()),
        to: Some(ids[1].clone()),
        common: Some(ids[1].clone()),
        left: ids[2..].to_vec(),
    };
    assert_eq!(moved, expected);
    assert_eq!(shape(&session), "u:m0 u:m1");
    let last = bytes.lines().pop().unwrap();
    let says = format!(r#""parentId":"{}""#, ids[1]);
    assert!(last.contains(&says) && last.contains(r#""customType":"pith/leaf","data":{"from":"00000003"}"#), "{last}");
    assert_eq!(shape(&bytes.resume().0), "u:m0 u:m1");
    // There already: nothing is written.
    let leaf = session.leaf_id();
    let nothing = session.move_leaf(leaf.as_ref()).unwrap();
    assert_eq!((nothing.left.len(), bytes.lines().len()), (0, 6));
    session.append(user("other")).unwrap();
    let back = session.move_leaf(Some(&ids[3])).unwrap();
    assert_eq!((back.common.as_ref(), back.left.len()), (Some(&ids[1]), 2));
    assert_eq!(shape(&bytes.resume().0), "u:m0 u:m1 u:m2 u:m3");
    // Before the first: a new root.
    let out = session.move_leaf(None).unwrap();
    assert_eq!((out.common, out.left.len(), shape(&session)), (None, 5, String::new()));
    session.append(user("root")).unwrap();
    assert_eq!(shape(&bytes.resume().0), "u:root");
    assert!(matches!(session.move_leaf(Some(&EntryId::from("no"))), Err(SessionError::NotFound(_))));
}

#[test]
fn a_summary_at_its_target_moves_the_leaf_in_the_same_write() {
    let (session, bytes) = fresh();
    let first = session.append(user("a")).unwrap().id.clone();
    let second = session.append(user("b")).unwrap().id.clone();
    let summary = EntryBody::BranchSummary(BranchSummaryEntry {
        from_id: second.to_string(),
        summary: "tried b".to_owned(),
        details: None,
        usage: Some(used(5, 1.0)),
        from_hook: None,
    });
    session.append_at(Some(&first), vec![summary, user("c").into()]).unwrap();
    let shown = shape(&session);
    assert!(shown.starts_with("u:a u:Another branch") && shown.ends_with("u:c"), "{shown}");
    assert_eq!(shape(&bytes.resume().0), shown);
    let kinds: Vec<EntryKind> = session.outline().iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [EntryKind::User, EntryKind::User, EntryKind::BranchSummary, EntryKind::User]);
    let parents: Vec<Option<usize>> = session.outline().iter().map(|one| one.parent).collect();
    assert_eq!(parents, [None, Some(0), Some(0), Some(2)]);
}

#[test]
fn labels_and_names_are_one_line_and_the_last_word_counts() {
    let (session, bytes) = fresh();
    let id = session.append(user("a")).unwrap().id.clone();
    session.set_label(&id, Some("  two\nlines\u{1b}[31m ".to_owned())).unwrap();
    assert_eq!(session.label(&id).as_deref(), Some("two lines [31m"));
    session.set_name(Some("x".repeat(500))).unwrap();
    assert_eq!(session.name().unwrap().chars().count(), TITLE_CHARS);
    let (again, _) = bytes.resume();
    assert_eq!((again.labels(), again.name()), (session.labels(), session.name()));
    session.set_label(&id, Some(" \t".to_owned())).unwrap();
    session.set_name(None).unwrap();
    let (again, _) = bytes.resume();
    assert_eq!((session.labels(), session.name(), again.labels(), again.name()), (vec![], None, vec![], None));
    assert!(matches!(session.set_label(&EntryId::from("no"), None), Err(SessionError::NotFound(_))));
}

#[test]
fn totals_are_of_all_branches_and_the_same_after_a_reload() {
    let (session, bytes) = fresh();
    let first = session.append(user("  the first\nwords ")).unwrap().id.clone();
    session.append(says("one")).unwrap();
    session.move_leaf(Some(&first)).unwrap();
    session.append(EntryBody::ModelChange(ModelChange { provider: "q".to_owned(), model_id: "n".to_owned() })).unwrap();
    session
        .append(EntryBody::BranchSummary(BranchSummaryEntry {
            from_id: String::new(),
            summary: String::new(),
            details: None,
            usage: Some(used(5, 1.0)),
            from_hook: None,
        }))
        .unwrap();
    session
        .append(EntryBody::Usage(UsageEntry {
            kind: "plugin".to_owned(),
            provider: "q".to_owned(),
            model: "free".to_owned(),
            usage: used(100, 0.0),
            note: None,
        }))
        .unwrap();
    session.append(result("c")).unwrap();
    session.append(says("two")).unwrap();
    let totals = session.totals();
    assert_eq!((totals.entries, totals.users, totals.assistants, totals.tool_results), (8, 1, 2, 1));
    assert_eq!(totals.first_user_text.as_deref(), Some("the first\nwords"));
    let of = |provider: &str, model: &str| {
        let found = totals.usage.iter().find(|one| one.provider == provider && one.model == model);
        found.map(|one: &ModelUsage| (one.replies, one.usage.total_tokens, one.usage.cost.total, one.unpriced_tokens))
    };
    assert_eq!(of("p", "m"), Some((2, 20, 0.5, 0)));
    assert_eq!(of("q", "n"), Some((0, 5, 1.0, 0)), "a summary is the present model's");
    assert_eq!(of("q", "free"), Some((0, 100, 0.0, 100)), "what has no known price is counted as that");
    assert_eq!(bytes.resume().0.totals(), totals);
    assert_eq!(bytes.load().totals(), totals);
    // A reply that began and was never counted is not one that cost nothing.
    let mut reply = says("three");
    if let Message::Assistant(reply) = &mut reply {
        reply.usage = used(0, 0.0);
    }
    session.append(reply).unwrap();
    let totals = session.totals();
    assert_eq!(totals.usage[0].uncounted_replies, 1);
    assert_eq!(bytes.load().totals(), totals);
}

#[test]
fn a_fork_has_the_raw_lines_of_its_path_and_their_labels() {
    let source = Bytes::case("pi/session-tools.jsonl");
    let (session, _) = source.resume();
    let ids = path_ids(&session);
    let middle = EntryId::from(ids[4].as_str());
    session.set_label(&EntryId::from(ids[2].as_str()), Some("here".to_owned())).unwrap();
    session.append(user("later")).unwrap();
    let target = Bytes::default();
    let order = ForkOrder {
        at: ForkPoint::At(middle.clone()),
        id: SessionId::from("new"),
        cwd: "/f".to_owned(),
        parent_session: Some("/old.jsonl".to_owned()),
    };
    assert_eq!(session.fork(&order, &target).unwrap(), 6);
    let (ours, theirs) = (target.lines(), source.lines());
    assert!(ours[0].contains(r#""id":"new""#) && ours[0].ends_with(r#""cwd":"/f","parentSession":"/old.jsonl"}"#));
    assert_eq!(ours[1..6], theirs[1..6]);
    let (forked, diagnostics) = target.resume();
    assert_eq!(diagnostics, []);
    assert_eq!(forked.label(&EntryId::from(ids[2].as_str())).as_deref(), Some("here"));
    // The file that was only read gives the same.
    let again = Bytes::default();
    source.load().fork(&source, &order, &crate::house::Ticks::default(), &again).unwrap();
    assert_eq!(again.lines()[1..6], ours[1..6]);
    // Before the first: nothing but the header.
    let empty = Bytes::default();
    let before = ForkOrder { at: ForkPoint::Before(EntryId::from(ids[0].as_str())), ..order };
    assert_eq!(session.fork(&before, &empty).unwrap(), 0);
    assert_eq!(empty.lines().len(), 1);
}

#[test]
fn a_fork_is_written_in_pieces() {
    struct Pieces(Bytes, std::sync::Mutex<Vec<usize>>);
    impl pith_core::Store for Pieces {
        fn append(&self, lines: &[u8]) -> Result<(), pith_core::StoreError> {
            self.1.lock().unwrap().push(lines.len());
            self.0.append(lines)
        }
        fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, pith_core::StoreError> {
            self.0.read(offset, length)
        }
        fn sync(&self) -> Result<(), pith_core::StoreError> {
            Ok(())
        }
    }
    let (session, source) = fresh();
    for n in 0..50 {
        session.append(user(&"x".repeat(if n == 25 { 3 << 20 } else { 100_000 }))).unwrap();
    }
    let pieces = Pieces(Bytes::default(), std::sync::Mutex::default());
    let order =
        ForkOrder { at: ForkPoint::Whole, id: SessionId::from("new"), cwd: String::new(), parent_session: None };
    session.fork(&order, &pieces).unwrap();
    assert_eq!(pieces.0.lines()[1..], source.lines()[1..]);
    let sizes = pieces.1.lock().unwrap();
    assert_eq!(sizes.iter().filter(|size| **size > 1 << 20).count(), 1, "only the line that is longer: {sizes:?}");
    assert!(sizes.len() > 6);
}

#[test]
fn a_leaf_mark_and_a_plugins_state_are_told_apart() {
    let (session, _) = fresh();
    let named = |publisher: Option<&str>| {
        EntryBody::Custom(Custom {
            custom_type: "pith/leaf".to_owned(),
            data: json!(null),
            publisher: publisher.map(str::to_owned),
        })
    };
    session.append(named(Some("somebody"))).unwrap();
    session.append(named(None)).unwrap();
    let kinds: Vec<EntryKind> = session.outline().iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [EntryKind::Custom, EntryKind::Leaf]);
}
