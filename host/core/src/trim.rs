//! The host's own way to make a conversation fit, without a model and without fail: long blocks shortened, oldest results first, then the oldest
//! turns left out behind a marker. A pure function over the view; what it gives are entries that hide, nothing is removed.

use crate::{
    cut,
    shrink::{bounded, shrunk},
    tokens,
    touched::Touched,
    view::{Item, Nature, View, said},
};
use pith_protocol::{Content, EntryId, Message};
use std::fmt::Write as _;

/// What is left of an old result, in bytes: head and tail.
pub(crate) const OLD_RESULT_BYTES: usize = 2_000;
/// What is left of a block in the turn that goes on, before that turn is cut, in bytes.
const TURN_BLOCK_BYTES: usize = 1_000;
/// The shortest that a block is cut to, in bytes.
const SHORTEST_BLOCK_BYTES: usize = 64;
/// The longest that a block is cut to where all is cut alike, in bytes.
const LONGEST_BLOCK_BYTES: usize = 1 << 20;
/// The longest marker, in tokens.
const MARKER_TOKENS: u64 = 4_000;
/// With less room, in tokens, nothing can be done: the prompt and the tools alone fill the window.
pub(crate) const SMALLEST_ROOM_TOKENS: u64 = 128;
/// The words around a marker take no more, in bytes.
const WRAPPING_BYTES: usize = 128;

/// What makes the view fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trimmed {
    /// What entries say instead.
    pub edits: Vec<(EntryId, Vec<Content>)>,
    /// What is left out.
    pub dropped: Option<Dropped>,
}

/// Messages that a marker stands for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dropped {
    /// The first entry that stays; none where nothing does.
    pub kept_from: Option<EntryId>,
    /// The marker.
    pub summary: String,
}

/// A message on its way.
struct Work<'a> {
    item: &'a Item,
    /// What it says instead.
    content: Option<Vec<Content>>,
    tokens: u64,
}

impl Work<'_> {
    fn shrink(&mut self, cap: usize) {
        let Some(content) = self.item.editable().and_then(|_| shrunk(&self.item.message, cap)) else { return };
        let tokens = tokens::of_blocks(&content).saturating_add(tokens::FRAME_TOKENS);
        if tokens < self.tokens {
            (self.content, self.tokens) = (Some(content), tokens);
        }
    }
}

/// Makes the messages and the summary before them take no more than `room` tokens, estimated. None where there is no room for anything.
pub(crate) fn trim(view: &View, touched: &Touched, room: u64) -> Option<Trimmed> {
    if view.tokens() <= room {
        return Some(Trimmed::default());
    }
    if room < SMALLEST_ROOM_TOKENS {
        return None;
    }
    let fresh = || -> Vec<Work<'_>> {
        view.items.iter().map(|item| Work { item, content: None, tokens: item.tokens }).collect()
    };
    let before = view.previous_tokens();
    let mut work = fresh();
    // One block that is larger than all others may be: no older message could make up for it.
    for one in &mut work {
        if blocks(&one.item.message).iter().any(|block| tokens::of_block(block) > room / 2) {
            one.shrink(bytes(room / 4));
        }
    }
    let last = view.items.iter().rposition(Item::begins).unwrap_or(0);
    let mut total = sum(&work).saturating_add(before);
    for one in work[..last].iter_mut().filter(|one| one.item.nature == Nature::Result) {
        if total <= room {
            break;
        }
        let was = one.tokens;
        one.shrink(OLD_RESULT_BYTES);
        total -= was - one.tokens;
    }
    if total <= room {
        return Some(Trimmed { edits: edits(&work), dropped: None });
    }
    let marker = (room / 4).min(MARKER_TOKENS);
    let keep = room - marker;
    let place = cut::place(&view.items, |at| work[at].tokens, keep);
    let turn = view.items.iter().rposition(|item| item.nature == Nature::Words);
    if let (Some(at), Some(turn)) = (place, turn)
        && (at > turn || sum(&work[at..]) > keep)
    {
        // What the user asked for last stays in the user's words where the rest of that turn can be shortened to fit beside it.
        let keep = if turn == 0 && view.previous.is_none() { room } else { keep };
        if let Some(work) = alike(fresh(), turn, keep, TURN_BLOCK_BYTES) {
            return Some(ended(view, touched, &work, turn, marker));
        }
    }
    if let Some(at) = place {
        if sum(&work[at..]) <= keep {
            lengthen(&mut work[at..], keep, room);
            return Some(ended(view, touched, &work, at, marker));
        }
        let keep = if at == 0 && view.previous.is_none() { room } else { keep };
        if let Some(work) = alike(fresh(), at, keep, SHORTEST_BLOCK_BYTES) {
            return Some(ended(view, touched, &work, at, marker));
        }
    }
    let summary = self::marker(view, view.items.len(), touched, room);
    Some(Trimmed { edits: Vec::new(), dropped: Some(Dropped { kept_from: None, summary }) })
}

