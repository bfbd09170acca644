//! The one client for providers: no redirects, ring, the platform's roots, limits on all that comes back.

use crate::{
    Endpoint,
    errors::{self, Trouble},
};
use pith_core::FailureKind;
use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, LOCATION},
    redirect,
};
use std::{
    sync::{Arc, Mutex, OnceLock},
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

/// How long a connection may take to be made.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a provider may say nothing, before its headers and between two pieces of its answer.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// The most bytes of an error's body that are read.
pub const ERROR_BODY_LIMIT_BYTES: usize = 64 * 1024;
/// How long an error's body may take.
const ERROR_BODY_DEADLINE: Duration = Duration::from_secs(10);
/// The most bytes of one reply's stream.
pub const REPLY_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// The HTTP client for providers; clones share connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    /// The thread that reads the roots, where one was started.
    reading: Mutex<Option<JoinHandle<Roots>>>,
    roots: OnceLock<Roots>,
    http: OnceLock<Result<reqwest::Client, String>>,
    http_direct: OnceLock<Result<reqwest::Client, String>>,
    https: OnceLock<Result<reqwest::Client, String>>,
    https_direct: OnceLock<Result<reqwest::Client, String>>,
}

/// A TLS configuration with the platform's roots, or with Mozilla's where the platform has none.
struct Roots {
    config: Result<rustls::ClientConfig, String>,
    /// What of the platform's roots could not be read.
    complaint: Option<String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// A client. With `need_tls` the platform's roots are read at once, on a thread of their own (4 to 25 ms); without, only when a
    /// request over https needs them. `SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured. Proxies of the environment are, except for
    /// this machine.
    pub fn start(need_tls: bool) -> Self {
        // No thread is not fatal: the first request reads the roots then.
        let reading =
            need_tls.then(|| thread::Builder::new().name("tls-roots".to_owned()).spawn(Roots::read).ok()).flatten();
        Self(Arc::new(Inner {
            reading: Mutex::new(reading),
            roots: OnceLock::new(),
            http: OnceLock::new(),
            http_direct: OnceLock::new(),
            https: OnceLock::new(),
            https_direct: OnceLock::new(),
        }))
    }

    async fn client_for(&self, endpoint: &Endpoint) -> Result<reqwest::Client, Trouble> {
        let direct = endpoint.is_loopback();
        let built = if endpoint.is_https() {
            let inner = Arc::clone(&self.0);
            match if direct { self.0.https_direct.get() } else { self.0.https.get() } {
                Some(built) => built.clone(),
                None => tokio::task::spawn_blocking(move || {
                    let cell = if direct { &inner.https_direct } else { &inner.https };
                    cell.get_or_init(|| build(inner.roots().config.clone()?, direct)).clone()
                })
                .await
                .unwrap_or_else(|error| Err(error.to_string())),
            }
        } else {
            let cell = if direct { &self.0.http_direct } else { &self.0.http };
            cell.get_or_init(|| build(tls_config(rustls::RootCertStore::empty())?, direct)).clone()
        };
        built.map_err(|reason| Trouble::new(FailureKind::Other, format!("the HTTP client cannot be built: {reason}")))
    }

