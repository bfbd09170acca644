//! Moving in the tree with what a person expects of it: a user's message comes back to be written anew, the branch that is left is summed up
//! where that is wanted, the last exchange is taken out of the model's view and put back.

use crate::{
    budget::Budget,
    ports::{SummaryJob, SummaryPart, SummaryReason},
    projection,
    run::{Agent, Run},
    session::{Moved, SessionError},
    shrink::bounded,
    summary::{Spent, SummedUp, fitted},
    tokens,
    touched::Touched,
    view::{Nature, View, said},
};
use pith_protocol::{BranchSummaryEntry, Content, ContextEdit, Entry, EntryBody, EntryId, Event, Message};
use serde_json::Value;
use std::{collections::HashMap, fmt::Write as _, sync::Arc};
use tokio_util::sync::CancellationToken;

/// What becomes of the branch that a move leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LeftBranch {
    /// Nothing: it stays in the tree.
    #[default]
    Kept,
    /// Its summary is appended where the session goes on, with these wishes for it.
    SummedUp(Option<String>),
}

/// What a move came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MoveEnd {
    /// The session goes on elsewhere.
    Moved {
        /// From where to where. `to` is the parent of what was named where that was a user's or a plugin's message.
        moved: Moved,
        /// The words of the user's message that was named, to be written anew.
        words: Option<Vec<Content>>,
        /// The branch's summary, where there is one.
        summary: Option<Arc<Entry>>,
        /// Why the summary is the host's own, where a plugin was to write it.
        fallback: Option<String>,
    },
    /// It was stopped. The leaf is where it was; what the summary took until then is counted.
    Aborted,
}

/// The longest summary of a branch that the host writes itself, in bytes.
const OWN_SUMMARY_BYTES: usize = 8 << 10;
/// The most of one text in it.
const OWN_TEXT_BYTES: usize = 2 << 10;
/// What the entry of its tokens is called where a summary came to nothing.
const BRANCH_USAGE: &str = "branch_summary";
/// What a root is called where a summary says which branch it is of, as pi does.
const ROOT: &str = "root";

impl Agent {
    /// Goes on from another entry, or from before the first. Not while a run goes on: whoever owns the agent sees to that. Cancelling, or
    /// dropping this, leaves the leaf where it was.
    ///
    /// # Errors
    /// There is no such entry, or the session cannot be read or written.
    pub async fn move_leaf(
        &self,
        to: Option<&EntryId>,
        left: LeftBranch,
        cancel: CancellationToken,
    ) -> Result<MoveEnd, SessionError> {
        let named = match to {
            Some(id) => Some(self.session.entry(id)?.ok_or_else(|| SessionError::NotFound(id.clone()))?),
            None => None,
        };
        let (target, words) = match &named {
            Some(entry) => match spoken(entry) {
                Some(words) => (entry.parent_id.clone(), words),
                None => (Some(entry.id.clone()), None),
            },
            None => (None, None),
        };
        let way = self.session.way_to(target.as_ref())?;
        let summed = match left {
            LeftBranch::SummedUp(wishes) if !way.left.is_empty() => match self.branch(&way, wishes, &cancel).await? {
                Ok(summed) => summed,
                Err(Aborted) => return Ok(MoveEnd::Aborted),
            },
            _ => None,
        };
        let (mut summary, mut fallback) = (None, None);
        if let Some(Summed { body, why }) = summed {
            // The summary is what says where the session goes on.
            let appended = self.session.append_at(target.as_ref(), vec![EntryBody::BranchSummary(body)])?;
            summary = appended.into_iter().next();
            fallback = why;
        } else {
            self.session.move_leaf(target.as_ref())?;
        }
        let leaf_id = self.session.leaf_id();
        if leaf_id != way.from {
            self.outbox.send(Event::LeafMoved { leaf_id, from_id: way.from.clone() }).await;
        }
        if let Some(entry) = &summary {
            self.outbox.send(Event::EntryAppended { entry: entry.clone() }).await;
        }
        self.session.sync()?;
        Ok(MoveEnd::Moved { moved: way, words, summary, fallback })
    }

