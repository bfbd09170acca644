//! What look-alikes do differently, stops, errors and cancelled replies, through both folds.

mod streams;

use pith_core::{ModelFailure, ModelRequest};
use pith_llm::{CompletionsFold, ReplyStart, SseParser, StreamEnd, Wire, model_card};
use pith_protocol::{AssistantMessage, Content, StopReason};
use serde_json::{Value, json};
use std::fs;
use streams::{cases, done, events, start};

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

#[test]
fn a_reply_of_endless_blocks_meets_the_limit() {
    let calls: Vec<_> =
        (0..2_000).map(|index| fragment(Some(index), Some(&format!("c{index}")), Some("x"), "{}")).collect();
    let deltas: Vec<_> = calls.chunks(100).map(|calls| json!({"tool_calls": calls})).collect();
    let (message, failure) = chat(&deltas, "tool_calls");
    assert!(message.error_message.unwrap().contains("1024 blocks"));
    assert_eq!(failure.unwrap().kind, pith_core::FailureKind::Other);
}

/// A whole reply of one word, priced; `usage` where it stands on each wire.
fn used(
    wire: Wire,
    model: &str,
    usage: Option<Value>,
    said: bool,
    stop: &str,
) -> (AssistantMessage, Option<ModelFailure>) {
    let model =
        format!("{}/{model}", if wire == Wire::AnthropicMessages { "anthropic" } else { "openai" }).parse().unwrap();
    let start = ReplyStart::new(&model_card(&model, wire), pith_llm::prices(&model), &ModelRequest::default());
    let words = if said { "hi" } else { "" };
    let events = match wire {
        Wire::AnthropicMessages => vec![
            json!({"type": "message_start", "message": {"id": "m", "usage": usage}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": if said { "text_delta" } else { "none" }, "text": words}}),
            json!({"type": "message_delta", "delta": {"stop_reason": stop}}),
            json!({"type": "message_stop"}),
        ],
        Wire::OpenAiCompletions => vec![
            json!({"id": "c", "choices": [{"index": 0, "delta": {"content": words}, "finish_reason": stop}]}),
            json!({"id": "c", "choices": [], "usage": usage}),
        ],
    };
    let events = events.iter().map(|data| pith_llm::SseEvent { name: String::new(), data: data.to_string() });
    let mut out = Vec::new();
    match wire {
        Wire::AnthropicMessages => {
            let mut fold = pith_llm::MessagesFold::new(start);
            events.for_each(|event| out.extend(fold.push(&event)));
            out.extend(fold.finish(StreamEnd::Closed));
        }
        Wire::OpenAiCompletions => {
            let mut fold = CompletionsFold::new(start);
            events.for_each(|event| out.extend(fold.push(&event)));
            out.extend(fold.finish(StreamEnd::Closed));
        }
    }
    done(&out)
}

#[test]
fn each_kind_of_token_is_counted_and_priced_apart() {
    let near =
        |got: Option<f64>, want: f64| assert!(got.is_some_and(|got| (got - want).abs() < 1e-9), "{got:?}, {want}");
    let anthropic = |usage| used(Wire::AnthropicMessages, "claude-sonnet-5-5", Some(usage), true, "end_turn").0.usage;
    let usage = anthropic(json!({
        "input_tokens": 1_000, "output_tokens": 2_000, "cache_read_input_tokens": 100_000, "cache_creation_input_tokens": 30_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 10_000, "ephemeral_1h_input_tokens": 20_000},
        "output_tokens_details": {"thinking_tokens": 1_500},
    }));
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write), (1_000, 2_000, 100_000, 30_000));
    assert_eq!((usage.reasoning, usage.total_tokens), (Some(1_500), 133_000));
    near(Some(usage.cost.cache_write), 0.025 + 0.08);
    near(usage.cost_total(), 0.002 + 0.02 + 0.01 + 0.025 + 0.08);
    // The sum may be left out.
    let usage = anthropic(
        json!({"input_tokens": 0, "output_tokens": 0, "cache_creation": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 5}}),
    );
    assert_eq!(usage.cache_write, 12);
    let usage = used(
        Wire::OpenAiCompletions,
        "gpt-6-sol",
        Some(json!({
            "prompt_tokens": 101_000, "completion_tokens": 2_000,
            "prompt_tokens_details": {"cached_tokens": 90_000, "cache_write_tokens": 10_000},
            "completion_tokens_details": {"reasoning_tokens": 500},
        })),
        true,
        "stop",
    )
    .0
    .usage;
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write), (1_000, 2_000, 90_000, 10_000));
    assert_eq!((usage.reasoning, usage.total_tokens), (Some(500), 103_000));
    near(usage.cost_total(), 0.002 + 0.02 + 0.018 + 0.025);
}

#[test]
fn what_nobody_priced_or_counted_is_unknown_and_never_free() {
    for (wire, model, counts) in [
        (Wire::OpenAiCompletions, "smol", Some(json!({"prompt_tokens": 5, "completion_tokens": 2}))),
        (Wire::AnthropicMessages, "smol", Some(json!({"input_tokens": 5, "output_tokens": 2}))),
        (Wire::OpenAiCompletions, "gpt-5.1", None),
        (Wire::AnthropicMessages, "claude-sonnet-5-5", None),
    ] {
        let expected = if counts.is_some() { 7 } else { 0 };
        let usage = used(wire, model, counts, true, "stop").0.usage;
        assert_eq!((usage.total_tokens, usage.cost.total, usage.cost_total()), (expected, 0.0, None), "{model}");
        assert!(usage.cost.unknown, "{model}");
    }
    // Unless the provider says what it charges.
    for (told, known) in [(json!(0.0125), Some(0.0125)), (json!(0), None), (json!("0.5"), None), (json!(-1), None)] {
        let counts = json!({"prompt_tokens": 5, "completion_tokens": 2, "cost": told});
        let usage = used(Wire::OpenAiCompletions, "vendor/m", Some(counts), true, "stop").0.usage;
        assert_eq!((usage.cost_total(), usage.total_tokens), (known, 7), "{told}");
    }
    // A request that was never answered is free.
    let mut fold = CompletionsFold::new(start(Wire::OpenAiCompletions));
    let (message, _) = done(&fold.finish(StreamEnd::Closed));
    assert_eq!(message.usage.cost_total(), Some(0.0));
}

#[test]
fn a_reply_that_had_no_room_to_begin_is_an_overflow() {
    for (wire, stop) in [
        (Wire::OpenAiCompletions, "length"),
        (Wire::OpenAiCompletions, "model_context_window_exceeded"),
        (Wire::AnthropicMessages, "model_context_window_exceeded"),
    ] {
        let model = if wire == Wire::AnthropicMessages { "claude-sonnet-5-5" } else { "gpt-5.1" };
        let (message, failure) = used(wire, model, None, false, stop);
        assert_eq!(failure.unwrap().kind, pith_core::FailureKind::Overflow, "{stop}");
        assert_eq!(message.raw_stop_reason.as_deref(), Some(stop));
        // One that was begun was cut, as any other.
        let (message, failure) = used(wire, model, None, true, stop);
        assert_eq!((message.stop_reason, failure), (StopReason::Length, None), "{stop}");
    }
    // Thoughts that are not shown were thought all the same.
    let counts =
        json!({"prompt_tokens": 5, "completion_tokens": 900, "completion_tokens_details": {"reasoning_tokens": 900}});
    let (message, failure) = used(Wire::OpenAiCompletions, "gpt-5.1", Some(counts), false, "length");
    assert_eq!((message.stop_reason, failure), (StopReason::Length, None));
}
