//! `compactor`: writes the summary that takes the place of older messages.

use crate::{
    call::{Called, Caller, Ended, Work, broken},
    conversation,
    convert::{self, NotJson},
    exports::tool_gate::stop,
    limits::SUMMARY_BYTES,
    plugin::Plugin,
};
use pith_bindings::{compactor::exports::pith::plugin::compactor as wit, imports::pith::plugin::types::Error};
use pith_core::{CallScope, Stop, SummaryJob, SummaryPart, SummaryReason};
use pith_law::Export;
use serde_json::Value;
use std::sync::Arc;

const COMPACT: Called = Called { export: Export::Compactor, name: "compactor.compact" };

/// A summary, or none where it is left to the next.
pub(crate) type Answer = Option<(String, Option<Value>)>;

/// What one compactor makes of a job.
pub(crate) async fn compact(
    caller: &Caller,
    plugin: &Arc<Plugin>,
    job: Arc<wit::Job>,
    scope: CallScope,
) -> Result<Answer, Stop> {
    let messages = job.messages.iter().map(conversation::message_bytes);
    let bytes = messages.fold(job.previous_summary.as_ref().map_or(0, String::len), usize::saturating_add);
    let work: Work<Result<Option<wit::Summary>, Error>> = Arc::new(move |linked, store| {
        let job = job.clone();
        Box::pin(async move {
            let pre = linked.compactor.as_ref().ok_or_else(|| wasmtime::format_err!("no export compactor"))?;
            let compactor = pre.instantiate_async(&mut *store).await?;
            compactor.pith_plugin_compactor().call_compact(store, &job).await
        })
    });
    let accept = |gave: Result<Option<wit::Summary>, Error>| match gave {
        Ok(None) => Ok(None),
        Ok(Some(summary)) => {
            let details = summary.details.as_ref().map_or(0, String::len);
            plugin.facts.usage.of(COMPACT.name).gave(summary.text.len().saturating_add(details));
            if summary.text.len().saturating_add(details) > SUMMARY_BYTES {
                let why =
                    format!("{} bytes; {} are the most", summary.text.len().saturating_add(details), SUMMARY_BYTES);
                return Err(broken(plugin, COMPACT, &NotJson { what: "a summary, too long,", why }));
            }
            let details = summary.details.map(|text| convert::json("details", &text)).transpose();
            Ok(Some((summary.text, details.map_err(|error| broken(plugin, COMPACT, &error))?)))
        }
        Err(error) => Err(Ended::Refused(convert::guest_error(error))),
    };
    let deadline = plugin.facts.limits.compactor_deadline;
    caller.call(plugin, COMPACT, deadline, scope, bytes, work, accept).await.map_err(stop)
}

/// The job as the contract says it: made once for all compactors.
pub(crate) fn job(job: &SummaryJob) -> wit::Job {
    wit::Job {
        reason: match job.reason {
            SummaryReason::Manual => wit::Reason::Manual,
            SummaryReason::Threshold => wit::Reason::Threshold,
            SummaryReason::Overflow => wit::Reason::Overflow,
            SummaryReason::Branch => wit::Reason::Branch,
        },
        part: match job.part {
            SummaryPart::Whole => wit::Part::Whole,
            SummaryPart::History => wit::Part::History,
            SummaryPart::TurnStart => wit::Part::TurnStart,
        },
        messages: job.messages.iter().filter_map(|message| conversation::shown(message)).collect(),
        previous_summary: job.previous_summary.clone(),
        instructions: job.instructions.clone(),
        files_read: job.files_read.clone(),
        files_modified: job.files_modified.clone(),
        limit_tokens: job.limit_tokens,
    }
}
