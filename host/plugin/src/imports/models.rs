//! `models`: asks the session's model. The call's deadline stands still while the model is waited for, which has a limit of its own; the tokens
//! are the session's.

use crate::{
    conversation,
    convert::refusal,
    instance::Instance,
    limits::{MODEL_REQUEST_BYTES, MODEL_REQUESTS, SCHEMA_BYTES},
};
use pith_bindings::imports::pith::plugin::{
    messages::AssistantMessage,
    models::{Host, Query},
    types::{Error, ErrorKind},
};
use pith_core::{AskError, FailureKind, ModelRequest, Schema, canonical_json, parse_strict};
use pith_law::{Authority, Capability};
use pith_protocol::ThinkingLevel;
use serde_json::Value;
use std::sync::Arc;

impl Instance {
    /// Whether a grant names this model, or all.
    fn may_ask(&self, model: &str) -> bool {
        self.facts.grants.iter().any(|grant| match grant {
            Capability::Authority(Authority::Models, bound) => bound.as_deref().is_none_or(|bound| bound == model),
            _ => false,
        })
    }

    async fn ask_model(&mut self, bytes: usize, query: Query) -> Result<AssistantMessage, Error> {
        let Some(scope) = &self.scope else {
            return Err(refusal(ErrorKind::Unavailable, "there is no session, so there is no model to ask"));
        };
        let card = scope.asker.card();
        let model = card.model.to_string();
        if query.model.as_ref().is_some_and(|wanted| *wanted != model) {
            let text = format!("the session's model is {model}, and no other can be asked");
            return Err(refusal(ErrorKind::Unavailable, text));
        }
        if !self.may_ask(&model) {
            let text = format!("asking {model} was not granted: --grant {}:models={model}", self.facts.name);
            return Err(refusal(ErrorKind::Denied, text));
        }
        if bytes > MODEL_REQUEST_BYTES {
            let text = format!("a request to a model has at most {} MiB", MODEL_REQUEST_BYTES >> 20);
            return Err(refusal(ErrorKind::Limit, text));
        }
        if self.model_requests >= MODEL_REQUESTS {
            let text = format!("one call asks a model at most {MODEL_REQUESTS} times");
            return Err(refusal(ErrorKind::Limit, text));
        }
        let schema = query.schema.as_deref().map(compiled).transpose()?;
        let mut system = vec![query.system];
        if let Some((value, _)) = &schema {
            system.push(format!(
                "Answer with one JSON document and nothing else. It has to match this JSON Schema:\n{}",
                canonical_json(value)
            ));
        }
        let converted = query.messages.into_iter().map(|message| {
            conversation::for_model(message, &card.api, &card.model)
                .map(Arc::new)
                .map_err(|error| refusal(ErrorKind::Invalid, format!("{}: {}", error.what, error.why)))
        });
        let request = ModelRequest {
            system: system.into_iter().filter(|text| !text.is_empty()).collect(),
            messages: converted.collect::<Result<_, Error>>()?,
            tools: Vec::new(),
            thinking: thinking(query.thinking.as_deref(), scope.facts.thinking)?,
            output_tokens: (query.output_tokens > 0).then(|| u64::from(query.output_tokens).min(card.output_tokens)),
            // Another conversation than the session's: it must not take the place of that one in the provider's cache.
            cache_key: None,
        };
        if request.messages.is_empty() {
            return Err(refusal(ErrorKind::Invalid, "a request has at least one message"));
        }
        self.model_requests += 1;
        let wait = self.facts.limits.model_wait;
        let _held = self.deadline.hold();
        let asked = scope.asker.complete(request, &self.facts.name, &scope.spent, &self.cancel);
        let reply = match tokio::time::timeout(wait, asked).await {
            Ok(reply) => reply.map_err(refused)?,
            Err(_) => {
                let text = format!("the model gave no answer within {} s", wait.as_secs_f32());
                return Err(refusal(ErrorKind::Limit, text));
            }
        };
        if let Some((_, schema)) = schema {
            fits(&schema, &reply.text())?;
        }
        Ok(conversation::assistant(&reply))
    }
}

