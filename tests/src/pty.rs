//! `pith` on a pseudo-terminal of its own, as a person has it: keys go in, a screen's bytes come out.

use crate::home::Home;
use nix::{
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt},
};
use rustix::{
    process::{Pid, Signal, kill_process},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long anything that is waited for may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How often ends are looked for.
const POLL_MS: u8 = 10;

/// A terminal with `pith` in its foreground. Dropped, `pith` is killed.
pub struct Terminal {
    child: Child,
    master: File,
    /// Keeps the terminal's modes readable after `pith` has ended.
    slave: OwnedFd,
    screen: Arc<Screen>,
    reader: Option<JoinHandle<()>>,
    /// What was waited for and came, in bytes of the plain text.
    seen: usize,
}

#[derive(Default)]
struct Screen {
    bytes: Mutex<Vec<u8>>,
    more: Condvar,
    over: AtomicBool,
}

impl Screen {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Terminal {
    /// `pith` on an `xterm` of 100 columns, without colours.
    ///
    /// # Panics
    /// Where there is no pseudo-terminal, or no `setsid` of util-linux.
    pub fn start(home: &Home, args: &[&str]) -> Self {
        let mut command = home.command(args);
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        Self::of(&command)
    }

    /// Any command: its program, arguments, environment and folder.
    ///
    /// # Panics
    /// As `start`.
    pub fn of(command: &Command) -> Self {
        let (master, slave) = pair();
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        // `setsid -c` makes the terminal the controlling one and becomes the program: the child's id is the program's.
        let mut session = Command::new("setsid");
        session.arg("-c").arg(command.get_program()).args(command.get_args()).env_clear();
        session.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            session.current_dir(folder);
        }
        let child = session.stdin(end()).stdout(end()).stderr(end()).spawn().expect("setsid is there");
        let screen = Arc::new(Screen::default());
        let (from, shown) = (master.try_clone().expect("a descriptor"), screen.clone());
        let reader = Some(thread::spawn(move || read_all(from, &shown)));
        Self { child, master, slave, screen, reader, seen: 0 }
    }

    /// Presses keys.
    ///
    /// # Panics
    /// Where the terminal is gone.
    #[track_caller]
    pub fn keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Types a line and presses Enter.
    #[track_caller]
    pub fn line(&mut self, line: &str) {
        self.keys(&format!("{line}\r"));
    }

    /// Waits for the prompt, and until keys are read one by one there (where `TERM` allows that).
    #[track_caller]
    pub fn prompt(&mut self) {
        self.waits("> ");
    }

    /// Waits for a text, after all that was waited for before.
    ///
    /// # Panics
    /// Where it does not come in time, or `pith` ends first.
    #[track_caller]
    pub fn waits(&mut self, text: &str) {
        let until = Instant::now() + LIMIT;
        let mut ended = false;
        loop {
            let bytes = self.screen.lock();
            let plain = plain(&bytes);
            let rest = plain.get(self.seen.min(plain.len())..).unwrap_or_default();
            if let Some(at) = rest.find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(!ended, "pith ended before {text:?} came:\n{plain}");
            assert!(Instant::now() < until, "{text:?} did not come:\n{rest}\n--- the whole\n{plain}");
            let wait = Duration::from_millis(POLL_MS.into());
            let waited = self.screen.more.wait_timeout(bytes, wait).unwrap_or_else(PoisonError::into_inner);
            // What it wrote before it ended may still be on its way.
            ended = waited.1.timed_out() && self.child.try_wait().is_ok_and(|status| status.is_some());
            drop(waited);
        }
    }

    /// All that was shown, without the escapes of colours and of the line editor.
    pub fn shown(&self) -> String {
        plain(&self.screen.lock())
    }

    /// All that was shown, as it was.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock()).into_owned()
    }

    /// Makes it another size; the kernel tells the foreground.
    ///
    /// # Panics
    /// Where the terminal is gone.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).expect("a terminal has a size");
    }

    /// Whether it echoes and hands over whole lines: the modes that it began with.
    ///
    /// # Panics
    /// Where the terminal is gone.
    pub fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.slave).expect("a terminal has modes").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Waits until the terminal is in the modes of lines, or of keys.
    ///
    /// # Panics
    /// Where that does not come.
    #[track_caller]
    pub fn waits_for_lines(&self, lines: bool) {
        let until = Instant::now() + LIMIT;
        while self.is_cooked() != lines {
            assert!(Instant::now() < until, "lines: {}\n{}", self.is_cooked(), self.shown());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a signal to `pith` alone.
    ///
    /// # Panics
    /// Where it has ended.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is there");
    }

    /// Its process.
    ///
    /// # Panics
    /// Never: a child has an id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for its end; gives its exit code and all that was shown.
    ///
    /// # Panics
    /// Where it does not end in time, or leaves the terminal in other modes.
    #[track_caller]
    pub fn finish(mut self) -> (Option<i32>, String) {
        let status = self.wait();
        self.stop_reading();
        let shown = self.shown();
        assert!(!shown.contains("panicked at"), "it panicked:\n{shown}");
        assert!(self.is_cooked(), "the terminal's modes are not as they were:\n{shown}");
        (status.code(), shown)
    }

    /// Closes the terminal under it, as when its window is closed; gives its exit code.
    #[track_caller]
    pub fn hang_up(mut self) -> Option<i32> {
        self.stop_reading();
        let null = || File::open("/dev/null").expect("it is there");
        self.master = null();
        self.slave = null().into();
        self.wait().code()
    }

    fn stop_reading(&mut self) {
        self.screen.over.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }

    /// Ended with this code.
    #[track_caller]
    pub fn exits(self, code: i32) -> String {
        let (ended, shown) = self.finish();
        assert_eq!(ended, Some(code), "exit code:\n{shown}");
        shown
    }

    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            assert!(Instant::now() < until, "it did not end:\n{}", self.shown());
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.stop_reading();
    }
}

/// Both ends, neither of which a child inherits: one that did would keep the terminal open.
fn pair() -> (File, OwnedFd) {
    let master: PtyMaster =
        posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).expect("a pseudo-terminal");
    grantpt(&master).expect("it is ours");
    unlockpt(&master).expect("it is ours");
    let name = ptsname_r(&master).expect("it has a name");
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits())
        .open(name)
        .expect("its other end");
    let master = File::from(OwnedFd::from(master));
    tcsetwinsize(&master, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).expect("it has a size");
    (master, slave.into())
}

/// Keeps what comes, until it is over.
fn read_all(mut from: File, screen: &Screen) {
    let mut buffer = [0; 4096];
    loop {
        // What is there is read to its end, also when it is over.
        let over = screen.over.load(Ordering::Relaxed);
        let mut came = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
        match poll(&mut came, PollTimeout::from(POLL_MS)) {
            Ok(count) if count > 0 => {}
            _ if over => return,
            _ => continue,
        }
        match from.read(&mut buffer) {
            Ok(count) if count > 0 => {
                screen.lock().extend_from_slice(&buffer[..count]);
                screen.more.notify_all();
            }
            _ => return,
        }
    }
}

/// Text without escapes and carriage returns. Only what the host itself writes has any: what tests look for is in the rest.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                while chars.next_if(|c| !('\u{40}'..='\u{7e}').contains(c)).is_some() {}
                chars.next();
            }
            '\r' => {}
            c => out.push(c),
        }
    }
    out
}
