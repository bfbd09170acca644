//! The model's view with what compaction has to know of it: of which entry each message is, what it is, what it takes.

use crate::{projection::Projection, shrink::bounded, tokens};
use pith_protocol::{Compaction, Content, Entry, EntryBody, EntryId, Message};
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};

/// Where a compaction's `details` keep what the user asked for, when the cut is inside that turn: it is never lost, however long the turn.
pub(crate) const REQUEST: &str = "request";
/// The most of it that is kept, in bytes.
const REQUEST_BYTES: usize = 4_000;

/// What a message of the view is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// The user's own words.
    Words,
    /// The model's.
    Reply,
    /// What a call gave.
    Result,
    /// A plugin's message.
    Plugin,
    /// Anything else that the model reads as the user's: a command that the user ran, a summary. An edit cannot mean it.
    Other,
}

/// One message of the view.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub message: Arc<Message>,
    /// None where no entry says it: a result that was mended.
    pub source: Option<EntryId>,
    pub nature: Nature,
    /// Estimated.
    pub tokens: u64,
}

impl Item {
    /// The entry that an edit of this message names.
    pub fn editable(&self) -> Option<&EntryId> {
        if self.nature == Nature::Other { None } else { self.source.as_ref() }
    }

    /// A kept part may begin here: no result, and an entry.
    pub fn begins(&self) -> bool {
        self.nature != Nature::Result && self.source.is_some()
    }

    /// A turn begins here.
    pub fn begins_turn(&self) -> bool {
        self.begins() && self.nature != Nature::Reply
    }
}

/// The view.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The messages after the summary, oldest first.
    pub items: Vec<Item>,
    /// The newest compaction on the path, whose summary stands before them.
    pub previous: Option<Previous>,
}

/// The newest compaction.
#[derive(Clone, Debug)]
pub(crate) struct Previous {
    pub compaction: Compaction,
    /// What its summary takes in the view, estimated.
    pub tokens: u64,
    /// Something that the model reads was said after it.
    pub is_followed: bool,
}

impl View {
    /// Of a path and its projection.
    pub fn of(path: &[Arc<Entry>], projection: &Projection) -> Self {
        let newest = path.iter().rposition(|entry| matches!(entry.body, EntryBody::Compaction(_)));
        let place: HashMap<&EntryId, usize> =
            path.iter().enumerate().map(|(place, entry)| (&entry.id, place)).collect();
        let mut view = Self::default();
        for (message, source) in projection.messages.iter().zip(&projection.sources) {
            let at = source.as_ref().and_then(|source| place.get(source)).copied();
            let tokens = tokens::of_message(message);
            if let (true, Some(at)) = (at.is_some() && at == newest, at)
                && let EntryBody::Compaction(compaction) = &path[at].body
            {
                view.previous = Some(Previous { compaction: compaction.clone(), tokens, is_followed: false });
                continue;
            }
            if let (Some(previous), true) = (&mut view.previous, at > newest) {
                previous.is_followed = true;
            }
            let nature = at.map_or(Nature::Other, |at| nature(&path[at]));
            let nature = if matches!(message.as_ref(), Message::ToolResult(_)) { Nature::Result } else { nature };
            view.items.push(Item { message: message.clone(), source: source.clone(), nature, tokens });
        }
        view
    }

    /// Messages of a part.
    pub fn messages(&self, part: std::ops::Range<usize>) -> Vec<Arc<Message>> {
        self.items[part].iter().map(|item| item.message.clone()).collect()
    }

    /// What the user asked for in the turn that goes on where a cut is, if the cut takes those words away; as an earlier compaction kept them,
    /// where that took them.
    pub fn request(&self, at: usize) -> Option<String> {
        if self.items.get(at).is_some_and(|item| item.nature == Nature::Words) {
            return None;
        }
        let words = self.items[..at].iter().rfind(|item| item.nature == Nature::Words);
        words.map(|item| bounded(&said(&item.message), REQUEST_BYTES)).or_else(|| {
            let details = self.previous.as_ref()?.compaction.details.as_ref()?;
            details.get(REQUEST).and_then(Value::as_str).map(|words| bounded(words, REQUEST_BYTES))
        })
    }

    /// What all of it takes.
    pub fn tokens(&self) -> u64 {
        self.items.iter().map(|item| item.tokens).fold(self.previous_tokens(), u64::saturating_add)
    }

    /// What the summary takes.
    pub fn previous_tokens(&self) -> u64 {
        self.previous.as_ref().map_or(0, |previous| previous.tokens)
    }
}

/// The words of a user's message.
pub(crate) fn said(message: &Message) -> String {
    match message {
        Message::User(user) => user.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

fn nature(entry: &Entry) -> Nature {
    match &entry.body {
        EntryBody::CustomMessage(_) => Nature::Plugin,
        EntryBody::Message(message) => match message.message.as_ref() {
            Message::User(_) => Nature::Words,
            Message::Assistant(_) => Nature::Reply,
            Message::ToolResult(_) => Nature::Result,
            _ => Nature::Other,
        },
        _ => Nature::Other,
    }
}
