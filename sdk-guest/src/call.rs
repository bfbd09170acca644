use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use crate::Error;
use crate::bindings::imports::pith::plugin::messages::ToolCall;
use crate::canonical::{Canonical, Members};

/// A tool call, as a gate or filter sees it: its input is only looked at where a field is asked for.
#[derive(Clone, Debug)]
pub struct Call {
    raw: ToolCall,
}

impl Call {
    /// A call with this input, a canonical JSON object.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: impl Into<String>) -> Self {
        Self { raw: ToolCall { id: id.into(), name: name.into(), input: input.into() } }
    }

    /// Unique within the session.
    pub fn id(&self) -> &str {
        &self.raw.id
    }

    /// The tool's short name. It identifies nothing: who serves it is in the [`Origin`](crate::Origin).
    pub fn name(&self) -> &str {
        &self.raw.name
    }

    /// The whole input: canonical JSON, byte for byte what the tool will get.
    pub fn json(&self) -> &str {
        &self.raw.input
    }

    /// The input as a type of the gate's own, a view: it borrows what it names and skips the rest without building it.
    ///
    /// ```
    /// use pith_sdk::{Call, Text};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct View<'a> {
    ///     #[serde(borrow)]
    ///     path: Text<'a>,
    ///     limit: Option<u32>,
    /// }
    ///
    /// let call = Call::new("1", "write", r#"{"content":"however long","path":"a.txt"}"#);
    /// let view: View<'_> = call.input()?;
    /// assert_eq!((&*view.path, view.limit), ("a.txt", None));
    /// # Ok::<(), pith_sdk::Error>(())
    /// ```
    ///
    /// It is read from its end and no further than to the last field that is found, since the host hands out canonical JSON:
    /// what is large mostly stands before what a gate asks for. So `deny_unknown_fields` sees nothing; `invalid` where a field
    /// that is named does not fit, which denies the call where a gate returns it.
    pub fn input<'a, V: Deserialize<'a>>(&'a self) -> Result<V, Error> {
        V::deserialize(Canonical(&self.raw.input))
            .map_err(|error| Error::invalid(format!("The input of `{}` cannot be judged: {error}.", self.raw.name)))
    }

    /// The input's field `key`, borrowed from the input where its type can be (`&str`, [`Text`]); it is
    /// looked for from the end, and nothing else is read. `&str` fails on a string with escapes: [`Text`] and [`Call::text`] do not.
    ///
    /// None where the field is absent. `invalid` where it has another type, or the input is no JSON object.
    pub fn get<'a, T: Deserialize<'a>>(&'a self, key: &str) -> Result<Option<T>, Error> {
        let refusal =
            |error: &dyn fmt::Display| Error::invalid(format!("`{key}` of the call of `{}`: {error}", self.raw.name));
        let members = Members::of(&self.raw.input).ok_or_else(|| refusal(&"the input is no JSON object"))?;
        match members.find(key).map_err(|error| refusal(&error))? {
            Some(value) => serde_json::from_str(value).map(Some).map_err(|error| refusal(&error)),
            None => Ok(None),
        }
    }

    /// The input's field `key`, a string; it is copied only where it has escapes.
    pub fn text(&self, key: &str) -> Result<Option<Cow<'_, str>>, Error> {
        Ok(self.get::<Text<'_>>(key)?.map(|text| text.0))
    }
}

impl From<ToolCall> for Call {
    fn from(raw: ToolCall) -> Self {
        Self { raw }
    }
}

/// A string of the input, borrowed where it has no escapes. (`Cow<str>` itself always copies in serde.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Borrow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(input: &str) -> Call {
        Call::new("1", "write", input)
    }

    #[test]
    fn borrows_what_has_no_escapes() {
        let call = call(r#"{"content":"a\nb","path":"src/a.rs"}"#);
        assert!(matches!(call.text("path"), Ok(Some(Cow::Borrowed("src/a.rs")))));
        assert!(matches!(call.text("content"), Ok(Some(Cow::Owned(text))) if text == "a\nb"));
        assert_eq!(call.get::<&str>("path").unwrap(), Some("src/a.rs"));
    }

    #[test]
    fn a_view_borrows_what_it_names_and_builds_nothing_else() {
        #[derive(Deserialize)]
        struct View<'a> {
            #[serde(borrow)]
            path: Text<'a>,
            limit: Option<u32>,
        }
        let call = call(r#"{"content":"a\nb","limit":3,"path":"src/a.rs"}"#);
        let view: View<'_> = call.input().unwrap();
        assert!(matches!(&view.path.0, Cow::Borrowed("src/a.rs")) && view.limit == Some(3));
        let beside = call.json().as_bytes().as_ptr_range();
        assert!(beside.contains(&view.path.as_ptr()));
        let error = super::Call::new("1", "write", r#"{"path":1}"#).input::<View<'_>>().err().unwrap();
        assert!(error.message.starts_with("The input of `write` cannot be judged: invalid type"), "{}", error.message);
        for input in ["[\"a\",1]", "", " {}", "{\"path\":\"a\"} x", "{\"path\":\"a\""] {
            assert!(super::Call::new("1", "write", input).input::<View<'_>>().is_err(), "{input}");
        }
    }

    #[test]
    fn a_key_may_be_written_with_escapes() {
        assert_eq!(call(r#"{"p\u0061th":"x"}"#).text("path").unwrap().as_deref(), Some("x"));
    }

    #[test]
    fn absent_is_none_and_another_type_is_refused() {
        let call = call(r#"{"limit":3,"nested":{"path":"no"}}"#);
        assert_eq!(call.text("path").unwrap(), None);
        assert_eq!(call.get::<u32>("limit").unwrap(), Some(3));
        let error = call.text("limit").unwrap_err();
        assert_eq!(error.kind, crate::ErrorKind::Invalid);
        assert!(error.message.starts_with("`limit` of the call of `write`"), "{}", error.message);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for input in ["[]", "", "{\"path\":\"a\"", "{\"path\":\"a\"} x", "{\"path\":tru}"] {
            assert!(call(input).text("path").is_err(), "{input}");
        }
    }
}
