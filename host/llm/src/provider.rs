//! A provider's model over HTTP: request out, events in.

use crate::{
    Client, Endpoint, LlmError, ReplyStart, SseEvent, SseParser, StreamEnd, Target, Wire,
    anthropic_messages::{self, MessagesFold, messages_body},
    errors::Trouble,
    fold::{Fold, WireState},
    http::{self, REPLY_LIMIT_BYTES},
    openai_completions::{CompletionsFold, completions_body},
};
use futures::stream::{self, BoxStream, StreamExt};
use pith_core::{FailureKind, Model, ModelCard, ModelEvent, ModelRequest};
use reqwest::{
    Response,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long a list of models may take.
pub const LISTING_DEADLINE: Duration = Duration::from_secs(5);
/// The longest list of models, in bytes.
pub const LISTING_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// A model at an endpoint. Nothing is sent before it is asked.
pub fn connect(client: &Client, endpoint: &Endpoint, model_id: &str) -> Arc<dyn Model> {
    Arc::new(RemoteModel {
        client: client.clone(),
        endpoint: endpoint.clone(),
        target: Target::new(endpoint, model_id),
    })
}

/// The ids of the models that an endpoint serves, in its order.
///
/// # Errors
/// `LlmError::Listing`, also after `LISTING_DEADLINE` and beyond `LISTING_LIMIT_BYTES`.
pub async fn list_models(client: &Client, endpoint: &Endpoint) -> Result<Vec<String>, LlmError> {
    #[derive(Deserialize)]
    struct Listing {
        data: Vec<Listed>,
    }
    #[derive(Deserialize)]
    struct Listed {
        id: String,
    }
    let failed = |kind, message: String| LlmError::Listing {
        base_url: endpoint.base_url().to_owned(),
        message: endpoint.without_key(message),
        kind,
    };
    let get = client.get(endpoint, endpoint.models_url(), LISTING_LIMIT_BYTES);
    let body = match tokio::time::timeout(LISTING_DEADLINE, get).await {
        Ok(Ok(body)) => body,
        Ok(Err(trouble)) => return Err(failed(trouble.failure.kind, trouble.message)),
        Err(_) => {
            let message = format!("no answer within {} seconds", LISTING_DEADLINE.as_secs());
            return Err(failed(FailureKind::Unavailable, message));
        }
    };
    let listing: Listing = serde_json::from_slice(&body)
        .map_err(|error| failed(FailureKind::Other, format!("the answer is no list of models: {error}")))?;
    Ok(listing.data.into_iter().map(|listed| listed.id).filter(|id| !id.is_empty()).collect())
}

/// How long a server may take from the reason why it ended to the stream's end.
const LAST_WORD_TIMEOUT: Duration = Duration::from_secs(3);

struct RemoteModel {
    client: Client,
    endpoint: Endpoint,
    target: Target,
}

impl Model for RemoteModel {
    fn card(&self) -> &ModelCard {
        &self.target.card
    }

    fn ask(&self, request: ModelRequest, cancel: CancellationToken) -> BoxStream<'static, ModelEvent> {
        let start = ReplyStart::new(&self.target.card, self.target.prices, &request);
        let mut headers = HeaderMap::new();
        let (body, fold): (_, Box<Fold<dyn WireState + Send>>) = match self.endpoint.wire() {
            Wire::AnthropicMessages => {
                let body = messages_body(&self.target, &request);
                if let Some(beta) = anthropic_messages::beta(&body) {
                    headers.insert(HeaderName::from_static("anthropic-beta"), HeaderValue::from_static(beta));
                }
                (body, Box::new(MessagesFold::new(start)))
            }
            Wire::OpenAiCompletions => {
                (completions_body(&self.target, &request), Box::new(CompletionsFold::new(start)))
            }
        };
        drop(request);
        let exchange = Exchange {
            client: self.client.clone(),
            endpoint: self.endpoint.clone(),
            cancel,
            phase: Phase::Unsent(headers, body.to_string().into_bytes()),
            fold,
            ready: VecDeque::new(),
        };
        stream::unfold(exchange, Exchange::next).boxed()
    }
}

