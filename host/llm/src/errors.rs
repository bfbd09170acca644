//! What went wrong with a provider: words for people, and the kind that decides whether the request is tried again.

use pith_core::{FailureKind, ModelFailure};
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::time::Duration;

/// The longest message of a provider that is passed on, in characters.
const MESSAGE_LIMIT_CHARS: usize = 1_000;
/// The longest wait that a provider may ask for; beyond it, it is no hint.
const RETRY_AFTER_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What this crate's functions fail with; failed requests come as `ModelEvent::Done` instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LlmError {
    /// A base URL cannot be used.
    #[error("the base URL {url:?} cannot be used: {reason}")]
    BaseUrl {
        /// The URL, as far as it may be shown.
        url: String,
        /// Why.
        reason: &'static str,
    },
    /// A key cannot be used.
    #[error("the key cannot be used: {reason}")]
    Key {
        /// Why.
        reason: &'static str,
    },
    /// The list of models could not be had.
    #[error("the models of {base_url} cannot be listed: {message}")]
    Listing {
        /// Where it was asked for.
        base_url: String,
        /// What happened.
        message: String,
        /// The kind.
        kind: FailureKind,
    },
    /// A scenario cannot be played.
    #[error("the scenario {name} cannot be read: {reason}")]
    Scenario {
        /// The scenario.
        name: String,
        /// From 1; 0 where no line is at fault. `reason` says it too.
        line: usize,
        /// From 1; 0 where no column is at fault.
        column: usize,
        /// What is wrong.
        reason: String,
    },
}

/// A failed request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trouble {
    /// One line for people.
    pub message: String,
    /// What follows from it.
    pub failure: ModelFailure,
}

impl Trouble {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { message: message.into(), failure: ModelFailure { kind, retry_after: None } }
    }

    /// Adds the wait that the headers ask for; they say it better than the message.
    pub fn with_headers(mut self, headers: &HeaderMap, now_millis: i64) -> Self {
        self.failure.retry_after = retry_after(headers, now_millis).or(self.failure.retry_after);
        self
    }
}

/// The failure that an HTTP status and body tell of.
pub(crate) fn of_response(status: u16, body: &[u8]) -> Trouble {
    match serde_json::from_slice::<Value>(body).ok().and_then(|body| Reported::find(&body)) {
        Some(reported) => reported.trouble(Some(status)),
        None => {
            let text = String::from_utf8_lossy(body);
            let text = text.trim();
            let shown = if text.is_empty() || text.starts_with('<') {
                reqwest::StatusCode::from_u16(status)
                    .ok()
                    .and_then(|status| status.canonical_reason())
                    .unwrap_or("no explanation")
                    .to_owned()
            } else {
                one_line(text)
            };
            let kind = kind_of(Some(status), "", text);
            Trouble {
                message: format!("{status}: {shown}"),
                failure: ModelFailure { kind, retry_after: hinted_wait(kind, text) },
            }
        }
    }
}

/// The failure that an event of a stream tells of; none where it tells of none.
pub(crate) fn in_event(event: &Value) -> Option<Trouble> {
    event.get("error").filter(|error| !error.is_null())?;
    Reported::find(event).map(|reported| reported.trouble(None))
}

/// The failure of an event that is an error by its name.
pub(crate) fn of_event(event: &Value) -> Trouble {
    match Reported::find(event) {
        Some(reported) => reported.trouble(None),
        None => Trouble::new(FailureKind::Other, "the provider reported an error without an explanation"),
    }
}

/// The same, of an event that is no JSON.
pub(crate) fn of_event_text(text: &str) -> Trouble {
    let kind = kind_of(None, "", text);
    Trouble { message: one_line(text), failure: ModelFailure { kind, retry_after: hinted_wait(kind, text) } }
}

/// The failure that a body answered with a success tells of.
pub(crate) fn in_body(body: &[u8]) -> Option<Trouble> {
    in_event(&serde_json::from_slice(body).ok()?)
}

/// What a provider reports, in the shapes that there are.
struct Reported {
    message: String,
    /// The error's name: its code where that is a word, else its type.
    word: String,
    /// Its code and type, lowercase.
    words: String,
    /// A status in the body, where there is one.
    status: Option<u16>,
    /// The report's whole text, for what is only said elsewhere in it.
    whole: String,
}

