//! `pith session search`.

use super::{args::SearchArgs, list::here};
use crate::{
    failure::{DONE, Failure},
    harmless::harmless_line,
};
use pith_runtime::{Places, SearchHit, SearchOrder, SessionSummary, ShortIds, search_sessions};
use serde_json::json;
use std::{
    io::{ErrorKind, IsTerminal, Write},
    ops::ControlFlow,
};

/// Characters of a part of a snippet: the library has cut it already.
const SNIPPET_CHARS: usize = 1000;

/// Does it: hits are shown as they are found, the newest sessions first.
pub fn follow(places: &Places, args: &SearchArgs) -> Result<u8, Failure> {
    let sessions = here(places, args.all)?;
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let order = SearchOrder { phrases: args.words.clone(), is_regex: args.regex, with_tools: args.tools, limit };
    let mut out = std::io::stdout().lock();
    let styled = !args.json && out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let short = ShortIds::of(places);
    let mut written = Ok(());
    let progress = crate::plan::progress();
    let searched = search_sessions(&sessions, &order, progress.as_ref(), &mut |hit| {
        let Some(session) = sessions.get(hit.session) else { return ControlFlow::Continue(()) };
        let text = if args.json {
            format!("{}\n", as_json(session, &hit))
        } else {
            line(short.get(&session.id), &hit, styled)
        };
        written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .map_err(|error| Failure::refused(&error))?;
    match written {
        // A reader that left, such as `head`, has what it wanted.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(DONE),
        written => written.map_err(|error| Failure::refused(&error))?,
    }
    let mut err = std::io::stderr().lock();
    for notice in &searched.notices {
        let _ = writeln!(err, "note: {}", harmless_line(notice, SNIPPET_CHARS));
    }
    if searched.is_cut {
        let _ = writeln!(err, "note: there may be more than these {}: --limit 0 shows all", searched.hits);
    } else if searched.hits == 0 && err.is_terminal() {
        let more = if args.all { "" } else { "; --all searches those of other folders" };
        let tools = if args.tools { "" } else { "; --tools searches what tools gave, too" };
        let _ = writeln!(err, "nothing is found in {} sessions{more}{tools}", searched.sessions);
    }
    Ok(DONE)
}

fn as_json(session: &SessionSummary, hit: &SearchHit) -> serde_json::Value {
    let SearchHit { entry, role, timestamp, before, found, after, .. } = hit;
    json!({
        "session": session.id, "file": session.file, "cwd": session.cwd, "entry": entry, "role": role,
        "timestamp": timestamp, "before": before, "match": found, "after": after,
    })
}

/// A hit, the match in bold.
fn line(session: &str, hit: &SearchHit, styled: bool) -> String {
    let shown = |text: &str| harmless_line(text, SNIPPET_CHARS);
    let (before, found, after) = (shown(&hit.before), shown(&hit.found), shown(&hit.after));
    let found = if styled { format!("\u{1b}[1m{found}\u{1b}[0m") } else { found };
    let who = match hit.role.as_str() {
        "assistant" => "model",
        "toolResult" => "tool",
        "bashExecution" => "command",
        role => role,
    };
    let (session, entry) = (harmless_line(session, 64), harmless_line(&hit.entry, 40));
    format!("{session}  {entry}  {}: {before}{found}{after}\n", harmless_line(who, 20))
}
