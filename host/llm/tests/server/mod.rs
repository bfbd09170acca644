//! A real HTTP server on this machine that plays what it is told, byte by byte where wanted.

use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::{Mutex, Notify},
    task::JoinHandle,
};

/// What the server does with one request, in order; then it closes the connection.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes in pieces of a size, with a pause of a millisecond after each.
    Pace(Vec<u8>, usize),
    /// Tells the test, and holds the connection until the client lets it go.
    Hang(Arc<Notify>),
}

/// What the client sent.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Request line and headers, lowercase names as they came.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// The server; it ends when it is dropped.
pub struct Server {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers the first connection with the first list of acts, and so on.
    pub async fn start(answers: Vec<Vec<Act>>) -> Self {
        Self::start_with(answers, None).await
    }

    /// The same over TLS.
    pub async fn start_with(answers: Vec<Vec<Act>>, tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            for acts in answers {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                match &tls {
                    // A client that does not trust us hangs up in the handshake.
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => serve(stream, acts, &log).await,
                        Err(_) => continue,
                    },
                    None => serve(stream, acts, &log).await,
                }
            }
        });
        Self { port, seen, task }
    }

    /// All requests so far.
    pub async fn seen(&self) -> Vec<Seen> {
        self.seen.lock().await.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, acts: Vec<Act>, log: &Mutex<Vec<Seen>>) {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            return;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:").map(|text| text.trim().parse().unwrap())
        })
        .unwrap_or(0usize);
    while bytes.len() < head_end + length {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "a body that is cut");
    }
    log.lock().await.push(Seen { head, body: bytes[head_end..].to_vec() });
    for act in acts {
        // The client may let go at any time: that is its right.
        let sent = match act {
            Act::Send(bytes) => stream.write_all(&bytes).await,
            Act::Pace(bytes, size) => {
                let mut sent = Ok(());
                for piece in bytes.chunks(size) {
                    sent = sent.and(stream.write_all(piece).await).and(stream.flush().await);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                sent
            }
            Act::Hang(reached) => {
                reached.notify_one();
                let mut rest = [0; 64];
                while matches!(stream.read(&mut rest).await, Ok(count) if count > 0) {}
                Ok(())
            }
        };
        if sent.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}

/// The head of an event stream that lasts until the connection closes.
pub fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n".to_vec()
}

/// A whole answer.
pub fn answer(status: u16, headers: &str, body: &str) -> Vec<Act> {
    let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    vec![Act::Send((head + body).into_bytes())]
}
