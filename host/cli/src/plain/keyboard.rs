//! What is typed: by one thread, which is the only one that reads the terminal. At the prompt it edits a line; while something runs, or a
//! question is open, it takes whole lines as the terminal hands them over, and stops at a word.

use super::{editor::LineEditor, modes::Modes};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::Timespec,
    io::{Errno, read},
    stdio::stdin,
};
use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    sync::mpsc,
};

/// The longest line that is taken without the editor, in bytes; more than that begins another.
const LINE_BYTES: usize = 1 << 20;
/// Messages to the conversation that wait.
const TYPED_QUEUE: usize = 64;
/// How often a job in the background looks whether the terminal is its own again.
const BACKGROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// What came from the keyboard.
#[derive(Debug)]
pub enum Typed {
    /// A message; several lines where they were pasted or continued.
    Line(String),
    /// Ctrl-C at the prompt.
    Interrupt,
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
    /// None: the terminal is too simple for it.
    has_editor: bool,
}

impl Keyboard {
    /// Starts the thread. Without an editor every line is taken as the terminal hands it over.
    pub fn start(editor: Option<LineEditor>) -> io::Result<Self> {
        let (woken, wake) = io::pipe()?;
        let (orders, taken) = mpsc::channel();
        let (said, typed) = tokio::sync::mpsc::channel(TYPED_QUEUE);
        let has_editor = editor.is_some();
        let thread = Thread { editor, woken, orders: taken, said };
        // Not joined: it may be in the middle of a line when the program leaves, and nothing ends a read of a terminal.
        std::thread::Builder::new().name("keyboard".to_owned()).spawn(move || thread.serve())?;
        Ok(Self { orders, typed, wake, has_editor })
    }

    /// Whether lines are edited by the editor, which draws its own prompt and takes an initial text.
    pub fn has_editor(&self) -> bool {
        self.has_editor
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

    /// Ends `listen` and `one_line`; gives what came before that and was not taken. Nothing ends `edit` but the user.
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
                        let typed = editor.edit(&initial);
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
        let mut line = Vec::new();
        loop {
            match self.wait() {
                Ok(Ready::Woken) => {
                    let _ = self.woken.read_exact(&mut [0]);
                    return true;
                }
                Ok(Ready::Background) => continue,
                Ok(Ready::Input) => {}
                Err(_) => {
                    self.say(Typed::Gone);
                    return false;
                }
            }
            let mut buffer = [0; 4096];
            match read(stdin(), &mut buffer) {
                Ok(0) if line.is_empty() => {
                    self.say(Typed::End);
                    return false;
                }
                // Ctrl-D in the middle of a line hands over what there is of it.
                Ok(0) => continue,
                Ok(count) => line.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(_) => {
                    self.say(Typed::Gone);
                    return false;
                }
            }
            if line.ends_with(b"\n") || line.len() >= LINE_BYTES {
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                line.clear();
                if !self.say(Typed::Line(text)) || one {
                    return false;
                }
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let background = !Modes::in_foreground();
        let input = stdin();
        let (mut both, mut wake) = (
            [PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&input, PollFlags::IN)],
            [PollFd::new(&self.woken, PollFlags::IN)],
        );
        let polled = if background { poll(&mut wake, Some(&BACKGROUND)) } else { poll(&mut both, None) };
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
            Ready::Background
        })
    }
}

enum Ready {
    Woken,
    Input,
    /// Nothing to read, or not now.
    Background,
}
