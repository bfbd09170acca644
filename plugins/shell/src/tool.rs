//! The tools themselves, on the host's processes.

use std::time::Duration;

use pith_sdk::paths::GuestPath;
use pith_sdk::process::{self, Child, Chunk};
use pith_sdk::{Context, Error, ErrorKind, Output, Property, Schema, Tool, context};
use serde::Deserialize;

use crate::follow::{Exit, Piece, Plan, Program, Timeout, follow};
use crate::jobs::has_jobs;
use crate::stop::stopped;

/// The longest command, in bytes: what Linux takes as one argument.
const MAX_COMMAND_BYTES: usize = 128 * 1024 - 1;

/// The tool `bash`.
pub struct Bash;

/// Its input.
#[derive(Clone, Debug, Deserialize, pith_sdk::Input)]
pub struct BashInput {
    command: String,
    timeout: Option<f64>,
    #[serde(default)]
    background: bool,
}

impl BashInput {
    /// What is to be done; `until` says what ends a command in the background at the latest.
    ///
    /// Errors: `invalid` for what bash cannot be given.
    pub fn plan(&self, until: &'static str) -> Result<Plan, Error> {
        if self.command.contains('\0') {
            return Err(Error::invalid(
                "The command has a NUL character in it, which bash cannot take: write it as `\\0` for printf.",
            ));
        }
        if self.command.len() > MAX_COMMAND_BYTES {
            return Err(Error::invalid(format!(
                "The command has {} bytes, bash takes {MAX_COMMAND_BYTES}: write it to a file and run `bash FILE`, or its data to a file that a short command reads.",
                self.command.len()
            )));
        }
        let timeout = self.timeout.map(Timeout::new).transpose()?;
        Ok(Plan { timeout, background: self.background, has_jobs: has_jobs(&self.command), until })
    }

    /// What bash is called with.
    pub fn args(&self) -> Vec<String> {
        vec!["-c".to_owned(), self.command.clone()]
    }
}

impl Tool for Bash {
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = "Run a command in bash, in the working folder. Gives standard output and standard error together, without colours; the last 2000 lines or 50KB, and the file with the whole if that was more. Standard input is empty. Each call is a new shell: `cd` and variables do not last, and what it starts with `&` ends with it. For servers, watchers and long jobs set `background`.";
    const META: Option<&'static str> = Some(r#"{"destructiveHint":true,"openWorldHint":true}"#);
    type Input = BashInput;

    fn schema() -> Schema {
        Schema::object()
            .required("command", Property::string("The command, as bash reads it.").min_length(1))
            .optional(
                "timeout",
                Property::number("Seconds after which the command is ended; no limit if absent.")
                    .with("exclusiveMinimum", 0)
                    .with("maximum", "2147483.647"),
            )
            .optional(
                "background",
                Property::boolean(
                    "Leave it running: gives what it says in the first second, and the path of a file that gets all of its output, to be read or searched later. `bash_stop` ends it.",
                ),
            )
    }

    fn run(input: BashInput, context: &Context) -> Result<Output, Error> {
        let plan = input.plan(until(&context::face()))?;
        let child = process::spawn(&process::Command {
            program: "bash".to_owned(),
            args: input.args(),
            cwd: None,
            env: Vec::new(),
            stdin: Vec::new(),
            timeout_ms: plan.timeout.as_ref().map(Timeout::ms),
            merge_stderr: true,
        });
        let child = child.map_err(|error| match error.kind {
            ErrorKind::Limit => Error::limit(format!("Not run: {}. End one with `bash_stop` first.", error.message)),
            _ => error,
        })?;
        let answer = follow(&mut Running(child), &plan, &mut |text| context.progress(text))?;
        let output = Output::text(answer.text).details(&answer.details);
        Ok(if answer.is_error { output.error() } else { output })
    }
}

/// What ends a command in the background at the latest.
fn until(face: &str) -> &'static str {
    // These end with the model's last word.
    if matches!(face, "print" | "json") { "your final answer" } else { "the end of the session" }
}

struct Running(Child);

impl Program for Running {
    fn next(&mut self, wait: Duration) -> Result<Option<Piece>, Error> {
        match self.0.next(Some(u32::try_from(wait.as_millis()).unwrap_or(u32::MAX))) {
            Ok(Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) => Ok(Some(Piece::Output(bytes))),
            Ok(Chunk::Exit(exit)) => Ok(Some(Piece::Exit(Exit {
                code: exit.code,
                signal: exit.signal,
                timed_out: exit.timed_out,
                spool: exit.spool,
            }))),
            // Nothing came within the wait.
            Err(error) if error.kind == ErrorKind::Limit => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn kill(&mut self) {
        self.0.kill();
    }

    fn leave(&mut self) -> Result<String, Error> {
        self.0.detach()
    }
}

/// The tool `bash_stop`.
pub struct BashStop;

/// Its input.
#[derive(Clone, Debug, Deserialize, pith_sdk::Input)]
pub struct BashStopInput {
    output: String,
}

impl Tool for BashStop {
    const NAME: &'static str = "bash_stop";
    const DESCRIPTION: &'static str = "End a command that `bash` left running in the background, with all that it started. Says whether it was still running, and gives the end of its output.";
    const META: Option<&'static str> = Some(r#"{"destructiveHint":true,"idempotentHint":true}"#);
    type Input = BashStopInput;

    fn schema() -> Schema {
        Schema::object()
            .required("output", Property::string("The path of its output, as `bash` gave it.").min_length(1))
    }

    fn run(input: BashStopInput, _: &Context) -> Result<Output, Error> {
        let path = GuestPath::granted(&input.output)?;
        let was_running = match process::stop_detached(path.absolute()) {
            Ok(()) => true,
            Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
            // What was never left running is told with what is.
            Err(error) if !path.as_ref().is_file() => {
                return Err(Error::not_found(format!("{}: {}.", path.absolute(), error.message)));
            }
            Err(_) => false,
        };
        match stopped(path.as_ref(), was_running) {
            Ok(text) => Ok(Output::text(text)),
            Err(_) if was_running => Ok(Output::text("Stopped.")),
            Err(error) => Err(path.explain("read", &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(command: &str) -> BashInput {
        BashInput { command: command.to_owned(), timeout: None, background: false }
    }

    #[test]
    fn what_bash_cannot_take_is_refused_with_the_way_out() {
        assert!(input("a\0b").plan("").unwrap_err().message.contains("NUL"));
        assert!(input(&"x".repeat(MAX_COMMAND_BYTES)).plan("").is_ok());
        let error = input(&"x".repeat(MAX_COMMAND_BYTES + 1)).plan("").unwrap_err();
        assert!(
            error.message.starts_with("The command has 131072 bytes, bash takes 131071: write it to a file"),
            "{error:?}"
        );
        assert!(BashInput { timeout: Some(0.0), ..input("x") }.plan("").is_err());
    }
}
