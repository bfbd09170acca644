//! Messages made shorter for the model's view: head and tail of long texts, a note for pictures. What a session keeps is not touched.

use crate::{dispatch::cut_middle, tokens};
use pith_protocol::{Content, Message, ToolCall};
use serde_json::{Map, Value};

/// The note between head and tail takes no more, in bytes.
const NOTE_BYTES: usize = 64;
/// Deeper values of a call's arguments are left as they are.
const ARGUMENT_DEPTH: usize = 32;
/// What stands for a picture.
const NO_PICTURE: &str = "[a picture was left out here, so that the rest fits the model's window]";

/// The message's content with no text longer than `cap` bytes, none of a call's arguments either, and without pictures that would take more.
/// Signed thoughts stay as they are: providers take them back only unchanged. None where nothing changes.
pub(crate) fn shrunk(message: &Message, cap: usize) -> Option<Vec<Content>> {
    let (content, is_reply) = match message {
        Message::User(user) => (&user.content, false),
        Message::ToolResult(result) => (&result.content, false),
        Message::Assistant(reply) => (&reply.content, true),
        _ => return None,
    };
    let mut changed = false;
    let mut blocks: Vec<Content> = content.iter().map(|block| smaller(block, cap, &mut changed)).collect();
    let text_bytes: usize = blocks.iter().filter_map(Content::as_text).map(str::len).sum();
    if !is_reply && text_bytes > cap {
        // Many blocks that are short each: they count as one text.
        let text: Vec<&str> = blocks.iter().filter_map(Content::as_text).collect();
        let joined = Content::text(bounded(&text.join("\n"), cap));
        blocks.retain(|block| block.as_text().is_none());
        blocks.insert(0, joined);
        changed = true;
    }
    changed.then_some(blocks)
}

fn smaller(block: &Content, cap: usize, changed: &mut bool) -> Content {
    let smaller = match block {
        Content::Text(text) if text.text.len() > cap => Content::text(bounded(&text.text, cap)),
        Content::Thinking(thinking) if thinking.thinking_signature.is_none() && thinking.thinking.len() > cap => {
            let mut thinking = thinking.clone();
            thinking.thinking = bounded(&thinking.thinking, cap);
            Content::Thinking(thinking)
        }
        Content::Image(_) if tokens::PICTURE_TOKENS * tokens::BYTES_PER_TOKEN > cap as u64 => Content::text(NO_PICTURE),
        Content::ToolCall(call)
            if tokens::of_block(block) * tokens::BYTES_PER_TOKEN > cap.max(NOTE_BYTES * 4) as u64 =>
        {
            Content::ToolCall(ToolCall { arguments: arguments(call, cap), arguments_text: None, ..call.clone() })
        }
        _ => return block.clone(),
    };
    *changed = true;
    smaller
}

/// Long strings shortened; where that is not enough, a note in place of all.
fn arguments(call: &ToolCall, cap: usize) -> Map<String, Value> {
    let shorter: Map<String, Value> = call
        .arguments
        .iter()
        .map(|(name, value)| (name.clone(), cut_strings(value, cap / 2, ARGUMENT_DEPTH)))
        .collect();
    let fits = |arguments: &Map<String, Value>| {
        let block = Content::ToolCall(ToolCall { arguments: arguments.clone(), ..call.clone() });
        tokens::of_block(&block) * tokens::BYTES_PER_TOKEN <= cap as u64
    };
    if fits(&shorter) {
        return shorter;
    }
    let path = call.arguments.get("path").filter(|path| path.as_str().is_some_and(|path| path.len() <= cap / 2));
    let mut note = Map::new();
    if let Some(path) = path {
        note.insert("path".to_owned(), path.clone());
    }
    note.insert("left_out".to_owned(), Value::String("[long arguments]".to_owned()));
    note
}

fn cut_strings(value: &Value, cap: usize, depth: usize) -> Value {
    match value {
        Value::String(text) if text.len() > cap => Value::String(bounded(text, cap)),
        Value::Array(items) if depth > 0 => items.iter().map(|item| cut_strings(item, cap, depth - 1)).collect(),
        Value::Object(members) if depth > 0 => {
            members.iter().map(|(name, member)| (name.clone(), cut_strings(member, cap, depth - 1))).collect()
        }
        other => other.clone(),
    }
}

/// At most `limit` bytes: head and tail, with a note between them where there is room for one.
pub(crate) fn bounded(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        text.to_owned()
    } else if limit < NOTE_BYTES * 2 {
        text[..text.floor_char_boundary(limit)].to_owned()
    } else {
        cut_middle(text, limit - NOTE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pith_protocol::{AssistantMessage, Image, Thinking, ToolResultMessage, UserMessage};
    use serde_json::json;

    #[test]
    fn what_is_long_is_cut_and_what_is_short_stays() {
        let user = |content| Message::User(UserMessage { content, timestamp: 0 });
        assert_eq!(shrunk(&user(vec![Content::text("x".repeat(500))]), 500), None);
        let cut = shrunk(&user(vec![Content::text(format!("{}{}", "a".repeat(500), "z".repeat(500)))]), 500).unwrap();
        let text = cut[0].as_text().unwrap();
        assert!(text.len() <= 500 && text.starts_with("aaa") && text.ends_with("zzz") && text.contains("left out"));
        let many = user((0..100).map(|at| Content::text(format!("block {at:03}"))).collect());
        let cut = shrunk(&many, 300).unwrap();
        assert_eq!(cut.len(), 1);
        let text = cut[0].as_text().unwrap();
        assert!(text.len() <= 300 && text.starts_with("block 000") && text.ends_with("block 099"), "{text}");
        assert_eq!(bounded("ééé", 3), "é");
    }

    #[test]
    fn calls_keep_their_ids_and_signed_thoughts_their_words() {
        let call = |arguments: Value| {
            Content::ToolCall(ToolCall {
                id: "c".to_owned(),
                name: "write".to_owned(),
                arguments: arguments.as_object().cloned().unwrap(),
                arguments_error: None,
                thought_signature: None,
                arguments_text: None,
            })
        };
        let signed = Content::Thinking(Thinking {
            thinking: "t".repeat(5_000),
            thinking_signature: Some("s".to_owned()),
            redacted: None,
        });
        let content = vec![
            signed.clone(),
            call(json!({"path": "a", "content": "x".repeat(9_000)})),
            call(json!({"path": "b", "list": (0..5_000).collect::<Vec<u32>>()})),
        ];
        let reply = Message::Assistant(AssistantMessage { content, ..AssistantMessage::default() });
        let cut = shrunk(&reply, 1_000).unwrap();
        assert_eq!(cut[0], signed);
        let Content::ToolCall(first) = &cut[1] else { panic!() };
        assert_eq!((first.id.as_str(), &first.arguments["path"]), ("c", &json!("a")));
        assert!(first.arguments["content"].as_str().unwrap().len() <= 500);
        assert_eq!(cut[2], call(json!({"path": "b", "left_out": "[long arguments]"})));
        assert!(shrunk(&reply, 40_000).is_none());
    }

    #[test]
    fn pictures_go_where_they_would_take_more() {
        let picture = Content::Image(Image { data: "AAAA".to_owned(), mime_type: "image/png".to_owned() });
        let result = Message::ToolResult(ToolResultMessage { content: vec![picture], ..ToolResultMessage::default() });
        assert_eq!(shrunk(&result, 4_800), None);
        assert_eq!(shrunk(&result, 4_799), Some(vec![Content::text(NO_PICTURE)]));
    }
}
