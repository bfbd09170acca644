//! One reply: the request, its stream as events, and trying again where that can help.

use crate::{
    dispatch::CANCEL_GRACE,
    ports::{FailureKind, ModelEvent, ModelFailure, ModelRequest},
    projection::PromptState,
    run::{Agent, RetryLaw, Run},
    session::SessionError,
    tokens,
};
use futures::StreamExt;
use pith_protocol::{
    AssistantDelta, AssistantMessage, ContextEdit, Entry, EntryBody, Event, Message, StopReason, Usage,
};
use std::{sync::Arc, time::Duration};

/// What a reply that was stopped says of itself.
const ABORTED: &str = "This operation was aborted";

/// A reply that is in the session.
struct Asked {
    reply: AssistantMessage,
    entry: Arc<Entry>,
    /// It did not fit, and a shorter conversation may.
    may_recover: bool,
}

/// What a stream gave.
struct Heard {
    reply: AssistantMessage,
    failure: Option<ModelFailure>,
    /// Its beginning was told already.
    begun: bool,
}

impl Agent {
    /// A request, tried again where that can help. The reply is in the session when this returns.
    pub(crate) async fn ask(&self, run: &mut Run, told: &PromptState) -> Result<AssistantMessage, SessionError> {
        let mut attempt = 0;
        let mut recoveries = 0;
        loop {
            let Asked { reply, entry, may_recover } = self.ask_once(run, told, recoveries).await?;
            if may_recover {
                if attempt > 0 {
                    let final_error = reply.error_message.clone();
                    self.outbox.send(Event::AutoRetryEnd { success: false, attempt, final_error }).await;
                    attempt = 0;
                }
                if reply.stop_reason != StopReason::Error && !reply.content.is_empty() {
                    // Half a reply is no ground to go on from; a failed one is not in the model's view anyway.
                    let edit = ContextEdit { target_id: entry.id.clone(), replacement: None };
                    let entry = self.session.append(EntryBody::ContextEdit(edit))?;
                    self.outbox.send(Event::EntryAppended { entry }).await;
                }
                if self.recover(run, recoveries).await? {
                    recoveries += 1;
                    continue;
                }
                return Ok(reply);
            }
            let failed = reply.stop_reason == StopReason::Error;
            let wait = run.failure.as_ref().filter(|_| failed).and_then(|failure| self.retry.wait(failure, attempt));
            let Some(wait) = wait else {
                if attempt > 0 {
                    let final_error = if failed { reply.error_message.clone() } else { None };
                    self.outbox.send(Event::AutoRetryEnd { success: !failed, attempt, final_error }).await;
                }
                return Ok(reply);
            };
            attempt += 1;
            let event = Event::AutoRetryStart {
                attempt,
                max_attempts: self.retry.attempts,
                delay_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                error_message: reply.error_message.clone().unwrap_or_default(),
            };
            self.outbox.send(event).await;
            tokio::select! {
                () = self.session.clock().sleep(wait) => {}
                // The next request is aborted before it is sent, and the session says so.
                () = run.cancel.cancelled() => {}
            }
        }
    }

