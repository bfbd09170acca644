//! Where a provider is reached, and with which key.

use crate::LlmError;
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
};
use std::fmt;

/// Anthropic's own base URL, without `/v1`.
pub const ANTHROPIC_BASE_URL: &str = "https://api.anthropic.com";
/// OpenAI's own base URL, with `/v1`.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// `POST {base}/v1/messages`.
    AnthropicMessages,
    /// `POST {base}/chat/completions`.
    OpenAiCompletions,
}

impl Wire {
    /// The name in messages and model cards.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenAiCompletions => "openai-completions",
        }
    }
}

/// A credential. Neither `Debug` nor `Display` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Takes the visible ASCII text of a key, without the blanks and line ends around it.
    ///
    /// # Errors
    /// `LlmError::Key` where nothing is left or something in it cannot stand in a header. The key is not in the error.
    pub fn new(text: &str) -> Result<Self, LlmError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(LlmError::Key { reason: "it is empty" });
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(LlmError::Key { reason: "it contains blanks, control characters or non-ASCII characters" });
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// One provider, ready to be asked.
#[derive(Clone, Debug)]
pub struct Endpoint {
    provider: String,
    base: Url,
    key: Option<Secret>,
    wire: Wire,
}

impl Endpoint {
    /// Anthropic's wire. `base_url` is without `/v1`, as the official SDKs take it; none for Anthropic itself.
    ///
    /// # Errors
    /// `LlmError::BaseUrl`.
    pub fn anthropic(base_url: Option<&str>, key: Option<Secret>) -> Result<Self, LlmError> {
        let mut base = base(base_url.unwrap_or(ANTHROPIC_BASE_URL))?;
        // Given with /v1 all the same, it means the same: no server has /v1/v1.
        if let Some(path) = base.path().strip_suffix("/v1").map(str::to_owned) {
            base.set_path(&path);
        }
        Ok(Self { provider: "anthropic".to_owned(), base, key, wire: Wire::AnthropicMessages })
    }

    /// OpenAI's chat wire. `base_url` is with `/v1`, as the official SDKs take it; none for OpenAI itself.
    ///
    /// # Errors
    /// `LlmError::BaseUrl`.
    pub fn openai(base_url: Option<&str>, key: Option<Secret>) -> Result<Self, LlmError> {
        let base = base(base_url.unwrap_or(OPENAI_BASE_URL))?;
        Ok(Self { provider: "openai".to_owned(), base, key, wire: Wire::OpenAiCompletions })
    }

    /// The provider's name.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The wire format.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// The base URL, without a slash at its end.
    pub fn base_url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// A text without the key, should a server repeat it.
    pub(crate) fn without_key(&self, text: String) -> String {
        match &self.key {
            // A shorter one is a placeholder, and would be found in ordinary words.
            Some(Secret(key)) if key.len() >= 8 && text.contains(&**key) => text.replace(&**key, "(the key)"),
            _ => text,
        }
    }

    /// Whether it needs a client with TLS.
    pub fn is_https(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// Whether it is the provider's own server, which knows parameters that look-alikes reject.
    pub(crate) fn is_official(&self) -> bool {
        matches!(self.base.host_str(), Some("api.openai.com" | "api.anthropic.com"))
    }

    /// Whether it is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.base.host() {
            Some(url_host) => {
                let host = url_host.to_string();
                let host = host.trim_matches(['[', ']']);
                host == "localhost"
                    || host.ends_with(".localhost")
                    || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            None => false,
        }
    }

