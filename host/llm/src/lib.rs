//! Speech: providers, their wire formats, streaming, error classification, the model table.
//!
//! Each wire is two pure halves: a function from a request to a body, and a fold from the stream's events to the reply's (`fold` is
//! what both folds share). `provider` joins them to `http`. `replay` holds what every wire leaves out of a conversation that another model wrote. No environment is
//! read here: keys and base URLs come as values (only `SSL_CERT_FILE`, `SSL_CERT_DIR` and the proxies' variables are read, by the
//! crates that own them).

mod anthropic_messages;
mod endpoint;
mod errors;
mod failure_kind;
mod fold;
mod http;
mod models;
mod nesting;
mod openai_completions;
mod overflow;
mod prices;
mod provider;
mod replay;
mod reply;
mod retry_after;
mod scripted;
mod sse;
mod target;
mod wire_json;

pub use anthropic_messages::{MessagesFold, messages_body};
pub use endpoint::{ANTHROPIC_BASE_URL, Endpoint, OPENAI_BASE_URL, Secret, Wire};
pub use errors::LlmError;
pub use http::{CONNECT_TIMEOUT, Client, ERROR_BODY_LIMIT_BYTES, IDLE_TIMEOUT, REPLY_LIMIT_BYTES};
pub use models::{UNKNOWN_OUTPUT_TOKENS, UNKNOWN_WINDOW_TOKENS, default_model, model_card, models_as_of, prices};
pub use openai_completions::{CompletionsFold, completions_body};
pub use prices::{LongPrompt, Prices, Rates};
pub use provider::{LISTING_DEADLINE, LISTING_LIMIT_BYTES, connect, list_models};
pub use reply::{BLOCK_LIMIT, ReplyStart, StreamEnd};
pub use scripted::{SCENARIO_LIMIT_BYTES, Scripted};
pub use sse::{SSE_EVENT_LIMIT_BYTES, SseError, SseEvent, SseParser};
pub use target::Target;
