//! The wire of OpenAI's chat completions, as OpenAI and its many look-alikes speak it.

mod fold;
mod request;

pub use fold::CompletionsFold;
pub use request::completions_body;

/// The fields in which look-alikes put thoughts; the one that was used is kept as the thoughts' signature.
const THINKING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];
