//! The shipped plugin `compact`: writes the summary that takes the place of older messages when the model's window is nearly full, or when the
//! user asks. What is kept and what is summed up, the host decides; the words are this plugin's. Asking is an argument, so that all of it runs
//! natively as well.

mod conversation;
mod files;
mod wording;

use pith_sdk::{
    Compactor, Content, Error, ErrorKind, context,
    messages::{AssistantBlock, AssistantMessage, Message, StopReason},
    models::{self, Query},
    summary::{Job, Summary},
};

/// The compactor.
#[derive(Debug)]
pub struct Compact;

impl Compactor for Compact {
    fn compact(job: Job) -> Result<Option<Summary>, Error> {
        let window = context::window().map(|window| window.window_tokens);
        summarise(job, window, models::complete).map(Some)
    }
}

pith_sdk::export_compactor!(Compact);

/// Bytes that are taken for a token: fewer than usual, so that a piece which is guessed to fit does.
const TOKEN_BYTES: usize = 3;
/// Tokens of the prompt around a conversation.
const PROMPT_TOKENS: u32 = 1_500;
/// The least bytes of a piece: below it a window is no use.
const LEAST_PIECE: usize = 4_000;
/// The most pieces that a conversation is summed up in; one that needs more takes hours.
const MOST_PIECES: usize = 24;
/// How often the pieces are halved, where the provider says that they are too long all the same.
const HALVINGS: u32 = 2;

/// Writes the summary of a job by asking `ask`: once where the conversation fits the model's `window` of tokens, else piece by piece, each bringing
/// the summary up to date.
///
/// # Errors
/// What `ask` refuses; a reply that is no summary: cut, empty, or a call of tools; a conversation of too many pieces.
pub fn summarise(
    job: Job,
    window: Option<u32>,
    ask: impl Fn(&Query) -> Result<AssistantMessage, Error>,
) -> Result<Summary, Error> {
    // The limit is an estimate: a summary that is a little longer is still of use, one that is cut is not.
    let output = job.limit_tokens.saturating_add(job.limit_tokens / 2);
    let before = job.previous_summary.as_deref().map(files::without);
    let mut room = window.map_or(usize::MAX, |window| {
        let taken = output.saturating_mul(2).saturating_add(PROMPT_TOKENS);
        (window.saturating_sub(taken) as usize).saturating_mul(TOKEN_BYTES).max(LEAST_PIECE)
    });
    let mut halvings = 0;
    let text = loop {
        let pieces = conversation::pieces(&job.messages, room);
        let longest = pieces.iter().map(String::len).max().unwrap_or_default();
        match through(&job, before.clone(), pieces, output, &ask) {
            Err(error) if error.kind == ErrorKind::Overflow && halvings < HALVINGS && longest > LEAST_PIECE => {
                halvings += 1;
                room = (longest / 2).max(LEAST_PIECE);
            }
            other => break other?,
        }
    };
    Ok(Summary { text: files::listed(text, &job.files_read, &job.files_modified), details: None })
}

fn through(
    job: &Job,
    before: Option<String>,
    pieces: Vec<String>,
    output_tokens: u32,
    ask: impl Fn(&Query) -> Result<AssistantMessage, Error>,
) -> Result<String, Error> {
    if pieces.len() > MOST_PIECES {
        let text =
            format!("the conversation would be summed up in {} pieces; {MOST_PIECES} are the most", pieces.len());
        return Err(Error::limit(text));
    }
    let mut summary = before;
    for told in pieces {
        let request = wording::request(job, summary.as_deref(), &told);
        let query = Query {
            model: None,
            system: wording::SYSTEM.to_owned(),
            messages: vec![Message::User(vec![Content::Text(request)])],
            thinking: Some("off".to_owned()),
            output_tokens,
            schema: None,
        };
        summary = Some(written(ask(&query)?)?);
    }
    summary.filter(|text| !text.is_empty()).ok_or_else(|| Error::internal("there is nothing to sum up"))
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
