//! The wire of Anthropic's messages.

mod fold;
mod request;

pub use fold::MessagesFold;
pub(crate) use request::beta;
pub use request::messages_body;
