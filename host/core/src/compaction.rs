//! Compaction: older messages are replaced by a summary in the model's view, so that what follows fits the window. A plugin writes it where one
//! can (`Hooks::summarise`); where none is, or it fails, the host's own trim serves, which cannot fail (`trim`). All of it is entries that are
//! appended: nothing is lost, and dropping any of these futures leaves a valid session.

use crate::{
    budget::{Budget, scaled},
    cut::{self, Cut},
    ports::{SummaryJob, SummaryPart, SummaryReason},
    projection::PromptState,
    run::{Agent, Run},
    scope::RunFacts,
    session::SessionError,
    summary::{Spent, SummedUp, fitted},
    tokens::{self, Count},
    touched::Touched,
    trim::{self, Trimmed},
    view::{REQUEST, View},
};
use pith_protocol::{
    Compaction, CompactionReason, CompactionResult, Content, ContextEdit, EntryBody, EntryId, Event, Replacement,
    Usage, UsageEntry,
};
use serde_json::Value;
use std::{fmt::Write as _, sync::Arc};
use tokio_util::sync::CancellationToken;

/// How a compaction that was asked for ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CompactEnd {
    /// Older messages are summed up.
    Compacted(CompactionResult),
    /// There is nothing before the last turn.
    Nothing,
    /// Nothing was said since the last one.
    Already,
    /// It was stopped. Nothing changed.
    Aborted,
    /// The summary could not be written, for this reason. Nothing changed.
    Failed(String),
}

/// Of what a request may take, what the trim leaves used: more, and the next turn would trim again.
const TRIMMED_TO: (u64, u64) = (3, 4);
/// A run asks for no more summaries after so many that failed.
pub(crate) const FAILED_SUMMARIES: u32 = 2;
/// An overflow is met by a compaction, then by a trim to half; the third one is an error.
pub(crate) const RECOVERIES: u32 = 2;

/// What the entry of its tokens is called where a summary came to nothing.
const USAGE: &str = "compaction";

/// Where a session stands.
pub(crate) struct Standing {
    told: PromptState,
    view: View,
    pub count: Count,
}

impl Standing {
    /// What the conversation takes without prompt and tools, estimated.
    fn talk(&self) -> u64 {
        self.count.estimate.saturating_sub(self.count.fixed)
    }

    /// The next request would take more than it may, and the conversation has a part in that.
    fn is_over(&self, budget: &Budget) -> bool {
        let is_crowded = scaled(budget.limit, self.count.scale).saturating_sub(self.count.fixed) < budget.room;
        self.count.tokens > budget.limit && (!is_crowded || self.talk() > budget.room)
    }
}

/// How room is made.
#[derive(Clone, Copy)]
struct Means {
    reason: CompactionReason,
    will_retry: bool,
    may_sum_up: bool,
}

/// What one compaction is about.
struct Task<'a> {
    reason: CompactionReason,
    instructions: Option<String>,
    facts: Arc<RunFacts>,
    cancel: &'a CancellationToken,
}

/// What a summary became.
struct Summed {
    text: String,
    details: Option<Value>,
    by_plugin: bool,
}

/// What is appended.
#[derive(Default)]
struct Record {
    edits: Vec<(EntryId, Vec<Content>)>,
    /// The first entry that is kept, and what stands for those before it; none keeps nothing.
    replaced: Option<(Option<EntryId>, Summed)>,
    usage: Option<Usage>,
}