impl Reported {
    fn find(body: &Value) -> Option<Self> {
        // Some servers wrap the object in a list.
        let body = body.get(0).unwrap_or(body);
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let words = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut message = match error {
            Value::String(text) => text.clone(),
            _ => ["message", "detail", "error", "msg"]
                .iter()
                .filter_map(|key| {
                    error.get(key).or_else(|| body.get(key)).filter(|value| *key != "error" || value.is_string())
                })
                .find(|value| !value.is_null())
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .unwrap_or_default(),
        };
        // A router's own message says nothing; what its upstream said does.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            let inner = serde_json::from_str::<Value>(raw).ok().and_then(|raw| Self::find(&raw));
            message = format!("{message}: {}", inner.map_or_else(|| raw.to_owned(), |inner| inner.message));
        }
        let (code, kind) = (words("code"), words("type"));
        let status = ["code", "status"].iter().find_map(|key| error.get(key).and_then(Value::as_u64));
        if message.is_empty() && code.is_empty() && kind.is_empty() {
            return None;
        }
        let word = if code.is_empty() { kind } else { code };
        Some(Self {
            message: if message.is_empty() { "no explanation".to_owned() } else { message },
            word: word.to_owned(),
            words: format!("{code} {kind} {}", words("status")).to_lowercase(),
            status: status.and_then(|status| u16::try_from(status).ok()).filter(|status| (400..600).contains(status)),
            whole: body.to_string(),
        })
    }

    fn trouble(self, status: Option<u16>) -> Trouble {
        let kind = kind_of(status.or(self.status), &self.words, &format!("{} {}", self.message, self.whole));
        let mut message = one_line(&self.message);
        if let Some(status) = status {
            message = format!("{status}: {message}");
        }
        if !self.word.is_empty() && !message.contains(&self.word) {
            message = format!("{message} ({})", one_line(&self.word));
        }
        Trouble { message, failure: ModelFailure { kind, retry_after: hinted_wait(kind, &self.message) } }
    }
}

/// Texts of requests that are longer than the window; the parts of each stand in this order.
const OVERFLOW: &[&[&str]] = &[
    &["prompt is too long"],
    &["prompt too long"],
    &["input is too long"],
    &["input too long"],
    &["request_too_large"],
    &["exceed", "context window"],
    &["context window exceeds"],
    &["exceed", "context length"],
    &["exceed", "context size"],
    &["exceed_context_size"],
    &["maximum context length"],
    &["context_length_exceeded"],
    &["context length exceeded"],
    &["context_window_exceeded"],
    &["context window exceeded"],
    &["input token count", "exceed"],
    &["maximum prompt length"],
    &["reduce the length of the messages"],
    &["greater than the context length"],
    &["exceeded model token limit"],
    &["exceeds the model's maximum"],
    &["too large for model with", "maximum context"],
    &["prompt", "exceeds", "token", "limit"],
    &["token limit exceeded"],
    &["range of input length"],
    &["too many tokens"],
];

/// Texts that say "too many" or "exceeds" of requests in a time, not of one request.
const THROTTLED: &[&str] =
    &["rate limit", "rate_limit", "ratelimit", "too many requests", "throttl", "per minute", "per day", "try again in"];

/// Texts of accounts that are used up: waiting does not help.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "insufficient quota",
    "exceeded your current quota",
    "quota exceeded",
    "billing",
    "credit balance",
    "insufficient credits",
    "insufficient balance",
    "available balance",
    "out of credits",
    "out of budget",
    "payment required",
    "usage limit",
    "monthly limit",
    "spending limit",
];

const REFUSED: &[&str] =
    &["content_filter", "content_policy", "content policy", "content management policy", "responsibleai"];

const UNAVAILABLE: &[&str] = &[
    "overloaded",
    "api_error",
    "server_error",
    "internal error",
    "internal_error",
    "timeout_error",
    "service unavailable",
    "service_unavailable",
    "unavailable_error",
    "bad gateway",
    "temporarily unavailable",
    "at capacity",
    "server busy",
    "high demand",
    "upstream",
    "timed out",
    "provider returned error",
];

