//! Older versions of the format, rewritten line by line on their way into memory and into the new file; never where they stand.
//!
//! Version 1 has neither ids nor parents: entries follow each other, and a compaction names its first kept entry by its place among all
//! lines, the header's being 0. Version 2 calls the role `custom` `hookMessage`. What is not named here stays as it is, byte for byte.

use crate::{line::LineFault, tree::Tree};
use pith_protocol::{EntryId, Header, mended_line};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// What a file's lines need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// Version 1: ids and parents.
    Unchained,
    /// Version 2: another name for a role.
    Hooked,
    /// Nothing.
    #[default]
    Current,
}

/// One file's migration.
#[derive(Debug, Default)]
pub(crate) struct Migration {
    format: Format,
    version: u32,
    /// What ids begin with: the same file gets the same ids each time.
    seed: u32,
    /// The place of the last line among all that can be read.
    ordinal: u32,
    /// Of version 1: that place for each entry of the tree.
    kept: Vec<u32>,
}

impl Migration {
    pub fn of(header: &Header) -> Self {
        let (format, version) = match header.version {
            0 | 1 => (Format::Unchained, 1),
            2 => (Format::Hooked, 2),
            version => (Format::Current, version),
        };
        let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let seed = header.id.as_str().bytes().fold(0x811c_9dc5, mix);
        Self { format, version, seed, ordinal: 0, kept: Vec::new() }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn version(&self) -> u32 {
        if self.version == 0 { pith_protocol::SESSION_VERSION } else { self.version }
    }

    fn id(&self, ordinal: u32) -> EntryId {
        EntryId::from_bits(self.seed.wrapping_add(ordinal))
    }

    /// The next line of version 1, as it is in the present format.
    pub fn next(&mut self, line: &[u8], parent: Option<&EntryId>) -> Result<Vec<u8>, LineFault> {
        let mut room = Vec::new();
        let members = members_of(line, &mut room).map_err(|error| {
            if line.contains(&0) {
                LineFault::Nul
            } else if error.is_eof() {
                LineFault::Torn
            } else {
                LineFault::NotAnEntry
            }
        })?;
        self.ordinal = self.ordinal.saturating_add(1);
        self.chained(&members, self.ordinal, parent).ok_or(LineFault::NotAnEntry)
    }

    /// The line that `next` gave is in the tree.
    pub fn keep(&mut self) {
        self.kept.push(self.ordinal);
    }

    /// A line of the tree, as it is in the present format.
    pub fn line<'l>(&self, tree: &Tree, index: u32, line: &'l [u8]) -> Cow<'l, [u8]> {
        if self.format == Format::Current {
            return Cow::Borrowed(line);
        }
        let mut room = Vec::new();
        let Ok(members) = members_of(line, &mut room) else { return Cow::Borrowed(line) };
        let rewritten = match self.format {
            Format::Unchained => {
                let parent = tree.node(index).parent().map(|parent| tree.id(parent));
                let ordinal = self.kept.get(index as usize).copied().unwrap_or_default();
                self.chained(&members, ordinal, parent.as_ref())
            }
            _ => unhooked(&members),
        };
        rewritten.map_or(Cow::Borrowed(line), Cow::Owned)
    }

    /// With an id and a parent, unless it has both. None where it has no type.
    fn chained(
        &self,
        members: &[(Cow<'_, str>, &RawValue)],
        ordinal: u32,
        parent: Option<&EntryId>,
    ) -> Option<Vec<u8>> {
        let of = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, value)| value.get());
        let kind: String = serde_json::from_str(of("type")?).ok()?;
        let is_chained = of("id").is_some_and(|id| id.starts_with('"')) && of("parentId").is_some();
        let id = self.id(ordinal);
        let mut out = Object::default();
        out.member("type", &quoted(&kind));
        if !is_chained {
            out.member("id", &quoted(id.as_str()));
            out.member("parentId", &parent.map_or("null".to_owned(), |parent| quoted(parent.as_str())));
        }
        let place = of("firstKeptEntryIndex").filter(|_| kind == "compaction").map(|place| place.parse::<u32>().ok());
        let first_kept = match place {
            Some(Some(place)) if place > 0 && place < ordinal => Some(self.id(place)),
            Some(_) => Some(id),
            None => (kind == "compaction" && of("firstKeptEntryId").is_none()).then_some(id),
        };
        for (key, value) in members {
            match key.as_ref() {
                "type" => {}
                "id" | "parentId" if !is_chained => {}
                "firstKeptEntryId" if first_kept.is_some() => {}
                "firstKeptEntryIndex" if first_kept.is_some() => {}
                "message" if kind == "message" => out.message(value),
                key => out.member(key, value.get()),
            }
        }
        if let Some(first_kept) = first_kept {
            out.member("firstKeptEntryId", &quoted(first_kept.as_str()));
        }
        Some(out.finish())
    }
}

/// With the present name of the role; none where nothing changes.
fn unhooked(members: &[(Cow<'_, str>, &RawValue)]) -> Option<Vec<u8>> {
    let is_hooked = |(key, value): &(Cow<'_, str>, &RawValue)| key == "message" && value.get().contains("hookMessage");
    if !members.iter().any(is_hooked) {
        return None;
    }
    let mut out = Object::default();
    for (key, value) in members {
        if key == "message" { out.message(value) } else { out.member(key, value.get()) }
    }
    Some(out.finish())
}

/// With this parent; none where the line is no object.
pub(crate) fn rechained(line: &[u8], parent: Option<&EntryId>) -> Option<Vec<u8>> {
    let mut room = Vec::new();
    let members = members_of(line, &mut room).ok()?;
    let parent = parent.map_or("null".to_owned(), |parent| quoted(parent.as_str()));
    let mut out = Object::default();
    for (key, value) in members {
        out.member(&key, if key == "parentId" { &parent } else { value.get() });
    }
    Some(out.finish())
}

/// A line's members; of one that is not all characters, as it is read (`mended_line`).
fn members_of<'l>(
    line: &'l [u8],
    room: &'l mut Vec<u8>,
) -> Result<Vec<(Cow<'l, str>, &'l RawValue)>, serde_json::Error> {
    let error = match serde_json::from_slice(line) {
        Ok(Members(members)) => return Ok(members),
        Err(error) => error,
    };
    let Some(mended) = mended_line(line) else { return Err(error) };
    *room = mended;
    serde_json::from_slice(room).map(|Members(members)| members)
}

/// An object's members in their order, values as they are written.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    members.push((key, map.next_value()?));
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Each).map(Members)
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// An object that is written.
#[derive(Default)]
struct Object(String);

impl Object {
    fn member(&mut self, key: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&quoted(key));
        self.0.push(':');
        self.0.push_str(value);
    }

    /// A message, its role by its present name.
    fn message(&mut self, message: &RawValue) {
        let members = match serde_json::from_str(message.get()) {
            Ok(Members(members)) if message.get().contains("hookMessage") => members,
            _ => return self.member("message", message.get()),
        };
        let mut out = Self::default();
        for (key, value) in members {
            let is_hook = key == "role"
                && serde_json::from_str::<Cow<'_, str>>(value.get()).is_ok_and(|role| role == "hookMessage");
            out.member(&key, if is_hook { "\"custom\"" } else { value.get() });
        }
        self.member("message", &String::from_utf8(out.finish()).unwrap_or_default());
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        self.0.into_bytes()
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
