//! The ports: what the loop needs from the world. Object-safe, `Send + Sync`; synchronous where they can be, boxed futures elsewhere
//! (an allocation beside a model call is nothing).

use crate::{
    dialog::{Answer, CannotAsk, PluginQuestion},
    dispatch::CanonicalCall,
    scope::CallScope,
};
use futures::{future::BoxFuture, stream::BoxStream};
use pith_protocol::{
    AssistantMessage, CallOrigin, Delta, GuestError, Message, ModelRef, ThinkingLevel, ToolDeclaration, ToolOutput,
    ToolSpec, Usage,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Speaks to one model.
pub trait Model: Send + Sync {
    /// Who it is and what it can take.
    fn card(&self) -> &ModelCard;

    /// Asks. The stream never fails: it ends with exactly one `ModelEvent::Done`, whose message says `error` or `aborted` where the
    /// request failed or was cancelled. Dropping the stream drops the request.
    fn ask(&self, request: ModelRequest, cancel: CancellationToken) -> BoxStream<'static, ModelEvent>;
}

/// What is known of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCard {
    /// Provider and the provider's id.
    pub model: ModelRef,
    /// The wire: `anthropic-messages`, `openai-completions`, `scripted`.
    pub api: String,
    /// The window, in tokens.
    pub window_tokens: u64,
    /// The longest reply, in tokens.
    pub output_tokens: u64,
    /// It reads pictures.
    pub reads_images: bool,
    /// It can be asked to think.
    pub thinks: bool,
}

/// One request to a model.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// The system prompt's sections, in order.
    pub system: Vec<String>,
    /// The projection: user, assistant and tool result messages only; every call has its result, in the order asked.
    pub messages: Vec<Arc<Message>>,
    /// The tools declared.
    pub tools: Vec<ToolDeclaration>,
    /// How hard to think.
    pub thinking: ThinkingLevel,
    /// The longest reply wanted; none for the model's own.
    pub output_tokens: Option<u64>,
    /// The same for all requests of a session, for the provider's cache.
    pub cache_key: Option<String>,
}

/// A piece of a model's answer.
#[derive(Clone, Debug)]
pub enum ModelEvent {
    /// The provider began to answer.
    Started,
    /// Tokens so far.
    Usage(Usage),
    /// A piece of the message.
    Delta(Delta),
    /// The message is complete; always last. `failure` is set where its stop reason is `Error`.
    Done {
        /// The message; its `timestamp` and `duration_ms` are set by the loop.
        message: AssistantMessage,
        /// What kind of failure.
        failure: Option<ModelFailure>,
    },
}

/// Why a request failed: what decides whether it is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFailure {
    /// The kind.
    pub kind: FailureKind,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// The model's window, where an overflow names it.
    pub window_tokens: Option<u64>,
}

/// Kinds of failed requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The conversation is longer than the model's window. Never tried again as it is.
    Overflow,
    /// Credentials are missing or wrong.
    Unauthorized,
    /// Too many requests; tried again.
    RateLimited,
    /// The account's limit or money is used up; waiting does not help.
    Quota,
    /// Overloaded, broken or unreachable; tried again.
    Unavailable,
    /// The request itself is wrong.
    Invalid,
    /// The provider refused on grounds of content.
    Refused,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// Whether the same request may work later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Unavailable)
    }
}

/// A tool that can be called now.
#[derive(Clone, Debug)]
pub struct OfferedTool {
    /// What its plugin says of it.
    pub spec: Arc<ToolSpec>,
    /// The plugin's name, for people.
    pub plugin: String,
    /// `publisher/plugin`.
    pub served_by: String,
    /// The component's sha256 in hex.
    pub digest: Option<String>,
    /// The plugin's capabilities, in the text form of grants.
    pub authorities: Vec<String>,
}

/// Serves tools.
pub trait Tools: Send + Sync {
    /// The tools that can be called now, in a stable order; short names are unique.
    fn offered(&self) -> Vec<Arc<OfferedTool>>;

