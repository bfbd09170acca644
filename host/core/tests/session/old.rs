//! Versions 1 and 2 of the format: read as the present one, written only into a new file.

use crate::house::{Bytes, path_ids, shape, user};
use pith_core::{EntryKind, ForkOrder, ForkPoint, Session, SessionError, Trust};
use pith_protocol::SessionId;
use std::{path::Path, sync::Arc};

/// As pi wrote them: no ids; a compaction names its first kept entry by its place among all lines, the header's being 0.
const FIRST: &str = r#"{"type":"session","id":"v1","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/old","provider":"p","modelId":"m"}
{"type":"message","timestamp":"2025-01-01T00:00:01.000Z","message":{"role":"user","content":"one","timestamp":1}}
{"type":"message","timestamp":"2025-01-01T00:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"first"}],"stopReason":"stop","usage":{"input":1.50,"odd":[1e3]},"timestamp":2}}

{"type":"message","timestamp":"2025-01-01T00:00:03.000Z","message":{"role":"user","content":"two","timestamp":3},"zeta":1.10,"alpha":{"b":1,"a":2}}
{"type":"message","timestamp":"2025-01-01T00:00:04.000Z","message":{"role":"hookMessage","customType":"hook","content":"from a hook","display":true,"timestamp":4}}
{"type":"compaction","timestamp":"2025-01-01T00:00:05.000Z","summary":"earlier","firstKeptEntryIndex":3,"tokensBefore":7}
{"type":"message","timestamp":"2025-01-01T00:00:06.000Z","message":{"role":"user","content":"three","timestamp":5}}
"#;

const SHOWN: &str = "u:The conversation so far, in short:\n<summary>\nearlier\n</summary> u:two u:[message from plugin hook, not from the user]from a hook u:three";

#[test]
fn version_1_gets_ids_and_parents_and_the_old_file_stays() {
    let bytes = Bytes::of(FIRST);
    let loaded = bytes.load();
    assert_eq!((loaded.version(), loaded.is_current(), loaded.diagnostics.len()), (1, false, 0));
    let ids: Vec<_> = loaded.outline().into_iter().map(|one| one.id).collect();
    assert_eq!(bytes.load().outline().iter().map(|one| one.id.clone()).collect::<Vec<_>>(), ids, "the same each time");
    let (session, target, diagnostics) = bytes.adopt(Trust::Foreign);
    assert_eq!(diagnostics, []);
    assert_eq!(shape(&session), SHOWN);
    assert_eq!(session.path().len(), 4, "what the compaction left out sleeps");
    session.append(user("four")).unwrap();
    assert_eq!(bytes.text(), FIRST);
    let lines = target.lines();
    let begins = format!(
        r#"{{"type":"message","id":"{}","parentId":"{}","timestamp":"2025-01-01T00:00:03.000Z","#,
        ids[2], ids[1]
    );
    assert!(
        lines[3].starts_with(&begins) && lines[3].ends_with(r#""zeta":1.10,"alpha":{"b":1,"a":2}}"#),
        "{}",
        lines[3]
    );
    assert!(lines[2].contains(r#""usage":{"input":1.50,"odd":[1e3]}"#), "{}", lines[2]);
    assert!(lines[4].contains(r#""message":{"role":"custom","customType":"hook","#), "{}", lines[4]);
    assert!(
        lines[5].contains(&format!(r#""firstKeptEntryId":"{}""#, ids[2])) && !lines[5].contains("Index"),
        "{}",
        lines[5]
    );
    assert!(lines[0].contains(r#""version":3"#));
    let (again, diagnostics) = target.resume();
    assert_eq!((shape(&again), diagnostics), (format!("{SHOWN} u:four"), Vec::new()));
    assert_eq!(path_ids(&again)[..6], ids.iter().map(ToString::to_string).collect::<Vec<_>>());
}

#[test]
fn version_2_gets_the_roles_present_name() {
    let text = concat!(
        r#"{"type":"session","version":2,"id":"v2","timestamp":"","cwd":"/old"}"#,
        "\n",
        r#"{"type":"message","id":"a","parentId":null,"timestamp":"","message":{"role":"user","content":"says hookMessage"}}"#,
        "\n",
        r#"{"type":"message","id":"b","parentId":"a","timestamp":"","x":1.0,"message":{"n":1.0,"role":"hookMessage","customType":"k","content":"w"}}"#,
        "\n",
        r#"{"type":"message","id":"c","parentId":"a","timestamp":"","message":{"role":"user","content":"branch"}}"#,
        "\n",
    );
    let bytes = Bytes::of(text);
    assert_eq!(bytes.load().version(), 2);
    let (session, target, _) = bytes.adopt(Trust::Foreign);
    assert_eq!(shape(&session), "u:says hookMessage u:branch");
    session.append(user("on")).unwrap();
    let (old, new) = (bytes.lines(), target.lines());
    assert_eq!((&new[1], &new[3]), (&old[1], &old[3]), "what needs nothing is the very line");
    assert_eq!(new[2], old[2].replace("hookMessage", "custom"));
    assert_eq!(bytes.text(), text);
}

#[test]
fn an_old_file_is_never_written() {
    let bytes = Bytes::of(FIRST);
    let clock = Arc::new(crate::house::Ticks::default());
    let refused = Session::resume(bytes.load(), Path::new("/w"), Box::new(bytes.clone()), clock.clone(), Trust::Own);
    assert!(matches!(refused, Err(SessionError::OldFormat(1))));
    // A fork of it is of the present format.
    let target = Bytes::default();
    let order = ForkOrder { at: ForkPoint::Leaf, id: SessionId::from("f"), cwd: "/f".to_owned(), parent_session: None };
    bytes.load().fork(&bytes, &order, clock.as_ref(), &target).unwrap();
    let (forked, diagnostics) = target.resume();
    assert_eq!((shape(&forked).as_str(), diagnostics.len()), (SHOWN, 0));
    let mut seen = Vec::new();
    bytes.load().walk_path(&bytes, &mut |entry| seen.push(entry.id.to_string())).unwrap();
    assert_eq!(seen, path_ids(&forked));
}

#[test]
fn old_lines_that_are_damaged_or_odd_lose_only_themselves() {
    let text = concat!(
        r#"{"type":"session","version":1,"id":"v1","timestamp":"","cwd":"/old"}"#,
        "\n",
        r#"{"type":"message","message":{"role":"user","content":"one"}}"#,
        "\n",
        r#"{"type":"session","id":"again"}"#,
        "\n",
        "{\"type\":\"mess\n",
        "[1]\n",
        "\0\0\n",
        "{\"no\":\"type\"}\n",
        r#"{"type":"compaction","summary":"s","firstKeptEntryIndex":99}"#,
        "\n",
        r#"{"type":"compaction","summary":"s","firstKeptEntryIndex":1.5}"#,
        "\n",
        r#"{"type":"compaction","summary":"s","firstKeptEntryIndex":0,"firstKeptEntryId":"z"}"#,
        "\n",
        r#"{"type":"message","id":"own","parentId":null,"message":{"role":"user","content":"has both"}}"#,
        "\n",
        r#"{"type":"message","id":7,"message":{"role":"user","content":"last"}}"#,
        "\n",
    );
    let (session, _, diagnostics) = Bytes::of(text).adopt(Trust::Foreign);
    assert_eq!(diagnostics.len(), 5, "{diagnostics:?}");
    let kinds: Vec<EntryKind> = session.outline().iter().map(|one| one.kind).collect();
    use EntryKind::{Compaction, User};
    assert_eq!(kinds, [User, Compaction, Compaction, Compaction, User, User]);
    assert_eq!(shape(&session), "u:has both u:last", "one that has id and parent keeps them");
}
