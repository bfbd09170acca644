//! `pith session`: the sessions that there are, looked at and changed from outside a conversation.

pub mod args;
mod change;
mod export;
mod import;
pub mod list;
mod search;
pub mod show;
mod stats;
pub mod tree;

pub use crate::summing::grouped;
use crate::{failure::Failure, harmless::harmless_line};
use args::{Format, From, SessionCommand};
use pith_runtime::{ExportFormat, ModelUsage, Origin, Places, Totals, dollars, find_session};
use std::path::{Path, PathBuf};

/// Does what is asked for.
pub fn follow(command: SessionCommand) -> Result<u8, Failure> {
    let places = Places::from_process().map_err(|error| Failure::refused(&error))?;
    match command {
        SessionCommand::List(args) => list::follow(&places, &args),
        SessionCommand::Show(args) => show::follow(&found(&places, &args.which.session)?, &args),
        SessionCommand::Tree(args) => tree::follow(&found(&places, &args.which.session)?, &args),
        SessionCommand::Fork(args) => change::fork(&places, &found(&places, &args.which.session)?, &args),
        SessionCommand::Name(args) => change::name(&places, &found(&places, &args.which.session)?, &args.name),
        SessionCommand::Label(args) => change::label(&places, &found(&places, &args.which.session)?, &args),
        SessionCommand::Trust(args) => change::trust(&places, &found(&places, &args.session)?),
        SessionCommand::Delete(args) => {
            let files = args.sessions.iter().map(|wanted| found(&places, wanted)).collect::<Result<Vec<_>, _>>()?;
            change::delete(&places, &files, &args)
        }
        SessionCommand::Search(args) => search::follow(&places, &args),
        SessionCommand::Stats(args) => {
            let file = args.session.as_deref().map(|wanted| found(&places, wanted)).transpose()?;
            stats::follow(&places, file.as_deref(), &args)
        }
        SessionCommand::Export(args) => export::follow(&export::Export {
            file: found(&places, &args.which.session)?,
            format: args.format.map(|format| match format {
                Format::Html => ExportFormat::Html,
                Format::Markdown => ExportFormat::Markdown,
                Format::Jsonl => ExportFormat::Jsonl,
            }),
            target: args.output,
            is_path_only: args.path,
            force: args.force,
            json: args.json,
        }),
        SessionCommand::Import(args) => import::follow(
            &places,
            &import::Import {
                paths: args.paths,
                from: args.from.map(|from| match from {
                    From::Pi => Origin::Pi,
                    From::Claude => Origin::Claude,
                    From::Codex => Origin::Codex,
                }),
                again: args.again,
                json: args.json,
            },
        ),
    }
}

/// The file of a session that was named.
fn found(places: &Places, wanted: &str) -> Result<PathBuf, Failure> {
    let workspace = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let workspace = workspace.canonicalize().unwrap_or(workspace);
    let file = find_session(places, &workspace, wanted).map_err(|error| {
        let hint = error.hint();
        Failure::refused(&error).hinted(hint)
    })?;
    Ok(file)
}

/// What a session is called: its name, or the first words in it.
fn title_of(totals: &Totals, chars: usize) -> String {
    match (&totals.name, &totals.first_user_text) {
        (Some(name), _) => harmless_line(name, chars),
        (None, Some(words)) => format!("\"{}\"", harmless_line(words, chars)),
        (None, None) => "(nothing was said)".to_owned(),
    }
}

/// What models cost together. What has no known price is said, and is never 0.
pub fn cost<'u>(usage: impl Iterator<Item = &'u ModelUsage>) -> String {
    let (mut known, mut tokens, mut unknown) = (0.0, 0u64, false);
    for one in usage {
        known += one.usage.cost.total;
        tokens = tokens.saturating_add(one.usage.total_tokens);
        unknown |= one.is_partly_unknown();
    }
    match (known > 0.0, unknown) {
        (_, false) if tokens == 0 => "-".to_owned(),
        (_, false) => dollars(known),
        (true, true) => format!("{} + unknown", dollars(known)),
        (false, true) => "unknown".to_owned(),
    }
}

/// A path for people.
fn shown(path: &Path) -> String {
    harmless_line(&path.display().to_string(), 4096)
}
