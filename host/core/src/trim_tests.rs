use super::*;
use crate::{projection, view::View};
use pith_protocol::{
    AssistantMessage, ContextEdit, Entry, EntryBody, Image, Message, Replacement, StopReason, ToolCall,
    ToolResultMessage, UserMessage,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A piece of a conversation; sizes are bytes.
#[derive(Clone, Debug)]
enum Piece {
    User {
        bytes: usize,
        blocks: usize,
        pictures: usize,
    },
    Reply(usize),
    /// Calls with the sizes of their arguments and results; some are never answered.
    Calls(Vec<(usize, usize, bool)>),
    Shell(usize),
    Plugin(usize),
    Summary(usize),
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..400_usize, 2 => 400..8_000_usize, 1 => 8_000..200_000_usize]
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        3 => (size(), 1..4_usize, 0..3_usize).prop_map(|(bytes, blocks, pictures)| Piece::User { bytes, blocks, pictures }),
        3 => size().prop_map(Piece::Reply),
        5 => prop::collection::vec((size(), size(), prop::bool::weighted(0.9)), 1..5).prop_map(Piece::Calls),
        1 => size().prop_map(Piece::Shell),
        1 => size().prop_map(Piece::Plugin),
        1 => size().prop_map(Piece::Summary),
    ]
}

/// The path that the pieces make, ending with the user's words or a call's results, as paths do when a request is sent.
fn path(pieces: &[Piece]) -> Vec<Arc<Entry>> {
    let mut path: Vec<Arc<Entry>> = Vec::new();
    let mut push = |body: EntryBody| {
        let id = EntryId::from(format!("e{}", path.len()));
        let kind = body.kind().to_owned();
        path.push(Arc::new(Entry { kind, id: id.clone(), parent_id: None, timestamp: String::new(), body }));
        id
    };
    let text = |bytes: usize| Content::text("w".repeat(bytes));
    push(words("the beginning"));
    for piece in pieces {
        match piece {
            Piece::User { bytes, blocks, pictures } => {
                let mut content: Vec<Content> = (0..*blocks).map(|_| text(bytes / blocks)).collect();
                let picture = Image { data: "AAAA".to_owned(), mime_type: "image/png".to_owned() };
                content.extend((0..*pictures).map(|_| Content::Image(picture.clone())));
                push(Message::User(UserMessage { content, timestamp: 0 }).into());
            }
            Piece::Reply(bytes) => {
                push(reply(vec![text(*bytes)]));
            }
            Piece::Calls(calls) => {
                let call = |(at, (arguments, ..)): (usize, &(usize, usize, bool))| {
                    Content::ToolCall(ToolCall {
                        id: format!("c{at}"),
                        name: "t".to_owned(),
                        arguments: Map::from_iter([("a".to_owned(), Value::String("a".repeat(*arguments)))]),
                        arguments_error: None,
                        thought_signature: None,
                        arguments_text: None,
                    })
                };
                push(reply(calls.iter().enumerate().map(call).collect()));
                for (at, (_, bytes, answered)) in calls.iter().enumerate() {
                    if *answered {
                        let tool_call_id = format!("c{at}");
                        let content = vec![text(*bytes)];
                        push(
                            Message::ToolResult(ToolResultMessage {
                                tool_call_id,
                                content,
                                ..ToolResultMessage::default()
                            })
                            .into(),
                        );
                    }
                }
            }
            Piece::Shell(bytes) => {
                let output = "o".repeat(*bytes);
                push(Message::BashExecution(pith_protocol::BashExecution { output, ..Default::default() }).into());
            }
            Piece::Plugin(bytes) => {
                push(EntryBody::CustomMessage(pith_protocol::CustomMessageEntry {
                    custom_type: "p/k".to_owned(),
                    content: vec![text(*bytes)],
                    display: false,
                    details: None,
                    publisher: None,
                }));
            }
            Piece::Summary(bytes) => {
                let kept = EntryId::from(format!("e{}", 0));
                push(compaction("s".repeat(*bytes), Some(kept)));
            }
        }
    }
    path
}

fn words(text: &str) -> EntryBody {
    Message::User(UserMessage { content: vec![Content::text(text)], timestamp: 0 }).into()
}

fn reply(content: Vec<Content>) -> EntryBody {
    Message::Assistant(AssistantMessage { content, stop_reason: StopReason::Stop, ..AssistantMessage::default() })
        .into()
}

fn compaction(summary: String, kept: Option<EntryId>) -> EntryBody {
    EntryBody::Compaction(pith_protocol::Compaction {
        summary,
        first_kept_entry_id: kept.unwrap_or_else(|| EntryId::from("itself")),
        tokens_before: 0,
        system_message: None,
        details: Some(json!({"readFiles": ["a.rs"], "request": "what was asked before"})),
        usage: None,
        from_hook: None,
    })
}

