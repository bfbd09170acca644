//! A real HTTP server that plays prepared bytes: paced, cut into pieces, broken off where a test wants it. It keeps every request.

use crate::tls::Authority;
use serde_json::Value;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::oneshot,
};
use tokio_rustls::TlsAcceptor;

/// The longest request that is read.
const REQUEST_LIMIT_BYTES: usize = 64 << 20;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `POST`.
    pub method: String,
    /// With its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// When its last byte was read.
    pub at: Instant,
}

impl Request {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// Where it is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    piece_bytes: usize,
    pace: Duration,
    first_after: Duration,
    cut: bool,
    hang: bool,
}

impl Answer {
    /// A body with its status and media type.
    pub fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            body: body.into(),
            piece_bytes: usize::MAX,
            pace: Duration::ZERO,
            first_after: Duration::ZERO,
            cut: false,
            hang: false,
        }
    }

    /// A stream of events.
    pub fn sse(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "text/event-stream", body)
    }

    /// A JSON document.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    /// With a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// In pieces of so many bytes, each after a pause.
    pub fn paced(mut self, piece_bytes: usize, pace: Duration) -> Self {
        self.piece_bytes = piece_bytes.max(1);
        self.pace = pace;
        self
    }

    /// Not before so long.
    pub fn after(mut self, wait: Duration) -> Self {
        self.first_after = wait;
        self
    }

    /// The connection breaks where the body ends.
    pub fn cut(mut self) -> Self {
        self.cut = true;
        self
    }

    /// The body never ends: the server waits until the other side goes.
    pub fn hanging(mut self) -> Self {
        self.hang = true;
        self
    }
}

type Serve = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// A server on a free port of 127.0.0.1. Dropped, it ends.
pub struct Server {
    address: SocketAddr,
    scheme: &'static str,
    seen: Arc<Mutex<Vec<Request>>>,
    left: Arc<Mutex<usize>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers each request by this.
    pub fn start(serve: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::serve(Arc::new(serve), None)
    }

    /// The same over TLS.
    pub fn start_tls(authority: &Authority, serve: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::serve(Arc::new(serve), Some(authority.acceptor.clone()))
    }

    /// Answers requests in the order in which they come; one too many is answered with 400.
    pub fn playing(answers: Vec<Answer>) -> Self {
        let answers = Mutex::new(answers.into_iter());
        Self::start(move |_| {
            let next = answers.lock().unwrap_or_else(PoisonError::into_inner).next();
            next.unwrap_or_else(|| {
                Answer::json(
                    400,
                    &serde_json::json!({"error": {"message": "no answer is left", "type": "invalid_request_error"}}),
                )
            })
        })
    }

    fn serve(serve: Serve, tls: Option<TlsAcceptor>) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let left = Arc::new(Mutex::new(0));
        let (stop, stopped) = oneshot::channel();
        let (bound, address) = std::sync::mpsc::channel();
        let (keep, gone) = (seen.clone(), left.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
                bound.send(listener.local_addr().expect("it is bound")).expect("somebody waits");
                tokio::select! {
                    () = accept(listener, serve, tls, keep, gone) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = address.recv().expect("the server starts");
        Self { address, scheme, seen, left, stop: Some(stop), thread: Some(thread) }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}", self.scheme, self.address.port())
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.seen).clone()
    }

    /// How many connections their other side left before the answer was whole.
    pub fn abandoned(&self) -> usize {
        *lock(&self.left)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(
    listener: TcpListener,
    serve: Serve,
    tls: Option<TlsAcceptor>,
    seen: Arc<Mutex<Vec<Request>>>,
    left: Arc<Mutex<usize>>,
) {
    // Connections live as long as the server: the set drops them with it.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (serve, tls, seen, left) = (serve.clone(), tls.clone(), seen.clone(), left.clone());
        connections.spawn(async move {
            let _ = stream.set_nodelay(true);
            let whole = match tls {
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => talk(stream, &serve, &seen).await,
                    Err(_) => None,
                },
                None => talk(stream, &serve, &seen).await,
            };
            if whole == Some(false) {
                *lock(&left) += 1;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// One request and its answer; the connection is closed after it. Gives whether the answer was taken whole; none without a request.
async fn talk(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    serve: &Serve,
    seen: &Mutex<Vec<Request>>,
) -> Option<bool> {
    let request = read_request(&mut stream).await?;
    let answer = serve(&request);
    lock(seen).push(request);
    Some(write_answer(&mut stream, &answer).await.is_ok())
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if bytes.len() > REQUEST_LIMIT_BYTES || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = bytes.split_off(head + 4);
    while body.len() < length.unwrap_or(0usize) {
        if body.len() > REQUEST_LIMIT_BYTES || stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request { method, path, headers, body, at: Instant::now() })
}

async fn write_answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), answer: &Answer) -> std::io::Result<()> {
    tokio::time::sleep(answer.first_after).await;
    let mut head = format!("HTTP/1.1 {} Played\r\nconnection: close\r\ntransfer-encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await?;
    for piece in answer.body.chunks(answer.piece_bytes.min(1 << 20)) {
        if !answer.pace.is_zero() {
            tokio::time::sleep(answer.pace).await;
        }
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk).await?;
        stream.flush().await?;
    }
    if answer.hang {
        // Until the other side goes.
        let mut rest = [0; 64];
        while stream.read(&mut rest).await? > 0 {}
        return Err(std::io::ErrorKind::BrokenPipe.into());
    }
    if !answer.cut {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    stream.flush().await?;
    stream.shutdown().await
}
