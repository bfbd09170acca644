//! JSON as providers send it.

use serde_json::Value;

/// Parses an event's data; a half of a surrogate pair, which some providers cut between two deltas, becomes U+FFFD.
pub(crate) fn parse_event(data: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(data).or_else(|error| match without_lone_surrogates(data) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(error),
    })
}

/// The text of a field, empty where it is missing or no text.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a path, where there is one.
pub(crate) fn count(value: &Value, pointer: &str) -> Option<u64> {
    let number = value.pointer(pointer)?;
    // Some servers count in floats.
    number.as_u64().or_else(|| number.as_f64().filter(|float| *float >= 0.0 && *float < 1e15).map(|float| float as u64))
}

/// None where there is no lone surrogate.
fn without_lone_surrogates(data: &str) -> Option<String> {
    let unit_at = |at: usize| {
        let escape = data.get(at..at + 6)?;
        let digits = escape.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = data[at..].find('\\') {
        at += found;
        match unit_at(at) {
            Some(0xd800..=0xdbff) if matches!(unit_at(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                mended.push_str(&data[copied..at]);
                mended.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            // The escaped character may be a backslash itself, and may be of several bytes where the JSON is wrong.
            _ => at += 1 + data[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    (copied > 0).then(|| mended + &data[copied..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lone_surrogates_are_mended_and_pairs_kept() {
        for (data, expect) in [
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ude00b\ud83d\ud83d\ude00""#, "\u{fffd}b\u{fffd}\u{1f600}"),
            (r#""\\ud83d \ud83d""#, "\\ud83d \u{fffd}"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
        ] {
            assert_eq!(parse_event(data).unwrap(), json!(expect), "{data}");
        }
        for data in ["\"\\", "\"\\é", "\"\\ud83", "{", "\"\\ud83d\\"] {
            assert!(parse_event(data).is_err(), "{data}");
        }
    }

    #[test]
    fn counts_are_lenient() {
        let value = json!({"a": {"b": 7, "c": 7.0, "d": -1, "e": "7", "f": null}});
        assert_eq!(
            ["/a/b", "/a/c", "/a/d", "/a/e", "/a/f", "/x"].map(|at| count(&value, at)),
            [Some(7), Some(7), None, None, None, None]
        );
    }
}