    async fn ask_once(&self, run: &mut Run, told: &PromptState, recoveries: u32) -> Result<Asked, SessionError> {
        let clock = self.session.clock().clone();
        let (timestamp, began) = (clock.now_millis(), clock.monotonic_millis());
        let Heard { mut reply, failure, begun } = if run.cancel.is_cancelled() {
            Heard { reply: self.unborn(StopReason::Aborted, ABORTED), failure: None, begun: false }
        } else {
            self.listen(run, told, timestamp).await
        };
        reply.timestamp = timestamp;
        reply.duration_ms = Some(clock.monotonic_millis().saturating_sub(began));
        reply.thinking_level = Some(self.thinking.as_str().to_owned());
        if reply.stop_reason == StopReason::Aborted && reply.error_message.is_none() {
            reply.error_message = Some(ABORTED.to_owned());
        }
        let is_overflow = failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::Overflow);
        if let Some(window) = failure.as_ref().and_then(|failure| failure.window_tokens) {
            self.budgets.learn(&self.model.card().model, window);
        }
        let mut may_recover = false;
        if is_overflow && reply.stop_reason == StopReason::Error {
            match self.beyond_help(told, recoveries) {
                None => may_recover = true,
                Some(why) => {
                    let said = reply.error_message.take().unwrap_or_else(|| "the conversation is too long".to_owned());
                    reply.error_message = Some(format!("{said} ({why})"));
                }
            }
        } else if recoveries == 0 && self.was_cut_by_window(&reply) {
            may_recover = self.beyond_help(told, recoveries).is_none();
        }
        run.failure = failure;
        if reply.usage.total_tokens > 0 {
            run.used_tokens = Some(reply.usage.total_tokens);
        }
        let entry = self.session.append(Message::Assistant(reply.clone()))?;
        let message = Arc::new(Message::Assistant(reply.clone()));
        if !begun {
            // A reply that never began is shown whole, as its own beginning.
            self.outbox.send(Event::MessageStart { message: message.clone() }).await;
        }
        self.outbox.send(Event::MessageEnd { message: message.clone() }).await;
        run.messages.push(message);
        Ok(Asked { reply, entry, may_recover })
    }

    /// The reply ended where the window did, not where its own limit was; nothing that it asks for hangs on it.
    fn was_cut_by_window(&self, reply: &AssistantMessage) -> bool {
        let card = self.model.card();
        reply.stop_reason == StopReason::Length
            && reply.tool_calls().next().is_none()
            && reply.usage.output < card.output_tokens
            && tokens::used(reply) >= self.budgets.window(card) / 100 * 98
    }

    /// Sends the request and passes its pieces on as they come; nothing is buffered twice.
    async fn listen(&self, run: &Run, told: &PromptState, timestamp: i64) -> Heard {
        let request = ModelRequest {
            system: told.sections.iter().map(|(_, text)| text.clone()).collect(),
            messages: self.session.project().messages,
            tools: told.tools.clone(),
            thinking: self.thinking,
            output_tokens: None,
            cache_key: Some(self.session.id().to_string()),
        };
        let mut stream = self.model.ask(request, run.cancel.clone());
        let overdue = async {
            run.cancel.cancelled().await;
            self.session.clock().sleep(CANCEL_GRACE).await;
        };
        tokio::pin!(overdue);
        let mut usage = Usage::default();
        let mut begun = false;
        loop {
            let event = tokio::select! {
                biased;
                event = stream.next() => event,
                () = &mut overdue => {
                    let reply = self.unborn(StopReason::Aborted, ABORTED);
                    return Heard { reply, failure: None, begun };
                }
            };
            if !begun && matches!(event, Some(ModelEvent::Started | ModelEvent::Delta(_))) {
                begun = true;
                let pending = AssistantMessage { timestamp, ..self.unborn(StopReason::Pending, "") };
                self.outbox.send(Event::MessageStart { message: Arc::new(Message::Assistant(pending)) }).await;
            }
            match event {
                Some(ModelEvent::Started) => {}
                Some(ModelEvent::Usage(so_far)) => usage = so_far,
                Some(ModelEvent::Delta(delta)) => {
                    let assistant_message_event = AssistantDelta { delta };
                    self.outbox.send(Event::MessageUpdate { usage: usage.clone(), assistant_message_event }).await;
                }
                Some(ModelEvent::Done { message, failure }) => return Heard { reply: message, failure, begun },
                None => {
                    let reply = self.unborn(StopReason::Error, "the model's stream ended without an end");
                    let failure =
                        Some(ModelFailure { kind: FailureKind::Unavailable, retry_after: None, window_tokens: None });
                    return Heard { reply, failure, begun };
                }
            }
        }
    }

    /// A reply without a word of the model's.
    fn unborn(&self, stop_reason: StopReason, error: &str) -> AssistantMessage {
        let card = self.model.card();
        AssistantMessage {
            api: card.api.clone(),
            provider: card.model.provider.clone(),
            model: card.model.id.clone(),
            stop_reason,
            error_message: (!error.is_empty()).then(|| error.to_owned()),
            ..AssistantMessage::default()
        }
    }
}

impl RetryLaw {
    /// How long to wait before the next try; none where there is none.
    pub(crate) fn wait(&self, failure: &ModelFailure, attempts_made: u32) -> Option<Duration> {
        if !failure.kind.is_retryable() || attempts_made >= self.attempts {
            return None;
        }
        match failure.retry_after {
            Some(asked) => (asked <= self.longest).then_some(asked),
            None => Some(self.base.saturating_mul(1 << attempts_made.min(16)).min(self.longest)),
        }
    }
}