impl Agent {
    /// Sums up older messages now, whatever room there is. Not while a run goes on: whoever owns the agent sees to that.
    /// Cancelling, or dropping this, leaves the session as it was.
    ///
    /// # Errors
    /// A session that cannot be written. What the summary's writer did wrong is `CompactEnd::Failed`.
    pub async fn compact(
        &self,
        instructions: Option<String>,
        cancel: CancellationToken,
    ) -> Result<CompactEnd, SessionError> {
        let now = self.standing();
        if now.view.previous.as_ref().is_some_and(|previous| !previous.is_followed) {
            return Ok(CompactEnd::Already);
        }
        let budget = self.budgets.of(self.model.card(), now.count.fixed, now.count.scale);
        let cut = cut::choose(&now.view, budget.keep_recent).or_else(|| cut::before_last_turn(&now.view));
        let Some(cut) = cut else { return Ok(CompactEnd::Nothing) };
        let reason = CompactionReason::Manual;
        self.outbox.send(Event::CompactionStart { reason }).await;
        let facts = Arc::new(self.facts(&Run::new(cancel.clone())));
        let task = Task { reason, instructions, facts, cancel: &cancel };
        let mut spent = Spent::default();
        let summed = match self.summed(&now, cut, &budget, &task, &mut spent).await {
            Ok(summed) => summed,
            Err(SummedUp::NoCompactor) => {
                let touched = self.touched(&now.view, cut.at);
                let text = trim::marker(&now.view, cut.at, &touched, budget.room / 4);
                Summed { text, details: self.details(&now.view, cut.at, None), by_plugin: false }
            }
            Err(failed) => {
                self.record_spent(USAGE, &spent)?;
                let (aborted, error_message) = match failed {
                    SummedUp::Failed(why) => (false, Some(why)),
                    _ => (true, None),
                };
                let event = Event::CompactionEnd {
                    reason,
                    result: None,
                    aborted,
                    will_retry: false,
                    error_message: error_message.clone(),
                };
                self.outbox.send(event).await;
                self.session.sync()?;
                return Ok(error_message.map_or(CompactEnd::Aborted, CompactEnd::Failed));
            }
        };
        let error_message = (!summed.by_plugin).then(|| NO_COMPACTOR.to_owned());
        let kept = now.view.items[cut.at].source.clone();
        let record = Record { edits: Vec::new(), replaced: Some((kept, summed)), usage: spent.total() };
        let result = self.append_compaction(&now, record, now.count.scale).await?;
        let event =
            Event::CompactionEnd { reason, result: result.clone(), aborted: false, will_retry: false, error_message };
        self.outbox.send(event).await;
        self.session.sync()?;
        Ok(result.map_or(CompactEnd::Nothing, CompactEnd::Compacted))
    }

    /// Makes room where the next request would take more than it may. Whether something changed.
    pub(crate) async fn keep_within(&self, run: &mut Run) -> Result<bool, SessionError> {
        let now = self.standing();
        let budget = self.budgets.of(self.model.card(), now.count.fixed, now.count.scale);
        if !budget.enabled || run.cancel.is_cancelled() || !now.is_over(&budget) {
            return Ok(false);
        }
        let is_over = now.count.tokens > budget.window;
        let reason = if is_over { CompactionReason::Overflow } else { CompactionReason::Threshold };
        self.shorten(run, now, budget, Means { reason, will_retry: false, may_sum_up: true }).await
    }

    /// Makes room after a request that the provider refused as too long, or that left no room for its reply. `tried` counts from 0.
    /// Whether something changed: then the request is worth another try.
    pub(crate) async fn recover(&self, run: &mut Run, tried: u32) -> Result<bool, SessionError> {
        let now = self.standing();
        let card = self.model.card();
        let estimate = now.count.estimate.max(1);
        // It took the window at least, whatever was estimated.
        let scale = self.budgets.window(card).saturating_mul(1_000) / estimate;
        let scale = scale.clamp(now.count.scale, tokens::MOST_SCALE.max(now.count.scale));
        let mut budget = self.budgets.of(card, now.count.fixed, scale);
        let talk = now.talk();
        budget.room = if tried == 0 { budget.room.min(talk / 4 * 3) } else { (budget.room / 2).min(talk / 2) };
        budget.keep_recent = budget.keep_recent.min(budget.room / 2);
        let means = Means { reason: CompactionReason::Overflow, will_retry: true, may_sum_up: tried == 0 };
        self.shorten(run, now, budget, means).await
    }

    /// Why a request that was refused as too long is not tried again: what people can do about it. None where it is.
    pub(crate) fn beyond_help(&self, told: &PromptState, tried: u32) -> Option<String> {
        let fixed = tokens::of_prompt(told);
        let budget = self.budgets.of(self.model.card(), fixed, 1_000);
        let alone = fixed.saturating_add(trim::SMALLEST_ROOM_TOKENS) > budget.window;
        if alone {
            return Some(format!(
                "the prompt and the tools alone take about {fixed} tokens, and the model's window has {}: fewer plugins, or a model \
                 with a larger window, will help",
                budget.window
            ));
        }
        if !budget.enabled {
            return Some("automatic compaction is off: compact by hand, then go on".to_owned());
        }
        (tried >= RECOVERIES).then(|| {
            "the conversation was shortened twice and is still too long for this model; another model may have a larger window"
                .to_owned()
        })
    }

