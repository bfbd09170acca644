//! A child process and its whole group: started apart, read without waiting for its daemons, killed and reaped with the handle.

mod group;
mod pipes;

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::Duration;

use process_wrap::tokio::ChildWrapper;
use rustix::process::Pid;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until, timeout};

pub use group::Group;

use group::Watch;
use pipes::{Pipe, Stream, feed, read_either};

use crate::harden::seal_descriptors;
use crate::place::Place;
use crate::process::{Chunk, Command, Exit, ProcessError, STDIN_PENDING_BYTES};

/// After the program's own end a pipe that somebody else still holds is read until it was silent this long.
pub const DRAIN_IDLE: Duration = Duration::from_millis(100);
/// The most that such reading may last, however busy the pipe is.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// The most that is read so, in bytes: whatever the program itself left in its pipes fits in.
pub const DRAIN_LIMIT_BYTES: usize = 2 * 1024 * 1024;
/// The longest that a start may take.
pub const START_LIMIT: Duration = Duration::from_secs(45);
/// How long a killed program may take to become reapable before that is left to the runtime.
const REAP_LIMIT: Duration = Duration::from_secs(1);

/// A running program. Dropping it kills its whole process group; background jobs that it left included, if they stayed in the group.
#[derive(Debug)]
pub struct Child {
    inner: Box<dyn ChildWrapper>,
    /// Also its group's and its session's number. Not reaped before the handle goes (on Linux), so the number is nobody else's.
    pid: Pid,
    group: Group,
    watch: Watch,
    /// Another program stands between, and tells how the program ended.
    is_wrapped: bool,
    stdin: Option<pipe::Sender>,
    stdin_pending: VecDeque<u8>,
    stdin_open: bool,
    stdout: Option<Pipe>,
    stderr: Option<Pipe>,
    deadline: Option<Instant>,
    timed_out: bool,
    killed: bool,
    ended: Option<Ended>,
    /// The pipes are closed; nothing but the exit comes any more.
    over: bool,
    reaped: bool,
}

#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    signal: Option<i32>,
    at: Instant,
    last_chunk: Instant,
    drained_bytes: usize,
}

enum Event {
    Ended(io::Result<(Option<i32>, Option<i32>)>),
    Deadline,
    Fed(io::Result<usize>),
    Read(Stream, io::Result<usize>),
    Quiet,
    WaitOver,
}

impl Child {
    /// [`Child::spawn`] on a thread that may block: folder and program may lie on a disk that hangs. Dropped meanwhile, what was started is killed.
    ///
    /// Errors: those of [`Child::spawn`]; `TimedOut` as `Io` where the start takes longer than [`START_LIMIT`].
    pub async fn start(command: Command) -> Result<Self, ProcessError> {
        let spawned = tokio::task::spawn_blocking(move || Self::spawn(command));
        match timeout(START_LIMIT, spawned).await {
            Ok(spawned) => spawned.map_err(io::Error::other)?,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the start took too long: a disk may hang").into()),
        }
    }

