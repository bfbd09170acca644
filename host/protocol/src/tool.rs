//! What a tool is, and what it gives back.

use crate::Content;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether a call may run beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Execution {
    /// Beside the other calls of the same reply.
    #[default]
    Parallel,
    /// Makes the whole batch run one by one, in the order asked.
    Sequential,
}

/// Who may call a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exposure {
    /// Declared to the model.
    #[default]
    Direct,
    /// Found through tool search, then declared.
    Deferred,
    /// Scripts only.
    Scripted,
    /// Plugins only.
    Hidden,
}

/// What a plugin says of one of its tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// `[a-z0-9][a-z0-9_-]{0,63}`.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// For the model.
    pub description: String,
    /// JSON Schema 2020-12 of the input, an object schema.
    pub input_schema: Value,
    /// JSON Schema of `ToolOutput::structured`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Whether calls run beside others.
    #[serde(default)]
    pub execution: Execution,
    /// Who may call it.
    #[serde(default)]
    pub exposure: Exposure,
    /// For the system prompt's section on tools.
    #[serde(default)]
    pub guidelines: Vec<String>,
    /// MCP's hints, aliases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// What a model is told of a tool, and what a session records of that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDeclaration {
    /// The short name.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of the input.
    pub parameters: Value,
}

impl From<&ToolSpec> for ToolDeclaration {
    fn from(spec: &ToolSpec) -> Self {
        Self { name: spec.name.clone(), description: spec.description.clone(), parameters: spec.input_schema.clone() }
    }
}

/// What a call gave back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    /// For the model: words and pictures.
    pub content: Vec<Content>,
    /// The tool ran and says that it failed.
    #[serde(default)]
    pub is_error: bool,
    /// For scripts and calling plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// For views and the plugin's own later calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Ends the run after this batch, if every call of the batch says so.
    #[serde(default)]
    pub terminate: bool,
}

impl ToolOutput {
    /// An error in words.
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], is_error: true, ..Self::default() }
    }
}
