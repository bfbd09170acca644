//! Questions of gates: shown by the host, in a frame that no foreign text can draw, with the call itself; answered by the person alone.

use super::style::Style;
use crate::harmless::harmless_line;
use futures::future::BoxFuture;
use pith_runtime::{AskedQuestion, CanonicalCall, Decision, Person};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How long a question stands before an answer counts: what was typed before it was read is no answer to it.
pub const DEAD_TIME: Duration = Duration::from_millis(500);
/// How long a question waits; then nobody is there.
const ANSWER_WITHIN: Duration = Duration::from_secs(600);

/// Characters of a call's arguments that are shown; of longer ones the head and the tail.
const CALL_CHARS: usize = 4000;
/// Characters of a gate's words.
const WORDS_CHARS: usize = 1000;

/// A question on its way to the terminal. Where its other side is gone, it is no longer asked.
pub struct Asked {
    /// The call, as the tool will get it.
    pub call: CanonicalCall,
    /// Why, by gate.
    pub questions: Vec<AskedQuestion>,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Decision>,
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
        let asked = Asked { call: call.clone(), questions: questions.to_vec(), answer };
        Box::pin(async move {
            let decided = async {
                self.asked.send(asked).await.ok()?;
                answered.await.ok()
            };
            tokio::time::timeout(ANSWER_WITHIN, decided).await.ok().flatten()
        })
    }
}

/// What an answer means: anything but a clear yes is no.
pub fn decision(line: &str, can_remember: bool) -> Decision {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Decision::Allow,
        "a" | "always" if can_remember => Decision::AllowForSession,
        _ => Decision::Deny,
    }
}

/// Whether "for this session" is among the answers.
pub fn can_remember(questions: &[AskedQuestion]) -> bool {
    questions.iter().any(|question| question.can_remember)
}

/// The question, without the line that is answered.
pub fn framed(style: Style, call: &CanonicalCall, questions: &[AskedQuestion]) -> String {
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
pub fn choice(style: Style, can_remember: bool) -> String {
    let session = if can_remember { ", a = yes, and the like until the session ends" } else { "" };
    style.bold(&format!("┗━ y = yes{session}, anything else = no: "))
}

/// Lines of the frame: no word of others stands where a line begins.
fn push_wrapped(out: &mut String, text: &str, width: usize) {
    let chars: Vec<char> = text.chars().collect();
    for line in chars.chunks(width.saturating_sub(3).max(10)) {
        out.push_str("┃ ");
        out.extend(line);
        out.push('\n');
    }
}

/// Arguments on one line; of long ones the head and the tail, and how much is between.
fn cut(input: &str) -> String {
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
