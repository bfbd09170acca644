//! `pith session stats`: tokens and what they cost.

use super::{
    args::{By, StatsArgs},
    cost, grouped,
    list::here,
    short_id, table,
};
use crate::{
    failure::{Failure, hand_over},
    harmless::harmless_line,
};
use pith_runtime::{ModelUsage, Places, ReadSession, Totals};
use serde_json::{Value, json};
use std::path::Path;

/// Does it.
pub fn follow(places: &Places, file: Option<&Path>, args: &StatsArgs) -> Result<u8, Failure> {
    // What a row is called, in the order in which rows come.
    let mut rows: Vec<(String, Vec<ModelUsage>)> = Vec::new();
    match file {
        Some(file) => {
            let session = ReadSession::open(file).map_err(|error| Failure::refused(&error))?;
            let id = session.header().id.to_string();
            let totals = session.totals();
            add(&mut rows, args.by, &id, totals.last_activity.clone().unwrap_or_default().as_str(), totals);
        }
        None => {
            for one in here(places, true)? {
                add(&mut rows, args.by, &one.id, &one.last_activity, one.totals);
            }
        }
    }
    if args.by == By::Day {
        rows.sort_by(|a, b| a.0.cmp(&b.0));
    }
    if args.json {
        let all: Vec<Value> = rows.iter().map(|(name, used)| as_json(name, used)).collect();
        return hand_over(format!("{}\n", Value::Array(all)).as_bytes());
    }
    let head = match args.by {
        By::Model => "model",
        By::Session => "session",
        By::Day => "day",
    };
    let mut lines =
        vec![[head, "replies", "input", "output", "cache read", "cache written", "cost"].map(str::to_owned).to_vec()];
    let every: Vec<ModelUsage> = rows.iter().flat_map(|(_, used)| used.clone()).collect();
    if rows.len() > 1 {
        rows.push(("all".to_owned(), every));
    }
    for (name, used) in &rows {
        let sum = |part: fn(&ModelUsage) -> u64| grouped(used.iter().map(part).fold(0, u64::saturating_add));
        lines.push(vec![
            harmless_line(name, 60),
            sum(|one| one.replies),
            sum(|one| one.usage.input),
            sum(|one| one.usage.output),
            sum(|one| one.usage.cache_read),
            sum(|one| one.usage.cache_write),
            cost(used.iter()),
        ]);
    }
    hand_over(table(&lines, 1).as_bytes())
}

fn add(rows: &mut Vec<(String, Vec<ModelUsage>)>, by: By, id: &str, last: &str, totals: Totals) {
    let mut put = |name: String, used: ModelUsage| match rows.iter_mut().find(|(known, _)| *known == name) {
        Some((_, all)) => all.push(used),
        None => rows.push((name, vec![used])),
    };
    for used in totals.usage {
        let name = match by {
            By::Model => format!("{}/{}", used.provider, used.model),
            By::Session => short_id(id),
            By::Day => last.chars().take(10).collect(),
        };
        put(name, used);
    }
}

fn as_json(name: &str, used: &[ModelUsage]) -> Value {
    let sum = |part: fn(&ModelUsage) -> u64| used.iter().map(part).fold(0, u64::saturating_add);
    let known: f64 = used.iter().map(|one| one.usage.cost.total).sum();
    json!({
        "name": name,
        "replies": sum(|one| one.replies),
        "input": sum(|one| one.usage.input),
        "output": sum(|one| one.usage.output),
        "cacheRead": sum(|one| one.usage.cache_read),
        "cacheWrite": sum(|one| one.usage.cache_write),
        "totalTokens": sum(|one| one.usage.total_tokens),
        "cost": {
            "known": known,
            "isWhole": used.iter().all(|one| one.unpriced_tokens == 0 && one.uncounted_replies == 0),
            "unpricedTokens": sum(|one| one.unpriced_tokens),
        },
    })
}
