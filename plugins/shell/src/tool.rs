//! The tool itself: one child, read to its end.

use std::time::{Duration, Instant};

use pith_sdk::process::{self, Chunk, Command};
use pith_sdk::{Context, Error, ErrorKind, Output, Property, Schema, Tool};
use serde::Deserialize;

use crate::report::{Ending, details, partial, report};
use crate::tail::Tail;

/// Host calls that one call makes; the host ends it beyond 10,000. It gathers output the longer the more calls there were, so that they
/// last for hours.
const MAX_HOST_CALLS: u32 = 9_900;
/// Between two pieces of partial output; the host takes 10 a second.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// Bytes of partial output; the host keeps 64 KiB.
const PROGRESS_BYTES: usize = 16 * 1024;
/// How long one wait for output lasts, where nothing is to be shown meanwhile.
const WAIT: Duration = Duration::from_secs(30);
/// The host ends the child at its timeout; where it has not so much later, the guest does.
const GRACE: Duration = Duration::from_secs(2);
/// The longest timeout that can be asked for, in seconds, as milliseconds in 32 bits allow.
const MAX_TIMEOUT_SECONDS: u32 = 2_147_483;

pub struct Bash;

#[derive(Deserialize)]
pub struct BashInput {
    command: String,
    timeout: Option<f64>,
}

impl Tool for Bash {
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = "Run a command in bash, in the working folder. Gives standard output and standard error together; the last 2000 lines or 50KB, and where the whole is if that was more. Standard input is empty. Each call is a new shell: `cd` and variables do not last, and what it leaves in the background ends with it.";
    const META: Option<&'static str> = Some(r#"{"destructiveHint":true,"openWorldHint":true}"#);
    type Input = BashInput;

    fn schema() -> Schema {
        Schema::object().required("command", Property::string("The command, as bash reads it.").min_length(1)).optional(
            "timeout",
            Property::number("Seconds after which the command is ended; no limit of its own if absent.")
                .with("exclusiveMinimum", 0)
                .at_most(MAX_TIMEOUT_SECONDS),
        )
    }

    fn run(input: BashInput, context: &Context) -> Result<Output, Error> {
        let timeout = input.timeout.map(Timeout::new).transpose()?;
        let started = Instant::now();
        let child = process::spawn(&Command {
            program: "bash".to_owned(),
            args: vec!["-c".to_owned(), input.command],
            cwd: None,
            env: Vec::new(),
            stdin: Vec::new(),
            timeout_ms: timeout.as_ref().map(|timeout| timeout.ms),
            merge_stderr: true,
        })?;
        child.close_stdin();
        let mut tail = Tail::default();
        let mut shown_at: Option<Instant> = None;
        let mut unshown = false;
        let mut killed_late = false;
        // `spawn`, `close-stdin`, and what is asked of the host below.
        let mut host_calls: u32 = 2;
        let exit = loop {
            if let Some(timeout) = &timeout
                && !killed_late
                && started.elapsed() > timeout.duration + GRACE
            {
                child.kill();
                host_calls += 1;
                killed_late = true;
            }
            if host_calls >= MAX_HOST_CALLS {
                child.kill();
                let (text, _) = report(&tail.kept(), &Ending { code: Some(0), ..Ending::default() });
                return Ok(Output::text(format!(
                    "{text}\n\nThe command wrote output for longer than one call can follow, and was ended. Run it in the background with its output in a file."
                ))
                .error());
            }
            let wait = match (&timeout, unshown) {
                (_, true) => PROGRESS_EVERY,
                (Some(timeout), false) => {
                    (timeout.duration + GRACE).saturating_sub(started.elapsed()).clamp(PROGRESS_EVERY, WAIT)
                }
                (None, false) => WAIT,
            };
            host_calls += 1;
            let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
            match child.next(Some(wait_ms)) {
                Ok(Chunk::Exit(exit)) => break exit,
                Ok(Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) => {
                    tail.push(&bytes);
                    unshown = true;
                }
                // Nothing came within the wait.
                Err(error) if error.kind == ErrorKind::Limit => {}
                Err(error) => return Err(error),
            }
            if unshown && shown_at.is_none_or(|at| at.elapsed() >= PROGRESS_EVERY) {
                let text = partial(&tail.kept());
                let from =
                    (text.len().saturating_sub(PROGRESS_BYTES)..=text.len()).find(|&at| text.is_char_boundary(at));
                context.progress(&text[from.unwrap_or(0)..]);
                host_calls += 1;
                shown_at = Some(Instant::now());
                unshown = false;
            }
        };
        let kept = tail.kept();
        let timed_out = exit.timed_out || killed_late;
        let ending = Ending {
            code: exit.code,
            signal: exit.signal,
            timed_out_after: timeout.filter(|_| timed_out).map(|timeout| timeout.written),
            spool: exit.spool,
        };
        let (text, is_error) = report(&kept, &ending);
        let output = Output::text(text).details_if(details(&kept, &ending).as_ref());
        Ok(if is_error { output.error() } else { output })
    }
}

struct Timeout {
    duration: Duration,
    ms: u32,
    /// As the model gave it.
    written: String,
}

impl Timeout {
    fn new(seconds: f64) -> Result<Self, Error> {
        if !(seconds > 0.0 && seconds <= f64::from(MAX_TIMEOUT_SECONDS)) {
            return Err(Error::invalid(format!(
                "timeout is {seconds}; give seconds above 0, at most {MAX_TIMEOUT_SECONDS}, or leave it out."
            )));
        }
        let duration = Duration::from_secs_f64(seconds);
        let ms = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX).max(1);
        Ok(Self { duration, ms, written: seconds.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts() {
        let two_and_a_half = Timeout::new(2.5).unwrap();
        assert_eq!((two_and_a_half.ms, two_and_a_half.written.as_str()), (2500, "2.5"));
        assert_eq!(Timeout::new(30.0).unwrap().written, "30");
        assert_eq!(Timeout::new(0.000_1).unwrap().ms, 1);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 3e9] {
            assert!(Timeout::new(wrong).is_err(), "{wrong}");
        }
    }
}
