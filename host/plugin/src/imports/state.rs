//! `state`: a plugin's own entries in the session. What a call saves is kept here and written when the call returns; a fault writes nothing.

use crate::{
    convert::refusal,
    instance::Instance,
    limits::{STATE_BYTES, STATE_ENTRIES, STATE_SESSION_BYTES},
};
use pith_bindings::imports::pith::plugin::{
    state::{Host, Saved},
    types::{Error, ErrorKind},
};
use pith_core::{Session, SessionError, canonical_json, parse_strict};
use pith_protocol::{Custom, Entry, EntryBody, EntryId};
use std::sync::Arc;

/// What one call has saved so far.
#[derive(Default)]
pub(crate) struct Saves {
    list: Vec<Save>,
    /// Entries and bytes of this plugin on the path, counted at the call's first save.
    used: Option<(usize, usize)>,
}

struct Save {
    id: EntryId,
    kind: String,
    body: Custom,
    /// For `save-if`: the newest of its kind that was in the session before this call.
    expected: Option<Option<EntryId>>,
}

/// Another call saved the same kind meanwhile.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub kind: String,
}

/// What writing a call's saves came to.
pub(crate) type Written = Result<Result<Vec<Arc<Entry>>, Conflict>, SessionError>;

impl Saves {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Writes all of them at the leaf, or none: where another call was faster.
    pub fn write(self, session: &Session, publisher: &str) -> Written {
        let mut checks: Vec<(String, Option<EntryId>)> = Vec::new();
        let entries = self.list.into_iter().map(|save| {
            // Later ones of a kind were checked against earlier ones of this call.
            if let Some(expected) = save.expected
                && !checks.iter().any(|(kind, _)| *kind == save.body.custom_type)
            {
                checks.push((save.body.custom_type.clone(), expected));
            }
            (save.id, EntryBody::Custom(save.body))
        });
        let entries = entries.collect();
        session.append_reserved(entries, |path| {
            let path: Vec<&Arc<Entry>> = path.collect();
            for (kind, expected) in &checks {
                let newest = path.iter().rev().find(|entry| is_of(entry, kind, publisher)).map(|entry| &entry.id);
                if newest != expected.as_ref() {
                    return Err(Conflict { kind: kind.clone() });
                }
            }
            Ok(())
        })
    }
}

fn is_of(entry: &Entry, custom_type: &str, publisher: &str) -> bool {
    own(entry, publisher).is_some_and(|custom| custom.custom_type == custom_type)
}

fn own<'e>(entry: &'e Entry, publisher: &str) -> Option<&'e Custom> {
    match &entry.body {
        EntryBody::Custom(custom) if custom.publisher.as_deref() == Some(publisher) => Some(custom),
        _ => None,
    }
}

fn saved(id: &EntryId, custom: &Custom) -> Saved {
    Saved { entry_id: id.as_str().to_owned(), body: canonical_json(&custom.data) }
}

impl Instance {
    /// The session and the full name of the kind.
    fn state_of(&self, kind: &str) -> Result<(Session, String), Error> {
        if !pith_law::is_tool_name(kind) {
            return Err(refusal(ErrorKind::Invalid, "a kind is a-z, 0-9, _ and -, at most 64 characters"));
        }
        match &self.scope {
            Some(scope) => Ok((scope.session.clone(), format!("{}/{kind}", self.facts.name))),
            None => Err(refusal(ErrorKind::Unavailable, "there is no session")),
        }
    }

    fn newest_before(&self, session: &Session, custom_type: &str) -> Option<(EntryId, Saved)> {
        session.with_own_path(|path| {
            path.rev().find_map(|entry| {
                let custom = own(entry, &self.facts.publisher)?;
                (custom.custom_type == custom_type).then(|| (entry.id.clone(), saved(&entry.id, custom)))
            })
        })
    }

    fn save_state(&mut self, kind: &str, body: &str, expected: Option<Option<String>>) -> Result<String, Error> {
        let (session, custom_type) = self.state_of(kind)?;
        if body.len() > STATE_BYTES {
            return Err(refusal(ErrorKind::Limit, format!("an entry has at most {} KiB", STATE_BYTES >> 10)));
        }
        let data = parse_strict(body).map_err(|error| refusal(ErrorKind::Invalid, format!("no JSON: {error}")))?;
        self.take_room(&session, body.len())?;
        let expected = match expected {
            None => None,
            Some(expected) => Some(self.check_newest(&session, &custom_type, expected.as_deref())?),
        };
        let id = session.reserve_id();
        let publisher = Some(self.facts.publisher.clone());
        let body = Custom { custom_type, data, publisher };
        self.saves.list.push(Save { id: id.clone(), kind: kind.to_owned(), body, expected });
        Ok(id.as_str().to_owned())
    }

