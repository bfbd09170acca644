//! `pith session import`: transcripts of pi, Claude Code and Codex become sessions.

use crate::{
    failure::{DONE, FAILED, Failure, chain},
    harmless::harmless_line,
};
use pith_runtime::{ImportOrder, ImportOutcome, Imported, Origin, Places, import_sessions};
use serde_json::{Value, json};
use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
};

/// Characters of an id that are shown.
const ID_CHARS: usize = 64;
/// Longest line that is shown.
const LINE_CHARS: usize = 2000;
/// What was wrong with one transcript is named up to this many times.
const NOTICES_SHOWN: usize = 5;

/// What is asked for.
pub struct Import {
    /// Transcripts, and folders of them.
    pub paths: Vec<PathBuf>,
    /// Whose they are; else their content says so.
    pub from: Option<Origin>,
    /// Those that were imported already are imported once more.
    pub again: bool,
    /// A JSON line for each.
    pub json: bool,
}

/// Does it. Fails where one of them could not be imported; the others are.
pub fn follow(places: &Places, import: &Import) -> Result<u8, Failure> {
    let workspace = std::env::current_dir().map_err(|error| Failure::refused(&error))?;
    let progress: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(|words: &str| {
        let mut err = std::io::stderr().lock();
        if err.is_terminal() {
            let _ = writeln!(err, "{}", harmless_line(words, LINE_CHARS));
        }
    });
    let order = ImportOrder { from: import.from, again: import.again, workspace, progress: Some(progress) };
    let mut code = DONE;
    let (mut made, mut already, mut aside, mut failed) = (0u64, 0u64, 0u64, 0u64);
    let mut out = String::new();
    for path in &import.paths {
        let all = import_sessions(places, path, &order).map_err(|error| Failure::refused(&error))?;
        if all.is_empty() {
            let path = harmless_line(&path.display().to_string(), LINE_CHARS);
            return Err(Failure {
                message: format!("there is no transcript in {path}"),
                hint: Some(
                    "Claude Code keeps them in ~/.claude/projects, Codex in ~/.codex/sessions, pi in ~/.pi/agent/sessions"
                        .to_owned(),
                ),
                code: crate::failure::REFUSED,
            });
        }
        for one in &all {
            match &one.outcome {
                ImportOutcome::Made { .. } => made += 1,
                ImportOutcome::Already { .. } => already += 1,
                ImportOutcome::Aside => aside += 1,
                ImportOutcome::Failed(_) => {
                    failed += 1;
                    code = FAILED;
                }
            }
            if import.json {
                out.push_str(&format!("{}\n", as_json(one)));
            } else {
                out.push_str(&told(one));
            }
        }
    }
    if !import.json {
        if made + already + aside + failed > 1 {
            out.push_str(&format!(
                "{made} imported, {already} imported before, {aside} of subagents left out, {failed} failed\n"
            ));
        }
        if made > 0 {
            out.push_str("Go on in one with `pith --session ID`, in the folder that it is of.\n");
        }
    }
    crate::failure::hand_over(out.as_bytes())?;
    Ok(code)
}

fn told(one: &Imported) -> String {
    let source = harmless_line(&one.source.display().to_string(), LINE_CHARS);
    match &one.outcome {
        ImportOutcome::Made { origin, id, cwd, entries, left_out, notices, .. } => {
            let mut text = format!(
                "{}  {}, {entries} entries, of {}  ({source})\n",
                harmless_line(id, ID_CHARS),
                origin.program(),
                harmless_line(&cwd.display().to_string(), LINE_CHARS),
            );
            if !left_out.is_empty() {
                let parts: Vec<String> = left_out.iter().map(|(what, count)| format!("{count} {what}")).collect();
                text.push_str(&format!("  left out: {}\n", parts.join(", ")));
            }
            for notice in notices.iter().take(NOTICES_SHOWN) {
                text.push_str(&format!("  {}\n", harmless_line(notice, LINE_CHARS)));
            }
            text
        }
        ImportOutcome::Already { id } => {
            format!("{}  is what {source} was imported as; --again imports it once more\n", harmless_line(id, ID_CHARS))
        }
        // Counted.
        ImportOutcome::Aside => String::new(),
        ImportOutcome::Failed(error) => format!("failed: {}\n", harmless_line(&chain(error), LINE_CHARS)),
    }
}

fn as_json(one: &Imported) -> Value {
    match &one.outcome {
        ImportOutcome::Made { origin, id, file, cwd, entries, left_out, notices } => json!({
            "source": one.source, "outcome": "imported", "from": origin, "id": id, "file": file, "cwd": cwd, "entries": entries,
            "leftOut": left_out.iter().map(|(what, count)| (what.clone(), json!(count))).collect::<serde_json::Map<_, _>>(),
            "notices": notices,
        }),
        ImportOutcome::Already { id } => json!({ "source": one.source, "outcome": "already", "id": id }),
        ImportOutcome::Aside => json!({ "source": one.source, "outcome": "subagent" }),
        ImportOutcome::Failed(error) => json!({ "source": one.source, "outcome": "failed", "error": chain(error) }),
    }
}
