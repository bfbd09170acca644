//! Asking a model beside the conversation: what a plugin asks through the import `models`, a compactor's summary among it. Nothing of it is in
//! the session but the tokens, which a `Meter` keeps until whoever made the call records them.

use crate::{
    dispatch::CANCEL_GRACE,
    ports::{Clock, FailureKind, Model, ModelCard, ModelEvent, ModelFailure, ModelRequest},
    run::RetryLaw,
};
use futures::StreamExt;
use pith_protocol::{AssistantMessage, EntryBody, ModelRef, StopReason, Usage, UsageEntry};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// What the entries are called that say what plugins asked of models.
const PLUGIN_USAGE: &str = "plugin";

/// Asks the session's model, with the session's law of trying again. A cheap handle.
#[derive(Clone)]
pub struct Asker {
    model: Arc<dyn Model>,
    retry: RetryLaw,
    clock: Arc<dyn Clock>,
}

/// A reply that did not come.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The call was cancelled.
    #[error("the request was stopped")]
    Aborted,
    /// The provider refused, or could not be reached, as often as the law has it tried.
    #[error("{message}")]
    Failed {
        /// What kind of failure.
        kind: FailureKind,
        /// The provider's words; never a credential.
        message: String,
    },
}

impl Asker {
    /// Over a session's model.
    pub fn new(model: Arc<dyn Model>, retry: RetryLaw, clock: Arc<dyn Clock>) -> Self {
        Self { model, retry, clock }
    }

    /// Who is asked.
    pub fn card(&self) -> &ModelCard {
        self.model.card()
    }

    /// One reply, whole. Tokens of every try are noted under `who`, those of replies that failed too. Dropping this drops the request.
    ///
    /// # Errors
    /// `AskError`; a reply that was cut at its limit is none: its `stop_reason` says so.
    pub async fn complete(
        &self,
        request: ModelRequest,
        who: &str,
        spent: &Meter,
        cancel: &CancellationToken,
    ) -> Result<AssistantMessage, AskError> {
        let mut attempts = 0;
        loop {
            let (mut reply, failure) = self.once(request.clone(), cancel).await?;
            spent.note(who, &self.card().model, &reply.usage);
            match reply.stop_reason {
                StopReason::Aborted => return Err(AskError::Aborted),
                StopReason::Error => {}
                _ => {
                    reply.timestamp = self.clock.now_millis();
                    return Ok(reply);
                }
            }
            let message = reply.error_message.unwrap_or_else(|| "the request failed".to_owned());
            let unclassified = ModelFailure { kind: FailureKind::Other, retry_after: None, window_tokens: None };
            let failure = failure.unwrap_or(unclassified);
            let Some(wait) = self.retry.wait(&failure, attempts) else {
                return Err(AskError::Failed { kind: failure.kind, message });
            };
            attempts += 1;
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(AskError::Aborted),
                () = self.clock.sleep(wait) => {}
            }
        }
    }

    async fn once(
        &self,
        request: ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<(AssistantMessage, Option<ModelFailure>), AskError> {
        let mut stream = self.model.ask(request, cancel.clone());
        let overdue = async {
            cancel.cancelled().await;
            self.clock.sleep(CANCEL_GRACE).await;
        };
        tokio::pin!(overdue);
        loop {
            let event = tokio::select! {
                biased;
                event = stream.next() => event,
                () = &mut overdue => return Err(AskError::Aborted),
            };
            match event {
                Some(ModelEvent::Done { message, failure }) => return Ok((message, failure)),
                Some(_) => {}
                None => {
                    let message = "the model's answer has no end".to_owned();
                    return Err(AskError::Failed { kind: FailureKind::Other, message });
                }
            }
        }
    }
}

/// What one call asked of models, until it is recorded: kept apart from the call, so that one that was dropped midway still counts.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Vec<Spent>>>);

/// Tokens of one reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// The plugin.
    pub who: String,
    /// The model.
    pub model: ModelRef,
    /// The tokens.
    pub usage: Usage,
}

impl Meter {
    /// Notes a reply's tokens; nothing where there are none.
    pub fn note(&self, who: &str, model: &ModelRef, usage: &Usage) {
        if usage.total_tokens == 0 {
            return;
        }
        let spent = Spent { who: who.to_owned(), model: model.clone(), usage: usage.clone() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(spent);
    }

    /// Takes all that was noted.
    pub fn take(&self) -> Vec<Spent> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same as entries, for calls whose tokens nothing else of the session counts.
    pub(crate) fn take_entries(&self) -> Vec<EntryBody> {
        let entry = |Spent { who, model, usage }| {
            EntryBody::Usage(UsageEntry {
                kind: PLUGIN_USAGE.to_owned(),
                provider: model.provider,
                model: model.id,
                usage,
                note: Some(who),
            })
        };
        self.take().into_iter().map(entry).collect()
    }
}
