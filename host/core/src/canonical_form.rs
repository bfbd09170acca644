//! The one form of a JSON value (RFC 8785): keys in the order of their UTF-16 units, strings with the shortest escapes, numbers as
//! ECMAScript writes them.
//!
//! Every call's arguments pass here, a megabyte of file content among them, so strings are copied in runs; how a number is written is left to the
//! library that the form's tests compare this with.

use serde_json::{Map, Number, Value};

/// Bytes that are looked at together for one that needs an escape: few enough to stay in registers, enough for wide instructions.
const RUN: usize = 32;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// The canonical form of a value that is exact.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::with_capacity(length_guess(value));
    write(&mut text, value);
    text
}

/// What the text takes where nothing needs an escape, and a sixteenth for what does.
fn length_guess(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + text.len() / 16 + 2,
        Value::Array(items) => items.iter().map(|item| length_guess(item) + 1).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(key, item)| key.len() + 4 + length_guess(item)).sum::<usize>() + 2,
        _ => 8,
    }
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => write_object(out, map),
    }
}

fn write_object(out: &mut String, map: &Map<String, Value>) {
    let mut fields: Vec<(&String, &Value)> = map.iter().collect();
    // Bytes and UTF-16 units stand in the same order as long as nothing is beyond U+FFFF, as in ASCII.
    fields.sort_unstable_by(|(one, _), (two, _)| {
        if one.is_ascii() && two.is_ascii() { one.cmp(two) } else { one.encode_utf16().cmp(two.encode_utf16()) }
    });
    out.push('{');
    for (at, (key, item)) in fields.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_string(out, key);
        out.push(':');
        write(out, item);
    }
    out.push('}');
}

fn write_number(out: &mut String, number: &Number) {
    // Exact integers are written as they are; everything else as a double.
    if let Some(integer) = number.as_i64().filter(|integer| integer.unsigned_abs() <= 1 << 53) {
        out.push_str(&integer.to_string());
        return;
    }
    // Fails only on numbers that are not finite, which a value cannot hold.
    out.push_str(&serde_json_canonicalizer::to_string(number).unwrap_or_else(|_| number.to_string()));
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let bytes = text.as_bytes();
    let mut from = 0;
    let mut at = 0;
    while at < bytes.len() {
        if let Some(run) = bytes.get(at..at + RUN)
            && is_plain(run)
        {
            at += RUN;
            continue;
        }
        let end = bytes.len().min(at + RUN);
        while at < end {
            if needs_escape(bytes[at]) {
                out.push_str(&text[from..at]);
                write_escape(out, bytes[at]);
                from = at + 1;
            }
            at += 1;
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// No branch but the loop's, so that it compiles to a few wide comparisons.
fn is_plain(run: &[u8]) -> bool {
    run.iter().fold(0_u8, |found, &byte| found | u8::from(needs_escape(byte))) == 0
}

const fn needs_escape(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn write_escape(out: &mut String, byte: u8) {
    let short = match byte {
        b'"' => '"',
        b'\\' => '\\',
        0x08 => 'b',
        0x09 => 't',
        0x0a => 'n',
        0x0c => 'f',
        0x0d => 'r',
        _ => {
            out.push_str("\\u00");
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
            return;
        }
    };
    out.push('\\');
    out.push(short);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[track_caller]
    fn is_as_the_library_says(value: &Value) {
        assert_eq!(canonical_json(value), serde_json_canonicalizer::to_string(value).unwrap());
    }

    #[test]
    fn numbers_keys_and_escapes() {
        is_as_the_library_says(&json!([
            0,
            -0.0,
            1,
            -1,
            1.0,
            1.5,
            1e21,
            1e-7,
            123e18,
            9_007_199_254_740_992_u64,
            5e-324,
            1e300
        ]));
        is_as_the_library_says(
            &json!({ "\u{fb33}": 1, "\u{1f600}": 2, "a": 3, "": 4, "A": 5, "\u{80}": 6, "\r": 7, "1": 8 }),
        );
        let all: String = (0..=0x2ff_u32).filter_map(char::from_u32).collect();
        is_as_the_library_says(&json!(all));
        is_as_the_library_says(&json!([null, true, false, [], {}, "", [[1], { "a": [] }]]));
    }

    /// Where a run begins and ends must not matter.
    #[test]
    fn an_escape_at_every_place() {
        for length in 0..70 {
            for at in 0..length {
                for odd in ['"', '\\', '\n', '\u{1}', 'é', '\u{1f600}'] {
                    let text: String = (0..length).map(|place| if place == at { odd } else { 'x' }).collect();
                    is_as_the_library_says(&json!(text));
                }
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i32>().prop_map(Value::from),
            (-1e22..1e22_f64).prop_map(Value::from),
            any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
            any::<String>().prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value(value in values()) {
            prop_assert_eq!(canonical_json(&value), serde_json_canonicalizer::to_string(&value).unwrap());
        }
    }
}
