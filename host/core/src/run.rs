//! The loop: from a user message until the agent stops.
//!
//! Two loops, one in the other. The inner makes turns: a request, its reply, the calls it asked for; on while there are calls to
//! answer or steering waits. The outer begins again with a follow-up when the agent would stop. Dropping `run` at any await leaves a
//! valid session; an abort answers every open call.

use crate::{
    asker::{Asker, Meter},
    batch::Batch,
    budget::Budgets,
    dispatch::Dispatcher,
    mailbox::{Mailbox, Said},
    outbox::Outbox,
    ports::{Model, ModelFailure},
    projection::PromptState,
    scope::{CallScope, Progress, RunFacts},
    session::{Session, SessionError},
};
use pith_protocol::{
    AssistantMessage, Caller, CustomMessage, EntryBody, Event, Message, ModelChange, StopReason, ThinkingLevel,
    ThinkingLevelChange, ToolDeclaration,
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Everything that one session's loop works with. The loop is the only one that runs the session.
pub struct Agent {
    /// What it says and does is kept here.
    pub session: Session,
    /// Who answers.
    pub model: Arc<dyn Model>,
    /// Where calls go.
    pub dispatcher: Arc<Dispatcher>,
    /// Where events go.
    pub outbox: Outbox,
    /// Where words for it wait.
    pub mailbox: Mailbox,
    /// How hard the model thinks.
    pub thinking: ThinkingLevel,
    /// `interactive`, `print`, `json`, `rpc`, `library` or `channel`.
    pub face: String,
    /// Whether a person can answer.
    pub interactive: bool,
    /// When failed requests are tried again.
    pub retry: RetryLaw,
    /// When older messages are summed up, and how the model's window is shared out.
    pub budgets: Budgets,
}

/// When failed requests are tried again: after `base`, twice that, four times that ... or as long as the provider asks.
#[derive(Clone, Copy, Debug)]
pub struct RetryLaw {
    /// Tries after the first.
    pub attempts: u32,
    /// The first wait.
    pub base: Duration,
    /// The longest wait; a provider that asks for more gets an error at once.
    pub longest: Duration,
}

impl Default for RetryLaw {
    fn default() -> Self {
        Self { attempts: 3, base: Duration::from_secs(2), longest: Duration::from_secs(60) }
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// The last reply's stop reason.
    pub stop_reason: StopReason,
    /// What went wrong, where that is `error` or `aborted`.
    pub error_message: Option<String>,
    /// What kind of failure.
    pub failure: Option<ModelFailure>,
    /// All that the run added.
    pub messages: Vec<Arc<Message>>,
}

/// What one run carries from turn to turn.
pub(crate) struct Run {
    pub cancel: CancellationToken,
    pub messages: Vec<Arc<Message>>,
    pub turn: u32,
    pub used_tokens: Option<u64>,
    /// Of the last request, where it failed.
    pub failure: Option<ModelFailure>,
    /// Summaries that failed.
    pub failed_summaries: u32,
}

impl Run {
    pub fn new(cancel: CancellationToken) -> Self {
        Self { cancel, messages: Vec::new(), turn: 0, used_tokens: None, failure: None, failed_summaries: 0 }
    }
}

impl Agent {
    /// One run. `sections` is the host's part of the system prompt, by name, in order.
    pub async fn run(
        &self,
        prompt: impl Into<Said>,
        sections: Vec<(String, String)>,
        cancel: CancellationToken,
    ) -> Result<RunEnd, SessionError> {
        let mut run = Run::new(cancel);
        self.outbox.send(Event::AgentStart).await;
        let turned = self.turns(&mut run, prompt.into(), &sections).await;
        let mut synced = self.session.sync();
        self.outbox.send(Event::AgentEnd { messages: run.messages.clone(), will_retry: false }).await;
        let last = match turned {
            Ok(last) => last,
            Err(error) => {
                self.outbox.send(Event::AgentSettled { aborted: run.cancel.is_cancelled() }).await;
                return Err(error);
            }
        };
        // While the person reads, so that the next prompt need not wait. Where nobody may come back it waits for that prompt.
        if self.interactive && !matches!(last.stop_reason, StopReason::Error | StopReason::Aborted) {
            match self.keep_within(&mut run).await {
                Ok(true) => synced = synced.and_then(|()| self.session.sync()),
                Ok(false) => {}
                Err(error) => synced = synced.and(Err(error)),
            }
        }
        self.outbox.send(Event::AgentSettled { aborted: last.stop_reason == StopReason::Aborted }).await;
        synced?;
        let Run { messages, failure, .. } = run;
        Ok(RunEnd {
            stop_reason: last.stop_reason,
            error_message: last.error_message.clone(),
            failure: failure.filter(|_| last.stop_reason == StopReason::Error),
            messages,
        })
    }

    async fn turns(
        &self,
        run: &mut Run,
        prompt: Said,
        sections: &[(String, String)],
    ) -> Result<AssistantMessage, SessionError> {
        let mut pending = vec![prompt];
        if matches!(pending[..], [Said::User(_)]) {
            pending.extend(self.mailbox.take_next_run());
        }
        loop {
            loop {
                self.outbox.send(Event::TurnStart).await;
                let mut told = self.open_turn(run, std::mem::take(&mut pending), sections).await?;
                if self.keep_within(run).await? {
                    // That took a while: what was said meanwhile is read now.
                    pending.extend(self.mailbox.take_steering());
                    self.tell_queues(!pending.is_empty()).await;
                    told = self.open_turn(run, std::mem::take(&mut pending), sections).await?;
                }
                let reply = self.ask(run, &told).await?;
                if matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted) {
                    self.end_turn(&reply, Vec::new()).await;
                    return Ok(reply);
                }
                let batch = self.answer(run, &reply, &told).await?;
                let Batch { results, terminate } = batch;
                let answered = !results.is_empty();
                self.end_turn(&reply, results).await;
                run.turn += 1;
                if terminate {
                    return Ok(reply);
                }
                pending.extend(self.mailbox.take_steering());
                self.tell_queues(!pending.is_empty()).await;
                if !answered && pending.is_empty() {
                    // Nothing to answer and nothing waits: the agent would stop here.
                    match self.mailbox.take_follow_up() {
                        Some(follow_up) => pending.push(follow_up),
                        None => return Ok(reply),
                    }
                    break;
                }
            }
            self.tell_queues(true).await;
            run.turn = 0;
        }
    }

    /// Brings what the session says of prompt, tools, model and thinking up to what holds now, and appends the messages that wait: in
    /// one write, before anything else happens. Gives what the model is told.
    async fn open_turn(
        &self,
        run: &mut Run,
        pending: Vec<Said>,
        sections: &[(String, String)],
    ) -> Result<PromptState, SessionError> {
        let now = self.session.clock().now_millis();
        let offered = self.dispatcher.offered();
        let wanted = PromptState {
            sections: sections.to_vec(),
            tools: offered
                .iter()
                .filter(|tool| tool.spec.exposure == pith_protocol::Exposure::Direct)
                .map(|tool| ToolDeclaration::from(tool.spec.as_ref()))
                .collect(),
        };
        let mut bodies = self.changed_settings();
        if let Some(patch) = self.session.prompt_state().patch_to(&wanted, now) {
            bodies.push(Message::System(patch).into());
        }
        bodies.extend(pending.into_iter().map(|said| said.into_body(now)));
        if bodies.is_empty() {
            return Ok(wanted);
        }
        for entry in self.session.append_all(bodies)? {
            let message = match &entry.body {
                EntryBody::Message(entry) => Some(entry.message.clone()),
                EntryBody::CustomMessage(custom) => Some(Arc::new(Message::Custom(CustomMessage {
                    custom_type: custom.custom_type.clone(),
                    content: custom.content.clone(),
                    display: custom.display,
                    details: custom.details.clone(),
                    timestamp: now,
                }))),
                _ => None,
            };
            if let Some(message) = message {
                self.outbox.send(Event::MessageStart { message: message.clone() }).await;
                self.outbox.send(Event::MessageEnd { message: message.clone() }).await;
                run.messages.push(message);
            }
        }
        // What the path says is that now, in whatever order a foreign file had it.
        Ok(wanted)
    }

    /// Entries for a model or level other than the path's last.
    fn changed_settings(&self) -> Vec<EntryBody> {
        let model = &self.model.card().model;
        let (mut last_model, mut last_level) = (None, None);
        for entry in self.session.path().iter() {
            match &entry.body {
                EntryBody::ModelChange(change) => last_model = Some((change.provider.clone(), change.model_id.clone())),
                EntryBody::ThinkingLevelChange(change) => last_level = Some(change.thinking_level.clone()),
                _ => {}
            }
        }
        let known_model = last_model.is_some_and(|(provider, id)| provider == model.provider && id == model.id);
        let known_level = last_level.as_deref() == Some(self.thinking.as_str());
        let mut bodies = Vec::new();
        if !known_model {
            let (provider, model_id) = (model.provider.clone(), model.id.clone());
            bodies.push(EntryBody::ModelChange(ModelChange { provider, model_id }));
        }
        if !known_level {
            let thinking_level = self.thinking.as_str().to_owned();
            bodies.push(EntryBody::ThinkingLevelChange(ThinkingLevelChange { thinking_level }));
        }
        bodies
    }

    /// A turn that is said to be over is on the disk, as far as the store has been told to see to that.
    async fn end_turn(&self, reply: &AssistantMessage, tool_results: Vec<Arc<Message>>) {
        // What cannot be made durable now is told by the store, and tried again at the run's end.
        let _ = self.session.sync();
        let message = Arc::new(Message::Assistant(reply.clone()));
        self.outbox.send(Event::TurnEnd { message, tool_results }).await;
    }

    /// Says what waits, where something was just taken.
    async fn tell_queues(&self, taken: bool) {
        if taken {
            let (steering, follow_up) = self.mailbox.waiting();
            self.outbox.send(Event::QueueUpdate { steering, follow_up }).await;
        }
    }

    /// What one call carries: it ends with `cancel`, and plugins may ask the session's model in it.
    pub(crate) fn scope(
        &self,
        facts: Arc<RunFacts>,
        caller: Caller,
        cancel: &CancellationToken,
        progress: Progress,
    ) -> CallScope {
        CallScope {
            session: self.session.clone(),
            facts,
            caller,
            cancel: cancel.child_token(),
            progress,
            outbox: self.outbox.clone(),
            person: self.dispatcher.person(),
            asker: Asker::new(self.model.clone(), self.retry, self.session.clock().clone()),
            spent: Meter::default(),
        }
    }

    pub(crate) fn facts(&self, run: &Run) -> RunFacts {
        let card = self.model.card();
        RunFacts {
            model: Some(card.model.to_string()),
            thinking: self.thinking,
            turn: run.turn,
            face: self.face.clone(),
            interactive: self.interactive,
            window_tokens: Some(card.window_tokens),
            used_tokens: run.used_tokens,
        }
    }
}
