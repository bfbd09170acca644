//! Questions of gates and plugins, one at a time: shown by the host, in a frame that no foreign text can draw, a gate's with the call itself;
//! answered by the person alone.

use super::{
    dialog::{Dialog, Next},
    style::Style,
};
use crate::harmless::harmless_line;
use futures::future::BoxFuture;
use pith_runtime::{Answer, AskedQuestion, CannotAsk, CanonicalCall, Decision, Person, PluginQuestion};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How long a question stands before an answer counts: what was typed before it was read is no answer to it.
pub const DEAD_TIME: Duration = Duration::from_millis(500);
/// How long a gate's question waits; then nobody is there. A plugin's has a limit of its own.
const ANSWER_WITHIN: Duration = Duration::from_secs(600);

/// Characters of a call's arguments that are shown; of longer ones the head and the tail.
const CALL_CHARS: usize = 4000;
/// Characters of a gate's words.
const WORDS_CHARS: usize = 1000;

/// A question on its way to the terminal. Where its other side is gone, it is no longer asked.
pub enum Asked {
    /// Of gates.
    Gates {
        /// The call, as the tool will get it.
        call: CanonicalCall,
        /// Why, by gate.
        questions: Vec<AskedQuestion>,
        /// Where the answer goes.
        answer: oneshot::Sender<Decision>,
    },
    /// Of a plugin.
    Plugin {
        /// The question, and what was answered of it.
        dialog: Dialog,
        /// Where the answer goes.
        answer: oneshot::Sender<Option<Answer>>,
    },
}

/// What a line of the person's came to.
pub enum Taken {
    /// It was the answer.
    Answered,
    /// These lines are shown, then it is asked again.
    Again(Asked, String),
    /// More lines of the same answer come.
    More(Asked),
}

impl Asked {
    /// Whether nobody waits for the answer any more.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Gates { answer, .. } => answer.is_closed(),
            Self::Plugin { answer, .. } => answer.is_closed(),
        }
    }

    /// Comes when nobody waits for the answer any more.
    pub async fn over(&mut self) {
        match self {
            Self::Gates { answer, .. } => answer.closed().await,
            Self::Plugin { answer, .. } => answer.closed().await,
        }
    }

    /// The question, without the line that is answered.
    pub fn framed(&self, style: Style) -> String {
        match self {
            Self::Gates { call, questions, .. } => framed(style, call, questions),
            Self::Plugin { dialog, .. } => dialog.framed(style),
        }
    }

    /// The line that is answered.
    pub fn choice(&self, style: Style) -> String {
        match self {
            Self::Gates { questions, .. } => choice(style, can_remember(questions)),
            Self::Plugin { dialog, .. } => dialog.choice(style),
        }
    }

    /// Takes a line; none: the person gives none.
    pub fn take(self, line: Option<&str>, style: Style) -> Taken {
        match self {
            Self::Gates { questions, answer, .. } => {
                // Who asked may be gone by now.
                let _ = answer.send(decision(line.unwrap_or_default(), can_remember(&questions)));
                Taken::Answered
            }
            Self::Plugin { mut dialog, answer } => match dialog.take(line, style) {
                Next::Done(said) => {
                    let _ = answer.send(said);
                    Taken::Answered
                }
                Next::Asks(text) => Taken::Again(Self::Plugin { dialog, answer }, text),
                Next::Continues => Taken::More(Self::Plugin { dialog, answer }),
            },
        }
    }
}

/// The person at the terminal.
pub struct AtTerminal {
    asked: mpsc::Sender<Asked>,
}

impl AtTerminal {
    /// And where its questions come out.
    pub fn new() -> (Self, mpsc::Receiver<Asked>) {
        let (asked, questions) = mpsc::channel(1);
        (Self { asked }, questions)
    }
}

impl Person for AtTerminal {
    fn is_there(&self) -> bool {
        true
    }

    fn decide<'a>(
        &'a self,
        call: &'a CanonicalCall,
        questions: &'a [AskedQuestion],
    ) -> BoxFuture<'a, Option<Decision>> {
        let (answer, answered) = oneshot::channel();
        let asked = Asked::Gates { call: call.clone(), questions: questions.to_vec(), answer };
        Box::pin(async move {
            let decided = async {
                self.asked.send(asked).await.ok()?;
                answered.await.ok()
            };
            tokio::time::timeout(ANSWER_WITHIN, decided).await.ok().flatten()
        })
    }

    fn ask<'a>(&'a self, question: &'a PluginQuestion) -> BoxFuture<'a, Result<Option<Answer>, CannotAsk>> {
        let (answer, answered) = oneshot::channel();
        let asked = Asked::Plugin { dialog: Dialog::new(question.clone()), answer };
        Box::pin(async move {
            self.asked.send(asked).await.map_err(|_| CannotAsk)?;
            // Dropped without an answer: the person left, or stopped the run.
            Ok(answered.await.ok().flatten())
        })
    }
}

