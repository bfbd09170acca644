//! What is read of every line of a file, also of those that nobody looks at: where it stands in the tree, and what is counted. One pass over
//! the line, which is whole JSON where this succeeds; nothing long is copied.

use crate::{
    kind::{EntryKind, TRUSTED},
    totals::{Counted, What},
};
use pith_protocol::{Usage, mended_line};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use std::{borrow::Cow, fmt};

/// A line, skimmed.
#[derive(Debug)]
pub(crate) struct Skimmed<'a> {
    pub kind: EntryKind,
    pub type_name: Cow<'a, str>,
    pub id: Cow<'a, str>,
    pub parent: Option<Cow<'a, str>>,
    timestamp: Cow<'a, str>,
    rest: Rest<'a>,
}

/// What lines of some types have.
#[derive(Debug, Default)]
struct Rest<'a> {
    provider: Cow<'a, str>,
    model: Cow<'a, str>,
    usage: Option<Usage>,
    calls: u64,
    name: Option<Cow<'a, str>>,
    target: Option<Cow<'a, str>>,
    label: Option<Cow<'a, str>>,
    is_trusted: bool,
}

impl<'a> Skimmed<'a> {
    /// Reads a line. Fails where it is not a JSON object with `type` and `id`.
    pub fn read(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        match serde_json::from_slice::<Line<'a>>(line) {
            Ok(line) => Ok(line.into()),
            // Something in it is not as every writer writes it: as far as it goes, and slower.
            Err(_) => Self::read_odd(line),
        }
    }

    fn read_odd(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        let frame: Frame<'a> = serde_json::from_slice(line)?;
        let mended = || mended_line(line).and_then(|line| serde_json::from_slice(&line).ok());
        let value: Value = serde_json::from_slice(line).ok().or_else(mended).unwrap_or_default();
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(|text| Cow::Owned(text.to_owned()));
        let message = value.get("message").unwrap_or(&Value::Null);
        let custom_type = value.get("publisher").is_none().then(|| text(&value, "customType")).flatten();
        let kind = EntryKind::named(&frame.kind, message.get("role").and_then(Value::as_str), custom_type.as_deref());
        let of = if matches!(kind, EntryKind::Assistant) { message } else { &value };
        let model = if matches!(kind, EntryKind::ModelChange) { "modelId" } else { "model" };
        let is_call = |block: &&Value| block.get("type").and_then(Value::as_str) == Some("toolCall");
        let blocks = message.get("content").and_then(Value::as_array);
        let rest = Rest {
            provider: text(of, "provider").unwrap_or_default(),
            model: text(of, model).unwrap_or_default(),
            usage: of.get("usage").and_then(|usage| Usage::deserialize(usage).ok()),
            calls: blocks.map_or(0, |blocks| blocks.iter().filter(is_call).count() as u64),
            name: text(&value, "name"),
            target: text(&value, "targetId"),
            label: text(&value, "label"),
            is_trusted: custom_type.as_deref() == Some(TRUSTED),
        };
        let Frame { kind: type_name, id, parent_id, timestamp } = frame;
        Ok(Self { kind, type_name, id, parent: parent_id.map(|Str(id)| id), timestamp, rest })
    }

    /// Another file's header, where two were put together.
    pub fn is_header(&self) -> bool {
        self.type_name == "session"
    }

    /// Whether it is of a type that sessions have.
    pub fn is_of_session(&self) -> bool {
        self.kind != EntryKind::Unknown
    }

    /// What the totals count of it.
    pub fn counted(&self) -> Counted<'_> {
        let Rest { provider, model, usage, calls, name, .. } = &self.rest;
        let usage = usage.as_ref();
        let what = match self.kind {
            EntryKind::User => What::User,
            EntryKind::Assistant => What::Reply { provider, model, usage, calls: *calls },
            EntryKind::ToolResult => What::ToolResult,
            EntryKind::ModelChange => What::ModelChange { provider, model },
            EntryKind::Compaction | EntryKind::BranchSummary => {
                What::Summary { usage, is_compaction: self.kind == EntryKind::Compaction }
            }
            EntryKind::Usage => What::Usage { provider, model, usage },
            EntryKind::SessionInfo => What::Name(name.as_deref()),
            _ => What::Nothing,
        };
        Counted { timestamp: &self.timestamp, what }
    }

    /// Of a `label`: the entry that it is of, and the words.
    pub fn label(&self) -> Option<(&str, Option<&str>)> {
        let target = self.rest.target.as_deref().filter(|_| self.kind == EntryKind::Label)?;
        Some((target, self.rest.label.as_deref()))
    }

    /// Of a mark: whether what stands before it is trusted.
    pub fn mark(&self) -> Option<bool> {
        (self.kind == EntryKind::Mark).then_some(self.rest.is_trusted)
    }
}

