//! Events as lines. Nothing here reads or writes a terminal: text comes out, the host's own and, made harmless, that of others.

mod outcome;

use self::outcome::{count, size};
use super::{live::Live, style::Style};
use crate::{
    failure::indented,
    harmless::{Cleaner, harmless, harmless_line},
    print::call_line,
    summing,
};
use pith_protocol::{CompactionReason, Content, Delta, Event, Message, StopReason, ToolResultView, VerdictKind};
use pith_runtime::RunEnd;
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

/// Characters of a message that a line quotes.
const QUOTED_CHARS: usize = 500;

/// What is under way, said when it takes long: after so many seconds, then every minute.
const SAID_AFTER: [u64; 2] = [5, 30];

/// What the text that streams is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    None,
    Words,
    Thoughts,
}

/// A call that runs.
struct Open {
    id: String,
    /// Its line, as it was shown.
    line: String,
    tool: String,
    clock: Clock,
    /// A gate's words about it were shown.
    denied: bool,
}

/// How long something takes, and how often that was said.
struct Clock {
    since: Instant,
    said: u64,
}

impl Clock {
    fn new() -> Self {
        Self { since: Instant::now(), said: 0 }
    }

    /// When it is to be said next, in seconds from its beginning.
    fn next(&self) -> u64 {
        let spoken = SAID_AFTER.iter().zip(0..).find(|(_, place)| *place == self.said);
        spoken.map_or_else(
            || self.said.saturating_sub(SAID_AFTER.len() as u64 - 1).saturating_mul(60),
            |(after, _)| *after,
        )
    }

    fn is_due(&self) -> bool {
        self.since.elapsed() >= Duration::from_secs(self.next())
    }
}

/// One conversation's words.
pub struct Transcript {
    style: Style,
    block: Block,
    cleaner: Cleaner,
    /// The cursor stands where a line begins.
    at_start: bool,
    /// Nothing of the block was shown yet: what it begins with in blank lines is not.
    blank: bool,
    open: Vec<Open>,
    /// The lines of calls since none was under way: where there are more than one, their ends say whose they are.
    beside: Vec<String>,
    /// Tools that say of themselves that they only read: of what they gave, its size is enough.
    readers: HashSet<String>,
    /// The model is being asked.
    asking: Option<Clock>,
    /// The run's first message was shown by the one who typed it.
    echoed: bool,
    /// The user's own call: its output is shown as it comes.
    own: Option<Live>,
    out: String,
}

impl Transcript {
    /// At the beginning of a line.
    pub fn new(style: Style) -> Self {
        Self {
            style,
            block: Block::None,
            cleaner: Cleaner::default(),
            at_start: true,
            blank: true,
            open: Vec::new(),
            beside: Vec::new(),
            readers: HashSet::new(),
            asking: None,
            echoed: false,
            own: None,
            out: String::new(),
        }
    }

    /// What is to be written.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// The session's tools that only read.
    pub fn know_readers(&mut self, readers: HashSet<String>) {
        self.readers = readers;
    }

    /// A run begins; its first message was typed a line above.
    pub fn begin(&mut self) {
        self.echoed = false;
        self.asking = Some(Clock::new());
    }

    /// The user's own call begins.
    pub fn begin_own(&mut self) {
        self.own = Some(Live::new());
        self.cleaner = Cleaner::default();
    }

    /// Host's text, as it is, on a line of its own.
    pub fn say(&mut self, text: &str) {
        self.end_block();
        self.out.push_str(text);
        self.at_start = text.ends_with('\n');
    }

    /// The cursor stands at a line's start again: the user pressed Enter.
    pub fn returned(&mut self) {
        self.at_start = true;
    }

    /// When `tick` should be called next; none while nothing is under way.
    pub fn next_tick(&self) -> Option<Instant> {
        let clocks = self.open.iter().map(|open| &open.clock).chain(&self.asking);
        clocks.map(|clock| clock.since + Duration::from_secs(clock.next())).min()
    }

