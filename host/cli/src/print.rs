//! The print face: the model's last words on standard output, what happens meanwhile on a terminal's standard error.

use crate::{
    failure::indented,
    harmless::{harmless, harmless_line},
    play::Face,
    summing,
};
use pith_protocol::{Event, Message, StopReason, VerdictKind};
use pith_runtime::{ModelCard, RunEnd, Session};
use serde_json::Value;
use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

/// Characters of a call's arguments on its line.
const ARGUMENT_CHARS: usize = 80;

/// Prints text.
pub struct PrintFace {
    out_is_terminal: bool,
    err_is_terminal: bool,
    /// How often the request was made that failed in the end; 1 where it was not made again.
    tried: u32,
}

impl PrintFace {
    /// On standard output and error.
    pub fn new() -> Self {
        Self { out_is_terminal: io::stdout().is_terminal(), err_is_terminal: io::stderr().is_terminal(), tried: 1 }
    }

    /// A line of progress: only where somebody looks, and nothing that a script would have to filter out.
    fn tell(&self, line: &str) {
        if self.err_is_terminal {
            let _ = writeln!(io::stderr().lock(), "{}", dim(line));
        }
    }
}

impl Face for PrintFace {
    fn shows_way_back(&self) -> bool {
        true
    }

    fn begin(&mut self, _session: &Session, model: &ModelCard) -> io::Result<()> {
        if model.model.provider == "scripted" {
            writeln!(io::stderr().lock(), "note: the model is scripted: it plays a file, no model is asked")?;
        } else {
            self.tell(&format!("· asking {}", harmless_line(&model.model.to_string(), ARGUMENT_CHARS)));
        }
        Ok(())
    }

    fn show(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::ToolExecutionStart { tool_name, args, .. } => self.tell(&call_line(tool_name, args)),
            Event::GateVerdict { plugin, verdict, reason, .. } => {
                let word = if *verdict == VerdictKind::Deny { "denied" } else { "asks" };
                self.tell(&format!("  {word} by {plugin}: {}", harmless_line(reason, 200)));
            }
            Event::AutoRetryStart { attempt, max_attempts, delay_ms, error_message } => self.tell(&format!(
                "  {} (trying again in {:.1} s, {attempt} of {max_attempts})",
                harmless_line(error_message, 200),
                *delay_ms as f64 / 1000.0
            )),
            Event::AutoRetryEnd { success: false, attempt, .. } => self.tried = attempt.saturating_add(1),
            Event::PluginFault { plugin, export, cause } => {
                writeln!(
                    io::stderr().lock(),
                    "warning: plugin {plugin} failed in {export}: {}",
                    harmless_line(cause, 300)
                )?;
            }
            Event::CompactionStart { .. } | Event::CompactionEnd { .. } => match summing::line(event) {
                Some(summing::Line::Progress(line)) => self.tell(&line),
                Some(summing::Line::Warning(line)) => writeln!(io::stderr().lock(), "warning: {line}")?,
                None => {}
            },
            Event::Notice { message } => writeln!(io::stderr().lock(), "note: {}", harmless_line(message, 1000))?,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, end: &RunEnd) -> io::Result<()> {
        let last = end.messages.iter().rev().find_map(|message| match message.as_ref() {
            Message::Assistant(reply) => Some(reply),
            _ => None,
        });
        let mut answered = Ok(());
        if let Some(reply) = last {
            let text = reply.text();
            if !text.is_empty() {
                // A file or pipe gets the very bytes; a terminal gets what cannot drive it.
                let text = if self.out_is_terminal { harmless(&text) } else { Cow::Borrowed(text.as_str()) };
                answered = write_line(&text);
            }
        }
        let mut err = io::stderr().lock();
        if let Err(error) = &answered {
            tell_unwritten(error);
        }
        match end.stop_reason {
            StopReason::Error => {
                let message = end.error_message.as_deref().unwrap_or("the model's reply failed");
                let tried = if self.tried > 1 { format!(" (tried {} times)", self.tried) } else { String::new() };
                writeln!(err, "error: {}{tried}", indented(message))?;
                if let Some(hint) = pith_runtime::failure_hint(end) {
                    writeln!(err, "hint: {hint}")?;
                }
            }
            StopReason::Length => writeln!(err, "error: the reply was cut off by the model's output limit")?,
            StopReason::Aborted => writeln!(err, "aborted")?,
            StopReason::Stop if last.is_some_and(|reply| reply.content.is_empty()) => {
                writeln!(err, "note: the model's reply is empty")?;
            }
            StopReason::Stop | StopReason::ToolUse | StopReason::Pending => {}
        }
        answered
    }
}

fn write_line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Says why the answer is not where it was wanted: on a full disk, say. A reader that has gone (`| head`) knows.
pub fn tell_unwritten(error: &io::Error) {
    if error.kind() != io::ErrorKind::BrokenPipe {
        let _ = writeln!(io::stderr().lock(), "error: standard output cannot be written: {error}");
    }
}

/// A call on one line: its name, and the words among its arguments.
pub fn call_line(tool: &str, args: &Value) -> String {
    let words: Vec<&str> = args.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()).collect();
    let told = match args.as_object() {
        Some(map) if map.is_empty() => String::new(),
        Some(_) if !words.is_empty() => words.join("  "),
        _ => args.to_string(),
    };
    format!("· {} {}", harmless_line(tool, 64), harmless_line(&told, ARGUMENT_CHARS)).trim_end().to_owned()
}

/// A line that is less than the answer.
pub fn dim(line: &str) -> String {
    if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        line.to_owned()
    } else {
        format!("\u{1b}[2m{line}\u{1b}[0m")
    }
}