/// One request and its answer.
struct Exchange {
    client: Client,
    endpoint: Endpoint,
    cancel: CancellationToken,
    phase: Phase,
    fold: Box<Fold<dyn WireState + Send>>,
    ready: VecDeque<ModelEvent>,
}

enum Phase {
    Unsent(HeaderMap, Vec<u8>),
    Reading { response: Response, parser: SseParser, read_bytes: usize },
    Over,
}

impl Exchange {
    async fn next(mut self) -> Option<(ModelEvent, Self)> {
        loop {
            if let Some(mut event) = self.ready.pop_front() {
                if let ModelEvent::Done { message, .. } = &mut event {
                    message.error_message = message.error_message.take().map(|words| self.endpoint.without_key(words));
                    // Nothing of what may still come is wanted: the connection is let go.
                    self.phase = Phase::Over;
                    self.ready.clear();
                }
                return Some((event, self));
            }
            if matches!(self.phase, Phase::Over) {
                return None;
            }
            let cancel = self.cancel.clone();
            let events = tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                events = self.advance() => Some(events),
            };
            let events = events.unwrap_or_else(|| {
                self.phase = Phase::Over;
                self.fold.finish(StreamEnd::Cancelled)
            });
            self.ready.extend(events);
        }
    }

    /// One step: sends, or reads a piece.
    async fn advance(&mut self) -> Vec<ModelEvent> {
        match &mut self.phase {
            Phase::Over => Vec::new(),
            Phase::Unsent(headers, body) => {
                let (headers, body) = (std::mem::take(headers), std::mem::take(body));
                match self.client.post(&self.endpoint, headers, body).await {
                    Ok(response) => {
                        self.phase = Phase::Reading { response, parser: SseParser::new(), read_bytes: 0 };
                        Vec::new()
                    }
                    Err(trouble) => self.break_off(trouble),
                }
            }
            Phase::Reading { response, parser, read_bytes } => {
                // Once the end was said, only the last word and the count of tokens can follow: a server that forgets to close is not waited for.
                let chunk = match self.fold.said_its_end() {
                    false => response.chunk().await,
                    true => tokio::time::timeout(LAST_WORD_TIMEOUT, response.chunk()).await.unwrap_or(Ok(None)),
                };
                let piece = match chunk {
                    Ok(Some(piece)) => piece,
                    Ok(None) => {
                        let last = parser.finish().filter(is_whole);
                        self.phase = Phase::Over;
                        let mut events = last.map(|event| self.fold.push(&event)).unwrap_or_default();
                        events.extend(self.fold.finish(StreamEnd::Closed));
                        return events;
                    }
                    Err(error) => return self.break_off(http::interrupted(&error)),
                };
                *read_bytes = read_bytes.saturating_add(piece.len());
                if *read_bytes > REPLY_LIMIT_BYTES {
                    let message = format!("the reply is longer than {REPLY_LIMIT_BYTES} bytes");
                    return self.break_off(Trouble::new(FailureKind::Other, message));
                }
                match parser.push(&piece) {
                    Ok(events) => events.iter().flat_map(|event| self.fold.push(event)).collect(),
                    Err(error) => self.break_off(Trouble::new(FailureKind::Other, error.to_string())),
                }
            }
        }
    }

    fn break_off(&mut self, trouble: Trouble) -> Vec<ModelEvent> {
        self.phase = Phase::Over;
        self.fold.break_off(trouble)
    }
}

/// Whether an event that no blank line ended was cut in its middle.
fn is_whole(event: &SseEvent) -> bool {
    let data = event.data.trim();
    data == "[DONE]" || serde_json::from_str::<&RawValue>(data).is_ok()
}
