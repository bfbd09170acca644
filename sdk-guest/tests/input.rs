//! The derive: what each type and attribute makes of a field, and that schema and serde agree on what fits.

use std::collections::{BTreeMap, HashMap};

use pith_sdk::{Input, Property};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn schema<I: Input>() -> Value {
    serde_json::from_str(&I::schema().to_string()).expect("a schema is JSON")
}

/// One field's schema, of a struct with that field alone.
#[track_caller]
fn property<I: Input>(name: &str) -> Value {
    schema::<I>()["properties"][name].clone()
}

macro_rules! one {
    ($(#[$attribute:meta])* $type:ty) => {{
        #[derive(Deserialize, Input)]
        #[allow(dead_code)]
        struct One {
            $(#[$attribute])*
            field: $type,
        }
        let whole = schema::<One>();
        let is_required = whole["required"] == json!(["field"]);
        (property::<One>("field"), is_required)
    }};
}

#[derive(Deserialize, Input)]
#[allow(dead_code)]
struct Edit {
    /// The text to replace.
    old: String,
    new: Option<String>,
}

#[derive(Deserialize, Input)]
#[serde(rename_all = "kebab-case")]
#[allow(dead_code)]
enum Mode {
    /// the lines
    AsLines,
    #[serde(rename = "names")]
    Files,
    #[serde(skip)]
    Hidden,
}

#[test]
fn each_type_has_its_shape() {
    let edit = json!({
        "type": "object",
        "properties": { "old": { "type": "string", "description": "The text to replace." }, "new": { "type": "string" } },
        "required": ["old"],
        "additionalProperties": false
    });
    let u32_range = json!({ "type": "integer", "minimum": 0, "maximum": 4_294_967_295u32 });
    for ((found, is_required), expected, required) in [
        (one!(String), json!({ "type": "string" }), true),
        (one!(char), json!({ "type": "string", "minLength": 1, "maxLength": 1 }), true),
        (one!(pith_sdk::paths::GuestPath), json!({ "type": "string", "minLength": 1 }), true),
        (one!(bool), json!({ "type": "boolean" }), true),
        (one!(f64), json!({ "type": "number" }), true),
        (one!(f32), json!({ "type": "number" }), true),
        (one!(i8), json!({ "type": "integer", "minimum": -128, "maximum": 127 }), true),
        (one!(i64), json!({ "type": "integer" }), true),
        (one!(u16), json!({ "type": "integer", "minimum": 0, "maximum": 65_535 }), true),
        (one!(u32), u32_range.clone(), true),
        (one!(usize), u32_range.clone(), true),
        (one!(u64), json!({ "type": "integer", "minimum": 0 }), true),
        (one!(Value), json!({}), true),
        (one!(Option<u32>), u32_range.clone(), false),
        (one!(Box<u32>), u32_range, true),
        (one!(Vec<String>), json!({ "type": "array", "items": { "type": "string" } }), true),
        (one!(Option<Vec<bool>>), json!({ "type": "array", "items": { "type": "boolean" } }), false),
        (one!(BTreeMap<String, f64>), json!({ "type": "object", "additionalProperties": { "type": "number" } }), true),
        (one!(HashMap<String, Edit>), json!({ "type": "object", "additionalProperties": edit }), true),
        (one!(Edit), edit.clone(), true),
        (one!(Vec<Edit>), json!({ "type": "array", "items": edit }), true),
        (
            one!(Mode),
            json!({ "type": "string", "description": "`as-lines`: the lines", "enum": ["as-lines", "names"] }),
            true,
        ),
    ] {
        assert_eq!((&found, is_required), (&expected, required));
    }
}

#[test]
fn attributes_say_more() {
    for ((found, is_required), expected, required) in [
        (
            one!(
                #[input(min = 1, max = 9)]
                u32
            ),
            json!({ "type": "integer", "minimum": 1, "maximum": 9 }),
            true,
        ),
        (one!(#[input(min = -0.5)] Option<f64>), json!({ "type": "number", "minimum": -0.5 }), false),
        (
            one!(
                #[input(min_length = 1, max_length = 5, pattern = "^\\d", format = "uri")]
                String
            ),
            json!({ "type": "string", "minLength": 1, "maxLength": 5, "pattern": "^\\d", "format": "uri" }),
            true,
        ),
        (
            one!(#[input(min_items = 1, max_items = 2)] Vec<u64>),
            json!({ "type": "array", "items": { "type": "integer", "minimum": 0 }, "minItems": 1, "maxItems": 2 }),
            true,
        ),
        (
            one!(
                #[input(one_of("a\"b", "c"))]
                String
            ),
            json!({ "type": "string", "enum": ["a\"b", "c"] }),
            true,
        ),
        (
            one!(
                #[input(one_of(1, 2))]
                u64
            ),
            json!({ "type": "integer", "minimum": 0, "enum": [1, 2] }),
            true,
        ),
        (
            one!(
                #[serde(default)]
                #[input(default = 5)]
                u64
            ),
            json!({ "type": "integer", "minimum": 0, "default": 5 }),
            false,
        ),
        (one!(#[input(default = true)] Option<bool>), json!({ "type": "boolean", "default": true }), false),
        (
            one!(
                #[input(description = "Other.", schema = r#"{"const":1}"#)]
                u64
            ),
            json!({ "const": 1, "description": "Other." }),
            true,
        ),
        (
            one!(
                /// First "line"
                /// goes on.
                ///
                /// Another:
                /// - a
                /// - b
                bool
            ),
            json!({ "type": "boolean", "description": "First \"line\" goes on.\nAnother:\n- a\n- b" }),
            true,
        ),
        (
            one!(
                /// How.
                Option<Mode>
            ),
            json!({ "type": "string", "description": "How. `as-lines`: the lines", "enum": ["as-lines", "names"] }),
            false,
        ),
    ] {
        assert_eq!((&found, is_required), (&expected, required));
    }
}

#[derive(Deserialize, Input)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code)]
struct Named {
    old_text: String,
    #[serde(rename = "Kind")]
    r#type: String,
    #[serde(skip)]
    never: u32,
    #[serde(default = "ten", alias = "count")]
    how_many: u32,
}

fn ten() -> u32 {
    10
}

#[test]
fn names_are_those_that_serde_reads() {
    let schema = schema::<Named>();
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["oldText", "Kind", "howMany"]);
    assert_eq!(schema["required"], json!(["oldText", "Kind"]));
}

#[derive(Deserialize, Input)]
#[allow(dead_code)]
struct Nothing {}

#[derive(Deserialize, Input)]
#[allow(dead_code)]
struct Tree {
    name: String,
    #[serde(default)]
    children: Vec<Tree>,
}

#[test]
fn a_struct_in_itself_ends_within_the_hosts_depth() {
    assert_eq!(
        Nothing::schema().to_string(),
        r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#
    );
    fn depth(value: &Value) -> usize {
        match value {
            Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    let schema = schema::<Tree>();
    let found = depth(&schema);
    assert!(found > 3 * Property::MAX_NESTING as usize && found <= 16, "{found}");
    let deep = json!({ "name": "a", "children": [{ "name": "b", "children": [{ "name": "c" }] }] });
    assert!(jsonschema::is_valid(&schema, &deep));
}

#[derive(Deserialize, Input)]
#[allow(dead_code)]
struct All {
    small: Option<u8>,
    signed: Option<i16>,
    count: Option<u32>,
    large: Option<u64>,
    number: Option<f64>,
    text: Option<String>,
    letter: Option<char>,
    yes: Option<bool>,
    list: Option<Vec<i32>>,
    map: Option<BTreeMap<String, bool>>,
    edit: Option<Edit>,
    mode: Option<Mode>,
}

/// Nothing lenient after the gate: what the schema lets through serde reads, and what serde refuses the schema forbids.
#[test]
fn schema_and_serde_agree() {
    let schema = jsonschema::validator_for(&schema::<All>()).unwrap();
    let values = [
        json!(0),
        json!(1),
        json!(-1),
        json!(255),
        json!(256),
        json!(-32_768),
        json!(-32_769),
        json!(65_536),
        json!(2_147_483_648u32),
        json!(4_294_967_295u32),
        json!(4_294_967_296u64),
        json!(9_007_199_254_740_991u64),
        json!(1.5),
        json!(""),
        json!("a"),
        json!("ab"),
        json!("ä"),
        json!(true),
        json!([]),
        json!([1]),
        json!(["a"]),
        json!([2_147_483_648u32]),
        json!({}),
        json!({ "a": true }),
        json!({ "a": 1 }),
        json!({ "old": "x" }),
        json!({ "old": 1 }),
        json!({ "new": "x" }),
        json!("as-lines"),
        json!("names"),
        json!("Files"),
        json!("hidden"),
    ];
    let names = ["small", "signed", "count", "large", "number", "text", "letter", "yes", "list", "map", "edit", "mode"];
    let (mut fit, mut unfit) = (0, 0);
    for name in names {
        for value in &values {
            let input = json!({ name: value });
            let accepted = schema.is_valid(&input);
            let read = read::<All>(&input);
            assert_eq!(accepted, read.is_ok(), "{input}: {read:?}");
            if accepted { fit += 1 } else { unfit += 1 }
        }
    }
    assert!(fit > 40 && unfit > 200, "{fit} {unfit}");
}

fn read<T: DeserializeOwned>(input: &Value) -> Result<(), String> {
    serde_json::from_str::<T>(&input.to_string()).map(|_| ()).map_err(|error| error.to_string())
}
