//! A session as Markdown that reads well on a forge: no HTML of the session's own, no picture that the forge would fetch.

use super::{
    ExchangeError,
    export::{about, bounded, cost},
    reading::{Branch, Reading},
    walk::{Page, result_of, walk},
};
use crate::harmless::{harmless_line, visible};
use pith_protocol::{Content, Entry, EntryBody, Image, Message, ToolCall, millis_from_iso};
use pulldown_cmark::{Event, Options, Parser, Tag};
use std::io::{self, Write};

/// The longest heading, in characters.
const HEADING_CHARS: usize = 200;
/// Longer replies are fenced as they are, in bytes.
const MARKDOWN_LIMIT_BYTES: usize = 256 << 10;

/// Writes it.
pub(super) fn write(reading: &Reading, out: &mut dyn Write) -> Result<(), ExchangeError> {
    let mut writer = Markdown { out, reading };
    writer.head().map_err(ExchangeError::Output)?;
    walk(reading, &mut writer)?;
    writer.foot().map_err(ExchangeError::Output)
}

struct Markdown<'a> {
    out: &'a mut dyn Write,
    reading: &'a Reading,
}

/// One line of plain text, nothing in it Markdown or HTML.
fn plain_line(text: &str) -> String {
    let mut out = String::new();
    for c in harmless_line(text, HEADING_CHARS).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '!' | '~' | '&' | '$' | '@') {
            out.push('\\');
        }
        out.push(c);
    }
    out.trim().to_owned()
}

/// A code span of one line.
fn code(text: &str) -> String {
    let line = harmless_line(text, HEADING_CHARS);
    let ticks = "`".repeat(longest_run(&line).saturating_add(1));
    let room = if line.starts_with('`') || line.ends_with('`') || line.is_empty() { " " } else { "" };
    format!("{ticks}{room}{line}{room}{ticks}")
}

fn longest_run(text: &str) -> usize {
    let (mut longest, mut run) = (0usize, 0usize);
    for c in text.chars() {
        run = if c == '`' { run.saturating_add(1) } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// A fenced block whose fence is longer than any run of backticks within.
fn fenced(text: &str, language: &str) -> String {
    let (shown, missing) = bounded(text);
    let shown = visible(shown);
    let fence = "`".repeat(longest_run(&shown).saturating_add(1).max(3));
    let cut = if missing > 0 { format!("\n[{missing} bytes more are in the session]") } else { String::new() };
    format!("{fence}{language}\n{}{cut}\n{fence}\n", shown.trim_end_matches('\n'))
}

/// Markdown of models: HTML in it is text, pictures are links.
fn tamed(text: &str) -> String {
    if text.len() > MARKDOWN_LIMIT_BYTES {
        return fenced(text, "");
    }
    let shown = visible(text);
    // Where something is taken out or put in.
    let mut changes: Vec<(usize, bool)> = Vec::new();
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    for (event, range) in Parser::new_ext(&shown, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Image { .. }) => changes.push((range.start, false)),
            Event::Html(_) | Event::InlineHtml(_) => {
                let within = &shown.as_bytes()[range.clone()];
                let tags = within.iter().enumerate().filter(|(_, byte)| **byte == b'<');
                changes.extend(tags.map(|(at, _)| (range.start.saturating_add(at), true)));
            }
            _ => {}
        }
    }
    changes.sort_unstable();
    changes.dedup();
    let mut out = String::with_capacity(shown.len().saturating_add(changes.len()));
    let mut at = 0;
    for (place, is_html) in changes {
        let Some(before) = shown.get(at..place) else { continue };
        out.push_str(before);
        at = place;
        match (is_html, shown.as_bytes().get(place)) {
            (true, _) => {
                out.push_str("&lt;");
                at = at.saturating_add(1);
            }
            (false, Some(b'!')) => at = at.saturating_add(1),
            (false, _) => {}
        }
    }
    out.push_str(shown.get(at..).unwrap_or_default());
    close_fence(out)
}

/// A fence that the model never closed would swallow what follows.
fn close_fence(mut text: String) -> String {
    let mut open: Option<(u8, usize)> = None;
    for line in text.lines() {
        let line = line.trim_start();
        let mark = line.bytes().next().filter(|mark| matches!(mark, b'`' | b'~'));
        let Some(mark) = mark else { continue };
        let run = line.bytes().take_while(|byte| *byte == mark).count();
        match open {
            None if run >= 3 => open = Some((mark, run)),
            Some((opened, length)) if opened == mark && run >= length && line[run..].trim().is_empty() => open = None,
            _ => {}
        }
    }
    if let Some((mark, run)) = open {
        text.push('\n');
        text.extend(std::iter::repeat_n(char::from(mark), run));
    }
    text
}

