//! The scripted provider: plays a scenario, for tests and the demo. `SCENARIO.md` beside this crate's `src` says what a scenario
//! holds.
//!
//! The next reply is the next of the file, counted from 0 in every process: a session that is resumed begins at the scenario's
//! first reply again. A request that fails a reply's `expect`, or comes after the last reply, is answered with an error that says
//! so; the error's kind is `Invalid`, so that nobody tries again.

use crate::{
    LlmError, ReplyStart, UNKNOWN_OUTPUT_TOKENS, UNKNOWN_WINDOW_TOKENS,
    errors::{self, Trouble},
    replay,
    reply::{Counted, Place, Reply},
};
use futures::stream::{self, BoxStream, StreamExt};
use pith_core::{FailureKind, Model, ModelCard, ModelEvent, ModelFailure, ModelRequest};
use pith_protocol::{Content, Message, ModelRef, StopReason, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// The longest scenario, in bytes.
pub const SCENARIO_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// How many characters a piece of a reply has.
const PIECE_CHARS: usize = 16;

/// A model that says what a scenario says.
#[derive(Debug)]
pub struct Scripted {
    card: ModelCard,
    replies: Vec<Arc<Scripture>>,
    next: AtomicUsize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    #[serde(default, rename = "description")]
    _description: String,
    #[serde(default)]
    window_tokens: Option<u64>,
    replies: Vec<Arc<Scripture>>,
}

/// One reply of a scenario.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Scripture {
    expect: Expectations,
    thinking: String,
    text: String,
    calls: Vec<ScriptedCall>,
    stop: Option<ScriptedStop>,
    error: Option<ScriptedError>,
    usage: Option<ScriptedUsage>,
    delay_ms: u64,
}

