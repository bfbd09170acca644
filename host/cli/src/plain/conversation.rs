//! The loop: a line, what it means, what comes of it, until the user leaves.

mod opening;

use super::{
    command::{HELP, Order, Said, understand},
    editor::{LineEditor, PROMPT},
    keyboard::{Keyboard, Typed},
    mention,
    modes::Modes,
    question::{Asked, AtTerminal},
    screen::{Screen, ScreenGone},
    sessions::{self, Shown},
    style::Style,
};
use crate::{
    failure::{DONE, Failure, HUNG_UP, INTERRUPTED, chain, indented},
    harmless::harmless_line,
    play::{LEAVE_AFTER, SAME_WORD, Signals, resumptions},
};
use futures::FutureExt;
use pith_protocol::{Content, StopReason};
use pith_runtime::{Options, Pith, RunError, StartError, UserCall, UserCallEnd};
use serde_json::{Map, Value};
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, task::JoinHandle};

/// The tool that `!` calls, and its argument that a command line is.
const SHELL_TOOL: (&str, &str) = ("bash", "command");
/// How long the first prompt waits for the start, so that the header stands above it: a start from the cache takes less.
const HEADER_WITHIN: Duration = Duration::from_millis(250);
/// What stands before a line that goes on from the one before.
const CONTINUED: &str = "… ";
/// How soon after a run was stopped by Ctrl-C another one is meant to leave.
const AGAIN: Duration = Duration::from_secs(1);
/// How long Ctrl-C at the prompt is remembered: a later one is the first again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);
/// Characters of a name or path in the header.
pub(super) const NAME_CHARS: usize = 300;
/// Characters of a notice.
pub(super) const NOTICE_CHARS: usize = 1000;

/// What a conversation begins with.
pub struct Beginning {
    /// For the library.
    pub options: Options,
    /// The first message; none waits for the user's.
    pub first: Option<Vec<Content>>,
}

/// Converses until the user leaves; gives the exit code.
pub async fn converse(beginning: Beginning) -> Result<u8, Failure> {
    let style = Style::from_process();
    let modes = Modes::keep(!style.dumb).map_err(|error| Failure::refused(&error))?;
    let signals = Signals::new().map_err(|error| Failure::refused(&error))?;
    // A terminal without escapes, or a history that cannot be had, costs the editor and nothing else.
    let mut editor = if style.dumb { None } else { LineEditor::new(beginning.options.places.history_file()).ok() };
    let resumed = resumptions().map_err(|error| Failure::refused(&error))?;
    let above = editor.as_mut().and_then(LineEditor::above);
    let keyboard = Keyboard::start(editor, modes.for_editing()).map_err(|error| Failure::refused(&error))?;
    let screen = Arc::new(Screen::start(style, above));
    let history = beginning.options.places.history_file();
    let (person, asked) = AtTerminal::new(history.parent().unwrap_or(&history).to_owned());
    let mut options = beginning.options;
    options.person = Some(Arc::new(person));
    let conversation = Conversation {
        style,
        signals,
        resumed,
        keyboard,
        screen,
        asked,
        starting: None,
        pith: None,
        options,
        later: VecDeque::new(),
        restored: String::new(),
        pressed: None,
        stopped: None,
        told_thinking: false,
        shown: Shown::default(),
    };
    let left = tokio::select! {
        left = conversation.go(beginning.first) => left,
        code = overdue() => Leave::Code(code),
    };
    drop(modes);
    match left {
        Leave::Code(code) => Ok(code),
        Leave::Failed(failure) => Err(failure),
    }
}

/// A signal to leave that was not followed: a terminal that takes nothing (Ctrl-S) holds up what is shown, and with it the conversation.
async fn overdue() -> u8 {
    let Ok(mut signals) = Signals::new() else { return std::future::pending().await };
    loop {
        match signals.next().await {
            INTERRUPTED => {}
            code => {
                tokio::time::sleep(LEAVE_AFTER * 2).await;
                return code;
            }
        }
    }
}

/// Why the conversation is over.
pub(super) enum Leave {
    Code(u8),
    Failed(Failure),
}

impl From<ScreenGone> for Leave {
    /// Nobody reads any more.
    fn from(_: ScreenGone) -> Self {
        Self::Code(HUNG_UP)
    }
}

