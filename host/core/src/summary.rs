//! One summary: asked of the compactors, once more where they refuse or write nothing of use, and held to its length.

use crate::{
    ports::{Stop, Summarised, SummaryJob},
    run::Agent,
    scope::{Progress, RunFacts},
    shrink::{bounded, shrunk},
    tokens,
};
use pith_protocol::{Caller, Content, Message, Usage};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How often a summary is asked for. A plugin that failed, by a trap or at a limit, would only fail again.
const TRIES: u32 = 2;
/// The longest that one is waited for; a plugin's own deadline is shorter.
const SUMMARY_DEADLINE: Duration = Duration::from_secs(600);
/// A summary may be longer than it was asked to be, for limits are estimates: up to so many times.
const LENGTH_SLACK: u64 = 2;
/// The most of a plugin's reason that is passed on, in bytes.
const REASON_BYTES: usize = 500;
/// Texts in what is to be summed up are cut to no less, in bytes.
const SHORTEST_JOB_TEXT_BYTES: usize = 256;

/// A summary.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub text: String,
    /// The plugin's own.
    pub details: Option<Value>,
}

/// Why there is none.
#[derive(Clone, Debug)]
pub(crate) enum SummedUp {
    /// No plugin writes summaries.
    NoCompactor,
    /// It failed; says how.
    Failed(String),
    /// It was stopped.
    Aborted,
}

/// What summaries took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spent(Option<Usage>);

impl Spent {
    pub fn add(&mut self, usage: &Usage) {
        let sum = self.0.get_or_insert_with(Usage::default);
        sum.add_tokens(usage);
        sum.cost.add(&usage.cost);
        sum.cost.unknown |= usage.cost_total().is_none();
    }

    /// All of it; none where nothing was asked of a model.
    pub fn total(&self) -> Option<Usage> {
        self.0.clone()
    }
}

impl Agent {
    /// Asks for a summary. Cancelling ends it at once.
    pub(crate) async fn sum_up(
        &self,
        job: &SummaryJob,
        facts: &Arc<RunFacts>,
        cancel: &CancellationToken,
        spent: &mut Spent,
    ) -> Result<Written, SummedUp> {
        let mut why = String::new();
        for _ in 0..TRIES {
            let progress = Progress::new(self.outbox.clone(), String::new(), String::new(), Value::Null);
            let scope = self.scope(facts.clone(), Caller::Host, cancel, progress);
            let deadline = self.session.clock().sleep(SUMMARY_DEADLINE);
            let summarised = tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                summarised = self.dispatcher.summarise(job, scope.clone()) => Some(summarised),
                () = deadline => {
                    why = format!("the summary was not there after {} s", SUMMARY_DEADLINE.as_secs());
                    None
                }
            };
            for asked in scope.spent.take() {
                spent.add(&asked.usage);
            }
            why = match summarised {
                _ if cancel.is_cancelled() => return Err(SummedUp::Aborted),
                None => return Err(SummedUp::Failed(why)),
                Some(Summarised::None) => return Err(SummedUp::NoCompactor),
                Some(Summarised::Stopped { stop: Stop::Fault(fault), .. }) => {
                    return Err(SummedUp::Failed(bounded(&fault.to_string(), REASON_BYTES)));
                }
                Some(Summarised::Stopped { plugin, stop: Stop::Refused(refusal) }) => {
                    format!("plugin {plugin}: {}", bounded(&refusal.message, REASON_BYTES))
                }
                Some(Summarised::Summary { plugin, text, .. }) if text.trim().is_empty() => {
                    format!("plugin {plugin} wrote an empty summary")
                }
                Some(Summarised::Summary { plugin, text, details }) => {
                    let took = tokens::of_text(&text);
                    if took <= u64::from(job.limit_tokens).saturating_mul(LENGTH_SLACK) {
                        return Ok(Written { text, details });
                    }
                    format!(
                        "plugin {plugin} wrote a summary of about {took} tokens; {} were asked for",
                        job.limit_tokens
                    )
                }
            };
        }
        Err(SummedUp::Failed(why))
    }
}

/// The messages as they are where they take no more than `room` tokens, estimated; else their long texts cut alike, and pictures left out.
pub(crate) fn fitted(messages: Vec<Arc<Message>>, room: u64) -> Vec<Arc<Message>> {
    let mut fitted = messages;
    let mut cap = 1 << 16;
    while tokens::of_messages(&fitted) > room && cap >= SHORTEST_JOB_TEXT_BYTES {
        for message in &mut fitted {
            if let Some(content) = shrunk(message, cap) {
                *message = Arc::new(with(message, content));
            }
        }
        cap /= 2;
    }
    fitted
}

fn with(message: &Message, content: Vec<Content>) -> Message {
    let mut message = message.clone();
    match &mut message {
        Message::User(user) => user.content = content,
        Message::Assistant(reply) => reply.content = content,
        Message::ToolResult(result) => result.content = content,
        _ => {}
    }
    message
}
