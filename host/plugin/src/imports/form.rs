//! The schema of `dialog.form`: what MCP's elicitation allows (a flat object of strings, numbers, booleans and enums), plus arrays of enums.

use crate::limits::QUESTION_PARTS;
use pith_core::{Field, FieldKind, FieldOption, parse_strict};
use serde_json::{Map, Value};

/// The formats of strings that elicitation knows.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// A schema that no form can be made of.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAForm {
    #[error("the form's schema is no JSON: {0}")]
    NotJson(String),
    #[error("a form's schema is an object with 1 to {QUESTION_PARTS} properties")]
    NotAnObject,
    #[error(
        "a form's field is a string, number, integer, boolean, an enum or an array of an enum, without nesting; {field} is not"
    )]
    Field { field: String },
}

/// The fields, in the order of the schema.
pub(super) fn fields(schema: &str) -> Result<Vec<Field>, NotAForm> {
    let schema = parse_strict(schema).map_err(|error| NotAForm::NotJson(error.to_string()))?;
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.filter(|_| schema.get("type").and_then(Value::as_str) == Some("object"));
    let properties = properties.filter(|all| (1..=QUESTION_PARTS).contains(&all.len()));
    let required: Vec<&str> = list(schema.get("required")).filter_map(Value::as_str).collect();
    let mut fields = Vec::new();
    for (name, property) in properties.ok_or(NotAForm::NotAnObject)? {
        let wrong = || NotAForm::Field { field: name.chars().take(100).collect() };
        let property = property.as_object().ok_or_else(wrong)?;
        let kind = kind(property).ok_or_else(wrong)?;
        let default = property.get("default").filter(|value| fits(&kind, value)).cloned();
        fields.push(Field {
            name: name.clone(),
            title: words(property, "title"),
            description: words(property, "description"),
            is_required: required.contains(&name.as_str()),
            kind,
            default,
        });
    }
    Ok(fields)
}

fn kind(property: &Map<String, Value>) -> Option<FieldKind> {
    let bound = |name: &str| property.get(name).and_then(Value::as_f64);
    match property.get("type")?.as_str()? {
        "string" => match options(property) {
            Some(options) => Some(FieldKind::One(bounded(options)?)),
            None => Some(FieldKind::Text {
                min_chars: count(property, "minLength").unwrap_or(0),
                max_chars: count(property, "maxLength").unwrap_or(usize::MAX),
                format: words(property, "format").filter(|format| FORMATS.contains(&format.as_str())),
            }),
        },
        kind @ ("number" | "integer") => Some(FieldKind::Number {
            is_integer: kind == "integer",
            min: bound("minimum").unwrap_or(f64::NEG_INFINITY),
            max: bound("maximum").unwrap_or(f64::INFINITY),
        }),
        "boolean" => Some(FieldKind::YesNo),
        "array" => {
            let options = bounded(options(property.get("items")?.as_object()?)?)?;
            let max = count(property, "maxItems").unwrap_or(usize::MAX).min(options.len());
            let min = count(property, "minItems").unwrap_or(0);
            (min <= max).then_some(FieldKind::Some { options, min, max })
        }
        _ => None,
    }
}

/// `enum`, with labels in `enumNames`; or `oneOf` and `anyOf` of `const` and `title`. None: there are none, an empty list: they are wrong.
fn options(of: &Map<String, Value>) -> Option<Vec<FieldOption>> {
    if let Some(values) = of.get("enum") {
        let names: Vec<&str> = list(of.get("enumNames")).filter_map(Value::as_str).collect();
        let option = |(at, value): (usize, &Value)| {
            let value = value.as_str()?.to_owned();
            Some(FieldOption { label: names.get(at).map_or_else(|| value.clone(), |name| (*name).to_owned()), value })
        };
        return Some(list(Some(values)).enumerate().map(option).collect::<Option<_>>().unwrap_or_default());
    }
    let listed = of.get("oneOf").or_else(|| of.get("anyOf"))?;
    let option = |one: &Value| {
        let value = one.get("const")?.as_str()?.to_owned();
        let label = one.get("title").and_then(Value::as_str).map_or_else(|| value.clone(), str::to_owned);
        Some(FieldOption { value, label })
    };
    Some(list(Some(listed)).map(option).collect::<Option<_>>().unwrap_or_default())
}

fn bounded(options: Vec<FieldOption>) -> Option<Vec<FieldOption>> {
    (1..=QUESTION_PARTS).contains(&options.len()).then_some(options)
}

