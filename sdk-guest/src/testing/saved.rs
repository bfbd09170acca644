use crate::Error;
use crate::bindings::imports::pith::plugin::state::Saved as Entry;

/// The session's entries of the plugin under test, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Saved(Vec<(String, Entry)>);

#[cfg_attr(doc, allow(dead_code, reason = "the imports stand in the documentation"))]
impl Saved {
    pub(crate) fn load(&self, kind: &str) -> Result<Option<Entry>, Error> {
        Ok(self.0.iter().rev().find(|(own, _)| own == kind).map(|(_, entry)| entry.clone()))
    }

    pub(crate) fn history(&self, kind: &str) -> Result<Vec<Entry>, Error> {
        Ok(self.0.iter().filter(|(own, _)| own == kind).map(|(_, entry)| entry.clone()).collect())
    }

    pub(crate) fn save(&mut self, kind: &str, body: &str) -> Result<String, Error> {
        let body: serde_json::Value = serde_json::from_str(body)
            .map_err(|error| Error::invalid(format!("The body of the state `{kind}` is no JSON: {error}.")))?;
        let id = format!("{:08x}", self.0.len() + 1);
        self.0.push((kind.to_owned(), Entry { entry_id: id.clone(), body: body.to_string() }));
        Ok(id)
    }

    pub(crate) fn save_if(&mut self, kind: &str, body: &str, newest: Option<&str>) -> Result<String, Error> {
        let found = self.load(kind)?.map(|entry| entry.entry_id);
        if found.as_deref() != newest {
            return Err(Error::conflict(format!("The newest state of `{kind}` is another one; load it again.")));
        }
        self.save(kind, body)
    }

    pub(crate) fn newest_id(&self) -> Option<String> {
        self.0.last().map(|(_, entry)| entry.entry_id.clone())
    }
}
