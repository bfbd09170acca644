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
    /// Appends whole lines, newline included, in one write. The first call creates what there is to create.
    fn append(&self, lines: &[u8]) -> Result<(), StoreError>;
    /// Reads a line back: bytes `offset..offset + length` of what was loaded or appended.
    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError>;
    /// Makes what was appended durable.
    fn sync(&self) -> Result<(), StoreError>;
}

/// A store that cannot keep or find a line.
#[derive(Debug, thiserror::Error)]
#[error("the session file {file} cannot be {action}: {source}")]
pub struct StoreError {
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
