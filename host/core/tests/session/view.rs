//! What the model sees of a path.

use crate::house::{Bytes, assert_paired, calls, file, fresh, line, result, says, shape, user};
use pith_core::{Diagnostic, SessionError};
use pith_protocol::{
    AssistantMessage, Compaction, Content, CustomMessageEntry, EntryBody, EntryId, Message, StopReason, SystemMessage,
};
use serde_json::json;

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
    let (session, diagnostics) = Bytes::case("bugs/01-compaction-mid-pair/session.jsonl").resume();
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

#[test]
fn a_call_that_was_never_answered_takes_no_later_calls_result() {
    let (session, _) = fresh();
    // The run was killed in the first call; the server numbers the next reply's calls afresh.
    for message in [user("a"), calls(&["c0"]), user("b"), calls(&["c0"]), result("c0"), result("c0")] {
        session.append(message).unwrap();
    }
    assert_eq!(shape(&session), "u:a a[c0] r:c0! u:b a[c0] r:c0");
    assert_eq!(session.project().mended, ["c0", "c0"], "the first call, and a result too many");
}

fn compaction(first_kept: &EntryId) -> Compaction {
    Compaction {
        summary: "in short".to_owned(),
        first_kept_entry_id: first_kept.clone(),
        tokens_before: 9,
        system_message: None,
        details: None,
        usage: None,
        from_hook: None,
    }
}

const SHORT: &str = "u:The conversation so far, in short:\n<summary>\nin short\n</summary>";

#[test]
fn the_newest_compaction_decides_and_what_it_left_out_sleeps() {
    let (session, bytes) = fresh();
    let ids: Vec<EntryId> = (0..6).map(|n| session.append(user(&format!("m{n}"))).unwrap().id.clone()).collect();
    session.append(EntryBody::Compaction(compaction(&ids[4]))).unwrap();
    session.append(user("after")).unwrap();
    assert_eq!(shape(&session), format!("{SHORT} u:m4 u:m5 u:after"));
    assert_eq!(session.path().len(), 4, "four messages sleep");
    // A later one that keeps from further back wakes what it keeps.
    session.append(EntryBody::Compaction(compaction(&ids[1]))).unwrap();
    assert_eq!(shape(&session), format!("{SHORT} u:m1 u:m2 u:m3 u:m4 u:m5 u:after"));
    assert_eq!(session.path().len(), 8);
    assert_eq!(bytes.resume().0.path(), session.path());
    let mut all = 0;
    session.walk_path(&mut |_| all += 1).unwrap();
    assert_eq!(all, 9, "a walk sees those that sleep too");
    // Moving to before both shows all again.
    session.move_leaf(Some(&ids[5])).unwrap();
    assert_eq!(shape(&session), "u:m0 u:m1 u:m2 u:m3 u:m4 u:m5");
}

#[test]
fn a_compaction_that_names_itself_keeps_none_and_one_that_names_a_stranger_says_so() {
    let (session, bytes) = fresh();
    session.append(user("before")).unwrap();
    let id = session.reserve_id();
    let own = EntryBody::Compaction(compaction(&id));
    session.append_reserved(vec![(id, own)], |_| Ok::<(), ()>(())).unwrap().unwrap();
    session.append(user("after")).unwrap();
    assert_eq!(shape(&session), format!("{SHORT} u:after"));
    assert_eq!(bytes.resume().1, []);
    let stranger = EntryId::from("stranger");
    let made = session.append(EntryBody::Compaction(compaction(&stranger))).unwrap().id.clone();
    assert_eq!(shape(&session), SHORT);
    assert_eq!(bytes.resume().1, [Diagnostic::LostCut { id: made, first_kept: stranger }]);
}

