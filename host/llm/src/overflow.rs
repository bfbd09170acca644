//! Requests that are longer than the window: how providers say so, and the window that they name.

use serde_json::Value;

/// Texts of requests that are too long, lowercase; the parts of each stand in this order.
const OVERFLOW: &[&[&str]] = &[
    &["prompt is too long"],
    &["prompt too long"],
    &["input is too long"],
    &["input too long"],
    &["prompt exceeds max length"],
    &["request_too_large"],
    &["exceed", "context window"],
    &["context window exceeds"],
    &["exceed", "context length"],
    &["exceed", "context limit"],
    &["exceed", "context size"],
    &["exceed_context_size"],
    &["maximum context length"],
    &["maximum model length"],
    &["context length is only"],
    &["context length of only"],
    &["context_length_exceeded"],
    &["context length exceeded"],
    &["context_window_exceeded"],
    &["context window exceeded"],
    &["contextwindowexceeded"],
    &["longer than", "context length"],
    &["reached context length"],
    &["greater than the context length"],
    &["configured context size is"],
    &["input tokens exceed", "limit"],
    &["input token count", "exceed"],
    &["prompt token count", "exceeds the limit"],
    &["maximum allowed input length"],
    &["maximum prompt length"],
    &["reduce the length of the messages"],
    &["exceeded model token limit"],
    &["exceeds the model's maximum"],
    &["too large for model with", "maximum context"],
    &["prompt", "exceeds", "token", "limit"],
    &["token limit exceeded"],
    &["range of input length"],
    &["too many tokens"],
    // One text of the conversation alone; of a tool's description it would be another matter.
    &["invalid 'messages", "string too long"],
];

/// What a window's number follows, and that a request's own number does not. The first that is there counts.
const WINDOW_FOLLOWS: &[&str] = &[
    "maximum context length is",
    "maximum context length of",
    "maximum context length (",
    "context length is only",
    "context length of only",
    "maximum model length of",
    "model's context length (",
    "reached context length of",
    "available context size (",
    "configured context size is",
    "configured limit of",
    "maximum prompt length is",
    "maximum number of tokens allowed",
    "maximum allowed input length of",
    "exceeds the limit of",
    "model token limit:",
    "range of input length should be [1,",
    "too large for model with",
];

/// What a window's number follows once it was said that a prompt is too long: `213462 tokens > 200000 maximum`.
const COMPARED: &[&str] = &["prompt is too long", "exceed context limit"];

/// No window is smaller, in tokens: what is read as one is another number.
const LEAST_WINDOW_TOKENS: u64 = 128;
/// No window is larger.
const MOST_WINDOW_TOKENS: u64 = 100_000_000;

/// Whether a text, lowercase, says that the request is longer than the window.
pub(crate) fn is_overflow(text: &str) -> bool {
    OVERFLOW.iter().any(|parts| stands_in_order(text, parts))
}

/// What one request may take of what an account may send in a minute, where the request alone is more: it would wait for ever. The text
/// is lowercase. `Request too large for m on tokens per min (TPM): Limit 30000, Requested 40000.`
pub(crate) fn minute_limit(text: &str) -> Option<u64> {
    let rest = &text[text.find("request too large for")?..];
    let limit = number_after(rest, "limit ")?;
    let requested = number_after(rest, "requested ")?;
    (requested > limit && rest.contains("tokens per min")).then_some(limit).filter(|limit| is_window(*limit))
}

/// The window that an overflow names, in tokens: in a field, or in its words, lowercase.
pub(crate) fn named_window(body: Option<&Value>, text: &str) -> Option<u64> {
    let field = body.and_then(|body| {
        ["/error/n_ctx", "/n_ctx"].iter().find_map(|pointer| body.pointer(pointer).and_then(Value::as_u64))
    });
    field
        .or_else(|| WINDOW_FOLLOWS.iter().find_map(|words| number_after(text, words)))
        .or_else(|| COMPARED.iter().find_map(|words| number_after(&text[text.find(words)?..], ">")))
        .or_else(|| minute_limit(text))
        .filter(|window| is_window(*window))
}