/// All blocks from `at` on cut to one length, the longest with which they fit.
fn alike(mut work: Vec<Work<'_>>, at: usize, keep: u64, shortest: usize) -> Option<Vec<Work<'_>>> {
    let mut cap = bytes(keep).min(LONGEST_BLOCK_BYTES);
    loop {
        work[at..].iter_mut().for_each(|one| one.shrink(cap));
        if sum(&work[at..]) <= keep {
            return Some(work);
        }
        if cap <= shortest {
            return None;
        }
        cap = (cap / 2).max(shortest);
    }
}

/// Gives results their length back, newest first, as far as there is room.
fn lengthen(work: &mut [Work<'_>], keep: u64, room: u64) {
    let mut total = sum(work);
    for one in work.iter_mut().rev().filter(|one| one.content.is_some()) {
        let mut whole = Work { item: one.item, content: None, tokens: one.item.tokens };
        if blocks(&one.item.message).iter().any(|block| tokens::of_block(block) > room / 2) {
            whole.shrink(bytes(room / 4));
        }
        let with = total - one.tokens + whole.tokens;
        if with > keep {
            break;
        }
        (*one, total) = (whole, with);
    }
}

fn ended(view: &View, touched: &Touched, work: &[Work<'_>], at: usize, marker: u64) -> Trimmed {
    let is_whole = at == 0 && view.previous.is_none();
    let dropped = (!is_whole).then(|| Dropped {
        kept_from: view.items[at].source.clone(),
        summary: self::marker(view, at, touched, marker),
    });
    Trimmed { edits: edits(&work[at..]), dropped }
}

fn edits(work: &[Work<'_>]) -> Vec<(EntryId, Vec<Content>)> {
    work.iter().filter_map(|one| Some((one.item.editable()?.clone(), one.content.clone()?))).collect()
}

fn sum(work: &[Work<'_>]) -> u64 {
    work.iter().map(|one| one.tokens).fold(0, u64::saturating_add)
}

fn bytes(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(tokens::BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
}

fn blocks(message: &Message) -> &[Content] {
    match message {
        Message::User(user) => &user.content,
        Message::Assistant(reply) => &reply.content,
        Message::ToolResult(result) => &result.content,
        _ => &[],
    }
}

/// What stands for the messages before `at` where nobody sums them up: what the host knows of them, in no more than `room` tokens.
pub(crate) fn marker(view: &View, at: usize, touched: &Touched, room: u64) -> String {
    let room = bytes(room).saturating_sub(WRAPPING_BYTES).max(SHORTEST_BLOCK_BYTES);
    let dropped = &view.items[..at];
    let mut text = String::from(
        "[Earlier messages were left out so that the rest fits the model's window. They were not summed up: this is what is known of them. \
         Read files again, or ask the user, where something is missing.]\n",
    );
    let count = |nature: Nature| dropped.iter().filter(|item| item.nature == nature).count();
    let _ = writeln!(
        text,
        "Left out: {} messages of the user, {} replies, {} results of calls.",
        count(Nature::Words),
        count(Nature::Reply),
        count(Nature::Result)
    );
    if let Some(previous) = &view.previous {
        let _ = writeln!(text, "\nAn earlier summary:\n{}", bounded(&previous.compaction.summary, room / 3));
    }
    let mut words = dropped.iter().filter(|item| item.nature == Nature::Words).map(|item| said(&item.message));
    let (first, last) = (words.next(), words.next_back());
    if let (Some(first), true) = (&first, last.is_some()) {
        let _ = writeln!(text, "\nThe user's first words among them:\n{}", bounded(first, room / 8));
    }
    if let Some(last) = last.or(first).or_else(|| view.request(at)) {
        let _ = writeln!(text, "\nThe user's last words among them:\n{}", bounded(&last, room / 4));
    }
    let (read, modified) = touched.lists();
    for (what, paths) in [("read", read), ("modified", modified)] {
        if !paths.is_empty() {
            let _ = writeln!(text, "\nFiles {what}: {}", bounded(&paths.join(", "), room / 12));
        }
    }
    bounded(text.trim_end(), room)
}

#[cfg(test)]
#[path = "trim_tests.rs"]
mod tests;
