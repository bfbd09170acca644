//! `pith session list`.

use super::{args::ListArgs, cost, shown, title_of};
use crate::{
    failure::{Failure, hand_over},
    harmless::harmless_line,
    plan::progress,
    table::table,
};
use pith_protocol::millis_from_iso;
use pith_runtime::{Index, Listing, ModelUsage, Places, Provenance, SessionSummary, ShortIds};
use serde_json::{Value, json};
use std::{
    io::Write,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// Sessions that are listed where nobody says how many.
const SHOWN: usize = 50;
/// Characters of a title.
const TITLE_CHARS: usize = 60;

/// Does it.
pub fn follow(places: &Places, args: &ListArgs) -> Result<u8, Failure> {
    let mut sessions = here(places, args.all)?;
    let count = sessions.len();
    let limit = args.limit.unwrap_or(if args.json { 0 } else { SHOWN });
    sessions.truncate(if limit == 0 { usize::MAX } else { limit });
    let short = ShortIds::of(places);
    if args.json {
        let all: Vec<Value> = sessions.iter().map(|one| as_json(one, &short)).collect();
        return hand_over(format!("{}\n", Value::Array(all)).as_bytes());
    }
    if sessions.is_empty() {
        let hint = if args.all { "" } else { " (`--all` for those of other folders)" };
        return hand_over(format!("There are no sessions of this folder{hint}.\n").as_bytes());
    }
    let mut rows = vec![["id", "last", "messages", "cost", "what"].map(str::to_owned).to_vec()];
    let now = now();
    for one in &sessions {
        rows.push(vec![
            harmless_line(short.get(&one.id), 64),
            ago(now, &one.last_activity),
            (one.totals.users + one.totals.assistants).to_string(),
            cost(one.totals.usage.iter()),
            title(one, args.all),
        ]);
    }
    let code = hand_over(table(&rows, 5).as_bytes())?;
    if count > sessions.len() && args.limit.is_none() {
        let _ = writeln!(std::io::stderr().lock(), "{} of {count} are shown; --limit 0 shows all", sessions.len());
    }
    Ok(code)
}

/// The sessions of this folder, or all. What the listing noticed goes to standard error.
pub fn here(places: &Places, all: bool) -> Result<Vec<SessionSummary>, Failure> {
    let progress = progress();
    let Listing { mut sessions, notices } =
        Index::at(places).list(progress.as_ref()).map_err(|error| Failure::refused(&error))?;
    for notice in notices {
        let _ = writeln!(std::io::stderr().lock(), "note: {}", harmless_line(&notice, 1000));
    }
    if !all {
        let folder = std::env::current_dir()
            .and_then(|folder| folder.canonicalize())
            .map_err(|error| Failure::refused(&error))?;
        sessions.retain(|one| Path::new(&one.cwd) == folder);
    }
    Ok(sessions)
}

/// One in a line: when, what.
pub fn line(one: &SessionSummary) -> String {
    format!("{:>8}  {}", ago(now(), &one.last_activity), title(one, false))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// All that is known of one.
fn as_json(one: &SessionSummary, short: &ShortIds) -> Value {
    let mut value = serde_json::to_value(one).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        let known: f64 = one.totals.usage.iter().map(|used| used.usage.cost.total).sum();
        let whole = !one.totals.usage.iter().any(ModelUsage::is_partly_unknown);
        fields.insert("shortId".to_owned(), json!(short.get(&one.id)));
        fields.insert("cost".to_owned(), json!({ "known": known, "isWhole": whole }));
    }
    value
}

/// Its name, or its first words, with what is to be known of it before them.
fn title(one: &SessionSummary, with_folder: bool) -> String {
    let mut out = String::new();
    if one.in_use.is_some() {
        out.push_str("[in use] ");
    }
    if one.provenance == Provenance::Foreign {
        out.push_str("[foreign] ");
    }
    out.push_str(&title_of(&one.totals, TITLE_CHARS));
    if with_folder {
        out.push_str(&format!("  in {}", shown(Path::new(&one.cwd))));
    }
    out
}

/// How long ago, in one word.
fn ago(now: i64, time: &str) -> String {
    let Some(then) = millis_from_iso(time) else { return harmless_line(time, 24) };
    let minutes = now.saturating_sub(then) / 60_000;
    match minutes {
        ..1 => "now".to_owned(),
        1..60 => format!("{minutes} min"),
        60..2_880 => format!("{} h", minutes / 60),
        _ => format!("{} days", minutes / 1_440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let at = |millis| ago(millis, "1970-01-01T00:00:00.000Z");
        assert_eq!([0, 61_000, 7_200_000, 400_000_000].map(at), ["now", "1 min", "2 h", "4 days"]);
        assert_eq!(ago(0, "\u{1b}[2J"), harmless_line("\u{1b}[2J", 24));
    }
}
