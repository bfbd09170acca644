use super::*;
use pith_protocol::{AssistantDelta, AssistantMessage, Usage, UserMessage};
use serde_json::json;
use std::sync::Arc;

const PLAIN: Style = Style { colour: false, dumb: true };

fn delta(delta: Delta) -> Event {
    Event::MessageUpdate { usage: Usage::default(), assistant_message_event: AssistantDelta { delta } }
}

fn words(text: &str) -> Event {
    delta(Delta::TextDelta { content_index: 0, delta: text.to_owned() })
}

fn start(id: &str, tool: &str, args: serde_json::Value) -> Event {
    Event::ToolExecutionStart { tool_call_id: id.to_owned(), tool_name: tool.to_owned(), args }
}

fn end(id: &str, text: &str, is_error: bool, duration_ms: Option<u64>) -> Event {
    let result = ToolResultView { content: vec![Content::text(text)], ..ToolResultView::default() };
    Event::ToolExecutionEnd { tool_call_id: id.to_owned(), tool_name: "t".to_owned(), result, is_error, duration_ms }
}

#[track_caller]
fn check(events: &[Event], shown: &str) {
    let mut transcript = Transcript::new(PLAIN);
    for event in events {
        transcript.show(event);
    }
    transcript.settle();
    assert_eq!(transcript.take(), shown);
}

#[test]
fn words_stream_and_calls_are_lines() {
    check(
        &[
            words("\n I will"),
            words(" look."),
            start("a", "bash", json!({"command": "cargo test"})),
            end("a", "ok\nok", false, Some(1234)),
            words("Done.\n"),
        ],
        "I will look.\n· bash cargo test\n  done in 1.2 s\n    ok\n    ok\nDone.\n",
    );
}

#[test]
fn calls_beside_each_other_are_told_apart() {
    check(
        &[
            start("a", "read", json!({"path": "a"})),
            start("b", "read", json!({"path": "b"})),
            end("b", "no such file", true, Some(3)),
            end("a", "x", false, Some(70_000)),
        ],
        "· read a\n· read b\n· read b: failed after 3 ms: no such file\n· read a: done in 1 min 10 s\n    x\n",
    );
}

#[test]
fn what_ran_alone_after_others_is_not_named_again() {
    let long = |what: &str| json!({"command": format!("cd /some/where/deep/down && cargo test -p {what} --release")});
    check(
        &[
            start("a", "bash", long("one")),
            start("b", "bash", long("two")),
            end("b", "ok", false, Some(3)),
            end("a", "ok", false, Some(4)),
            start("c", "bash", long("three")),
            end("c", "ok", false, Some(5)),
        ],
        "· bash cd /some/where/deep/down && cargo test -p one --release\n\
         · bash cd /some/where/deep/down && cargo test -p two --release\n\
         · bash …two --release: done in 3 ms\n    ok\n· bash …one --release: done in 4 ms\n    ok\n\
         · bash cd /some/where/deep/down && cargo test -p three --release\n  done in 5 ms\n    ok\n",
    );
}

#[test]
fn of_a_failed_command_the_end_is_shown() {
    let lines = (1..=40).map(|n| format!("   Compiling c{n}\n")).collect::<String>();
    let text = format!(
        "{lines}test result: \u{1b}[31mFAILED\u{1b}[0m. 1 failed\n\nerror: test failed\n\n\nCommand exited with code 101"
    );
    check(
        &[start("a", "bash", json!({"command": "cargo test"})), end("a", &text, true, Some(1600))],
        "· bash cargo test\n  failed after 1.6 s\n    ... 38 lines before\n       Compiling c39\n       Compiling c40\n\
         \u{20}   test result: FAILED. 1 failed\n    error: test failed\n    Command exited with code 101\n",
    );
}

#[test]
fn of_what_only_reads_the_size_is_shown_and_of_a_change_the_change() {
    let mut transcript = Transcript::new(PLAIN);
    transcript.know_readers(["t".to_owned()].into());
    transcript.show(&start("a", "t", json!({"path": "a"})));
    transcript.show(&end("a", "one\ntwo", false, Some(2)));
    transcript.show(&end("a", "one\ntwo", true, Some(2)));
    transcript.show(&start("b", "edit", json!({"path": "a"})));
    let patch = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n";
    let result = ToolResultView {
        content: vec![Content::text("Successfully replaced 1 block")],
        details: Some(json!({ "patch": patch })),
        ..ToolResultView::default()
    };
    transcript.show(&Event::ToolExecutionEnd {
        tool_call_id: "b".to_owned(),
        tool_name: "edit".to_owned(),
        result,
        is_error: false,
        duration_ms: Some(1),
    });
    assert_eq!(
        transcript.take(),
        "· t a\n  done in 2 ms, 2 lines\n  failed after 2 ms\n    one\n    two\n\
         · edit a\n  done in 1 ms, +1 -1\n    @@ -1,2 +1,2 @@\n     one\n    -two\n    +three\n"
    );
}

