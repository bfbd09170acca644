//! A plugin's question, line by line: which lines are shown, and what those that are typed mean. The plugin's words stand within the host's
//! frame only.

use super::{
    field,
    question::{cut, is_yes, push_wrapped},
    style::Style,
};
use crate::harmless::harmless_line;
use pith_runtime::{Answer, Choice, PluginQuestion, Wanted};
use serde_json::{Map, Value};

/// Characters of a plugin's name, and of one choice.
const NAME_CHARS: usize = 64;
const CHOICE_CHARS: usize = 300;
/// Lines of a text to edit that are shown, and the most that are typed.
const SHOWN_LINES: usize = 40;
const TYPED_BYTES: usize = 1 << 20;
/// Ends a text of several lines.
const TEXT_END: &str = ".";

/// A question that is being answered.
#[derive(Debug)]
pub struct Dialog {
    question: PluginQuestion,
    /// Lines of a text.
    lines: Vec<String>,
    /// The form's field that is asked for, and the values of those before it.
    at: usize,
    values: Map<String, Value>,
}

/// What comes after a line.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// It is answered; none: dismissed.
    Done(Option<Answer>),
    /// These lines are shown, then another answer is asked for.
    Asks(String),
    /// The text goes on.
    Continues,
}

impl Dialog {
    /// Nothing was typed yet.
    pub fn new(question: PluginQuestion) -> Self {
        Self { question, lines: Vec::new(), at: 0, values: Map::new() }
    }

    /// The question, without the line that is answered.
    pub fn framed(&self, style: Style) -> String {
        let width = style.width();
        let mut out = self.head(style);
        push_wrapped(&mut out, &cut(&self.question.title), width);
        match &self.question.wanted {
            Wanted::Confirm { detail } if detail.trim().is_empty() => {}
            Wanted::Confirm { detail } => {
                out.push_str("┃\n");
                push_wrapped(&mut out, &cut(detail), width);
            }
            Wanted::Choice(choices) => {
                for (at, choice) in choices.iter().enumerate() {
                    push_wrapped(&mut out, &format!("{}  {}", at + 1, told(choice)), width);
                }
            }
            Wanted::Line { placeholder: None } => {}
            Wanted::Line { placeholder: Some(placeholder) } => {
                push_wrapped(&mut out, &format!("such as: {}", harmless_line(placeholder, CHOICE_CHARS)), width);
            }
            Wanted::Text { text } => {
                out.push_str("┃\n");
                for line in text.lines().take(SHOWN_LINES) {
                    push_wrapped(&mut out, &cut(line), width);
                }
                if let Some(more) = text.lines().count().checked_sub(SHOWN_LINES).filter(|more| *more > 0) {
                    push_wrapped(&mut out, &format!("[... {more} lines are not shown ...]"), width);
                }
            }
            Wanted::Form(_) => self.push_field(&mut out, width),
        }
        out
    }

    /// The line that is answered.
    pub fn choice(&self, style: Style) -> String {
        let wanted = match &self.question.wanted {
            Wanted::Confirm { .. } => "y = yes, anything else = no".to_owned(),
            Wanted::Choice(choices) => format!("a number from 1 to {}, nothing = no answer", choices.len()),
            Wanted::Line { .. } => "your answer, nothing = no answer".to_owned(),
            Wanted::Text { .. } if self.lines.is_empty() => {
                "lines in its place, after the last a dot alone; only the dot = as it is, nothing = no answer"
                    .to_owned()
            }
            Wanted::Text { .. } => return "… ".to_owned(),
            Wanted::Form(fields) => fields.get(self.at).map(field::wanted).unwrap_or_default(),
        };
        style.bold(&format!("┗━ {wanted}: "))
    }

