//! Reading what is not in memory: other branches, and what sleeps of the path.

use super::{Session, SessionError, State};
use crate::{
    kind::EntryKind,
    ports::Store,
    tree::{LoadedTree, Outlined, Place},
};
use pith_protocol::{Entry, EntryBody, EntryId, Message};
use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

/// Lines that stand near each other are read at once, up to this many bytes; a longer line alone.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// Bytes of others that may lie between two lines that are read at once.
const GAP_BYTES: u64 = 4 << 10;

/// What of a foreign path does not count here: for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAside {
    /// Messages that say what the model was told.
    pub system_messages: u64,
    /// Names of the tools that they declare, sorted. Foreign text.
    pub tools: Vec<String>,
    /// Plugins' state.
    pub plugin_entries: u64,
    /// The working folder that the file names. Foreign text.
    pub cwd: String,
}

impl SetAside {
    /// Whether nothing is, the folder apart.
    pub fn is_empty(&self) -> bool {
        self.system_messages == 0 && self.tools.is_empty() && self.plugin_entries == 0
    }
}

impl Session {
    /// All entries of all branches in the file's order, without their bodies.
    pub fn outline(&self) -> Vec<Outlined> {
        self.lock().tree.outline()
    }

    /// An entry of any branch; none where there is none of this id.
    ///
    /// # Errors
    /// Its line cannot be read back.
    pub fn entry(&self, id: &EntryId) -> Result<Option<Arc<Entry>>, SessionError> {
        let state = self.lock();
        let Some(index) = state.tree.find(id) else { return Ok(None) };
        if let Some(entry) = state.tree.awake.get(index) {
            return Ok(Some(entry.clone()));
        }
        Ok(self.read_entries(&state, &[Place::of(index, state.tree.node(index))])?.pop())
    }

    /// The line of an entry of any branch as it stands in the file, without its newline.
    ///
    /// # Errors
    /// It cannot be read back.
    pub fn raw_line(&self, id: &EntryId) -> Result<Option<Vec<u8>>, SessionError> {
        let state = self.lock();
        let Some(index) = state.tree.find(id) else { return Ok(None) };
        let mut line = None;
        self.read_lines(&state, &[Place::of(index, state.tree.node(index))], &mut |_, bytes| {
            line = Some(bytes.to_vec());
            Ok(())
        })?;
        Ok(line)
    }

    /// Every entry root -> leaf, those that sleep read from the file piece by piece. The session may be used meanwhile.
    ///
    /// # Errors
    /// A line cannot be read back; the entries before it were seen.
    pub fn walk_path(&self, each: &mut dyn FnMut(&Entry)) -> Result<(), SessionError> {
        let path: Vec<(Place, Option<Arc<Entry>>)> = {
            let tree = &self.lock().tree;
            let step = |index| (Place::of(index, tree.node(index)), tree.awake.get(index).cloned());
            tree.path_to(tree.leaf()).into_iter().map(step).collect()
        };
        let mut rest = path.as_slice();
        while let Some((_, first)) = rest.first() {
            let is_awake = first.is_some();
            let mut bytes: u64 = 0;
            let run = rest
                .iter()
                .take_while(|(place, entry)| {
                    bytes = bytes.saturating_add(u64::from(place.length));
                    entry.is_some() == is_awake
                        && (is_awake || bytes <= PIECE_BYTES || bytes == u64::from(place.length))
                })
                .count();
            let (run, after) = rest.split_at(run.max(1));
            rest = after;
            if is_awake {
                run.iter().filter_map(|(_, entry)| entry.as_ref()).for_each(|entry| each(entry));
            } else {
                let places: Vec<Place> = run.iter().map(|(place, _)| *place).collect();
                let entries = self.read_entries(&self.lock(), &places)?;
                entries.iter().for_each(|entry| each(entry));
            }
        }
        Ok(())
    }

    /// What the foreign part of the path says that does not count here.
    pub fn set_aside(&self) -> SetAside {
        let state = self.lock();
        let mut aside = SetAside { cwd: state.tree.header.cwd.clone(), ..SetAside::default() };
        let mut tools = BTreeSet::new();
        for entry in state.tree.awake.before(state.tree.foreign) {
            match &entry.body {
                EntryBody::Message(said) => {
                    if let Message::System(told) = said.message.as_ref() {
                        aside.system_messages = aside.system_messages.saturating_add(1);
                        tools.extend(told.tools_added.iter().map(|tool| tool.name.clone()));
                    }
                }
                EntryBody::Custom(_) if EntryKind::of(entry) == EntryKind::Custom => {
                    aside.plugin_entries = aside.plugin_entries.saturating_add(1);
                }
                _ => {}
            }
        }
        aside.tools = tools.into_iter().collect();
        aside
    }