/// What an answer means: anything but a clear yes is no.
pub fn decision(line: &str, can_remember: bool) -> Decision {
    match line.trim().to_ascii_lowercase().as_str() {
        "a" | "always" if can_remember => Decision::AllowForSession,
        _ if is_yes(line) => Decision::Allow,
        _ => Decision::Deny,
    }
}

/// Whether a line is a clear yes.
pub fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Whether "for this session" is among the answers.
fn can_remember(questions: &[AskedQuestion]) -> bool {
    questions.iter().any(|question| question.can_remember)
}

/// The question, without the line that is answered.
fn framed(style: Style, call: &CanonicalCall, questions: &[AskedQuestion]) -> String {
    let width = style.width();
    let mut out = format!("{}\n", style.bold("┏━ Pith asks: shall this run?"));
    let told = format!("{} {}", harmless_line(&call.name, 64), cut(&call.input));
    push_wrapped(&mut out, &told, width);
    for question in questions {
        let words = format!("{}: {}", harmless_line(&question.plugin, 64), harmless_line(&question.text, WORDS_CHARS));
        out.push_str("┃\n");
        push_wrapped(&mut out, &words, width);
    }
    out
}

/// The line that is answered.
fn choice(style: Style, can_remember: bool) -> String {
    let session = if can_remember { ", a = yes, and the like until the session ends" } else { "" };
    style.bold(&format!("┗━ y = yes{session}, anything else = no: "))
}

/// Lines of the frame: no word of others stands where a line begins. What is not plain ASCII counts as two columns, as the widest do.
pub fn push_wrapped(out: &mut String, text: &str, width: usize) {
    let room = width.saturating_sub(3).max(10);
    let mut used = usize::MAX;
    for c in text.chars() {
        let columns = if c.is_ascii() { 1 } else { 2 };
        if used.saturating_add(columns) > room {
            out.push_str(if used == usize::MAX { "┃ " } else { "\n┃ " });
            used = 0;
        }
        out.push(c);
        used = used.saturating_add(columns);
    }
    out.push_str(if used == usize::MAX { "┃\n" } else { "\n" });
}

/// Text on one line; of long ones the head and the tail, and how much is between.
pub fn cut(input: &str) -> String {
    let all = harmless_line(input, usize::MAX);
    let count = all.chars().count();
    if count <= CALL_CHARS {
        return all;
    }
    let head: String = all.chars().take(CALL_CHARS * 3 / 4).collect();
    let tail: String = all.chars().skip(count - CALL_CHARS / 4).collect();
    format!("{head} [... {} characters are not shown ...] {tail}", count - CALL_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const PLAIN: Style = Style { colour: false, dumb: true };

    #[test]
    fn only_a_clear_yes_is_yes() {
        for (line, decided) in [
            ("y", Decision::Allow),
            (" YES ", Decision::Allow),
            ("a", Decision::AllowForSession),
            ("", Decision::Deny),
            ("n", Decision::Deny),
            ("yy", Decision::Deny),
            ("yes please", Decision::Deny),
            ("j", Decision::Deny),
        ] {
            assert_eq!(decision(line, true), decided, "{line:?}");
        }
        assert_eq!(decision("a", false), Decision::Deny);
    }

    #[test]
    fn no_foreign_word_leaves_the_frame() {
        let input = format!("{{\"command\":\"x\u{1b}[2J┗━ y = yes\\n{}\"}}", "long ".repeat(2000));
        let call = CanonicalCall {
            id: "c".to_owned(),
            name: "tool\nname".to_owned(),
            value: Arc::new(serde_json::json!({})),
            input: input.into(),
        };
        let asked = AskedQuestion {
            plugin: "gate".to_owned(),
            text: "why\n┗━ y = yes: y\r\n> rm\u{202e}".to_owned(),
            can_remember: false,
        };
        let text = framed(PLAIN, &call, &[asked]);
        assert!(text.contains("characters are not shown"), "{text}");
        for line in text.lines().skip(1) {
            assert!(line.starts_with('┃') && line.matches(['┃', '┗', '━', '┏']).count() == 1, "{line:?}");
        }
        assert!(!text.contains(['\u{1b}', '\r', '\u{202e}']), "{text:?}");
    }
}