#[test]
fn a_checkpoint_takes_the_place_of_what_was_told_before_it() {
    let told = |name: &str, text: &str| {
        let sections = serde_json::Map::from_iter([(name.to_owned(), json!(text))]);
        Message::System(SystemMessage { sections, ..SystemMessage::default() })
    };
    let (session, _) = fresh();
    session.append(told("a", "old")).unwrap();
    let kept = session.append(told("b", "kept range")).unwrap().id.clone();
    let mut whole = compaction(&kept);
    whole.system_message = Some(json!({"role":"system","content":"","sections":{"a":"checkpoint"},
        "toolsAdded":[{"name":"t","description":"d","parameters":{}}],"timestamp":5}));
    session.append(EntryBody::Compaction(whole)).unwrap();
    session.append(told("c", "later")).unwrap();
    let state = session.prompt_state();
    let pairs = [("a", "checkpoint"), ("c", "later")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(state.sections, pairs, "of the kept range, nothing is replayed");
    assert_eq!(state.tools.len(), 1);
    // Ours says the same as theirs.
    let mut again = compaction(&kept);
    again.system_message = state.checkpoint(7);
    session.append(EntryBody::Compaction(again)).unwrap();
    assert_eq!(session.prompt_state(), state);
}

#[test]
fn an_edit_changes_what_is_shown_and_nothing_else() {
    let (session, bytes) = fresh();
    let first = session.append(user("secret")).unwrap().id.clone();
    session.append(calls(&["c1"])).unwrap();
    let output = session.append(result("c1")).unwrap().id.clone();
    let words = EntryBody::CustomMessage(CustomMessageEntry {
        custom_type: "p/note".to_owned(),
        content: vec![Content::text("long")],
        display: true,
        details: None,
        publisher: None,
    });
    let plugin = session.append(words).unwrap().id.clone();
    let fork = session.append(says("ok")).unwrap().id.clone();
    session.edit(&first, None).unwrap();
    session.edit(&output, Some(vec![Content::text("cut")])).unwrap();
    session.edit(&plugin, Some(vec![Content::text("short")])).unwrap();
    let seen = serde_json::to_string(&session.project().messages).unwrap();
    assert!(!seen.contains("secret") && !seen.contains("result of") && seen.contains("cut"), "{seen}");
    assert!(seen.contains("message from plugin p/note") && seen.contains("short") && !seen.contains("long"), "{seen}");
    assert_paired(&session);
    // The latest wins.
    session.edit(&first, Some(vec![Content::text("public")])).unwrap();
    assert!(shape(&session).starts_with("u:public a[c1]"), "{}", shape(&session));
    assert_eq!(shape(&bytes.resume().0), shape(&session));
    // Before the edits, what was said is shown again.
    session.move_leaf(Some(&fork)).unwrap();
    assert!(shape(&session).starts_with("u:secret a[c1] r:c1"), "{}", shape(&session));
}

#[test]
fn an_edit_is_of_words_on_the_path() {
    let (session, _) = fresh();
    let one = session.append(user("one")).unwrap().id.clone();
    let other = session.append(user("other")).unwrap().id.clone();
    let label = session.set_label(&one, Some("x".to_owned())).unwrap().id.clone();
    session.move_leaf(Some(&one)).unwrap();
    let on_another = session.edit(&other, None).unwrap_err();
    assert!(matches!(on_another, SessionError::NotEditable { why: "it is on another branch", .. }), "{on_another}");
    assert!(matches!(session.edit(&label, None), Err(SessionError::NotEditable { .. })));
    assert!(matches!(session.edit(&EntryId::from("no"), None), Err(SessionError::NotFound(_))));
}

#[test]
fn an_edit_with_a_bare_text_is_read() {
    let edit = r#"{"type":"context_edit","id":"e","parentId":"a","timestamp":"","targetId":"a","replacement":{"content":"bare"}}"#;
    let (session, diagnostics) = file(&[&line("a", None, "first"), edit]).resume();
    assert_eq!((shape(&session), diagnostics), ("u:bare".to_owned(), Vec::new()));
}

#[test]
fn a_call_that_an_edit_took_away_takes_its_result_along() {
    let (session, _) = fresh();
    session.append(user("go")).unwrap();
    let reply = session.append(calls(&["c1"])).unwrap().id.clone();
    session.append(result("c1")).unwrap();
    session.edit(&reply, None).unwrap();
    assert_eq!(shape(&session), "u:go");
    assert_eq!(session.project().mended, ["c1"]);
}
