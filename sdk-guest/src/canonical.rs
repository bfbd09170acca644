//! Reads canonical JSON from its end.
//!
//! A gate asks for one or two small fields of a call whose input may be a megabyte of text. Keys are in order, so what is
//! large (`content`, `edits`) mostly stands before what is asked for (`path`). From the end each member can be told apart without
//! looking at those before it: outside of a string a quote closes one, and inside of one a quote is its beginning if and only if
//! an even number of backslashes stands before it. So the search ends where all that is asked for has been found.
//!
//! The host wrote the text, and wrote it canonically; what is passed over is not checked again.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Error;
use std::borrow::Cow;

/// The members of an object, last one first: key, decoded, and value, as JSON.
pub(crate) struct Members<'a> {
    text: &'a str,
    /// Where the rest ends: at a `,`, at the closing brace, or at 0 where there is none.
    end: usize,
}

impl<'a> Members<'a> {
    /// None where the text is no object.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        let inner = text.strip_prefix('{')?.strip_suffix('}')?;
        Some(Self { text, end: if inner.is_empty() { 0 } else { text.len() - 1 } })
    }

    /// The next member; the outer None where there is no other, the inner one where the text is not canonical JSON.
    fn next(&mut self) -> Option<Option<(Cow<'a, str>, &'a str)>> {
        (self.end > 0).then(|| self.member())
    }

    fn member(&mut self) -> Option<(Cow<'a, str>, &'a str)> {
        let bytes = self.text.as_bytes();
        let begin = value_begin(bytes, self.end)?;
        let value = self.text.get(begin..self.end)?;
        let colon = begin.checked_sub(1).filter(|&at| bytes[at] == b':')?;
        let quote = string_begin(bytes, colon)?;
        let key = self.text.get(quote..colon)?;
        let before = quote.checked_sub(1)?;
        self.end = match bytes[before] {
            b',' => before,
            b'{' if before == 0 => 0,
            _ => return None,
        };
        let key = match key.get(1..key.len() - 1)? {
            plain if !plain.contains('\\') => Cow::Borrowed(plain),
            _ => Cow::Owned(serde_json::from_str(key).ok()?),
        };
        Some((key, value))
    }

    /// The value of this key, as JSON; none where there is no such key.
    pub(crate) fn find(mut self, wanted: &str) -> Result<Option<&'a str>, Error> {
        while let Some(member) = self.next() {
            let (key, value) = member.ok_or_else(malformed)?;
            if key == wanted {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// Where the value begins that ends before `end`.
fn value_begin(bytes: &[u8], end: usize) -> Option<usize> {
    let last = end.checked_sub(1)?;
    match bytes.get(last)? {
        b'"' => string_begin(bytes, end),
        b'}' | b']' => {
            let mut depth = 1_usize;
            let mut at = last;
            while depth > 0 {
                at = at.checked_sub(1)?;
                match bytes[at] {
                    b'"' => at = string_begin(bytes, at + 1)?,
                    b'}' | b']' => depth += 1,
                    b'{' | b'[' => depth -= 1,
                    _ => {}
                }
            }
            Some(at)
        }
        // A number, `true`, `false` or `null`.
        _ => Some(bytes[..end].iter().rposition(|byte| *byte == b':')? + 1),
    }
}

/// Where the string begins whose closing quote is the last byte before `end`.
fn string_begin(bytes: &[u8], end: usize) -> Option<usize> {
    let mut to = end.checked_sub(1).filter(|&at| bytes[at] == b'"')?;
    loop {
        let quote = last_quote(&bytes[..to])?;
        let backslashes = bytes[..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes.is_multiple_of(2) {
            return Some(quote);
        }
        to = quote - backslashes;
    }
}

/// The last quote, eight bytes at a time.
fn last_quote(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let mut end = bytes.len();
    while let Some(chunk) = bytes[..end].last_chunk::<8>() {
        let differs = u64::from_le_bytes(*chunk) ^ (ONES * b'"' as u64);
        // A byte of 0 has its high bit set here; so may one above it, which the exact search below tells apart.
        if differs.wrapping_sub(ONES) & !differs & (ONES << 7) != 0 {
            break;
        }
        end -= 8;
    }
    bytes[..end].iter().rposition(|byte| *byte == b'"')
}

fn malformed() -> Error {
    Error::custom("it is not canonical JSON")
}

/// A whole input, read as a struct that names what it wants.
pub(crate) struct Canonical<'a>(pub(crate) &'a str);

impl<'de> Deserializer<'de> for Canonical<'de> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let members = Members::of(self.0).ok_or_else(|| Error::custom("it is no JSON object"))?;
        visitor.visit_map(Wanted { members, fields, found: 0, value: "" })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut json = serde_json::Deserializer::from_str(self.0);
        let value = json.deserialize_map(visitor)?;
        json.end()?;
        Ok(value)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Wanted<'a> {
    members: Members<'a>,
    fields: &'static [&'static str],
    found: usize,
    value: &'a str,
}

