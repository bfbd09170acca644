//! What is sent: bodies against ones written by hand.

use pith_core::ModelRequest;
use pith_llm::{Endpoint, Target, completions_body, messages_body};
use pith_protocol::{
    AssistantMessage, Content, Image, Message, StopReason, Thinking, ThinkingLevel, ToolCall, ToolDeclaration,
    ToolResultMessage, UserMessage,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn claude() -> Target {
    Target::new(&Endpoint::anthropic(None, None).unwrap(), "claude-sonnet-4-5")
}

fn gpt(id: &str) -> Target {
    Target::new(&Endpoint::openai(None, None).unwrap(), id)
}

fn local() -> Target {
    Target::new(&Endpoint::openai(Some("http://127.0.0.1:1/v1"), None).unwrap(), "smol")
}

fn user(content: Vec<Content>) -> Message {
    Message::User(UserMessage { content, timestamp: 1 })
}

fn image() -> Content {
    Content::Image(Image { data: "aGk=".into(), mime_type: "image/png".into() })
}

fn thinking(text: &str, signature: Option<&str>, redacted: Option<bool>) -> Content {
    Content::Thinking(Thinking { thinking: text.into(), thinking_signature: signature.map(Into::into), redacted })
}

fn call(id: &str, name: &str, arguments: Value) -> Content {
    Content::ToolCall(ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.as_object().unwrap().clone(),
        arguments_error: None,
        thought_signature: Some("proof".into()),
        arguments_text: None,
    })
}

fn said_by(target: &Target, content: Vec<Content>) -> Message {
    said_by_model(&target.card.model.provider, &target.card.api, &target.card.model.id, content, StopReason::Stop)
}

fn said_by_model(provider: &str, api: &str, model: &str, content: Vec<Content>, stop_reason: StopReason) -> Message {
    Message::Assistant(AssistantMessage {
        content,
        provider: provider.into(),
        api: api.into(),
        model: model.into(),
        stop_reason,
        ..AssistantMessage::default()
    })
}

fn result(id: &str, content: Vec<Content>, is_error: bool) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: id.into(),
        tool_name: "read".into(),
        content,
        is_error,
        ..ToolResultMessage::default()
    })
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages: messages.into_iter().map(Arc::new).collect(), ..ModelRequest::default() }
}

