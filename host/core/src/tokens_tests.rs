use super::*;
use pith_protocol::{Compaction, EntryId, Image, SystemMessage, ToolCall, Usage, UserMessage};
use serde_json::{Value, json};

fn entry(id: &str, body: impl Into<EntryBody>) -> Arc<Entry> {
    let body = body.into();
    Arc::new(Entry { kind: body.kind().to_owned(), id: id.into(), parent_id: None, timestamp: String::new(), body })
}

fn user(text: &str) -> Message {
    Message::User(UserMessage { content: vec![Content::text(text)], timestamp: 0 })
}

fn reply(model: &str, stop_reason: StopReason, tokens: u64) -> Message {
    Message::Assistant(AssistantMessage {
        content: vec![Content::text("x".repeat(40))],
        provider: "p".to_owned(),
        model: model.to_owned(),
        stop_reason,
        usage: Usage { total_tokens: tokens, ..Usage::default() },
        ..AssistantMessage::default()
    })
}

#[test]
fn blocks_are_estimated() {
    let call = |arguments: Value| {
        Content::ToolCall(ToolCall {
            id: "long ids do not count".to_owned(),
            name: "read".to_owned(),
            arguments: arguments.as_object().cloned().unwrap(),
            arguments_error: None,
            thought_signature: None,
            arguments_text: None,
        })
    };
    let thinking = |thinking: &str, signature: Option<&str>| {
        Content::Thinking(pith_protocol::Thinking {
            thinking: thinking.to_owned(),
            thinking_signature: signature.map(str::to_owned),
            redacted: None,
        })
    };
    for (block, expected) in [
        (Content::text(""), 0),
        (Content::text("a"), 1),
        (Content::text("abcd"), 1),
        (Content::text("abcde"), 2),
        (Content::text("漢字漢字"), 3),
        (Content::Image(Image { data: "A".repeat(100_000), mime_type: "image/png".to_owned() }), PICTURE_TOKENS),
        (thinking("12345678", Some("a proof")), 2),
        (thinking("", Some("12345678")), 2),
        (call(json!({"path": "a.rs"})), FRAME_TOKENS + 1 + 4),
        (Content::Unknown, 0),
    ] {
        assert_eq!(of_block(&block), expected, "{block:?}");
    }
}

#[test]
fn what_the_provider_counted_holds_until_something_changes_the_view() {
    let stop = StopReason::Stop;
    let ask = || entry("u1", user(&"q".repeat(36)));
    let told = PromptState { sections: vec![("s".to_owned(), "x".repeat(40))], tools: Vec::new() };
    let patch = || Message::System(SystemMessage { content: json!(""), ..SystemMessage::default() });
    let patched = of_message(&patch());
    let compaction = || {
        entry(
            "c",
            EntryBody::Compaction(Compaction {
                summary: "s".repeat(40),
                first_kept_entry_id: EntryId::from("a1"),
                tokens_before: 0,
                system_message: None,
                details: None,
                usage: None,
                from_hook: None,
            }),
        )
    };
    let summed = of_text(&"s".repeat(40));
    // Each message is estimated as 13 or 14: the user's 36 bytes, the reply's 40, and the frame.
    let all = 10 + 13 + 14;
    for (what, path, tokens, scale) in [
        ("no reply", vec![ask()], 10 + 13, 1_000),
        ("a good one", vec![ask(), entry("a1", reply("m", stop, 74))], 74, 2_000),
        ("and words after it", vec![ask(), entry("a1", reply("m", stop, 74)), entry("u2", user("four"))], 79, 2_000),
        ("another model's", vec![ask(), entry("a1", reply("n", stop, 74))], all, 1_000),
        ("one that was stopped", vec![ask(), entry("a1", reply("m", StopReason::Aborted, 74))], 10 + 13, 1_000),
        ("one that failed", vec![ask(), entry("a1", reply("m", StopReason::Error, 74))], 10 + 13, 1_000),
        ("nothing counted", vec![ask(), entry("a1", reply("m", stop, 0))], all, 1_000),
        ("told more since", vec![ask(), entry("a1", reply("m", stop, 74)), entry("s", patch())], 74 + patched, 2_000),
        ("less than estimated", vec![ask(), entry("a1", reply("m", stop, 5))], 5, 1_000),
        ("forged", vec![ask(), entry("a1", reply("m", stop, u64::MAX)), entry("u2", user("four"))], u64::MAX, 4_000),
        (
            "an older one behind one that failed",
            vec![ask(), entry("a1", reply("m", stop, 74)), entry("a2", reply("m", StopReason::Error, 9))],
            74,
            2_000,
        ),
        ("an edit after it", vec![ask(), entry("a1", reply("m", stop, 74)), entry("e", edit("u1"))], 10 + 14, 1_000),
        ("an edit before it", vec![ask(), entry("e", edit("u1")), entry("a1", reply("m", stop, 48))], 48, 2_000),
    ] {
        let count = count_of(&path, &told);
        assert_eq!((count.tokens, count.scale, count.fixed), (tokens, scale, 10), "{what}");
    }
    let path = [ask(), entry("a1", reply("m", stop, 74)), compaction()];
    let count = count_of(&path, &told);
    assert_eq!(count.scale, 1_000, "a compaction after it");
    assert!(count.tokens > 10 + 14 + summed && count.tokens < 10 + 14 + summed + 40, "{count:?}");
}

fn edit(target: &str) -> EntryBody {
    EntryBody::ContextEdit(pith_protocol::ContextEdit { target_id: target.into(), replacement: None })
}

fn count_of(path: &[Arc<Entry>], told: &PromptState) -> Count {
    let model = ModelRef { provider: "p".to_owned(), id: "m".to_owned() };
    count(path, &crate::projection::project(path), told, &model)
}
