//! `pith session fork | name | label | trust | delete`.

use super::{
    args::{DeleteArgs, ForkArgs, LabelArgs},
    shown, title_of,
};
use crate::{
    failure::{DONE, Failure, REFUSED, hand_over},
    harmless::harmless_line,
};
use pith_runtime::{
    ForkPoint, LibraryError, Places, ReadSession, ShortIds, delete_session, fork_session, label_session, name_session,
    trust_session,
};
use serde_json::json;
use std::{
    io::{BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
};

/// Copies a session.
pub fn fork(places: &Places, file: &Path, args: &ForkArgs) -> Result<u8, Failure> {
    let at = match &args.at {
        Some(entry) => {
            let session = ReadSession::open(file).map_err(|error| failed(&error.into()))?;
            let place = session.find_entry(entry).map_err(|error| failed(&error))?;
            ForkPoint::At(session.outline()[place].id.clone())
        }
        None if args.whole => ForkPoint::Whole,
        None => ForkPoint::Leaf,
    };
    let here =
        std::env::current_dir().and_then(|here| here.canonicalize()).map_err(|error| Failure::refused(&error))?;
    let forked = fork_session(places, file, at, &here).map_err(|error| failed(&error))?;
    if let Some(name) = &args.name {
        name_session(places, &forked.file, name).map_err(|error| failed(&error))?;
    }
    let id = forked.id.to_string();
    let text = if args.json {
        format!("{}\n", json!({ "id": id, "file": forked.file, "entries": forked.entries }))
    } else {
        format!("{id}\n")
    };
    let code = hand_over(text.as_bytes())?;
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        let _ = writeln!(err, "go on with it: pith --session {}", ShortIds::of(places).get(&id));
    }
    Ok(code)
}

/// Names a session.
pub fn name(places: &Places, file: &Path, name: &str) -> Result<u8, Failure> {
    name_session(places, file, name).map_err(|error| failed(&error))?;
    Ok(DONE)
}

/// Labels an entry.
pub fn label(places: &Places, file: &Path, args: &LabelArgs) -> Result<u8, Failure> {
    label_session(places, file, &args.entry, args.label.clone()).map_err(|error| failed(&error))?;
    Ok(DONE)
}

/// From now on the file counts as the user's own.
pub fn trust(places: &Places, file: &Path) -> Result<u8, Failure> {
    let aside = trust_session(places, file).map_err(|error| failed(&error))?;
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        let count = aside.system_messages.saturating_add(aside.plugin_entries);
        let _ =
            writeln!(err, "what had been set aside counts from now on: {count} entries of prompt, tools and plugins");
    }
    Ok(DONE)
}

/// Throws sessions away, after asking.
pub fn delete(places: &Places, files: &[PathBuf], args: &DeleteArgs) -> Result<u8, Failure> {
    let asks = !args.yes;
    if asks && !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        let message = "nobody can be asked here whether to delete".to_owned();
        return Err(Failure { message, hint: Some("--yes deletes without asking".to_owned()), code: REFUSED });
    }
    for file in files {
        let what = describe(file);
        if asks {
            let mut err = std::io::stderr().lock();
            let how = if args.forever { "Delete for good" } else { "Delete" };
            let _ = write!(err, "{how} {what}? [y/N] ");
            let _ = err.flush();
            let mut answer = String::new();
            std::io::stdin().lock().read_line(&mut answer).map_err(|error| Failure::refused(&error))?;
            if !matches!(answer.trim(), "y" | "Y" | "yes") {
                let _ = writeln!(err, "kept");
                continue;
            }
        }
        let deleted = delete_session(places, file, args.forever).map_err(|error| failed(&error))?;
        let mut err = std::io::stderr().lock();
        if let (Some(trash), true) = (deleted.trash, err.is_terminal()) {
            let _ = writeln!(err, "it lies in {} now", shown(&trash));
        }
    }
    Ok(DONE)
}

/// A session in a line.
fn describe(file: &Path) -> String {
    match ReadSession::open(file) {
        Ok(session) => {
            let totals = session.totals();
            let messages = totals.users.saturating_add(totals.assistants);
            let id = harmless_line(session.header().id.as_str(), 64);
            format!("{id} {} ({messages} messages)", title_of(&totals, 60))
        }
        Err(_) => shown(file),
    }
}

fn failed(error: &LibraryError) -> Failure {
    Failure::refused(error).hinted(error.hint())
}
