//! A tool that the user calls directly (`!` on a terminal): through the same dispatch as the model's calls, recorded as a command that the
//! user ran.

use crate::{
    run::{Agent, Run},
    scope::Progress,
    session::SessionError,
};
use pith_protocol::{BashExecution, Caller, Content, EntryBody, Event, Message, ToolCall, ToolOutput, ToolResultView};
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What the user calls, and how it is recorded.
#[derive(Clone, Debug)]
pub struct UserCall {
    /// The tool's short name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// The command as the user typed it, for the record.
    pub command: String,
    /// Recorded, but not for the model.
    pub excluded: bool,
}

/// How a user's call ended.
#[derive(Clone, Debug)]
pub struct UserCallEnd {
    /// What it gave.
    pub output: ToolOutput,
    /// Wall time of the run in milliseconds; none where nothing ran: then nothing was recorded.
    pub duration_ms: Option<u64>,
    /// The user stopped it.
    pub cancelled: bool,
}

/// A user's call that came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserCallError {
    /// No plugin offers the tool.
    #[error("there is no tool {tool} here; {}", told(.offered))]
    NotOffered {
        /// As asked for.
        tool: String,
        /// The tools that there are.
        offered: Vec<String>,
    },
    /// The session cannot be written.
    #[error(transparent)]
    Session(#[from] SessionError),
}

fn told(offered: &[String]) -> String {
    if offered.is_empty() { "there are none".to_owned() } else { format!("there are: {}", offered.join(", ")) }
}

impl Agent {
    /// Calls a tool as the user: gates judge it, the person answers what they ask, filters see its result. What ran is recorded as one
    /// message, which the model reads with its next request unless it is excluded; what was refused, or stopped before it ran, is not.
    /// Dropping this at any await leaves a valid session.
    ///
    /// # Errors
    /// A tool that is not offered, a session that cannot be written. What the tool did wrong is in the end's output.
    pub async fn user_call(&self, asked: UserCall, cancel: CancellationToken) -> Result<UserCallEnd, UserCallError> {
        let offered = self.dispatcher.offered();
        if !offered.iter().any(|tool| tool.spec.name == asked.tool) {
            let offered = offered.iter().map(|tool| tool.spec.name.clone()).collect();
            return Err(UserCallError::NotOffered { tool: asked.tool, offered });
        }
        let UserCall { tool, arguments, command, excluded } = asked;
        let args = Value::Object(arguments.clone());
        let call = ToolCall {
            id: format!("user-{}", self.session.reserve_id()),
            name: tool,
            arguments,
            arguments_error: None,
            thought_signature: None,
            arguments_text: None,
        };
        let (tool_call_id, tool_name) = (call.id.clone(), call.name.clone());
        let started = Event::ToolExecutionStart {
            tool_call_id: tool_call_id.clone(),
            tool_name: tool_name.clone(),
            args: args.clone(),
        };
        self.outbox.send(started).await;
        let facts = self.facts(&Run::new(cancel.clone()));
        let progress = Progress::new(self.outbox.clone(), tool_call_id.clone(), tool_name.clone(), args);
        let scope = self.scope(Arc::new(facts), Caller::User, &cancel, progress);
        let spent = scope.spent.clone();
        let done = self.dispatcher.dispatch(&call, None, scope).await;
        let cancelled = cancel.is_cancelled();
        let mut bodies: Vec<EntryBody> = Vec::new();
        if done.duration_ms.is_some() {
            let now = self.session.clock().now_millis();
            bodies.push(Message::BashExecution(record(command, &done.output, excluded, cancelled, now)).into());
        }
        // Gates may have asked a model about a call that then did not run.
        bodies.extend(spent.take_entries());
        let recorded = (!bodies.is_empty()).then(|| {
            let entries = self.session.append_all(bodies)?;
            self.session.sync()?;
            Ok::<_, SessionError>(entries)
        });
        let ended = Event::ToolExecutionEnd {
            tool_call_id,
            tool_name,
            result: ToolResultView::from(&done.output),
            is_error: done.output.is_error,
            duration_ms: done.duration_ms,
        };
        // What began ends for every face, also where the session could not be written.
        self.outbox.send(ended).await;
        for entry in recorded.transpose()?.unwrap_or_default() {
            match entry.shared_message() {
                Some(message) => {
                    self.outbox.send(Event::MessageStart { message: message.clone() }).await;
                    self.outbox.send(Event::MessageEnd { message: message.clone() }).await;
                }
                None => self.outbox.send(Event::EntryAppended { entry }).await,
            }
        }
        Ok(UserCallEnd { output: done.output, duration_ms: done.duration_ms, cancelled })
    }
}

/// The message of a call that ran. Tools may say an exit code as `exitCode`, and where the whole of a cut output lies as `fullOutputPath`,
/// in what they give scripts or views; without a code one that did well counts as 0.
fn record(command: String, output: &ToolOutput, excluded: bool, cancelled: bool, timestamp: i64) -> BashExecution {
    let said = |name: &str| [&output.structured, &output.details].into_iter().flatten().find_map(|map| map.get(name));
    let full_output_path = said("fullOutputPath").and_then(Value::as_str).map(str::to_owned);
    BashExecution {
        command,
        output: output.content.iter().filter_map(Content::as_text).collect(),
        exit_code: said("exitCode").and_then(Value::as_i64).or((!output.is_error).then_some(0)),
        cancelled,
        truncated: full_output_path.is_some() || said("truncation").is_some_and(|cut| !cut.is_null()),
        full_output_path,
        exclude_from_context: excluded.then_some(true),
        timestamp,
    }
}
