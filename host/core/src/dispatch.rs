//! The one path of every tool call, of any origin: parse -> coerce -> canonical form -> schema -> gates on the final bytes -> person -> run -> filters ->
//! size bound. Nothing else calls `Tools::run`.

use crate::{
    canonical,
    canonical_form::canonical_json,
    coerce,
    ports::{
        AskedQuestion, CallOutcome, Clock, Decision, Filtered, Hooks, OfferedTool, Person, Spool, Stop, Summarised,
        SummaryJob, Tools, Verdict,
    },
    schema::Schema,
    scope::CallScope,
};
use pith_protocol::{CallOrigin, Content, Event, Text, ToolCall, ToolOutput, ToolSpec, VerdictKind};
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// The most text of one result that the model reads. The shipped tools truncate at 50 KiB with notices of their own; this bounds the rest.
pub const RESULT_TEXT_LIMIT_BYTES: usize = 64 << 10;

/// How long a cancelled call may take to end by itself before it is dropped.
pub const CANCEL_GRACE: Duration = Duration::from_millis(100);

/// How much longer a tool may go on that is writing a file when it is cancelled, so that an abort tears none. Tools themselves end sooner.
pub const WRITE_GRACE: Duration = Duration::from_secs(2);

/// What a reason from a plugin may take of the model's attention.
const REASON_CHARS: usize = 500;
const REASON_LINES: usize = 3;

/// A call as everybody gets it: gates, person and tool see the same bytes.
#[derive(Clone, Debug)]
pub struct CanonicalCall {
    /// Unique within the session.
    pub id: String,
    /// The tool's short name.
    pub name: String,
    /// The arguments in canonical JSON (RFC 8785). The very string that was written, which an `Arc<str>` would be a copy of.
    pub input: Arc<String>,
    /// The same, parsed.
    pub value: Arc<Value>,
}

/// A call that was judged and may run.
pub struct Prepared {
    tool: Arc<OfferedTool>,
    call: CanonicalCall,
    origin: CallOrigin,
    scope: CallScope,
}

/// A call that is over.
#[derive(Clone, Debug)]
pub struct Dispatched {
    /// What it gave.
    pub output: ToolOutput,
    /// Wall time of the run; none where nothing ran.
    pub duration_ms: Option<u64>,
}

impl Dispatched {
    fn stopped(text: impl Into<String>) -> Self {
        Self { output: ToolOutput::error(text), duration_ms: None }
    }
}

/// The path's stations. One for a session: it keeps what the person allowed.
pub struct Dispatcher {
    tools: Arc<dyn Tools>,
    hooks: Arc<dyn Hooks>,
    person: Arc<dyn Person>,
    spool: Arc<dyn Spool>,
    clock: Arc<dyn Clock>,
    /// By the address of the tool's definition, which is kept beside the schema so that no other takes its place.
    schemas: Mutex<HashMap<usize, (Arc<ToolSpec>, Arc<Schema>)>>,
    /// What the person allowed for the session, under the gate's digest and key. Never kept by a plugin.
    allowed: Mutex<HashSet<(String, String)>>,
}

impl Dispatcher {
    /// Over its ports.
    pub fn new(
        tools: Arc<dyn Tools>,
        hooks: Arc<dyn Hooks>,
        person: Arc<dyn Person>,
        spool: Arc<dyn Spool>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { tools, hooks, person, spool, clock, schemas: Mutex::default(), allowed: Mutex::default() }
    }

    /// The tools that can be called now.
    pub fn offered(&self) -> Vec<Arc<OfferedTool>> {
        self.tools.offered()
    }

    /// Who answers gates' questions, and plugins'.
    pub fn person(&self) -> Arc<dyn Person> {
        self.person.clone()
    }

    /// Asks the compactors for a summary.
    pub async fn summarise(&self, job: &SummaryJob, scope: CallScope) -> Summarised {
        self.hooks.summarise(job, scope).await
    }

    /// The whole path. `declared` are the names that the model was told in the request it answers; none for callers that were told
    /// nothing: a model's call to another tool is a call to an unknown one.
    pub async fn dispatch(&self, call: &ToolCall, declared: Option<&[String]>, scope: CallScope) -> Dispatched {
        match self.prepare(call, declared, scope).await {
            Ok(prepared) => self.execute(prepared).await,
            Err(stopped) => stopped,
        }
    }

