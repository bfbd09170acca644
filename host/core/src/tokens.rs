//! How many tokens a conversation takes: what the provider counted, and estimates for the rest. Pure functions over the path.

use crate::projection::{Projection, PromptState};
use pith_protocol::{AssistantMessage, Content, Entry, EntryBody, Message, ModelRef, StopReason};
use serde::Serialize;
use std::{io, sync::Arc};

/// Bytes of text that count as one token. UTF-8, so that a letter of English is a quarter of a token and a Chinese one three quarters.
pub const BYTES_PER_TOKEN: u64 = 4;
/// What a picture counts as, in tokens.
pub const PICTURE_TOKENS: u64 = 1_200;
/// What every message takes beside its content: its role, a call's id.
pub(crate) const FRAME_TOKENS: u64 = 4;
/// How far the provider's count is believed against an estimate, in thousandths: text of digits or of rare letters takes up to four times.
const LEAST_SCALE: u64 = 1_000;
pub(crate) const MOST_SCALE: u64 = 4_000;

/// Tokens of a text, estimated.
pub(crate) fn of_text(text: &str) -> u64 {
    of_bytes(text.len() as u64)
}

fn of_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Tokens of a block, estimated. Thoughts that the provider does not show count by their proof, which is about as long.
pub(crate) fn of_block(block: &Content) -> u64 {
    match block {
        Content::Text(text) => of_text(&text.text),
        Content::Thinking(thinking) if thinking.thinking.is_empty() => {
            thinking.thinking_signature.as_deref().map_or(0, of_text)
        }
        Content::Thinking(thinking) => of_text(&thinking.thinking),
        Content::Image(_) => PICTURE_TOKENS,
        Content::ToolCall(call) => {
            FRAME_TOKENS.saturating_add(of_text(&call.name)).saturating_add(of_bytes(json_bytes(&call.arguments)))
        }
        Content::Unknown => 0,
    }
}

/// Tokens of blocks, estimated.
pub(crate) fn of_blocks(blocks: &[Content]) -> u64 {
    blocks.iter().map(of_block).fold(0, u64::saturating_add)
}

/// Tokens of a message as it stands in a projection, estimated.
pub(crate) fn of_message(message: &Message) -> u64 {
    FRAME_TOKENS.saturating_add(match message {
        Message::User(user) => of_blocks(&user.content),
        Message::Assistant(reply) => of_blocks(&reply.content),
        Message::ToolResult(result) => of_blocks(&result.content),
        Message::Custom(custom) => of_blocks(&custom.content),
        Message::BashExecution(run) => of_text(&run.command).saturating_add(of_text(&run.output)),
        Message::BranchSummary(branch) => of_text(&branch.summary),
        Message::CompactionSummary(summary) => of_text(&summary.summary),
        Message::System(patch) => of_bytes(json_bytes(patch)),
    })
}

/// Tokens of messages, estimated.
pub(crate) fn of_messages(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| of_message(message)).fold(0, u64::saturating_add)
}

/// Tokens of the prompt's sections and the tools that are declared, estimated.
pub(crate) fn of_prompt(told: &PromptState) -> u64 {
    let sections = told.sections.iter().map(|(_, text)| of_text(text));
    let tools = told.tools.iter().map(|tool| of_bytes(json_bytes(tool)).saturating_add(FRAME_TOKENS));
    sections.chain(tools).fold(0, u64::saturating_add)
}

/// The length of a value's JSON, without making it.
fn json_bytes(value: &impl Serialize) -> u64 {
    struct Counter(u64);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len() as u64);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A counter takes everything; what is no JSON counts as far as it came.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// What the next request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// The provider's count of the last reply and estimates of what came after it; the estimate where there is no such reply.
    pub tokens: u64,
    /// All of it, estimated.
    pub estimate: u64,
    /// Of the estimate, the prompt's sections and the tools.
    pub fixed: u64,
    /// What the provider counted for each 1,000 estimated tokens; 1,000 where that is not known or less.
    pub scale: u64,
}

/// Counts what the next request takes. The provider's count holds where the last good reply is of the model that is asked, is in view, and
/// nothing on the path after it changed the view (a compaction, a context edit).
pub(crate) fn count(path: &[Arc<Entry>], view: &Projection, told: &PromptState, model: &ModelRef) -> Count {
    let fixed = of_prompt(told);
    let estimate = fixed.saturating_add(of_messages(&view.messages));
    let unscaled = Count { tokens: estimate, estimate, fixed, scale: LEAST_SCALE };
    let Some((entry, used, told_since)) = last_counted(path, model) else { return unscaled };
    let Some(at) = view.sources.iter().rposition(|source| source.as_ref() == Some(&entry.id)) else { return unscaled };
    let since = of_messages(&view.messages[at + 1..]);
    let until = estimate.saturating_sub(since).max(1);
    let scale = used.saturating_mul(1_000) / until;
    let tokens = used.saturating_add(since).saturating_add(told_since);
    Count { tokens, scale: scale.clamp(LEAST_SCALE, MOST_SCALE), ..unscaled }
}

/// The newest reply whose count still holds, that count, and the estimate of what the model was told since.
fn last_counted<'a>(path: &'a [Arc<Entry>], model: &ModelRef) -> Option<(&'a Entry, u64, u64)> {
    let mut told_since = 0_u64;
    for entry in path.iter().rev() {
        match &entry.body {
            EntryBody::Compaction(_) | EntryBody::ContextEdit(_) => return None,
            EntryBody::Message(message) => match message.message.as_ref() {
                Message::Assistant(reply) if counts(reply) => {
                    let same = reply.provider == model.provider && reply.model == model.id;
                    return same.then_some((entry.as_ref(), used(reply), told_since));
                }
                told @ Message::System(_) => told_since = told_since.saturating_add(of_message(told)),
                _ => {}
            },
            _ => {}
        }
    }
    None
}

fn counts(reply: &AssistantMessage) -> bool {
    !matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted | StopReason::Pending) && used(reply) > 0
}

/// What a reply and its request took, as the provider counted.
pub(crate) fn used(reply: &AssistantMessage) -> u64 {
    match reply.usage.total_tokens {
        0 => reply.usage.clone().totalled().total_tokens,
        total => total,
    }
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
