//! What attributes say: doc comments, serde's names and defaults, and our own bounds.

use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprUnary, Lit, LitStr, Result, UnOp};

use crate::names::Style;

/// The longest description that the host takes, in bytes.
const MAX_DESCRIPTION: usize = 4096;

/// What serde's attributes say of a struct, an enum, a field or a variant.
#[derive(Default)]
pub struct Serde {
    pub rename: Option<String>,
    pub rename_all: Option<Style>,
    pub has_default: bool,
    pub skip: bool,
}

/// What our own attribute says of a field, and its documentation.
#[derive(Default)]
pub struct Field {
    pub description: String,
    /// The whole schema of the field, as JSON.
    pub schema: Option<String>,
    /// Keywords of JSON Schema with their JSON.
    pub keywords: Vec<(&'static str, String)>,
    /// Where bounds were set, with what they are for.
    pub bounds: Vec<(String, Kind, proc_macro2::Span)>,
}

/// What a bound is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Number,
    Text,
    List,
}

const KNOWN: &str = "min, max, min_length, max_length, min_items, max_items, pattern, format, one_of, default, \
                     description, schema";

/// The paragraphs of a doc comment, each on one line.
pub fn documentation(attributes: &[Attribute]) -> Result<String> {
    let mut text = String::new();
    let mut last = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Expr::Lit(literal) = &attribute.meta.require_name_value()?.value
            && let Lit::Str(line) = &literal.lit
        {
            let line = line.value();
            let line = line.trim();
            let separator = match text.chars().last() {
                None | Some('\n') => "",
                Some(_) if line.is_empty() || line.starts_with(['-', '*']) => "\n",
                Some(_) => " ",
            };
            text.push_str(separator);
            text.push_str(line);
            last = Some(attribute.span());
        }
    }
    let text = text.trim().to_owned();
    check_description(&text, last)?;
    Ok(text)
}

fn check_description(text: &str, span: Option<proc_macro2::Span>) -> Result<()> {
    match span {
        Some(span) if text.len() > MAX_DESCRIPTION => Err(Error::new(
            span,
            format!("this description has {} bytes; the host takes at most {MAX_DESCRIPTION}", text.len()),
        )),
        _ => Ok(()),
    }
}

