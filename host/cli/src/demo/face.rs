//! The demo's face: each step as a user sees it.

use crate::{
    harmless::{harmless, harmless_line},
    play::Face,
    print::call_line,
};
use pith_protocol::{Content, Event, Message, StopReason, VerdictKind};
use pith_runtime::{ModelCard, RunEnd, Session};
use std::io::{self, IsTerminal, Write};

/// Lines of a result that are shown.
const RESULT_LINES: usize = 6;

/// Prints steps.
pub struct DemoFace {
    colour: bool,
}

impl DemoFace {
    /// On standard output.
    pub fn new() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: io::stdout().is_terminal() && !plain }
    }

    fn line(&self, style: &str, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.colour { writeln!(out, "\u{1b}[{style}m{text}\u{1b}[0m") } else { writeln!(out, "{text}") }
    }
}

impl Face for DemoFace {
    fn begin(&mut self, _session: &Session, _model: &ModelCard) -> io::Result<()> {
        Ok(())
    }

    fn show(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::MessageEnd { message } => {
                if let Message::Assistant(reply) = message.as_ref()
                    && !reply.text().is_empty()
                {
                    self.line("0", &format!("\n{}", harmless(&reply.text())))?;
                }
            }
            Event::ToolExecutionStart { tool_name, args, .. } => self.line("36", &call_line(tool_name, args))?,
            Event::ToolExecutionEnd { tool_name, result, is_error, .. } => {
                let text: String = result.content.iter().filter_map(Content::as_text).collect();
                let style = if *is_error { "31" } else { "2" };
                let mut lines = text.lines();
                for line in lines.by_ref().take(RESULT_LINES) {
                    self.line(style, &format!("    {}", harmless_line(line, 110)))?;
                }
                match lines.count() {
                    0 => {}
                    more => {
                        let lines = if more == 1 { "line" } else { "lines" };
                        self.line("2", &format!("    ({more} more {lines} from {})", harmless_line(tool_name, 64)))?;
                    }
                }
            }
            Event::GateVerdict { plugin, verdict: VerdictKind::Deny, .. } => {
                self.line("33", &format!("    refused by the gate plugin {}", harmless_line(plugin, 64)))?;
            }
            Event::PluginFault { plugin, export, cause } => {
                self.line("31", &format!("    plugin {plugin} failed in {export}: {}", harmless_line(cause, 200)))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, end: &RunEnd) -> io::Result<()> {
        if end.stop_reason == StopReason::Error {
            let message = end.error_message.as_deref().unwrap_or("the scripted reply failed");
            self.line("31", &format!("\nerror: {}", harmless(message)))?;
        }
        Ok(())
    }
}
