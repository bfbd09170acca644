//! Blocks of content.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};
use std::sync::Arc;

/// One block of a message's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Content {
    /// Words.
    Text(Text),
    /// A model's thoughts.
    Thinking(Thinking),
    /// A picture.
    Image(Image),
    /// A model asks for a tool.
    ToolCall(ToolCall),
    /// A kind that this version does not know; its data stays in the session's raw line.
    #[serde(other)]
    Unknown,
}

/// Words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Text {
    /// The words.
    pub text: String,
    /// The provider's opaque proof of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_signature: Option<String>,
}

/// A model's thoughts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Thinking {
    /// The thoughts; empty where the provider does not show them.
    pub thinking: String,
    /// The provider's opaque proof, given back unchanged to the same model; for `openai-completions` the name of the field it came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_signature: Option<String>,
    /// The signature is the provider's encrypted form of thoughts that it does not show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<bool>,
}

/// A picture, in base64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// Base64, standard alphabet, padded.
    pub data: String,
    /// An IANA media type.
    pub mime_type: String,
}

/// A model asks for a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Unique within the session.
    pub id: String,
    /// The tool's short name.
    pub name: String,
    /// What the model sent, as an object. Empty where `arguments_error` is set, and where a file of others has something else here.
    #[serde(default, deserialize_with = "lenient_arguments")]
    pub arguments: Map<String, Value>,
    /// What the model sent was not a whole JSON object; says why. The call never runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_error: Option<String>,
    /// The provider's opaque proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
    /// The very text of the arguments, where a wire carried text: duplicate keys and odd numbers show only there.
    #[serde(skip)]
    pub arguments_text: Option<Arc<str>>,
}

impl Content {
    /// A block of words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), text_signature: None })
    }

    /// The words of a block of words.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

/// Accepts a list of blocks, a bare string (one block of words) and null (no block), as pi's readers do. A block that does not fit its type
/// is `Unknown`: one odd block shall not cost its message.
pub(crate) fn lenient_content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Content>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Array(blocks) => {
            Ok(blocks.into_iter().map(|block| serde_json::from_value(block).unwrap_or(Content::Unknown)).collect())
        }
        Value::String(text) if text.is_empty() => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Content::text(text)]),
        Value::Null => Ok(Vec::new()),
        _ => Err(de::Error::custom("content is neither text nor a list of blocks")),
    }
}

/// A field that others may have filled with something else costs itself, not its message.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// An object, or its text; anything else is no arguments.
fn lenient_arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Object(arguments) => arguments,
        Value::String(text) => serde_json::from_str(&text).unwrap_or_default(),
        _ => Map::new(),
    })
}
