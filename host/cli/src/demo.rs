//! `pith demo`: the real loop, store and plugins on a small sample project; only the model is scripted, and it says so.

mod face;
mod project;

use crate::{
    failure::{DONE, FAILED, Failure, REFUSED},
    plan,
    play::play,
};
use face::DemoFace;
use pith_protocol::Content;
use pith_runtime::{Environment, Options};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// What the user of the demo asks.
const PROMPT: &str =
    "The lunch receipt adds up to 3, but it should be 770. Find out why and fix it. Then set TILL_DEBUG=1 in .env.";

/// What the scripted model says and calls, with checks of what it is sent.
const SCENARIO: &str = include_str!("demo/scenario.json");

/// Shows an agent at work; gives the exit code.
pub async fn demo() -> Result<u8, Failure> {
    let folder = project::unpack().map_err(|error| Failure {
        message: format!("the sample project cannot be copied to a temporary folder: {error}"),
        hint: Some("set TMPDIR to a folder that can be written".to_owned()),
        code: REFUSED,
    })?;
    let before = project::read(&folder);
    let scenario = write_scenario(&folder)?;
    say(&format!(
        "Pith at work. The model is scripted; the loop, the session, the plugins and their sandbox are real.\n\
         Folder: {}\n\n> {PROMPT}\n",
        folder.display()
    ));

    let mut options = Options::new(folder.clone(), Environment::from_process()).map_err(|e| plan::start_failure(&e))?;
    options.model = Some(format!("scripted/{}", scenario.display()));
    options.shipped = plan::shipped();
    options.face = "print".to_owned();
    let pith = pith_runtime::start(options).await.map_err(|error| plan::start_failure(&error))?;
    plan::tell_notices(&pith);
    let session = pith.session_file();
    let code = play(pith, vec![Content::text(PROMPT)], Box::new(DemoFace::new())).await?;
    let _ = std::fs::remove_file(&scenario);

    let changes = project::diff(&before, &project::read(&folder));
    say(&format!("\nWhat changed:\n{changes}"));
    if let Some(session) = session {
        say(&format!("The session, a line for everything that was said and done:\n  {}\n", session.display()));
    }
    say("Start it on a real model:\n\
         \x20 export ANTHROPIC_API_KEY=...     # or OPENAI_API_KEY, or OPENAI_BASE_URL=http://127.0.0.1:8080/v1 for a local server\n\
         \x20 pith -p \"what does this project do?\"");
    if code == DONE && changes.is_empty() {
        // The demo is also the first test that users run: it must not look well when nothing happened.
        return Ok(FAILED);
    }
    Ok(code)
}

/// The scenario lies beside the sample project, not in it: the model shall not find it.
fn write_scenario(folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.with_extension("scenario.json");
    std::fs::write(&path, SCENARIO).map_err(|error| Failure::refused(&error))?;
    Ok(path)
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
