//! One run behind a face: events are shown as they come, signals end it, its end becomes an exit code.

use crate::failure::{DONE, FAILED, Failure, INTERRUPTED, TERMINATED, chain};
use pith_protocol::{Content, Event, StopReason};
use pith_runtime::{Pith, RunEnd};
use std::{io, time::Duration};
use tokio::signal::unix::{SignalKind, signal};

/// How long an aborted run may take to answer its open calls before the program leaves without it.
const LEAVE_AFTER: Duration = Duration::from_secs(2);

/// Shows what happens.
pub trait Face {
    /// Before anything happens.
    fn begin(&mut self, pith: &Pith) -> io::Result<()>;
    /// One event.
    fn show(&mut self, event: &Event) -> io::Result<()>;
    /// After the last event of a run.
    fn end(&mut self, end: &RunEnd) -> io::Result<()>;
}

/// Runs one prompt to its end.
pub async fn play(pith: Pith, content: Vec<Content>, face: &mut dyn Face) -> Result<u8, Failure> {
    let mut interrupts = signal(SignalKind::interrupt()).map_err(|error| Failure::refused(&error))?;
    let mut terminations = signal(SignalKind::terminate()).map_err(|error| Failure::refused(&error))?;
    let mut inbox = pith.events();
    // A reader that is gone (`| head`) ends the run: nobody is left to show it to.
    let mut shown = face.begin(&pith);
    let running = pith.prompt(content);
    tokio::pin!(running);
    let mut ended = None;
    let mut signalled = None;
    let leave = tokio::time::sleep(Duration::MAX);
    tokio::pin!(leave);
    loop {
        if shown.is_err() && signalled.is_none() {
            signalled = Some(FAILED);
            pith.abort();
            leave.as_mut().reset(tokio::time::Instant::now() + LEAVE_AFTER);
        }
        tokio::select! {
            biased;
            event = inbox.next() => match event {
                Some(event) => {
                    if shown.is_ok() {
                        shown = face.show(&event);
                    }
                    if matches!(event, Event::AgentSettled { .. }) && ended.is_some() {
                        break;
                    }
                }
                None => break,
            },
            end = &mut running, if ended.is_none() => {
                ended = Some(end);
                // What is still in the queue is shown first.
                pith.close_events();
            }
            _ = interrupts.recv() => {
                if signalled.is_some() {
                    return Ok(INTERRUPTED);
                }
                signalled = Some(INTERRUPTED);
                pith.abort();
                leave.as_mut().reset(tokio::time::Instant::now() + LEAVE_AFTER);
            }
            _ = terminations.recv() => {
                signalled = Some(TERMINATED);
                pith.abort();
                leave.as_mut().reset(tokio::time::Instant::now() + LEAVE_AFTER);
            }
            () = &mut leave => return Ok(signalled.unwrap_or(FAILED)),
        }
    }
    let end = match ended {
        Some(Ok(end)) => end,
        Some(Err(error)) => return Err(Failure { message: chain(&error), hint: None, code: FAILED }),
        None => return Ok(signalled.unwrap_or(FAILED)),
    };
    if shown.is_ok() && face.end(&end).is_err() {
        return Ok(signalled.unwrap_or(FAILED));
    }
    Ok(signalled.unwrap_or(match end.stop_reason {
        StopReason::Stop | StopReason::ToolUse => DONE,
        StopReason::Error | StopReason::Aborted | StopReason::Length | StopReason::Pending => FAILED,
    }))
}
