//! What is typed: by one thread, which is the only one that reads the terminal. At the prompt it edits a line; while something runs, or a
//! question is open, it takes whole lines as the terminal hands them over, and stops at a word.

use super::{
    editor::LineEditor,
    modes::{EditModes, Modes},
    pasted::Gathered,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::Timespec,
    io::{Errno, read},
    stdio::stdin,
};
use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    sync::{Arc, mpsc},
};

/// Messages to the conversation that wait.
const TYPED_QUEUE: usize = 64;
/// How soon after a line another one belongs to the same message: they were pasted, for nobody types that fast.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 30_000_000 };
/// How often a job in the background looks whether the terminal is its own again.
const BACKGROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// What came from the keyboard.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// A message or a command; of the editor, several lines where they were pasted or continued.
    Line(String),
    /// A message that is no command, whatever it looks like: it was pasted.
    Pasted(String),
    /// The beginning of one that `stop` cut short.
    Unfinished(String),
    /// Ctrl-C at the prompt.
    Interrupt,
    /// The same, of a line that had words on it.
    GivenUp,
    /// Ctrl-D.
    End,
    /// The terminal cannot be read any more.
    Gone,
    /// An answer to `Keyboard::stop`.
    Stopped,
}

enum Order {
    Edit(String),
    /// Whole lines; only one where `true`.
    Lines(bool),
    Stop,
}

/// The thread's other side.
pub struct Keyboard {
    orders: mpsc::Sender<Order>,
    typed: tokio::sync::mpsc::Receiver<Typed>,
    wake: PipeWriter,
    modes: Arc<EditModes>,
    /// None: the terminal is too simple for it.
    has_editor: bool,
}

impl Keyboard {
    /// Starts the thread. Without an editor every line is taken as the terminal hands it over.
    pub fn start(editor: Option<LineEditor>, modes: EditModes) -> io::Result<Self> {
        let modes = Arc::new(modes);
        let (woken, wake) = io::pipe()?;
        let (orders, taken) = mpsc::channel();
        let (said, typed) = tokio::sync::mpsc::channel(TYPED_QUEUE);
        let has_editor = editor.is_some();
        let thread = Thread { editor, modes: modes.clone(), woken, orders: taken, said };
        // Not joined: it may be in the middle of a line when the program leaves, and nothing ends a read of a terminal.
        std::thread::Builder::new().name("keyboard".to_owned()).spawn(move || thread.serve())?;
        Ok(Self { orders, typed, wake, modes, has_editor })
    }

    /// Whether lines are edited by the editor, which draws its own prompt and takes an initial text.
    pub fn has_editor(&self) -> bool {
        self.has_editor
    }

    /// After the process was stopped and goes on: whether a line is edited that has to be drawn again.
    pub fn take_up(&self) -> bool {
        self.modes.take_up()
    }

    /// One line, at the prompt. What is typed comes by `next`.
    pub fn edit(&self, initial: String) {
        self.order(if self.has_editor { Order::Edit(initial) } else { Order::Lines(true) });
    }

    /// Lines, one after the other, until `stop`.
    pub fn listen(&self) {
        self.order(Order::Lines(false));
    }

    /// One line, without the editor.
    pub fn one_line(&self) {
        self.order(Order::Lines(true));
    }

    /// What was typed next.
    pub async fn next(&mut self) -> Typed {
        self.typed.recv().await.unwrap_or(Typed::Gone)
    }

    /// Ends `listen` and `one_line`; gives what came before that and was not taken, a paste as far as it came among it. Nothing ends `edit` but the user.
    pub async fn stop(&mut self) -> Vec<Typed> {
        let mut before = Vec::new();
        // The byte first, so that it is there when the order is read.
        if self.wake.write_all(b"s").is_err() {
            return before;
        }
        self.order(Order::Stop);
        loop {
            match self.next().await {
                Typed::Stopped => return before,
                gone @ Typed::Gone => {
                    before.push(gone);
                    return before;
                }
                typed => before.push(typed),
            }
        }
    }