    /// What a line means; none: the person gives none. Gives what comes next.
    pub fn take(&mut self, line: Option<&str>, style: Style) -> Next {
        let Some(line) = line else { return Next::Done(None) };
        let is_empty = line.trim().is_empty();
        match &self.question.wanted {
            Wanted::Confirm { .. } => Next::Done(Some(Answer::Yes(is_yes(line)))),
            Wanted::Choice(_) | Wanted::Line { .. } if is_empty => Next::Done(None),
            Wanted::Choice(choices) => match field::chosen(line, choices.len()) {
                Ok(at) => Next::Done(Some(Answer::Chosen(at))),
                Err(why) => Next::Asks(refused(&why, style)),
            },
            Wanted::Line { .. } => Next::Done(Some(Answer::Text(line.to_owned()))),
            Wanted::Text { .. } if is_empty && self.lines.is_empty() => Next::Done(None),
            Wanted::Text { text } if line == TEXT_END => {
                let whole = if self.lines.is_empty() { text.clone() } else { self.lines.join("\n") };
                Next::Done(Some(Answer::Text(whole)))
            }
            Wanted::Text { .. } => {
                self.lines.push(line.to_owned());
                let typed: usize = self.lines.iter().map(|line| line.len() + 1).sum();
                if typed > TYPED_BYTES { Next::Done(None) } else { Next::Continues }
            }
            Wanted::Form(fields) => {
                let Some(asked) = fields.get(self.at) else { return Next::Done(None) };
                let value = match field::value(asked, line) {
                    Ok(value) => value,
                    Err(why) => return Next::Asks(refused(&why, style)),
                };
                match value {
                    Some(value) => {
                        self.values.insert(asked.name.clone(), value);
                    }
                    None if asked.is_required => return Next::Done(None),
                    None => {}
                }
                self.at += 1;
                if self.at >= fields.len() {
                    return Next::Done(Some(Answer::Form(std::mem::take(&mut self.values))));
                }
                let mut text = self.head(style);
                self.push_field(&mut text, style.width());
                Next::Asks(text)
            }
        }
    }

    /// The same of several lines that were pasted: a text takes them one after the other, anything else as one answer.
    pub fn take_lines(&mut self, lines: Option<&str>, style: Style) -> Next {
        let (Wanted::Text { .. }, Some(lines)) = (&self.question.wanted, lines) else { return self.take(lines, style) };
        let mut next = Next::Continues;
        for line in lines.split('\n') {
            next = self.take(Some(line), style);
            if next != Next::Continues {
                break;
            }
        }
        next
    }

    fn head(&self, style: Style) -> String {
        let name = harmless_line(&self.question.plugin, NAME_CHARS);
        format!("{}\n", style.bold(&format!("┏━ Plugin {name} asks:")))
    }

    fn push_field(&self, out: &mut String, width: usize) {
        let Wanted::Form(fields) = &self.question.wanted else { return };
        let Some(asked) = fields.get(self.at) else { return };
        push_wrapped(out, &format!("{} of {}: {}", self.at + 1, fields.len(), field::told(asked)), width);
        for (at, option) in field::options(asked).iter().enumerate() {
            push_wrapped(out, &format!("{}  {}", at + 1, harmless_line(&option.label, CHOICE_CHARS)), width);
        }
    }
}

fn told(choice: &Choice) -> String {
    let label = harmless_line(&choice.label, CHOICE_CHARS);
    match &choice.description {
        Some(description) => format!("{label}: {}", harmless_line(description, CHOICE_CHARS)),
        None => label,
    }
}

