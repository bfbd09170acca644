//! `pith session stats`: tokens and what they cost.

use super::{
    args::{By, StatsArgs},
    cost, grouped,
    list::here,
    title_of,
};
use crate::{
    failure::{Failure, hand_over},
    harmless::harmless_line,
    plan::progress,
    table::table,
};
use pith_runtime::{ModelUsage, Places, SessionSummary, ShortIds, spent_by_day};
use serde_json::{Value, json};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// Characters of a session's title.
const TITLE_CHARS: usize = 40;

/// A row: what it is of, for people and for programs, and what was used.
struct Row {
    name: String,
    fields: Value,
    used: Vec<ModelUsage>,
}

/// Does it, for one session or for all.
pub fn follow(places: &Places, file: Option<&Path>, args: &StatsArgs) -> Result<u8, Failure> {
    let mut sessions = match file {
        Some(file) => vec![one(places, file)?],
        None => here(places, true)?,
    };
    let rows = match args.by {
        By::Model => by_model(&sessions),
        By::Session => {
            sessions.retain(|one| file.is_some() || !one.totals.usage.is_empty());
            by_session(places, sessions)
        }
        By::Day => by_day(&sessions),
    };
    if args.json {
        let all: Vec<Value> = rows.iter().map(as_json).collect();
        return hand_over(format!("{}\n", Value::Array(all)).as_bytes());
    }
    if rows.is_empty() {
        return hand_over(b"No model was asked yet.\n");
    }
    hand_over(shown(&rows, args.by).as_bytes())
}

/// One session, read whether or not the index knows it.
fn one(places: &Places, file: &Path) -> Result<SessionSummary, Failure> {
    let session = pith_runtime::ReadSession::open(file).map_err(|error| Failure::refused(&error))?;
    let (header, totals) = (session.header(), session.totals());
    Ok(SessionSummary {
        id: header.id.to_string(),
        file: PathBuf::from(file),
        cwd: header.cwd.clone(),
        parent: header.parent_session.clone(),
        created: header.timestamp.clone(),
        last_activity: totals.last_activity.clone().unwrap_or_default(),
        bytes: std::fs::metadata(file).map(|met| met.len()).unwrap_or_default(),
        totals,
        provenance: pith_runtime::Provenance::Foreign,
        in_use: pith_runtime::Index::at(places).holder(file),
    })
}

fn by_model(sessions: &[SessionSummary]) -> Vec<Row> {
    let mut all: Vec<ModelUsage> = Vec::new();
    for used in sessions.iter().flat_map(|one| &one.totals.usage) {
        match all.iter_mut().find(|sum| sum.provider == used.provider && sum.model == used.model) {
            Some(sum) => sum.add(used),
            None => all.push(used.clone()),
        }
    }
    all.sort_by(|a, b| b.usage.total_tokens.cmp(&a.usage.total_tokens).then_with(|| a.model.cmp(&b.model)));
    let row = |used: ModelUsage| {
        let known =
            if used.model.is_empty() { "(unknown)".to_owned() } else { format!("{}/{}", used.provider, used.model) };
        let fields = json!({ "name": known, "provider": used.provider, "model": used.model });
        Row { name: known, fields, used: vec![used] }
    };
    all.into_iter().map(row).collect()
}

fn by_session(places: &Places, sessions: Vec<SessionSummary>) -> Vec<Row> {
    let short = ShortIds::of(places);
    let row = |one: SessionSummary| {
        let name = format!("{}  {}", harmless_line(short.get(&one.id), 64), title_of(&one.totals, TITLE_CHARS));
        let fields = json!({ "name": one.id, "session": one.id, "file": one.file, "lastActivity": one.last_activity });
        Row { name, fields, used: one.totals.usage }
    };
    sessions.into_iter().map(row).collect()
}

fn by_day(sessions: &[SessionSummary]) -> Vec<Row> {
    let spent = spent_by_day(sessions, progress().as_ref());
    for notice in &spent.notices {
        let _ = writeln!(std::io::stderr().lock(), "note: {}", harmless_line(notice, 1000));
    }
    let row = |one: pith_runtime::DaySpent| Row {
        name: if one.day.is_empty() { "(unknown)".to_owned() } else { harmless_line(&one.day, 20) },
        fields: json!({ "name": one.day, "day": one.day }),
        used: one.usage,
    };
    spent.days.into_iter().map(row).collect()
}

/// For people, with a sum below.
fn shown(rows: &[Row], by: By) -> String {
    let head = match by {
        By::Model => "model",
        By::Session => "session",
        By::Day => "day (UTC)",
    };
    let mut lines =
        vec![[head, "replies", "input", "output", "cache read", "cache written", "cost"].map(str::to_owned).to_vec()];
    let mut add = |name: String, used: &[&ModelUsage]| {
        let sum = |part: fn(&ModelUsage) -> u64| grouped(used.iter().map(|one| part(one)).fold(0, u64::saturating_add));
        lines.push(vec![
            name,
            sum(|one| one.replies),
            sum(|one| one.usage.input),
            sum(|one| one.usage.output),
            sum(|one| one.usage.cache_read),
            sum(|one| one.usage.cache_write),
            cost(used.iter().copied()),
        ]);
    };
    for row in rows {
        add(harmless_line(&row.name, 120), &row.used.iter().collect::<Vec<_>>());
    }
    let all: Vec<&ModelUsage> = rows.iter().flat_map(|row| &row.used).collect();
    if rows.len() > 1 {
        add("all".to_owned(), &all);
    }
    let unpriced = all.iter().map(|one| one.unpriced_tokens).fold(0, u64::saturating_add);
    let uncounted = all.iter().map(|one| one.uncounted_replies).fold(0, u64::saturating_add);
    let mut text = table(&lines, 1);
    if unpriced > 0 {
        text.push_str(&format!("\n{} tokens have no known price.\n", grouped(unpriced)));
    }
    if uncounted > 0 {
        text.push_str(&format!("\n{} replies were never counted by their provider.\n", grouped(uncounted)));
    }
    text
}

fn as_json(row: &Row) -> Value {
    let sum = |part: fn(&ModelUsage) -> u64| row.used.iter().map(part).fold(0, u64::saturating_add);
    let known: f64 = row.used.iter().map(|one| one.usage.cost.total).sum();
    let numbers = json!({
        "replies": sum(|one| one.replies),
        "input": sum(|one| one.usage.input),
        "output": sum(|one| one.usage.output),
        "cacheRead": sum(|one| one.usage.cache_read),
        "cacheWrite": sum(|one| one.usage.cache_write),
        "totalTokens": sum(|one| one.usage.total_tokens),
        "cost": {
            "known": known,
            "isWhole": !row.used.iter().any(ModelUsage::is_partly_unknown),
            "unpricedTokens": sum(|one| one.unpriced_tokens),
            "uncountedReplies": sum(|one| one.uncounted_replies),
        },
    });
    let mut all = row.fields.clone();
    if let (Value::Object(all), Value::Object(numbers)) = (&mut all, numbers) {
        all.extend(numbers);
    }
    all
}