    /// The entries of places in the file's order.
    pub(super) fn read_entries(&self, state: &State, places: &[Place]) -> Result<Vec<Arc<Entry>>, SessionError> {
        let mut entries = Vec::with_capacity(places.len());
        self.read_lines(state, places, &mut |place, line| {
            let entry = Entry::read(line);
            let id = |source| SessionError::Changed { id: state.tree.id(place.index), source };
            entries.push(Arc::new(entry.map_err(id)?));
            Ok(())
        })?;
        Ok(entries)
    }

    /// The lines of places in the file's order, from the file or from what is owed to it.
    pub(super) fn read_lines(
        &self,
        state: &State,
        places: &[Place],
        each: &mut dyn FnMut(Place, &[u8]) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        let owed = places.partition_point(|place| state.owed.get(place.offset, place.length as usize).is_none());
        read_pieces(self.0.store.as_ref(), &places[..owed], each)?;
        for place in &places[owed..] {
            each(*place, state.owed.get(place.offset, place.length as usize).unwrap_or_default())?;
        }
        Ok(())
    }
}

impl LoadedTree {
    /// A line as it goes into another file, in the present format.
    pub(crate) fn copied<'l>(&self, index: u32, line: &'l [u8]) -> Cow<'l, [u8]> {
        match self.migration.line(&self.tree, index, line) {
            Cow::Borrowed(line) => self.tree.copied(index, line),
            // Its parent was written afresh, or is what it was.
            Cow::Owned(line) => Cow::Owned(self.tree.copied(index, &line).into_owned()),
        }
    }

    /// Every line of the tree in the file's order, as the present format has it. `source` reads the file.
    ///
    /// # Errors
    /// A line cannot be read back, or `each` fails.
    pub(crate) fn each_line(
        &self,
        source: &dyn Store,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        let places: Vec<Place> = (0..self.tree.count()).map(|index| Place::of(index, self.tree.node(index))).collect();
        read_pieces(source, &places, &mut |place, line| each(place.index, &self.copied(place.index, line)))
    }

    /// One entry, by its place in the outline, as the present format has it. `source` reads the file.
    ///
    /// # Errors
    /// There is none at this place, or its line cannot be read back.
    pub fn entry(&self, source: &dyn Store, place: usize) -> Result<Entry, SessionError> {
        let index = u32::try_from(place).ok().filter(|index| *index < self.tree.count());
        let index = index.ok_or_else(|| SessionError::NotFound(EntryId::from(place.to_string())))?;
        let node = self.tree.node(index);
        let line = source.read(node.offset, node.length as usize)?;
        let line = self.migration.line(&self.tree, index, &line);
        Entry::read(&line).map_err(|source| SessionError::Changed { id: self.tree.id(index), source })
    }

    /// Every entry root -> leaf. `source` reads the file.
    ///
    /// # Errors
    /// A line cannot be read back; the entries before it were seen.
    pub fn walk_path(&self, source: &dyn Store, each: &mut dyn FnMut(&Entry)) -> Result<(), SessionError> {
        let path = self.tree.path_to(self.tree.leaf());
        let places: Vec<Place> = path.into_iter().map(|index| Place::of(index, self.tree.node(index))).collect();
        read_pieces(source, &places, &mut |place, line| {
            let line = self.migration.line(&self.tree, place.index, line);
            let id = |source| SessionError::Changed { id: self.tree.id(place.index), source };
            each(&Entry::read(&line).map_err(id)?);
            Ok(())
        })
    }
}

/// Reads places in the file's order, those near each other at once.
pub(super) fn read_pieces(
    store: &dyn Store,
    places: &[Place],
    each: &mut dyn FnMut(Place, &[u8]) -> Result<(), SessionError>,
) -> Result<(), SessionError> {
    let end_of = |place: &Place| place.offset.saturating_add(u64::from(place.length));
    let mut rest = places;
    while let Some(first) = rest.first() {
        let mut end = end_of(first);
        let near = |place: &&Place| {
            let is_near = place.offset <= end.saturating_add(GAP_BYTES)
                && end_of(place).saturating_sub(first.offset) <= PIECE_BYTES;
            if is_near {
                end = end_of(place);
            }
            is_near
        };
        let run = rest.iter().skip(1).take_while(near).count().saturating_add(1);
        let (piece, after) = rest.split_at(run);
        rest = after;
        let length = usize::try_from(end.saturating_sub(first.offset)).unwrap_or(usize::MAX);
        let bytes = store.read(first.offset, length)?;
        for place in piece {
            let start = usize::try_from(place.offset.saturating_sub(first.offset)).unwrap_or(usize::MAX);
            let line = bytes.get(start..start.saturating_add(place.length as usize)).unwrap_or_default();
            each(*place, line)?;
        }
    }
    Ok(())
}
