//! Between the contract's types and ours. No Rust type crosses wit, and no wit type leaves this crate.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pith_bindings::{
    imports::pith::plugin::{
        call_types, tool_types,
        types::{self, Error, ErrorKind},
    },
    messages,
};
use pith_core::{CanonicalCall, canonical_json, parse_strict};
use pith_protocol::{
    CallOrigin, Content, Execution, Exposure, GuestError, GuestErrorKind, Image, ToolOutput, ToolSpec,
};
use serde_json::Value;

/// A refusal of an import.
pub(crate) fn refusal(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error { kind, message: message.into() }
}

/// A guest's refusal, its words as they are.
pub(crate) fn guest_error(error: Error) -> GuestError {
    let kind = match error.kind {
        ErrorKind::Invalid => GuestErrorKind::Invalid,
        ErrorKind::NotFound => GuestErrorKind::NotFound,
        ErrorKind::Denied => GuestErrorKind::Denied,
        ErrorKind::Conflict => GuestErrorKind::Conflict,
        ErrorKind::Unavailable => GuestErrorKind::Unavailable,
        ErrorKind::Limit => GuestErrorKind::Limit,
        ErrorKind::Overflow => GuestErrorKind::Overflow,
        ErrorKind::Unauthorized => GuestErrorKind::Unauthorized,
        ErrorKind::Cancelled => GuestErrorKind::Cancelled,
        ErrorKind::Internal => GuestErrorKind::Internal,
    };
    GuestError { kind, message: error.message }
}

pub(crate) fn tool_call(call: &CanonicalCall) -> messages::ToolCall {
    messages::ToolCall { id: call.id.clone(), name: call.name.clone(), input: call.input.clone() }
}

pub(crate) fn call_origin(origin: &CallOrigin) -> call_types::CallOrigin {
    call_types::CallOrigin {
        caller: origin.caller.as_str().to_owned(),
        plugin: origin.plugin.clone(),
        served_by: origin.served_by.clone(),
        digest: origin.digest.clone(),
        parent_call_id: origin.parent_call_id.clone(),
        depth: origin.depth,
        authorities: origin.authorities.clone(),
        meta: None,
    }
}

/// What a block is counted as.
pub(crate) fn content_bytes(content: &types::Content) -> usize {
    match content {
        types::Content::Text(text) => text.len(),
        types::Content::Image(image) => image.data.len(),
        types::Content::File(file) => file.data.len(),
    }
}

/// What a call is counted as.
pub(crate) fn call_bytes(call: &messages::ToolCall) -> usize {
    call.id.len().saturating_add(call.name.len()).saturating_add(call.input.len())
}

/// What an output is counted as.
pub(crate) fn output_bytes(output: &tool_types::ToolOutput) -> usize {
    let documents = [&output.structured, &output.details].map(|text| text.as_ref().map_or(0, String::len));
    output.content.iter().map(content_bytes).chain(documents).fold(0, usize::saturating_add)
}

/// A guest's document that is no JSON: a fault, for it broke the contract.
#[derive(Debug, thiserror::Error)]
#[error("gave {what} that is not the JSON of the contract")]
pub(crate) struct NotJson {
    pub what: &'static str,
    /// May have the guest's words in it.
    pub why: String,
}

pub(crate) fn json(what: &'static str, text: &str) -> Result<Value, NotJson> {
    parse_strict(text).map_err(|error| NotJson { what, why: error.to_string() })
}

/// A tool's output as the guest gave it. Pictures in it that have no data are the `known` ones, in their order: hooks are given pictures so.
pub(crate) fn tool_output(output: tool_types::ToolOutput, known: &[Content]) -> Result<ToolOutput, NotJson> {
    let mut known = known.iter().filter(|block| matches!(block, Content::Image(_)));
    let content = output.content.into_iter().map(|block| match block {
        types::Content::Text(text) => Content::text(text),
        types::Content::Image(image) if image.data.is_empty() => {
            known.next().cloned().unwrap_or_else(|| Content::text(format!("[{}, without data]", image.mime_type)))
        }
        types::Content::Image(image) => {
            Content::Image(Image { data: STANDARD.encode(&image.data), mime_type: image.mime_type })
        }
        // No wire that we speak takes files in a tool's result: a line in its place, as the contract says.
        types::Content::File(file) => {
            Content::text(format!("[file {}, {}, {} bytes]", file.name, file.mime_type, file.data.len()))
        }
    });
    Ok(ToolOutput {
        content: content.collect(),
        is_error: output.is_error,
        structured: output.structured.map(|text| json("structured output", &text)).transpose()?,
        details: output.details.map(|text| json("details", &text)).transpose()?,
        terminate: output.terminate,
    })
}

/// An output as a filter is given it: pictures without their data.
pub(crate) fn shown_output(output: &ToolOutput) -> tool_types::ToolOutput {
    let content = output.content.iter().filter_map(|block| match block {
        Content::Text(text) => Some(types::Content::Text(text.text.clone())),
        Content::Image(image) => {
            Some(types::Content::Image(types::Image { mime_type: image.mime_type.clone(), data: Vec::new() }))
        }
        _ => None,
    });
    tool_types::ToolOutput {
        content: content.collect(),
        is_error: output.is_error,
        structured: output.structured.as_ref().map(canonical_json),
        details: output.details.as_ref().map(canonical_json),
        terminate: output.terminate,
    }
}

pub(crate) fn tool_spec(spec: tool_types::ToolSpec) -> Result<ToolSpec, NotJson> {
    Ok(ToolSpec {
        name: spec.name,
        label: spec.label,
        description: spec.description,
        input_schema: json("an input schema", &spec.input_schema)?,
        output_schema: spec.output_schema.map(|text| json("an output schema", &text)).transpose()?,
        execution: match spec.execution {
            tool_types::Execution::Parallel => Execution::Parallel,
            tool_types::Execution::Sequential => Execution::Sequential,
        },
        exposure: match spec.exposure {
            tool_types::Exposure::Direct => Exposure::Direct,
            tool_types::Exposure::Deferred => Exposure::Deferred,
            tool_types::Exposure::Scripted => Exposure::Scripted,
            tool_types::Exposure::Hidden => Exposure::Hidden,
        },
        guidelines: spec.guidelines,
        meta: spec.meta.map(|text| json("meta", &text)).transpose()?,
    })
}