    /// Up to the person.
    pub async fn prepare(
        &self,
        call: &ToolCall,
        declared: Option<&[String]>,
        scope: CallScope,
    ) -> Result<Prepared, Dispatched> {
        if scope.cancel.is_cancelled() {
            return Err(Dispatched::stopped(ABORTED));
        }
        let tool = self.find(&call.name, declared)?;
        let call = self.canonical(call, &tool)?;
        let origin = CallOrigin {
            caller: scope.caller,
            plugin: None,
            served_by: tool.served_by.clone(),
            digest: tool.digest.clone(),
            parent_call_id: None,
            depth: 0,
            authorities: tool.authorities.clone(),
        };
        let cancelled = scope.cancel.clone();
        tokio::select! {
            biased;
            judged = self.judge(&call, &origin, &scope) => judged?,
            () = cancelled.cancelled() => return Err(Dispatched::stopped(ABORTED)),
        }
        Ok(Prepared { tool, call, origin, scope })
    }

    /// From the run on.
    pub async fn execute(&self, prepared: Prepared) -> Dispatched {
        let Prepared { tool, call, origin, scope } = prepared;
        let began = self.clock.monotonic_millis();
        let cancel = scope.cancel.clone();
        let grace = async {
            cancel.cancelled().await;
            self.clock.sleep(WRITE_GRACE + CANCEL_GRACE).await;
        };
        let outcome = tokio::select! {
            biased;
            outcome = self.tools.run(&tool, &call, scope.clone()) => outcome,
            () = grace => CallOutcome::Aborted,
        };
        let output = match outcome {
            CallOutcome::Output(output) => output,
            CallOutcome::Refusal(refusal) => ToolOutput::error(refusal.message),
            CallOutcome::Fault(fault) => {
                ToolOutput::error(format!("{fault}. Nothing else was affected; another way may work."))
            }
            CallOutcome::Aborted => match scope.progress.latest_text() {
                Some(text) => ToolOutput::error(format!("{text}\n\n{ABORTED}")),
                None => ToolOutput::error(ABORTED),
            },
        };
        let output = if !scope.cancel.is_cancelled() {
            self.filter(&call, &origin, output, &scope).await
        } else if output == ToolOutput::error(ABORTED) {
            output
        } else {
            self.filter_late(&call, &origin, output, &scope).await
        };
        let output = self.bound(&call, output);
        Dispatched { output, duration_ms: Some(self.clock.monotonic_millis().saturating_sub(began)) }
    }

    fn find(&self, name: &str, declared: Option<&[String]>) -> Result<Arc<OfferedTool>, Dispatched> {
        let offered = self.tools.offered();
        let found = offered.iter().find(|tool| tool.spec.name == name);
        let told = declared.is_none_or(|names| names.iter().any(|declared| declared == name));
        match found {
            Some(tool) if told => Ok(tool.clone()),
            _ => {
                let names: Vec<&str> = match declared {
                    Some(names) => names.iter().map(String::as_str).collect(),
                    None => offered.iter().map(|tool| tool.spec.name.as_str()).collect(),
                };
                let there = if names.is_empty() {
                    "There are no tools.".to_owned()
                } else {
                    format!("There are: {}.", names.join(", "))
                };
                Err(Dispatched::stopped(format!("Tool {name} not found. {there}")))
            }
        }
    }

