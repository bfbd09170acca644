//! `pith session tree`: branches, drawn.

use super::{args::TreeArgs, show::path};
use crate::{
    failure::{Failure, hand_over},
    harmless::harmless_line,
};
use pith_protocol::{Content, Entry, EntryBody, Message};
use pith_runtime::{EntryKind, Outlined, ReadSession};
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

/// Characters of an entry's words.
const WORDS_CHARS: usize = 72;
/// The deepest indentation that is drawn.
const DEPTH_SHOWN: usize = 20;

/// Does it.
pub fn follow(file: &Path, args: &TreeArgs) -> Result<u8, Failure> {
    let session = ReadSession::open(file).map_err(|error| Failure::refused(&error))?;
    let outline = session.outline();
    let labels: HashMap<_, _> = session.labels().into_iter().collect();
    let leaf = session.leaf_id();
    if args.json {
        let all: Vec<_> = outline
            .iter()
            .map(|one| {
                json!({
                    "id": one.id,
                    "parentId": one.parent.map(|parent| &outline[parent].id),
                    "kind": one.kind,
                    "label": labels.get(&one.id),
                    "isLeaf": Some(&one.id) == leaf.as_ref(),
                })
            })
            .collect();
        return hand_over(format!("{}\n", json!(all)).as_bytes());
    }
    let on_path: HashSet<usize> = path(&outline, leaf.as_ref()).into_iter().collect();
    let mut out = String::new();
    let mut hidden = 0u64;
    for (index, depth) in walk(&outline, &on_path) {
        let one = &outline[index];
        let is_shown = args.all
            || matches!(
                one.kind,
                EntryKind::User | EntryKind::Compaction | EntryKind::BranchSummary | EntryKind::CustomMessage
            )
            || labels.contains_key(&one.id)
            || Some(&one.id) == leaf.as_ref();
        if !is_shown {
            hidden += 1;
            continue;
        }
        let mark = if on_path.contains(&index) { '*' } else { ' ' };
        let indent = "  ".repeat(depth.min(DEPTH_SHOWN));
        let label = labels.get(&one.id).map(|label| format!("  [{}]", harmless_line(label, 60))).unwrap_or_default();
        let here = if Some(&one.id) == leaf.as_ref() { "  <- goes on here" } else { "" };
        let words = session.entry(index).ok().map(|entry| words(&entry)).unwrap_or_default();
        out.push_str(&format!("{mark} {indent}{}  {words}{label}{here}\n", harmless_line(one.id.as_str(), 40)));
    }
    if hidden > 0 {
        out.push_str(&format!("\n{hidden} more entries: replies, calls, settings (`--all`)\n"));
    }
    hand_over(out.as_bytes())
}

/// Every entry once, with the depth of its branch: what goes on straight stays at one depth, a branch is set in. No recursion: a session may be
/// a hundred thousand entries long.
pub fn walk(outline: &[Outlined], on_path: &HashSet<usize>) -> Vec<(usize, usize)> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); outline.len()];
    let mut roots = Vec::new();
    for (index, one) in outline.iter().enumerate() {
        match one.parent {
            Some(parent) => children[parent].push(index),
            None => roots.push(index),
        }
    }
    // The branch that goes on comes last, where the eye is.
    let sorted = |list: &[usize]| {
        let mut list = list.to_vec();
        list.sort_by_key(|index| on_path.contains(index));
        list
    };
    let mut out = Vec::with_capacity(outline.len());
    let mut stack: Vec<(usize, usize)> = sorted(&roots).into_iter().rev().map(|root| (root, 0)).collect();
    while let Some((index, depth)) = stack.pop() {
        out.push((index, depth));
        let below = sorted(&children[index]);
        let deeper = usize::from(below.len() > 1);
        let last = below.last().copied();
        stack.extend(
            below.into_iter().rev().map(|child| (child, if Some(child) == last { depth } else { depth + deeper })),
        );
    }
    out
}

/// An entry in a line.
pub fn words(entry: &Entry) -> String {
    let first = |content: &[Content]| {
        harmless_line(&content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join(" "), WORDS_CHARS)
    };
    match &entry.body {
        EntryBody::Message(message) => match message.message.as_ref() {
            Message::User(user) => format!("you: {}", first(&user.content)),
            Message::Assistant(reply) => {
                let calls: Vec<_> = reply.tool_calls().map(|call| harmless_line(&call.name, 30)).collect();
                let calls = if calls.is_empty() { String::new() } else { format!(" -> {}", calls.join(", ")) };
                format!("model: {}{calls}", first(&reply.content))
            }
            Message::ToolResult(result) => format!("result of {}", harmless_line(&result.tool_name, 30)),
            Message::BashExecution(run) => format!("you ran {}", harmless_line(&run.command, WORDS_CHARS)),
            Message::System(_) => "prompt and tools".to_owned(),
            _ => harmless_line(&entry.kind, 40),
        },
        EntryBody::Compaction(_) => "(older messages were summed up)".to_owned(),
        EntryBody::BranchSummary(branch) => {
            format!("(summary of a branch) {}", harmless_line(&branch.summary, WORDS_CHARS))
        }
        EntryBody::CustomMessage(custom) => {
            format!("plugin {}: {}", harmless_line(&custom.custom_type, 40), first(&custom.content))
        }
        EntryBody::SessionInfo(_) => "(named)".to_owned(),
        EntryBody::Label(_) => "(labelled)".to_owned(),
        EntryBody::ContextEdit(edit) if edit.replacement.is_none() => "(left out of what the model reads)".to_owned(),
        EntryBody::ContextEdit(_) => "(changed in what the model reads)".to_owned(),
        EntryBody::Custom(custom) if custom.custom_type == "pith/leaf" => "(gone on from here)".to_owned(),
        _ => format!("({})", harmless_line(&entry.kind, 40)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pith_protocol::EntryId;

    fn outline(parents: &[Option<usize>]) -> Vec<Outlined> {
        let one = |(index, parent): (usize, &Option<usize>)| Outlined {
            id: EntryId::from(index.to_string()),
            parent: *parent,
            kind: EntryKind::User,
            offset: 0,
            length: 0,
        };
        parents.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_branch_is_set_in_and_what_goes_on_is_not() {
        // 0 - 1 - 2, and 3 beside 2; the path is 0, 1, 3.
        let outline = outline(&[None, Some(0), Some(1), Some(1)]);
        let on_path = HashSet::from([0, 1, 3]);
        assert_eq!(walk(&outline, &on_path), [(0, 0), (1, 0), (2, 1), (3, 0)]);
    }

    #[test]
    fn a_long_session_needs_no_stack() {
        let parents: Vec<Option<usize>> = (0..200_000usize).map(|index| index.checked_sub(1)).collect();
        assert_eq!(walk(&outline(&parents), &HashSet::new()).len(), 200_000);
    }
}
