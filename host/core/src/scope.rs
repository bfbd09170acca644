//! What a call carries of its surroundings.

use crate::{
    asker::{Asker, Meter},
    outbox::Outbox,
    ports::Person,
    session::Session,
};
use pith_protocol::{Caller, Content, Event, ThinkingLevel, ToolResultView};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Facts of the run that a call serves; they do not change within a call.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// `provider/model`.
    pub model: Option<String>,
    /// The level asked for.
    pub thinking: ThinkingLevel,
    /// Turns since the last user message, from 0.
    pub turn: u32,
    /// `interactive`, `print`, `json`, `rpc`, `library` or `channel`.
    pub face: String,
    /// Whether a person can answer now.
    pub interactive: bool,
    /// The model's window, and what is used of it where that is known.
    pub window_tokens: Option<u64>,
    /// Tokens of the last request and reply.
    pub used_tokens: Option<u64>,
}

/// What a call carries: the session it belongs to, the facts of its run, where its progress goes, and what ends it.
#[derive(Clone)]
pub struct CallScope {
    /// The session.
    pub session: Session,
    /// The run.
    pub facts: Arc<RunFacts>,
    /// Who asked.
    pub caller: Caller,
    /// Cancelled when the call shall end.
    pub cancel: CancellationToken,
    /// Where partial output goes.
    pub progress: Progress,
    /// Where faults and other events go.
    pub outbox: Outbox,
    /// Whom plugins may ask.
    pub person: Arc<dyn Person>,
    /// The model that plugins may ask.
    pub asker: Asker,
    /// What they asked of it: whoever made the call records it.
    pub spent: Meter,
}

/// Where a call's partial output goes.
#[derive(Clone)]
pub struct Progress {
    outbox: Outbox,
    call_id: String,
    tool: String,
    args: Value,
    /// What was shown last: all that there is of a call that is cut short.
    latest: Arc<Mutex<Vec<Content>>>,
}

impl Progress {
    /// For one call.
    pub fn new(outbox: Outbox, call_id: String, tool: String, args: Value) -> Self {
        Self { outbox, call_id, tool, args, latest: Arc::default() }
    }

    /// Shows the output so far. It never waits: where a face is behind, the update is dropped, and a later one will say more.
    pub fn update(&self, content: Vec<Content>, details: Option<Value>) {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&content);
        self.outbox.offer(Event::ToolExecutionUpdate {
            tool_call_id: self.call_id.clone(),
            tool_name: self.tool.clone(),
            args: self.args.clone(),
            partial_result: ToolResultView { content, structured_content: None, details },
        });
    }
    /// The text that was shown last; none where there was none.
    pub(crate) fn latest_text(&self) -> Option<String> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let text = latest.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n");
        (!text.is_empty()).then_some(text)
    }
}
