//! What faces say of a compaction: how it begins, how it ends.

use crate::harmless::harmless_line;
use pith_protocol::{CompactionReason, Event};

/// Characters of a reason that are shown.
const WHY_CHARS: usize = 300;

/// A line about a compaction.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Of interest to who looks.
    Progress(String),
    /// Something that was not as it should be.
    Warning(String),
}

/// The line of an event; none where it is no compaction's, or says nothing that another event does not say.
pub fn line(event: &Event) -> Option<Line> {
    match event {
        Event::CompactionStart { reason } => {
            Some(Line::Progress(format!("· {}summing up older messages", why(*reason))))
        }
        Event::CompactionEnd { aborted: true, .. } => Some(Line::Progress("  stopped; nothing was changed".to_owned())),
        Event::CompactionEnd { result: Some(result), error_message: None, .. } => Some(Line::Progress(format!(
            "  summed up: {} tokens before, about {} now",
            grouped(result.tokens_before),
            grouped(result.estimated_tokens_after)
        ))),
        Event::CompactionEnd { result: Some(_), error_message: Some(error), .. } => Some(Line::Warning(format!(
            "older messages were left out of what the model sees and not summed up: {}",
            harmless_line(error, WHY_CHARS)
        ))),
        Event::CompactionEnd { result: None, error_message: Some(error), .. } => {
            Some(Line::Warning(format!("older messages were not summed up: {}", harmless_line(error, WHY_CHARS))))
        }
        _ => None,
    }
}

fn why(reason: CompactionReason) -> &'static str {
    match reason {
        CompactionReason::Manual => "",
        CompactionReason::Threshold => "the model's window is nearly full: ",
        CompactionReason::Overflow => "the conversation is longer than the model's window: ",
    }
}

/// With a comma for each thousand.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pith_protocol::CompactionResult;

    #[test]
    fn lines() {
        let result = |tokens_before| {
            Some(CompactionResult {
                summary: "s".to_owned(),
                first_kept_entry_id: "a".into(),
                tokens_before,
                estimated_tokens_after: 999,
                usage: None,
                details: None,
            })
        };
        let end = |result, aborted, error: Option<&str>| Event::CompactionEnd {
            reason: CompactionReason::Threshold,
            result,
            aborted,
            will_retry: false,
            error_message: error.map(str::to_owned),
        };
        let progress = |text: &str| Some(Line::Progress(text.to_owned()));
        let warning = |text: &str| Some(Line::Warning(text.to_owned()));
        for (event, expected) in [
            (
                Event::CompactionStart { reason: CompactionReason::Threshold },
                progress("· the model's window is nearly full: summing up older messages"),
            ),
            (Event::CompactionStart { reason: CompactionReason::Manual }, progress("· summing up older messages")),
            (end(result(1_234_567), false, None), progress("  summed up: 1,234,567 tokens before, about 999 now")),
            (end(None, true, None), progress("  stopped; nothing was changed")),
            (end(None, false, None), None),
            (end(None, false, Some("\u{1b}[31mno")), warning("older messages were not summed up: no")),
            (
                end(result(1), false, Some("it failed")),
                warning("older messages were left out of what the model sees and not summed up: it failed"),
            ),
            (Event::AgentStart, None),
        ] {
            assert_eq!(line(&event), expected, "{event:?}");
        }
    }
}