    /// Says what takes long.
    pub fn tick(&mut self) {
        let mut lines = Vec::new();
        for open in &mut self.open {
            if open.clock.is_due() {
                lines.push(format!("… {} running {} s", open.tool, open.clock.next()));
                open.clock.said += 1;
            }
        }
        if let Some(clock) = &mut self.asking
            && clock.is_due()
        {
            lines.push(format!("… waiting for the model {} s", clock.next()));
            clock.said += 1;
        }
        for line in lines {
            self.line(&self.style.dim(&line));
        }
    }

    /// One event.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::TurnStart => self.asking = Some(Clock::new()),
            Event::MessageStart { message } => self.message(message),
            Event::MessageUpdate { assistant_message_event, .. } => self.delta(&assistant_message_event.delta),
            Event::MessageEnd { message } => {
                if matches!(message.as_ref(), Message::Assistant(_)) {
                    self.asking = None;
                    self.end_block();
                }
            }
            Event::ToolExecutionStart { tool_call_id, tool_name, args } => {
                self.asking = None;
                let line = call_line(tool_name, args);
                let line: String = harmless_line(&line, self.style.width().saturating_sub(1));
                if self.own.is_none() {
                    self.line(&self.style.cyan(&line));
                }
                let (id, tool) = (tool_call_id.clone(), harmless_line(tool_name, 64));
                if self.open.is_empty() {
                    self.beside.clear();
                }
                self.beside.push(line.clone());
                self.open.push(Open { id, line, tool, clock: Clock::new(), denied: false });
            }
            Event::ToolExecutionUpdate { partial_result, .. } => self.own_output(partial_result),
            Event::ToolExecutionEnd { tool_call_id, tool_name, result, is_error, duration_ms } => {
                self.call_end(tool_call_id, tool_name, result, *is_error, *duration_ms);
            }
            Event::GateVerdict { tool_call_id, plugin, verdict: VerdictKind::Deny, reason, .. } => {
                if let Some(open) = self.open.iter_mut().find(|open| open.id == *tool_call_id) {
                    open.denied = true;
                }
                let told = format!("  denied by {plugin}: {}", harmless_line(reason, QUOTED_CHARS));
                self.line(&self.style.red(&told));
            }
            Event::AutoRetryStart { attempt, max_attempts, delay_ms, error_message } => {
                let (error, wait) = (harmless_line(error_message, QUOTED_CHARS), *delay_ms as f64 / 1000.0);
                self.line(&format!("  {error} (trying again in {wait:.1} s, {attempt} of {max_attempts})"));
                self.asking = Some(Clock::new());
            }
            Event::PluginFault { plugin, export, cause } => {
                let told =
                    format!("warning: plugin {plugin} failed in {export}: {}", harmless_line(cause, QUOTED_CHARS));
                self.line(&self.style.red(&told));
            }
            Event::CompactionStart { .. } | Event::CompactionEnd { .. } => self.summing(event),
            Event::Notice { message } => self.line(&format!("note: {}", harmless_line(message, QUOTED_CHARS))),
            Event::AgentEnd { .. } | Event::AgentSettled { .. } => self.settle(),
            _ => {}
        }
    }

    /// A compaction; while it goes on the model is waited for.
    fn summing(&mut self, event: &Event) {
        match summing::line(event) {
            Some(summing::Line::Progress(line)) => self.line(&self.style.dim(&line)),
            Some(summing::Line::Warning(line)) => self.line(&self.style.red(&format!("warning: {line}"))),
            None => {}
        }
        let is_over = matches!(event, Event::CompactionEnd { reason: CompactionReason::Manual, .. });
        self.asking = (!is_over).then(Clock::new);
    }

    /// How a run ended, and what it took.
    pub fn end(&mut self, end: &RunEnd) {
        self.settle();
        match end.stop_reason {
            StopReason::Error => {
                let message = end.error_message.as_deref().unwrap_or("the model's reply failed");
                self.line(&self.style.red(&format!("error: {}", indented(message))));
                if let Some(hint) = pith_runtime::failure_hint(end) {
                    self.line(&format!("hint: {hint}"));
                }
            }
            StopReason::Length => {
                self.line(&self.style.red("error: the reply was cut off by the model's output limit"));
            }
            StopReason::Aborted => self.line(&self.style.red("aborted")),
            StopReason::Stop if says_nothing(end) => self.line("note: the model's reply is empty"),
            StopReason::Stop | StopReason::ToolUse | StopReason::Pending => {}
        }
        if let Some(usage) = usage(end) {
            self.line(&self.style.dim(&usage));
        }
    }

    /// Nothing is under way.
    pub fn settle(&mut self) {
        self.end_block();
        self.open.clear();
        self.beside.clear();
        self.asking = None;
        self.own = None;
    }

    /// Steering and follow-ups are shown where the model reads them.
    fn message(&mut self, message: &Message) {
        if let Message::User(user) = message {
            if self.echoed {
                let text: String = user.content.iter().filter_map(Content::as_text).collect();
                self.line(&self.style.dim(&format!("read now: {}", harmless_line(&text, self.style.width()))));
            }
            self.echoed = true;
        }
    }

    fn delta(&mut self, delta: &Delta) {
        match delta {
            Delta::TextStart { .. } => self.start_block(Block::Words),
            Delta::ThinkingStart { .. } => self.start_block(Block::Thoughts),
            Delta::TextDelta { delta, .. } => self.text(Block::Words, delta),
            Delta::ThinkingDelta { delta, .. } => self.text(Block::Thoughts, delta),
            Delta::TextEnd { .. } | Delta::ThinkingEnd { .. } => self.end_block(),
            Delta::ToolCallStart { .. } => self.end_block(),
            Delta::ToolCallDelta { .. } | Delta::ToolCallEnd { .. } => {}
        }
    }

    fn start_block(&mut self, block: Block) {
        self.end_block();
        if block == Block::Thoughts && !self.style.colour {
            // Without colours thoughts would look like the answer.
            self.line("· thinking");
        }
        self.block = block;
        self.blank = true;
        self.cleaner = Cleaner::default();
    }

    fn text(&mut self, block: Block, text: &str) {
        if self.block != block {
            self.start_block(block);
        }
        self.asking = None;
        if block == Block::Thoughts && !self.style.colour {
            return;
        }
        let mut clean = String::with_capacity(text.len());
        self.cleaner.push(text, &mut clean);
        let shown = if self.blank { clean.trim_start_matches(['\n', ' ', '\t']) } else { clean.as_str() };
        if shown.is_empty() {
            return;
        }
        self.blank = false;
        self.at_start = shown.ends_with('\n');
        if block == Block::Thoughts {
            self.out.push_str(&self.style.dim(shown));
        } else {
            self.out.push_str(shown);
        }
    }

    fn end_block(&mut self) {
        if self.block != Block::None {
            self.block = Block::None;
            self.cleaner = Cleaner::default();
        }
        if !self.at_start {
            self.out.push('\n');
            self.at_start = true;
        }
    }

    fn line(&mut self, line: &str) {
        self.end_block();
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// Partial output of the user's own call; that of the model's calls is not shown.
    fn own_output(&mut self, result: &ToolResultView) {
        let Some(live) = &mut self.own else { return };
        let text: String = result.content.iter().filter_map(Content::as_text).collect();
        let (fresh, gap) = live.fresh(&text);
        if fresh.is_empty() {
            return;
        }
        let mut clean = String::with_capacity(fresh.len());
        if gap {
            clean.push_str(if self.at_start { "[...]\n" } else { "\n[...]\n" });
        }
        self.cleaner.push(fresh, &mut clean);
        if !clean.is_empty() {
            self.at_start = clean.ends_with('\n');
            self.out.push_str(&clean);
        }
    }

    fn call_end(&mut self, id: &str, tool: &str, result: &ToolResultView, is_error: bool, duration_ms: Option<u64>) {
        let place = self.open.iter().position(|open| open.id == id);
        let call = place.map(|place| self.open.remove(place));
        let denied = call.as_ref().is_some_and(|call| call.denied);
        if self.own.is_some() {
            if !denied {
                self.own_output(result);
            }
            self.cleaner.finish(&mut self.out);
            self.end_block();
            if let Some(ms) = duration_ms {
                self.line(&self.style.dim(&format!("({})", lasted(ms))));
            }
            self.own = None;
            return;
        }
        let name = match &call {
            Some(call) if self.beside.len() > 1 => format!("{}: ", outcome::short_name(&call.line, &self.beside)),
            _ => "  ".to_owned(),
        };
        let (told, lines) = self.outcome(tool, result, is_error, duration_ms, denied);
        let line = harmless_line(&format!("{name}{told}"), self.style.width().saturating_sub(1).max(QUOTED_CHARS));
        self.line(&if is_error { self.style.red(&line) } else { self.style.dim(&line) });
        for line in lines {
            self.line(&line);
        }
    }

    /// How a call ended, in a few words, and the lines beneath them.
    fn outcome(
        &self,
        tool: &str,
        result: &ToolResultView,
        is_error: bool,
        duration_ms: Option<u64>,
        denied: bool,
    ) -> (String, Vec<String>) {
        let text: String = result.content.iter().filter_map(Content::as_text).collect();
        let words = match (is_error, duration_ms) {
            (true, None) if denied => return ("not run".to_owned(), Vec::new()),
            (true, None) => "not run".to_owned(),
            (true, Some(ms)) => format!("failed after {}", lasted(ms)),
            (false, Some(ms)) => format!("done in {}", lasted(ms)),
            (false, None) => "done".to_owned(),
        };
        if is_error {
            return match outcome::only_line(&text) {
                Some(line) => (format!("{words}: {line}"), Vec::new()),
                None => (words, outcome::last_lines(self.style, &text)),
            };
        }
        if let Some(patch) = outcome::change(result) {
            let (sum, lines) = outcome::change_lines(self.style, patch);
            return (format!("{words}, {sum}"), lines);
        }
        if self.readers.contains(tool) || outcome::pictures(result) > 0 || text.trim().is_empty() {
            return (format!("{words}, {}", size(result, &text)), Vec::new());
        }
        (words, outcome::last_lines(self.style, &text))
    }
}