impl Markdown<'_> {
    fn head(&mut self) -> io::Result<()> {
        let tree = &self.reading.tree;
        let (header, totals) = (tree.header(), tree.totals());
        writeln!(self.out, "# {}\n", plain_line(&self.reading.title()))?;
        let mut fact = |name: &str, value: &str| match value {
            "" => Ok(()),
            value => writeln!(self.out, "- {name}: {}", code(value)),
        };
        fact("Session", header.id.as_str())?;
        fact("Folder", &header.cwd)?;
        fact("Began", &header.timestamp)?;
        fact("Last activity", totals.last_activity.as_deref().unwrap_or_default())?;
        fact("From", header.parent_session.as_deref().unwrap_or_default())?;
        writeln!(self.out)
    }

    fn foot(&mut self) -> io::Result<()> {
        let used = self.reading.tree.totals().usage;
        if used.is_empty() {
            return Ok(());
        }
        writeln!(
            self.out,
            "## Usage\n\n| Model | Replies | Input | Output | Cache read | Cache written | Cost |\n|---|--:|--:|--:|--:|--:|--:|"
        )?;
        for used in &used {
            let tokens = &used.usage;
            writeln!(
                self.out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                plain_line(&format!("{}/{}", used.provider, used.model)),
                used.replies,
                tokens.input,
                tokens.output,
                tokens.cache_read,
                tokens.cache_write,
                plain_line(&cost(used)),
            )?;
        }
        writeln!(self.out, "\nTokens of all branches. Exported by Pith.")
    }

    fn heading(&mut self, entry: &Entry, who: &str) -> io::Result<()> {
        let at = if millis_from_iso(&entry.timestamp).is_some() {
            format!(" ({} UTC)", entry.timestamp.get(..16).unwrap_or_default().replace('T', " "))
        } else {
            String::new()
        };
        let label = self.reading.labels.get(&entry.id);
        let label = label.map(|label| format!(" [{}]", plain_line(label))).unwrap_or_default();
        writeln!(self.out, "## {}{label}{at}\n", plain_line(who))
    }

    fn fold(&mut self, summary: &str, body: &str) -> io::Result<()> {
        writeln!(self.out, "<details><summary>{summary}</summary>\n\n{body}\n</details>\n")
    }

    fn picture(&mut self, image: &Image) -> io::Result<()> {
        let bytes = image.data.len() / 4 * 3;
        writeln!(self.out, "(a picture, {}, about {bytes} bytes)\n", code(&image.mime_type))
    }

    fn plain(&mut self, content: &[Content]) -> io::Result<()> {
        for block in content {
            match block {
                Content::Text(text) if !text.text.is_empty() => writeln!(self.out, "{}", fenced(&text.text, "text"))?,
                Content::Image(image) => self.picture(image)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &ToolCall, result: Option<&Entry>) -> io::Result<()> {
        let result = result.and_then(result_of);
        let ended = match result {
            Some(result) if result.is_error => ", failed",
            Some(_) => "",
            None => ", no result",
        };
        let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
        let mut body = fenced(call.arguments_error.as_deref().unwrap_or(&arguments), "json");
        for block in result.map(|result| result.content.as_slice()).unwrap_or_default() {
            match block {
                Content::Text(text) => body.push_str(&format!("\n{}", fenced(&text.text, "text"))),
                Content::Image(image) => body.push_str(&format!("\n(a picture, {})\n", code(&image.mime_type))),
                _ => {}
            }
        }
        let escape = |text: &str| html_line(&harmless_line(text, HEADING_CHARS));
        let summary = format!("<b>{}</b> <code>{}</code>{ended}", escape(&call.name), escape(&about(&call.arguments)));
        self.fold(&summary, &body)
    }

    fn quiet(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "*{}*\n", plain_line(text))
    }

    fn summary(&mut self, entry: &Entry, title: &str, text: &str) -> io::Result<()> {
        self.heading(entry, title)?;
        self.fold("Summary", &tamed(text))
    }

    fn said(&mut self, entry: &Entry, kind: &str, content: &[Content]) -> io::Result<()> {
        self.heading(entry, kind)?;
        self.plain(content)
    }
}