#[test]
fn a_refusal_is_said_once() {
    let denied = Event::GateVerdict {
        tool_call_id: "a".to_owned(),
        tool_name: "write".to_owned(),
        plugin: "protect".to_owned(),
        verdict: VerdictKind::Deny,
        reason: "no\u{1b}[2J way".to_owned(),
    };
    check(
        &[start("a", "write", json!({"path": ".env"})), denied, end("a", "The call was denied", true, None)],
        "· write .env\n  denied by protect: no way\n  not run\n",
    );
}

#[test]
fn escapes_that_are_split_over_deltas_do_nothing() {
    let text = "a\u{1b}]52;c;aGk=\u{7}b\u{1b}[31mc\u{202e}d\r\ne";
    let events: Vec<Event> = text.chars().map(|c| words(&c.to_string())).collect();
    check(&events, "abc<U+202E>d\ne\n");
}

#[test]
fn thoughts_are_dim_where_there_are_colours_and_a_line_where_not() {
    let thought = |text: &str| delta(Delta::ThinkingDelta { content_index: 0, delta: text.to_owned() });
    let events = [thought("h"), thought("m"), words("Yes.")];
    check(&events, "· thinking\nYes.\n");
    let mut transcript = Transcript::new(Style { colour: true, dumb: false });
    for event in &events {
        transcript.show(event);
    }
    transcript.settle();
    assert_eq!(transcript.take(), "\u{1b}[2mh\u{1b}[0m\u{1b}[2mm\u{1b}[0m\nYes.\n");
}

#[test]
fn output_of_the_users_own_call_comes_as_it_is_made() {
    let update = |text: &str| Event::ToolExecutionUpdate {
        tool_call_id: "a".to_owned(),
        tool_name: "bash".to_owned(),
        args: json!({}),
        partial_result: ToolResultView { content: vec![Content::text(text)], ..ToolResultView::default() },
    };
    let mut transcript = Transcript::new(PLAIN);
    transcript.begin_own();
    transcript.show(&start("a", "bash", json!({"command": "x"})));
    transcript.show(&update("one\n"));
    assert_eq!(transcript.take(), "one\n");
    transcript.show(&update("one\ntwo\u{1b}[1"));
    transcript.show(&end("a", "one\ntwo\u{1b}[1mthree", false, Some(5)));
    assert_eq!(transcript.take(), "twothree\n(5 ms)\n");
}

#[test]
fn what_takes_long_is_said_after_5_and_30_seconds_then_every_minute() {
    let mut clock = Clock::new();
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(clock.next());
        clock.said += 1;
    }
    assert_eq!(times, [5, 30, 60, 120, 180]);
    let mut transcript = Transcript::new(PLAIN);
    transcript.show(&start("a", "bash", json!({})));
    assert!(transcript.next_tick().is_some());
    transcript.tick();
    assert_eq!(transcript.take(), "· bash\n", "nothing is due yet");
    transcript.open[0].clock.since -= Duration::from_secs(31);
    transcript.tick();
    transcript.tick();
    transcript.tick();
    assert_eq!(transcript.take(), "… bash running 5 s\n… bash running 30 s\n");
}

#[test]
fn a_run_says_what_it_took_and_what_failed() {
    let usage = Usage { input: 12_000, output: 34, cache_read: 1000, ..Usage::default() }.totalled();
    let reply = AssistantMessage {
        usage,
        content: vec![Content::text("x")],
        stop_reason: StopReason::Error,
        ..AssistantMessage::default()
    };
    let mut transcript = Transcript::new(PLAIN);
    transcript.begin();
    let user = |text: &str| Message::User(UserMessage { content: vec![Content::text(text)], timestamp: 0 });
    transcript.show(&Event::MessageStart { message: Arc::new(user("typed above")) });
    transcript.show(&Event::MessageStart { message: Arc::new(user("and\nthis")) });
    transcript.end(&RunEnd {
        stop_reason: StopReason::Error,
        error_message: Some("it broke\nnote: fake".to_owned()),
        failure: None,
        messages: vec![Arc::new(Message::Assistant(reply))],
    });
    assert_eq!(
        transcript.take(),
        "read now: and this\nerror: it broke\n  note: fake\ntokens: 13.0k read (1000 of them cached), 34 written\n"
    );
}
