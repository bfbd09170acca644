//! Arguments made canonical: parsed once, strictly, and written in the one form (RFC 8785) that gates, person and tool all get.

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// The deepest nesting of arguments.
pub const ARGUMENT_DEPTH: usize = 64;

/// Integers beyond this are not exact in every language that a guest is written in.
pub const EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// JSON that two readers could read as two things. The words are for the model.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct NotExact(String);

/// Parses JSON as every reader would: no duplicate keys, no lone surrogates, no number that is not exact, no nesting over 64.
pub fn parse_strict(text: &str) -> Result<Value, NotExact> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0 }.deserialize(&mut reader).map_err(|error| placed(&error))?;
    reader.end().map_err(|error| placed(&error))?;
    Ok(value)
}

/// The place stands apart from the words, which may end in advice.
fn placed(error: &serde_json::Error) -> NotExact {
    let text = error.to_string();
    let words = text.rsplit_once(" at line ").map_or(text.as_str(), |(words, _)| words);
    NotExact(format!("{words} (line {}, column {})", error.line(), error.column()))
}

/// Checks a value that was parsed already by the same law, as far as a value can still show it.
pub fn check_value(value: &Value) -> Result<(), NotExact> {
    fn walk(value: &Value, depth: usize) -> Result<(), NotExact> {
        if depth > ARGUMENT_DEPTH {
            return Err(NotExact(too_deep()));
        }
        match value {
            Value::Number(number) => exact(number).map(drop).map_err(NotExact),
            Value::Array(items) => items.iter().try_for_each(|item| walk(item, depth + 1)),
            Value::Object(map) => map.values().try_for_each(|item| walk(item, depth + 1)),
            _ => Ok(()),
        }
    }
    walk(value, 0)
}

fn too_deep() -> String {
    format!("the arguments are nested deeper than {ARGUMENT_DEPTH}")
}

fn exact(number: &Number) -> Result<Number, String> {
    match number.as_f64() {
        Some(float) if float.is_finite() && (float.fract() != 0.0 || float.abs() <= EXACT_INTEGER) => {
            // 2^53 itself is also what 2^53 + 1 rounds to.
            if number.as_u64().is_some_and(|n| n > EXACT_INTEGER as u64)
                || number.as_i64().is_some_and(|n| n < -(EXACT_INTEGER as i64))
            {
                return Err(not_exact(number));
            }
            Ok(number.clone())
        }
        _ => Err(not_exact(number)),
    }
}

fn not_exact(number: &Number) -> String {
    format!("the number {number} is not exact: integers go up to 2^53; send it as a string if the tool allows one")
}

struct Strict {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth > ARGUMENT_DEPTH {
            return Err(de::Error::custom(too_deep()));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        exact(&Number::from(value)).map(Value::Number).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        exact(&Number::from(value)).map(Value::Number).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number is not finite"))?;
        exact(&number).map(Value::Number).map_err(E::custom)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Strict { depth: self.depth + 1 })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(Strict { depth: self.depth + 1 })?;
            if map.contains_key(&key) {
                return Err(de::Error::custom(format!("the key {key:?} stands twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical_form::canonical_json;

    #[track_caller]
    fn refused(text: &str, part: &str) {
        let error = parse_strict(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        refused(r#"{"a":1,"a":2}"#, "stands twice");
        refused(r#"{"a":{"b":1,"b":1}}"#, "stands twice");
        refused(r#"{"a":"\ud800"}"#, "hex escape");
        refused(r#"{"a":"\ud800\u0041"}"#, "surrogate");
        refused(r#"{"n":9007199254740993}"#, "not exact");
        refused(r#"{"n":-9007199254740993}"#, "not exact");
        refused(r#"{"n":123456789012345678901234567890}"#, "not exact");
        refused(r#"{"n":1e400}"#, "range");
        refused(r#"{"n":NaN}"#, "expected");
        refused(r#"{"a":1} x"#, "trailing");
        refused(r#"{"a":"#, "EOF");
        refused(&format!("{}1{}", "[".repeat(65), "]".repeat(65)), "nested deeper");
        assert!(parse_strict(&format!("{}1{}", "[".repeat(64), "]".repeat(64))).is_ok());
        assert_eq!(parse_strict(r#"{"n":9007199254740992}"#).unwrap()["n"], 9_007_199_254_740_992_u64);
    }

    #[test]
    fn the_canonical_form_is_that_of_rfc_8785() {
        let canonical = |text: &str| canonical_json(&parse_strict(text).unwrap());
        assert_eq!(canonical(r#"{"b":1.0,"a":[1.5,-0.0,0.1, 1e3]}"#), r#"{"a":[1.5,0,0.1,1000],"b":1}"#);
        // Keys stand by their UTF-16 units: the surrogates of an emoji before U+FB33.
        assert_eq!(
            canonical("{\"\u{fb33}\": 1, \"\u{1f600}\": 2, \"a\": \"\\u000f\\n\\/\\u20ac\"}"),
            "{\"a\":\"\\u000f\\n/\u{20ac}\",\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
    }

    proptest::proptest! {
        #[test]
        fn canonical_form_is_a_fixed_point(text in "\\PC{0,40}", number in -1.0e9f64..1.0e9) {
            let value = serde_json::json!({ "t": text, "n": number, "l": [text] });
            let once = canonical_json(&value);
            let again = canonical_json(&parse_strict(&once).unwrap());
            proptest::prop_assert_eq!(once, again);
        }
    }
}