    /// Gives the newest in the session, where that or this call's own newest is the one expected.
    fn check_newest(
        &self,
        session: &Session,
        custom_type: &str,
        expected: Option<&str>,
    ) -> Result<Option<EntryId>, Error> {
        let before = self.newest_before(session, custom_type).map(|(id, _)| id);
        let pending =
            self.saves.list.iter().rev().find(|save| save.body.custom_type == custom_type).map(|save| &save.id);
        if pending.or(before.as_ref()).map(EntryId::as_str) == expected {
            Ok(before)
        } else {
            Err(refusal(ErrorKind::Conflict, "a newer one was saved; load it and try again"))
        }
    }

    fn take_room(&mut self, session: &Session, bytes: usize) -> Result<(), Error> {
        let publisher = &self.facts.publisher;
        let prefix = format!("{}/", self.facts.name);
        let (entries, used) = *self.saves.used.get_or_insert_with(|| {
            session.with_own_path(|path| {
                let own =
                    path.filter_map(|entry| own(entry, publisher)).filter(|own| own.custom_type.starts_with(&prefix));
                own.fold((0, 0), |(entries, bytes): (usize, usize), custom| {
                    (entries.saturating_add(1), bytes.saturating_add(custom.data.to_string().len()))
                })
            })
        });
        let after = (entries.saturating_add(1), used.saturating_add(bytes));
        if after.0 > STATE_ENTRIES {
            return Err(refusal(
                ErrorKind::Limit,
                format!("a plugin has at most {STATE_ENTRIES} entries in a session"),
            ));
        }
        if after.1 > STATE_SESSION_BYTES {
            let limit = STATE_SESSION_BYTES >> 20;
            return Err(refusal(ErrorKind::Limit, format!("a plugin has at most {limit} MiB of entries in a session")));
        }
        self.saves.used = Some(after);
        Ok(())
    }
}

impl Host for Instance {
    async fn load(&mut self, kind: String) -> wasmtime::Result<Result<Option<Saved>, Error>> {
        self.enter(kind.len())?;
        let (session, custom_type) = match self.state_of(&kind) {
            Ok(state) => state,
            Err(refused) => return Ok(Err(refused)),
        };
        let pending = self.saves.list.iter().rev().find(|save| save.kind == kind);
        Ok(Ok(match pending {
            Some(save) => Some(saved(&save.id, &save.body)),
            None => self.newest_before(&session, &custom_type).map(|(_, saved)| saved),
        }))
    }

    async fn history(&mut self, kind: String) -> wasmtime::Result<Result<Vec<Saved>, Error>> {
        self.enter(kind.len())?;
        let (session, custom_type) = match self.state_of(&kind) {
            Ok(state) => state,
            Err(refused) => return Ok(Err(refused)),
        };
        let publisher = &self.facts.publisher;
        let mut all: Vec<Saved> = session.with_own_path(|path| {
            let own = path.filter_map(|entry| own(entry, publisher).map(|custom| (entry, custom)));
            own.filter(|(_, custom)| custom.custom_type == custom_type)
                .map(|(entry, custom)| saved(&entry.id, custom))
                .collect()
        });
        let pending = self.saves.list.iter().filter(|save| save.kind == kind);
        all.extend(pending.map(|save| saved(&save.id, &save.body)));
        Ok(Ok(all))
    }

    async fn save(&mut self, kind: String, body: String) -> wasmtime::Result<Result<String, Error>> {
        self.enter(kind.len().saturating_add(body.len()))?;
        Ok(self.save_state(&kind, &body, None))
    }

    async fn save_if(
        &mut self,
        kind: String,
        body: String,
        newest: Option<String>,
    ) -> wasmtime::Result<Result<String, Error>> {
        self.enter(kind.len().saturating_add(body.len()))?;
        Ok(self.save_state(&kind, &body, Some(newest)))
    }
}