/// What a reply says that it used; what is left out is estimated, or is none of the cache's.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScriptedUsage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: u64,
    cache_write: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    #[serde(default)]
    arguments_text: Option<String>,
    #[serde(default)]
    id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ScriptedStop {
    Stop,
    Length,
    ToolUse,
    Error,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedError {
    message: String,
    #[serde(default)]
    kind: ScriptedKind,
    #[serde(default)]
    retry_after_ms: Option<u64>,
    #[serde(default)]
    window_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScriptedKind {
    Overflow,
    Unauthorized,
    RateLimited,
    Quota,
    Unavailable,
    Invalid,
    Refused,
    #[default]
    Other,
}

/// What the request is checked for before it is answered.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expectations {
    last_user_contains: Option<String>,
    last_result_contains: Vec<String>,
    result_is_error: Option<bool>,
    tools: Vec<String>,
    system_contains: Option<String>,
    messages: Option<usize>,
}

impl Scripted {
    /// Reads a scenario; `name` is what it is called in messages and in the model's name, `scripted/NAME`.
    ///
    /// # Errors
    /// `LlmError::Scenario`, with line and column where the JSON is at fault.
    pub fn parse(text: &str, name: &str) -> Result<Self, LlmError> {
        let refused = |line, column, reason: String| LlmError::Scenario { name: name.to_owned(), line, column, reason };
        if text.len() > SCENARIO_LIMIT_BYTES {
            return Err(refused(0, 0, format!("it is longer than {SCENARIO_LIMIT_BYTES} bytes")));
        }
        let scenario = if text.trim_start().starts_with('[') {
            serde_json::from_str::<Vec<Arc<Scripture>>>(text).map(|replies| (replies, None))
        } else {
            serde_json::from_str::<Scenario>(text).map(|scenario| (scenario.replies, scenario.window_tokens))
        };
        let (replies, window_tokens) =
            scenario.map_err(|error| refused(error.line(), error.column(), error.to_string()))?;
        for (at, reply) in replies.iter().enumerate() {
            if let Some(reason) = reply.contradiction() {
                return Err(refused(0, 0, format!("reply {}: {reason}", at + 1)));
            }
        }
        let card = ModelCard {
            model: ModelRef { provider: "scripted".to_owned(), id: name.to_owned() },
            api: "scripted".to_owned(),
            window_tokens: window_tokens.unwrap_or(UNKNOWN_WINDOW_TOKENS),
            output_tokens: UNKNOWN_OUTPUT_TOKENS,
            reads_images: true,
            thinks: true,
        };
        Ok(Self { card, replies, next: AtomicUsize::new(0) })
    }

    /// How many replies were asked for.
    pub fn asked(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// How many replies the scenario has.
    pub fn replies(&self) -> usize {
        self.replies.len()
    }
}

impl Model for Scripted {
    fn card(&self) -> &ModelCard {
        &self.card
    }

    fn ask(&self, request: ModelRequest, cancel: CancellationToken) -> BoxStream<'static, ModelEvent> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let name = &self.card.model.id;
        let mut reply = Reply::new(ReplyStart::new(&self.card, None, &request));
        let scripture = match self.replies.get(at) {
            None => Err(format!("the scenario {name} has {} replies and was asked for one more", self.replies.len())),
            Some(scripture) => match scripture.expect.unmet(&request) {
                Some(reason) => Err(format!("scenario {name}, reply {}: {reason}", at + 1)),
                None => Ok(scripture),
            },
        };
        let mut delay = Duration::ZERO;
        let steps = match scripture {
            Ok(scripture) => {
                reply.started();
                reply.set_usage(Counted { usage: scripture.usage(&request), ..Counted::default() });
                delay = Duration::from_millis(scripture.delay_ms);
                scripture.steps(at)
            }
            Err(message) => VecDeque::from([Step::Fail(Trouble::new(FailureKind::Invalid, message))]),
        };
        let play = Play { reply, steps, delay, cancel, place: 0, ready: VecDeque::new() };
        stream::unfold(play, Play::next).boxed()
    }
}

/// A reply being played.
struct Play {
    reply: Reply,
    steps: VecDeque<Step>,
    delay: Duration,
    cancel: CancellationToken,
    place: Place,
    ready: VecDeque<ModelEvent>,
}

#[derive(Debug)]
enum Step {
    BeginThinking,
    BeginText,
    BeginCall { id: String, name: String },
    Piece(String),
    End,
    Finish(StopReason),
    Fail(Trouble),
}

impl Play {
    async fn next(mut self) -> Option<(ModelEvent, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((event, self));
            }
            if self.reply.is_done() {
                return None;
            }
            let step = self.steps.pop_front();
            let is_paced = matches!(step, Some(Step::Piece(_))) && !self.delay.is_zero();
            let is_cancelled = if is_paced {
                tokio::select! {
                    biased;
                    () = self.cancel.cancelled() => true,
                    () = tokio::time::sleep(self.delay) => false,
                }
            } else {
                self.cancel.is_cancelled()
            };
            match step {
                _ if is_cancelled => self.reply.abort(),
                Some(Step::BeginThinking) => self.place = self.reply.begin_thinking(None, false),
                Some(Step::BeginText) => self.place = self.reply.begin_text(),
                Some(Step::BeginCall { id, name }) => {
                    self.place = self.reply.begin_call();
                    self.reply.name_call(self.place, &id, &name);
                }
                Some(Step::Piece(piece)) => self.reply.push(self.place, &piece),
                Some(Step::End) => self.reply.end(self.place),
                Some(Step::Finish(stop)) => self.reply.finish(stop, None),
                Some(Step::Fail(trouble)) => self.reply.fail(trouble, None),
                None => self.reply.fail_early(),
            }
            self.ready.extend(self.reply.take_events());
        }
    }
}

impl Scripture {
    /// Why a reply cannot be meant as it stands.
    fn contradiction(&self) -> Option<&'static str> {
        if self.error.is_some() && self.stop.is_some_and(|stop| stop != ScriptedStop::Error) {
            return Some("it has an error, so that it cannot stop otherwise");
        }
        if self.error.is_none() && self.stop == Some(ScriptedStop::Error) {
            return Some("it stops with an error and does not say which");
        }
        if self.stop == Some(ScriptedStop::ToolUse) && self.calls.is_empty() {
            return Some("it stops for tools and calls none");
        }
        if self.calls.iter().any(|call| call.arguments.is_some() && call.arguments_text.is_some()) {
            return Some("a call has either arguments or arguments_text");
        }
        self.calls.iter().any(|call| call.name.is_empty()).then_some("a call needs a name")
    }

    fn steps(&self, at: usize) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        let mut say = |begin: Step, text: &str| {
            steps.push_back(begin);
            steps.extend(pieces(text).map(Step::Piece));
            steps.push_back(Step::End);
        };
        if !self.thinking.is_empty() {
            say(Step::BeginThinking, &self.thinking);
        }
        if !self.text.is_empty() {
            say(Step::BeginText, &self.text);
        }
        for (number, call) in self.calls.iter().enumerate() {
            let id = call.id.clone().unwrap_or_else(|| format!("scripted_{}_{}", at + 1, number + 1));
            let text = match (&call.arguments_text, &call.arguments) {
                (Some(text), _) => text.clone(),
                (None, Some(arguments)) => Value::Object(arguments.clone()).to_string(),
                (None, None) => String::new(),
            };
            say(Step::BeginCall { id, name: call.name.clone() }, &text);
        }
        steps.push_back(match (&self.error, self.stop) {
            (Some(error), _) => Step::Fail(Trouble {
                message: errors::one_line(&error.message),
                failure: ModelFailure {
                    kind: error.kind.into(),
                    retry_after: error.retry_after_ms.map(Duration::from_millis),
                    window_tokens: error.window_tokens,
                },
            }),
            (None, Some(ScriptedStop::Length)) => Step::Finish(StopReason::Length),
            (None, Some(ScriptedStop::ToolUse)) => Step::Finish(StopReason::ToolUse),
            (None, None) if !self.calls.is_empty() => Step::Finish(StopReason::ToolUse),
            (None, _) => Step::Finish(StopReason::Stop),
        });
        steps
    }

    /// What the scenario says, else estimates, so that views have something to show. Nobody is paid for it: the cost is unknown.
    fn usage(&self, request: &ModelRequest) -> Usage {
        let words = self.text.len() + self.thinking.len();
        let calls: usize = self.calls.iter().map(|call| call.name.len() + 16).sum();
        let output = u64::try_from((words + calls).div_ceil(4)).unwrap_or(u64::MAX);
        let told = self.usage.unwrap_or_default();
        Usage {
            input: told.input.unwrap_or_else(|| replay::estimated_tokens(request)),
            output: told.output.unwrap_or(output),
            cache_read: told.cache_read,
            cache_write: told.cache_write,
            ..Usage::default()
        }
    }
}

