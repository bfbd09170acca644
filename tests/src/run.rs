//! A program that runs, or ran: its words, its end, and a deadline that it cannot outlive.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How often an end is looked for.
const POLL: Duration = Duration::from_millis(1);

/// A program that ran.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it was called with.
    pub command: String,
    /// Its exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output, lossy.
    pub stdout: String,
    /// Standard error, lossy.
    pub stderr: String,
    /// From spawn to end.
    pub wall: Duration,
}

impl Run {
    /// Ended with this exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit code: {self}");
        assert!(!self.stderr.contains("panicked at"), "it panicked: {self}");
        self
    }

    /// Ended well.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// Standard output has this in it.
    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "standard output has no {text:?}: {self}");
        self
    }

    /// Standard error has this in it.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "standard error has no {text:?}: {self}");
        self
    }

    /// Standard output's lines as JSON: the header and the events of `--mode json`.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let parse = |line: &str| match serde_json::from_str(line) {
            Ok(value) => value,
            Err(error) => panic!("{error} in the line {line:?}: {self}"),
        };
        self.stdout.lines().map(parse).collect()
    }

    /// The results of tool calls among the events, by call id: text and whether it is an error.
    #[track_caller]
    pub fn results(&self) -> Vec<(String, String, bool)> {
        let ends = self.events().into_iter().filter(|event| event["type"] == "tool_execution_end");
        ends.map(|event| {
            let blocks = event["result"]["content"].as_array().cloned().unwrap_or_default();
            let text = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            let id = event["toolCallId"].as_str().unwrap_or_default().to_owned();
            (id, text, event["isError"].as_bool().unwrap_or_default())
        })
        .collect()
    }

    /// The result of the call with this id: text and whether it is an error.
    #[track_caller]
    pub fn result(&self, id: &str) -> (String, bool) {
        match self.results().into_iter().find(|(call, _, _)| call == id) {
            Some((_, text, is_error)) => (text, is_error),
            None => panic!("no result of {id}: {self}"),
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}\ncode {:?}, signal {:?}, {:?}\n--- standard output\n{}\n--- standard error\n{}\n---",
            self.command,
            self.code,
            self.signal,
            self.wall,
            shown(&self.stdout),
            shown(&self.stderr)
        )
    }
}

/// Head and tail of what a failed test shows.
fn shown(text: &str) -> String {
    const EACH: usize = 4000;
    if text.len() <= 2 * EACH {
        return text.to_owned();
    }
    let (head, tail) = (text.floor_char_boundary(EACH), text.ceil_char_boundary(text.len() - EACH));
    format!("{}\n[... {} bytes ...]\n{}", &text[..head], tail - head, &text[tail..])
}

/// A program that runs. Dropped, it is killed.
pub struct Running {
    command: String,
    child: Child,
    began: Instant,
    stdout: String,
    lines: Receiver<String>,
    out: Option<JoinHandle<()>>,
    err: Option<Receiver<String>>,
    deadline: Instant,
}

impl Running {
    /// Starts it; it must end within `limit`. Its standard input is empty unless the command has one.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn start(mut command: Command, limit: Duration) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let name = format!("{} {}", command.get_program().to_string_lossy(), words.join(" "));
        let began = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        let (line, lines) = channel();
        let mut reader = BufReader::new(child.stdout.take().expect("piped"));
        let out = thread::spawn(move || {
            let mut bytes = Vec::new();
            while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
                if line.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        let (told, err) = channel();
        let mut reader = child.stderr.take().expect("piped");
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = reader.read_to_end(&mut bytes);
            let _ = told.send(String::from_utf8_lossy(&bytes).into_owned());
        });
        let deadline = began + limit;
        Self { command: name, child, began, stdout: String::new(), lines, out: Some(out), err: Some(err), deadline }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of standard output that this accepts, and gives it.
    ///
    /// # Panics
    /// Where the program ends or its deadline passes first.
    #[track_caller]
    pub fn wait_line(&mut self, accepts: impl Fn(&str) -> bool) -> String {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.stdout.push_str(&line);
                    if accepts(&line) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{}: the line did not come in time:\n{}", self.command, self.stdout)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let err = self.errors();
                    panic!("{}: ended before the line came:\n{}\n--- standard error\n{err}", self.command, self.stdout)
                }
            }
        }
    }

    /// Waits for an event of this type.
    #[track_caller]
    pub fn wait_event(&mut self, kind: &str) -> Value {
        let start = format!("{{\"type\":\"{kind}\"");
        let line = self.wait_line(|line| line.starts_with(&start));
        serde_json::from_str(&line).expect("an event is JSON")
    }

    /// Sends a signal to the process, and to it alone.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, signal).expect("the process is there");
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// Where the deadline passes first; the process is killed then.
    #[track_caller]
    pub fn finish(mut self) -> Run {
        let status = self.wait();
        let wall = self.began.elapsed();
        // What it printed is read to the end, unless a child that outlived it holds the pipe.
        let until = Instant::now() + Duration::from_secs(2);
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            self.stdout.push_str(&line);
        }
        let stderr = self.errors();
        Run {
            command: self.command.clone(),
            code: status.code(),
            signal: status.signal(),
            stdout: std::mem::take(&mut self.stdout),
            stderr,
            wall,
        }
    }

    fn errors(&mut self) -> String {
        let err = self.err.take().and_then(|err| err.recv_timeout(Duration::from_secs(2)).ok());
        err.unwrap_or_else(|| "(still open)".to_owned())
    }

    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            if Instant::now() >= self.deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(100)) {
                    self.stdout.push_str(&line);
                }
                let err = self.errors();
                panic!(
                    "{}: did not end in {:?}\n--- standard output\n{}\n--- standard error\n{err}",
                    self.command,
                    self.began.elapsed(),
                    self.stdout
                );
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The reader ends with the pipe; a grandchild may hold it, so it is not joined.
        drop(self.out.take());
    }
}
