use crate::{context, progress};

/// What a tool may know and say while it serves one call.
#[derive(Debug)]
pub struct Context {
    call_id: String,
}

impl Context {
    pub(crate) fn new(call_id: String) -> Self {
        Self { call_id }
    }

    /// The call's id, unique within the session.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The session's working folder, absolute, spelled with `/`.
    pub fn cwd(&self) -> String {
        context::cwd()
    }

    /// Milliseconds until the call's one deadline; 0 when it has passed.
    pub fn remaining_ms(&self) -> u32 {
        context::remaining_ms()
    }

    /// Shows partial output to the person; the newest replaces the one before. The host keeps 64 KiB and 10 a second.
    pub fn progress(&self, text: &str) {
        progress::text(text);
    }
}
