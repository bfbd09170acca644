//! Recorded streams of many providers, whole, cut and damaged, and the bugs that others hit, through both folds.

mod streams;

use pith_core::ModelFailure;
use pith_llm::Wire;
use pith_protocol::{AssistantMessage, Content, StopReason};
use serde_json::{Value, json};
use std::fs;
use streams::{cases, done, events};

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
