//! What a plugin says of its tools, checked before anybody is told.

use crate::{
    convert,
    limits::{DESCRIPTION_BYTES, GUIDELINE_BYTES, GUIDELINES, SCHEMA_BYTES, SCHEMA_DEPTH, TOOLS},
};
use pith_bindings::imports::pith::plugin::tool_types;
use pith_law::is_tool_name;
use pith_protocol::ToolSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A plugin's tools, and why others of it are not offered. Kept on disk under the plugin's digest and settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Definitions {
    pub specs: Vec<ToolSpec>,
    /// One sentence for each that is left out.
    pub refused: Vec<String>,
}

impl Definitions {
    pub fn check(given: Vec<tool_types::ToolSpec>) -> Self {
        let mut checked = Self::default();
        let surplus = given.len().saturating_sub(TOOLS);
        if surplus > 0 {
            checked.refused.push(format!("it has more than {TOOLS} tools; {surplus} are not offered"));
        }
        for spec in given.into_iter().take(TOOLS) {
            let name: String = spec.name.chars().filter(|c| !c.is_control()).take(64).collect();
            match check(spec) {
                Ok(spec) => checked.specs.push(spec),
                Err(reason) => checked.refused.push(format!("its tool {name:?} is not offered: {reason}")),
            }
        }
        checked
    }
}

fn check(spec: tool_types::ToolSpec) -> Result<ToolSpec, String> {
    if !is_tool_name(&spec.name) {
        return Err("a name is a-z, 0-9, _ and -, at most 64 characters".to_owned());
    }
    within("its description", spec.description.len(), DESCRIPTION_BYTES)?;
    within("its label", spec.label.as_ref().map_or(0, String::len), GUIDELINE_BYTES)?;
    within("its input schema", spec.input_schema.len(), SCHEMA_BYTES)?;
    within("its output schema", spec.output_schema.as_ref().map_or(0, String::len), SCHEMA_BYTES)?;
    within("its meta", spec.meta.as_ref().map_or(0, String::len), SCHEMA_BYTES)?;
    if spec.guidelines.len() > GUIDELINES {
        return Err(format!("it has more than {GUIDELINES} guidelines"));
    }
    for guideline in &spec.guidelines {
        within("a guideline", guideline.len(), GUIDELINE_BYTES)?;
    }
    let spec = convert::tool_spec(spec).map_err(|error| format!("{error}: {}", error.why))?;
    if spec.input_schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its input schema is not one of an object".to_owned());
    }
    for schema in [Some(&spec.input_schema), spec.output_schema.as_ref()].into_iter().flatten() {
        check_schema(schema, SCHEMA_DEPTH)?;
    }
    Ok(spec)
}

fn within(what: &str, bytes: usize, limit: usize) -> Result<(), String> {
    if bytes > limit { Err(format!("{what} is longer than {limit} bytes")) } else { Ok(()) }
}

/// Not too deep, and complete in itself: a reference leads nowhere but into the schema.
fn check_schema(schema: &Value, depth_left: usize) -> Result<(), String> {
    let Some(below) = depth_left.checked_sub(1) else {
        return Err(format!("its schema is nested deeper than {SCHEMA_DEPTH}"));
    };
    match schema {
        Value::Object(map) => map.iter().try_for_each(|(key, value)| {
            let refers = matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef");
            if refers && value.as_str().is_some_and(|target| target != "#" && !target.starts_with("#/")) {
                return Err("its schema refers to something outside itself".to_owned());
            }
            match value {
                Value::Object(_) | Value::Array(_) => check_schema(value, below),
                _ => Ok(()),
            }
        }),
        Value::Array(items) => items
            .iter()
            .filter(|item| item.is_object() || item.is_array())
            .try_for_each(|item| check_schema(item, below)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(change: impl FnOnce(&mut tool_types::ToolSpec)) -> tool_types::ToolSpec {
        let mut spec = tool_types::ToolSpec {
            name: "tool".to_owned(),
            label: None,
            description: "Does it.".to_owned(),
            input_schema: r#"{"type":"object"}"#.to_owned(),
            output_schema: None,
            execution: tool_types::Execution::Parallel,
            exposure: tool_types::Exposure::Direct,
            guidelines: Vec::new(),
            meta: None,
        };
        change(&mut spec);
        spec
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut tool_types::ToolSpec), part: &str) {
        let checked = Definitions::check(vec![spec(change), spec(|spec| spec.name = "other".to_owned())]);
        assert_eq!(checked.specs.len(), 1, "{checked:?}");
        assert!(checked.refused[0].contains(part), "{checked:?}");
    }

    #[test]
    fn a_bad_definition_costs_that_tool_only() {
        refused(|spec| spec.name = "Bad Name".to_owned(), "a-z");
        refused(|spec| spec.description = "x".repeat(DESCRIPTION_BYTES + 1), "description");
        refused(|spec| spec.guidelines = vec!["x".to_owned(); 6], "5 guidelines");
        refused(|spec| spec.guidelines = vec!["x".repeat(201)], "guideline");
        refused(|spec| spec.input_schema = "{".to_owned(), "not the JSON");
        refused(|spec| spec.input_schema = r#"{"type":"string"}"#.to_owned(), "object");
        refused(
            |spec| spec.input_schema = format!(r#"{{"type":"object","title":"{}"}}"#, "x".repeat(SCHEMA_BYTES)),
            "32768",
        );
        refused(
            |spec| {
                spec.input_schema = r#"{"type":"object","properties":{"a":{"$ref":"https://a.example/s"}}}"#.to_owned()
            },
            "outside itself",
        );
        refused(
            |spec| spec.input_schema = r#"{"type":"object","$ref":"file:///etc/passwd"}"#.to_owned(),
            "outside itself",
        );
        let deep = format!(r#"{{"type":"object","not":{}{{}}{}}}"#, r#"{"not":"#.repeat(16), "}".repeat(16));
        refused(|spec| spec.input_schema = deep, "deeper than 16");
    }

    #[test]
    fn what_is_within_the_limits_is_offered() {
        let fine = spec(|spec| {
            spec.input_schema =
                r##"{"type":"object","$defs":{"a":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/a"}}}"##
                    .to_owned();
            spec.guidelines = vec!["x".repeat(200); 5];
            spec.description = "x".repeat(DESCRIPTION_BYTES);
        });
        assert_eq!(Definitions::check(vec![fine]).refused, Vec::<String>::new());
        let many = Definitions::check((0..70).map(|_| spec(|_| {})).collect());
        assert_eq!((many.specs.len(), many.refused.len()), (TOOLS, 1));
    }
}