    /// A thread that is gone is noticed by `next`.
    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }
}

struct Thread {
    editor: Option<LineEditor>,
    modes: Arc<EditModes>,
    woken: PipeReader,
    orders: mpsc::Receiver<Order>,
    said: tokio::sync::mpsc::Sender<Typed>,
}

impl Thread {
    fn serve(mut self) {
        let mut woken = false;
        while let Ok(order) = self.orders.recv() {
            let kept_on = match order {
                Order::Edit(initial) => match &mut self.editor {
                    Some(editor) => {
                        self.modes.begin();
                        let typed = editor.edit(&initial);
                        self.modes.end();
                        self.say(typed)
                    }
                    None => true,
                },
                Order::Lines(one) => {
                    woken = self.lines(one);
                    true
                }
                Order::Stop => {
                    if !std::mem::take(&mut woken) {
                        let _ = self.woken.read_exact(&mut [0]);
                    }
                    self.say(Typed::Stopped)
                }
            };
            if !kept_on {
                return;
            }
        }
    }

    fn say(&self, typed: Typed) -> bool {
        self.said.blocking_send(typed).is_ok()
    }

    /// Takes lines until it is woken, which it says, or the input ends.
    fn lines(&mut self, one: bool) -> bool {
        let mut gathered = Gathered::default();
        let mut ended = false;
        loop {
            match self.wait(gathered.is_whole()) {
                Ok(Ready::Woken) => {
                    let _ = self.woken.read_exact(&mut [0]);
                    if !gathered.is_empty() {
                        self.say(gathered.take());
                    }
                    return true;
                }
                Ok(Ready::Input) if !gathered.is_full() => match read_some() {
                    // Ctrl-D in the middle of a line hands over what there is of it; a terminal that is gone ends again and again.
                    Ok(None)
                        if !gathered.is_empty() && !gathered.is_whole() && !std::mem::replace(&mut ended, true) => {}
                    Ok(None) => {
                        if !gathered.is_empty() {
                            self.say(gathered.take());
                        }
                        self.say(Typed::End);
                        return false;
                    }
                    Ok(Some(bytes)) => {
                        ended = false;
                        gathered.push(&bytes);
                    }
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(_) => {
                        self.say(Typed::Gone);
                        return false;
                    }
                },
                Ok(Ready::Input | Ready::Nothing) if gathered.is_whole() => {
                    if !self.say(gathered.take()) || one {
                        return false;
                    }
                }
                Ok(Ready::Input | Ready::Nothing) => {}
                Err(_) => {
                    self.say(Typed::Gone);
                    return false;
                }
            }
        }
    }

    /// Waits for input; only for a moment where it would belong to what is there.
    fn wait(&self, briefly: bool) -> io::Result<Ready> {
        let background = !Modes::in_foreground();
        let input = stdin();
        let (mut both, mut wake) = (
            [PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&input, PollFlags::IN)],
            [PollFd::new(&self.woken, PollFlags::IN)],
        );
        let at_once = briefly.then_some(&AT_ONCE);
        let polled =
            if background { poll(&mut wake, Some(at_once.unwrap_or(&BACKGROUND))) } else { poll(&mut both, at_once) };
        match polled {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let came = |fd: &PollFd<'_>| !fd.revents().is_empty();
        Ok(if came(&wake[0]) || came(&both[0]) {
            Ready::Woken
        } else if came(&both[1]) && Modes::in_foreground() {
            Ready::Input
        } else {
            Ready::Nothing
        })
    }
}

enum Ready {
    Woken,
    Input,
    /// Nothing to read, or not now.
    Nothing,
}

/// What one read gives; none at the input's end.
fn read_some() -> Result<Option<Vec<u8>>, Errno> {
    let mut buffer = vec![0; 4096];
    let count = read(stdin(), &mut buffer)?;
    buffer.truncate(count);
    Ok((count > 0).then_some(buffer))
}
