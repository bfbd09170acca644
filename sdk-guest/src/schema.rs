use serde_json::Value;

/// A tool's input schema: an object that allows no other properties than those named. It is kept as text, so that a guest
/// needs none of the code that builds and prints JSON values. Mostly derived: see [`Input`](trait@crate::Input).
///
/// ```
/// use pith_sdk::{Property, Schema};
/// let schema = Schema::object()
///     .required("path", Property::string("The file to read."))
///     .optional("limit", Property::integer("Lines to read.").at_least(1));
/// assert!(schema.to_string().contains(r#""required":["path"]"#));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// Members of `properties` and of `required`, divided by commas.
    Object {
        properties: String,
        required: String,
    },
    Text(String),
}

impl Schema {
    /// An object without properties yet.
    pub fn object() -> Self {
        Self(Form::Object { properties: String::new(), required: String::new() })
    }

    /// Any JSON Schema (2020-12) of an object, where the builder is not enough.
    pub fn json(text: impl Into<String>) -> Self {
        Self(Form::Text(text.into()))
    }

    /// A property that every call has.
    pub fn required(mut self, name: &str, property: Property) -> Self {
        if let Form::Object { required, .. } = &mut self.0 {
            push(required, &quoted(name));
        }
        self.optional(name, property)
    }

    /// A property that a call may leave out. Nothing where the schema was given as text.
    pub fn optional(mut self, name: &str, property: Property) -> Self {
        if let Form::Object { properties, .. } = &mut self.0 {
            push(properties, &format!("{}:{{{}}}", quoted(name), property.members()));
        }
        self
    }

    /// A property as the derive writes it: its type's shape, then what its attributes say.
    #[doc(hidden)]
    pub fn member(
        self,
        name: &str,
        is_optional: bool,
        shape: Property,
        description: &str,
        keywords: &[(&'static str, &str)],
    ) -> Self {
        let mut property = shape.described(description);
        for (keyword, json) in keywords {
            property.set(keyword, (*json).to_owned());
        }
        if is_optional { self.optional(name, property) } else { self.required(name, property) }
    }
}

impl std::fmt::Display for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Form::Text(text) => f.write_str(text),
            Form::Object { properties, required } => write!(
                f,
                r#"{{"type":"object","properties":{{{properties}}},"required":[{required}],"additionalProperties":false}}"#
            ),
        }
    }
}

/// One property of a [`Schema`], with its description for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Members of the schema that stand first: `"type":"string"`.
    head: String,
    description: String,
    /// Keywords and their JSON, each once.
    keywords: Vec<(&'static str, String)>,
}

impl Property {
    /// How many structs may lie in each other; what lies deeper is told to the model as any object. The host takes a
    /// schema that is 16 deep, and a list of structs takes three.
    pub const MAX_NESTING: u32 = 4;

