use std::collections::{BTreeMap, HashMap};

use serde::de::DeserializeOwned;

use crate::paths::GuestPath;
use crate::{Property, Schema};

/// What a tool's input is read into: a struct whose schema says what serde reads of it. Derived, beside `Deserialize`:
///
/// ```
/// use pith_sdk::{Input, paths::GuestPath};
///
/// #[derive(serde::Deserialize, Input)]
/// struct Args {
///     /// The file, relative to the working folder.
///     path: GuestPath,
///     /// The most lines to show; 100 if absent.
///     #[input(min = 1, max = 2000)]
///     limit: Option<u32>,
///     /// What to do with the lines.
///     #[serde(default)]
///     order: Order,
/// }
///
/// #[derive(Default, serde::Deserialize, Input)]
/// #[serde(rename_all = "camelCase")]
/// enum Order {
///     /// as they are
///     #[default]
///     AsIs,
///     Sorted,
/// }
///
/// assert_eq!(
///     Args::schema().to_string(),
///     concat!(
///         r#"{"type":"object","properties":{"#,
///         r#""path":{"type":"string","description":"The file, relative to the working folder.","minLength":1},"#,
///         r#""limit":{"type":"integer","description":"The most lines to show; 100 if absent.","minimum":1,"maximum":2000},"#,
///         r#""order":{"type":"string","description":"What to do with the lines. `asIs`: as they are","enum":["asIs","sorted"]}},"#,
///         r#""required":["path"],"additionalProperties":false}"#
///     )
/// );
/// ```
///
/// - A doc comment is the field's description: lines are joined to paragraphs, lists keep their lines.
/// - `Option` and `#[serde(default)]` make a field one that a call may leave out. Every other field is required, and no
///   field but these is allowed.
/// - serde's `rename`, `rename_all`, `default`, `skip`, `alias` and `deserialize_with` are honoured; what would read another shape
///   (`flatten`, `tag`, `untagged`) does not compile.
/// - `#[input(...)]` takes `min`, `max` (numbers), `min_length`, `max_length`, `pattern`, `format` (texts), `min_items`,
///   `max_items` (lists), `one_of("a", "b")`, `default = 5` (told to the model; serde needs its own), `description = "..."` and
///   `schema = r#"{...}"#` (in place of what the type says).
/// - A field's type is any [`Field`]: numbers, texts, [`GuestPath`], lists, maps, other structs and enums of names that derive
///   `Input`.
pub trait Input: DeserializeOwned {
    /// The schema: an object that allows no other properties than its own, without `$ref`.
    fn schema() -> Schema;
}

/// An input of any shape, where a tool writes its schema itself.
impl Input for serde_json::Value {
    fn schema() -> Schema {
        Schema::json(r#"{"type":"object"}"#)
    }
}

/// A type that a field of an [`Input`] may have.
pub trait Field {
    /// A call may leave it out.
    const IS_OPTIONAL: bool = false;

    /// Its schema without a description. `nesting` counts the structs that it lies in; see [`Property::MAX_NESTING`].
    fn shape(nesting: u32) -> Property;
}

impl<T: Field> Field for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn shape(nesting: u32) -> Property {
        T::shape(nesting)
    }
}

impl<T: Field> Field for Box<T> {
    const IS_OPTIONAL: bool = T::IS_OPTIONAL;

    fn shape(nesting: u32) -> Property {
        T::shape(nesting)
    }
}

impl<T: Field> Field for Vec<T> {
    fn shape(nesting: u32) -> Property {
        Property::shaped(r#""type":"array""#, &[]).with("items", Schema::from(T::shape(nesting)))
    }
}

impl<T: Field> Field for BTreeMap<String, T> {
    fn shape(nesting: u32) -> Property {
        Property::shaped(r#""type":"object""#, &[]).with("additionalProperties", Schema::from(T::shape(nesting)))
    }
}

impl<T: Field, S> Field for HashMap<String, T, S> {
    fn shape(nesting: u32) -> Property {
        BTreeMap::<String, T>::shape(nesting)
    }
}

/// Types with a fixed shape.
macro_rules! fields {
    ($($type:ty => $kind:literal $(, $keyword:literal = $json:literal)*;)*) => {$(
        impl Field for $type {
            fn shape(_: u32) -> Property {
                Property::shaped(concat!("\"type\":\"", $kind, "\""), &[$(($keyword, $json)),*])
            }
        }
    )*};
}

// What serde refuses the schema forbids: numbers of few bits have both bounds; those of 64 bits have all that JSON can say.
fields! {
    String => "string";
    char => "string", "minLength" = "1", "maxLength" = "1";
    GuestPath => "string", "minLength" = "1";
    bool => "boolean";
    f32 => "number";
    f64 => "number";
    i8 => "integer", "minimum" = "-128", "maximum" = "127";
    i16 => "integer", "minimum" = "-32768", "maximum" = "32767";
    i32 => "integer", "minimum" = "-2147483648", "maximum" = "2147483647";
    i64 => "integer";
    u8 => "integer", "minimum" = "0", "maximum" = "255";
    u16 => "integer", "minimum" = "0", "maximum" = "65535";
    u32 => "integer", "minimum" = "0", "maximum" = "4294967295";
    u64 => "integer", "minimum" = "0";
    // These two have 32 bits in a component.
    isize => "integer", "minimum" = "-2147483648", "maximum" = "2147483647";
    usize => "integer", "minimum" = "0", "maximum" = "4294967295";
}

/// Any JSON.
impl Field for serde_json::Value {
    fn shape(_: u32) -> Property {
        Property::shaped("", &[])
    }
}