/// The kind of a failure, from its status, the names in it (lowercase) and its words.
fn kind_of(status: Option<u16>, names: &str, text: &str) -> FailureKind {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let is_named = |words: &[&str]| words.iter().any(|word| names.contains(word));
    let throttled = status == Some(429) || has(THROTTLED);
    if is_named(&["context_length_exceeded", "exceed_context_size", "request_too_large"]) {
        return FailureKind::Overflow;
    }
    // A rate limit's explanation may name the page on billing, so that its own name goes first.
    if is_named(&["insufficient_quota", "billing", "payment"]) {
        return FailureKind::Quota;
    }
    if is_named(&["rate_limit", "resource_exhausted"]) && !text.contains("exceeded your current quota") {
        return FailureKind::RateLimited;
    }
    if !throttled && (status == Some(413) || OVERFLOW.iter().any(|parts| stands_in_order(&text, parts))) {
        return FailureKind::Overflow;
    }
    if status == Some(402) || has(QUOTA) {
        return FailureKind::Quota;
    }
    if is_named(&["authentication", "permission", "invalid_api_key", "unauthorized"]) {
        return FailureKind::Unauthorized;
    }
    if is_named(REFUSED) || has(REFUSED) {
        return FailureKind::Refused;
    }
    match status {
        Some(401 | 403) => FailureKind::Unauthorized,
        Some(429) => FailureKind::RateLimited,
        Some(408 | 409 | 425 | 500..=599) => FailureKind::Unavailable,
        Some(400..=499) => FailureKind::Invalid,
        _ if throttled => FailureKind::RateLimited,
        _ if is_named(UNAVAILABLE) || has(UNAVAILABLE) => FailureKind::Unavailable,
        _ if is_named(&["invalid", "not_found", "unsupported", "tool_use_failed"]) => FailureKind::Invalid,
        _ => FailureKind::Other,
    }
}

fn stands_in_order(text: &str, parts: &[&str]) -> bool {
    let mut rest = text;
    parts.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Foreign text as one bounded line without control characters.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (count, word) in
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).enumerate()
    {
        if count > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MESSAGE_LIMIT_CHARS * 4 {
            break;
        }
    }
    if line.chars().nth(MESSAGE_LIMIT_CHARS).is_some() {
        line = line.chars().take(MESSAGE_LIMIT_CHARS).collect();
        line.push('…');
    }
    line
}

/// `retry-after-ms`, else `retry-after` in seconds or as a date.
fn retry_after(headers: &HeaderMap, now_millis: i64) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str, unit: f64| text.parse::<f64>().ok().and_then(|number| wait(number * unit));
    if let Some(wait) = text("retry-after-ms").and_then(|text| number(text, 0.001)) {
        return Some(wait);
    }
    let text = text("retry-after")?;
    number(text, 1.0).or_else(|| {
        let then = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
        wait(then.saturating_sub(now_millis).max(0) as f64 / 1_000.0)
    })
}

/// What "try again in 1.5s" (also `200ms`, `6m0s`, `20 seconds`) asks for, of kinds that are tried again.
fn hinted_wait(kind: FailureKind, text: &str) -> Option<Duration> {
    if !kind.is_retryable() {
        return None;
    }
    let text = text.to_lowercase();
    let at = ["try again in ", "retry in ", "retry after "]
        .iter()
        .find_map(|hint| text.find(hint).map(|at| at + hint.len()))?;
    let mut rest = &text[at..];
    let mut seconds = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<f64>() else { break };
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3_600.0,
            _ => break,
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * unit);
        rest = &rest[letters..];
    }
    wait(seconds?)
}

