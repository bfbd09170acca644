//! `reply`: the pieces of a model's reply. Refused outside the export `provider`, which this host does not serve yet.

use crate::{convert::refusal, instance::Instance};
use pith_bindings::imports::pith::plugin::{
    reply::{Delta, Host},
    types::{Error, ErrorKind},
};

impl Host for Instance {
    async fn push(&mut self, deltas: Vec<Delta>) -> wasmtime::Result<Result<(), Error>> {
        let bytes = deltas.iter().map(delta_bytes).fold(0, usize::saturating_add);
        self.enter(bytes)?;
        Ok(Err(refusal(ErrorKind::Denied, "reply.push can be called within provider.ask only")))
    }

    async fn retry_after(&mut self, _wait_ms: u32) -> wasmtime::Result<()> {
        self.enter(0)
    }
}

fn delta_bytes(delta: &Delta) -> usize {
    match delta {
        Delta::Text(text)
        | Delta::Thinking(text)
        | Delta::ThinkingSignature(text)
        | Delta::RedactedThinking(text)
        | Delta::ToolSignature(text)
        | Delta::ToolInput(text) => text.len(),
        Delta::ToolStart(start) => start.id.len().saturating_add(start.name.len()),
    }
}