    /// Runs one call. It is judged already; nothing else may call this. Dropping the future ends the call.
    fn run<'a>(
        &'a self,
        tool: &'a OfferedTool,
        call: &'a CanonicalCall,
        scope: CallScope,
    ) -> BoxFuture<'a, CallOutcome>;
}

/// The three outcomes of a guest call, apart.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// It ran.
    Output(ToolOutput),
    /// The guest said no.
    Refusal(GuestError),
    /// It trapped, or met a limit or its deadline. Costs this one call.
    Fault(Fault),
    /// The run was aborted.
    Aborted,
}

/// A plugin's failure: cause and limit by name.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("plugin {plugin} failed in {export}: {cause}")]
pub struct Fault {
    /// The plugin.
    pub plugin: String,
    /// The export that was called, such as `tools.call`.
    pub export: String,
    /// What happened, fit for the model: no trap text, no guest words.
    pub cause: String,
}

/// Judges calls and filters results.
pub trait Hooks: Send + Sync {
    /// All gates, in parallel, on the same bytes. The answers stand in a stable order. A gate that faults answers with its fault.
    fn judge<'a>(
        &'a self,
        call: &'a CanonicalCall,
        origin: &'a CallOrigin,
        scope: CallScope,
    ) -> BoxFuture<'a, Vec<Judgement>>;

    /// All filters, one after the other in a stable order; each sees what the one before it made.
    fn filter<'a>(
        &'a self,
        call: &'a CanonicalCall,
        origin: &'a CallOrigin,
        output: ToolOutput,
        scope: CallScope,
    ) -> BoxFuture<'a, Filtered>;

    /// Sums messages up: the compactors, one after the other in a stable order, until one of them does not leave it to the next. What it asks
    /// models for goes through the scope. Dropping the future ends the call.
    fn summarise<'a>(&'a self, _: &'a SummaryJob, _: CallScope) -> BoxFuture<'a, Summarised> {
        Box::pin(std::future::ready(Summarised::None))
    }
}

/// What is to be summed up.
#[derive(Clone, Debug)]
pub struct SummaryJob {
    /// Why.
    pub reason: SummaryReason,
    /// Which part of it.
    pub part: SummaryPart,
    /// What is to be replaced, oldest first, as the model saw it: user, assistant and tool result messages.
    pub messages: Vec<Arc<Message>>,
    /// The summary of what stood before them, to be brought up to date; it is replaced as well. None for `TurnStart`.
    pub previous_summary: Option<String>,
    /// What the user wants of the summary.
    pub instructions: Option<String>,
    /// Files read so far and not modified, those of earlier summaries included; sorted. Empty for `TurnStart`: they are the whole's.
    pub files_read: Vec<String>,
    /// Files modified, in the same way.
    pub files_modified: Vec<String>,
    /// The longest summary that is taken, in estimated tokens (four characters each).
    pub limit_tokens: u32,
}

/// Why messages are summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryReason {
    /// The user, or a plugin, asked.
    Manual,
    /// The window is nearly full.
    Threshold,
    /// The provider refused a request as too long.
    Overflow,
    /// A branch is left; this is of what happened there.
    Branch,
}

/// Which part a job is of. What follows a user's message until the next one is a turn; where one alone is longer than what is kept, it is cut
/// in two, and its beginning is summed up by a job of its own, after the history's. The host joins the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryPart {
    /// All that is replaced.
    Whole,
    /// What stands before the turn that is cut.
    History,
    /// The beginning of that turn; its end stays as it is.
    TurnStart,
}

/// What became of a job.
#[derive(Clone, Debug)]
pub enum Summarised {
    /// There is no compactor, or all of them left it to the next: it is the host's.
    None,
    /// The summary.
    Summary {
        /// Who wrote it.
        plugin: String,
        /// The summary.
        text: String,
        /// For views and the plugin itself.
        details: Option<Value>,
    },
    /// A compactor failed or refused.
    Stopped {
        /// The plugin.
        plugin: String,
        /// Why.
        stop: Stop,
    },
}

/// One gate's answer.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The plugin.
    pub plugin: String,
    /// Its component's sha256 in hex.
    pub digest: String,
    /// What it said; a refusal (`Err(Stop::Refused)`) and a fault stop the call.
    pub verdict: Result<Verdict, Stop>,
}

