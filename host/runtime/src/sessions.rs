//! Which session is worked on: a new one, the folder's latest, one by name, one that others wrote.

use crate::{
    clock::new_session_id,
    index::{Head, Provenance},
    library::{find_session, latest},
    places::real,
    settings,
    shelf::Shelf,
    store::{FileStore, LoadError, MemoryStore, SourceFile},
};
use pith_core::{Diagnostic, LoadedTree, Session, SessionError, SetAside, Trust};
use pith_protocol::{EntryBody, Message, ModelRef, ThinkingLevel};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Damaged lines that are named one by one.
const DIAGNOSTICS_SHOWN: usize = 20;
/// Tools of a foreign file that are named one by one.
const TOOLS_SHOWN: usize = 8;

/// Which session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new one, on disk with its first message.
    #[default]
    New,
    /// The latest of the working folder, by its last change; a new one where there is none.
    Continue,
    /// A path to a session file; or of one of Pith's own the id, the beginning of the id or the name; or `-`, the latest of the working folder.
    Open(String),
    /// A new one that begins as the path of another does, which is named as for `Open` and stays as it is.
    Fork(String),
    /// A new one that is never on disk.
    Memory,
}

/// A session that cannot be worked on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// Its file.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its entries.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The folder of sessions cannot be listed.
    #[error("the sessions in {path} cannot be listed: {source}", path = path.display())]
    Unlistable {
        /// The folder.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// No such session.
    #[error("there is no session {wanted}: neither a regular file, nor the beginning of a session's id, nor its name")]
    NotFound {
        /// As asked for.
        wanted: String,
    },
    /// The folder has none.
    #[error("there is no session of {workspace} yet", workspace = workspace.display())]
    NoneHere {
        /// The working folder.
        workspace: PathBuf,
    },
    /// More than one.
    #[error("{wanted} means several sessions: {list}", list = found.join(", "))]
    Ambiguous {
        /// As asked for.
        wanted: String,
        /// Some of them.
        found: Vec<String>,
    },
}

impl ChoiceError {
    /// What helps, where the error's own words do not say it already.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Load(error) => error.hint(),
            Self::NotFound { .. } => Some("`pith session list --all` names all of them".to_owned()),
            Self::NoneHere { .. } => Some("`pith session list --all` names those of other folders".to_owned()),
            Self::Ambiguous { .. } => Some("give more of the id, or the file's path".to_owned()),
            _ => None,
        }
    }
}

/// A session, ready to be worked on.
pub(crate) struct Opened {
    pub session: Session,
    /// Its file; none for one that is kept nowhere.
    pub store: Option<FileStore>,
    /// For people; foreign text in them is as it was.
    pub notices: Vec<String>,
    /// What it was last worked on with.
    pub model: Option<ModelRef>,
    pub thinking: Option<ThinkingLevel>,
}

/// What opening needs.
pub(crate) struct Opener<'a> {
    pub shelf: &'a Shelf,
    /// Checked.
    pub workspace: &'a Path,
    /// The user says that a file of others is as good as one of Pith's own.
    pub is_trusted: bool,
}