fn compiled(text: &str) -> Result<(Value, Schema), Error> {
    if text.len() > SCHEMA_BYTES {
        return Err(refusal(ErrorKind::Limit, format!("a schema has at most {} KiB", SCHEMA_BYTES >> 10)));
    }
    let invalid = |why: String| refusal(ErrorKind::Invalid, format!("the schema: {why}"));
    let value = parse_strict(text).map_err(|error| invalid(error.to_string()))?;
    let schema = Schema::compile(&value).map_err(|error| invalid(error.to_string()))?;
    Ok((value, schema))
}

fn fits(schema: &Schema, text: &str) -> Result<(), Error> {
    let none = |why: String| refusal(ErrorKind::Invalid, format!("the reply does not match the schema: {why}"));
    let value = parse_strict(unfenced(text)).map_err(|error| none(error.to_string()))?;
    let faults = schema.faults(&value);
    if faults.is_empty() { Ok(()) } else { Err(none(faults.join("; "))) }
}

/// Models like to put JSON between fences.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner).trim())
}

fn thinking(wanted: Option<&str>, of_session: ThinkingLevel) -> Result<ThinkingLevel, Error> {
    let Some(wanted) = wanted else { return Ok(of_session) };
    serde_json::from_value(Value::String(wanted.to_owned()))
        .map_err(|_| refusal(ErrorKind::Invalid, format!("there is no thinking level {wanted:?}")))
}

fn refused(error: AskError) -> Error {
    let kind = match &error {
        AskError::Aborted => ErrorKind::Cancelled,
        AskError::Failed { kind, .. } => match kind {
            FailureKind::Overflow => ErrorKind::Overflow,
            FailureKind::Unauthorized => ErrorKind::Unauthorized,
            FailureKind::Quota => ErrorKind::Limit,
            FailureKind::Invalid => ErrorKind::Invalid,
            FailureKind::Refused => ErrorKind::Denied,
            FailureKind::RateLimited | FailureKind::Unavailable => ErrorKind::Unavailable,
            FailureKind::Other => ErrorKind::Internal,
        },
        _ => ErrorKind::Internal,
    };
    refusal(kind, error.to_string())
}

impl Host for Instance {
    async fn complete(&mut self, query: Query) -> wasmtime::Result<Result<AssistantMessage, Error>> {
        let words = [&query.model, &query.thinking, &query.schema].map(|text| text.as_ref().map_or(0, String::len));
        let messages = query.messages.iter().map(conversation::message_bytes);
        let bytes = messages.chain(words).fold(query.system.len(), usize::saturating_add);
        self.enter(bytes)?;
        Ok(self.ask_model(bytes, query).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_held_against_the_schema_and_the_refusal_names_the_place() {
        let text = r#"{"type":"object","properties":{"size":{"type":"integer"}},"required":["size"]}"#;
        let (_, schema) = compiled(text).unwrap();
        for good in [r#"{"size":3}"#, "```json\n{\"size\":3}\n```", " ```\n{\"size\":3}```\n"] {
            assert_eq!(fits(&schema, good).map_err(|error| error.message), Ok(()), "{good}");
        }
        for (bad, place) in [(r#"{"size":"three"}"#, "size"), ("{}", "size"), ("three", "does not match")] {
            let error = fits(&schema, bad).unwrap_err();
            assert!(matches!(error.kind, ErrorKind::Invalid) && error.message.contains(place), "{}", error.message);
        }
        assert!(matches!(compiled("{\"type\":").err().unwrap().kind, ErrorKind::Invalid));
        assert!(matches!(compiled(&" ".repeat(SCHEMA_BYTES + 1)).err().unwrap().kind, ErrorKind::Limit));
    }
}