    /// Host and port, for people.
    pub(crate) fn authority(&self) -> String {
        let host = self.base.host_str().unwrap_or_default();
        match self.base.port_or_known_default() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    pub(crate) fn has_bare_base(&self) -> bool {
        matches!(self.base.path(), "" | "/")
    }

    pub(crate) fn ask_url(&self) -> String {
        let path = match self.wire {
            Wire::AnthropicMessages => "/v1/messages",
            Wire::OpenAiCompletions => "/chat/completions",
        };
        format!("{}{path}", self.base_url())
    }

    pub(crate) fn models_url(&self) -> String {
        match self.wire {
            Wire::AnthropicMessages => format!("{}/v1/models?limit=1000", self.base_url()),
            Wire::OpenAiCompletions => format!("{}/models", self.base_url()),
        }
    }

    /// The wire's own headers, the key's among them, marked as sensitive.
    pub(crate) fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = Vec::new();
        if self.wire == Wire::AnthropicMessages {
            headers.push((HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01")));
        }
        if let Some(Secret(key)) = &self.key {
            let (name, text) = match self.wire {
                Wire::AnthropicMessages => (HeaderName::from_static("x-api-key"), key.to_string()),
                Wire::OpenAiCompletions => (AUTHORIZATION, format!("Bearer {key}")),
            };
            // A `Secret` is visible ASCII, so that this never fails.
            if let Ok(mut value) = HeaderValue::from_str(&text) {
                value.set_sensitive(true);
                headers.push((name, value));
            }
        }
        headers
    }
}

fn base(text: &str) -> Result<Url, LlmError> {
    // Only what cannot hold a password is shown again.
    let refuse = |reason: &'static str| {
        let shown = if text.contains('@') { "(not shown: it may hold a password)" } else { text };
        Err(LlmError::BaseUrl { url: shown.chars().take(200).collect(), reason })
    };
    // A URL's parser drops them, and what is asked would not be what was written.
    if text.trim().contains(|c: char| c.is_control() || c.is_whitespace()) {
        return refuse("it holds a blank or a control character");
    }
    let Ok(mut url) = Url::parse(text.trim()) else {
        return refuse("it is not a URL, such as http://127.0.0.1:8080/v1");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refuse("it must begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("it must not hold a user name or password");
    }
    if url.host_str().is_none_or(str::is_empty) {
        return refuse("it names no host");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse("it must not hold a query or fragment");
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_as_the_official_sdks_read_them() {
        let anthropic = |url| Endpoint::anthropic(Some(url), None).unwrap().ask_url();
        assert_eq!(Endpoint::anthropic(None, None).unwrap().ask_url(), "https://api.anthropic.com/v1/messages");
        assert_eq!(anthropic("http://127.0.0.1:4010"), "http://127.0.0.1:4010/v1/messages");
        assert_eq!(anthropic("http://127.0.0.1:4010/"), "http://127.0.0.1:4010/v1/messages");
        assert_eq!(anthropic("http://127.0.0.1:4010/v1/"), "http://127.0.0.1:4010/v1/messages");
        assert_eq!(anthropic("https://proxy.test/anthropic"), "https://proxy.test/anthropic/v1/messages");
        let openai = |url| Endpoint::openai(Some(url), None).unwrap().ask_url();
        assert_eq!(Endpoint::openai(None, None).unwrap().ask_url(), "https://api.openai.com/v1/chat/completions");
        assert_eq!(openai("http://[::1]:8080/v1///"), "http://[::1]:8080/v1/chat/completions");
        assert_eq!(openai("http://localhost:8080"), "http://localhost:8080/chat/completions");
    }

    #[test]
    fn bad_base_urls_are_refused_and_passwords_not_repeated() {
        for url in [
            "",
            "localhost:8080/v1",
            "ftp://x/v1",
            "http://",
            "https://a:b@x/v1",
            "https://a@x",
            "http://x/v1?k=1",
            "http://x#y",
            "http://a\nb/v1",
            "http://a b/v1",
        ] {
            assert!(matches!(Endpoint::openai(Some(url), None), Err(LlmError::BaseUrl { .. })), "{url}");
        }
        let error = Endpoint::openai(Some("https://me:hunter2@x/v1"), None).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn loopback_is_known() {
        for (url, loopback) in [
            ("http://localhost:1/v1", true),
            ("http://127.0.0.9/v1", true),
            ("http://[::1]:1/v1", true),
            ("http://a.localhost/v1", true),
            ("http://10.0.0.1/v1", false),
            ("http://localhost.test/v1", false),
        ] {
            assert_eq!(Endpoint::openai(Some(url), None).unwrap().is_loopback(), loopback, "{url}");
        }
    }

    #[test]
    fn keys_are_never_shown() {
        let key = Secret::new(" sk-very-secret\n").unwrap();
        let endpoint = Endpoint::openai(None, Some(key.clone())).unwrap();
        let shown = format!("{key} {key:?} {endpoint:?} {:?}", endpoint.headers());
        assert!(!shown.contains("very-secret"), "{shown}");
        assert_eq!(endpoint.headers()[0].1.as_bytes(), b"Bearer sk-very-secret");
        for text in ["", "  \n", "a b", "a\u{7}b", "schlüssel"] {
            assert!(matches!(Secret::new(text), Err(LlmError::Key { .. })), "{text:?}");
        }
    }
}
