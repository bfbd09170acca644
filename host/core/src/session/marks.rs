//! What people and the loop say about entries: labels, the session's name, what the model shall see in an entry's place.

use super::{Session, SessionError, append::At};
use crate::totals::tidy;
use pith_protocol::{Content, ContextEdit, Entry, EntryBody, EntryId, Label, Replacement, SessionInfo};
use std::sync::Arc;

impl Session {
    /// The label of an entry, of any branch.
    pub fn label(&self, id: &EntryId) -> Option<String> {
        let state = self.lock();
        state.tree.label(state.tree.find(id)?).map(str::to_owned)
    }

    /// Entries that have a label, of all branches, in the file's order.
    pub fn labels(&self) -> Vec<(EntryId, String)> {
        let state = self.lock();
        state.tree.labels().map(|(index, label)| (state.tree.id(index), label.to_owned())).collect()
    }

    /// Labels an entry of any branch: one line, at most `TITLE_CHARS` characters. None, or a blank one, takes the label away.
    ///
    /// # Errors
    /// There is no such entry, or as `append`.
    pub fn set_label(&self, id: &EntryId, label: Option<String>) -> Result<Arc<Entry>, SessionError> {
        let mut state = self.lock();
        state.index_of(Some(id))?;
        let body = EntryBody::Label(Label { target_id: id.clone(), label: label.as_deref().and_then(tidy) });
        Ok(self.append_locked(&mut state, At::Leaf, vec![(None, body)])?.remove(0))
    }

    /// The session's name.
    pub fn name(&self) -> Option<String> {
        self.lock().tree.tally.name().map(str::to_owned)
    }

    /// Names the session: one line, at most `TITLE_CHARS` characters. None, or a blank one, takes the name away.
    ///
    /// # Errors
    /// As `append`.
    pub fn set_name(&self, name: Option<String>) -> Result<Arc<Entry>, SessionError> {
        self.append(EntryBody::SessionInfo(SessionInfo { name: name.as_deref().and_then(tidy) }))
    }

    /// Shows the model something else in an entry's place, or nothing, from here on along this path. The entry stays as it is.
    ///
    /// # Errors
    /// The entry is not on the path, or is not one of the user's, the model's, a tool's or a plugin's words; or as `append`.
    pub fn edit(&self, target: &EntryId, replacement: Option<Vec<Content>>) -> Result<Arc<Entry>, SessionError> {
        let mut state = self.lock();
        let no = |why| SessionError::NotEditable { id: target.clone(), why };
        let index = state.tree.find(target).ok_or_else(|| SessionError::NotFound(target.clone()))?;
        if !state.tree.node(index).kind.may_be_edited() {
            return Err(no("only words of the user, the model, a tool or a plugin can be"));
        }
        if state.tree.common(Some(index), state.tree.leaf()) != Some(index) {
            return Err(no("it is on another branch"));
        }
        let replacement = replacement.map(|content| Replacement { content });
        let body = EntryBody::ContextEdit(ContextEdit { target_id: target.clone(), replacement });
        Ok(self.append_locked(&mut state, At::Leaf, vec![(None, body)])?.remove(0))
    }
}
