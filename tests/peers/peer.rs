//! A server that somebody else wrote, while it runs.

use serde_json::Value;
use std::{
    fs::File,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long a server may take to answer its first request.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// Dropped, it is killed.
pub struct Peer {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Peer {
    /// Starts a server on a free port, which `command` is told, and waits until `GET path` is answered with 200.
    pub fn start(log: &Path, path: &str, command: impl FnOnce(u16) -> Command) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port is free").port();
        let mut command = command(port);
        let out = File::create(log).expect("a log");
        let err = out.try_clone().expect("its copy");
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut peer = Self { child, port, log: log.to_path_buf() };
        let until = Instant::now() + READY_WITHIN;
        while !peer.get(path).is_ok_and(|(status, _)| status == 200) {
            if let Some(status) = peer.child.try_wait().expect("it is our child") {
                panic!("{command:?} ended: {status}\n{}", peer.log());
            }
            assert!(Instant::now() < until, "{command:?} does not answer {path}\n{}", peer.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        peer
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A document of it.
    pub fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).unwrap_or_else(|error| panic!("{path}: {error}\n{}", self.log()));
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    fn get(&self, path: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        // HTTP/1.0: the body ends with the connection, and is not in chunks.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        Ok((status, body))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
