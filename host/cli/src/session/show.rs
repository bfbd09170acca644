//! `pith session show`: the conversation as text.

use super::{args::ShowArgs, cost, grouped, shown};
use crate::{
    failure::{Failure, hand_over},
    harmless::{harmless, harmless_line},
};
use pith_protocol::{Content, Entry, EntryBody, Message};
use pith_runtime::{Outlined, ReadSession};
use std::{collections::HashMap, path::Path};

/// Characters of a call's input, and of a result, that are shown of it where all is not wanted.
const LINE_CHARS: usize = 160;
/// Damaged lines that are named one by one.
const DIAGNOSTICS_SHOWN: usize = 20;

/// Does it.
pub fn follow(file: &Path, args: &ShowArgs) -> Result<u8, Failure> {
    let session = ReadSession::open(file).map_err(|error| Failure::refused(&error))?;
    let outline = session.outline();
    let path = path(&outline, session.leaf_id().as_ref());
    let mut out = String::new();
    if args.json {
        for index in path {
            if let Ok(entry) = session.entry(index) {
                out.push_str(&serde_json::to_string(&entry).map_err(|error| Failure::refused(&error))?);
                out.push('\n');
            }
        }
        return hand_over(out.as_bytes());
    }
    head(&session, file, &outline, path.len(), &mut out);
    let labels: HashMap<_, _> = session.labels().into_iter().collect();
    let mut children = vec![0usize; outline.len()];
    for entry in &outline {
        if let Some(parent) = entry.parent {
            children[parent] += 1;
        }
    }
    for index in path {
        let Ok(entry) = session.entry(index) else { continue };
        let text = said(&entry, args.full);
        let label = labels.get(&entry.id);
        if text.is_none() && label.is_none() {
            continue;
        }
        let mut head = format!("-- {}", harmless_line(entry.id.as_str(), 40));
        if let Some(label) = label {
            head.push_str(&format!("  [{}]", harmless_line(label, 80)));
        }
        if children[index] > 1 {
            head.push_str(&format!("  ({} branches go on from here)", children[index]));
        }
        out.push_str(&head);
        out.push('\n');
        out.push_str(text.unwrap_or_default().trim_end());
        out.push_str("\n\n");
    }
    for diagnostic in session.diagnostics().iter().take(DIAGNOSTICS_SHOWN) {
        out.push_str(&format!("note: {}\n", harmless_line(&diagnostic.to_string(), 400)));
    }
    if let Some(more) = session.diagnostics().len().checked_sub(DIAGNOSTICS_SHOWN).filter(|more| *more > 0) {
        out.push_str(&format!("note: and {more} more like these\n"));
    }
    hand_over(out.as_bytes())
}

fn head(session: &ReadSession, file: &Path, outline: &[Outlined], on_path: usize, out: &mut String) {
    let (header, totals) = (session.header(), session.totals());
    if let Some(name) = &totals.name {
        out.push_str(&format!("{}\n", harmless_line(name, 200)));
    }
    out.push_str(&format!("session {}\n", harmless_line(header.id.as_str(), 64)));
    out.push_str(&format!("file    {}\n", shown(file)));
    out.push_str(&format!("folder  {}\n", harmless_line(&header.cwd, 4096)));
    out.push_str(&format!("began   {}\n", harmless_line(&header.timestamp, 40)));
    if let Some(parent) = &header.parent_session {
        out.push_str(&format!("from    {}\n", harmless_line(parent, 4096)));
    }
    let tokens: u64 = totals.usage.iter().map(|used| used.usage.total_tokens).sum();
    out.push_str(&format!(
        "{} entries, {} of them on the path that goes on; {} tokens; cost {}\n\n",
        grouped(outline.len() as u64),
        grouped(on_path as u64),
        grouped(tokens),
        cost(totals.usage.iter()),
    ));
}

/// The indices of the path to the leaf, from the root.
pub fn path(outline: &[Outlined], leaf: Option<&pith_protocol::EntryId>) -> Vec<usize> {
    let mut path = Vec::new();
    let mut next = leaf.and_then(|leaf| outline.iter().position(|entry| entry.id == *leaf));
    while let Some(index) = next {
        path.push(index);
        next = outline[index].parent;
    }
    path.reverse();
    path
}

/// What an entry says, under the name of who says it; none for what is not said.
fn said(entry: &Entry, full: bool) -> Option<String> {
    let words = |blocks: &[Content]| {
        let texts = blocks.iter().filter_map(|block| match block {
            Content::Text(text) => Some(harmless(&text.text).into_owned()),
            Content::Image(image) => Some(format!("(picture, {})", harmless_line(&image.mime_type, 40))),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    let short = |text: String| if full { text } else { harmless_line(&text, LINE_CHARS) };
    Some(match &entry.body {
        EntryBody::Message(message) => match message.message.as_ref() {
            Message::User(user) => format!("you: {}", words(&user.content)),
            Message::Assistant(reply) => {
                let mut parts = Vec::new();
                for block in &reply.content {
                    match block {
                        Content::Text(text) => parts.push(harmless(&text.text).into_owned()),
                        Content::Thinking(thinking) if full => {
                            parts.push(format!("(thinks) {}", harmless(&thinking.thinking)));
                        }
                        Content::ToolCall(call) => {
                            let input = serde_json::to_string(&call.arguments).unwrap_or_default();
                            parts.push(format!("-> {} {}", harmless_line(&call.name, 64), short(input)));
                        }
                        _ => {}
                    }
                }
                if let Some(error) = &reply.error_message {
                    parts.push(format!("error: {}", harmless_line(error, 400)));
                }
                format!("model: {}", parts.join("\n"))
            }
            Message::ToolResult(result) => {
                let mark = if result.is_error { "<- failed" } else { "<-" };
                format!("{mark} {}: {}", harmless_line(&result.tool_name, 64), short(words(&result.content)))
            }
            Message::BashExecution(run) => {
                format!("you ran: {}\n{}", harmless_line(&run.command, 400), short(harmless(&run.output).into_owned()))
            }
            Message::Custom(custom) => {
                format!("plugin {}: {}", harmless_line(&custom.custom_type, 80), words(&custom.content))
            }
            _ => return None,
        },
        EntryBody::CustomMessage(custom) => {
            format!("plugin {}: {}", harmless_line(&custom.custom_type, 80), words(&custom.content))
        }
        EntryBody::Compaction(compaction) => {
            format!("(summed up) {}", short(harmless(&compaction.summary).into_owned()))
        }
        EntryBody::BranchSummary(branch) => {
            format!("(a branch that was left) {}", short(harmless(&branch.summary).into_owned()))
        }
        EntryBody::ModelChange(change) => {
            format!("(model {}/{})", harmless_line(&change.provider, 80), harmless_line(&change.model_id, 120))
        }
        _ => return None,
    })
}
