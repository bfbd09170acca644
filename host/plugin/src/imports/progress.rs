//! `progress`: partial output while a call runs; at most ten updates a second leave, the newest replaces the ones between.

use crate::{
    convert,
    instance::Instance,
    limits::{PROGRESS_BYTES, PROGRESS_INTERVAL},
};
use pith_bindings::imports::pith::plugin::{progress::Host, types::Content as WitContent};
use pith_core::Progress;
use pith_protocol::Content;
use serde_json::Value;
use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};
use tokio::sync::Notify;

type Update = (Vec<Content>, Option<Value>);

/// Between a guest's updates and the face.
pub(crate) struct ProgressGate {
    out: Progress,
    state: Mutex<State>,
    waiting: Notify,
}

#[derive(Default)]
struct State {
    last: Option<Instant>,
    newest: Option<Update>,
}

impl ProgressGate {
    pub fn new(out: Progress) -> Self {
        Self { out, state: Mutex::default(), waiting: Notify::new() }
    }

    fn update(&self, update: Update) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_due = state.last.is_none_or(|last| now.duration_since(last) >= PROGRESS_INTERVAL);
        if is_due {
            state.last = Some(now);
            state.newest = None;
            drop(state);
            self.out.update(update.0, update.1);
        } else {
            state.newest = Some(update);
            self.waiting.notify_one();
        }
    }

    /// Lets what came too soon out at once: the call is over, and this is the last of it.
    pub fn flush(&self) {
        let newest = self.state.lock().unwrap_or_else(PoisonError::into_inner).newest.take();
        if let Some((content, details)) = newest {
            self.out.update(content, details);
        }
    }

    /// Lets updates that came too soon out when it is time; runs beside the call and ends with it.
    pub async fn release(&self) {
        loop {
            self.waiting.notified().await;
            let due =
                self.state.lock().unwrap_or_else(PoisonError::into_inner).last.map(|last| last + PROGRESS_INTERVAL);
            if let Some(due) = due {
                tokio::time::sleep_until(due.into()).await;
            }
            let newest = {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.last = Some(Instant::now());
                state.newest.take()
            };
            if let Some((content, details)) = newest {
                self.out.update(content, details);
            }
        }
    }
}

impl Host for Instance {
    async fn update(&mut self, content: Vec<WitContent>, details: Option<String>) -> wasmtime::Result<()> {
        let bytes = content.iter().map(convert::content_bytes).fold(0, usize::saturating_add);
        let details_bytes = details.as_ref().map_or(0, String::len);
        self.enter(bytes.saturating_add(details_bytes))?;
        let Some(gate) = self.progress.clone() else { return Ok(()) };
        // What is no JSON is not shown; the output itself is.
        let details =
            details.filter(|text| text.len() <= PROGRESS_BYTES).and_then(|text| pith_core::parse_strict(&text).ok());
        gate.update((kept(content), details));
        Ok(())
    }
}

/// The newest [`PROGRESS_BYTES`]: of text the end, of pictures none.
fn kept(content: Vec<WitContent>) -> Vec<Content> {
    let mut room = PROGRESS_BYTES;
    let mut kept = Vec::new();
    for block in content.into_iter().rev() {
        let WitContent::Text(text) = block else { continue };
        let start = text.ceil_char_boundary(text.len().saturating_sub(room));
        room = room.saturating_sub(text.len() - start);
        if start < text.len() {
            kept.push(Content::text(&text[start..]));
        }
        if room == 0 {
            break;
        }
    }
    kept.reverse();
    kept
}
