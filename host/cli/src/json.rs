//! The JSON face: the session's header, then every event, a line each. Nothing is lost and nothing is changed.

use crate::{play::Face, print::tell_unwritten};
use pith_protocol::Event;
use pith_runtime::{ModelCard, RunEnd, Session};
use serde::Serialize;
use std::io::{self, Write};

/// Prints lines.
pub struct JsonFace {
    line: Vec<u8>,
}

impl JsonFace {
    /// On standard output.
    pub fn new() -> Self {
        Self { line: Vec::with_capacity(1024) }
    }

    /// One write a line, so that a reader never sees half of one for long.
    fn print(&mut self, what: &impl Serialize) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, what)?;
        self.line.push(b'\n');
        let mut out = io::stdout().lock();
        out.write_all(&self.line).and_then(|()| out.flush()).inspect_err(tell_unwritten)
    }
}

impl Face for JsonFace {
    fn begin(&mut self, session: &Session, _model: &ModelCard) -> io::Result<()> {
        self.print(&session.header())
    }

    fn show(&mut self, event: &Event) -> io::Result<()> {
        self.print(event)
    }

    fn end(&mut self, _end: &RunEnd) -> io::Result<()> {
        Ok(())
    }
}
