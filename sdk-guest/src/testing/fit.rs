//! Whether an input fits a schema, by the keywords that the derive and the builder write. The host checks all of JSON Schema.

use serde_json::Value;

/// What does not fit, a line each: where, and what is wrong there.
pub(super) fn faults(schema: &str, input: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    match serde_json::from_str(schema) {
        Ok(schema) => check(&schema, input, "", &mut faults),
        Err(error) => faults.push(format!("  - the schema itself is no JSON: {error}")),
    }
    faults
}

fn check(schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let mut fault = |what: String| {
        faults.push(if at.is_empty() { format!("  - {what}") } else { format!("  - {at}: {what}") });
    };
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    };
    let fits = match &schema["type"] {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    if !fits {
        fault(format!("{value} is not of type {}", schema["type"]));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        fault(format!("{value} is not one of {}", schema["enum"]));
    }
    if let Some(number) = value.as_f64() {
        if let Some(least) = schema["minimum"].as_f64().filter(|least| number < *least) {
            fault(format!("{value} is less than the minimum of {least}"));
        }
        if let Some(most) = schema["maximum"].as_f64().filter(|most| number > *most) {
            fault(format!("{value} is greater than the maximum of {most}"));
        }
    }
    let counts = [
        (value.as_str().map(|text| text.chars().count()), "minLength", "maxLength", "characters"),
        (value.as_array().map(Vec::len), "minItems", "maxItems", "items"),
    ];
    for (count, least, most, noun) in counts {
        let Some(count) = count.and_then(|count| u64::try_from(count).ok()) else { continue };
        if let Some(least) = schema[least].as_u64().filter(|least| count < *least) {
            fault(format!("{value} has less than {least} {noun}"));
        }
        if let Some(most) = schema[most].as_u64().filter(|most| count > *most) {
            fault(format!("{value} has more than {most} {noun}"));
        }
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for (index, item) in items.iter().enumerate() {
            check(schema, item, &joined(at, &index.to_string()), faults);
        }
    }
    if let Some(members) = value.as_object() {
        check_members(schema, members, at, faults);
    }
}

fn check_members(schema: &Value, members: &serde_json::Map<String, Value>, at: &str, faults: &mut Vec<String>) {
    let mut fault = |what: String| {
        faults.push(if at.is_empty() { format!("  - {what}") } else { format!("  - {at}: {what}") });
    };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !members.contains_key(name) {
            fault(format!("\"{name}\" is a required property"));
        }
    }
    let closed = schema["additionalProperties"] == Value::Bool(false);
    let known = |name: &str| schema["properties"].get(name);
    for name in members.keys().filter(|name| closed && known(name).is_none()) {
        fault(format!("Additional properties are not allowed ('{name}' was unexpected)"));
    }
    for (name, member) in members {
        if let Some(schema) =
            known(name).or_else(|| schema.get("additionalProperties").filter(|other| other.is_object()))
        {
            check(schema, member, &joined(at, name), faults);
        }
    }
}

fn joined(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_keyword_refuses_what_it_is_for() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "minLength": 1, "maxLength": 3 },
                "limit": { "type": "integer", "minimum": 1, "maximum": 9 },
                "how": { "enum": ["a", "b"] },
                "maybe": { "type": ["string", "null"] },
                "edits": {
                    "type": "array", "minItems": 1, "maxItems": 2,
                    "items": { "type": "object", "properties": {}, "required": ["x"] }
                },
                "env": { "type": "object", "additionalProperties": { "type": "string" } }
            },
            "required": ["path"],
            "additionalProperties": false
        })
        .to_string();
        for (input, expected) in [
            (
                json!({ "path": "a", "limit": 1, "how": "a", "maybe": null, "edits": [{ "x": 1 }], "env": { "A": "1" } }),
                None,
            ),
            (json!({ "path": "a", "limit": 2.0 }), None),
            (json!([]), Some("[] is not of type \"object\"")),
            (json!({}), Some("\"path\" is a required property")),
            (json!({ "path": 1 }), Some("path: 1 is not of type \"string\"")),
            (json!({ "path": "" }), Some("path: \"\" has less than 1 characters")),
            (json!({ "path": "abcd" }), Some("path: \"abcd\" has more than 3 characters")),
            (json!({ "path": "a", "limit": 0 }), Some("limit: 0 is less than the minimum of 1")),
            (json!({ "path": "a", "limit": 10 }), Some("limit: 10 is greater than the maximum of 9")),
            (json!({ "path": "a", "limit": 1.5 }), Some("limit: 1.5 is not of type \"integer\"")),
            (json!({ "path": "a", "how": "c" }), Some("how: \"c\" is not one of [\"a\",\"b\"]")),
            (json!({ "path": "a", "edits": [] }), Some("edits: [] has less than 1 items")),
            (json!({ "path": "a", "edits": [{}] }), Some("edits.0: \"x\" is a required property")),
            (json!({ "path": "a", "env": { "A": 1 } }), Some("env.A: 1 is not of type \"string\"")),
            (json!({ "path": "a", "b": 1 }), Some("Additional properties are not allowed ('b' was unexpected)")),
        ] {
            let expected: Vec<String> = expected.into_iter().map(|fault| format!("  - {fault}")).collect();
            assert_eq!(faults(&schema, &input), expected, "{input}");
        }
    }
}
