//! Where a conversation is cut in two: what stands before is replaced, what follows stays as it is.

use crate::view::{Item, View};

/// A cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The first message that stays.
    pub at: usize,
    /// Where the turn begins that is cut in two; none where a turn begins at the cut, or where its beginning was summed up before.
    pub turn: Option<usize>,
}

impl Cut {
    fn at(items: &[Item], at: usize) -> Self {
        let turn = if items[at].begins_turn() { None } else { items[..at].iter().rposition(Item::begins_turn) };
        Self { at, turn }
    }
}

/// Cuts so that what stays takes at most `keep` tokens, estimated; the last reply with its results, or the last message of the user, stays in
/// any case. A turn is cut in two only where its end alone would leave less than half of `keep`. None where nothing would be replaced.
pub(crate) fn choose(view: &View, keep: u64) -> Option<Cut> {
    let at = place(&view.items, |at| view.items[at].tokens, keep)?;
    (at > 0).then(|| Cut::at(&view.items, at))
}

/// The same, where the caller says what each message takes; gives the first message that stays, which may be the very first.
pub(crate) fn place(items: &[Item], tokens: impl Fn(usize) -> u64, keep: u64) -> Option<usize> {
    let mut kept = 0_u64;
    let mut within = None;
    let mut turn_within = None;
    for (at, item) in items.iter().enumerate().rev() {
        kept = kept.saturating_add(tokens(at));
        let fits = kept <= keep;
        if !fits && within.is_some() {
            break;
        }
        if item.begins() {
            within = Some(at);
            if !fits {
                break;
            }
            if item.begins_turn() && kept >= keep / 2 {
                turn_within = Some(at);
            }
        }
    }
    turn_within.or(within)
}

/// The cut before the last turn: for a conversation that is shorter than what would be kept, where the user asks for it nevertheless.
pub(crate) fn before_last_turn(view: &View) -> Option<Cut> {
    let at = view.items.iter().rposition(Item::begins_turn)?;
    (at > 0).then_some(Cut { at, turn: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Nature;
    use pith_protocol::{EntryId, Message, UserMessage};
    use std::sync::Arc;

    /// `u` the user's, `a` a reply, `r` a result, `m` a mended one, each of as many tokens as the number behind it.
    fn view(spec: &str) -> View {
        let items = spec.split(' ').enumerate().map(|(at, word)| {
            let (kind, tokens) = word.split_at(1);
            let nature = match kind {
                "u" => Nature::Words,
                "a" => Nature::Reply,
                _ => Nature::Result,
            };
            let message = Arc::new(Message::User(UserMessage::default()));
            let source = (kind != "m").then(|| EntryId::from(at.to_string()));
            Item { message, source, nature, tokens: tokens.parse().unwrap() }
        });
        View { items: items.collect(), previous: None }
    }

    #[test]
    fn cuts() {
        for (spec, keep, expected) in [
            ("u10 a10 u10 a10", 20, Some((2, None))),
            ("u10 a10 u10 a10", 25, Some((2, None))),
            ("u10 a10 u10 a10", 40, None),
            ("u10 a10 u10 a10", 1000, None),
            // Never between a call and its results.
            ("u10 a10 r10 r10 a10", 30, Some((4, Some(0)))),
            ("u10 a10 r10 m10 a10", 40, Some((1, Some(0)))),
            // A turn is cut only where too little of it would stay.
            ("u10 a10 r10 u10 a10 r10", 45, Some((3, None))),
            ("u10 a10 r50 a40 r30 u1 a1", 72, Some((3, Some(0)))),
            // The end stays whatever it takes.
            ("u10 a10 r500", 20, Some((1, Some(0)))),
            ("u10 a10 u500", 20, Some((2, None))),
            ("u500", 20, None),
            // The turn's beginning is gone already.
            ("a10 r10 a10 r10", 25, Some((2, None))),
            ("r10", 5, None),
        ] {
            let found = choose(&view(spec), keep).map(|cut| (cut.at, cut.turn));
            assert_eq!(found, expected, "{spec} keeping {keep}");
        }
        assert_eq!(before_last_turn(&view("u1 a1 u1 a1 r1 a1")), Some(Cut { at: 2, turn: None }));
        assert_eq!(before_last_turn(&view("u1 a1 r1 a1")), None);
    }
}