    /// Starts a program. Needs a tokio runtime with IO and time. Blocks until the program is loaded. The first one of a sandbox decides what that
    /// is made of, which takes some milliseconds; see [`crate::Sandbox::in_force`].
    ///
    /// Errors: `Invalid`, `Folder`, `Spawn`, `Sandbox`, `Io` (no descriptors left for pipes).
    pub fn spawn(mut command: Command) -> Result<Self, ProcessError> {
        check(&command)?;
        let program = command.program.clone();
        if command.sandbox.is_some() {
            // Asked now: what stands between could only say it in words of its own.
            let asked = rustix::fs::access(&program, rustix::fs::Access::EXEC_OK);
            asked.map_err(|error| ProcessError::Spawn { program: program.clone(), source: error.into() })?;
        }
        let place = Place::of(&mut command)?;
        let is_wrapped = place.is_wrapped();
        let (stdout, out_end) = io::pipe()?;
        let (stderr, err_end) = if command.merge_stderr {
            (None, out_end.try_clone()?)
        } else {
            let (reader, writer) = io::pipe()?;
            (Some(reader), writer)
        };
        let has_stdin = command.stdin_open || !command.stdin.is_empty();
        let (stdin, in_end) = if has_stdin {
            let (reader, writer) = io::pipe()?;
            (Some(pipe::Sender::from_owned_fd(writer.into())?), Stdio::from(reader))
        } else {
            (None, Stdio::null())
        };
        let stdout = Pipe::new(stdout)?;
        let stderr = stderr.map(Pipe::new).transpose()?;

        let mut start = tokio::process::Command::new(&command.program);
        start.args(&command.args).current_dir(&command.cwd).env_clear().envs(command.env);
        start.stdin(in_end).stdout(out_end).stderr(err_end);
        // What a library opened without close-on-exec since the start.
        seal_descriptors();
        let deadline = command.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let spawned = place.start(start)?;
        // The group's wrapper waits for the whole group; a daemon must not hang us, so only the program itself is waited for.
        let inner = spawned.map_err(|source| ProcessError::Spawn { program, source })?.into_inner();
        let pid = inner.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| io::Error::other("a child without a number"))?;
        forbid_core(pid);
        give_back_open_files(pid);
        Ok(Self {
            inner,
            pid,
            group: Group::new(pid),
            watch: Watch::new(pid),
            is_wrapped,
            stdin,
            stdin_pending: command.stdin.into(),
            stdin_open: command.stdin_open,
            stdout: Some(stdout),
            stderr,
            deadline,
            timed_out: false,
            killed: false,
            ended: None,
            over: false,
            reaped: false,
        })
    }

    /// The program's process number, which is its group's and its session's too.
    pub fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// The next piece of output; [`Chunk::Exit`] after the last, again and again. Feeds standard input and keeps the timeout
    /// meanwhile: both happen only while somebody waits here. May be dropped at any time without losing output.
    ///
    /// Errors: `Limit` (nothing came within `wait`), `Io`.
    pub async fn next(&mut self, wait: Option<Duration>) -> Result<Chunk, ProcessError> {
        let until = wait.and_then(|wait| Instant::now().checked_add(wait));
        loop {
            if self.is_drained() {
                self.close_pipes();
            }
            if let (true, Some(ended)) = (self.over, &self.ended) {
                return Ok(Chunk::Exit(Exit {
                    code: ended.code,
                    signal: ended.signal,
                    timed_out: self.timed_out,
                    spool: None,
                }));
            }
            match self.event(until).await {
                Event::Ended(status) => {
                    let ((code, signal), now) = (self.told(status?), Instant::now());
                    self.ended = Some(Ended { code, signal, at: now, last_chunk: now, drained_bytes: 0 });
                }
                Event::Deadline => {
                    self.deadline = None;
                    self.timed_out = true;
                    self.kill();
                }
                Event::Fed(Ok(count)) => self.fed(count),
                // The child does not want it.
                Event::Fed(Err(_)) => self.drop_stdin(),
                Event::Read(stream, Ok(count)) if count > 0 => return Ok(self.chunk(stream, count)),
                Event::Read(stream, _) => *self.pipe(stream) = None,
                Event::Quiet => match self.read_now() {
                    Some((stream, count)) => return Ok(self.chunk(stream, count)),
                    None => self.close_pipes(),
                },
                Event::WaitOver => {
                    let there = self.read_now();
                    return there.map(|(stream, count)| self.chunk(stream, count)).ok_or(ProcessError::Limit);
                }
            }
        }
    }

    /// Gives more to standard input. Does not wait: what the pipe does not take is fed by [`Child::next`].
    ///
    /// Errors: `StdinClosed`; `Limit` where more than [`STDIN_PENDING_BYTES`] would wait, nothing of `bytes` is taken then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ProcessError> {
        let Some(stdin) = self.stdin.as_ref().filter(|_| self.stdin_open) else {
            return Err(ProcessError::StdinClosed);
        };
        if self.stdin_pending.len().saturating_add(bytes.len()) > STDIN_PENDING_BYTES {
            return Err(ProcessError::Limit);
        }
        self.stdin_pending.extend(bytes);
        // Past tokio's idea of readiness, which is only as fresh as its last turn.
        match rustix::io::write(stdin, self.stdin_pending.as_slices().0) {
            Ok(count) => self.fed(count),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => {
                self.drop_stdin();
                return Err(ProcessError::StdinClosed);
            }
        }
        Ok(())
    }

    /// Ends standard input after what was given so far.
    pub fn close_stdin(&mut self) {
        self.stdin_open = false;
        self.fed(0);
    }

    /// Kills the whole process group, at once and for good. The exit still comes from [`Child::next`].
    pub fn kill(&mut self) {
        self.killed = true;
        self.group.kill();
    }

    /// Its process group, to be killed from elsewhere, without waiting for whoever has the child.
    pub fn group(&self) -> Group {
        self.group.clone()
    }

    /// Kills the group and reaps the program: at most about a second. A drop does the same without waiting.
    pub async fn close(mut self) {
        self.group.end();
        self.close_pipes();
        // Longer than the limit only in an uninterruptible system call; then the drop leaves it to the runtime.
        self.reaped = timeout(REAP_LIMIT, self.inner.wait()).await.is_ok();
    }

    async fn event(&mut self, until: Option<Instant>) -> Event {
        let quiet_at = self.ended.as_ref().map(|ended| {
            let limit = if self.killed { DRAIN_IDLE } else { DRAIN_LIMIT };
            (ended.last_chunk + DRAIN_IDLE).min(ended.at + limit)
        });
        let has_ended = self.ended.is_some();
        let deadline = self.deadline.filter(|_| !has_ended);
        let feeds = self.stdin.is_some() && !self.stdin_pending.is_empty();
        // In this order: a flood must hide neither the end nor the deadline, and what is there is read before time runs out.
        tokio::select! {
            biased;
            status = self.watch.ended(self.pid, &mut self.inner), if !has_ended => Event::Ended(status),
            () = reached(deadline) => Event::Deadline,
            fed = feed(&self.stdin, self.stdin_pending.as_slices().0), if feeds => Event::Fed(fed),
            (stream, read) = read_either(&mut self.stdout, &mut self.stderr) => Event::Read(stream, read),
            () = reached(quiet_at) => Event::Quiet,
            () = reached(until) => Event::WaitOver,
        }
    }

    #[cfg(target_os = "linux")]
    fn told(&self, (code, signal): (Option<i32>, Option<i32>)) -> (Option<i32>, Option<i32>) {
        if self.is_wrapped { crate::sandbox::ending(code, signal) } else { (code, signal) }
    }

    #[cfg(not(target_os = "linux"))]
    fn told(&self, ended: (Option<i32>, Option<i32>)) -> (Option<i32>, Option<i32>) {
        ended
    }

    fn pipe(&mut self, stream: Stream) -> &mut Option<Pipe> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn chunk(&mut self, stream: Stream, count: usize) -> Chunk {
        if let Some(ended) = &mut self.ended {
            ended.last_chunk = Instant::now();
            ended.drained_bytes = ended.drained_bytes.saturating_add(count);
        }
        let bytes = self.pipe(stream).as_ref().and_then(|pipe| pipe.buffer.get(..count)).unwrap_or_default().to_vec();
        match stream {
            Stream::Stdout => Chunk::Stdout(bytes),
            Stream::Stderr => Chunk::Stderr(bytes),
        }
    }

    /// What lies in a pipe although tokio has not heard of it yet.
    fn read_now(&mut self) -> Option<(Stream, usize)> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(pipe) = self.pipe(stream)
                && let Ok(count @ 1..) = rustix::io::read(&pipe.reader, &mut pipe.buffer[..])
            {
                return Some((stream, count));
            }
        }
        None
    }

    fn is_drained(&self) -> bool {
        let pipes_closed = self.stdout.is_none() && self.stderr.is_none();
        self.ended.as_ref().is_some_and(|ended| pipes_closed || ended.drained_bytes >= DRAIN_LIMIT_BYTES)
    }

    fn close_pipes(&mut self) {
        self.over = true;
        self.stdout = None;
        self.stderr = None;
        self.drop_stdin();
    }

    fn fed(&mut self, count: usize) {
        self.stdin_pending.drain(..count.min(self.stdin_pending.len()));
        if self.stdin_pending.is_empty() && !self.stdin_open {
            self.stdin = None;
        }
    }

    fn drop_stdin(&mut self) {
        self.stdin = None;
        self.stdin_pending = VecDeque::new();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.group.end();
            // Often too early; dropped unreaped, tokio keeps it in its queue of orphans and reaps it at the next SIGCHLD.
            let _ = self.inner.try_wait();
        }
    }
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

