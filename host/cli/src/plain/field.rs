//! One field of a plugin's form: what is shown of it, and what a line means there.

use super::question::is_yes;
use crate::harmless::harmless_line;
use pith_runtime::{Field, FieldKind, FieldOption};
use serde_json::{Number, Value};

/// Characters of each of a field's words.
const WORDS_CHARS: usize = 300;
/// Whole numbers beyond are not exact in JSON.
const EXACT: i64 = 1 << 53;

/// The field in words: foreign ones, made harmless.
pub fn told(field: &Field) -> String {
    let mut text = harmless_line(field.title.as_deref().unwrap_or(&field.name), WORDS_CHARS);
    if let Some(description) = &field.description {
        text.push_str(&format!(": {}", harmless_line(description, WORDS_CHARS)));
    }
    if let FieldKind::Text { format: Some(format), .. } = &field.kind {
        text.push_str(&format!(" ({})", harmless_line(format, WORDS_CHARS)));
    }
    if let Some(default) = &field.default {
        let default = match default {
            Value::String(text) => harmless_line(text, WORDS_CHARS),
            other => harmless_line(&other.to_string(), WORDS_CHARS),
        };
        text.push_str(&format!(" (default: {default})"));
    }
    text
}

/// What can be chosen.
pub fn options(field: &Field) -> &[FieldOption] {
    match &field.kind {
        FieldKind::One(options) | FieldKind::Some { options, .. } => options,
        _ => &[],
    }
}

/// What an answer is, in the host's words only.
pub fn wanted(field: &Field) -> String {
    let nothing = match (&field.default, field.is_required) {
        (Some(_), _) => "the default",
        (None, true) => "no answer at all",
        (None, false) => "left out",
    };
    format!("{}, nothing = {nothing}", kind(&field.kind))
}

fn kind(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Text { min_chars: 0, max_chars: usize::MAX, .. } => "text".to_owned(),
        FieldKind::Text { min_chars, max_chars: usize::MAX, .. } => format!("text of at least {min_chars} characters"),
        FieldKind::Text { min_chars: 0, max_chars, .. } => format!("text of at most {max_chars} characters"),
        FieldKind::Text { min_chars, max_chars, .. } => format!("text of {min_chars} to {max_chars} characters"),
        FieldKind::Number { is_integer, min, max } => {
            let what = if *is_integer { "a whole number" } else { "a number" };
            match (min.is_finite(), max.is_finite()) {
                (true, true) => format!("{what} from {min} to {max}"),
                (true, false) => format!("{what} from {min} on"),
                (false, true) => format!("{what} up to {max}"),
                (false, false) => what.to_owned(),
            }
        }
        FieldKind::YesNo => "y = yes, anything else = no".to_owned(),
        FieldKind::One(options) => format!("a number from 1 to {}", options.len()),
        FieldKind::Some { options, min, max } => {
            format!("{min} to {max} numbers from 1 to {}, with commas between", options.len())
        }
    }
}

/// What a line gives; none where it gives nothing.
///
/// # Errors
/// What is wanted instead, in words.
pub fn value(field: &Field, line: &str) -> Result<Option<Value>, String> {
    if line.trim().is_empty() {
        return Ok(field.default.clone());
    }
    let wrong = || format!("{} is wanted", kind(&field.kind));
    let value = match &field.kind {
        FieldKind::Text { min_chars, max_chars, .. } => {
            let fits = (*min_chars..=*max_chars).contains(&line.chars().count());
            fits.then(|| Value::String(line.to_owned()))
        }
        FieldKind::Number { is_integer, min, max } => {
            number(line.trim(), *is_integer)
                .filter(|number| (*min..=*max).contains(&number.as_f64().unwrap_or(f64::NAN)))
        }
        .map(Value::Number),
        FieldKind::YesNo => Some(Value::Bool(is_yes(line))),
        FieldKind::One(options) => {
            let at = chosen(line, options.len())?;
            options.get(at).map(|option| Value::String(option.value.clone()))
        }
        FieldKind::Some { options, min, max } => {
            let mut values: Vec<Value> = Vec::new();
            for part in line.split(',') {
                let at = chosen(part, options.len()).map_err(|_| wrong())?;
                let value = options.get(at).map(|option| Value::String(option.value.clone()));
                values.extend(value.filter(|value| !values.contains(value)));
            }
            (*min..=*max).contains(&values.len()).then_some(Value::Array(values))
        }
    };
    value.map(Some).ok_or_else(wrong)
}

fn number(text: &str, is_integer: bool) -> Option<Number> {
    match text.parse::<i64>() {
        Ok(whole) => (-EXACT..=EXACT).contains(&whole).then(|| whole.into()),
        Err(_) if is_integer => None,
        Err(_) => text.parse().ok().and_then(Number::from_f64),
    }
}

/// The place, from 0, that a number from 1 to `count` means.
///
/// # Errors
/// What is wanted instead, in words.
pub fn chosen(line: &str, count: usize) -> Result<usize, String> {
    let number = line.trim().parse::<usize>().ok().filter(|number| (1..=count).contains(number));
    number.and_then(|number| number.checked_sub(1)).ok_or_else(|| format!("a number from 1 to {count} is wanted"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn gives(kind: FieldKind, line: &str) -> Result<Option<Value>, String> {
        let name = "x".to_owned();
        let field = Field { name, title: None, description: None, is_required: true, kind, default: None };
        value(&field, line)
    }

    #[test]
    fn lines_are_values_of_the_kind_that_is_asked_for() {
        let number = |is_integer| FieldKind::Number { is_integer, min: -2.0, max: f64::INFINITY };
        let option = |value: &str| FieldOption { value: value.to_owned(), label: "l".to_owned() };
        let options = vec![option("a"), option("b"), option("c")];
        let text = FieldKind::Text { min_chars: 2, max_chars: 3, format: None };
        let some = || FieldKind::Some { options: options.clone(), min: 1, max: 2 };
        for (kind, line, value) in [
            (number(true), " 7 ", json!(7)),
            (number(false), "7", json!(7)),
            (number(false), "-1.5", json!(-1.5)),
            (text.clone(), "éé", json!("éé")),
            (FieldKind::YesNo, "YES", json!(true)),
            (FieldKind::YesNo, "x", json!(false)),
            (FieldKind::One(options.clone()), "3", json!("c")),
            (some(), "3,1,3", json!(["c", "a"])),
        ] {
            assert_eq!(gives(kind, line), Ok(Some(value)), "{line}");
        }
        for (kind, line, words) in [
            (number(true), "1.5", "a whole number from -2 on is wanted"),
            (number(true), "-3", "a whole number from -2 on is wanted"),
            (number(true), "9007199254740993", "a whole number"),
            (number(false), "NaN", "a number from -2"),
            (number(false), "inf", "a number from -2"),
            (text.clone(), "a", "2 to 3 characters"),
            (FieldKind::One(options.clone()), "4", "from 1 to 3"),
            (some(), "1,2,3", "1 to 2 numbers"),
            (some(), "1,x", "1 to 2 numbers"),
        ] {
            assert!(gives(kind, line).unwrap_err().contains(words), "{line}");
        }
        assert_eq!(gives(number(true), "  "), Ok(None));
    }
}