/// Whether a default is one: one that is not, is not shown.
fn fits(kind: &FieldKind, value: &Value) -> bool {
    let known = |options: &[FieldOption], value: &Value| options.iter().any(|option| *value == option.value);
    match kind {
        FieldKind::Text { min_chars, max_chars, .. } => {
            value.as_str().is_some_and(|text| (*min_chars..=*max_chars).contains(&text.chars().count()))
        }
        FieldKind::Number { is_integer, min, max } => {
            value.as_f64().is_some_and(|number| (*min..=*max).contains(&number))
                && (!is_integer || value.is_i64() || value.is_u64())
        }
        FieldKind::YesNo => value.is_boolean(),
        FieldKind::One(options) => known(options, value),
        FieldKind::Some { options, min, max } => value.as_array().is_some_and(|values| {
            (*min..=*max).contains(&values.len()) && values.iter().all(|value| known(options, value))
        }),
    }
}

fn words(of: &Map<String, Value>, name: &str) -> Option<String> {
    of.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn count(of: &Map<String, Value>, name: &str) -> Option<usize> {
    of.get(name).and_then(Value::as_u64).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_elicitation_allows_is_a_form() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "title": "Your name", "minLength": 2, "default": "x" },
                "age": { "type": "integer", "minimum": 0, "maximum": 150, "default": 42 },
                "sure": { "type": "boolean", "description": "really" },
                "size": { "type": "string", "enum": ["s", "l"], "enumNames": ["small", "large"], "default": "l" },
                "colour": { "type": "string", "oneOf": [{ "const": "#f00", "title": "Red" }, { "const": "#0f0" }] },
                "tags": { "type": "array", "items": { "type": "string", "enum": ["a", "b"] }, "minItems": 1 },
                "mail": { "type": "string", "format": "email" }
            },
            "required": ["name", "tags"]
        });
        let fields = fields(&schema.to_string()).unwrap();
        let option = |value: &str, label: &str| FieldOption { value: value.to_owned(), label: label.to_owned() };
        let kinds: Vec<&FieldKind> = fields.iter().map(|field| &field.kind).collect();
        let any = usize::MAX;
        assert_eq!(
            kinds,
            [
                &FieldKind::Text { min_chars: 2, max_chars: any, format: None },
                &FieldKind::Number { is_integer: true, min: 0.0, max: 150.0 },
                &FieldKind::YesNo,
                &FieldKind::One(vec![option("s", "small"), option("l", "large")]),
                &FieldKind::One(vec![option("#f00", "Red"), option("#0f0", "#0f0")]),
                &FieldKind::Some { options: vec![option("a", "a"), option("b", "b")], min: 1, max: 2 },
                &FieldKind::Text { min_chars: 0, max_chars: any, format: Some("email".to_owned()) },
            ]
        );
        let required: Vec<&str> = fields.iter().filter(|field| field.is_required).map(|field| &*field.name).collect();
        assert_eq!(required, ["name", "tags"]);
        // A default that is too short is none.
        let defaults: Vec<&Value> = fields.iter().filter_map(|field| field.default.as_ref()).collect();
        assert_eq!(defaults, [&json!(42), &json!("l")]);
        assert_eq!(fields[0].title.as_deref(), Some("Your name"));
    }

    #[test]
    fn everything_else_is_refused() {
        for (schema, words) in [
            (json!("x"), "is an object"),
            (json!({ "type": "object" }), "is an object"),
            (json!({ "type": "object", "properties": {} }), "is an object"),
            (json!({ "type": "string", "properties": { "a": { "type": "string" } } }), "is an object"),
            (json!({ "type": "object", "properties": { "a": { "type": "object" } } }), "; a is not"),
            (json!({ "type": "object", "properties": { "a": { "type": "string", "enum": [] } } }), "; a is not"),
            (json!({ "type": "object", "properties": { "a": { "type": "string", "enum": [1] } } }), "; a is not"),
            (json!({ "type": "object", "properties": { "a": { "type": "array", "items": {} } } }), "; a is not"),
            (
                json!({ "type": "object", "properties": { "a": { "type": "array", "minItems": 2, "items": { "enum": ["x"] } } } }),
                "; a is not",
            ),
        ] {
            let error = fields(&schema.to_string()).unwrap_err().to_string();
            assert!(error.contains(words), "{schema}: {error}");
        }
        assert!(fields("{").unwrap_err().to_string().contains("no JSON"));
        let many: Map<String, Value> =
            (0..=QUESTION_PARTS).map(|n| (n.to_string(), json!({ "type": "boolean" }))).collect();
        let error = fields(&json!({ "type": "object", "properties": many }).to_string()).unwrap_err().to_string();
        assert!(error.contains("1 to 100"), "{error}");
    }
}
