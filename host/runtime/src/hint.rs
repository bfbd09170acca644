//! What helps after a run that failed.

use pith_core::{FailureKind, RunEnd};

/// One sentence for people, where the failure's kind says something that its message does not; none otherwise.
pub fn failure_hint(end: &RunEnd) -> Option<String> {
    let failure = end.failure.as_ref()?;
    let hint = match failure.kind {
        FailureKind::Unauthorized => {
            "check ANTHROPIC_API_KEY or OPENAI_API_KEY, and that the base URL, if one is set, is the one that the key is for"
        }
        FailureKind::Overflow => {
            "the conversation is longer than the model's window: start a new session, or use a model with a larger one"
        }
        FailureKind::Quota => "the account's limit or credit is used up: waiting does not help",
        FailureKind::RateLimited => "too many requests: wait, or raise retry.attempts in settings.toml",
        FailureKind::Unavailable => "is the server running, and is the base URL right?",
        FailureKind::Invalid | FailureKind::Refused | FailureKind::Other => return None,
    };
    Some(hint.to_owned())
}