    /// Sums up, or trims, until the conversation takes no more than the budget's room.
    async fn shorten(&self, run: &mut Run, now: Standing, budget: Budget, means: Means) -> Result<bool, SessionError> {
        let scale = now.count.scale;
        let Means { reason, will_retry, may_sum_up } = means;
        let cut = cut::choose(&now.view, budget.keep_recent)
            .filter(|_| may_sum_up && run.failed_summaries < FAILED_SUMMARIES);
        let less = budget.room / TRIMMED_TO.1 * TRIMMED_TO.0;
        let Some(cut) = cut else {
            // Nothing to sum up: told only where the trim has something to do.
            let Some(trimmed) = self.trimmed(&now, less).filter(|trimmed| *trimmed != Trimmed::default()) else {
                return Ok(false);
            };
            self.outbox.send(Event::CompactionStart { reason }).await;
            let result = self.record_trim(&now, trimmed, None, scale).await?;
            self.end(reason, result, will_retry, None).await;
            return Ok(true);
        };
        self.outbox.send(Event::CompactionStart { reason }).await;
        let facts = Arc::new(self.facts(run));
        let task = Task { reason, instructions: None, facts, cancel: &run.cancel };
        let mut spent = Spent::default();
        let why = match self.summed(&now, cut, &budget, &task, &mut spent).await {
            Ok(summed) => {
                let kept = now.view.items[cut.at].source.clone();
                let record = Record { edits: Vec::new(), replaced: Some((kept, summed)), usage: spent.total() };
                let mut result = self.append_compaction(&now, record, scale).await?;
                let after = self.standing();
                if after.talk() > budget.room
                    && let Some(trimmed) = self.trimmed(&after, less).filter(|trimmed| *trimmed != Trimmed::default())
                {
                    let more = self.record_trim(&after, trimmed, None, scale).await?;
                    result = more.or(result);
                }
                self.end(reason, result, will_retry, None).await;
                return Ok(true);
            }
            Err(SummedUp::NoCompactor) => NO_COMPACTOR.to_owned(),
            Err(SummedUp::Failed(why)) => {
                run.failed_summaries += 1;
                why
            }
            Err(_) => {
                self.record_spent(USAGE, &spent)?;
                let event = Event::CompactionEnd {
                    reason,
                    result: None,
                    aborted: true,
                    will_retry: false,
                    error_message: None,
                };
                self.outbox.send(event).await;
                return Ok(false);
            }
        };
        let trimmed = self.trimmed(&now, less).unwrap_or_default();
        let changed = trimmed != Trimmed::default();
        let result = self.record_trim(&now, trimmed, spent.total(), scale).await?;
        self.end(reason, result, will_retry && changed, Some(why)).await;
        Ok(changed)
    }

    async fn end(
        &self,
        reason: CompactionReason,
        result: Option<CompactionResult>,
        will_retry: bool,
        error_message: Option<String>,
    ) {
        self.outbox.send(Event::CompactionEnd { reason, result, aborted: false, will_retry, error_message }).await;
    }

    pub(crate) fn standing(&self) -> Standing {
        let path = self.session.path();
        let projection = self.session.project();
        let told = self.session.prompt_state();
        let count = tokens::count(&path, &projection, &told, &self.model.card().model);
        Standing { view: View::of(&path, &projection), told, count }
    }

    /// Files of the first messages, and those that the summary before them names.
    pub(crate) fn touched(&self, view: &View, until: usize) -> Touched {
        let mut touched = Touched::default();
        if let Some(details) = view.previous.as_ref().and_then(|previous| previous.compaction.details.as_ref()) {
            touched.carry(details);
        }
        touched.look(&view.messages(0..until), &self.dispatcher.offered());
        touched
    }

