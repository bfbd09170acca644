//! A conversation as text: what was said, called and found, each under a head of its own. Thoughts are left out, pictures named, long results
//! and inputs shortened in the middle.

use pith_sdk::{
    Content,
    messages::{AssistantBlock, Message},
};

/// The most of one result, in characters; what matters of it was said in replies.
const RESULT_CHARS: usize = 2_000;
/// The most of one call's input, in characters.
const INPUT_CHARS: usize = 2_000;

/// The messages, oldest first, in pieces of at most so many bytes: one where they fit, none where nothing was said. What is longer than a
/// piece by itself is shortened.
pub fn pieces(messages: &[Message], most: usize) -> Vec<String> {
    let mut pieces = Pieces { done: Vec::new(), open: String::new(), most };
    for message in messages {
        match message {
            Message::User(blocks) => pieces.part("user", &words(blocks)),
            Message::Custom(custom) => pieces.part(&format!("plugin {}", custom.kind), &words(&custom.content)),
            Message::Tool(result) => {
                let head = if result.is_error { "failed" } else { "result" };
                pieces.part(&format!("{head} {}", result.tool), &shortened(&words(&result.content), RESULT_CHARS));
            }
            Message::Assistant(reply) => {
                for block in &reply.blocks {
                    match block {
                        AssistantBlock::Text(text) => pieces.part("assistant", text),
                        AssistantBlock::Thinking(_) => {}
                        AssistantBlock::ToolCall(call) => {
                            pieces.part(&format!("call {}", call.name), &shortened(&call.input, INPUT_CHARS));
                        }
                    }
                }
            }
        }
    }
    if !pieces.open.is_empty() {
        pieces.done.push(pieces.open);
    }
    pieces.done
}

struct Pieces {
    done: Vec<String>,
    open: String,
    most: usize,
}

impl Pieces {
    fn part(&mut self, head: &str, text: &str) {
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        // Room for the head and the note of what was left out.
        let room = self.most.saturating_sub(head.len() + 64);
        // A character has at most four bytes.
        let cut = (text.len() > room).then(|| shortened(text, room / 4));
        let text = cut.as_deref().unwrap_or(text);
        if !self.open.is_empty() {
            if self.open.len() + head.len() + text.len() + 5 > self.most {
                self.done.push(std::mem::take(&mut self.open));
            } else {
                self.open.push('\n');
            }
        }
        for word in ["[", head, "]\n", text, "\n"] {
            self.open.push_str(word);
        }
    }
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
