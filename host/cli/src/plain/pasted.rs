//! Which lines are one message where the terminal hands over whole lines: what was pasted stays together, and is no command.

use super::keyboard::Typed;

/// What a terminal that brackets pastes sends before and after one.
const BEGIN: &[u8] = b"\x1b[200~";
const END: &[u8] = b"\x1b[201~";

/// The longest message that is taken without the editor, in bytes; more than that begins another.
pub const MESSAGE_BYTES: usize = 1 << 20;

/// A message that is being gathered.
///
/// Several lines are one where they are bracketed, and where they come at once: nobody types a second line in the moment after the first.
#[derive(Debug, Default)]
pub struct Gathered {
    bytes: Vec<u8>,
    /// A paste began and did not end.
    open: bool,
}

impl Gathered {
    /// Takes what came.
    pub fn push(&mut self, bytes: &[u8]) {
        // A bracket may have begun in the piece before.
        let from = self.bytes.len().saturating_sub(BEGIN.len() - 1);
        self.bytes.extend_from_slice(bytes);
        let new = self.bytes.get(from..).unwrap_or_default();
        match (last(new, BEGIN), last(new, END)) {
            (None, None) => {}
            (begun, ended) => self.open = begun > ended,
        }
    }

    /// Whether nothing came.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether it is whole lines, all that belongs to a paste among them.
    pub fn is_whole(&self) -> bool {
        (self.bytes.ends_with(b"\n") && !self.open) || self.is_full()
    }

    /// Whether no more is taken into it.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= MESSAGE_BYTES
    }

    /// What it is; then another begins. A single line that the user began themselves may have a paste within it and be a command all the same.
    pub fn take(&mut self) -> Typed {
        let (is_whole, is_cut) = (self.is_whole(), self.is_full() && self.open);
        let bytes = std::mem::take(&mut self.bytes);
        let pasted_first = match (first(&bytes, BEGIN), first(&bytes, END)) {
            (Some(begun), ended) => {
                ended.is_some_and(|ended| ended < begun)
                    || bytes.get(..begun).is_some_and(|typed| typed.trim_ascii().is_empty())
            }
            (None, ended) => ended.is_some(),
        };
        let mut text = String::from_utf8_lossy(&bytes).replace('\r', "\n");
        for bracket in ["\u{1b}[200~", "\u{1b}[201~"] {
            text = text.replace(bracket, "");
        }
        text.truncate(text.trim_end_matches('\n').len());
        if is_cut {
            // The rest of the paste is one too.
            self.bytes.extend_from_slice(BEGIN);
        } else {
            self.open = false;
        }
        match (is_whole, pasted_first || text.contains('\n')) {
            (false, _) => Typed::Unfinished(text),
            (true, true) => Typed::Pasted(text),
            (true, false) => Typed::Line(text),
        }
    }
}

fn first(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn last(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).rposition(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: &Typed) {
        let mut gathered = Gathered::default();
        for piece in pieces {
            gathered.push(piece.as_bytes());
        }
        assert_eq!(&gathered.take(), expected, "{pieces:?}");
        assert!(gathered.is_empty());
    }

    #[test]
    fn what_is_pasted_is_one_message_and_no_command() {
        let line = |text: &str| Typed::Line(text.to_owned());
        let pasted = |text: &str| Typed::Pasted(text.to_owned());
        for (pieces, expected) in [
            (&["!ls\n"][..], line("!ls")),
            (&["\n"], line("")),
            (&["y\n", "\n"], line("y")),
            (&["\u{1b}[200~notes:\n", "!touch PWNED\n", "thanks\u{1b}[201~\n"], pasted("notes:\n!touch PWNED\nthanks")),
            (&["\u{1b}[200~!ls\u{1b}[201~\n"], pasted("!ls")),
            (&["\u{1b}[200~!ls\n", "\u{1b}[201~\n"], pasted("!ls")),
            (&["see: \u{1b}[200~a\n", "/quit\u{1b}[201~ ok\n"], pasted("see: a\n/quit ok")),
            // The user's own command, with a name pasted into it.
            (&["!cat \u{1b}[200~a.txt\u{1b}[201~\n"], line("!cat a.txt")),
            (&["!cat \u{1b}[200~a\n", "rm b\u{1b}[201~\n"], pasted("!cat a\nrm b")),
            // Without brackets.
            (&["notes:\n", "!touch PWNED\n"], pasted("notes:\n!touch PWNED")),
            // The end of one whose beginning a question took.
            (&["!ls\u{1b}[201~\n"], pasted("!ls")),
            // A bracket in two pieces, and a paste that ends its bracket itself.
            (&["\u{1b}[20", "0~!a\n", "b\u{1b}[2", "01~\n"], pasted("!a\nb")),
            (&["\u{1b}[200~a\n\u{1b}[201~\n!b\n\u{1b}[201~\n"], pasted("a\n\n!b")),
            (&["\u{1b}[200~a\n", "!b\n"], Typed::Unfinished("a\n!b".to_owned())),
            (&["half"], Typed::Unfinished("half".to_owned())),
        ] {
            check(pieces, &expected);
        }
    }

    #[test]
    fn a_paste_without_end_is_cut_and_stays_one() {
        let mut gathered = Gathered::default();
        gathered.push(BEGIN);
        let line = [b'x'; 1023].iter().chain(b"\n").copied().collect::<Vec<u8>>();
        while !gathered.is_whole() {
            gathered.push(&line);
        }
        assert!(matches!(gathered.take(), Typed::Pasted(text) if text.len() <= MESSAGE_BYTES));
        gathered.push(b"!ls\x1b[201~\n");
        assert!(gathered.is_whole());
        assert_eq!(gathered.take(), Typed::Pasted("!ls".to_owned()));
    }
}
