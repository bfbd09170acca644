//! The calls of one reply: judged in the order asked, run side by side unless one of them asks for its turn, answered every one.

use crate::{
    asker::Meter,
    dispatch::Dispatched,
    projection::PromptState,
    run::{Agent, Run},
    scope::{CallScope, Progress, RunFacts},
    session::SessionError,
};
use futures::{StreamExt, stream::FuturesUnordered};
use pith_protocol::{
    AssistantMessage, Caller, Event, Execution, Message, StopReason, ToolCall, ToolOutput, ToolResultMessage,
    ToolResultView,
};
use serde_json::Value;
use std::sync::Arc;

/// A batch that is over.
pub(crate) struct Batch {
    /// The results, in the order the calls were asked.
    pub results: Vec<Arc<Message>>,
    /// Every one of them ends the run.
    pub terminate: bool,
}

/// What a call that the output limit cut is told.
const CUT_OFF: &str = "This call was not run: the reply was cut off by its output limit, so its arguments may be cut too. \
     Send it again, with less at once (for a long file: write a part, then add to it by edits).";

impl Agent {
    /// Answers every call of a reply. Each result is in the session as soon as it is there.
    pub(crate) async fn answer(
        &self,
        run: &mut Run,
        reply: &AssistantMessage,
        told: &PromptState,
    ) -> Result<Batch, SessionError> {
        let calls: Vec<&ToolCall> = reply.tool_calls().collect();
        let facts = Arc::new(self.facts(run));
        let declared: Vec<String> = told.tools.iter().map(|tool| tool.name.clone()).collect();
        let mut answers: Vec<Option<(Arc<Message>, bool)>> = vec![None; calls.len()];
        if reply.stop_reason == StopReason::Length {
            for (answer, call) in answers.iter_mut().zip(&calls) {
                self.announce(call).await;
                let cut = Dispatched { output: ToolOutput::error(CUT_OFF), duration_ms: None };
                *answer = Some(self.record(call, cut, &Meter::default()).await?);
            }
        } else if self.wants_turns(&calls) {
            for (answer, call) in answers.iter_mut().zip(&calls) {
                self.announce(call).await;
                let scope = self.call_scope(&facts, run, call);
                let spent = scope.spent.clone();
                let done = self.dispatcher.dispatch(call, Some(&declared), scope).await;
                *answer = Some(self.record(call, done, &spent).await?);
            }
        } else {
            let mut running = FuturesUnordered::new();
            for (index, call) in calls.iter().enumerate() {
                self.announce(call).await;
                let scope = self.call_scope(&facts, run, call);
                let spent = scope.spent.clone();
                match self.dispatcher.prepare(call, Some(&declared), scope).await {
                    Ok(prepared) => {
                        running.push(async move { (index, self.dispatcher.execute(prepared).await, spent) });
                    }
                    Err(stopped) => answers[index] = Some(self.record(call, stopped, &spent).await?),
                }
            }
            while let Some((index, done, spent)) = running.next().await {
                answers[index] = Some(self.record(calls[index], done, &spent).await?);
            }
        }
        let terminate = !answers.is_empty() && answers.iter().flatten().all(|(_, terminate)| *terminate);
        let results: Vec<Arc<Message>> = answers.into_iter().flatten().map(|(message, _)| message).collect();
        for message in &results {
            self.outbox.send(Event::MessageStart { message: message.clone() }).await;
            self.outbox.send(Event::MessageEnd { message: message.clone() }).await;
            run.messages.push(message.clone());
        }
        Ok(Batch { results, terminate })
    }

    fn wants_turns(&self, calls: &[&ToolCall]) -> bool {
        let offered = self.dispatcher.offered();
        calls.iter().any(|call| {
            offered.iter().any(|tool| tool.spec.name == call.name && tool.spec.execution == Execution::Sequential)
        })
    }

    fn call_scope(&self, facts: &Arc<RunFacts>, run: &Run, call: &ToolCall) -> CallScope {
        let args = Value::Object(call.arguments.clone());
        let progress = Progress::new(self.outbox.clone(), call.id.clone(), call.name.clone(), args);
        self.scope(facts.clone(), Caller::Model, &run.cancel, progress)
    }

    async fn announce(&self, call: &ToolCall) {
        let event = Event::ToolExecutionStart {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            args: Value::Object(call.arguments.clone()),
        };
        self.outbox.send(event).await;
    }

    /// The result is in the session, and in the same write what the call's plugins asked of models, when this returns.
    async fn record(
        &self,
        call: &ToolCall,
        done: Dispatched,
        spent: &Meter,
    ) -> Result<(Arc<Message>, bool), SessionError> {
        let Dispatched { output, duration_ms } = done;
        let result = ToolResultView::from(&output);
        let is_error = output.is_error;
        let message = Message::ToolResult(ToolResultMessage {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            content: output.content,
            details: output.details,
            is_error,
            duration_ms,
            timestamp: self.session.clock().now_millis(),
        });
        let mut bodies = vec![message.clone().into()];
        bodies.extend(spent.take_entries());
        let entries = self.session.append_all(bodies)?;
        let (tool_call_id, tool_name) = (call.id.clone(), call.name.clone());
        self.outbox.send(Event::ToolExecutionEnd { tool_call_id, tool_name, result, is_error, duration_ms }).await;
        for entry in entries.into_iter().skip(1) {
            self.outbox.send(Event::EntryAppended { entry }).await;
        }
        Ok((Arc::new(message), output.terminate))
    }
}
