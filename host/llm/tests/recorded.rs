//! Recorded streams of many providers, and the bugs that others hit, through both folds.

use pith_core::{ModelEvent, ModelFailure, ModelRequest};
use pith_llm::{CompletionsFold, MessagesFold, ReplyStart, SseParser, StreamEnd, Wire, model_card};
use pith_protocol::{AssistantMessage, Content, Delta, StopReason};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn cases(folder: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases")).join(folder)
}

fn start(wire: Wire) -> ReplyStart {
    ReplyStart::new(&model_card(&"p/m".parse().unwrap(), wire), None, &ModelRequest::default())
}

/// All events of a stream that comes in pieces of a size and is then closed.
fn events(wire: Wire, stream: &[u8], piece_bytes: usize) -> Vec<ModelEvent> {
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
fn done(events: &[ModelEvent]) -> (AssistantMessage, Option<ModelFailure>) {
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

fn thinking(message: &AssistantMessage) -> String {
    message
        .content
        .iter()
        .filter_map(|block| match block {
            Content::Thinking(thinking) => Some(thinking.thinking.as_str()),
            _ => None,
        })
        .collect()
}

fn count(message: &AssistantMessage, of: impl Fn(&pith_protocol::Thinking) -> bool) -> usize {
    message.content.iter().filter(|block| matches!(block, Content::Thinking(thinking) if of(thinking))).count()
}

/// A table over every recorded stream of a wire: text, thoughts, calls, stop, tokens as a reference reads them, whatever the pieces.
fn check_recorded(folder: &str, wire: Wire, at_least: usize) {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(cases(folder)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sse") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let stream = fs::read(&path).unwrap();
        let expect: Value = serde_json::from_slice(&fs::read(path.with_extension("expect.json")).unwrap()).unwrap();
        let whole = events(wire, &stream, stream.len());
        let (message, failure) = done(&whole);
        let calls: Vec<Value> = message
            .tool_calls()
            .map(|call| {
                assert_eq!(call.arguments_error, None, "{name}");
                json!({"id": call.id, "name": call.name, "arguments": call.arguments})
            })
            .collect();
        // The reference shows empty arguments as raw text; a tool that takes none is called with an empty object.
        let mut expected_calls = expect["tool_calls"].as_array().cloned().unwrap_or_default();
        for call in &mut expected_calls {
            if call["arguments"] == json!({"_raw": ""}) {
                call["arguments"] = json!({});
            }
        }
        let usage = &expect["usage"];
        let (output, input) = match wire {
            Wire::AnthropicMessages => (&usage["output_tokens"], &usage["input_tokens"]),
            Wire::OpenAiCompletions => (&usage["completion_tokens"], &usage["prompt_tokens"]),
        };
        let mut check = |what: &str, got: Value, want: Value| {
            if got != want {
                wrong.push(format!("{name}: {what}: got {got}, want {want}"));
            }
        };
        check("text", json!(message.text()), expect["text"].clone());
        let thoughts = expect.get("thinking").or(expect.get("reasoning")).cloned().unwrap_or(json!(""));
        check("thinking", json!(thinking(&message)), thoughts);
        check("calls", json!(calls), json!(expected_calls));
        check("stop", json!(message.raw_stop_reason), expect["stop_reason"].clone());
        check("output", json!(message.usage.output), output.clone());
        let input_side = match wire {
            Wire::AnthropicMessages => message.usage.input,
            Wire::OpenAiCompletions => message.usage.input + message.usage.cache_read + message.usage.cache_write,
        };
        check("input", json!(input_side), input.clone());
        if wire == Wire::AnthropicMessages {
            let signed = |thinking: &pith_protocol::Thinking| {
                thinking.redacted.is_none() && thinking.thinking_signature.is_some()
            };
            check("signatures", json!(count(&message, signed)), expect["thinking_signatures"].clone());
            check(
                "redacted",
                json!(count(&message, |thinking| thinking.redacted == Some(true))),
                expect["redacted"].clone(),
            );
        }
        assert!(message.response_id.is_none_or(|id| !id.is_empty()), "{name}");
        let is_refused = expect["stop_reason"] == "refusal";
        check("failed", json!(failure.is_some()), json!(is_refused || expect["complete"] == json!(false)));
        for size in [1, 7, 64] {
            assert_eq!(
                format!("{:?}", events(wire, &stream, size)),
                format!("{whole:?}"),
                "{name} in pieces of {size}"
            );
        }
        checked += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= at_least, "only {checked} streams in {folder}");
}

#[test]
fn recorded_anthropic_streams() {
    check_recorded("streams/anthropic", Wire::AnthropicMessages, 20);
}

#[test]
fn recorded_openai_streams() {
    check_recorded("streams/openai-chat", Wire::OpenAiCompletions, 20);
}

/// A stream that ends anywhere before its stop reason is a failure that keeps what came, and never gives out a call that was cut.
#[test]
fn recorded_streams_cut_anywhere() {
    for (folder, wire, name) in [
        ("streams/anthropic", Wire::AnthropicMessages, "anthropic_native_tool_search_streaming"),
        ("streams/openai-chat", Wire::OpenAiCompletions, "deepseek-tool-call"),
        ("streams/openai-chat", Wire::OpenAiCompletions, "complex_agent_run_in_flow.1"),
    ] {
        let stream = fs::read(cases(folder).join(format!("{name}.sse"))).unwrap();
        let (whole, _) = done(&events(wire, &stream, stream.len()));
        let calls: Vec<_> = whole.tool_calls().cloned().collect();
        let mut failed = 0;
        for cut in (0..stream.len()).step_by(13) {
            // Cut events are not given on by the client; here the fold sees only whole ones.
            let end = stream[..cut].windows(2).rposition(|pair| pair == b"\n\n").map_or(0, |at| at + 2);
            let (message, failure) = done(&events(wire, &stream[..end], 4_096));
            assert!(whole.text().starts_with(&message.text()), "{name} cut at {cut}");
            for call in message.tool_calls() {
                assert!(calls.contains(call), "{name} cut at {cut}: {call:?}");
            }
            failed += usize::from(failure.is_some());
        }
        assert!(failed > stream.len() / 13 / 2, "{name}: {failed}");
    }
}

fn bug(file: &str) -> (AssistantMessage, Option<ModelFailure>) {
    let stream = fs::read(cases("bugs").join(file)).unwrap();
    done(&events(Wire::OpenAiCompletions, &stream, 64))
}

#[test]
fn bug_03_cut_arguments_are_never_completed() {
    let (message, failure) = bug("03-truncated-args-finish-tool-calls/stream.sse");
    let [call] = &message.tool_calls().cloned().collect::<Vec<_>>()[..] else { panic!("{message:?}") };
    assert_eq!((call.id.as_str(), call.name.as_str(), call.arguments.len()), ("call_1", "write", 0));
    assert!(call.arguments_error.as_deref().unwrap().contains("cut"), "{call:?}");
    assert_eq!(call.arguments_text.as_deref(), Some("{\"content\":\"partial handoff"));
    assert_eq!((message.stop_reason, failure), (StopReason::ToolUse, None));
}

#[test]
fn bug_05_arguments_before_id_and_name() {
    let (message, _) = bug("05-args-before-id-and-name/stream.sse");
    let calls: Vec<_> =
        message.tool_calls().map(|call| (&*call.id, &*call.name, Value::Object(call.arguments.clone()))).collect();
    assert_eq!(calls, [("call_7", "read", json!({"path": "a.txt"}))]);
}

#[test]
fn bug_17_two_calls_under_one_index_or_none() {
    for file in ["17-parallel-same-index/stream.sse", "17-parallel-same-index/stream-no-index.sse"] {
        let (message, _) = bug(file);
        let calls: Vec<_> =
            message.tool_calls().map(|call| (&*call.id, Value::Object(call.arguments.clone()))).collect();
        assert_eq!(calls, [("call_a", json!({"city": "Oslo"})), ("call_b", json!({"city": "Rome"}))], "{file}");
    }
}

/// A stream of chat chunks with these deltas, ended by a finish reason.
fn chat(deltas: &[Value], finish: &str) -> (AssistantMessage, Option<ModelFailure>) {
    let mut stream = String::new();
    for delta in deltas {
        stream += &format!("data: {}\n\n", json!({"id": "c1", "choices": [{"index": 0, "delta": delta}]}));
    }
    stream +=
        &format!("data: {}\n\n", json!({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}));
    stream += "data: [DONE]\n\n";
    done(&events(Wire::OpenAiCompletions, stream.as_bytes(), 50))
}

fn fragment(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let mut call = json!({"function": {"arguments": arguments}});
    index.into_iter().for_each(|index| call["index"] = json!(index));
    id.into_iter().for_each(|id| call["id"] = json!(id));
    name.into_iter().for_each(|name| call["function"]["name"] = json!(name));
    call
}

#[test]
fn calls_however_they_are_numbered() {
    let check = |fragments: &[Value], expect: &[(&str, &str, Value)]| {
        let deltas: Vec<_> = fragments.iter().map(|call| json!({"tool_calls": [call]})).collect();
        let (message, _) = chat(&deltas, "tool_calls");
        let calls: Vec<_> = message.tool_calls().collect();
        assert_eq!(calls.len(), expect.len(), "{calls:?}");
        for (call, (id, name, arguments)) in calls.iter().zip(expect) {
            assert_eq!(call.name, *name);
            assert_eq!(Value::Object(call.arguments.clone()), *arguments, "{call:?}");
            if id.is_empty() {
                assert!(call.id.starts_with("call_") && call.id.len() == 21, "{call:?}");
            } else {
                assert_eq!(call.id, *id);
            }
        }
    };
    // Interleaved.
    check(
        &[
            fragment(Some(0), Some("a"), Some("x"), "{\"n\""),
            fragment(Some(1), Some("b"), Some("y"), "{\"n\""),
            fragment(Some(0), None, None, ":1}"),
            fragment(Some(1), Some(""), Some(""), ":2}"),
        ],
        &[("a", "x", json!({"n": 1})), ("b", "y", json!({"n": 2}))],
    );
    // Id and name in every piece.
    check(
        &[fragment(Some(0), Some("a"), Some("x"), "{\"n\""), fragment(Some(0), Some("a"), Some("x"), ":1}")],
        &[("a", "x", json!({"n": 1}))],
    );
    // An id that changes from piece to piece, under an index.
    check(
        &[fragment(Some(0), Some("a"), Some("x"), "{\"n\""), fragment(Some(0), Some("b"), None, ":1}")],
        &[("a", "x", json!({"n": 1}))],
    );
    // No index, pieces after their first without an id.
    check(
        &[
            fragment(None, Some("a"), Some("x"), "{\"n\""),
            fragment(None, None, None, ":1}"),
            fragment(None, Some("b"), Some("x"), "{\"n\":2}"),
        ],
        &[("a", "x", json!({"n": 1})), ("b", "x", json!({"n": 2}))],
    );
    // No ids at all: whole calls one after the other; each gets an id.
    check(
        &[fragment(Some(0), None, Some("x"), "{\"n\":1}"), fragment(Some(0), Some(""), Some("x"), "{\"n\":2}")],
        &[("", "x", json!({"n": 1})), ("", "x", json!({"n": 2}))],
    );
    // The same, with a line's end after each.
    check(
        &[fragment(Some(0), None, Some("x"), "{\"n\":1}\n"), fragment(Some(0), None, Some("x"), "{\"n\":2}\n")],
        &[("", "x", json!({"n": 1})), ("", "x", json!({"n": 2}))],
    );
    // Interleaved by their ids alone.
    check(
        &[
            fragment(None, Some("a"), Some("x"), "{\"n\""),
            fragment(None, Some("b"), Some("y"), "{\"n\""),
            fragment(None, Some("a"), None, ":1}"),
            fragment(None, Some("b"), None, ":2}"),
        ],
        &[("a", "x", json!({"n": 1})), ("b", "y", json!({"n": 2}))],
    );
    // The same id twice: the second gets another.
    check(
        &[fragment(Some(0), Some("a"), Some("x"), "{}"), fragment(Some(1), Some("a"), Some("x"), "{}")],
        &[("a", "x", json!({})), ("", "x", json!({}))],
    );
    // The object itself instead of its text.
    check(
        &[json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": {"n": 1}}})],
        &[("a", "x", json!({"n": 1}))],
    );
}

#[test]
fn arguments_are_an_object_or_an_error() {
    for (arguments, error) in [
        ("", None),
        ("{}", None),
        (" {\"a\": 1} ", None),
        ("null", Some("not a JSON object")),
        ("[]", Some("not a JSON object")),
        ("\"{}\"", Some("not a JSON object")),
        ("{\"a\":1", Some("cut")),
        ("{\"a\":1}}", Some("not valid JSON")),
        ("{'a':1}", Some("not valid JSON")),
    ] {
        let (message, _) =
            chat(&[json!({"tool_calls": [fragment(Some(0), Some("a"), Some("x"), arguments)]})], "tool_calls");
        let call = message.tool_calls().next().unwrap().clone();
        match error {
            None => assert_eq!(call.arguments_error, None, "{arguments}"),
            Some(words) => {
                assert!(call.arguments_error.unwrap().contains(words) && call.arguments.is_empty(), "{arguments}")
            }
        }
        assert_eq!(call.arguments_text.as_deref().unwrap_or_default(), arguments);
    }
}

#[test]
fn a_call_without_a_name_is_answered_and_never_run() {
    let (message, failure) = chat(&[json!({"tool_calls": [fragment(Some(0), Some("a"), None, "{}")]})], "tool_calls");
    let call = message.tool_calls().next().unwrap().clone();
    assert_eq!((call.id.as_str(), call.name.as_str(), failure), ("a", "unnamed", None));
    assert!(call.arguments_error.unwrap().contains("names no tool"));
}

#[test]
fn chat_stops() {
    let stop = |finish| {
        let (message, failure) = chat(&[json!({"content": "x"})], finish);
        (message.stop_reason, failure.map(|failure| failure.kind))
    };
    use pith_core::FailureKind::{Refused, Unavailable};
    assert_eq!(stop("stop"), (StopReason::Stop, None));
    assert_eq!(stop("length"), (StopReason::Length, None));
    assert_eq!(stop("tool_calls"), (StopReason::Stop, None), "nothing was called");
    assert_eq!(stop("content_filter"), (StopReason::Error, Some(Refused)));
    assert_eq!(stop("network_error"), (StopReason::Error, Some(Unavailable)));
    // Some servers say stop although they call.
    let (message, _) = chat(&[json!({"tool_calls": [fragment(Some(0), Some("a"), Some("x"), "{}")]})], "stop");
    assert_eq!((message.stop_reason, message.raw_stop_reason.as_deref()), (StopReason::ToolUse, Some("stop")));
    let (message, failure) = chat(&[json!({"refusal": "I "}), json!({"refusal": "won't."})], "stop");
    assert_eq!(
        (message.error_message.as_deref(), failure.unwrap().kind),
        (Some("the model refused: I won't."), Refused)
    );
}

#[test]
fn errors_in_mid_stream_keep_what_came() {
    let anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n\
        event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\n\
        event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let openai = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n\
        data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"overloaded_error\"}}\n\ndata: [DONE]\n\n";
    for (wire, stream) in [(Wire::AnthropicMessages, anthropic), (Wire::OpenAiCompletions, openai)] {
        let (message, failure) = done(&events(wire, stream.as_bytes(), 9));
        assert_eq!(message.text(), "Hel");
        assert_eq!(message.error_message.as_deref(), Some("Overloaded (overloaded_error)"));
        assert_eq!(failure.unwrap().kind, pith_core::FailureKind::Unavailable);
    }
    for (wire, stream) in
        [(Wire::AnthropicMessages, ""), (Wire::OpenAiCompletions, ""), (Wire::OpenAiCompletions, ": ping\n\n")]
    {
        let (message, failure) = done(&events(wire, stream.as_bytes(), 9));
        assert_eq!(message.error_message.as_deref(), Some("the stream ended early"));
        assert!(failure.unwrap().kind.is_retryable());
    }
    let (message, failure) = done(&events(Wire::OpenAiCompletions, b"data: {oops\n\n", 9));
    assert!(message.error_message.unwrap().contains("not JSON"));
    assert!(failure.unwrap().kind.is_retryable());
}

#[test]
fn anthropic_stops_and_inputs_that_are_not_streamed() {
    let run = |stop: &str| {
        let stream = format!(
            "data: {}\n\ndata: {}\n\ndata: {}\n\ndata: {}\n\ndata: {}\n\n",
            json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "x", "input": {"a": 1}}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        );
        done(&events(Wire::AnthropicMessages, stream.as_bytes(), 33))
    };
    let (message, failure) = run("tool_use");
    assert_eq!(failure, None);
    assert_eq!(message.tool_calls().next().unwrap().arguments, *json!({"a": 1}).as_object().unwrap());
    let usage = &message.usage;
    assert_eq!((usage.input, usage.cache_read, usage.cache_write, usage.output, usage.total_tokens), (5, 7, 2, 9, 23));
    assert_eq!((message.stop_reason, message.response_id.as_deref()), (StopReason::ToolUse, Some("m")));
    assert_eq!(run("max_tokens").0.stop_reason, StopReason::Length);
    assert_eq!(run("model_context_window_exceeded").0.stop_reason, StopReason::Length);
    assert_eq!(run("refusal").1.unwrap().kind, pith_core::FailureKind::Refused);
}

#[test]
fn ids_that_the_conversation_has_already_are_replaced() {
    let call = pith_protocol::ToolCall {
        id: "0".into(),
        name: "x".into(),
        arguments: Default::default(),
        arguments_error: None,
        thought_signature: None,
        arguments_text: None,
    };
    let earlier = AssistantMessage { content: vec![Content::ToolCall(call)], ..AssistantMessage::default() };
    let request = ModelRequest {
        messages: vec![std::sync::Arc::new(pith_protocol::Message::Assistant(earlier))],
        ..ModelRequest::default()
    };
    let card = model_card(&"p/m".parse().unwrap(), Wire::OpenAiCompletions);
    let mut fold = CompletionsFold::new(ReplyStart::new(&card, None, &request));
    let stream = fs::read(cases("streams/openai-chat/llm-tools-variant-d.sse")).unwrap();
    let events: Vec<_> = SseParser::new().push(&stream).unwrap().iter().flat_map(|event| fold.push(event)).collect();
    let (message, _) = done(&events);
    let id = &message.tool_calls().next().unwrap().id;
    assert!(id.starts_with("call_"), "{id}");
}

#[test]
fn cancelled_replies_keep_words_and_drop_open_calls() {
    let mut fold = CompletionsFold::new(start(Wire::OpenAiCompletions));
    let deltas = [
        json!({"content": "Let me"}),
        json!({"tool_calls": [fragment(Some(0), Some("a"), Some("x"), "{\"n\":1}")]}),
        json!({"tool_calls": [fragment(Some(1), Some("b"), Some("x"), "{\"n\":")]}),
        json!({"tool_calls": [fragment(Some(2), None, None, "{}")]}),
    ];
    let mut events = Vec::new();
    for delta in deltas {
        let data = json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
        events.extend(fold.push(&pith_llm::SseEvent { name: String::new(), data }));
    }
    events.extend(fold.finish(StreamEnd::Cancelled));
    let (message, failure) = done(&events);
    assert_eq!((message.stop_reason, failure, message.text().as_str()), (StopReason::Aborted, None, "Let me"));
    assert_eq!(message.tool_calls().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(fold.finish(StreamEnd::Closed).is_empty(), "done once");
}

/// Damaged streams: whatever comes, the law of events holds and nothing panics.
#[test]
fn damaged_streams_end_as_well() {
    // A xorshift, so that a failure comes again.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below.max(1)).unwrap()).unwrap()
    };
    for (folder, wire) in
        [("streams/anthropic", Wire::AnthropicMessages), ("streams/openai-chat", Wire::OpenAiCompletions)]
    {
        for entry in fs::read_dir(cases(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "sse")
                || fs::metadata(&path).unwrap().len() > 12_000
            {
                continue;
            }
            let stream = fs::read(&path).unwrap();
            for _ in 0..150 {
                let mut damaged = stream.clone();
                for _ in 0..=random(4) {
                    let at = random(damaged.len());
                    let end = (at + random(200)).min(damaged.len());
                    match random(5) {
                        0 => damaged[at] ^= 1 << random(8),
                        1 => drop(damaged.drain(at..end)),
                        2 => damaged.extend_from_within(at..end),
                        3 => damaged.truncate(end.max(1)),
                        _ => {
                            // Whole events in another order, twice, or not at all.
                            let mut events: Vec<&[u8]> = damaged.split_inclusive(|byte| *byte == b'\n').collect();
                            let (one, other) = (random(events.len()), random(events.len()));
                            events.swap(one, other);
                            damaged = events.concat();
                        }
                    }
                    if damaged.is_empty() {
                        damaged.push(b'\n');
                    }
                }
                for wire in [wire, Wire::AnthropicMessages, Wire::OpenAiCompletions] {
                    done(&events(wire, &damaged, 1 + random(100)));
                }
            }
        }
    }
}

#[test]
fn a_reply_of_endless_blocks_meets_the_limit() {
    let calls: Vec<_> =
        (0..2_000).map(|index| fragment(Some(index), Some(&format!("c{index}")), Some("x"), "{}")).collect();
    let deltas: Vec<_> = calls.chunks(100).map(|calls| json!({"tool_calls": calls})).collect();
    let (message, failure) = chat(&deltas, "tool_calls");
    assert!(message.error_message.unwrap().contains("1024 blocks"));
    assert_eq!(failure.unwrap().kind, pith_core::FailureKind::Other);
}
