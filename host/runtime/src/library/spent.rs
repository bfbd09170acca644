//! What was spent on each day: read from the files, since the index knows only sums.

use super::lines::{Word, in_order, pieces};
use crate::{Progress, SessionSummary};
use pith_core::ModelUsage;
use pith_protocol::Usage;
use serde::Deserialize;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// From when on, and how often, people are told how far it is.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Characters of a day in an RFC 3339 time.
const DAY_CHARS: usize = 10;

/// What was spent on one day.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DaySpent {
    /// The day in UTC, `2026-11-30`; empty where the file does not say.
    pub day: String,
    /// By model.
    pub usage: Vec<ModelUsage>,
}

/// What was spent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    /// The earliest first.
    pub days: Vec<DaySpent>,
    /// Files that could not be read, a sentence each; foreign text.
    pub notices: Vec<String>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    timestamp: Cow<'a, str>,
    #[serde(default, borrow)]
    message: Option<Said<'a>>,
    #[serde(default, borrow)]
    provider: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(default, borrow, rename = "modelId")]
    model_id: Option<Cow<'a, str>>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(default, borrow)]
    role: Cow<'a, str>,
    #[serde(default, borrow)]
    provider: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(default)]
    usage: Option<Usage>,
}

/// One use of a model.
struct One {
    day: String,
    used: ModelUsage,
}

/// What sessions spent on each day, all of their branches, as their totals count it.
pub fn spent_by_day(sessions: &[SessionSummary], progress: Option<&Progress>) -> Spent {
    let read = |number: usize, teller: &super::lines::Teller<'_, One>| {
        // Whose a summary's tokens are: the model's that was asked last.
        let mut last = (String::new(), String::new());
        pieces(&sessions[number].file, &mut |piece| {
            piece.split(|byte| *byte == b'\n').all(|line| match one(line, &mut last) {
                Some(one) => teller.tell(one),
                None => true,
            })
        })
    };
    let mut spent = Spent::default();
    let mut days: BTreeMap<String, Vec<ModelUsage>> = BTreeMap::new();
    let (mut told, mut done) = (Instant::now(), 0usize);
    in_order(sessions.len(), &read, &|_| false, &mut |number, word| {
        match word {
            Word::Found(One { day, used }) => add(days.entry(day).or_default(), used),
            Word::Done(result) => {
                done += 1;
                if let Err(error) = result {
                    spent.notices.push(format!("{}: {error}", sessions[number].file.display()));
                }
                if let Some(progress) = progress.filter(|_| told.elapsed() >= TOLD_AFTER) {
                    told = Instant::now();
                    progress(&format!("counted {done} of {} sessions", sessions.len()));
                }
            }
        }
        true
    });
    spent.days = days.into_iter().map(|(day, usage)| DaySpent { day, usage }).collect();
    spent
}

fn one(line: &[u8], last: &mut (String, String)) -> Option<One> {
    // Most bytes are of messages that used no model.
    let finder = |what: &[u8]| memchr::memmem::find(line, what).is_some();
    if !finder(b"\"usage\"") && !finder(b"\"modelId\"") {
        return None;
    }
    let Line { kind, timestamp, message, provider, model, model_id, usage } = serde_json::from_slice(line).ok()?;
    let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).unwrap_or_default();
    let (of, usage, replies) = match kind.as_ref() {
        "message" => {
            let said = message.filter(|said| said.role == "assistant")?;
            *last = (owned(said.provider), owned(said.model));
            (last.clone(), said.usage?, 1)
        }
        "model_change" => {
            *last = (owned(provider), owned(model_id));
            return None;
        }
        "compaction" | "branch_summary" => (last.clone(), usage?, 0),
        "usage" => ((owned(provider), owned(model)), usage?, 0),
        _ => return None,
    };
    let day = timestamp.chars().take(DAY_CHARS).collect();
    let mut used = ModelUsage { provider: of.0, model: of.1, ..ModelUsage::default() };
    used.count(Some(&usage), replies);
    Some(One { day, used })
}

fn add(all: &mut Vec<ModelUsage>, used: ModelUsage) {
    match all.iter_mut().find(|one| one.provider == used.provider && one.model == used.model) {
        Some(sum) => sum.add(&used),
        None => {
            let mut sum =
                ModelUsage { provider: used.provider.clone(), model: used.model.clone(), ..Default::default() };
            sum.add(&used);
            all.push(sum);
        }
    }
}
