//! One run behind a face: events are shown as they come, signals end it, its end becomes an exit code.
//!
//! The face writes on a thread of its own: a reader that does not read (`| less`) stops the face and with it the run, never the signals.

use crate::{
    failure::{DONE, FAILED, Failure, HUNG_UP, INTERRUPTED, TERMINATED, chain},
    harmless::harmless_line,
    print::dim,
    unsaved,
};
use pith_protocol::{Content, Event, StopReason};
use pith_runtime::{Inbox, ModelCard, Pith, RunEnd, Session};
use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long an aborted run may take to answer its open calls before the program leaves without it.
pub const LEAVE_AFTER: Duration = Duration::from_secs(2);

/// Signals within this of the first are the same wish.
pub const SAME_WORD: Duration = Duration::from_millis(100);

/// Characters of a session's id.
const ID_CHARS: usize = 64;

/// Shows what happens. An error of its writes means that nobody reads any more.
pub trait Face: Send {
    /// Before anything happens.
    fn begin(&mut self, session: &Session, model: &ModelCard) -> io::Result<()>;
    /// One event.
    fn show(&mut self, event: &Event) -> io::Result<()>;
    /// After the last event of a run.
    fn end(&mut self, end: &RunEnd) -> io::Result<()>;
    /// Whether a person is told how to go on with the session.
    fn shows_way_back(&self) -> bool {
        false
    }
}

/// Runs one prompt to its end; gives the exit code.
pub async fn play(pith: Pith, content: Vec<Content>, face: Box<dyn Face>) -> Result<u8, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::refused(&error))?;
    let pith = Arc::new(pith);
    let played = whole(pith.clone(), content, face);
    tokio::pin!(played);
    let mut signalled: Option<(u8, Instant)> = None;
    let leave = tokio::time::sleep(Duration::MAX);
    tokio::pin!(leave);
    loop {
        tokio::select! {
            biased;
            code = signals.next() => match signalled {
                // Some programs send a signal to the process and to its group: that is one word, said twice.
                Some((_, at)) if at.elapsed() < SAME_WORD => {}
                Some(_) => return Ok(code),
                None => {
                    signalled = Some((code, Instant::now()));
                    pith.abort();
                    leave.as_mut().reset((Instant::now() + LEAVE_AFTER).into());
                }
            },
            ended = &mut played => return match (signalled, ended) {
                (None, ended) => ended,
                (Some((code, _)), Ok(_)) => Ok(code),
                (Some((code, _)), Err(failure)) => Err(Failure { code, ..failure }),
            },
            () = &mut leave => return Ok(signalled.map_or(FAILED, |(code, _)| code)),
        }
    }
}

/// The run beside its face, then the face's last words.
async fn whole(pith: Arc<Pith>, content: Vec<Content>, face: Box<dyn Face>) -> Result<u8, Failure> {
    let shows_way_back = face.shows_way_back();
    let inbox = pith.events();
    let shown = tokio::task::spawn_blocking({
        let pith = pith.clone();
        move || show(&pith, face, inbox)
    });
    let ended = pith.prompt(content).await;
    pith.close_events();
    let face = shown.await.map_err(|error| Failure { message: error.to_string(), hint: None, code: FAILED })?;
    let end = ended.map_err(|error| Failure { message: chain(&error), hint: None, code: FAILED })?;
    let code = match end.stop_reason {
        StopReason::Stop | StopReason::ToolUse => DONE,
        StopReason::Error | StopReason::Aborted | StopReason::Length | StopReason::Pending => FAILED,
    };
    let code = match face {
        Some(mut face) => match tokio::task::spawn_blocking(move || face.end(&end)).await {
            Ok(Ok(())) => code,
            _ => FAILED,
        },
        None => FAILED,
    };
    match unsaved::left(&pith, code).await {
        Some(failure) => Err(failure),
        None => {
            tell_way_back(&pith, shows_way_back);
            Ok(code)
        }
    }
}

/// Says how to go on with the session, where somebody looks.
fn tell_way_back(pith: &Pith, is_wanted: bool) {
    let mut err = io::stderr().lock();
    if let Some(id) = pith.short_id().filter(|_| is_wanted && err.is_terminal()) {
        let _ = writeln!(
            err,
            "{}",
            dim(&format!("\u{b7} pith --session {} goes on with it", harmless_line(&id, ID_CHARS)))
        );
    }
}

/// Shows all events. Gives the face back, unless its reader is gone (`| head`): then nobody is left to work for, and the run ends.
fn show(pith: &Pith, mut face: Box<dyn Face>, mut inbox: Inbox) -> Option<Box<dyn Face>> {
    let events = tokio::runtime::Handle::current();
    let mut shown = face.begin(pith.session(), pith.model());
    while shown.is_ok() {
        match events.block_on(inbox.next()) {
            Some(event) => shown = face.show(&event),
            None => return Some(face),
        }
    }
    pith.abort();
    None
}

/// That the process goes on after it was stopped (Ctrl-Z, then `fg`).
pub fn resumptions() -> io::Result<Signal> {
    signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))
}

/// What ends a run from outside, as exit codes.
pub struct Signals {
    interrupts: Signal,
    terminations: Signal,
    hang_ups: Signal,
}

impl Signals {
    /// Takes them from their default, which is to end the process.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            interrupts: signal(SignalKind::interrupt())?,
            terminations: signal(SignalKind::terminate())?,
            hang_ups: signal(SignalKind::hangup())?,
        })
    }

    /// The next one, as the exit code that it asks for.
    pub async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupts.recv() => INTERRUPTED,
            _ = self.terminations.recv() => TERMINATED,
            _ = self.hang_ups.recv() => HUNG_UP,
        }
    }
}