impl<'de> MapAccess<'de> for Wanted<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        while self.found < self.fields.len() {
            let Some(member) = self.members.next() else { return Ok(None) };
            let (key, value) = member.ok_or_else(malformed)?;
            if let Some(field) = self.fields.iter().find(|field| **field == key) {
                self.found += 1;
                self.value = value;
                return seed.deserialize(StrDeserializer::new(field)).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let mut json = serde_json::Deserializer::from_str(self.value);
        let value = seed.deserialize(&mut json)?;
        json.end()?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn members(text: &str) -> Option<Vec<(String, Value)>> {
        let mut members = Members::of(text)?;
        let mut found = Vec::new();
        while let Some(member) = members.next() {
            let (key, value) = member?;
            found.push((key.into_owned(), serde_json::from_str(value).ok()?));
        }
        found.reverse();
        Some(found)
    }

    #[test]
    fn every_member_is_found_as_a_parser_finds_it() {
        let texts = [
            "",
            "a",
            "\"",
            "\\",
            "\\\\",
            "\\\"",
            "\"\\",
            "}",
            "{",
            "a\",\"path\":\"b",
            "\\\",\"path\":\"b\\\\",
            "ä\"ö",
            "\u{1}\n",
        ];
        let long = "x".repeat(40) + "\"\\\"" + &"\\".repeat(17) + "\"yyyyyyyy";
        let mut values: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
        values.push(json!(long));
        values.extend(texts.iter().map(|text| json!({ "k": [text, { "a\"}": text }, 1], "z\\": {} })));
        values.extend([
            json!(0),
            json!(-1.5e-7),
            json!(true),
            json!(null),
            json!([]),
            json!([[[]], {}, "]"]),
            json!({}),
        ]);
        for a in &values {
            for b in &values {
                for key in ["", "path", "\"", "\\", "k\",\"path", "{"] {
                    let object = json!({ "content": a, (key): b });
                    let expected: Vec<(String, Value)> =
                        object.as_object().unwrap().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                    assert_eq!(members(&object.to_string()).as_ref(), Some(&expected), "{object}");
                }
            }
        }
        assert_eq!(members("{}"), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_object_ends_without_a_panic() {
        for text in [
            "",
            "{",
            "}",
            "[]",
            "\"",
            "{\"",
            "{\"}",
            "{\"a\"}",
            "{\"a\":}",
            "{:1}",
            "{a:1}",
            "{\"a\":1,}",
            "{,\"a\":1}",
            "{1}",
            "{]}",
            "{\"a\":]}",
            "{\"a\":}}",
            "{\\\"a\":1}",
            "{\"a\"\"b\":1}",
            "x{\"a\":1}",
            "{\"a\":1}x",
            "{\"a\\\":1}",
        ] {
            assert_eq!(members(text), None, "{text}");
        }
    }
}
