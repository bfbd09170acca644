//! A session as one page: no script, nothing that is loaded, readable in any browser and on paper.
//!
//! All text of the session goes through `escaped` or `markdown::html`; pictures are in the page, if their bytes are those of a picture.

mod prose;

use super::{
    ExchangeError,
    export::{about, bounded, cost},
    reading::{Branch, Reading},
    walk::{Page, result_of, walk},
};
use crate::harmless::visible;
use base64::{Engine, engine::general_purpose::STANDARD};
use pith_protocol::{Content, Entry, EntryBody, Image, Message, ThinkingLevel, ToolCall, millis_from_iso};
use sha2::{Digest, Sha256};
use std::io::{self, Write};

/// The page's style. The policy lets in this very text and no other.
const STYLE: &str = include_str!("html/page.css");

/// Writes the page.
pub(super) fn write(reading: &Reading, out: &mut dyn Write) -> Result<(), ExchangeError> {
    let mut writer = Html { out, reading };
    writer.head().map_err(ExchangeError::Output)?;
    walk(reading, &mut writer)?;
    writer.foot().map_err(ExchangeError::Output)
}

struct Html<'a> {
    out: &'a mut dyn Write,
    reading: &'a Reading,
}

/// Text within an element or an attribute, without what hides or turns other text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The same up to the limit, and a note where something is missing.
fn escaped_bounded(text: &str) -> String {
    let (shown, missing) = bounded(text);
    let mut out = escaped(shown);
    if missing > 0 {
        out.push_str(&format!("\n[{missing} bytes more are in the session]"));
    }
    out
}

fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn time(timestamp: &str) -> String {
    match millis_from_iso(timestamp) {
        Some(_) => {
            let shown = timestamp.get(..16).unwrap_or(timestamp).replace('T', " ");
            format!("<time datetime=\"{}\">{} UTC</time>", escaped(timestamp), escaped(&shown))
        }
        None => String::new(),
    }
}