    /// Sends a JSON body and gives the answer's head, which is a success and not a JSON or HTML page.
    pub(crate) async fn post(
        &self,
        endpoint: &Endpoint,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response, Trouble> {
        let client = self.client_for(endpoint).await?;
        let mut request = client
            .post(endpoint.ask_url())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .headers(headers);
        for (name, value) in endpoint.headers() {
            request = request.header(name, value);
        }
        let response = request.body(body).send().await.map_err(|error| self.unsent(endpoint, &error))?;
        let response = succeed(endpoint, response).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if kind.starts_with("application/json") {
            // Some servers report errors with 200.
            let (status, headers) = (response.status(), response.headers().clone());
            let body = read_bounded(response, ERROR_BODY_LIMIT_BYTES).await;
            return Err(match errors::in_body(&body) {
                Some(trouble) => trouble,
                None => Trouble::new(
                    FailureKind::Invalid,
                    format!(
                        "{} answered {} with JSON where a stream was asked for",
                        endpoint.authority(),
                        status.as_u16()
                    ),
                ),
            }
            .with_headers(&headers, now_millis()));
        }
        if kind.starts_with("text/html") {
            return Err(Trouble::new(
                FailureKind::Invalid,
                format!(
                    "{} answered with a web page; is the base URL {} right?",
                    endpoint.authority(),
                    endpoint.base_url()
                ),
            ));
        }
        Ok(response)
    }

    /// Gets a small body, at most `limit_bytes` long.
    pub(crate) async fn get(&self, endpoint: &Endpoint, url: String, limit_bytes: usize) -> Result<Vec<u8>, Trouble> {
        let mut request = self.client_for(endpoint).await?.get(url).header(ACCEPT, "application/json");
        for (name, value) in endpoint.headers() {
            request = request.header(name, value);
        }
        let response = request.send().await.map_err(|error| self.unsent(endpoint, &error))?;
        let mut response = succeed(endpoint, response).await?;
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(piece)) if body.len().saturating_add(piece.len()) > limit_bytes => {
                    return Err(Trouble::new(
                        FailureKind::Other,
                        format!("the answer is longer than {limit_bytes} bytes"),
                    ));
                }
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => return Ok(body),
                Err(error) => return Err(interrupted(&error)),
            }
        }
    }

    /// Why a request got no answer.
    fn unsent(&self, endpoint: &Endpoint, error: &reqwest::Error) -> Trouble {
        let cause = root_cause(error);
        let (host, base) = (endpoint.authority(), endpoint.base_url());
        if cause.contains("certificate") {
            let roots = self.0.roots.get().and_then(|roots| roots.complaint.as_deref());
            let hint = roots.map(|complaint| format!(" (of the system's roots: {complaint})")).unwrap_or_default();
            return Trouble::new(
                FailureKind::Other,
                format!("{host} cannot be trusted: {cause}{hint}; SSL_CERT_FILE names other roots"),
            );
        }
        if error.is_connect() {
            let cause = if error.is_timeout() { "no connection in time".to_owned() } else { cause };
            return Trouble::new(
                FailureKind::Unavailable,
                format!("cannot connect to {host} (base URL {base}): {cause}; is the server running?"),
            );
        }
        if error.is_timeout() {
            return Trouble::new(
                FailureKind::Unavailable,
                format!("{host} said nothing for {} seconds", IDLE_TIMEOUT.as_secs()),
            );
        }
        Trouble::new(FailureKind::Unavailable, format!("{host} gave no answer: {cause}"))
    }
}

impl Inner {
    /// Blocks until the roots are read.
    fn roots(&self) -> &Roots {
        self.roots.get_or_init(|| {
            let reading = self.reading.lock().map(|mut reading| reading.take()).unwrap_or_default();
            reading.and_then(|thread| thread.join().ok()).unwrap_or_else(Roots::read)
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(thread) = self.reading.get_mut().ok().and_then(Option::take) {
            let _ = thread.join();
        }
    }
}

impl Roots {
    fn read() -> Self {
        let found = rustls_native_certs::load_native_certs();
        let mut store = rustls::RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(found.certs);
        if added == 0 {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        Self { config: tls_config(store), complaint: found.errors.first().map(ToString::to_string) }
    }
}

fn tls_config(roots: rustls::RootCertStore) -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn build(tls: rustls::ClientConfig, direct: bool) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(redirect::Policy::none())
        .referer(false)
        .user_agent(concat!("pith/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(IDLE_TIMEOUT);
    if direct {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| root_cause(&error))
}

/// Gives a success on, and makes anything else an error with the provider's words.
async fn succeed(endpoint: &Endpoint, response: Response) -> Result<Response, Trouble> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    if status.is_redirection() {
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("elsewhere");
        return Err(Trouble::new(
            FailureKind::Invalid,
            errors::one_line(&format!(
                "{}: {} redirects to {target}; redirects are not followed, set the base URL to the right place",
                status.as_u16(),
                endpoint.base_url()
            )),
        ));
    }
    let headers = response.headers().clone();
    let body = read_bounded(response, ERROR_BODY_LIMIT_BYTES).await;
    let mut trouble = errors::of_response(status.as_u16(), &body).with_headers(&headers, now_millis());
    if status == StatusCode::NOT_FOUND && endpoint.has_bare_base() && endpoint.wire() == crate::Wire::OpenAiCompletions
    {
        trouble.message.push_str("; does the base URL lack its /v1?");
    }
    Err(trouble)
}

/// As much of a body as comes within the limit and the deadline.
async fn read_bounded(mut response: Response, limit_bytes: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(piece)) = response.chunk().await {
            let room = limit_bytes.saturating_sub(body.len());
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if body.len() >= limit_bytes {
                break;
            }
        }
    };
    // What came until then is worth more than the error of the deadline.
    let _ = tokio::time::timeout(ERROR_BODY_DEADLINE, read).await;
    body
}

/// Why an answer broke off.
pub(crate) fn interrupted(error: &reqwest::Error) -> Trouble {
    let message = if error.is_timeout() {
        format!("the provider said nothing for {} seconds", IDLE_TIMEOUT.as_secs())
    } else {
        format!("the stream ended early: {}", root_cause(error))
    };
    Trouble::new(FailureKind::Unavailable, message)
}

/// The innermost cause in words: the outer ones only repeat the URL.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    errors::one_line(&cause.to_string())
}

fn now_millis() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or_default()
}