fn is_window(tokens: u64) -> bool {
    (LEAST_WINDOW_TOKENS..=MOST_WINDOW_TOKENS).contains(&tokens)
}

/// The number right after some words, but for blanks and a bracket; its digits may be grouped.
fn number_after(text: &str, words: &str) -> Option<u64> {
    let rest = &text[text.find(words)? + words.len()..];
    let rest = rest.trim_start_matches([' ', '(', ':']);
    let mut number: Option<u64> = None;
    let mut bytes = rest.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'0'..=b'9' => {
                number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(u64::from(byte - b'0'))?);
            }
            b',' | b'_' if number.is_some() && bytes.peek().is_some_and(u8::is_ascii_digit) => {}
            _ => break,
        }
    }
    number
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

#[cfg(test)]
mod tests {
    use crate::errors::{in_event, of_response};
    use pith_core::{FailureKind, ModelFailure};
    use serde_json::json;

    fn failure(status: u16, body: &str) -> ModelFailure {
        of_response(status, body.as_bytes()).failure
    }

    /// Bodies as servers send them, and the window that each names.
    #[test]
    fn each_servers_overflow_is_known_by_its_body_and_names_its_window() {
        let anthropic = |text: &str| {
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": text}}).to_string()
        };
        let openai = |text: &str| {
            json!({"error": {"message": text, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}})
                .to_string()
        };
        let vllm = |text: &str| {
            json!({"object": "error", "message": text, "type": "BadRequestError", "param": null, "code": 400})
                .to_string()
        };
        let plain = |text: &str| json!({ "error": text }).to_string();
        let nested = |text: &str| json!({"error": {"message": text, "code": 400}}).to_string();
        for (status, body, window) in [
            (400, anthropic("prompt is too long: 213462 tokens > 200000 maximum"), Some(200_000)),
            (
                400,
                anthropic("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again"),
                Some(200_000),
            ),
            (413, r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#.to_owned(), None),
            (
                400,
                openai("This model's maximum context length is 128000 tokens. However, your messages resulted in 150123 tokens (149000 in the messages, 1123 in the functions). Please reduce the length of the messages or functions."),
                Some(128_000),
            ),
            (
                400,
                openai("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens. Please reduce the length of the messages."),
                Some(272_000),
            ),
            (400, openai("Your input exceeds the context window of this model. Please adjust your input and try again."), None),
            (
                400,
                r#"{"error":{"message":"Invalid 'messages[1].content': string too long. Expected a string with maximum length 10485760, but got a string with length 20000000 instead.","type":"invalid_request_error","param":"messages[1].content","code":"string_above_max_length"}}"#.to_owned(),
                None,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"request (6031 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":6031,"n_ctx":4096}}"#.to_owned(),
                Some(4_096),
            ),
            // Before it named the window in a field.
            (
                500,
                r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"server_error"}}"#.to_owned(),
                None,
            ),
            (
                400,
                vllm("This model's maximum context length is 4096 tokens. However, you requested 5123 tokens (5023 in the messages, 100 in the completion). Please reduce the length of the messages or completion. None"),
                Some(4_096),
            ),
            (
                400,
                vllm("The decoder prompt (length 5023) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens."),
                Some(4_096),
            ),
            (
                400,
                vllm("'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 4096 tokens and your request has 3020 input tokens (8000 > 4096 - 3020). None"),
                Some(4_096),
            ),
            (
                400,
                nested("You passed 5001 input tokens and requested 100 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3996 tokens. Please reduce the length of the input prompt."),
                Some(4_096),
            ),
            (400, plain("prompt too long; exceeded max context length by 4012 tokens"), None),
            (400, plain("the input length exceeds the context length"), None),
            (
                400,
                plain("Trying to keep the first 5120 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"),
                Some(4_096),
            ),
            (
                400,
                plain("The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input"),
                None,
            ),
            (400, plain("Reached context length of 4096 tokens with model, but this model does not currently support mid-generation context overflow."), Some(4_096)),
            (400, nested("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."), Some(1_048_575)),
            (400, nested("The input token count exceeds the maximum number of tokens allowed 1048576."), Some(1_048_576)),
            (400, plain("This model's maximum prompt length is 131072 but the request contains 537812 tokens."), Some(131_072)),
            (413, nested("Please reduce the length of the messages or completion."), None),
            (
                400,
                nested("This endpoint's maximum context length is 131,072 tokens. However, you requested about 150000 tokens (149000 of text input, 1000 in the output)."),
                Some(131_072),
            ),
            (422, r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_invalid_args","code":"3051"}"#.to_owned(), Some(32_768)),
            (400, nested("Range of input length should be [1, 30720]"), Some(30_720)),
            (400, nested("Invalid request: Your request exceeded model token limit: 262144 (requested: 300123)"), Some(262_144)),
            (422, nested("The input (5023 tokens) is longer than the model's context length (4096 tokens)."), Some(4_096)),
            (400, nested("Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 140000 tokens."), Some(131_072)),
            (400, nested("Input length (265330) exceeds model's maximum context length (262144)."), Some(262_144)),
            (400, nested("Input length 140000 exceeds the maximum allowed input length of 131040 tokens."), Some(131_040)),
            (400, nested("prompt token count of 150123 exceeds the limit of 128000"), Some(128_000)),
            (400, nested("Prompt has 5,023 tokens, but the configured context size is 4,096 tokens"), Some(4_096)),
            (400, nested("litellm.ContextWindowExceededError: the conversation is too long"), None),
            (413, "<html><title>413 Request Entity Too Large</title></html>".to_owned(), None),
        ] {
            let failure = failure(status, &body);
            assert_eq!((failure.kind, failure.window_tokens), (FailureKind::Overflow, window), "{body}");
        }
        // In the middle of a stream.
        let event =
            json!({"error": {"code": 400, "message": "too big", "type": "exceed_context_size_error", "n_ctx": 8192}});
        let failure = in_event(&event).unwrap().failure;
        assert_eq!((failure.kind, failure.window_tokens), (FailureKind::Overflow, Some(8_192)));
    }

    /// A request that is more than a minute's share never fits, however long one waits.
    #[test]
    fn what_never_fits_a_minute_is_too_long_and_what_fits_the_next_one_waits() {
        let of = |status, limit: u64, requested: u64| {
            let text = format!(
                "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit {limit}, Requested {requested}. The input or output tokens must be reduced in order to run successfully."
            );
            let body = json!({"error": {"message": text, "type": "tokens", "code": "rate_limit_exceeded"}});
            failure(status, &body.to_string())
        };
        for status in [413, 429] {
            let failure = of(status, 30_000, 41_000);
            assert_eq!((failure.kind, failure.window_tokens), (FailureKind::Overflow, Some(30_000)));
        }
        assert_eq!(of(429, 30_000, 20_000).kind, FailureKind::RateLimited);
        let reached = r#"{"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.","code":"rate_limit_exceeded"}}"#;
        let failure = failure(429, reached);
        assert_eq!((failure.kind, failure.window_tokens), (FailureKind::RateLimited, None));
    }

    #[test]
    fn other_limits_are_not_the_window() {
        for (status, text) in [
            (
                400,
                "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude-haiku-4-5",
            ),
            (
                400,
                "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
            ),
            (
                400,
                "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024",
            ),
            (
                400,
                "Invalid 'max_tokens': integer above maximum value. Expected a value <= 16384, but got 99999 instead.",
            ),
        ] {
            let body = json!({"error": {"message": text, "type": "invalid_request_error"}}).to_string();
            let failure = failure(status, &body);
            assert_eq!((failure.kind, failure.window_tokens), (FailureKind::Invalid, None), "{text}");
        }
    }

    #[test]
    fn numbers_that_are_no_windows_are_not_taken() {
        for (text, window) in [
            ("maximum context length is 99999999999999999999999 tokens", None),
            ("maximum context length is 7 tokens", None),
            ("maximum context length is unknown", None),
            ("maximum context length is 4096", Some(4_096)),
            ("maximum context length is 4,096, and", Some(4_096)),
            ("maximum context length is", None),
        ] {
            assert_eq!(failure(400, &json!({ "error": text }).to_string()).window_tokens, window, "{text}");
        }
    }
}