    /// The summary of the branch that a way leaves; none where nothing was said on it.
    async fn branch(
        &self,
        way: &Moved,
        instructions: Option<String>,
        cancel: &CancellationToken,
    ) -> Result<Result<Option<Summed>, Aborted>, SessionError> {
        let entries = self.newest_of(&way.left)?;
        let view = View::of(&entries, &projection::project(&entries));
        if view.items.is_empty() && view.previous.is_none() {
            return Ok(Ok(None));
        }
        let mut touched = Touched::default();
        for details in entries.iter().filter_map(|entry| details(entry)) {
            touched.carry(details);
        }
        touched.look(&view.messages(0..view.items.len()), &self.dispatcher.offered());
        let budget = self.branch_budget();
        let room = budget.room.saturating_sub(view.previous_tokens()).saturating_sub(budget.summary);
        // The newest that fit: what was tried last is what the branch came to.
        let mut from = view.items.len();
        let mut tokens: u64 = 0;
        while from > 0 {
            tokens = tokens.saturating_add(view.items[from - 1].tokens);
            if tokens > room && from < view.items.len() {
                break;
            }
            from -= 1;
        }
        let from = (from..view.items.len()).find(|at| view.items[*at].nature != Nature::Result).unwrap_or(from);
        let (files_read, files_modified) = touched.lists();
        let job = SummaryJob {
            reason: SummaryReason::Branch,
            part: SummaryPart::Whole,
            messages: fitted(view.messages(from..view.items.len()), room),
            previous_summary: view.previous.as_ref().map(|previous| previous.compaction.summary.clone()),
            instructions,
            files_read,
            files_modified,
            limit_tokens: u32::try_from(budget.summary).unwrap_or(u32::MAX),
        };
        let facts = Arc::new(self.facts(&Run::new(cancel.clone())));
        let mut spent = Spent::default();
        let (text, details, by_plugin, why) = match self.sum_up(&job, &facts, cancel, &mut spent).await {
            Ok(written) => (written.text, written.details, true, None),
            Err(SummedUp::Aborted) => {
                // What it took still counts: all that a stopped move leaves behind.
                self.record_spent(BRANCH_USAGE, &spent)?;
                self.session.sync()?;
                return Ok(Err(Aborted));
            }
            Err(SummedUp::NoCompactor) => (own_summary(&view, &touched), None, false, None),
            Err(SummedUp::Failed(why)) => (own_summary(&view, &touched), None, false, Some(why)),
        };
        let body = BranchSummaryEntry {
            from_id: way.from.as_ref().map_or_else(|| ROOT.to_owned(), ToString::to_string),
            summary: text,
            details: Some(touched.details(details)),
            usage: spent.total(),
            from_hook: by_plugin.then_some(true),
        };
        Ok(Ok(Some(Summed { body, why })))
    }

    /// How the window is shared out for a summary, by what the provider counted last.
    fn branch_budget(&self) -> Budget {
        let count = self.standing().count;
        self.budgets.of(self.model.card(), count.fixed, count.scale)
    }

    /// The newest of these entries, oldest first: back to a compaction, which says what was before it, or as many bytes as twice the window
    /// holds. A branch may be longer than memory should be.
    fn newest_of(&self, left: &[EntryId]) -> Result<Vec<Arc<Entry>>, SessionError> {
        let most = self.budgets.window(self.model.card()).saturating_mul(2);
        let (mut entries, mut taken, mut kept): (Vec<Arc<Entry>>, u64, Option<EntryId>) = (Vec::new(), 0, None);
        for id in left.iter().rev() {
            let Some(entry) = self.session.entry(id)? else { continue };
            if let (EntryBody::Compaction(compaction), None) = (&entry.body, &kept) {
                kept = Some(compaction.first_kept_entry_id.clone());
            }
            taken = taken.saturating_add(entry.message().map_or(0, tokens::of_message));
            let is_last = taken > most || kept.as_ref() == Some(&entry.id);
            entries.push(entry);
            if is_last {
                break;
            }
        }
        entries.reverse();
        Ok(entries)
    }

    /// Takes the last exchange out of the model's view: the newest message of the user that it still reads, and everything after it but
    /// commands that the user ran and summaries of branches, which are no part of an exchange. All of it stays in the session, and nothing on
    /// disk is undone. Gives the user's words; none where there is nothing left to take out.
    ///
    /// # Errors
    /// The session cannot be written.
    pub async fn undo(&self) -> Result<Option<Vec<Content>>, SessionError> {
        let path = self.session.path();
        let view = View::of(&path, &projection::project(&path));
        let Some(at) = view.items.iter().rposition(|item| item.nature == Nature::Words && item.source.is_some()) else {
            return Ok(None);
        };
        // As it was said: the view may have it shortened.
        let said = match &view.items[at].source {
            Some(id) => self.session.entry(id)?,
            None => None,
        };
        let words = match said.as_deref().and_then(Entry::message) {
            Some(Message::User(user)) => user.content.clone(),
            _ => Vec::new(),
        };
        let place: HashMap<&EntryId, usize> = path.iter().enumerate().map(|(at, entry)| (&entry.id, at)).collect();
        // In the path's order, which results do not have in the view: `before_last_undo` knows an undo by it.
        let mut targets: Vec<&EntryId> = view.items[at..].iter().filter_map(|item| item.editable()).collect();
        targets.sort_by_key(|id| place.get(id).copied());
        let edit = |id: &EntryId| EntryBody::ContextEdit(ContextEdit { target_id: id.clone(), replacement: None });
        let edits = targets.into_iter().map(edit).collect();
        for entry in self.session.append_all(edits)? {
            self.outbox.send(Event::EntryAppended { entry }).await;
        }
        self.session.sync()?;
        Ok(Some(words))
    }

