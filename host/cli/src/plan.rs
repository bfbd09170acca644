//! From arguments to a run: what they ask for, checked and put into the library's options.

use crate::{
    args::{Cli, Mode, RunArgs, SandboxMask},
    failure::{Failure, REFUSED},
    harmless::harmless_line,
    json::JsonFace,
    meant,
    plain::{self, Beginning},
    play::{Face, play},
    print::PrintFace,
};
use clap::CommandFactory;
use pith_protocol::Content;
use pith_runtime::{Environment, Options, Progress, SandboxLevel, SessionChoice, ShippedPlugin};
use std::{
    io::{IsTerminal, Read, Write},
    path::PathBuf,
    sync::Arc,
};

/// Characters of a notice. It is one line: what it quotes of others shall not look like a notice of ours.
const NOTICE_CHARS: usize = 1000;

/// The most text that is read from a pipe, in bytes.
const PIPED_LIMIT_BYTES: u64 = 10 << 20;

/// Follows the arguments to the end; gives the exit code.
pub async fn follow(args: RunArgs) -> Result<u8, Failure> {
    // With a flag, or after `--`, there are more arguments than words: then a message is meant.
    if std::env::args_os().len() == args.messages.len() + 1
        && let Some(meant) = meant::order(&args.messages)
    {
        let typed = args.messages.join(" ");
        return Err(refused(format!("there is no command `pith {typed}`"))
            .hinted(Some(format!("did you mean `pith {meant}`? (`pith -- {typed}` asks the model)"))));
    }
    if converses(&args) {
        let mut options = options(&args)?;
        options.face = "interactive".to_owned();
        let first = if args.messages.is_empty() { None } else { Some(content(&args.messages, None)?) };
        return plain::converse(Beginning { options, first }).await;
    }
    let piped = if std::io::stdin().is_terminal() { None } else { read_pipe()? };
    if args.messages.is_empty() && piped.is_none() {
        let mut err = std::io::stderr().lock();
        let _ = writeln!(err, "{}\n\nA message is missing. Try: pith demo", Cli::command().render_usage());
        return Ok(REFUSED);
    }
    let options = options(&args)?;
    let content = content(&args.messages, piped)?;
    let pith = pith_runtime::start(options).await.map_err(|error| start_failure(&error))?;
    tell_notices(&pith);
    tell_lost(&pith, &content, args.thinking.as_deref());
    let face: Box<dyn Face> = match args.mode {
        Mode::Json => Box::new(JsonFace::new()),
        Mode::Text => Box::new(PrintFace::new()),
    };
    play(pith, content, face).await
}

/// Whether there is somebody to talk with: without a terminal on both sides `--plain` prints an answer as well.
fn converses(args: &RunArgs) -> bool {
    args.mode == Mode::Text && !args.print && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// A start that was refused, with the way out.
pub fn start_failure(error: &pith_runtime::StartError) -> Failure {
    Failure::refused(error).hinted(error.hint())
}

/// Says on standard error what the start noticed.
pub fn tell_notices(pith: &pith_runtime::Pith) {
    let mut err = std::io::stderr().lock();
    for notice in pith.notices() {
        let _ = writeln!(err, "note: {}", harmless_line(notice, NOTICE_CHARS));
    }
}

/// Says what takes long, where somebody looks.
pub fn progress() -> Option<Progress> {
    let told: Progress = Arc::new(|what: &str| {
        let _ = writeln!(std::io::stderr().lock(), "{}", harmless_line(what, NOTICE_CHARS));
    });
    std::io::stderr().is_terminal().then_some(told)
}

/// Says what of the question the model will not get.
fn tell_lost(pith: &pith_runtime::Pith, content: &[Content], thinking: Option<&str>) {
    let mut err = std::io::stderr().lock();
    for line in lost(pith, content, thinking) {
        let _ = writeln!(err, "note: {line}");
    }
}

/// What of a question the model will not get, a harmless line each: models that are not in the table count as reading text only.
pub fn lost(pith: &pith_runtime::Pith, content: &[Content], thinking: Option<&str>) -> Vec<String> {
    let card = pith.model();
    let name = harmless_line(&card.model.to_string(), NOTICE_CHARS);
    let mut lines = Vec::new();
    if !card.reads_images && content.iter().any(|block| matches!(block, Content::Image(_))) {
        lines.push(format!("{name} is not known to read pictures: it gets a line of text in their place"));
    }
    if !card.thinks && thinking.is_some_and(|level| level != "off") && card.model.provider != "scripted" {
        lines.push(format!("{name} is not known to think: --thinking is left out"));
    }
    lines
}

/// The plugins that come with Pith, with the grants that they come with.
pub fn shipped() -> Vec<ShippedPlugin> {
    pith_bundle::shipped()
        .iter()
        .map(|plugin| ShippedPlugin { name: plugin.name, component: plugin.component, grants: plugin.grants })
        .collect()
}

fn options(args: &RunArgs) -> Result<Options, Failure> {
    let environment = Environment::from_process();
    let workspace = match &args.workspace {
        Some(dir) => dir.clone(),
        None => present_folder()?,
    };
    let mut options = Options::new(workspace, environment).map_err(|error| start_failure(&error))?;
    options.session = if args.no_session {
        SessionChoice::Memory
    } else if args.continue_latest {
        SessionChoice::Continue
    } else if let Some(session) = &args.session {
        SessionChoice::Open(session.clone())
    } else if let Some(session) = &args.fork {
        SessionChoice::Fork(session.clone())
    } else {
        SessionChoice::New
    };
    options.trust_session = args.trust_session;
    options.name = args.name.clone();
    options.model = args.model.clone();
    options.thinking = args.thinking.clone();
    options.shipped = shipped();
    options.plugins = args.plugins.clone();
    options.grants = args.grants.clone();
    options.load_plugins = !args.no_plugins;
    options.sandbox = args.sandbox.as_deref().and_then(SandboxLevel::named);
    for mask in &args.sandbox_mask {
        match mask {
            SandboxMask::NoBubblewrap => options.sandbox_mask.bubblewrap = false,
            SandboxMask::Landlock(abi) => options.sandbox_mask.landlock_abi = *abi,
        }
    }
    options.progress = progress();
    options.face = match args.mode {
        Mode::Text => "print",
        Mode::Json => "json",
    }
    .to_owned();
    Ok(options)
}

/// The message. An `@FILE` is meant as the shell completes it: from the present folder, also where the agent works in another.
fn content(messages: &[String], piped: Option<String>) -> Result<Vec<Content>, Failure> {
    let content = pith_runtime::read_input(&present_folder()?, messages, piped.as_deref())
        .map_err(|error| Failure::refused(&error))?;
    if content.is_empty() {
        return Err(refused("the message is empty".to_owned()));
    }
    Ok(content)
}

fn present_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| refused(format!("the present folder cannot be read: {error}")))
}

fn refused(message: String) -> Failure {
    Failure { message, hint: None, code: REFUSED }
}

/// What stands on standard input; none where that is nothing.
fn read_pipe() -> Result<Option<String>, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(PIPED_LIMIT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refused(format!("standard input cannot be read: {error}")))?;
    if bytes.len() as u64 > PIPED_LIMIT_BYTES {
        return Err(refused(
            "standard input is longer than 10 MiB; write it to a file and name the file in the message".to_owned(),
        ));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok((!text.trim().is_empty()).then_some(text))
}
