//! Hostile streams: the work for each byte stays the same, however much came before it.

use pith_core::{ModelEvent, ModelRequest};
use pith_llm::{CompletionsFold, MessagesFold, ReplyStart, SseEvent, SseParser, StreamEnd, Wire, model_card};
use pith_protocol::{AssistantMessage, Delta};
use serde_json::{Value, json};
use std::{fs, time::Instant};

/// Twice the bytes take twice the time, four times where the work is quadratic.
const LINEAR_RATIO: f64 = 3.0;
/// Other work on this machine only ever makes a run slower.
const TRIES: usize = 5;

/// This thread's CPU time in seconds where the kernel counts it, else the time of a clock.
fn cpu_seconds(begun: Instant) -> f64 {
    let counted = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = counted.as_deref().and_then(|line| line.split(' ').next()).and_then(|field| field.parse::<f64>().ok());
    nanos.filter(|nanos| *nanos > 0.0).map_or_else(|| begun.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn start(wire: Wire) -> ReplyStart {
    ReplyStart::new(&model_card(&"p/m".parse().unwrap(), wire), None, &ModelRequest::default())
}

/// What a stream is folded to: how many events, and the message.
fn fold(wire: Wire, stream: &[u8]) -> (usize, AssistantMessage) {
    let (mut messages, mut completions) = (MessagesFold::new(start(wire)), CompletionsFold::new(start(wire)));
    let mut push = |event: &SseEvent| match wire {
        Wire::AnthropicMessages => messages.push(event),
        Wire::OpenAiCompletions => completions.push(event),
    };
    let mut parser = SseParser::new();
    let (mut count, mut last) = (0, None);
    for piece in stream.chunks(8_192) {
        for event in parser.push(piece).unwrap().iter().flat_map(&mut push) {
            count += 1;
            last = Some(event);
        }
    }
    let end = match wire {
        Wire::AnthropicMessages => messages.finish(StreamEnd::Closed),
        Wire::OpenAiCompletions => completions.finish(StreamEnd::Closed),
    };
    count += end.len();
    match end.into_iter().last().or(last) {
        Some(ModelEvent::Done { message, .. }) => (count, message),
        last => panic!("last came {last:?}"),
    }
}

/// Checks that a run of the double size takes no more than about twice as long as one of the single size.
fn check_linear(what: &str, single: impl Fn(), double: impl Fn()) {
    let time = |run: &dyn Fn()| {
        let begun = Instant::now();
        let before = cpu_seconds(begun);
        run();
        cpu_seconds(begun) - before
    };
    let (mut short, mut long) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TRIES {
        (short, long) = (short.min(time(&single)), long.min(time(&double)));
        if long < short * LINEAR_RATIO {
            return;
        }
    }
    panic!("{what}: {short} s, and {long} s for twice as much");
}

/// The same for the fold of a stream; gives the message of the double one.
fn check_fold(what: &str, wire: Wire, size: usize, stream: impl Fn(usize) -> String) -> AssistantMessage {
    let (single, double) = (stream(size), stream(2 * size));
    check_linear(what, || drop(fold(wire, single.as_bytes())), || drop(fold(wire, double.as_bytes())));
    fold(wire, double.as_bytes()).1
}

fn data(event: &Value) -> String {
    format!("data: {event}\n\n")
}

/// A chunk with a fragment of a call, the name repeated and the id empty.
fn call_fragment(arguments: &str) -> String {
    let call = json!({"index": 0, "id": "", "function": {"name": "x", "arguments": arguments}});
    data(&json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))
}

#[test]
fn fragments_that_could_each_be_the_last_are_not_read_again_and_again() {
    for (what, first, piece) in [
        ("within a string", r#"{"a":""#, "}}}}}}}}"),
        ("within an object", r#"{"a":{}"#, r#","b":{}"#),
        ("after what is no object", "{'a':{}}", "{}"),
        ("after an object that is no JSON", "{'a':{}}", " "),
        ("closed too often", r#"[{}}"#, "{}"),
    ] {
        // 2 MB and 4 MB.
        let stream = |count: usize| call_fragment(first) + &call_fragment(piece).repeat(count);
        let message = check_fold(what, Wire::OpenAiCompletions, 20_000, stream);
        // The stream was cut: the call is no part of the message.
        assert_eq!((message.tool_calls().count(), message.error_message.is_some()), (0, true), "{what}");
    }
}

#[test]
fn one_event_of_endless_calls_meets_the_limit_of_blocks() {
    let call = |index: usize| json!({"id": format!("c{index}"), "function": {"name": "x", "arguments": "{}"}});
    let calls: Vec<Value> = (0..100_000).map(call).collect();
    let stream = data(&json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}));
    let (events, message) = fold(Wire::OpenAiCompletions, stream.as_bytes());
    assert!(message.error_message.unwrap().contains("1024 blocks"));
    assert!(events < 5_000, "{events} events");
}

#[test]
fn a_million_tiny_deltas_take_linear_time_and_end_whole() {
    let chat = |count: usize| {
        let word = data(&json!({"choices": [{"index": 0, "delta": {"content": "x"}}]}));
        let end = data(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
        word.repeat(count) + &end
    };
    let message = check_fold("chat", Wire::OpenAiCompletions, 500_000, chat);
    assert_eq!(message.text().len(), 1_000_000);

    let messages = |count: usize| {
        let begin = data(&json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}));
        let word =
            data(&json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}));
        let end = data(&json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}));
        begin + &word.repeat(count) + &end
    };
    let message = check_fold("messages", Wire::AnthropicMessages, 500_000, messages);
    assert_eq!(message.text().len(), 1_000_000);
}

/// Nothing is kept for an event beside its words: what a fold gives for one is all that it holds of it.
#[test]
fn each_tiny_delta_gives_one_event_of_its_own() {
    let mut fold = CompletionsFold::new(start(Wire::OpenAiCompletions));
    let event = SseEvent { name: String::new(), data: r#"{"choices":[{"delta":{"content":"x"}}]}"#.to_owned() };
    assert_eq!(fold.push(&event).len(), 3, "started, begun, said");
    for _ in 0..100_000 {
        let events = fold.push(&event);
        assert!(matches!(&events[..], [ModelEvent::Delta(Delta::TextDelta { delta, .. })] if delta == "x"));
    }
}

#[test]
fn a_reply_that_is_begun_again_and_again_takes_linear_time() {
    let begun = data(&json!({"type": "message_start", "message": {}}));
    let blocks: String = (0..1_000)
        .map(|index| data(&json!({"type": "content_block_start", "index": index, "content_block": {"type": "text"}})))
        .collect();
    let stream = |count: usize| format!("{begun}{blocks}{}", begun.repeat(count));
    check_fold("restarts", Wire::AnthropicMessages, 50_000, stream);
}

#[test]
fn one_line_in_tiny_pieces_is_searched_once() {
    let run = |length: usize| {
        let mut parser = SseParser::new();
        parser.push(b"data: ").unwrap();
        assert!((0..length).all(|_| parser.push(b"x").unwrap().is_empty()));
        assert_eq!(parser.finish().unwrap().data.len(), length);
    };
    check_linear("one line", || run(4_000_000), || run(8_000_000));
}