/// A time for people.
fn lasted(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
    }
}

fn says_nothing(end: &RunEnd) -> bool {
    let last = end.messages.iter().rev().find_map(|message| match message.as_ref() {
        Message::Assistant(reply) => Some(reply),
        _ => None,
    });
    last.is_some_and(|reply| reply.content.is_empty())
}

/// Tokens of a run: what its last request read, and all that was written. None where the provider says nothing.
fn usage(end: &RunEnd) -> Option<String> {
    let replies = end.messages.iter().filter_map(|message| match message.as_ref() {
        Message::Assistant(reply) => Some(&reply.usage),
        _ => None,
    });
    let (mut read, mut cached, mut written, mut cost) = (0, 0, 0_u64, 0.0);
    for usage in replies {
        if usage.total_tokens > 0 {
            read = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
            cached = usage.cache_read;
        }
        written = written.saturating_add(usage.output);
        cost += usage.cost.total;
    }
    if read == 0 && written == 0 {
        return None;
    }
    let cached = if cached > 0 { format!(" ({} of them cached)", short(cached)) } else { String::new() };
    let cost = if cost > 0.0 { format!(", {cost:.4} USD") } else { String::new() };
    Some(format!("tokens: {} read{cached}, {} written{cost}", short(read), short(written)))
}

fn short(tokens: u64) -> String {
    if tokens < 10_000 { tokens.to_string() } else { format!("{:.1}k", tokens as f64 / 1000.0) }
}

/// What was said before, for a session that goes on: the last exchanges, each cut.
pub fn earlier(style: Style, messages: &[(bool, String)]) -> String {
    const LINES: usize = 8;
    let mut out = String::new();
    for (is_user, text) in messages {
        let text = harmless(text.trim());
        let lines: Vec<&str> = text.lines().collect();
        let lead = if *is_user { "> " } else { "" };
        for (at, line) in lines.iter().take(LINES).enumerate() {
            let lead = if at == 0 { lead } else { "" };
            out.push_str(&style.dim(&format!("{lead}{line}")));
            out.push('\n');
        }
        if let Some(more) = lines.len().checked_sub(LINES).filter(|more| *more > 0) {
            out.push_str(&style.dim(&format!("[{} more]", count(more, "line"))));
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
