//! The shipped plugin `compact`: writes the summary that takes the place of older messages when the model's window is nearly full, or when the
//! user asks. What is kept and what is summed up, the host decides; the words are this plugin's. Asking is an argument, so that all of it runs
//! natively as well.

mod conversation;
mod files;
mod wording;

use pith_sdk::{
    Compactor, Content, Error,
    messages::{AssistantBlock, AssistantMessage, Message, StopReason},
    models::{self, Query},
    summary::{Job, Summary},
};

/// The compactor.
#[derive(Debug)]
pub struct Compact;

impl Compactor for Compact {
    fn compact(job: Job) -> Result<Option<Summary>, Error> {
        summarise(job, models::complete).map(Some)
    }
}

pith_sdk::export_compactor!(Compact);

/// Writes the summary of a job by asking `ask` once.
///
/// # Errors
/// What `ask` refuses, and a reply that is no summary: cut, empty, or a call of tools.
pub fn summarise(job: Job, ask: impl Fn(&Query) -> Result<AssistantMessage, Error>) -> Result<Summary, Error> {
    let previous = job.previous_summary.as_deref().map(files::without);
    let told = conversation::text(&job.messages);
    let query = Query {
        model: None,
        system: wording::SYSTEM.to_owned(),
        messages: vec![Message::User(vec![Content::Text(wording::request(&job, previous.as_deref(), &told))])],
        thinking: Some("off".to_owned()),
        // The limit is an estimate: a summary that is a little longer is still of use, one that is cut is not.
        output_tokens: job.limit_tokens.saturating_add(job.limit_tokens / 2),
        schema: None,
    };
    let text = written(ask(&query)?)?;
    Ok(Summary { text: files::listed(text, &job.files_read, &job.files_modified), details: None })
}

fn written(reply: AssistantMessage) -> Result<String, Error> {
    match reply.stop_reason {
        StopReason::Stop => {}
        StopReason::Length => return Err(Error::limit("the model's summary was cut at its length")),
        StopReason::ToolUse => return Err(Error::internal("the model called a tool instead of writing a summary")),
        StopReason::Error | StopReason::Aborted => {
            let why = reply.error_message.unwrap_or_else(|| "no reason was given".to_owned());
            return Err(Error::internal(format!("the model's summary failed: {why}")));
        }
    }
    let text: String = reply
        .blocks
        .into_iter()
        .filter_map(|block| match block {
            AssistantBlock::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    let text = files::without(text.trim());
    if text.is_empty() { Err(Error::internal("the model's summary is empty")) } else { Ok(text) }
}

#[cfg(test)]
mod tests;
