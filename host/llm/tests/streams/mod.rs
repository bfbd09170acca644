//! Streams through both folds, and the law that their events keep.

use pith_core::{ModelEvent, ModelFailure, ModelRequest};
use pith_llm::{CompletionsFold, MessagesFold, ReplyStart, SseParser, StreamEnd, Wire, model_card};
use pith_protocol::{AssistantMessage, Delta, StopReason};
use std::path::{Path, PathBuf};

pub fn cases(folder: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases")).join(folder)
}

pub fn start(wire: Wire) -> ReplyStart {
    ReplyStart::new(&model_card(&"p/m".parse().unwrap(), wire), None, &ModelRequest::default())
}

/// All events of a stream that comes in pieces of a size and is then closed.
pub fn events(wire: Wire, stream: &[u8], piece_bytes: usize) -> Vec<ModelEvent> {
    let (mut messages, mut completions) = (MessagesFold::new(start(wire)), CompletionsFold::new(start(wire)));
    let mut parser = SseParser::new();
    let mut sse = Vec::new();
    for piece in stream.chunks(piece_bytes) {
        sse.extend(parser.push(piece).unwrap());
    }
    sse.extend(parser.finish());
    let mut events = Vec::new();
    for event in &sse {
        events.extend(match wire {
            Wire::AnthropicMessages => messages.push(event),
            Wire::OpenAiCompletions => completions.push(event),
        });
    }
    events.extend(match wire {
        Wire::AnthropicMessages => messages.finish(StreamEnd::Closed),
        Wire::OpenAiCompletions => completions.finish(StreamEnd::Closed),
    });
    events
}

/// Checks the law of events: blocks begin in order, each ends once with its whole content, `Done` is last and alone.
pub fn done(events: &[ModelEvent]) -> (AssistantMessage, Option<ModelFailure>) {
    let mut open: Vec<(usize, String)> = Vec::new();
    let mut begun = Vec::new();
    for event in events {
        let ModelEvent::Delta(delta) = event else { continue };
        match delta {
            Delta::TextStart { content_index } | Delta::ThinkingStart { content_index } => {
                begun.push(*content_index);
                open.push((*content_index, String::new()));
            }
            Delta::ToolCallStart { content_index, id, tool_name } => {
                assert!(!id.is_empty() && !tool_name.is_empty());
                begun.push(*content_index);
                open.push((*content_index, String::new()));
            }
            Delta::TextDelta { content_index, delta }
            | Delta::ThinkingDelta { content_index, delta }
            | Delta::ToolCallDelta { content_index, delta } => {
                open.iter_mut().find(|(index, _)| index == content_index).expect("a delta of an open block").1 += delta;
            }
            Delta::TextEnd { content_index, content } | Delta::ThinkingEnd { content_index, content } => {
                let at = open.iter().position(|(index, _)| index == content_index).expect("the end of an open block");
                assert_eq!(open.remove(at).1, *content);
            }
            Delta::ToolCallEnd { content_index, tool_call } => {
                let at = open.iter().position(|(index, _)| index == content_index).expect("the end of an open block");
                assert_eq!(open.remove(at).1, tool_call.arguments_text.as_deref().unwrap_or_default());
            }
        }
    }
    assert!(open.is_empty(), "blocks without an end: {open:?}");
    let mut unique = begun.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), begun.len(), "an index was used twice");
    let dones = events.iter().filter(|event| matches!(event, ModelEvent::Done { .. })).count();
    match events.last() {
        Some(ModelEvent::Done { message, failure }) if dones == 1 => {
            assert_eq!(failure.is_some(), message.stop_reason == StopReason::Error);
            assert_eq!(failure.is_some(), message.error_message.is_some());
            (message.clone(), failure.clone())
        }
        _ => panic!("{dones} times done, and last {:?}", events.last()),
    }
}