fn tools() -> Vec<ToolDeclaration> {
    let tool = |name: &str| ToolDeclaration {
        name: name.into(),
        description: format!("{name}s"),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    vec![tool("read"), tool("write")]
}

fn conversation(target: &Target) -> Vec<Message> {
    vec![
        user(vec![Content::text("look"), image()]),
        said_by(
            target,
            vec![
                thinking("hm", Some("sig"), None),
                Content::text("Both."),
                call("c1", "read", json!({"path": "a"})),
                call("c2", "read", json!({"path": "b"})),
            ],
        ),
        result("c1", vec![Content::text("A")], false),
        result("c2", vec![Content::text("no"), image()], true),
        user(vec![Content::text("go on")]),
    ]
}

#[test]
fn a_whole_anthropic_body() {
    let mut request = request(conversation(&claude()));
    request.system = vec!["You are Pith.".into(), "  ".into(), "Folder: /w".into()];
    request.tools = tools();
    request.thinking = ThinkingLevel::Medium;
    request.cache_key = Some("s1".into());
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
    let expect = json!({
        "model": "claude-sonnet-4-5",
        "max_tokens": 64_000,
        "stream": true,
        "system": [
            {"type": "text", "text": "You are Pith."},
            {"type": "text", "text": "Folder: /w", "cache_control": {"type": "ephemeral"}},
        ],
        "thinking": {"type": "enabled", "budget_tokens": 8_192},
        "tools": [
            {"name": "read", "description": "reads", "input_schema": schema},
            {"name": "write", "description": "writes", "input_schema": schema, "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "text", "text": "Both."},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "read", "input": {"path": "b"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "A"}]},
                {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "no"}], "is_error": true},
                {"type": "text", "text": "Images of the failed result c2:"},
                picture,
            ]},
            {"role": "user", "content": [{"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}]},
        ],
    });
    assert_eq!(messages_body(&claude(), &request), expect);
}

#[test]
fn a_whole_openai_body() {
    let target = gpt("gpt-5");
    let mut request = request(conversation(&target));
    request.system = vec!["You are Pith.".into(), "Folder: /w".into()];
    request.tools = tools();
    request.thinking = ThinkingLevel::Low;
    request.cache_key = Some("s1".into());
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}});
    let expect = json!({
        "model": "gpt-5",
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_completion_tokens": 128_000,
        "reasoning_effort": "low",
        "prompt_cache_key": "s1",
        "tools": [
            {"type": "function", "function": {"name": "read", "description": "reads", "parameters": schema}},
            {"type": "function", "function": {"name": "write", "description": "writes", "parameters": schema}},
        ],
        "messages": [
            {"role": "system", "content": "You are Pith.\n\nFolder: /w"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
            {"role": "assistant", "content": "Both.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}},
                {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"b\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "A"},
            {"role": "tool", "tool_call_id": "c2", "content": "no"},
            {"role": "user", "content": [{"type": "text", "text": "Attached image(s) from tool result:"}, picture]},
            {"role": "user", "content": "go on"},
        ],
    });
    assert_eq!(completions_body(&target, &request), expect);
}

#[test]
fn a_local_server_gets_no_more_than_it_needs() {
    let mut request = request(vec![user(vec![Content::text("hi"), image(), image()])]);
    request.thinking = ThinkingLevel::High;
    request.cache_key = Some("s1".into());
    let expect = json!({
        "model": "smol",
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "hi\n(image omitted: the model does not read images)"}],
    });
    assert_eq!(completions_body(&local(), &request), expect);
    request.output_tokens = Some(99);
    assert_eq!(completions_body(&local(), &request)["max_tokens"], 99);
}

#[test]
fn a_window_that_is_nearly_full_shortens_the_reply() {
    // About 171,400 tokens; 28,600 are left of 200,000, less a margin of 4,096.
    let mut request = request(vec![user(vec![Content::text("x".repeat(600_000))])]);
    let max_tokens = messages_body(&claude(), &request)["max_tokens"].as_u64().unwrap();
    assert!((24_000..25_000).contains(&max_tokens), "{max_tokens}");
    request.messages = vec![Arc::new(user(vec![Content::text("x".repeat(2_000_000))]))];
    let body = messages_body(&claude(), &request);
    assert_eq!((&body["max_tokens"], body.get("thinking")), (&json!(1_024), None));
}

#[test]
fn budgets_leave_room_for_the_answer() {
    let budget = |thinking, output_tokens| {
        let mut request = request(vec![user(vec![Content::text("x")])]);
        (request.thinking, request.output_tokens) = (thinking, output_tokens);
        messages_body(&claude(), &request).pointer("/thinking/budget_tokens").and_then(Value::as_u64)
    };
    use ThinkingLevel::{High, Low, Max, Medium, Minimal, Off, Xhigh};
    let budgets = [Off, Minimal, Low, Medium, High, Xhigh, Max].map(|level| budget(level, None));
    assert_eq!(budgets, [None, Some(1_024), Some(2_048), Some(8_192), Some(16_384), Some(16_384), Some(16_384)]);
    assert_eq!(budget(High, Some(4_096)), Some(3_072));
    assert_eq!(budget(Minimal, Some(2_048)), Some(1_024));
    assert_eq!(budget(Minimal, Some(2_047)), None);
    let mut request = request(vec![user(vec![Content::text("x")])]);
    request.thinking = High;
    let unknown = Target::new(&Endpoint::anthropic(None, None).unwrap(), "smol");
    assert_eq!(messages_body(&unknown, &request).get("thinking"), None, "it does not think");
}

