//! What a plugin may ask the person beside gates' questions. Its words are foreign text: a face shows them in a frame of its own, under the
//! plugin's name.

use serde_json::{Map, Value};

/// A plugin's question.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginQuestion {
    /// The plugin.
    pub plugin: String,
    /// Its words.
    pub title: String,
    /// What would be an answer.
    pub wanted: Wanted,
}

/// Kinds of questions. The answer is of the same kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Yes or no: `Answer::Yes`. Anything but a clear yes is no.
    Confirm {
        /// What about.
        detail: String,
    },
    /// One of them, of which there is at least one: `Answer::Chosen`.
    Choice(Vec<Choice>),
    /// A line: `Answer::Text`.
    Line {
        /// What an answer may look like.
        placeholder: Option<String>,
    },
    /// Several lines: `Answer::Text`.
    Text {
        /// What there is already.
        text: String,
    },
    /// Several questions, of which there is at least one: `Answer::Form`.
    Form(Vec<Field>),
}

/// One thing that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is chosen.
    pub label: String,
    /// More of it.
    pub description: Option<String>,
}

/// One question of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in the object that is the answer.
    pub name: String,
    /// Its name for people; else `name`.
    pub title: Option<String>,
    /// More of it.
    pub description: Option<String>,
    /// Without an answer to it there is none at all.
    pub is_required: bool,
    /// What an answer is.
    pub kind: FieldKind,
    /// What no answer means; of the right kind.
    pub default: Option<Value>,
}

/// What a field takes.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// A string of so many characters.
    Text {
        /// The least.
        min_chars: usize,
        /// The most.
        max_chars: usize,
        /// `email`, `uri`, `date` or `date-time`: told to the person, who may know better.
        format: Option<String>,
    },
    /// A number between these, both included.
    Number {
        /// A whole one.
        is_integer: bool,
        /// The least.
        min: f64,
        /// The most.
        max: f64,
    },
    /// A boolean.
    YesNo,
    /// One of these values; the labels are for people.
    One(Vec<FieldOption>),
    /// An array of some of these values, between so many and so many of them.
    Some {
        /// All that there are.
        options: Vec<FieldOption>,
        /// The fewest.
        min: usize,
        /// The most.
        max: usize,
    },
}

/// A value that a field may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldOption {
    /// In the answer.
    pub value: String,
    /// For people.
    pub label: String,
}

/// What the person said.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Yes, or no.
    Yes(bool),
    /// The choice at this place, from 0.
    Chosen(usize),
    /// Words.
    Text(String),
    /// A value for every required field, and for whichever others were answered.
    Form(Map<String, Value>),
}

/// The face has a person who decides about calls, and no way to ask them anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody can answer here")]
pub struct CannotAsk;