    fn of(kind: &str, description: &str) -> Self {
        Self { head: format!(r#""type":"{kind}""#), description: description.to_owned(), keywords: Vec::new() }
    }

    /// What the derive and the types of fields write: members of a schema as JSON, comma and all, and keywords that attributes
    /// may replace.
    #[doc(hidden)]
    pub fn shaped(head: &str, keywords: &[(&'static str, &str)]) -> Self {
        let keywords = keywords.iter().map(|(keyword, json)| (*keyword, (*json).to_owned())).collect();
        Self { head: head.to_owned(), description: String::new(), keywords }
    }

    /// Text.
    pub fn string(description: &str) -> Self {
        Self::of("string", description)
    }

    /// A whole number.
    pub fn integer(description: &str) -> Self {
        Self::of("integer", description)
    }

    /// Any number.
    pub fn number(description: &str) -> Self {
        Self::of("number", description)
    }

    /// True or false.
    pub fn boolean(description: &str) -> Self {
        Self::of("boolean", description)
    }

    /// A list of objects of this schema.
    pub fn objects(description: &str, item: Schema) -> Self {
        Self::of("array", description).with("items", item)
    }

    /// A list of texts.
    pub fn strings(description: &str) -> Self {
        Self::of("array", description).with("items", r#"{"type":"string"}"#)
    }

    /// The smallest number allowed.
    pub fn at_least(self, minimum: u32) -> Self {
        self.with("minimum", minimum)
    }

    /// The largest number allowed.
    pub fn at_most(self, maximum: u32) -> Self {
        self.with("maximum", maximum)
    }

    /// The fewest characters of a text.
    pub fn min_length(self, length: u32) -> Self {
        self.with("minLength", length)
    }

    /// The fewest items of a list.
    pub fn min_items(self, items: u32) -> Self {
        self.with("minItems", items)
    }

    /// The texts allowed.
    pub fn one_of(self, values: &[&str]) -> Self {
        let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        self.with("enum", format!("[{}]", values.join(",")))
    }

    /// Any other keyword of JSON Schema; the value is JSON. It takes the place of the one that was there.
    pub fn with(mut self, keyword: &'static str, json: impl std::fmt::Display) -> Self {
        self.set(keyword, json.to_string());
        self
    }

    fn set(&mut self, keyword: &'static str, json: String) {
        match self.keywords.iter_mut().find(|(own, _)| *own == keyword) {
            Some((_, own)) => *own = json,
            None => self.keywords.push((keyword, json)),
        }
    }

    /// With this before the description that is there, which is an enum's of its names.
    #[doc(hidden)]
    #[must_use]
    pub fn described(mut self, description: &str) -> Self {
        let separator = if description.is_empty() || self.description.is_empty() { "" } else { " " };
        self.description = format!("{description}{separator}{}", self.description);
        self
    }

    /// The members of the schema, divided by commas.
    fn members(&self) -> String {
        let mut members = self.head.clone();
        if !self.description.is_empty() {
            push(&mut members, &format!(r#""description":{}"#, quoted(&self.description)));
        }
        for (keyword, json) in &self.keywords {
            push(&mut members, &format!("{}:{json}", quoted(keyword)));
        }
        members
    }
}

impl From<Schema> for Property {
    fn from(schema: Schema) -> Self {
        let text = schema.to_string();
        let text = text.trim();
        Self::shaped(text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default(), &[])
    }
}

impl From<Property> for Schema {
    fn from(property: Property) -> Self {
        Self::json(format!("{{{}}}", property.members()))
    }
}

fn push(list: &mut String, item: &str) {
    if !list.is_empty() {
        list.push(',');
    }
    list.push_str(item);
}

/// The text as a JSON string.
fn quoted(text: &str) -> String {
    // A string can always be written.
    serde_json::to_string(text).unwrap_or_default()
}

impl From<Value> for Schema {
    fn from(value: Value) -> Self {
        Self::json(value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_schema_is_closed_and_described() {
        let item = Schema::object().required("a", Property::string("\"A\"."));
        let schema = Schema::object()
            .required("edits", Property::objects("Edits.", item).min_items(1))
            .required("how", Property::string("How.").one_of(&["x", "y"]).min_length(1))
            .optional("limit", Property::integer("At most.").at_least(1).at_most(9));
        let expected = json!({
            "type": "object",
            "properties": {
                "edits": {
                    "type": "array",
                    "description": "Edits.",
                    "items": {
                        "type": "object",
                        "properties": { "a": { "type": "string", "description": "\"A\"." } },
                        "required": ["a"],
                        "additionalProperties": false
                    },
                    "minItems": 1
                },
                "how": { "type": "string", "description": "How.", "enum": ["x", "y"], "minLength": 1 },
                "limit": { "type": "integer", "description": "At most.", "minimum": 1, "maximum": 9 }
            },
            "required": ["edits", "how"],
            "additionalProperties": false
        });
        assert_eq!(serde_json::from_str::<Value>(&schema.to_string()).unwrap(), expected);
        assert_eq!(Schema::from(json!({ "type": "object" })).to_string(), r#"{"type":"object"}"#);
    }
}