    fn trimmed(&self, now: &Standing, room: u64) -> Option<Trimmed> {
        trim::trim(&now.view, &self.touched(&now.view, now.view.items.len()), room)
    }

    /// The summary of what stands before the cut: one job, or two where a turn is cut.
    async fn summed(
        &self,
        now: &Standing,
        cut: Cut,
        budget: &Budget,
        task: &Task<'_>,
        spent: &mut Spent,
    ) -> Result<Summed, SummedUp> {
        let touched = self.touched(&now.view, cut.at);
        let (files_read, files_modified) = touched.lists();
        // What the user asked for stands below in the user's words; it need not be summed up as well.
        let previous = now.view.previous.as_ref().map(|previous| {
            let kept = previous.compaction.details.as_ref().and_then(|details| details.get(REQUEST)?.as_str());
            let summary = &previous.compaction.summary;
            kept.map_or_else(|| summary.clone(), |words| summary.replace(&asked(words), ""))
        });
        // Whoever writes it asks a model with about this window.
        let room = budget.room.saturating_sub(now.view.previous_tokens()).saturating_sub(budget.summary);
        let limit = if cut.turn.is_some() { budget.summary / 2 } else { budget.summary };
        let reason = match task.reason {
            CompactionReason::Manual => SummaryReason::Manual,
            CompactionReason::Threshold => SummaryReason::Threshold,
            CompactionReason::Overflow => SummaryReason::Overflow,
        };
        let job = |part, range: std::ops::Range<usize>| SummaryJob {
            reason,
            part,
            messages: fitted(now.view.messages(range), room),
            previous_summary: previous.clone(),
            instructions: task.instructions.clone(),
            files_read: files_read.clone(),
            files_modified: files_modified.clone(),
            limit_tokens: u32::try_from(limit).unwrap_or(u32::MAX),
        };
        let request = now.view.request(cut.at);
        let Some(turn) = cut.turn else {
            let written = self.sum_up(&job(SummaryPart::Whole, 0..cut.at), &task.facts, task.cancel, spent).await?;
            let text = match &request {
                Some(words) => format!("{}\n\n---\n\n{GOES_ON}\n{}", written.text.trim_end(), asked(words)),
                None => written.text,
            };
            return Ok(Summed { text, details: self.details(&now.view, cut.at, written.details), by_plugin: true });
        };
        // Where there is no history but an earlier summary, that one stands.
        let (mut text, mut details) = (previous.clone(), None);
        if turn > 0 {
            let written = self.sum_up(&job(SummaryPart::History, 0..turn), &task.facts, task.cancel, spent).await?;
            (text, details) = (Some(written.text), written.details);
        }
        let job = SummaryJob {
            previous_summary: None,
            files_read: Vec::new(),
            files_modified: Vec::new(),
            ..job(SummaryPart::TurnStart, turn..cut.at)
        };
        let start = self.sum_up(&job, &task.facts, task.cancel, spent).await?;
        let mut joined = text.map(|history| format!("{}\n\n---\n\n", history.trim_end())).unwrap_or_default();
        let _ = write!(joined, "{GOES_ON}\n{}", request.as_deref().map(asked).unwrap_or_default());
        let _ = write!(joined, "\nWhat was done since:\n\n{}", start.text.trim());
        let details = self.details(&now.view, cut.at, details.or(start.details));
        Ok(Summed { text: joined, details, by_plugin: true })
    }

    /// The `details` of a compaction: a plugin's own, the files, what the user asked for.
    fn details(&self, view: &View, at: usize, own: Option<Value>) -> Option<Value> {
        let mut details = self.touched(view, at).details(own);
        if let (Some(words), Value::Object(details)) = (view.request(at), &mut details) {
            details.insert(REQUEST.to_owned(), Value::String(words));
        }
        Some(details)
    }