impl Html<'_> {
    fn head(&mut self) -> io::Result<()> {
        let Reading { tree, .. } = self.reading;
        let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
        let title = escaped(&self.reading.title());
        let header = tree.header();
        let totals = tree.totals();
        write!(
            self.out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"Pith {version}\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n<dl>\n",
            version = env!("CARGO_PKG_VERSION"),
        )?;
        let mut fact = |name: &str, value: &str| {
            if value.is_empty() {
                return Ok(());
            }
            writeln!(self.out, "<div><dt>{name}</dt><dd>{value}</dd></div>")
        };
        fact("Session", &escaped(header.id.as_str()))?;
        fact("Folder", &escaped(&header.cwd))?;
        fact("Began", &time(&header.timestamp))?;
        fact("Last activity", &time(totals.last_activity.as_deref().unwrap_or_default()))?;
        fact("From", &escaped(header.parent_session.as_deref().unwrap_or_default()))?;
        let models: Vec<String> =
            totals.usage.iter().filter(|used| used.replies > 0).map(|used| escaped(&used.model)).collect();
        fact("Models", &models.join(", "))?;
        let counted = [
            format!("{} of yours", totals.users),
            count(totals.assistants, "reply", "replies"),
            count(totals.tool_calls, "tool call", "tool calls"),
            count(totals.compactions, "compaction", "compactions"),
        ];
        let counted = counted.join(", ");
        fact("Messages", &counted)?;
        writeln!(self.out, "</dl>\n</header>\n<main>")
    }

    fn foot(&mut self) -> io::Result<()> {
        writeln!(self.out, "</main>\n<footer>")?;
        let used = self.reading.tree.totals().usage;
        if !used.is_empty() {
            writeln!(
                self.out,
                "<section aria-labelledby=\"usage\">\n<h2 id=\"usage\">Usage</h2>\n<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">Model</th>\
                 <th scope=\"col\">Replies</th><th scope=\"col\">Input</th><th scope=\"col\">Output</th><th scope=\"col\">Cache read</th>\
                 <th scope=\"col\">Cache written</th><th scope=\"col\">Cost</th></tr></thead>\n<tbody>"
            )?;
            for used in &used {
                let name = if used.provider.is_empty() {
                    used.model.clone()
                } else {
                    format!("{}/{}", used.provider, used.model)
                };
                let tokens = &used.usage;
                writeln!(
                    self.out,
                    "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                    escaped(&name),
                    used.replies,
                    tokens.input,
                    tokens.output,
                    tokens.cache_read,
                    tokens.cache_write,
                    escaped(&cost(used)),
                )?;
            }
            writeln!(self.out, "</tbody>\n</table></div>\n<p>Tokens of all branches.</p>\n</section>")?;
        }
        let damaged = self.reading.tree.diagnostics.len() as u64;
        if damaged > 0 {
            let lines = count(damaged, "line", "lines");
            writeln!(self.out, "<p>{lines} of the session file had something wrong.</p>")?;
        }
        writeln!(
            self.out,
            "<p>Exported by Pith. This page has no scripts and loads nothing.</p>\n</footer>\n</body>\n</html>"
        )
    }

    /// An article's beginning.
    fn open(&mut self, entry: &Entry, class: &str, who: &str) -> io::Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let id = entry.id.as_str();
        let anchor = if !id.is_empty() && id.len() <= 64 && id.chars().all(plain) {
            format!(" id=\"e-{id}\"")
        } else {
            String::new()
        };
        write!(self.out, "<article class=\"{class}\"{anchor}>\n<h2>{who} {}", time(&entry.timestamp))?;
        if let Some(label) = self.reading.labels.get(&entry.id) {
            write!(self.out, " <span class=\"label\">{}</span>", escaped(label))?;
        }
        writeln!(self.out, "</h2>")
    }

    fn close(&mut self) -> io::Result<()> {
        writeln!(self.out, "</article>")
    }

    fn preformatted(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() { Ok(()) } else { writeln!(self.out, "<pre>{}</pre>", escaped_bounded(text)) }
    }

    fn prose(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "<div class=\"prose\">\n{}</div>", prose::html(text))
    }

    fn picture(&mut self, image: &Image) -> io::Result<()> {
        match picture(image) {
            Some(data) => writeln!(self.out, "<p><img alt=\"A picture of the session\" src=\"{data}\"></p>"),
            None => writeln!(
                self.out,
                "<p class=\"quiet\">[what is said to be a picture ({}) is none that a page shows]</p>",
                escaped(&image.mime_type)
            ),
        }
    }

    /// Blocks as they were written.
    fn plain(&mut self, content: &[Content]) -> io::Result<()> {
        for block in content {
            match block {
                Content::Text(text) => self.preformatted(&text.text)?,
                Content::Image(image) => self.picture(image)?,
                Content::Thinking(_) | Content::ToolCall(_) | Content::Unknown => {}
            }
        }
        Ok(())
    }

    fn folded(&mut self, class: &str, summary: &str) -> io::Result<()> {
        writeln!(self.out, "<details class=\"{class}\"><summary>{summary}</summary>")
    }

    fn unfold(&mut self) -> io::Result<()> {
        writeln!(self.out, "</details>")
    }

    fn call(&mut self, call: &ToolCall, result: Option<&Entry>) -> io::Result<()> {
        let result = result.and_then(result_of);
        let (class, ended) = match result {
            Some(result) if result.is_error => ("call failed", " <span class=\"ended\">failed</span>"),
            Some(_) => ("call", ""),
            None => ("call", " <span class=\"ended\">no result</span>"),
        };
        let summary = format!(
            "<strong>{}</strong> <code>{}</code>{ended}",
            escaped(&call.name),
            escaped(&about(&call.arguments))
        );
        self.folded(class, &summary)?;
        let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
        self.preformatted(call.arguments_error.as_deref().unwrap_or(&arguments))?;
        if let Some(result) = result {
            writeln!(self.out, "<p class=\"quiet\">Result</p>")?;
            self.plain(&result.content)?;
        }
        self.unfold()
    }

    fn summary(&mut self, entry: &Entry, title: &str, text: &str, is_open: bool) -> io::Result<()> {
        self.open(entry, "summary", title)?;
        if is_open {
            self.prose(text)?;
        } else {
            self.folded("summary", "Summary")?;
            self.prose(text)?;
            self.unfold()?;
        }
        self.close()
    }

    fn quiet(&mut self, entry: &Entry, text: &str) -> io::Result<()> {
        writeln!(self.out, "<p class=\"quiet mark\">{} {}</p>", escaped(text), time(&entry.timestamp))
    }

    fn message(&mut self, entry: &Entry, message: &Message) -> io::Result<()> {
        match message {
            Message::User(said) => {
                self.open(entry, "user", "You")?;
                self.plain(&said.content)?;
                self.close()
            }
            Message::Assistant(_) => self.reply(entry, &[]),
            Message::System(told) => {
                let mut text = told.content.as_str().unwrap_or_default().to_owned();
                for (name, section) in &told.sections {
                    text.push_str(&format!("\n[{name}]\n{}\n", section.as_str().unwrap_or("(removed)")));
                }
                let tools: Vec<&str> = told.tools_added.iter().map(|tool| tool.name.as_str()).collect();
                if !tools.is_empty() {
                    text.push_str(&format!("\n[tools] {}\n", tools.join(", ")));
                }
                self.folded("told", "What the model was told")?;
                self.preformatted(text.trim())?;
                self.unfold()
            }
            Message::ToolResult(result) => {
                let summary = format!(
                    "<strong>{}</strong> <span class=\"ended\">a result without its call</span>",
                    escaped(&result.tool_name)
                );
                self.folded("call", &summary)?;
                self.plain(&result.content)?;
                self.unfold()
            }
            Message::BashExecution(run) => {
                self.open(entry, "user ran", "You ran")?;
                self.preformatted(&format!("$ {}\n{}", run.command, run.output))?;
                self.close()
            }
            Message::Custom(said) => self.said(entry, &said.custom_type, &said.content, said.display),
            Message::BranchSummary(left) => self.summary(entry, "A branch that was left", &left.summary, false),
            Message::CompactionSummary(made) => self.summary(entry, "Compaction", &made.summary, false),
        }
    }

    fn said(&mut self, entry: &Entry, kind: &str, content: &[Content], is_shown: bool) -> io::Result<()> {
        let who = escaped(kind);
        if is_shown {
            self.open(entry, "plugin", &who)?;
            self.plain(content)?;
            return self.close();
        }
        self.folded("told", &format!("{who} to the model"))?;
        self.plain(content)?;
        self.unfold()
    }
}

