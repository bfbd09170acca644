//! The slips of small models, mended against the schema before it is checked: numbers and booleans as strings, one value for a list,
//! null for an absent field, a list or object as its JSON text.

use serde_json::{Map, Value};

/// Mends what can be mended; the rest is left for the schema to refuse.
pub(crate) fn coerce(value: &mut Value, schema: &Value) {
    let Some(schema) = schema.as_object() else { return };
    let wanted = wanted_types(schema);
    if wanted.is_empty() || wanted.iter().any(|kind| is_of(value, kind)) {
        descend(value, schema);
        return;
    }
    for kind in wanted {
        if let Some(mended) = mend(value, kind) {
            *value = mended;
            break;
        }
    }
    descend(value, schema);
}

fn wanted_types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn descend(value: &mut Value, schema: &Map<String, Value>) {
    match value {
        Value::Object(map) => {
            let Some(Value::Object(properties)) = schema.get("properties") else { return };
            let required: Vec<&str> = schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            map.retain(|key, item| {
                let takes_null = properties.get(key).and_then(Value::as_object).is_none_or(|property| {
                    let kinds = wanted_types(property);
                    kinds.is_empty() || kinds.contains(&"null")
                });
                !item.is_null() || takes_null || required.contains(&key.as_str())
            });
            for (key, item) in map.iter_mut() {
                if let Some(property) = properties.get(key) {
                    coerce(item, property);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = schema.get("items") {
                items.iter_mut().for_each(|item| coerce(item, of));
            }
        }
        _ => {}
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn mend(value: &Value, kind: &str) -> Option<Value> {
    match (kind, value) {
        ("number" | "integer", Value::String(text)) => {
            let parsed = crate::canonical::parse_strict(text.trim()).ok()?;
            is_of(&parsed, kind).then_some(parsed)
        }
        ("boolean", Value::String(text)) => match text.trim() {
            "true" | "True" => Some(Value::Bool(true)),
            "false" | "False" => Some(Value::Bool(false)),
            _ => None,
        },
        ("array" | "object", Value::String(text)) if text.trim_start().starts_with(['[', '{']) => {
            let parsed = crate::canonical::parse_strict(text).ok()?;
            if is_of(&parsed, kind) {
                return Some(parsed);
            }
            (kind == "array").then(|| Value::Array(vec![parsed]))
        }
        ("array", single) if !single.is_null() => Some(Value::Array(vec![single.clone()])),
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(schema: Value, input: Value, expected: Value) {
        let mut value = input;
        coerce(&mut value, &schema);
        assert_eq!(value, expected);
    }

    #[test]
    fn slips_are_mended_against_the_schema() {
        let schema = json!({"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string"}, "limit": {"type": "integer"}, "all": {"type": "boolean"},
            "globs": {"type": "array", "items": {"type": "string"}},
            "edits": {"type": "array", "items": {"type": "object", "properties": {"line": {"type": "number"}}}},
            "maybe": {"type": ["string", "null"]},
        }});
        check(schema.clone(), json!({"path": "a", "limit": "10"}), json!({"path": "a", "limit": 10}));
        check(schema.clone(), json!({"limit": "1.5"}), json!({"limit": "1.5"}));
        check(schema.clone(), json!({"limit": null, "path": null}), json!({"path": null}));
        check(schema.clone(), json!({"maybe": null}), json!({"maybe": null}));
        check(schema.clone(), json!({"all": "true", "globs": "*.rs"}), json!({"all": true, "globs": ["*.rs"]}));
        check(schema.clone(), json!({"edits": "[{\"line\":\"3\"}]"}), json!({"edits": [{"line": 3}]}));
        check(schema.clone(), json!({"edits": {"line": 3}}), json!({"edits": [{"line": 3}]}));
        check(schema.clone(), json!({"path": 7}), json!({"path": "7"}));
        check(schema, json!({"path": "7", "other": "1"}), json!({"path": "7", "other": "1"}));
    }
}
