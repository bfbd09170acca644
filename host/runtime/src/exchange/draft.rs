//! A session file under way: the lines that a transcript of others comes to, in memory until the session goes on from them.

use crate::store::{FOREIGN_FILE_LIMIT_BYTES, MemoryStore};
use pith_core::{LINE_LIMIT_BYTES, LoadedTree, ReadError, Store, StoreError, TreeReader};
use pith_llm::prices;
use pith_protocol::{
    Compaction, Content, Cost, Custom, Entry, EntryBody, EntryId, Header, Image, Message, ModelRef, SESSION_VERSION,
    SessionId, SessionInfo, Thinking, Usage, iso_from_millis, millis_from_iso,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Longest run of digits apart, so that ids do not look like a count; odd, so that no two are the same.
const ID_STEP: u32 = 0x9e37_79b1;

/// What is left out, by kind, and how often.
pub(super) type LeftOut = BTreeMap<&'static str, u64>;

/// The lines so far.
#[derive(Default)]
pub(super) struct Draft {
    lines: Vec<u8>,
    entries: u32,
    /// The time of the last entry, in milliseconds.
    time: i64,
    /// Where the conversation stands: the last entry that is not aside.
    leaf: Option<EntryId>,
    last: Option<EntryId>,
    /// The user's messages.
    users: u64,
    /// The source's own id.
    pub id: String,
    pub cwd: String,
    pub name: Option<String>,
    pub left_out: LeftOut,
    /// It is as large as it may be.
    pub is_full: bool,
}

impl Draft {
    /// Something that has no place in a session.
    pub fn leave_out(&mut self, what: &'static str) {
        let count = self.left_out.entry(what).or_default();
        *count = count.saturating_add(1);
    }

    /// The time that a line says, in milliseconds; that of the line before where it says none.
    pub fn time(&mut self, timestamp: &Value) -> i64 {
        if let Some(millis) = timestamp.as_str().and_then(millis_from_iso) {
            self.time = millis;
        }
        self.time
    }

    pub fn leaf(&self) -> Option<EntryId> {
        self.leaf.clone()
    }

    /// Goes back there: what comes next goes on from it.
    pub fn go_to(&mut self, leaf: Option<EntryId>) {
        self.leaf = leaf;
    }

    /// The id of the next entry.
    pub fn next_id(&self) -> EntryId {
        EntryId::from_bits(self.entries.wrapping_add(1).wrapping_mul(ID_STEP))
    }

    /// An entry at another. `is_aside`: the conversation does not go on from it. None where it has no room.
    pub fn push(&mut self, parent: Option<EntryId>, time: i64, body: EntryBody, is_aside: bool) -> Option<EntryId> {
        let id = self.next_id();
        let is_user = matches!(&body, EntryBody::Message(said) if matches!(said.message.as_ref(), Message::User(_)));
        let timestamp = iso_from_millis(time);
        let entry = Entry { kind: body.kind().to_owned(), id: id.clone(), parent_id: parent, timestamp, body };
        let before = self.lines.len();
        let is_written = serde_json::to_writer(&mut self.lines, &entry).is_ok();
        let bytes = self.lines.len().saturating_sub(before);
        if !is_written || bytes > LINE_LIMIT_BYTES {
            self.lines.truncate(before);
            self.leave_out("entries that are too long");
            return None;
        }
        self.lines.push(b'\n');
        self.is_full |= self.lines.len() as u64 > FOREIGN_FILE_LIMIT_BYTES;
        self.entries = self.entries.saturating_add(1);
        self.users = self.users.saturating_add(u64::from(is_user));
        self.last = Some(id.clone());
        if !is_aside {
            self.leaf = Some(id.clone());
        }
        Some(id)
    }

    /// What stands for everything before it, but for what is kept from `first_kept` on.
    pub fn compact(
        &mut self,
        parent: Option<EntryId>,
        time: i64,
        summary: String,
        first_kept: Option<EntryId>,
        tokens_before: u64,
        usage: Option<Usage>,
    ) -> Option<EntryId> {
        let first_kept_entry_id = first_kept.unwrap_or_else(|| self.next_id());
        let body = EntryBody::Compaction(Compaction {
            summary,
            first_kept_entry_id,
            tokens_before,
            system_message: None,
            details: None,
            usage,
            from_hook: None,
        });
        self.push(parent, time, body, false)
    }

    /// Whether there is anything that somebody said.
    pub fn is_empty(&self) -> bool {
        self.users == 0
    }

    /// The session file, whose last entry is where the conversation stands.
    pub fn finish(mut self) -> Result<(MemoryStore, LoadedTree, LeftOut), DraftError> {
        if let Some(name) = self.name.take() {
            let (leaf, time) = (self.leaf(), self.time);
            self.push(leaf, time, EntryBody::SessionInfo(SessionInfo { name: Some(name) }), false);
        }
        if self.last != self.leaf {
            let (leaf, time, from) = (self.leaf(), self.time, self.last.clone());
            let data = json!({ "from": from });
            let moved = Custom { custom_type: "pith/leaf".to_owned(), data, publisher: None };
            self.push(leaf, time, EntryBody::Custom(moved), false);
        }
        let header = Header {
            kind: "session".to_owned(),
            version: SESSION_VERSION,
            id: SessionId::from(self.id),
            timestamp: iso_from_millis(self.time),
            cwd: self.cwd,
            parent_session: None,
        };
        let mut file = serde_json::to_vec(&header).unwrap_or_default();
        file.push(b'\n');
        file.append(&mut self.lines);
        let mut reader = TreeReader::new();
        for line in file.split_inclusive(|byte| *byte == b'\n') {
            reader.push_line(line.strip_suffix(b"\n").unwrap_or(line), true)?;
        }
        let loaded = reader.finish()?;
        let store = MemoryStore::default();
        store.append(&file)?;
        Ok((store, loaded, self.left_out))
    }
}

/// A draft that is no session: a fault of ours.
#[derive(Debug, thiserror::Error)]
pub(super) enum DraftError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What tokens cost by the model table; where it does not know the model, that says so.
pub(super) fn priced(provider: &str, model: &str, mut usage: Usage, written_for_an_hour: u64) -> Usage {
    usage = usage.totalled();
    let model = ModelRef { provider: provider.to_owned(), id: model.to_owned() };
    // A reply without tokens was not counted; it was not free.
    usage.cost = match prices(&model).filter(|_| usage.total_tokens > 0) {
        Some(prices) => prices.cost(&usage, written_for_an_hour),
        None => Cost { unknown: !model.id.is_empty(), ..Cost::default() },
    };
    usage
}

/// Thoughts without their proof: it is bound to the request that they came from.
pub(super) fn thoughts(text: &str) -> Option<Content> {
    let thinking = || Thinking { thinking: text.to_owned(), thinking_signature: None, redacted: None };
    (!text.trim().is_empty()).then(|| Content::Thinking(thinking()))
}

/// A picture from `data:TYPE;base64,DATA`.
pub(super) fn picture_at(address: &str) -> Option<Content> {
    let (mime_type, data) = address.strip_prefix("data:")?.split_once(";base64,")?;
    picture(mime_type, data)
}

/// A picture, if providers take its kind.
pub(super) fn picture(mime_type: &str, data: &str) -> Option<Content> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let is_known = matches!(mime_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    let bytes = is_known.then(|| STANDARD.decode(data).ok()).flatten()?;
    crate::picture::check(mime_type, &bytes).ok()?;
    Some(Content::Image(Image { data: data.to_owned(), mime_type: mime_type.to_owned() }))
}