    async fn record_trim(
        &self,
        now: &Standing,
        trimmed: Trimmed,
        usage: Option<Usage>,
        scale: u64,
    ) -> Result<Option<CompactionResult>, SessionError> {
        let Trimmed { edits, dropped } = trimmed;
        let whole = now.view.items.len();
        let at = dropped.as_ref().map_or(whole, |dropped| {
            let kept = dropped.kept_from.as_ref();
            now.view.items.iter().position(|item| kept.is_some() && item.source.as_ref() == kept).unwrap_or(whole)
        });
        let replaced = dropped.map(|dropped| {
            let details = self.details(&now.view, at, None);
            (dropped.kept_from, Summed { text: dropped.summary, details, by_plugin: false })
        });
        let shortened = edits.len();
        let result = self.append_compaction(now, Record { edits, replaced, usage }, scale).await?;
        if shortened > 0 {
            let message = format!(
                "{shortened} {} shortened in what the model sees, so that the conversation fits its window; the session keeps them whole",
                if shortened == 1 { "message was" } else { "messages were" }
            );
            self.outbox.send(Event::Notice { message }).await;
        }
        Ok(result)
    }

    /// Appends what a compaction came to, in one write. None where no summary is among it, or where the conversation went on elsewhere meanwhile.
    async fn append_compaction(
        &self,
        now: &Standing,
        record: Record,
        scale: u64,
    ) -> Result<Option<CompactionResult>, SessionError> {
        let Record { edits, replaced, usage } = record;
        let mut entries: Vec<(EntryId, EntryBody)> = Vec::with_capacity(edits.len() + 1);
        for (target_id, content) in edits {
            let edit = ContextEdit { target_id, replacement: Some(Replacement { content }) };
            entries.push((self.session.reserve_id(), EntryBody::ContextEdit(edit)));
        }
        let mut kept = None;
        let has_summary = replaced.is_some();
        if let Some((first, summed)) = replaced {
            let id = self.session.reserve_id();
            kept.clone_from(&first);
            let compaction = Compaction {
                summary: summed.text,
                first_kept_entry_id: first.unwrap_or_else(|| id.clone()),
                tokens_before: now.count.tokens,
                system_message: now.told.checkpoint(self.session.clock().now_millis()),
                details: summed.details,
                usage: usage.clone(),
                from_hook: summed.by_plugin.then_some(true),
            };
            entries.push((id, EntryBody::Compaction(compaction)));
        } else if let Some(usage) = &usage {
            entries.push((self.session.reserve_id(), self.usage_entry(USAGE, usage.clone())));
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let is_there = |kept: &EntryId| self.session.with_path(|mut path| (&mut path).any(|entry| entry.id == *kept));
        if kept.as_ref().is_some_and(|kept| !is_there(kept)) {
            return Ok(None);
        }
        let Ok(appended) = self.session.append_reserved(entries, |_| Ok::<_, std::convert::Infallible>(()))?;
        let mut result = None;
        for entry in appended {
            if let EntryBody::Compaction(compaction) = &entry.body {
                result = Some(CompactionResult {
                    summary: compaction.summary.clone(),
                    first_kept_entry_id: compaction.first_kept_entry_id.clone(),
                    tokens_before: compaction.tokens_before,
                    estimated_tokens_after: 0,
                    usage: compaction.usage.clone(),
                    details: compaction.details.clone(),
                });
            }
            self.outbox.send(Event::EntryAppended { entry }).await;
        }
        if let (true, Some(result)) = (has_summary, &mut result) {
            result.estimated_tokens_after = self.standing().count.estimate.saturating_mul(scale) / 1_000;
        }
        Ok(result)
    }

    /// What a summary took that came to nothing still counts.
    pub(crate) fn record_spent(&self, kind: &str, spent: &Spent) -> Result<(), SessionError> {
        if let Some(usage) = spent.total() {
            self.session.append(self.usage_entry(kind, usage))?;
        }
        Ok(())
    }

    fn usage_entry(&self, kind: &str, usage: Usage) -> EntryBody {
        let model = &self.model.card().model;
        EntryBody::Usage(UsageEntry {
            kind: kind.to_owned(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            usage,
            note: None,
        })
    }
}

/// Stands before what is told of a turn that is cut.
const GOES_ON: &str = "## The turn that goes on\n\nIts end follows as it was.\n";

/// What the user asked for, as summaries say it.
fn asked(words: &str) -> String {
    format!("The user asked, word for word:\n\n{words}\n")
}

/// Why a summary is the host's own.
const NO_COMPACTOR: &str = "no plugin here writes summaries";