/// Reads serde's attributes; those that would make another shape than the schema says are refused.
pub fn serde(attributes: &[Attribute]) -> Result<Serde> {
    let mut found = Serde::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            match name.as_str() {
                "rename" => found.rename = deserialized(&meta)?.map(|name| name.value()),
                "rename_all" => {
                    if let Some(style) = deserialized(&meta)? {
                        let known = Style::named(&style.value());
                        found.rename_all = Some(known.ok_or_else(|| Error::new(style.span(), "serde has no such style"))?);
                    }
                }
                "default" => {
                    found.has_default = true;
                    skip_value(&meta)?;
                }
                "skip" | "skip_deserializing" => found.skip = true,
                "flatten" | "tag" | "untagged" | "content" | "transparent" | "from" | "try_from" | "remote" | "other" => {
                    return Err(meta.error(format!(
                        "`#[derive(Input)]` cannot describe what `serde({name})` reads; write the fields out, or give the \
                         field `#[input(schema = r#\"{{...}}\"#)]`"
                    )));
                }
                _ => skip_value(&meta)?,
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// `name = "x"` or `name(serialize = "y", deserialize = "x")`.
fn deserialized(meta: &ParseNestedMeta<'_>) -> Result<Option<LitStr>> {
    if meta.input.peek(syn::Token![=]) {
        return Ok(Some(meta.value()?.parse()?));
    }
    let mut found = None;
    meta.parse_nested_meta(|part| {
        let value: LitStr = part.value()?.parse()?;
        if part.path.is_ident("deserialize") {
            found = Some(value);
        }
        Ok(())
    })?;
    Ok(found)
}

fn skip_value(meta: &ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.peek(syn::Token![=]) {
        meta.value()?.parse::<Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        meta.parse_nested_meta(|part| skip_value(&part))?;
    }
    Ok(())
}

/// Reads a field's documentation and `#[input(...)]`.
pub fn field(attributes: &[Attribute]) -> Result<Field> {
    let mut found = Field { description: documentation(attributes)?, ..Field::default() };
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("input")) {
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            let bound = |kind| (name.clone(), kind, meta.path.span());
            match name.as_str() {
                "min" | "max" => {
                    let keyword = if name == "min" { "minimum" } else { "maximum" };
                    found.bounds.push(bound(Kind::Number));
                    found.keywords.push((keyword, number(&meta)?));
                }
                "min_length" | "max_length" => {
                    let keyword = if name == "min_length" { "minLength" } else { "maxLength" };
                    found.bounds.push(bound(Kind::Text));
                    found.keywords.push((keyword, count(&meta)?));
                }
                "min_items" | "max_items" => {
                    let keyword = if name == "min_items" { "minItems" } else { "maxItems" };
                    found.bounds.push(bound(Kind::List));
                    found.keywords.push((keyword, count(&meta)?));
                }
                "pattern" | "format" => {
                    let keyword = if name == "pattern" { "pattern" } else { "format" };
                    found.bounds.push(bound(Kind::Text));
                    found.keywords.push((keyword, quoted(&meta.value()?.parse::<LitStr>()?.value())));
                }
                "one_of" => {
                    let mut values = Vec::new();
                    let list;
                    syn::parenthesized!(list in meta.input);
                    for value in list.parse_terminated(Expr::parse, syn::Token![,])? {
                        values.push(literal(&value)?);
                    }
                    if values.is_empty() {
                        return Err(meta.error("`one_of` needs the values that are allowed: one_of(\"a\", \"b\")"));
                    }
                    found.keywords.push(("enum", format!("[{}]", values.join(","))));
                }
                "default" => found.keywords.push(("default", literal(&meta.value()?.parse()?)?)),
                "description" => {
                    let text: LitStr = meta.value()?.parse()?;
                    found.description = text.value();
                    check_description(&found.description, Some(text.span()))?;
                }
                "schema" => found.schema = Some(json(&meta.value()?.parse()?)?),
                _ => return Err(meta.error(format!("there is no `{name}` in `#[input(...)]`; there are: {KNOWN}"))),
            }
            Ok(())
        })?;
    }
    Ok(found)
}

fn number(meta: &ParseNestedMeta<'_>) -> Result<String> {
    let value: Expr = meta.value()?.parse()?;
    let text = literal(&value)?;
    let is_number = text.starts_with(|char: char| char == '-' || char.is_ascii_digit());
    is_number.then_some(text).ok_or_else(|| Error::new(value.span(), "a number is wanted, such as `1` or `-0.5`"))
}

fn count(meta: &ParseNestedMeta<'_>) -> Result<String> {
    let value: syn::LitInt = meta.value()?.parse()?;
    Ok(value.base10_parse::<u32>()?.to_string())
}

/// A literal as JSON.
fn literal(value: &Expr) -> Result<String> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Ok(quoted(&text.value())),
            Lit::Int(number) => Ok(number.base10_digits().to_owned()),
            Lit::Float(number) => Ok(number.base10_digits().to_owned()),
            Lit::Bool(value) => Ok(value.value.to_string()),
            other => Err(Error::new(other.span(), "a string, a number, `true` or `false` is wanted")),
        },
        // A macro's argument.
        Expr::Group(group) => literal(&group.expr),
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => Ok(format!("-{}", literal(expr)?)),
        other => Err(Error::new(other.span(), "a literal is wanted: a string, a number, `true` or `false`")),
    }
}

/// An object of JSON, as far as it can be told without a parser of JSON: the host reads the rest at load.
fn json(text: &LitStr) -> Result<String> {
    let value = text.value();
    let inner = value.trim();
    match inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(members) => Ok(members.trim().to_owned()),
        None => Err(Error::new(text.span(), "a JSON Schema is wanted, an object: r#\"{\"type\":\"string\"}\"#")),
    }
}

/// The text as a JSON string.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            char if (char as u32) < 0x20 => quoted.push_str(&format!("\\u{:04x}", char as u32)),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}