    /// Parse once and strictly, coerce, canonical form, schema.
    fn canonical(&self, call: &ToolCall, tool: &OfferedTool) -> Result<CanonicalCall, Dispatched> {
        let stopped = |what: String| Dispatched::stopped(format!("The call to {} was not run: {what}", call.name));
        if let Some(error) = &call.arguments_error {
            return Err(stopped(error.clone()));
        }
        let mut value = match &call.arguments_text {
            Some(text) if !text.trim().is_empty() => canonical::parse_strict(text)
                .map_err(|error| stopped(format!("its arguments cannot be used: {error}")))?,
            _ => {
                let value = Value::Object(call.arguments.clone());
                canonical::check_value(&value)
                    .map_err(|error| stopped(format!("its arguments cannot be used: {error}")))?;
                value
            }
        };
        coerce::coerce(&mut value, &tool.spec.input_schema);
        let schema =
            self.schema(tool).map_err(|error| stopped(format!("its tool's schema cannot be used: {error}")))?;
        if !schema.accepts(&value) {
            let faults: Vec<String> = schema.faults(&value).into_iter().map(|fault| format!("  - {fault}")).collect();
            let received = cut_middle(&serde_json::to_string_pretty(&value).unwrap_or_default(), 2000);
            return Err(Dispatched::stopped(format!(
                "Validation failed for tool \"{}\":\n{}\n\nReceived arguments:\n{received}",
                call.name,
                faults.join("\n")
            )));
        }
        let input = canonical_json(&value);
        Ok(CanonicalCall { id: call.id.clone(), name: call.name.clone(), input: input.into(), value: Arc::new(value) })
    }

