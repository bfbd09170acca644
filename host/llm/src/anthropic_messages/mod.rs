//! The wire of Anthropic's messages.

mod fold;
mod request;

pub use fold::MessagesFold;
pub use request::messages_body;
pub(crate) use request::wants_interleaved_thinking;