    /// Takes the newest `undo` back, as long as nothing was said after it: the leaf moves to before its edits, which count only on their own
    /// path. Whether there was one.
    ///
    /// # Errors
    /// The session cannot be written.
    pub async fn redo(&self) -> Result<bool, SessionError> {
        let Some(before) = before_last_undo(&self.session.path()) else { return Ok(false) };
        let moved = self.session.move_leaf(Some(&before))?;
        let event = Event::LeafMoved { leaf_id: self.session.leaf_id(), from_id: moved.from };
        self.outbox.send(event).await;
        self.session.sync()?;
        Ok(true)
    }
}

struct Aborted;

/// A branch's summary, and why it is the host's own.
struct Summed {
    body: BranchSummaryEntry,
    why: Option<String>,
}

/// Whether the entry is a message that is written anew rather than gone on from, and its words where they are the user's.
fn spoken(entry: &Entry) -> Option<Option<Vec<Content>>> {
    match &entry.body {
        EntryBody::CustomMessage(_) => Some(None),
        EntryBody::Message(message) => match message.message.as_ref() {
            Message::User(user) => Some(Some(user.content.clone())),
            Message::Custom(_) => Some(None),
            _ => None,
        },
        _ => None,
    }
}

fn details(entry: &Entry) -> Option<&Value> {
    match &entry.body {
        EntryBody::Compaction(compaction) => compaction.details.as_ref(),
        EntryBody::BranchSummary(branch) => branch.details.as_ref(),
        _ => None,
    }
}

/// What the host knows of a branch, where nobody sums it up.
fn own_summary(view: &View, touched: &Touched) -> String {
    let count = |nature: Nature| view.items.iter().filter(|item| item.nature == nature).count();
    let mut text = String::from("[This branch was not summed up; this is what is known of it.]\n");
    let _ = writeln!(
        text,
        "It had {} messages of the user, {} replies, {} results of calls.",
        count(Nature::Words),
        count(Nature::Reply),
        count(Nature::Result)
    );
    if let Some(previous) = &view.previous {
        let _ =
            writeln!(text, "\nAn earlier summary of it:\n{}", bounded(&previous.compaction.summary, OWN_TEXT_BYTES));
    }
    let words: Vec<String> =
        view.items.iter().filter(|item| item.nature == Nature::Words).map(|item| said(&item.message)).collect();
    if let Some(first) = words.first() {
        let _ = writeln!(text, "\nThe user asked first:\n{}", bounded(first, OWN_TEXT_BYTES));
    }
    if let Some(last) = words.last().filter(|_| words.len() > 1) {
        let _ = writeln!(text, "\nThe user asked last:\n{}", bounded(last, OWN_TEXT_BYTES));
    }
    let reply = view.items.iter().rev().find_map(|item| match item.message.as_ref() {
        Message::Assistant(reply) => Some(reply.text()).filter(|text| !text.trim().is_empty()),
        _ => None,
    });
    if let Some(reply) = reply {
        let _ = writeln!(text, "\nThe last reply:\n{}", bounded(&reply, OWN_TEXT_BYTES));
    }
    let (read, modified) = touched.lists();
    for (what, paths) in [("read", read), ("modified; they still are", modified)] {
        if !paths.is_empty() {
            let _ = writeln!(text, "\nFiles {what}: {}", bounded(&paths.join(", "), OWN_TEXT_BYTES / 2));
        }
    }
    bounded(text.trim_end(), OWN_SUMMARY_BYTES)
}

/// Moves, names and counts are no reason against taking an undo back; a plugin's state is, for it belongs to its path.
fn says_nothing(entry: &Entry) -> bool {
    match &entry.body {
        EntryBody::Custom(custom) => custom.custom_type == crate::kind::LEAF,
        EntryBody::Label(_) | EntryBody::SessionInfo(_) | EntryBody::Usage(_) => true,
        _ => false,
    }
}

/// The entry before the newest undo's edits, where nothing but what `says_nothing` stands behind them. An undo's edits leave out entries in their path's
/// order, a user's message first; edits that go back in that order are an earlier undo's.
fn before_last_undo(path: &[Arc<Entry>]) -> Option<EntryId> {
    let places: HashMap<&EntryId, usize> = path.iter().enumerate().map(|(at, entry)| (&entry.id, at)).collect();
    let place = |id: &EntryId| places.get(id).copied();
    let mut at = path.len();
    while at > 0 && says_nothing(&path[at - 1]) {
        at -= 1;
    }
    let mut first: Option<usize> = None;
    while at > 0 {
        let EntryBody::ContextEdit(ContextEdit { target_id, replacement: None }) = &path[at - 1].body else { break };
        let target = place(target_id)?;
        if first.is_some_and(|later| target >= later) {
            break;
        }
        first = Some(target);
        at -= 1;
    }
    let is_users = first.is_some_and(|first| matches!(path[first].message(), Some(Message::User(_))));
    (is_users && at > 0).then(|| path[at - 1].id.clone())
}
