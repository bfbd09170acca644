//! What is shown: by one task, which is the only one that writes while a conversation goes on. A terminal that takes nothing (Ctrl-S) holds
//! it up, and with it the run, never the signals.

use super::{editor::Above, style::Style, transcript::Transcript};
use futures::FutureExt;
use pith_protocol::Event;
use pith_runtime::{Inbox, RunEnd};
use std::{
    collections::HashSet,
    io::{self, Write},
    time::Instant,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// Words that wait to be shown.
const SCREEN_QUEUE: usize = 64;

const BRACKETS_ON: &str = "\u{1b}[?2004h";
const BRACKETS_OFF: &str = "\u{1b}[?2004l";

/// What the conversation tells the screen.
enum Told {
    /// The host's own text, ready to be written.
    Say(String),
    Attach(Inbox, HashSet<String>),
    /// A run begins.
    Run,
    /// A call of the user's begins.
    Own,
    Ended(Box<RunEnd>),
    /// The user's next line is edited: what comes is shown above it.
    Edited(bool),
    /// The line that is edited is drawn again.
    Redraw,
    /// Whether the terminal shall say what is pasted.
    Brackets(bool),
    /// Events wait while a question is open.
    Hold(bool),
    /// The user pressed Enter.
    Returned,
    /// All that was sent before is shown.
    Settle(oneshot::Sender<()>),
}

/// The terminal takes no more.
#[derive(Debug)]
pub struct ScreenGone;

/// The task's other side.
pub struct Screen {
    told: mpsc::Sender<Told>,
    /// Ends when the other side is dropped, or when nothing can be written.
    _task: JoinHandle<()>,
}

impl Screen {
    /// Starts the task, on a thread that may block. `above` shows text above a line that is edited.
    pub fn start(style: Style, above: Option<Above>) -> Self {
        let (told, heard) = mpsc::channel(SCREEN_QUEUE);
        let shown = Shown {
            transcript: Transcript::new(style),
            inbox: None,
            held: false,
            edited: false,
            mode: "",
            above,
            heard,
        };
        Self { told, _task: tokio::task::spawn_blocking(move || shown.serve()) }
    }

    /// Shows a text of the host's own, which is harmless, on lines of its own.
    pub async fn say(&self, text: impl Into<String>) -> Result<(), ScreenGone> {
        self.tell(Told::Say(text.into())).await
    }

    /// The same from a thread that must not wait; dropped where too much waits already.
    pub fn offer(&self, text: String) {
        let _ = self.told.try_send(Told::Say(text));
    }

    /// Shows the events of this session from here on; of what the `readers` among its tools give, the size.
    pub async fn attach(&self, inbox: Inbox, readers: HashSet<String>) -> Result<(), ScreenGone> {
        self.tell(Told::Attach(inbox, readers)).await
    }

    /// A run begins, whose message the user typed.
    pub async fn run(&self) -> Result<(), ScreenGone> {
        self.tell(Told::Run).await
    }

    /// A call of the user's begins: its output is shown as it comes.
    pub async fn own_call(&self) -> Result<(), ScreenGone> {
        self.tell(Told::Own).await
    }

    /// How a run ended.
    pub async fn ended(&self, end: RunEnd) -> Result<(), ScreenGone> {
        self.tell(Told::Ended(Box::new(end))).await
    }

    /// Whether the user's next line is being edited.
    pub async fn edited(&self, edited: bool) -> Result<(), ScreenGone> {
        self.tell(Told::Edited(edited)).await
    }

    /// Draws the line again that is being edited.
    pub async fn redraw(&self) -> Result<(), ScreenGone> {
        self.tell(Told::Redraw).await
    }

    /// Whether the terminal shall put brackets round what is pasted into whole lines. The editor sees to its own.
    pub async fn brackets(&self, wanted: bool) -> Result<(), ScreenGone> {
        self.tell(Told::Brackets(wanted)).await
    }

    /// Whether a question is open.
    pub async fn hold(&self, held: bool) -> Result<(), ScreenGone> {
        self.tell(Told::Hold(held)).await
    }

    /// The user pressed Enter.
    pub async fn returned(&self) -> Result<(), ScreenGone> {
        self.tell(Told::Returned).await
    }

    /// Waits until all that happened is shown.
    pub async fn settle(&self) -> Result<(), ScreenGone> {
        let (done, shown) = oneshot::channel();
        self.tell(Told::Settle(done)).await?;
        shown.await.map_err(|_| ScreenGone)
    }

    async fn tell(&self, told: Told) -> Result<(), ScreenGone> {
        self.told.send(told).await.map_err(|_| ScreenGone)
    }
}

/// The task.
struct Shown {
    transcript: Transcript,
    inbox: Option<Inbox>,
    held: bool,
    edited: bool,
    /// What the terminal is told after the text that waits.
    mode: &'static str,
    above: Option<Above>,
    heard: mpsc::Receiver<Told>,
}

enum Next {
    Event(Option<Event>),
    Told(Option<Told>),
    Tick,
}

impl Shown {
    fn serve(mut self) {
        let runtime = tokio::runtime::Handle::current();
        loop {
            match runtime.block_on(self.next()) {
                Next::Event(Some(event)) => self.transcript.show(&event),
                Next::Event(None) => self.inbox = None,
                Next::Told(Some(told)) => self.hear(told),
                Next::Told(None) => return,
                Next::Tick => self.transcript.tick(),
            }
            if self.write().is_err() {
                return;
            }
        }
    }

    async fn next(&mut self) -> Next {
        let tick = if self.held { None } else { self.transcript.next_tick() };
        let due = async move {
            match tick {
                Some(at) => tokio::time::sleep_until(at.max(Instant::now()).into()).await,
                None => std::future::pending().await,
            }
        };
        let held = self.held;
        let inbox = &mut self.inbox;
        let event = async move {
            match inbox {
                Some(inbox) if !held => inbox.next().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            told = self.heard.recv() => Next::Told(told),
            event = event => Next::Event(event),
            () = due => Next::Tick,
        }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Say(text) => self.transcript.say(&text),
            Told::Attach(inbox, readers) => {
                self.inbox = Some(inbox);
                self.transcript.know_readers(readers);
            }
            Told::Run => self.transcript.begin(),
            Told::Own => self.transcript.begin_own(),
            Told::Ended(end) => {
                self.show_waiting();
                self.transcript.end(&end);
            }
            Told::Edited(edited) => self.edited = edited,
            Told::Redraw => {
                // Nothing, shown above it. A terminal that is gone is met by the next words too.
                if let (true, Some(above)) = (self.edited, &mut self.above) {
                    let _ = above.print(String::new());
                }
            }
            Told::Brackets(wanted) => self.mode = if wanted { BRACKETS_ON } else { BRACKETS_OFF },
            Told::Hold(held) => self.held = held,
            Told::Returned => self.transcript.returned(),
            Told::Settle(done) => {
                self.show_waiting();
                // A listener that is gone does not wait.
                if self.write().is_ok() {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Shows the events that are there already.
    fn show_waiting(&mut self) {
        while let Some(inbox) = self.inbox.as_mut().filter(|_| !self.held)
            && let Some(Some(event)) = inbox.next().now_or_never()
        {
            self.transcript.show(&event);
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let mut text = self.transcript.take();
        text.push_str(std::mem::take(&mut self.mode));
        if text.is_empty() {
            return Ok(());
        }
        if let (true, Some(above)) = (self.edited, &mut self.above) {
            return above.print(text).map_err(|error| io::Error::other(error.to_string()));
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}