pub(super) struct Conversation {
    pub(super) style: Style,
    pub(super) signals: Signals,
    /// The process was stopped, and goes on.
    resumed: tokio::signal::unix::Signal,
    pub(super) keyboard: Keyboard,
    pub(super) screen: Arc<Screen>,
    pub(super) asked: mpsc::Receiver<Asked>,
    /// The start goes on beside the first prompt.
    starting: Option<JoinHandle<Result<Pith, StartError>>>,
    pith: Option<Arc<Pith>>,
    pub(super) options: Options,
    /// Lines that were typed during a run and are no steering.
    pub(super) later: VecDeque<Said>,
    /// What the next line begins with: words that a run did not come to read.
    pub(super) restored: String,
    /// When Ctrl-C was pressed at the prompt, where nothing was typed since.
    pressed: Option<Instant>,
    /// When Ctrl-C stopped the run before this prompt.
    pub(super) stopped: Option<Instant>,
    told_thinking: bool,
    /// What the numbers of the last `/tree` and `/sessions` mean.
    pub(super) shown: Shown,
}

impl Conversation {
    async fn go(mut self, first: Option<Vec<Content>>) -> Leave {
        let left = match self.all(first).await {
            Ok(never) => match never {},
            Err(left) => left,
        };
        // The session ends here, not with the process: its folders go, its file is whole.
        let mut left = left;
        if let Some(pith) = self.pith.take() {
            pith.abort();
            let code = match &left {
                Leave::Code(code) => *code,
                Leave::Failed(failure) => failure.code,
            };
            if let Some(failure) = crate::unsaved::left(&pith, code).await {
                left = Leave::Failed(failure);
            }
            let way_back = (code != HUNG_UP).then(|| pith.short_id()).flatten();
            if let Some(id) = way_back {
                let line = format!("\u{b7} pith --session {} goes on with it", harmless_line(&id, NAME_CHARS));
                let said = self.screen.say(format!("{}\n", self.style.dim(&line)));
                let _ = tokio::time::timeout(LEAVE_AFTER, said).await;
            }
        }
        if !self.style.dumb {
            let _ = tokio::time::timeout(LEAVE_AFTER, self.screen.brackets(false)).await;
        }
        // A terminal that takes nothing does not keep the last words waiting for ever.
        let _ = tokio::time::timeout(LEAVE_AFTER, self.screen.settle()).await;
        left
    }

    async fn all(&mut self, first: Option<Vec<Content>>) -> Result<std::convert::Infallible, Leave> {
        self.start();
        self.wait_for_start(Some(HEADER_WITHIN)).await?;
        if let Some(content) = first {
            self.prompt(content, Vec::new()).await?;
        }
        loop {
            let said = match self.later.pop_front() {
                Some(said) => said,
                None => self.read().await?,
            };
            match said {
                Said::Nothing => {}
                Said::Words(text) => self.words(&text).await?,
                Said::Shell { command, excluded } => self.shell(command, excluded).await?,
                Said::Wrong(why) => self.wrong(&why).await?,
                Said::Order(Order::Help) => self.screen.say(format!("{HELP}\n")).await?,
                Said::Order(Order::Session) => self.session().await?,
                Said::Order(Order::New) => self.begin_anew().await?,
                Said::Order(Order::Quit) => return Err(Leave::Code(DONE)),
                Said::Order(order) => self.order(order).await?,
            }
        }
    }