/// The messages of both wires for a conversation.
fn messages(target: &Target, conversation: Vec<Message>) -> Vec<Value> {
    let request = request(conversation);
    let body = match target.card.api.as_str() {
        "anthropic-messages" => messages_body(target, &request),
        _ => completions_body(target, &request),
    };
    body["messages"].as_array().unwrap().clone()
}

#[test]
fn another_models_thoughts_and_ids_stay_behind() {
    let foreign = || {
        vec![
            user(vec![Content::text("x")]),
            said_by_model(
                "openai",
                "openai-responses",
                "gpt-9",
                vec![
                    thinking("secret", Some("sig"), None),
                    thinking("", Some("blob"), Some(true)),
                    call("call.1|fc_22", "read", json!({})),
                    call(&format!("call_{}", "y".repeat(80)), "read", json!({})),
                ],
                StopReason::ToolUse,
            ),
            result("call.1|fc_22", vec![], false),
            result(&format!("call_{}", "y".repeat(80)), vec![Content::text(" \n")], false),
        ]
    };
    let sent = messages(&claude(), foreign());
    let text = json!(sent).to_string();
    assert!(!text.contains("secret") && !text.contains("blob") && !text.contains("proof"), "{text}");
    let long = format!("call_{}", "y".repeat(59));
    assert_eq!(
        sent[1]["content"],
        json!([
            {"type": "tool_use", "id": "call_1_fc_22", "name": "read", "input": {}},
            {"type": "tool_use", "id": long, "name": "read", "input": {}},
        ])
    );
    let none = json!([{"type": "text", "text": "(no tool output)"}]);
    assert_eq!(sent[2]["content"][0], json!({"type": "tool_result", "tool_use_id": "call_1_fc_22", "content": none}));
    assert_eq!(sent[2]["content"][1]["tool_use_id"], json!(long));

    let sent = messages(&gpt("gpt-5"), foreign());
    let ids: Vec<_> =
        sent[1]["tool_calls"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!((ids[0], ids[1].len()), ("call_1_fc_22", 40));
    assert_eq!(sent[2], json!({"role": "tool", "tool_call_id": ids[0], "content": "(no tool output)"}));
    assert_eq!(sent[3], json!({"role": "tool", "tool_call_id": ids[1], "content": "(no tool output)"}));
}

#[test]
fn thoughts_go_back_to_the_same_model_as_they_came() {
    let target = claude();
    let sent = messages(
        &target,
        vec![
            user(vec![Content::text("x")]),
            said_by(
                &target,
                vec![
                    thinking("", Some("blob"), Some(true)),
                    thinking("", Some("sig"), None),
                    thinking("unsigned", None, None),
                    thinking(" ", None, None),
                    Content::text("y"),
                ],
            ),
            user(vec![Content::text("z")]),
        ],
    );
    assert_eq!(
        sent[1]["content"],
        json!([
            {"type": "redacted_thinking", "data": "blob"},
            {"type": "thinking", "thinking": "", "signature": "sig"},
            {"type": "text", "text": "unsigned"},
            {"type": "text", "text": "y"},
        ])
    );
    let target = local();
    for field in ["reasoning_content", "reasoning", "reasoning_text"] {
        let said = said_by(&target, vec![thinking("hm", Some(field), None), Content::text("y")]);
        let sent = messages(&target, vec![user(vec![Content::text("x")]), said, user(vec![Content::text("z")])]);
        assert_eq!(sent[1], json!({"role": "assistant", "content": "y", field: "hm"}));
    }
}

#[test]
fn failed_replies_go_with_their_results_and_empty_things_go_alone() {
    for target in [claude(), local()] {
        let (provider, api, model) = (&target.card.model.provider, &target.card.api, &target.card.model.id);
        let broken = |stop| {
            said_by_model(provider, api, model, vec![Content::text("half"), call("c1", "read", json!({}))], stop)
        };
        let sent = messages(
            &target,
            vec![
                user(vec![Content::text("x"), Content::text("")]),
                broken(StopReason::Error),
                result("c1", vec![Content::text("aborted")], true),
                user(vec![Content::text("  ")]),
                said_by(&target, vec![Content::text("\n")]),
                broken(StopReason::Aborted),
                result("c1", vec![Content::text("aborted")], true),
                result("nobody", vec![Content::text("?")], false),
                user(vec![Content::text("again")]),
                said_by(&target, vec![call("c1", "read", json!({}))]),
                result("c1", vec![Content::text("good")], false),
            ],
        );
        let roles: Vec<_> = sent.iter().map(|message| message["role"].as_str().unwrap()).collect();
        let last = if *api == "anthropic-messages" { "user" } else { "tool" };
        assert_eq!(roles, ["user", "user", "assistant", last]);
        assert!(!json!(sent).to_string().contains("aborted"));
        assert!(json!(sent[3]).to_string().contains("good"));
    }
}

#[test]
fn a_turn_that_began_without_thoughts_ends_without() {
    let target = claude();
    let asks = |first: Vec<Content>| {
        let mut request = request(vec![
            user(vec![Content::text("x")]),
            said_by(&target, first),
            result("c1", vec![Content::text("r")], false),
        ]);
        request.thinking = ThinkingLevel::Low;
        messages_body(&target, &request).get("thinking").is_some()
    };
    assert!(!asks(vec![call("c1", "read", json!({}))]));
    assert!(asks(vec![thinking("hm", Some("sig"), None), call("c1", "read", json!({}))]));
    assert!(asks(vec![thinking("", Some("blob"), Some(true)), call("c1", "read", json!({}))]));
}

#[test]
fn pictures_alone_are_announced() {
    let target = gpt("gpt-4.1");
    let sent = messages(
        &target,
        vec![
            user(vec![Content::text("x")]),
            said_by(&target, vec![call("c1", "read", json!({}))]),
            result("c1", vec![image()], false),
        ],
    );
    assert_eq!(sent[1]["content"], json!(""));
    assert_eq!(sent[2]["content"], json!("(see attached image)"));
    assert_eq!(sent[3]["content"].as_array().unwrap().len(), 2);
    let blind = messages(
        &local(),
        vec![
            user(vec![Content::text("x")]),
            said_by(&local(), vec![call("c1", "read", json!({}))]),
            result("c1", vec![image(), image()], false),
        ],
    );
    assert_eq!(blind[2]["content"], json!("(tool image omitted: the model does not read images)"));
}

/// What a model made up stands in the session as it came; sent as it came, it would be refused in every later request.
#[test]
fn names_and_ids_that_no_provider_takes_are_sent_as_ones_that_it_takes() {
    let long = "x".repeat(100_000);
    let names = ["read", "\u{1b}[31mrm -rf", "a b", "Grüße", "mcp.server:tool", "", &long, "a b"];
    let ids = ["c1", "\u{1b}]0;x", "c 2", "é", "c.1", &long, "c1", "c1"];
    let expect = ["read", "__31mrm_-rf", "a_b", "Gr__e", "mcp_server_tool", "unnamed", &"x".repeat(64), "a_b"];
    for (target, id_limit) in [(claude(), 64), (gpt("gpt-5"), 40), (local(), 40)] {
        let calls = names.iter().zip(ids).map(|(name, id)| call(id, name, json!({}))).collect();
        let mut conversation = vec![user(vec![Content::text("x")]), said_by(&target, calls)];
        conversation.extend((0..ids.len()).map(|at| result(ids[at], vec![Content::text(format!("r{at}"))], false)));
        // No call is left that this could belong to.
        conversation.push(result("c1", vec![Content::text("twice")], false));
        let sent = messages(&target, conversation);
        let is_anthropic = target.card.api == "anthropic-messages";
        let (calls, results, name, id, answers) = if is_anthropic {
            (
                sent[1]["content"].as_array().unwrap().clone(),
                sent[2]["content"].as_array().unwrap().clone(),
                "/name",
                "/id",
                "/tool_use_id",
            )
        } else {
            (
                sent[1]["tool_calls"].as_array().unwrap().clone(),
                sent[2..].to_vec(),
                "/function/name",
                "/id",
                "/tool_call_id",
            )
        };
        let texts = |values: &[Value], at: &str| -> Vec<String> {
            values.iter().map(|value| value.pointer(at).unwrap().as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(texts(&calls, name), expect);
        let sent_ids = texts(&calls, id);
        assert_eq!(sent_ids, texts(&results, answers), "each result names its call, in their order");
        assert_eq!(texts(&results, if is_anthropic { "/content/0/text" } else { "/content" })[7], "r7");
        let mut unique = sent_ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len(), "{sent_ids:?}");
        for id in &sent_ids {
            assert!((1..=id_limit).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic()), "{id:?}");
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            assert!(!is_anthropic || id.chars().all(is_plain), "{id:?}");
        }
        assert_eq!((sent_ids[0].as_str(), sent_ids[4].as_str()), ("c1", if is_anthropic { "c_1" } else { "c.1" }));
    }
}

#[test]
fn newer_claudes_are_asked_for_thoughts_by_effort_and_may_drop_those_that_no_longer_fit() {
    let body = |id: &str, base: Option<&str>, thinking| {
        let target = Target::new(&Endpoint::anthropic(base, None).unwrap(), id);
        let said = said_by(&target, vec![self::thinking("hm", Some("sig"), None), Content::text("y")]);
        let conversation = vec![user(vec![Content::text("x")]), said, user(vec![Content::text("z")])];
        messages_body(&target, &ModelRequest { thinking, ..request(conversation) })
    };
    let whole = body("claude-sonnet-5-5", None, ThinkingLevel::High);
    let bound = json!({"type": "adaptive", "display": "summarized", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
    assert_eq!((&whole["thinking"], &whole["output_config"]), (&bound, &json!({"effort": "high"})));
    assert_eq!(whole["messages"][1]["content"][0], json!({"type": "thinking", "thinking": "hm", "signature": "sig"}));
    assert_eq!(whole["max_tokens"], 128_000);
    // It cannot be switched off.
    let least = body("claude-sonnet-5-5", None, ThinkingLevel::Off);
    assert_eq!((&least["thinking"], &least["output_config"]), (&bound, &json!({"effort": "low"})));
    let elsewhere = body("claude-sonnet-5-5", Some("http://127.0.0.1:1"), ThinkingLevel::High);
    assert_eq!(elsewhere["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    // One that can is not sent the thoughts that it had, which would be held against what stands before them.
    let off = body("claude-haiku-5-5", None, ThinkingLevel::Off);
    assert_eq!((&off["thinking"], off.get("output_config")), (&json!({"type": "disabled"}), None));
    assert_eq!(off["messages"][1]["content"], json!([{"type": "text", "text": "y"}]));
    // And those that think only when asked are not told not to.
    let silent = body("claude-opus-4-8", None, ThinkingLevel::Off);
    assert_eq!((silent.get("thinking"), silent.get("output_config")), (None, None));
    assert_eq!(silent["messages"][1]["content"][0]["type"], "thinking");
}

#[test]
fn models_that_take_tools_without_thoughts_only_are_told_so() {
    let effort = |id, thinking| {
        let request = ModelRequest { thinking, tools: tools(), ..request(vec![user(vec![Content::text("x")])]) };
        completions_body(&gpt(id), &request).get("reasoning_effort").cloned()
    };
    use ThinkingLevel::{High, Off};
    assert_eq!([Off, High].map(|level| effort("gpt-6-sol", level)), [Some(json!("none")), Some(json!("none"))]);
    assert_eq!([Off, High].map(|level| effort("gpt-5.1", level)), [Some(json!("none")), Some(json!("high"))]);
    assert_eq!([Off, High].map(|level| effort("gpt-4.1", level)), [None, None]);
    // The prompt's room and the reply's are apart: a long prompt does not shorten the reply.
    let long = request(vec![user(vec![Content::text("x".repeat(800_000))])]);
    assert_eq!(completions_body(&gpt("gpt-5.1"), &long)["max_completion_tokens"], 128_000);
}