fn view(path: &[Arc<Entry>]) -> View {
    View::of(path, &projection::project(path))
}

/// The path with what a trim gave.
fn applied(path: &[Arc<Entry>], trimmed: &Trimmed) -> Vec<Arc<Entry>> {
    let mut path = path.to_vec();
    let edits = trimmed.edits.iter().map(|(target, content)| {
        let replacement = Some(Replacement { content: content.clone() });
        EntryBody::ContextEdit(ContextEdit { target_id: target.clone(), replacement })
    });
    let dropped = trimmed.dropped.iter().map(|dropped| compaction(dropped.summary.clone(), dropped.kept_from.clone()));
    for (at, body) in edits.chain(dropped).enumerate() {
        let kind = body.kind().to_owned();
        let id = EntryId::from(format!("n{at}"));
        path.push(Arc::new(Entry { kind, id, parent_id: None, timestamp: String::new(), body }));
    }
    path
}

fn shown(view: &View) -> String {
    let messages: Vec<&Message> = view.items.iter().map(|item| item.message.as_ref()).collect();
    let summary = view.previous.as_ref().map(|previous| previous.compaction.summary.as_str());
    format!("{}{}", summary.unwrap_or_default(), serde_json::to_string(&messages).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_said_fits(
        pieces in prop::collection::vec(piece(), 0..40),
        room in SMALLEST_ROOM_TOKENS..40_000_u64,
        prompt in 20..200_usize,
    ) {
        let mut path = path(&pieces);
        let last = format!("the newest words {}", "n".repeat(prompt));
        let ends_with_words = room % 2 == 0;
        let mut at = if ends_with_words { path.len() } else { path.len() / 2 };
        while path.get(at).is_some_and(|entry| matches!(entry.message(), Some(Message::ToolResult(_)))) {
            at += 1;
        }
        let entry = |body: EntryBody| {
            let kind = body.kind().to_owned();
            Arc::new(Entry { kind, id: EntryId::from("newest"), parent_id: None, timestamp: String::new(), body })
        };
        path.insert(at, entry(words(&last)));
        let before = view(&path);
        let trimmed = trim(&before, &Touched::default(), room).expect("there is room");
        let path_after = applied(&path, &trimmed);
        let after = view(&path_after);
        prop_assert!(after.tokens() <= room, "{} of {room}: {trimmed:?}", after.tokens());
        // A second time there is nothing to do.
        prop_assert_eq!(trim(&after, &Touched::default(), room), Some(Trimmed::default()));
        // Results stay with their calls: what begins the rest is no result, and nothing was mended that was whole.
        let lost = |path: &[Arc<Entry>]| projection::project(path).mended.len();
        prop_assert!(lost(&path_after) <= lost(&path));
        prop_assert!(!matches!(after.items.first().map(|item| item.nature), Some(Nature::Result)));
        // The user's newest words are there: as they were, or quoted in what stands for the rest.
        let newest = before.items.iter().rfind(|item| item.nature == Nature::Words).map(|item| said(&item.message));
        if let Some(newest) = newest.filter(|words| words == &last && room >= 4_000) {
            prop_assert!(shown(&after).contains(&newest), "{newest} is lost");
        }
        for (target, _) in &trimmed.edits {
            let entry = path.iter().find(|entry| entry.id == *target).unwrap();
            let editable = matches!(entry.body, EntryBody::CustomMessage(_))
                || matches!(entry.message(), Some(Message::User(_) | Message::Assistant(_) | Message::ToolResult(_)));
            prop_assert!(editable, "{:?}", entry.kind);
        }
    }
}

#[test]
fn what_fits_is_left_alone_and_no_room_is_no_room() {
    let path = path(&[Piece::Reply(100)]);
    let view = view(&path);
    assert_eq!(trim(&view, &Touched::default(), 1_000), Some(Trimmed::default()));
    assert_eq!(trim(&view, &Touched::default(), 10), None);
}

#[test]
fn the_marker_says_what_is_known() {
    let path = path(&[
        Piece::Reply(4_000),
        Piece::Calls(vec![(10, 4_000, true)]),
        Piece::User { bytes: 5_000, blocks: 1, pictures: 0 },
        Piece::Reply(10),
    ]);
    let view = view(&path);
    let mut touched = Touched::default();
    touched.carry(&json!({"readFiles": ["a.rs", "b.rs"], "modifiedFiles": ["b.rs"]}));
    let text = marker(&view, 4, &touched, 1_000);
    for part in [
        "Left out: 1 messages of the user, 2 replies, 1 results of calls.",
        "The user's last words among them:\nthe beginning",
        "Files read: a.rs",
        "Files modified: b.rs",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for room in [0, 10, 100, 300, 4_000] {
        let text = marker(&view, view.items.len(), &touched, room);
        assert!(text.len() as u64 <= (room * 4).max(64), "{room}: {}", text.len());
    }
}
