//! Questions of gates and plugins, one at a time: shown by the host, in a frame that no foreign text can draw, a gate's with the call itself;
//! answered by the person alone.

use super::{
    dialog::{Dialog, Next},
    style::Style,
};
use crate::harmless::{exact_json, harmless_line, unframed};
use futures::future::BoxFuture;
use pith_runtime::{Answer, AskedQuestion, CannotAsk, CanonicalCall, Decision, Person, PluginQuestion};
use std::{
    fs::{DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// How long a question stands before an answer counts: what was typed before it was read is no answer to it.
pub const DEAD_TIME: Duration = Duration::from_millis(500);
/// How long a gate's question waits; then nobody is there. A plugin's has a limit of its own.
const ANSWER_WITHIN: Duration = Duration::from_secs(600);

/// Characters of a call's arguments that are shown: what runs is seen whole. Longer ones are in a file, and the frame says which.
const CALL_CHARS: usize = 32_000;
/// Characters of a plugin's text, and of a call that is in a file: the head and the tail.
const CUT_CHARS: usize = 4000;
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
        /// Where the whole call is, if it is too long to be shown.
        whole: Option<WholeCall>,
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
            Self::Gates { call, questions, whole, .. } => framed(style, call, questions, whole.as_ref()),
            Self::Plugin { dialog, .. } => dialog.framed(style),
        }
    }

    /// The line that is answered.
    pub fn choice(&self, style: Style) -> String {
        match self {
            Self::Gates { questions, whole, .. } => choice(style, can_remember(questions, whole.as_ref())),
            Self::Plugin { dialog, .. } => dialog.choice(style),
        }
    }

    /// Takes a line; none: the person gives none.
    pub fn take(self, line: Option<&str>, style: Style) -> Taken {
        match self {
            Self::Gates { questions, answer, whole, .. } => {
                // Who asked may be gone by now.
                let _ = answer.send(decision(line.unwrap_or_default(), can_remember(&questions, whole.as_ref())));
                Taken::Answered
            }
            Self::Plugin { mut dialog, answer } => match dialog.take_lines(line, style) {
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

/// A call in a file, until it is decided about.
pub struct WholeCall {
    path: PathBuf,
    bytes: usize,
}

impl WholeCall {
    /// Keeps a call that is too long to be shown. None where it is not, or where there is nowhere to keep it: then it is shown all the same.
    fn keep(folder: &Path, call: &CanonicalCall) -> Option<Self> {
        if call.input.len() <= CALL_CHARS || exact_json(&call.input).chars().nth(CALL_CHARS).is_none() {
            return None;
        }
        let path = folder.join(format!("asked-{}.json", std::process::id()));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        Self::write(&path, call.input.as_bytes()).ok()?;
        Some(Self { path, bytes: call.input.len() })
    }

    fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Of an earlier process of this number that was killed.
        let _ = std::fs::remove_file(path);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
    }
}

impl Drop for WholeCall {
    fn drop(&mut self) {
        // What is not removed is written anew at the next question of a process of this number.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The person at the terminal.
pub struct AtTerminal {
    asked: mpsc::Sender<Asked>,
    folder: PathBuf,
}

impl AtTerminal {
    /// And where its questions come out. Calls too long to be shown are kept in this folder, which no plugin and no program reaches: what
    /// is read there is what will run.
    pub fn new(folder: PathBuf) -> (Self, mpsc::Receiver<Asked>) {
        let (asked, questions) = mpsc::channel(1);
        (Self { asked, folder }, questions)
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
        let whole = WholeCall::keep(&self.folder, call);
        let asked = Asked::Gates { call: call.clone(), questions: questions.to_vec(), whole, answer };
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

/// Whether "for this session" is among the answers: never for a call that is not seen whole.
fn can_remember(questions: &[AskedQuestion], whole: Option<&WholeCall>) -> bool {
    whole.is_none() && questions.iter().any(|question| question.can_remember)
}

/// The question, without the line that is answered.
fn framed(style: Style, call: &CanonicalCall, questions: &[AskedQuestion], whole: Option<&WholeCall>) -> String {
    let width = style.width();
    let mut out = format!("{}\n", style.bold("┏━ Pith asks: shall this run?"));
    let input = exact_json(&call.input);
    let input = if whole.is_some() { cut_line(&input) } else { input };
    push_wrapped(&mut out, &format!("{} {input}", harmless_line(&call.name, 64)), width);
    if let Some(WholeCall { path, bytes }) = whole {
        out.push_str("┃\n");
        let place = harmless_line(&path.to_string_lossy(), usize::MAX);
        push_wrapped(&mut out, &format!("all {bytes} bytes of it, until this is answered: {place}"), width);
    }
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

/// Lines of the frame: no word of others stands where a line begins, and none draws a frame of its own. What is not plain ASCII counts as two columns, as the widest do.
pub fn push_wrapped(out: &mut String, text: &str, width: usize) {
    let room = width.saturating_sub(3).max(10);
    let mut used = usize::MAX;
    for c in text.chars().map(unframed) {
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
    cut_line(&harmless_line(input, usize::MAX))
}

fn cut_line(all: &str) -> String {
    let count = all.chars().count();
    let Some(hidden) = count.checked_sub(CUT_CHARS).filter(|hidden| *hidden > 0) else { return all.to_owned() };
    let head: String = all.chars().take(CUT_CHARS * 3 / 4).collect();
    let tail: String = all.chars().skip(count - CUT_CHARS / 4).collect();
    format!("{head} [... {hidden} characters are not shown ...] {tail}")
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

    fn call(input: String) -> CanonicalCall {
        let (id, name, value) = ("c".to_owned(), "tool\nname".to_owned(), Arc::new(serde_json::json!({})));
        CanonicalCall { id, name, value, input: input.into() }
    }

    fn asks(can_remember: bool) -> AskedQuestion {
        let text = "why\n┗━ y = yes: y\r\n╔═│─ y = yes\n> rm\u{202e}".to_owned();
        AskedQuestion { plugin: "gate".to_owned(), text, can_remember }
    }

    #[track_caller]
    fn assert_framed(text: &str) {
        for line in text.lines().skip(1) {
            let drawn = line.chars().filter(|c| ('\u{2500}'..='\u{257f}').contains(c)).count();
            assert!(line.starts_with('┃') && drawn == 1, "{line:?}");
        }
        assert!(!text.contains(['\u{1b}', '\r', '\u{202e}']), "{text:?}");
    }

    /// The call's arguments as they stand in the frame.
    fn shown(text: &str) -> String {
        let lines = text.lines().skip(1).take_while(|line| *line != "┃");
        let joined: String = lines.map(|line| line.strip_prefix("┃ ").unwrap()).collect();
        joined.strip_prefix("tool name ").unwrap().to_owned()
    }

    #[test]
    fn no_foreign_word_leaves_the_frame() {
        let input = format!("{{\"command\":\"x\u{1b}[2J┗━ y = yes\\n{}\"}}", "long ".repeat(2000));
        let text = framed(PLAIN, &call(input), &[asks(false)], None);
        assert_framed(&text);
        assert!(text.contains("x\\u001b[2J\\u2517\\u2501 y = yes"), "{text}");
    }

    #[test]
    fn what_will_run_is_seen_to_its_last_byte() {
        let dir = tempfile::tempdir().unwrap();
        let input = |chars: usize| {
            let mut command = "true; ".repeat(chars / 6);
            command.replace_range(command.len() / 2..command.len() / 2, "rm -rf x;");
            serde_json::json!({ "command": command }).to_string()
        };
        let seen = call(input(CALL_CHARS - 100));
        assert!(WholeCall::keep(dir.path(), &seen).is_none());
        assert_eq!(shown(&framed(PLAIN, &seen, &[asks(true)], None)), *seen.input);

        let long = call(input(CALL_CHARS + 100));
        let whole = WholeCall::keep(dir.path(), &long).unwrap();
        let path = whole.path.clone();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), *long.input);
        let text = framed(PLAIN, &long, &[asks(true)], Some(&whole));
        assert_framed(&text);
        assert!(!text.contains("rm -rf x;") && text.contains("characters are not shown"), "{text}");
        let joined = text.replace("\n┃ ", "");
        assert!(joined.contains(&format!("all {} bytes", long.input.len())), "{joined}");
        assert!(joined.contains(&path.to_string_lossy().into_owned()), "{joined}");
        assert!(can_remember(&[asks(true)], None) && !can_remember(&[asks(true)], Some(&whole)));
        drop(whole);
        assert!(!path.exists());
        // Where it cannot be kept, it is shown.
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(WholeCall::keep(&dir.path().join("file/in"), &long).is_none());
        assert_eq!(shown(&framed(PLAIN, &long, &[asks(true)], None)), *long.input);
    }
}
