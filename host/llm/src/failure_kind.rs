//! What kind of failure a provider reports: by status, by name, and by the words that providers use.

use crate::overflow::{is_overflow, minute_limit};
use pith_core::FailureKind;

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
pub(crate) fn kind_of(status: Option<u16>, names: &str, text: &str) -> FailureKind {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let is_named = |words: &[&str]| words.iter().any(|word| names.contains(word));
    let throttled = status == Some(429) || has(THROTTLED);
    if is_named(&["context_length_exceeded", "exceed_context_size", "request_too_large"]) {
        return FailureKind::Overflow;
    }
    if minute_limit(&text).is_some() {
        return FailureKind::Overflow;
    }
    // A rate limit's explanation may name the page on billing, so that its own name goes first.
    if is_named(&["insufficient_quota", "billing", "payment"]) {
        return FailureKind::Quota;
    }
    if is_named(&["rate_limit", "resource_exhausted"]) && !text.contains("exceeded your current quota") {
        return FailureKind::RateLimited;
    }
    if !throttled && (status == Some(413) || is_overflow(&text)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::of_response;

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
}