fn check(command: &Command) -> Result<(), ProcessError> {
    let invalid = |reason| Err(ProcessError::Invalid { reason });
    if !command.program.is_absolute() {
        return invalid("the program's path is not absolute");
    }
    if !command.cwd.is_absolute() {
        return invalid("the working folder is not absolute");
    }
    if command.args.iter().any(|arg| arg.as_bytes().contains(&0)) {
        return invalid("an argument holds a NUL");
    }
    for (name, value) in &command.env {
        if name.is_empty() || name.as_bytes().iter().any(|byte| matches!(byte, 0 | b'=')) {
            return invalid("a variable's name is empty or holds '=' or a NUL");
        }
        if value.as_bytes().contains(&0) {
            return invalid("a variable's value holds a NUL");
        }
    }
    // Asked apart: the start itself says only "not found", of whichever.
    let folder = |source| ProcessError::Folder { path: command.cwd.clone(), source };
    if !std::fs::metadata(&command.cwd).map_err(folder)?.is_dir() {
        return Err(folder(io::ErrorKind::NotADirectory.into()));
    }
    Ok(())
}

/// Where the process that embeds us did not call [`crate::harden_process`], the child at least loses its core dumps, from its first
/// microseconds on.
#[cfg(target_os = "linux")]
fn forbid_core(pid: Pid) {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    let inherited = getrlimit(Resource::Core);
    if (inherited.current, inherited.maximum) != (Some(0), Some(0)) {
        // Fails only where the program is another user's (setuid), whose dumps the kernel forbids itself.
        let _ = prlimit(Some(pid), Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    }
}

#[cfg(not(target_os = "linux"))]
fn forbid_core(_pid: Pid) {}

/// The limit that the user had set, where [`crate::raise_open_files`] raised it: from the child's first microseconds on.
#[cfg(target_os = "linux")]
fn give_back_open_files(pid: Pid) {
    if let Some(before) = crate::harden::open_files_before() {
        let _ = rustix::process::prlimit(Some(pid), rustix::process::Resource::Nofile, before);
    }
}

#[cfg(not(target_os = "linux"))]
fn give_back_open_files(_pid: Pid) {}
