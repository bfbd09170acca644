//! What went wrong with a provider: words for people, and the kind that decides whether the request is tried again.

use crate::{
    failure_kind::kind_of,
    overflow::named_window,
    retry_after::{hinted_wait, retry_after},
};
use pith_core::{FailureKind, ModelFailure};
use reqwest::header::HeaderMap;
use serde_json::Value;

/// The longest message of a provider that is passed on, in characters.
const MESSAGE_LIMIT_CHARS: usize = 1_000;

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
        Self { message: message.into(), failure: ModelFailure { kind, retry_after: None, window_tokens: None } }
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
            Trouble { message: format!("{status}: {shown}"), failure: failure(Some(status), "", text, text, None) }
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
    Trouble { message: one_line(text), failure: failure(None, "", text, text, None) }
}

/// What follows from a failure: `names` are the report's, lowercase, `text` all of its words, `message` those meant for people.
fn failure(status: Option<u16>, names: &str, text: &str, message: &str, body: Option<&Value>) -> ModelFailure {
    let kind = kind_of(status, names, text);
    let window_tokens = (kind == FailureKind::Overflow).then(|| named_window(body, &text.to_lowercase())).flatten();
    ModelFailure { kind, retry_after: hinted_wait(kind, message), window_tokens }
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
    /// The whole report, for what is only said elsewhere in it.
    body: Value,
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
            body: body.clone(),
        })
    }

    fn trouble(self, status: Option<u16>) -> Trouble {
        let text = format!("{} {}", self.message, self.body);
        let failure = failure(status.or(self.status), &self.words, &text, &self.message, Some(&self.body));
        let mut message = one_line(&self.message);
        if let Some(status) = status {
            message = format!("{status}: {message}");
        }
        if !self.word.is_empty() && !message.contains(&self.word) {
            message = format!("{message} ({})", one_line(&self.word));
        }
        Trouble { message, failure }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
            ModelFailure {
                kind: FailureKind::RateLimited,
                retry_after: Some(Duration::from_millis(1_500)),
                window_tokens: None
            }
        );
        let key = of(r#"{"error":{"type":"authentication_error","message":"no"}}"#).unwrap();
        assert_eq!(key.failure.kind, FailureKind::Unauthorized);
        assert_eq!(of(r#"{"error":null,"choices":[]}"#), None);
        assert_eq!(of(r#"{"choices":[]}"#), None);
    }

    #[test]
    fn long_words_are_cut() {
        let line = one_line(&"é".repeat(5_000));
        assert_eq!(line.chars().count(), MESSAGE_LIMIT_CHARS + 1);
    }
}