/// A gate's verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing against it.
    Pass,
    /// A person decides.
    Ask {
        /// What the person shall decide about.
        text: String,
        /// The key under which the answer may be kept for the session.
        remember: Option<String>,
    },
    /// Nothing runs.
    Deny(String),
}

/// Why a guard stopped what it guards without a verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The guard's own error.
    Refused(GuestError),
    /// The guard failed.
    Fault(Fault),
}

/// What became of a result.
#[derive(Clone, Debug)]
pub enum Filtered {
    /// The result, replaced or not.
    Output(ToolOutput),
    /// A filter failed or refused: the result is withheld.
    Stopped {
        /// The filter's plugin.
        plugin: String,
        /// Why.
        stop: Stop,
    },
}

/// Keeps a session's lines.
pub trait Store: Send + Sync {
    /// Appends whole lines, newline included, in one write: all of them or none. What was written of a write that failed is cut off before this
    /// returns. The first call creates what there is to create.
    fn append(&self, lines: &[u8]) -> Result<(), StoreError>;
    /// Reads lines back: bytes `offset..offset + length` of what was loaded or appended; a line, or up to 1 MiB of several.
    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError>;
    /// Makes what was appended durable.
    fn sync(&self) -> Result<(), StoreError>;
}

/// What a store's failure means for the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFault {
    /// It cannot write now (full, read-only, a fault of the device). Nothing was written; the session keeps it in memory and tries again.
    Unwritable,
    /// Another program changed the file. Nothing more is written to it.
    Changed,
    /// The file is as long as it may be.
    TooLarge,
    /// What was asked for cannot be read.
    Unreadable,
}

/// A store that cannot keep or find a line.
#[derive(Debug, thiserror::Error)]
#[error("the session file {file} cannot be {action}: {source}")]
pub struct StoreError {
    /// What became of what was to be written.
    pub kind: StoreFault,
    /// The file, for people.
    pub file: String,
    /// `written`, `read`, `locked` ...
    pub action: &'static str,
    /// The system's words.
    #[source]
    pub source: std::io::Error,
}

/// Asks the person.
pub trait Person: Send + Sync {
    /// Whether somebody can answer now.
    fn is_there(&self) -> bool;
    /// Shows the call itself and the questions, and waits for one answer. None: dismissed.
    fn decide<'a>(&'a self, call: &'a CanonicalCall, questions: &'a [AskedQuestion])
    -> BoxFuture<'a, Option<Decision>>;
    /// Shows a plugin's question under the plugin's name, and waits for the answer. `Ok(None)`: dismissed. Dropping the future ends the question.
    /// A face asks one question at a time, of plugins and gates together. One that only decides about calls leaves this as it is.
    ///
    /// # Errors
    /// This face cannot ask.
    fn ask<'a>(&'a self, _: &'a PluginQuestion) -> BoxFuture<'a, Result<Option<Answer>, CannotAsk>> {
        Box::pin(std::future::ready(Err(CannotAsk)))
    }
}

/// A gate's question, under its plugin's name.
#[derive(Clone, Debug)]
pub struct AskedQuestion {
    /// The plugin.
    pub plugin: String,
    /// Its words.
    pub text: String,
    /// Whether "for this session" may be offered.
    pub can_remember: bool,
}

/// A person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This once.
    Allow,
    /// This and the like until the session ends.
    AllowForSession,
    /// No.
    Deny,
}

/// Keeps text that is too long for the model.
pub trait Spool: Send + Sync {
    /// Writes the text to a file that the session's tools may read; gives its guest path. None where it cannot be kept.
    fn keep(&self, name: &str, text: &str) -> Option<String>;
}

/// Time and chance, which `core` has not of its own.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970.
    fn now_millis(&self) -> i64;
    /// Milliseconds of a clock that never goes back.
    fn monotonic_millis(&self) -> u64;
    /// Waits.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
    /// Random bits.
    fn random_u32(&self) -> u32;
}
