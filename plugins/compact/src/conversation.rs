//! A conversation as text: what was said, called and found, each under a head of its own. Thoughts are left out, pictures named, long results
//! and inputs shortened in the middle.

use pith_sdk::{
    Content,
    messages::{AssistantBlock, Message, ToolMessage},
};

/// The most of one result, in characters; what matters of it was said in replies.
const RESULT_CHARS: usize = 2_000;
/// The most of one call's input, in characters.
const INPUT_CHARS: usize = 2_000;

/// The messages, oldest first.
pub fn text(messages: &[Message]) -> String {
    let mut out = String::new();
    for message in messages {
        match message {
            Message::User(blocks) => part(&mut out, "user", &words(blocks)),
            Message::Custom(custom) => part(&mut out, &format!("plugin {}", custom.kind), &words(&custom.content)),
            Message::Tool(result) => tool(&mut out, result),
            Message::Assistant(reply) => {
                for block in &reply.blocks {
                    match block {
                        AssistantBlock::Text(text) => part(&mut out, "assistant", text),
                        AssistantBlock::Thinking(_) => {}
                        AssistantBlock::ToolCall(call) => {
                            part(&mut out, &format!("call {}", call.name), &shortened(&call.input, INPUT_CHARS));
                        }
                    }
                }
            }
        }
    }
    out
}

fn tool(out: &mut String, result: &ToolMessage) {
    let head = if result.is_error { "failed" } else { "result" };
    part(out, &format!("{head} {}", result.tool), &shortened(&words(&result.content), RESULT_CHARS));
}

fn part(out: &mut String, head: &str, text: &str) {
    let text = text.trim_end();
    if text.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out.push('[');
    out.push_str(head);
    out.push_str("]\n");
    out.push_str(text);
    out.push('\n');
}

fn words(blocks: &[Content]) -> String {
    let texts = blocks.iter().map(|block| match block {
        Content::Text(text) => text.clone(),
        Content::Image(image) => format!("(a picture, {})", image.mime_type),
        Content::File(file) => format!("(a file, {}, {})", file.name, file.mime_type),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Two thirds of its beginning and a third of its end, where it is longer.
pub fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let (head, tail) = (most * 2 / 3, most / 3);
    let beginning: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{beginning}\n[... {} characters left out ...]\n{end}", count - head - tail)
}
