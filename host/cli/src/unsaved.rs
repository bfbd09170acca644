//! The last words of a session that could not be saved: what is missing, why, and where a copy is.

use crate::{
    failure::{DONE, FAILED, Failure},
    harmless::harmless_line,
};
use pith_runtime::{NotSaved, Pith};
use std::sync::Arc;

/// Characters of a path or a reason.
const SHOWN_CHARS: usize = 1000;

/// Tries once more to save what waits, on a thread for such work. Where that fails it is what the program ends with, instead of `code` where
/// that would say that all is well. None: all is in the file.
pub async fn left(pith: &Arc<Pith>, code: u8) -> Option<Failure> {
    pith.session().unsaved()?;
    let pith = pith.clone();
    let missing = tokio::task::spawn_blocking(move || pith.rescue()).await.ok()??;
    Some(failure(&missing, code))
}

fn failure(missing: &NotSaved, code: u8) -> Failure {
    let shown = |text: &str| harmless_line(text, SHOWN_CHARS);
    let entries = match missing.unsaved.entries {
        1 => "1 entry".to_owned(),
        many => format!("{many} entries"),
    };
    let message = format!(
        "the session is not saved: {entries} ({} bytes) could not be written to {}: {}",
        missing.unsaved.bytes,
        shown(&missing.file.to_string_lossy()),
        shown(&missing.unsaved.reason),
    );
    let hint = match &missing.rescue {
        Ok(copy) => {
            let copy = shown(&copy.to_string_lossy());
            format!("a copy of all of it is in {copy}; `pith --session {copy} --trust-session` goes on from it")
        }
        Err(error) => format!("a copy could not be made either: {}", shown(error)),
    };
    Failure { message, hint: Some(hint), code: if code == DONE { FAILED } else { code } }
}