    /// Compiled at the first call and kept; a tool whose definition changed has another one.
    fn schema(&self, tool: &OfferedTool) -> Result<Arc<Schema>, crate::schema::SchemaError> {
        let key = Arc::as_ptr(&tool.spec).addr();
        if let Some((_, schema)) = self.schemas.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(schema.clone());
        }
        let schema = Arc::new(Schema::compile(&tool.spec.input_schema)?);
        let kept = (tool.spec.clone(), schema.clone());
        self.schemas.lock().unwrap_or_else(PoisonError::into_inner).insert(key, kept);
        Ok(schema)
    }

    /// All gates, then the person once if any asked. `deny` > `ask` > `pass`; a gate that fails or refuses denies.
    async fn judge(&self, call: &CanonicalCall, origin: &CallOrigin, scope: &CallScope) -> Result<(), Dispatched> {
        let mut questions = Vec::new();
        let mut keys = Vec::new();
        for judgement in self.hooks.judge(call, origin, scope.clone()).await {
            let plugin = judgement.plugin;
            let (denied, told) = match judgement.verdict {
                Ok(Verdict::Pass) => continue,
                Ok(Verdict::Ask { text, remember }) => {
                    let key = remember.map(|key| (judgement.digest.clone(), key));
                    if key.as_ref().is_some_and(|key| self.was_allowed(key)) {
                        continue;
                    }
                    self.tell(scope, call, &plugin, VerdictKind::Ask, &text).await;
                    questions.push(AskedQuestion { plugin, text, can_remember: key.is_some() });
                    keys.push(key);
                    continue;
                }
                Ok(Verdict::Deny(reason)) => {
                    let told = denial(&call.name, &plugin, &reason);
                    (reason, told)
                }
                Err(Stop::Refused(refusal)) => {
                    let why = format!("the gate refused to judge: {}", refusal.message);
                    let told = denial(&call.name, &plugin, &refusal.message);
                    (why, told)
                }
                // The host's own words: the plugin said nothing.
                Err(Stop::Fault(fault)) => {
                    let why = format!("the gate failed: {}", fault.cause);
                    let told = format!(
                        "The call to {} was denied, because the gate of plugin {plugin} failed: {}",
                        call.name, fault.cause
                    );
                    (why, told)
                }
            };
            self.tell(scope, call, &plugin, VerdictKind::Deny, &denied).await;
            return Err(Dispatched::stopped(told));
        }
        if questions.is_empty() {
            return Ok(());
        }
        let decision = if self.person.is_there() { self.person.decide(call, &questions).await } else { None };
        match decision {
            Some(Decision::Allow) => Ok(()),
            Some(Decision::AllowForSession) => {
                let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
                allowed.extend(keys.into_iter().flatten());
                Ok(())
            }
            Some(Decision::Deny) => {
                Err(Dispatched::stopped(format!("The call to {} was not run: the user said no.", call.name)))
            }
            None => {
                let AskedQuestion { plugin, text, .. } = &questions[0];
                let text = format!("{text}\n(a person has to decide this, and nobody can answer here)");
                Err(Dispatched::stopped(denial(&call.name, plugin, &text)))
            }
        }
    }

    fn was_allowed(&self, key: &(String, String)) -> bool {
        self.allowed.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    async fn tell(&self, scope: &CallScope, call: &CanonicalCall, plugin: &str, verdict: VerdictKind, reason: &str) {
        let event = Event::GateVerdict {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            plugin: plugin.to_owned(),
            verdict,
            reason: reason.to_owned(),
        };
        scope.outbox.send(event).await;
    }

    async fn filter(
        &self,
        call: &CanonicalCall,
        origin: &CallOrigin,
        output: ToolOutput,
        scope: &CallScope,
    ) -> ToolOutput {
        let cancelled = scope.cancel.clone();
        let filtered = tokio::select! {
            biased;
            filtered = self.hooks.filter(call, origin, output, scope.clone()) => filtered,
            // The tool ran; its result was not judged, so it is withheld, and the model is told what happened.
            () = cancelled.cancelled() => return ToolOutput::error(UNFILTERED),
        };
        match filtered {
            Filtered::Output(output) => output,
            Filtered::Stopped { plugin, stop } => {
                let why = match stop {
                    Stop::Refused(refusal) => refusal.message,
                    Stop::Fault(fault) => fault.cause,
                };
                ToolOutput::error(format!(
                    "{} ran, but its result is withheld: the filter of plugin {plugin} did not let it pass: {}",
                    call.name,
                    bounded_reason(&why)
                ))
            }
        }
    }

    /// What a call gave before it was cut short, or just then: filters see it too, as long as a cancelled call may take.
    async fn filter_late(
        &self,
        call: &CanonicalCall,
        origin: &CallOrigin,
        output: ToolOutput,
        scope: &CallScope,
    ) -> ToolOutput {
        let scope = CallScope { cancel: CancellationToken::new(), ..scope.clone() };
        tokio::select! {
            biased;
            output = self.filter(call, origin, output, &scope) => output,
            () = self.clock.sleep(CANCEL_GRACE) => ToolOutput::error(UNFILTERED),
        }
    }

    /// Head and tail of a long result are kept, the whole is spooled to a file that `files` and `search` may read.
    fn bound(&self, call: &CanonicalCall, mut output: ToolOutput) -> ToolOutput {
        let total: usize = output.content.iter().filter_map(Content::as_text).map(str::len).sum();
        if total <= RESULT_TEXT_LIMIT_BYTES {
            return output;
        }
        let whole: String = output.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n");
        let place = match self.spool.keep(&call.name, &whole) {
            Some(path) => format!("the whole is in {path}"),
            None => "the rest could not be kept".to_owned(),
        };
        let text = format!("{}\n\n[{total} bytes in all; {place}]", cut_middle(&whole, RESULT_TEXT_LIMIT_BYTES));
        output.content.retain(|block| !matches!(block, Content::Text(Text { .. })));
        output.content.insert(0, Content::text(text));
        output
    }
}

/// What the model is told of a call that was stopped by the user.
pub(crate) const ABORTED: &str = "Operation aborted";
const UNFILTERED: &str = "Operation aborted after the tool ran; its result was not checked and is withheld";

fn denial(tool: &str, plugin: &str, reason: &str) -> String {
    format!("The call to {tool} was denied by plugin {plugin}. Its words: {}", bounded_reason(reason))
}

/// A plugin's words for the model: no control characters, three lines, 500 characters.
fn bounded_reason(reason: &str) -> String {
    let lines: Vec<String> = reason
        .lines()
        .take(REASON_LINES)
        .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>())
        .collect();
    let whole = lines.join("\n");
    let mut bounded: String = whole.chars().take(REASON_CHARS).collect();
    if bounded.len() < whole.len() || reason.lines().nth(REASON_LINES).is_some() {
        bounded.push_str(" [...]");
    }
    bounded
}

/// At most `limit` bytes: head and tail at character boundaries, and how much is missing between them.
pub(crate) fn cut_middle(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(limit / 2);
    let tail = text.ceil_char_boundary(text.len() - limit / 2);
    format!("{}\n[... {} bytes left out ...]\n{}", &text[..head], tail - head, &text[tail..])
}