/// One line of text within HTML.
fn html_line(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('@', "&#64;")
}

impl Page for Markdown<'_> {
    fn reply(&mut self, entry: &Entry, results: &[Entry]) -> io::Result<()> {
        let Some(Message::Assistant(reply)) = entry.message() else { return Ok(()) };
        self.heading(entry, if reply.model.is_empty() { "Model" } else { &reply.model })?;
        for block in &reply.content {
            match block {
                Content::Text(text) if !text.text.trim().is_empty() => {
                    writeln!(self.out, "{}\n", tamed(&text.text).trim_end())?;
                }
                Content::Thinking(thinking) if !thinking.thinking.trim().is_empty() => {
                    self.fold("Thoughts", &fenced(&thinking.thinking, "text"))?;
                }
                Content::Image(image) => self.picture(image)?,
                Content::ToolCall(call) => {
                    let is_its = |entry: &&Entry| result_of(entry).is_some_and(|result| result.tool_call_id == call.id);
                    self.call(call, results.iter().find(is_its))?;
                }
                _ => {}
            }
        }
        match &reply.error_message {
            Some(error) => writeln!(self.out, "**Error:** {}\n", plain_line(error)),
            None => Ok(()),
        }
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        match &entry.body {
            EntryBody::Message(said) => match said.message.as_ref() {
                Message::User(said) => {
                    self.heading(entry, "You")?;
                    for block in &said.content {
                        match block {
                            Content::Text(text) => writeln!(self.out, "{}\n", tamed(&text.text).trim_end())?,
                            Content::Image(image) => self.picture(image)?,
                            _ => {}
                        }
                    }
                    Ok(())
                }
                Message::Assistant(_) => self.reply(entry, &[]),
                Message::System(_) => Ok(()),
                Message::ToolResult(result) => {
                    self.heading(entry, &format!("A result of {} without its call", result.tool_name))?;
                    self.plain(&result.content)
                }
                Message::BashExecution(run) => {
                    self.heading(entry, "You ran")?;
                    writeln!(self.out, "{}", fenced(&format!("$ {}\n{}", run.command, run.output), "text"))
                }
                Message::Custom(said) => self.said(entry, &said.custom_type, &said.content),
                Message::BranchSummary(left) => self.summary(entry, "A branch that was left", &left.summary),
                Message::CompactionSummary(made) => self.summary(entry, "Compaction", &made.summary),
            },
            EntryBody::ModelChange(change) => {
                self.quiet(&format!("The model is now {}/{}.", change.provider, change.model_id))
            }
            EntryBody::Compaction(made) => {
                self.summary(entry, &format!("Compaction of {} tokens", made.tokens_before), &made.summary)
            }
            EntryBody::BranchSummary(left) => self.summary(entry, "A branch that was left", &left.summary),
            EntryBody::ContextEdit(edit) => {
                let what = if edit.replacement.is_some() { "changed in" } else { "left out of" };
                self.quiet(&format!("Entry {} is {what} what the model sees from here on.", edit.target_id))
            }
            EntryBody::CustomMessage(said) => self.said(entry, &said.custom_type, &said.content),
            _ => Ok(()),
        }
    }

    fn branches(&mut self, branches: &[Branch]) -> io::Result<()> {
        writeln!(self.out, "Other branches leave here:\n")?;
        for branch in branches {
            let words = branch.words.as_deref().map(|words| format!("{}: ", plain_line(words))).unwrap_or_default();
            let many = if branch.messages == 1 { "message" } else { "messages" };
            writeln!(self.out, "- {words}{} {many}, from entry {}", branch.messages, code(branch.first.as_str()))?;
        }
        writeln!(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_fetched_and_nothing_breaks_out() {
        assert_eq!(tamed("a ![b](http://x/y) `![c](d)`"), "a [b](http://x/y) `![c](d)`");
        assert_eq!(tamed("<img src=x>\n\nb <b>c</b>"), "&lt;img src=x>\n\nb &lt;b>c&lt;/b>");
        assert_eq!(tamed("```rust\nfn a"), "```rust\nfn a\n```");
        assert_eq!(tamed("~~~~\n```\n~~~\n~~~~"), "~~~~\n```\n~~~\n~~~~");
        assert_eq!(fenced("a\n````\nb", "text"), "`````text\na\n````\nb\n`````\n");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(plain_line("a\n# *b* <c> @me"), "a \\# \\*b\\* \\<c\\> \\@me");
    }
}
