//! A tool's schema: compiled at its first call and kept.

use jsonschema::Validator;
use serde_json::Value;

/// A compiled schema. Built without file and network references; patterns are matched in linear time.
pub struct Schema(Validator);

/// A schema that cannot be compiled.
#[derive(Debug, thiserror::Error)]
#[error("the schema is not valid: {0}")]
pub struct SchemaError(String);

/// Faults that one answer to the model lists.
const LISTED_FAULTS: usize = 10;

impl Schema {
    /// Compiles a schema.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .build(schema)
            .map(Self)
            .map_err(|error| SchemaError(error.to_string()))
    }

    /// Whether the value fits.
    pub fn accepts(&self, value: &Value) -> bool {
        self.0.is_valid(value)
    }

    /// What does not fit, a line each: where, and what is wrong there.
    pub fn faults(&self, value: &Value) -> Vec<String> {
        self.0
            .iter_errors(value)
            .take(LISTED_FAULTS)
            .map(|error| {
                let place = error.instance_path().to_string();
                let place = place.trim_start_matches('/').replace('/', ".");
                let words: String = error.to_string().chars().take(300).collect();
                if place.is_empty() { words } else { format!("{place}: {words}") }
            })
            .collect()
    }
}