    /// A line, or what was pasted. The start may end while it is typed.
    async fn read(&mut self) -> Result<Said, Leave> {
        self.screen.settle().await?;
        let mut before = String::new();
        self.edit(PROMPT).await?;
        loop {
            let starting = &mut self.starting;
            let started = async {
                match starting {
                    Some(starting) => starting.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                code = self.signals.next() => match code {
                    INTERRUPTED => {
                        before.clear();
                        self.press().await?;
                        if !self.keyboard.has_editor() {
                            self.screen.say(PROMPT).await?;
                        }
                    }
                    code => return Err(Leave::Code(code)),
                },
                _ = self.resumed.recv() => {
                    if !self.keyboard.has_editor() {
                        self.screen.say(if before.is_empty() { PROMPT } else { CONTINUED }).await?;
                    } else if self.keyboard.take_up() {
                        self.screen.redraw().await?;
                    }
                }
                typed = self.keyboard.next() => match typed {
                    Typed::Line(line) => {
                        self.pressed = None;
                        self.screen.edited(false).await?;
                        self.screen.returned().await?;
                        // The editor continues lines by itself.
                        match line.strip_suffix('\\') {
                            Some(begun) if !self.keyboard.has_editor() => {
                                before.push_str(begun);
                                before.push('\n');
                                self.edit(CONTINUED).await?;
                            }
                            _ => return Ok(understand(&(before + &line))),
                        }
                    }
                    Typed::Pasted(text) => {
                        self.pressed = None;
                        self.screen.returned().await?;
                        return Ok(pasted(before + &text));
                    }
                    Typed::Unfinished(text) => self.restored.push_str(&text),
                    Typed::Interrupt => {
                        self.press().await?;
                        self.edit(PROMPT).await?;
                    }
                    Typed::GivenUp => {
                        // Words were typed since: this gives them up, and is the first that may be pressed again.
                        (self.pressed, self.stopped) = (None, None);
                        self.press().await?;
                        self.edit(PROMPT).await?;
                    }
                    Typed::End => {
                        self.screen.edited(false).await?;
                        if !self.keyboard.has_editor() {
                            self.screen.say("\n").await?;
                        }
                        return Err(Leave::Code(DONE));
                    }
                    Typed::Gone => return Err(Leave::Code(HUNG_UP)),
                    Typed::Stopped => {}
                },
                started = started => {
                    self.starting = None;
                    self.started(started).await?;
                }
            }
        }
    }

    async fn edit(&mut self, prompt: &str) -> Result<(), Leave> {
        let initial = std::mem::take(&mut self.restored);
        if !initial.is_empty() {
            // Ctrl-C gives these words up first.
            self.stopped = None;
        }
        if self.keyboard.has_editor() {
            self.screen.settle().await?;
            self.screen.edited(true).await?;
        } else {
            if !initial.is_empty() {
                self.screen.say(format!("not sent: {}\n", harmless_line(&initial, NOTICE_CHARS))).await?;
            }
            self.screen.say(prompt).await?;
            self.screen.settle().await?;
        }
        // A stop before this line was begun has nothing to be drawn again.
        let _ = self.resumed.recv().now_or_never();
        self.keyboard.edit(initial);
        Ok(())
    }

    /// Ctrl-C at the prompt: the line is given up; pressed again, or soon after it stopped a run, the user leaves.
    async fn press(&mut self) -> Result<(), Leave> {
        self.screen.edited(false).await?;
        let since = self.stopped.map_or(Duration::MAX, |at| at.elapsed());
        if since < SAME_WORD {
            return Ok(());
        }
        if self.pressed.is_some_and(|at| at.elapsed() < FORGOTTEN_AFTER) || since < AGAIN {
            return Err(Leave::Code(DONE));
        }
        self.pressed = Some(Instant::now());
        self.screen.say(format!("\n{}\n", self.style.dim("(Ctrl-C again, or Ctrl-D, leaves)"))).await?;
        Ok(())
    }

    pub(super) async fn wrong(&mut self, why: &str) -> Result<(), Leave> {
        Ok(self.screen.say(format!("{}\n", self.style.red(&format!("error: {}", indented(why))))).await?)
    }

    // ---- What lines do

    async fn words(&mut self, text: &str) -> Result<(), Leave> {
        let pith = self.ready().await?;
        match mention::with_files(pith.session().cwd(), text) {
            Ok(message) => {
                self.tell_unattached(&message.notes).await?;
                self.prompt(message.content, message.files).await
            }
            Err(why) => {
                text.clone_into(&mut self.restored);
                self.wrong(&why).await
            }
        }
    }

    async fn prompt(&mut self, content: Vec<Content>, files: Vec<String>) -> Result<(), Leave> {
        let pith = self.ready().await?;
        self.tell_attached(&files).await?;
        self.tell_lost(&pith, &content).await?;
        self.screen.run().await?;
        let run = tokio::spawn({
            let pith = pith.clone();
            async move { pith.prompt(content).await }
        });
        let (ended, steered) = self.beside(&pith, run).await?;
        let stopped = match &ended {
            Ok(end) => matches!(end.stop_reason, StopReason::Error | StopReason::Aborted),
            Err(_) => true,
        };
        match ended {
            Ok(end) => self.screen.ended(end).await?,
            Err(error) => self.wrong(&chain(&error)).await?,
        }
        self.screen.settle().await?;
        self.unread(&pith, steered, stopped);
        Ok(())
    }

    /// Words that the run did not come to read: after one that ended well they are the next message, after another they are given back.
    pub(super) fn unread(&mut self, pith: &Pith, mut steered: Vec<String>, stopped: bool) {
        let left = pith.take_back().len();
        let unread = steered.split_off(steered.len().saturating_sub(left));
        if unread.is_empty() {
            return;
        }
        let text = unread.join("\n");
        if stopped {
            // What was being pasted when it stopped comes after what was said.
            let begun = std::mem::take(&mut self.restored);
            self.restored = if begun.is_empty() { text } else { format!("{text}\n{begun}") };
        } else {
            self.later.push_front(Said::Words(text));
        }
    }

    async fn shell(&mut self, command: String, excluded: bool) -> Result<(), Leave> {
        let pith = self.ready().await?;
        let (tool, argument) = SHELL_TOOL;
        let arguments = Map::from_iter([(argument.to_owned(), Value::String(command.clone()))]);
        let call = UserCall { tool: tool.to_owned(), arguments, command, excluded };
        self.screen.own_call().await?;
        let run = tokio::spawn({
            let pith = pith.clone();
            async move { pith.user_call(call).await }
        });
        let (ended, steered): (Result<UserCallEnd, RunError>, _) = self.beside(&pith, run).await?;
        self.screen.settle().await?;
        match ended {
            Ok(end) if end.cancelled => self.screen.say(format!("{}\n", self.style.red("aborted"))).await?,
            Ok(_) => {}
            Err(error) => self.wrong(&chain(&error)).await?,
        }
        self.unread(&pith, steered, false);
        Ok(())
    }

    async fn session(&mut self) -> Result<(), Leave> {
        let pith = self.ready().await?;
        let file = match pith.session_file() {
            Some(file) if file.exists() => harmless_line(&file.to_string_lossy(), NAME_CHARS),
            Some(file) => format!("{} (with the first message)", harmless_line(&file.to_string_lossy(), NAME_CHARS)),
            None => "nowhere (--no-session)".to_owned(),
        };
        let session = pith.session();
        let text = format!(
            "session  {}\nfile     {file}\nmodel    {}\nfolder   {}\nsandbox  {}\n{}",
            harmless_line(session.id().as_str(), NAME_CHARS),
            harmless_line(&pith.model().model.to_string(), NAME_CHARS),
            harmless_line(&session.cwd().to_string_lossy(), NAME_CHARS),
            sandbox(&pith),
            sessions::took(&pith),
        );
        Ok(self.screen.say(text).await?)
    }

    async fn tell_attached(&mut self, files: &[String]) -> Result<(), Leave> {
        if files.is_empty() {
            return Ok(());
        }
        let line = format!("· attached {}", harmless_line(&files.join(", "), NAME_CHARS));
        Ok(self.screen.say(format!("{}\n", self.style.dim(&line))).await?)
    }

    /// Says which words look like files and are none.
    pub(super) async fn tell_unattached(&mut self, notes: &[String]) -> Result<(), Leave> {
        for note in notes {
            self.screen.say(format!("note: {}\n", harmless_line(note, NOTICE_CHARS))).await?;
        }
        Ok(())
    }

    /// Says what the model will not get.
    async fn tell_lost(&mut self, pith: &Pith, content: &[Content]) -> Result<(), Leave> {
        let level = self.options.thinking.as_deref().filter(|_| !std::mem::replace(&mut self.told_thinking, true));
        for line in crate::plan::lost(pith, content, level) {
            self.screen.say(format!("note: {line}\n")).await?;
        }
        Ok(())
    }
}

/// What was pasted is never a command.
pub(super) fn pasted(text: String) -> Said {
    if text.trim().is_empty() { Said::Nothing } else { Said::Words(text) }
}

/// What holds the programs of the session.
fn sandbox(pith: &Pith) -> String {
    let Some(level) = pith.sandbox_level() else { return "none: no plugin may run programs".to_owned() };
    match pith.sandbox_in_force() {
        None => format!("{level} (no program ran yet)"),
        Some(Ok(in_force)) => {
            let gaps: String = in_force.gaps.iter().map(|gap| format!("; {gap}")).collect();
            harmless_line(&format!("{level} by {}{gaps}", in_force.backend), NOTICE_CHARS)
        }
        Some(Err(error)) => harmless_line(&error.to_string(), NOTICE_CHARS),
    }
}
