//! The path of a session from its root to its leaf, in pieces that belong together: a reply and what its calls gave, other entries alone, and
//! the branches that leave behind them.

use super::{
    ExchangeError,
    reading::{Branch, Reading},
};
use pith_protocol::{Entry, EntryBody, EntryId, Message, ToolResultMessage};
use std::io;

/// What goes along.
pub(super) trait Page {
    /// A reply; `results` are those of its calls, as they came.
    fn reply(&mut self, entry: &Entry, results: &[Entry]) -> io::Result<()>;
    /// Another entry.
    fn entry(&mut self, entry: &Entry) -> io::Result<()>;
    /// Branches that leave here.
    fn branches(&mut self, branches: &[Branch]) -> io::Result<()>;
}

/// Goes along the path.
pub(super) fn walk(reading: &Reading, page: &mut dyn Page) -> Result<(), ExchangeError> {
    let mut walker = Walker { reading, page, reply: None, results: Vec::new(), left: Vec::new() };
    let mut written = walker.leave(None);
    reading.tree.walk_path(&reading.source, &mut |entry| {
        if written.is_ok() {
            written = walker.step(entry);
        }
    })?;
    written.and_then(|()| walker.flush()).map_err(ExchangeError::Output)
}

struct Walker<'a> {
    reading: &'a Reading,
    page: &'a mut dyn Page,
    /// A reply whose results may follow.
    reply: Option<Entry>,
    results: Vec<Entry>,
    /// Entries of the piece, where branches may leave.
    left: Vec<EntryId>,
}

/// The result, where the entry is one.
pub(super) fn result_of(entry: &Entry) -> Option<&ToolResultMessage> {
    match entry.message() {
        Some(Message::ToolResult(result)) => Some(result),
        _ => None,
    }
}

impl Walker<'_> {
    fn step(&mut self, entry: &Entry) -> io::Result<()> {
        if let Some(result) = result_of(entry)
            && let Some(Message::Assistant(reply)) = self.reply.as_ref().and_then(Entry::message)
            && reply.tool_calls().any(|call| call.id == result.tool_call_id)
        {
            self.results.push(entry.clone());
            self.left.push(entry.id.clone());
            return Ok(());
        }
        // They stand between a call and its result, too, and nobody reads them.
        if is_silent(entry) {
            self.left.push(entry.id.clone());
            return Ok(());
        }
        self.flush()?;
        self.left.push(entry.id.clone());
        match entry.message() {
            Some(Message::Assistant(_)) => self.reply = Some(entry.clone()),
            _ => self.page.entry(entry)?,
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(reply) = self.reply.take() {
            self.page.reply(&reply, &std::mem::take(&mut self.results))?;
        }
        for id in std::mem::take(&mut self.left) {
            self.leave(Some(id))?;
        }
        Ok(())
    }

    fn leave(&mut self, id: Option<EntryId>) -> io::Result<()> {
        match self.reading.branches.get(&id) {
            Some(branches) => self.page.branches(branches),
            None => Ok(()),
        }
    }
}

fn is_silent(entry: &Entry) -> bool {
    matches!(entry.body, EntryBody::Custom(_) | EntryBody::Label(_) | EntryBody::SessionInfo(_) | EntryBody::Usage(_))
}