fn wait(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|wait| *wait <= RETRY_AFTER_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn check(status: u16, body: &str, message: &str, kind: FailureKind) {
        let trouble = of_response(status, body.as_bytes());
        assert_eq!((trouble.message.as_str(), trouble.failure.kind), (message, kind), "{body}");
    }

    #[test]
    fn bodies_of_all_shapes() {
        check(
            401,
            r#"{"error":{"code":401,"message":"Invalid key","type":"authentication_error"}}"#,
            "401: Invalid key (authentication_error)",
            FailureKind::Unauthorized,
        );
        check(
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
            "404: model: x (not_found_error)",
            FailureKind::Invalid,
        );
        check(400, r#"{"error":"plain words"}"#, "400: plain words", FailureKind::Invalid);
        check(422, r#"{"detail":"plain words"}"#, "422: plain words", FailureKind::Invalid);
        check(
            400,
            r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#,
            "400: bad (BadRequestError)",
            FailureKind::Invalid,
        );
        check(
            400,
            r#"[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]"#,
            "400: bad",
            FailureKind::Invalid,
        );
        check(502, "<html>\n<title>x</title>", "502: Bad Gateway", FailureKind::Unavailable);
        check(503, "", "503: Service Unavailable", FailureKind::Unavailable);
        check(500, "two\n\u{1b}[31mlines", "500: two [31mlines", FailureKind::Unavailable);
        check(
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "529: Overloaded (overloaded_error)",
            FailureKind::Unavailable,
        );
        check(418, "{}", "418: {}", FailureKind::Invalid);
    }

    #[test]
    fn overflow_is_told_from_throttling_and_from_empty_accounts() {
        let kind = |status, text: &str| {
            of_response(status, serde_json::json!({"error": {"message": text}}).to_string().as_bytes()).failure.kind
        };
        for text in [
            "prompt is too long: 213462 tokens > 200000 maximum",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens.",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
            "This endpoint's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "Please reduce the length of the messages or completion.",
            "the request exceeds the available context size (4096 tokens), try increasing it",
            "The number of tokens to keep from the initial prompt is greater than the context length",
            "invalid params, context window exceeds limit (2013)",
            "Your request exceeded model token limit: 262144",
            "Range of input length should be [1, 30720]",
            "too many tokens",
        ] {
            assert_eq!(kind(400, text), FailureKind::Overflow, "{text}");
        }
        assert_eq!(kind(413, "Payload too large"), FailureKind::Overflow);
        assert_eq!(kind(429, "Too many tokens, please wait before trying again."), FailureKind::RateLimited);
        assert_eq!(
            kind(429, "You exceeded your current quota, please check your plan and billing details."),
            FailureKind::Quota
        );
        assert_eq!(kind(400, "Your credit balance is too low to access the API."), FailureKind::Quota);
        assert_eq!(kind(402, "no"), FailureKind::Quota);
        let named = |status, name: &str, text: &str| {
            of_response(status, serde_json::json!({"error": {"message": text, "code": name}}).to_string().as_bytes())
                .failure
                .kind
        };
        assert_eq!(
            named(429, "rate_limit_exceeded", "Add a payment method at https://x/account/billing"),
            FailureKind::RateLimited
        );
        assert_eq!(named(429, "insufficient_quota", "x"), FailureKind::Quota);
        assert_eq!(named(400, "context_length_exceeded", "x"), FailureKind::Overflow);
        assert_eq!(named(400, "content_filter", "x"), FailureKind::Refused);
        let llama = r#"{"error":{"code":400,"message":"too big","type":"exceed_context_size_error","n_prompt_tokens":6031,"n_ctx":4096}}"#;
        assert_eq!(of_response(400, llama.as_bytes()).failure.kind, FailureKind::Overflow);
    }

    #[test]
    fn events_with_errors() {
        let of = |text: &str| in_event(&serde_json::from_str(text).unwrap());
        let overloaded = of(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#).unwrap();
        assert_eq!(
            (overloaded.message.as_str(), overloaded.failure.kind),
            ("Overloaded (overloaded_error)", FailureKind::Unavailable)
        );
        let routed = of(r#"{"id":"x","error":{"code":429,"message":"slow down"}}"#).unwrap();
        assert_eq!(routed.failure.kind, FailureKind::RateLimited);
        let limited = of(r#"{"error":{"code":"rate_limit_exceeded","message":"Please try again in 1.5s."}}"#).unwrap();
        assert_eq!(
            limited.failure,
            ModelFailure { kind: FailureKind::RateLimited, retry_after: Some(Duration::from_millis(1_500)) }
        );
        let key = of(r#"{"error":{"type":"authentication_error","message":"no"}}"#).unwrap();
        assert_eq!(key.failure.kind, FailureKind::Unauthorized);
        assert_eq!(of(r#"{"error":null,"choices":[]}"#), None);
        assert_eq!(of(r#"{"choices":[]}"#), None);
    }

    #[test]
    fn waits_in_headers_and_words() {
        let header = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_str(value).unwrap());
            retry_after(&headers, 1_445_412_475_000)
        };
        assert_eq!(header("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(header("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(header("retry-after-ms", "1500"), Some(Duration::from_millis(1_500)));
        assert_eq!(header("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(5)));
        assert_eq!(header("retry-after", "Wed, 21 Oct 2015 07:27:00 GMT"), Some(Duration::ZERO));
        for odd in ["", "soon", "-1", "NaN", "1e300", "99999999"] {
            assert_eq!(header("retry-after", odd), None, "{odd}");
        }
        let hint = |text| hinted_wait(FailureKind::RateLimited, text);
        assert_eq!(hint("Please try again in 6m0.5s."), Some(Duration::from_millis(360_500)));
        assert_eq!(hint("Please retry in 200ms"), Some(Duration::from_millis(200)));
        assert_eq!(hint("try again in 20 seconds, or later"), Some(Duration::from_secs(20)));
        assert_eq!(hint("try again in a while"), None);
        assert_eq!(hinted_wait(FailureKind::Quota, "try again in 20s"), None);
    }

    #[test]
    fn long_words_are_cut() {
        let line = one_line(&"é".repeat(5_000));
        assert_eq!(line.chars().count(), MESSAGE_LIMIT_CHARS + 1);
    }
}
