//! The scripted provider.

use futures::StreamExt;
use pith_core::{FailureKind, Model, ModelEvent, ModelFailure, ModelRequest};
use pith_llm::{LlmError, Scripted};
use pith_protocol::{
    AssistantMessage, Content, Delta, Message, StopReason, ToolDeclaration, ToolResultMessage, UserMessage,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

async fn play(model: &Scripted, request: ModelRequest) -> (Vec<ModelEvent>, AssistantMessage, Option<ModelFailure>) {
    let events: Vec<_> = model.ask(request, CancellationToken::new()).collect().await;
    match events.last() {
        Some(ModelEvent::Done { message, failure }) => {
            let (message, failure) = (message.clone(), failure.clone());
            (events, message, failure)
        }
        _ => panic!("{events:?}"),
    }
}

fn scenario(replies: Value) -> Scripted {
    Scripted::parse(&json!({"replies": replies}).to_string(), "demo").unwrap()
}

#[tokio::test]
async fn replies_come_in_their_order_and_in_pieces() {
    let model = scenario(json!([
        {"thinking": "hm", "text": "I will look.", "calls": [{"name": "read", "arguments": {"path": "a"}}, {"name": "ls", "id": "own"}]},
        {"calls": [{"name": "read", "arguments_text": "{\"path\": "}]},
        {"text": "cut", "stop": "length"},
        {"text": "half", "error": {"message": "slow\ndown", "kind": "rate_limited", "retry_after_ms": 50}},
    ]));
    let (events, message, failure) = play(&model, ModelRequest::default()).await;
    let pieces = events.iter().filter(|event| matches!(event, ModelEvent::Delta(Delta::TextDelta { .. }))).count();
    assert!(pieces >= 2 && matches!(events[0], ModelEvent::Started));
    assert_eq!((message.text().as_str(), message.stop_reason, failure), ("I will look.", StopReason::ToolUse, None));
    assert_eq!(
        (message.provider.as_str(), message.api.as_str(), message.model.as_str()),
        ("scripted", "scripted", "demo")
    );
    let calls: Vec<_> = message.tool_calls().map(|call| (&*call.id, &*call.name, json!(call.arguments))).collect();
    assert_eq!(calls, [("scripted_1_1", "read", json!({"path": "a"})), ("own", "ls", json!({}))]);

    let (_, message, _) = play(&model, ModelRequest::default()).await;
    let call = message.tool_calls().next().unwrap();
    assert!(call.arguments_error.is_some() && call.arguments_text.as_deref() == Some("{\"path\": "), "{call:?}");

    assert_eq!(play(&model, ModelRequest::default()).await.1.stop_reason, StopReason::Length);

    let (_, message, failure) = play(&model, ModelRequest::default()).await;
    assert_eq!((message.text().as_str(), message.error_message.as_deref()), ("half", Some("slow down")));
    let expect = ModelFailure {
        kind: FailureKind::RateLimited,
        retry_after: Some(Duration::from_millis(50)),
        window_tokens: None,
    };
    assert_eq!(failure, Some(expect));

    let (_, message, failure) = play(&model, ModelRequest::default()).await;
    assert_eq!(failure.unwrap().kind, FailureKind::Invalid);
    assert_eq!(message.error_message.as_deref(), Some("the scenario demo has 4 replies and was asked for one more"));
    assert_eq!((model.asked(), model.replies()), (5, 4));
}

#[tokio::test]
async fn expectations_are_checked_by_name() {
    let user = Message::User(UserMessage { content: vec![Content::text("please read a.txt")], timestamp: 0 });
    let result = |text: &str, is_error| {
        Message::ToolResult(ToolResultMessage {
            content: vec![Content::text(text)],
            is_error,
            ..ToolResultMessage::default()
        })
    };
    let old = result("old", false);
    let said = Message::Assistant(AssistantMessage::default());
    let messages = vec![user, old, said, result("first", false), result("second", true)];
    let request = ModelRequest {
        system: vec!["You are Pith".into()],
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: vec![ToolDeclaration { name: "read".into(), description: String::new(), parameters: json!({}) }],
        ..ModelRequest::default()
    };
    for (expect, is_met) in [
        (json!({"last_user_contains": "read a.txt"}), true),
        (json!({"last_user_contains": "write"}), false),
        (json!({"last_result_contains": ["first", "second"]}), true),
        (json!({"last_result_contains": ["first", "old"]}), false),
        (json!({"result_is_error": true}), true),
        (json!({"result_is_error": false}), false),
        (json!({"tools": ["read"]}), true),
        (json!({"tools": ["read", "write"]}), false),
        (json!({"system_contains": "Pith"}), true),
        (json!({"system_contains": "pi."}), false),
        (json!({"messages": 5}), true),
        (json!({"messages": 4}), false),
    ] {
        let model = scenario(json!([{"expect": expect, "text": "ok"}]));
        let (_, message, failure) = play(&model, request.clone()).await;
        assert_eq!(failure.is_none(), is_met, "{expect}");
        if !is_met {
            let words = message.error_message.unwrap();
            let check = expect.as_object().unwrap().keys().next().unwrap();
            assert!(words.starts_with(&format!("scenario demo, reply 1: {check}: ")), "{words}");
            assert_eq!(failure.unwrap().kind, FailureKind::Invalid);
        }
    }
    let model = scenario(json!([{"expect": {"result_is_error": false}}]));
    assert!(play(&model, ModelRequest::default()).await.2.is_some(), "there is no result");
}

#[tokio::test]
async fn a_slow_reply_can_be_cancelled() {
    let model = scenario(json!([{"text": "a very long text that takes its time", "delay_ms": 3_600_000}]));
    let cancel = CancellationToken::new();
    let mut stream = model.ask(ModelRequest::default(), cancel.clone());
    assert!(matches!(stream.next().await, Some(ModelEvent::Started)));
    cancel.cancel();
    let rest: Vec<_> = tokio::time::timeout(Duration::from_secs(10), stream.collect()).await.unwrap();
    match rest.last() {
        Some(ModelEvent::Done { message, failure: None }) => assert_eq!(message.stop_reason, StopReason::Aborted),
        other => panic!("{other:?}"),
    }
}

#[test]
fn mistakes_are_found_with_line_and_column() {
    let refused = |text: &str| match Scripted::parse(text, "x.json") {
        Err(LlmError::Scenario { line, column, reason, .. }) => (line, column, reason),
        other => panic!("{other:?}"),
    };
    let (line, column, reason) = refused("{\"replies\": [\n  {\"txt\": \"a\"}\n]}");
    assert!((line, column) == (2, 8) && reason.contains("unknown field `txt`"), "{line}:{column} {reason}");
    assert_eq!(refused("{").0, 1);
    for (reply, words) in [
        (json!({"stop": "toolUse"}), "calls none"),
        (json!({"stop": "error"}), "does not say which"),
        (json!({"stop": "stop", "error": {"message": "x"}}), "cannot stop otherwise"),
        (json!({"calls": [{"name": ""}]}), "needs a name"),
        (json!({"calls": [{"name": "a", "arguments": {}, "arguments_text": ""}]}), "either"),
    ] {
        let (_, _, reason) = refused(&json!([{"text": "fine"}, reply]).to_string());
        assert!(reason.starts_with("reply 2: ") && reason.contains(words), "{reason}");
    }
    assert!(Scripted::parse("[]", "x").is_ok());
    assert!(refused(&" ".repeat(pith_llm::SCENARIO_LIMIT_BYTES + 1)).2.contains("longer than"));
}

/// The example of the document is one that plays.
#[tokio::test]
async fn the_documented_example_is_read() {
    let document = include_str!("../SCENARIO.md");
    let example = document.split("```json").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(Scripted::parse(example, "example").unwrap().replies(), 2);
}