impl Page for Html<'_> {
    fn reply(&mut self, entry: &Entry, results: &[Entry]) -> io::Result<()> {
        let Some(Message::Assistant(reply)) = entry.message() else { return Ok(()) };
        let who = if reply.model.is_empty() { "Model".to_owned() } else { escaped(&reply.model) };
        self.open(entry, "reply", &who)?;
        for block in &reply.content {
            match block {
                Content::Text(text) if !text.text.trim().is_empty() => self.prose(&text.text)?,
                Content::Thinking(thinking) if !thinking.thinking.trim().is_empty() => {
                    self.folded("thoughts", "Thoughts")?;
                    self.preformatted(&thinking.thinking)?;
                    self.unfold()?;
                }
                Content::Image(image) => self.picture(image)?,
                Content::ToolCall(call) => {
                    let is_its = |entry: &&Entry| result_of(entry).is_some_and(|result| result.tool_call_id == call.id);
                    self.call(call, results.iter().find(is_its))?;
                }
                _ => {}
            }
        }
        if let Some(error) = &reply.error_message {
            writeln!(self.out, "<p class=\"error\">{}</p>", escaped_bounded(error))?;
        }
        self.close()
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        match &entry.body {
            EntryBody::Message(said) => self.message(entry, &said.message),
            EntryBody::ModelChange(change) => {
                self.quiet(entry, &format!("The model is now {}/{}.", change.provider, change.model_id))
            }
            EntryBody::ThinkingLevelChange(change) => {
                let level = change.thinking_level.as_str();
                let words = if level == ThinkingLevel::Off.as_str() {
                    "The model does not think first from here on.".to_owned()
                } else {
                    format!("The model thinks first from here on: {level}.")
                };
                self.quiet(entry, &words)
            }
            EntryBody::Compaction(made) => {
                let title = format!("Compaction of {} tokens", made.tokens_before);
                self.summary(entry, &title, &made.summary, false)
            }
            EntryBody::BranchSummary(left) => self.summary(entry, "A branch that was left", &left.summary, false),
            EntryBody::ContextEdit(edit) => {
                let words = match &edit.replacement {
                    None => format!("Entry {} is left out of what the model sees from here on.", edit.target_id),
                    Some(_) => format!("Entry {} is changed in what the model sees from here on.", edit.target_id),
                };
                self.quiet(entry, &words)
            }
            EntryBody::CustomMessage(said) => self.said(entry, &said.custom_type, &said.content, said.display),
            EntryBody::Unknown {} => {
                self.quiet(entry, &format!("An entry of the type {:?}, which this Pith does not show.", entry.kind))
            }
            EntryBody::Custom(_) | EntryBody::Label(_) | EntryBody::SessionInfo(_) | EntryBody::Usage(_) => Ok(()),
        }
    }

    fn branches(&mut self, branches: &[Branch]) -> io::Result<()> {
        writeln!(
            self.out,
            "<nav class=\"branches\" aria-label=\"Other branches\"><p>Other branches leave here:</p>\n<ul>"
        )?;
        for branch in branches {
            let words = branch.words.as_deref().map(|words| format!("“{}”, ", escaped(words))).unwrap_or_default();
            writeln!(
                self.out,
                "<li>{words}{}, from entry <code>{}</code></li>",
                count(branch.messages, "message", "messages"),
                escaped(branch.first.as_str())
            )?;
        }
        writeln!(self.out, "</ul></nav>")
    }
}

/// The address of a picture within the page, where its bytes are those of one that browsers show without running anything.
fn picture(image: &Image) -> Option<String> {
    let bytes = STANDARD.decode(image.data.as_bytes()).ok()?;
    let kind = match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return None,
    };
    Some(format!("data:{kind};base64,{}", STANDARD.encode(&bytes)))
}