impl Opener<'_> {
    /// Opens what was chosen.
    pub fn open(&self, choice: &SessionChoice) -> Result<Opened, ChoiceError> {
        match choice {
            SessionChoice::New => Ok(self.create(Vec::new())),
            SessionChoice::Memory => {
                let store = Box::new(MemoryStore::default());
                let session = Session::create(new_session_id(), self.workspace, store, self.shelf.clock.clone());
                Ok(Opened { session, store: None, notices: Vec::new(), model: None, thinking: None })
            }
            SessionChoice::Continue => match latest(&self.shelf.places, self.workspace)? {
                Some(file) => self.resume(&file),
                None => Ok(self.create(vec![format!(
                    "there is no session of {} to continue; this is a new one",
                    self.workspace.display()
                )])),
            },
            SessionChoice::Open(wanted) => {
                let path = self.find(wanted)?;
                if path.starts_with(real(self.shelf.index.folder())) {
                    self.resume(&path)
                } else {
                    self.adopt(&path, self.trust(Provenance::Foreign))
                }
            }
            SessionChoice::Fork(wanted) => self.fork(wanted),
        }
    }

    /// The file that a person's word means, without links.
    fn find(&self, wanted: &str) -> Result<PathBuf, ChoiceError> {
        let path = find_session(&self.shelf.places, self.workspace, wanted)?;
        path.canonicalize().map_err(|_| ChoiceError::NotFound { wanted: wanted.to_owned() })
    }

    /// Goes on in a new file from one that stays as it is, whoever writes it now.
    fn fork(&self, wanted: &str) -> Result<Opened, ChoiceError> {
        let path = self.find(wanted)?;
        let (source, loaded) = SourceFile::open(&path)?;
        let met = source.met().map_err(|source| LoadError::Read { path: path.clone(), source })?;
        let (index, head) = (&self.shelf.index, Head::of(loaded.header()));
        let trust = self.trust(index.provenance(&path, &met, &head, source.sum()));
        self.copied(&path, &source, loaded, trust, "is forked".to_owned())
    }

    fn create(&self, notices: Vec<String>) -> Opened {
        let id = new_session_id();
        let store = self.shelf.create(self.workspace, &id);
        let session = Session::create(id, self.workspace, Box::new(store.clone()), self.shelf.clock.clone());
        Opened { session, store: Some(store), notices, model: None, thinking: None }
    }

    fn trust(&self, provenance: Provenance) -> Trust {
        match provenance {
            _ if self.is_trusted => Trust::Trusted,
            Provenance::Own => Trust::Own,
            Provenance::Trusted => Trust::Trusted,
            Provenance::Foreign => Trust::Foreign,
        }
    }

    /// Goes on in one of the files in Pith's own folder.
    fn resume(&self, path: &Path) -> Result<Opened, ChoiceError> {
        let (store, loaded, provenance) = self.shelf.open(path)?;
        let trust = self.trust(provenance);
        if !loaded.is_current() {
            // What stands is never rewritten.
            return self.adopt(path, trust);
        }
        let mut notices = Vec::new();
        let header = loaded.header();
        if Path::new(&header.cwd) != self.workspace {
            notices.push(format!("the session began in {}; it goes on in {}", header.cwd, self.workspace.display()));
        }
        let id = header.id.clone();
        let kept = Box::new(store.clone());
        let (session, diagnostics) = Session::resume(loaded, self.workspace, kept, self.shelf.clock.clone(), trust)?;
        if trust == Trust::Foreign {
            notices.push(format!(
                "{} is not as this Pith left it, so it is read as a conversation only: {}; if it is yours, `pith session trust {id}` says so",
                path.display(),
                listed_aside(&session.set_aside()),
            ));
        }
        notices.extend(told(path, &diagnostics));
        Ok(opened(session, store, notices))
    }

    /// Goes on in a new file from one that others wrote, or that has an older format; it is not touched.
    fn adopt(&self, path: &Path, trust: Trust) -> Result<Opened, ChoiceError> {
        let (source, loaded) = SourceFile::open(path)?;
        let what = match trust {
            Trust::Own => format!("has version {} of the format, or no header", loaded.version()),
            _ => "is not a session of this Pith".to_owned(),
        };
        self.copied(path, &source, loaded, trust, what)
    }

    fn copied(
        &self,
        path: &Path,
        source: &SourceFile,
        loaded: LoadedTree,
        trust: Trust,
        what: String,
    ) -> Result<Opened, ChoiceError> {
        let cwd = loaded.header().cwd.clone();
        let id = new_session_id();
        let store = self.shelf.create(self.workspace, &id);
        let name = path.display().to_string();
        let (kept, clock) = (Box::new(store.clone()), self.shelf.clock.clone());
        let (session, diagnostics) = Session::adopt(loaded, source, name, id, self.workspace, kept, clock, trust)?;
        let aside = match trust {
            Trust::Foreign => format!("; {}; --trust-session keeps them", listed_aside(&session.set_aside())),
            _ => String::new(),
        };
        let mut notices = vec![format!(
            "{} {what}: it is continued in the new file {}, with Pith's own prompt and tools, in {} (it says {cwd}){aside}",
            path.display(),
            store.path().display(),
            self.workspace.display(),
        )];
        notices.extend(told(path, &diagnostics));
        Ok(opened(session, store, notices))
    }
}

fn opened(session: Session, store: FileStore, notices: Vec<String>) -> Opened {
    let (mut changed, mut answered, mut thinking) = (None, None, None);
    for entry in session.path() {
        match &entry.body {
            EntryBody::ModelChange(change) => {
                changed = Some(ModelRef { provider: change.provider.clone(), id: change.model_id.clone() });
            }
            EntryBody::ThinkingLevelChange(change) => thinking = settings::level(&change.thinking_level),
            EntryBody::Message(entry) => {
                if let Message::Assistant(reply) = entry.message.as_ref()
                    && !reply.provider.is_empty()
                    && !reply.model.is_empty()
                {
                    answered = Some(ModelRef { provider: reply.provider.clone(), id: reply.model.clone() });
                }
            }
            _ => {}
        }
    }
    Opened { session, store: Some(store), notices, model: changed.or(answered), thinking }
}

/// What of a foreign file does not count, for people.
fn listed_aside(aside: &SetAside) -> String {
    if aside.is_empty() {
        return "it tells the model nothing else, so nothing had to be set aside".to_owned();
    }
    let mut parts = Vec::new();
    let count = |number: u64, one: &str, many: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    };
    if aside.system_messages > 0 {
        parts.push(count(
            aside.system_messages,
            "message that tells the model what to do",
            "messages that tell the model what to do",
        ));
    }
    if !aside.tools.is_empty() {
        let shown: Vec<&str> = aside.tools.iter().take(TOOLS_SHOWN).map(String::as_str).collect();
        let more = if aside.tools.len() > TOOLS_SHOWN { ", ..." } else { "" };
        let tools = count(aside.tools.len() as u64, "declared tool", "declared tools");
        parts.push(format!("{tools} ({}{more})", shown.join(", ")));
    }
    if aside.plugin_entries > 0 {
        parts.push(count(aside.plugin_entries, "plugin's entry", "plugins' entries"));
    }
    format!("set aside are {}", parts.join(", "))
}

/// What was wrong with a file, for people.
fn told(path: &Path, diagnostics: &[Diagnostic]) -> Vec<String> {
    let mut lines: Vec<String> = diagnostics
        .iter()
        .take(DIAGNOSTICS_SHOWN)
        .map(|diagnostic| format!("{}: {diagnostic}", path.display()))
        .collect();
    if let Some(more) = diagnostics.len().checked_sub(DIAGNOSTICS_SHOWN).filter(|more| *more > 0) {
        lines.push(format!("{}: and {more} more like these", path.display()));
    }
    lines
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
