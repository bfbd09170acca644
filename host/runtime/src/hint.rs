//! What helps after a run that failed.

use crate::environment::{BASE_URL_VARIABLES, CREDENTIAL_VARIABLES};
use pith_core::{FailureKind, RunEnd};
use pith_protocol::Message;

/// One sentence for people, where the failure's kind says something that its message does not; none otherwise.
pub fn failure_hint(end: &RunEnd) -> Option<String> {
    let failure = end.failure.as_ref()?;
    let hint = match failure.kind {
        FailureKind::Unauthorized => return Some(key_hint(provider(end).unwrap_or_default())),
        FailureKind::Overflow => "use a model with a larger window, or start a new session",
        FailureKind::Quota => "the account's limit or credit is used up: waiting does not help",
        FailureKind::RateLimited => {
            return Some(match failure.retry_after {
                Some(wait) => format!("the server asks to wait {} s before the next request", wait.as_secs().max(1)),
                None => "too many requests: wait, or raise retry.attempts in settings.toml".to_owned(),
            });
        }
        // The message says it all: what could not be reached, or what the server said.
        FailureKind::Unavailable | FailureKind::Invalid | FailureKind::Refused | FailureKind::Other => return None,
    };
    Some(hint.to_owned())
}

/// Who was asked last.
fn provider(end: &RunEnd) -> Option<&str> {
    end.messages.iter().rev().find_map(|message| match message.as_ref() {
        Message::Assistant(reply) => Some(reply.provider.as_str()),
        _ => None,
    })
}

fn key_hint(provider: &str) -> String {
    let key = CREDENTIAL_VARIABLES.iter().find(|variable| variable.provider == provider);
    let base = BASE_URL_VARIABLES.iter().find(|(whose, _)| *whose == provider);
    match (key, base) {
        (Some(key), Some((_, base))) => {
            format!("check {}; where {base} is set, the key must be one for that server", key.name)
        }
        _ => "check the key, and that it is one for the server that was asked".to_owned(),
    }
}