/// What every entry has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(default, borrow)]
    parent_id: Option<Str<'a>>,
    #[serde(default, borrow)]
    timestamp: Cow<'a, str>,
}

/// Borrowed also inside an option.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Str<'a>(#[serde(borrow)] Cow<'a, str>);

/// A line as Pith and pi write it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(default, borrow)]
    parent_id: Option<Str<'a>>,
    #[serde(default, borrow)]
    timestamp: Cow<'a, str>,
    #[serde(default, borrow)]
    message: Option<Said<'a>>,
    #[serde(default, borrow)]
    provider: Option<Str<'a>>,
    #[serde(default, borrow)]
    model: Option<Str<'a>>,
    #[serde(default, borrow)]
    model_id: Option<Str<'a>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default, borrow)]
    name: Option<Str<'a>>,
    #[serde(default, borrow)]
    target_id: Option<Str<'a>>,
    #[serde(default, borrow)]
    label: Option<Str<'a>>,
    #[serde(default, borrow)]
    custom_type: Option<Str<'a>>,
    #[serde(default)]
    publisher: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(default, borrow)]
    provider: Option<Str<'a>>,
    #[serde(default, borrow)]
    model: Option<Str<'a>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    content: Calls,
}

impl<'a> From<Line<'a>> for Skimmed<'a> {
    fn from(line: Line<'a>) -> Self {
        let text = |text: Option<Str<'a>>| text.map(|Str(text)| text);
        let custom_type = text(line.custom_type).filter(|_| line.publisher.is_none());
        let role = line.message.as_ref().map(|said| said.role.as_ref());
        let kind = EntryKind::named(&line.kind, role, custom_type.as_deref());
        let (name, target, label) = (text(line.name), text(line.target_id), text(line.label));
        let is_trusted = custom_type.as_deref() == Some(TRUSTED);
        let rest = match line.message {
            Some(said) => Rest {
                provider: text(said.provider).unwrap_or_default(),
                model: text(said.model).unwrap_or_default(),
                usage: said.usage,
                calls: said.content.0,
                ..Rest::default()
            },
            None => Rest {
                provider: text(line.provider).unwrap_or_default(),
                model: text(line.model.or(line.model_id)).unwrap_or_default(),
                usage: line.usage,
                calls: 0,
                name,
                target,
                label,
                is_trusted,
            },
        };
        let (type_name, id, timestamp) = (line.kind, line.id, line.timestamp);
        Self { kind, type_name, id, parent: text(line.parent_id), timestamp, rest }
    }
}

/// How many blocks of a message's content are calls.
#[derive(Default)]
struct Calls(u64);

impl<'de> Deserialize<'de> for Calls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Content;
        impl<'de> Visitor<'de> for Content {
            type Value = Calls;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("blocks or text")
            }

            fn visit_str<E>(self, _: &str) -> Result<Calls, E> {
                Ok(Calls(0))
            }

            fn visit_unit<E>(self) -> Result<Calls, E> {
                Ok(Calls(0))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<Calls, A::Error> {
                let mut calls: u64 = 0;
                while let Some(Block { is_call }) = blocks.next_element()? {
                    calls = calls.saturating_add(u64::from(is_call));
                }
                Ok(Calls(calls))
            }
        }
        deserializer.deserialize_any(Content)
    }
}

/// One block: whether it is a call.
struct Block {
    is_call: bool,
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Block;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a block")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Block, A::Error> {
                let mut is_call = false;
                while let Some(Str(key)) = fields.next_key()? {
                    if key == "type" {
                        let Str(kind) = fields.next_value()?;
                        is_call = kind == "toolCall";
                    } else {
                        fields.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Block { is_call })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}