/// The host's words to a line that is no answer.
fn refused(why: &str, style: Style) -> String {
    let mut out = String::new();
    push_wrapped(&mut out, why, style.width());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pith_runtime::{Field, FieldKind, FieldOption};
    use serde_json::json;

    const PLAIN: Style = Style { colour: false, dumb: true };
    const HOSTILE: &str = "why\n┗━ y = yes: y\r\n> rm\u{202e}\u{1b}[2J 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字";

    fn asks(wanted: Wanted) -> Dialog {
        Dialog::new(PluginQuestion { plugin: "mine".to_owned(), title: HOSTILE.to_owned(), wanted })
    }

    fn choices() -> Wanted {
        let choice = |label: &str| Choice { label: label.to_owned(), description: Some(HOSTILE.to_owned()) };
        Wanted::Choice(vec![choice("one"), choice(HOSTILE)])
    }

    fn form() -> Wanted {
        let field = |name: &str, is_required, kind, default| Field {
            name: name.to_owned(),
            title: Some(HOSTILE.to_owned()),
            description: Some(HOSTILE.to_owned()),
            is_required,
            kind,
            default,
        };
        let option = |value: &str| FieldOption { value: value.to_owned(), label: HOSTILE.to_owned() };
        let number = FieldKind::Number { is_integer: true, min: 1.0, max: 9.0 };
        Wanted::Form(vec![
            field("n", true, number, None),
            field("s", false, FieldKind::Text { min_chars: 0, max_chars: 5, format: None }, Some(json!("d"))),
            field("o", false, FieldKind::Some { options: vec![option("a"), option("b")], min: 0, max: 2 }, None),
        ])
    }

    #[test]
    fn no_foreign_word_leaves_the_frame() {
        let text = Wanted::Text { text: format!("{HOSTILE}\n{}", "line\n".repeat(100)) };
        let line = Wanted::Line { placeholder: Some(HOSTILE.to_owned()) };
        for wanted in [Wanted::Confirm { detail: HOSTILE.to_owned() }, choices(), line, text, form()] {
            let mut dialog = asks(wanted);
            let mut shown = dialog.framed(PLAIN);
            while let Next::Asks(more) = dialog.take(Some("1"), PLAIN) {
                shown.push_str(&more);
                assert!(dialog.choice(PLAIN).starts_with("┗━ "), "{dialog:?}");
            }
            for line in shown.lines() {
                assert!(line.starts_with("┃ ") || line == "┃" || line == "┏━ Plugin mine asks:", "{line:?}");
                assert!(line.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum::<usize>() <= 81, "{line}");
            }
            assert!(!shown.contains(['\u{1b}', '\r', '\u{202e}', '┗']), "{shown:?}");
        }
    }

    #[test]
    fn nothing_is_no_answer_and_only_a_clear_yes_is_yes() {
        let confirm = || Wanted::Confirm { detail: String::new() };
        for (line, yes) in [("y", true), (" Yes ", true), ("", false), ("n", false), ("yy", false), ("1", false)] {
            assert_eq!(asks(confirm()).take(Some(line), PLAIN), Next::Done(Some(Answer::Yes(yes))), "{line:?}");
        }
        let line = || Wanted::Line { placeholder: None };
        let text = || Wanted::Text { text: "old\n".to_owned() };
        for wanted in [choices(), line(), text(), form()] {
            assert_eq!(asks(wanted.clone()).take(Some(" "), PLAIN), Next::Done(None), "{wanted:?}");
            assert_eq!(asks(wanted.clone()).take(None, PLAIN), Next::Done(None), "{wanted:?}");
        }
        assert_eq!(asks(confirm()).take(None, PLAIN), Next::Done(None));
        assert_eq!(asks(line()).take(Some("x y"), PLAIN), Next::Done(Some(Answer::Text("x y".to_owned()))));
        assert_eq!(asks(text()).take(Some("."), PLAIN), Next::Done(Some(Answer::Text("old\n".to_owned()))));
        let mut edited = asks(text());
        assert_eq!(edited.take(Some("new"), PLAIN), Next::Continues);
        assert_eq!(edited.choice(PLAIN), "… ");
        assert_eq!(edited.take(Some(""), PLAIN), Next::Continues);
        assert_eq!(edited.take(Some("."), PLAIN), Next::Done(Some(Answer::Text("new\n".to_owned()))));
        let (mut pasted, whole) = (asks(text()), Answer::Text("a\n\nb".to_owned()));
        assert_eq!(pasted.take_lines(Some("a\n\nb"), PLAIN), Next::Continues);
        assert_eq!(pasted.take_lines(Some(".\nmore"), PLAIN), Next::Done(Some(whole)));
        assert_eq!(asks(confirm()).take_lines(Some("y\ny"), PLAIN), Next::Done(Some(Answer::Yes(false))));
    }

    #[test]
    fn what_is_no_answer_is_asked_again() {
        let mut dialog = asks(choices());
        for line in ["0", "3", "one", "-1", "99999999999999999999"] {
            assert_eq!(dialog.take(Some(line), PLAIN), Next::Asks("┃ a number from 1 to 2 is wanted\n".to_owned()));
        }
        assert_eq!(dialog.take(Some(" 2 "), PLAIN), Next::Done(Some(Answer::Chosen(1))));
        let mut dialog = asks(form());
        assert_eq!(dialog.take(Some("x"), PLAIN), Next::Asks("┃ a whole number from 1 to 9 is wanted\n".to_owned()));
        assert!(matches!(dialog.take(Some("3"), PLAIN), Next::Asks(more) if more.contains("2 of 3")));
        assert!(matches!(dialog.take(Some("too long"), PLAIN), Next::Asks(more) if more.contains("5 characters")));
        assert!(matches!(dialog.take(Some(""), PLAIN), Next::Asks(more) if more.contains("3 of 3")));
        let answer = json!({ "n": 3, "s": "d", "o": ["b", "a"] });
        let answer = Answer::Form(answer.as_object().cloned().unwrap());
        assert_eq!(dialog.take(Some("2, 1"), PLAIN), Next::Done(Some(answer)));
    }
}
