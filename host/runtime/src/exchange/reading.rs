//! A session file that is only read, whoever wrote it and writes it, with what lies beside its path.

use super::ExchangeError;
use crate::store::{SESSION_FILE_LIMIT_BYTES, SourceFile};
use pith_core::{EntryKind, LoadedTree, Outlined, Store};
use pith_protocol::{Entry, EntryId};
use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

/// The longest title that is no name but the first words of the user, in characters.
const TITLE_CHARS: usize = 100;
/// The most of a branch's first words, in characters.
const WORDS_CHARS: usize = 200;
/// Branches that are listed at one point.
const BRANCHES_SHOWN: usize = 50;

/// A file that was read.
pub(super) struct Reading {
    pub source: SourceFile,
    pub tree: LoadedTree,
    /// The labels of entries, by id.
    pub labels: HashMap<EntryId, String>,
    /// The branches that leave the path, by the entry that they leave; none: those that begin afresh.
    pub branches: HashMap<Option<EntryId>, Vec<Branch>>,
}

/// A branch that is not the path.
pub(super) struct Branch {
    /// Its first entry.
    pub first: EntryId,
    /// Messages on it and its own branches.
    pub messages: u64,
    /// The first words of the user on it; foreign text.
    pub words: Option<String>,
}

impl Reading {
    pub fn open(file: &Path) -> Result<Self, ExchangeError> {
        let (source, tree) = SourceFile::open_within(file, SESSION_FILE_LIMIT_BYTES)?;
        let labels = tree.labels().into_iter().collect();
        let branches = branches(&source, &tree);
        Ok(Self { source, tree, labels, branches })
    }

    /// What it is called: its name, its first words.
    pub fn title(&self) -> String {
        let totals = self.tree.totals();
        let first = totals.first_user_text.unwrap_or_default();
        let title = totals.name.unwrap_or_else(|| shortened(&first, TITLE_CHARS));
        if title.is_empty() { format!("Session {}", self.tree.header().id) } else { title }
    }
}

fn is_message(kind: EntryKind) -> bool {
    matches!(
        kind,
        EntryKind::User
            | EntryKind::Assistant
            | EntryKind::ToolResult
            | EntryKind::BashExecution
            | EntryKind::CustomMessage
            | EntryKind::OtherMessage
    )
}

fn branches(source: &dyn Store, tree: &LoadedTree) -> HashMap<Option<EntryId>, Vec<Branch>> {
    let outline = tree.outline();
    let leaf = tree.leaf_id();
    let mut on_path = HashSet::new();
    let mut next = outline.iter().position(|entry| Some(&entry.id) == leaf.as_ref());
    while let Some(index) = next {
        on_path.insert(index);
        next = outline[index].parent;
    }
    if on_path.len() == outline.len() {
        return HashMap::new();
    }
    // A parent stands before its children, so from the end all of a subtree is counted before its root is.
    let mut messages = vec![0u64; outline.len()];
    let mut words: Vec<Option<usize>> = vec![None; outline.len()];
    for (index, entry) in outline.iter().enumerate().rev() {
        messages[index] += u64::from(is_message(entry.kind));
        if entry.kind == EntryKind::User {
            words[index] = Some(index);
        }
        if let Some(parent) = entry.parent {
            messages[parent] = messages[parent].saturating_add(messages[index]);
            words[parent] = words[index].or(words[parent]);
        }
    }
    let mut found: HashMap<Option<EntryId>, Vec<Branch>> = HashMap::new();
    for (index, entry) in outline.iter().enumerate() {
        let leaves = entry.parent.is_none_or(|parent| on_path.contains(&parent));
        if on_path.contains(&index) || !leaves || messages[index] == 0 {
            continue;
        }
        let at = found.entry(entry.parent.map(|parent| outline[parent].id.clone())).or_default();
        if at.len() < BRANCHES_SHOWN {
            let words = words[index].and_then(|index| words_of(source, &outline[index]));
            at.push(Branch { first: entry.id.clone(), messages: messages[index], words });
        }
    }
    found
}

/// The words of a user's message; none where it cannot be read.
fn words_of(source: &dyn Store, entry: &Outlined) -> Option<String> {
    let line = source.read(entry.offset, entry.length as usize).ok()?;
    let entry = Entry::read(&line).ok()?;
    let pith_protocol::Message::User(said) = entry.message()? else { return None };
    let text: String = said.content.iter().filter_map(pith_protocol::Content::as_text).collect();
    let words = shortened(&text, WORDS_CHARS);
    (!words.is_empty()).then_some(words)
}

/// A text on one line, of at most so many characters.
fn shortened(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