/// A text in at least two pieces, where it has two characters.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    let size = chars.len().div_ceil(2).clamp(1, PIECE_CHARS);
    let pieces: Vec<String> = chars.chunks(size).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}

impl Expectations {
    /// The first expectation that a request does not meet, in words.
    fn unmet(&self, request: &ModelRequest) -> Option<String> {
        if let Some(count) = self.messages.filter(|count| *count != request.messages.len()) {
            return Some(format!("messages: expected {count}, was sent {}", request.messages.len()));
        }
        if let Some(words) = &self.system_contains
            && !request.system.iter().any(|section| section.contains(words))
        {
            return Some(format!("system_contains: {words:?} is in no section of the system prompt"));
        }
        if let Some(name) = self.tools.iter().find(|name| request.tools.iter().all(|tool| tool.name != **name)) {
            let declared: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
            return Some(format!("tools: {name} is not declared, but {declared:?}"));
        }
        if let Some(words) = &self.last_user_contains {
            let last = request.messages.iter().rev().find_map(|message| match &**message {
                Message::User(user) => Some(words_of(&user.content)),
                _ => None,
            });
            let last = last.unwrap_or_default();
            if !last.contains(words) {
                return Some(format!("last_user_contains: {words:?} is not in {:?}", errors::one_line(&last)));
            }
        }
        let results: Vec<_> = request
            .messages
            .iter()
            .rev()
            .take_while(|message| !matches!(***message, Message::Assistant(_)))
            .filter_map(|message| match &**message {
                Message::ToolResult(result) => Some(result),
                _ => None,
            })
            .collect();
        let told: String = results.iter().rev().map(|result| words_of(&result.content) + "\n").collect();
        if let Some(words) = self.last_result_contains.iter().find(|words| !told.contains(words.as_str())) {
            return Some(format!("last_result_contains: {words:?} is not in {:?}", errors::one_line(&told)));
        }
        match (self.result_is_error, results.first()) {
            (Some(_), None) => Some("result_is_error: there is no result".to_owned()),
            (Some(expected), Some(last)) if expected != last.is_error => Some(format!(
                "result_is_error: expected {expected}, the last result is {:?}",
                errors::one_line(&words_of(&last.content))
            )),
            _ => None,
        }
    }
}

fn words_of(content: &[Content]) -> String {
    let words: Vec<&str> = content.iter().filter_map(Content::as_text).collect();
    words.join("\n")
}

impl From<ScriptedKind> for FailureKind {
    fn from(kind: ScriptedKind) -> Self {
        match kind {
            ScriptedKind::Overflow => Self::Overflow,
            ScriptedKind::Unauthorized => Self::Unauthorized,
            ScriptedKind::RateLimited => Self::RateLimited,
            ScriptedKind::Quota => Self::Quota,
            ScriptedKind::Unavailable => Self::Unavailable,
            ScriptedKind::Invalid => Self::Invalid,
            ScriptedKind::Refused => Self::Refused,
            ScriptedKind::Other => Self::Other,
        }
    }
}
