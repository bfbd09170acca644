//! Which session is worked on: a new one, the folder's latest, one by name, one that others wrote.

use crate::{
    clock::new_session_id,
    index::Provenance,
    places::real,
    settings,
    shelf::Shelf,
    store::{FileStore, LoadError, MemoryStore, SourceFile},
};
use pith_core::{Diagnostic, Session, SessionError, SetAside, Trust};
use pith_os::{OpenError, Root};
use pith_protocol::{EntryBody, Header, Message, ModelRef, ThinkingLevel};
use std::{
    fs::DirEntry,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The longest header line that is looked at to find a session, in bytes.
const HEADER_LIMIT_BYTES: u64 = 64 << 10;
/// Damaged lines that are named one by one.
const DIAGNOSTICS_SHOWN: usize = 20;
/// Tools of a foreign file that are named one by one.
const TOOLS_SHOWN: usize = 8;
/// Sessions that an ambiguous id names.
const MATCHES_SHOWN: usize = 5;

/// Which session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new one, on disk with its first message.
    #[default]
    New,
    /// The latest of the working folder, by its last change; a new one where there is none.
    Continue,
    /// A path to a session file, or the id, or the beginning of the id, of one of Pith's own.
    Open(String),
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
    #[error("there is no session {wanted}: neither a regular file, nor the beginning of a session's id")]
    NotFound {
        /// As asked for.
        wanted: String,
    },
    /// More than one.
    #[error("{wanted} is the beginning of several sessions' ids: {list}", list = found.join(", "))]
    Ambiguous {
        /// As asked for.
        wanted: String,
        /// Some of them.
        found: Vec<String>,
    },
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
            SessionChoice::Continue => match self.latest()? {
                Some(file) => self.resume(&file),
                None => Ok(self.create(vec![format!(
                    "there is no session of {} to continue; this is a new one",
                    self.workspace.display()
                )])),
            },
            SessionChoice::Open(wanted) => {
                let path = self.find(wanted)?;
                let path = path.canonicalize().map_err(|_| ChoiceError::NotFound { wanted: wanted.clone() })?;
                if path.starts_with(real(self.shelf.index.folder())) {
                    self.resume(&path)
                } else {
                    self.adopt(&path, self.trust(Provenance::Foreign))
                }
            }
        }
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
        let (cwd, version) = (loaded.header().cwd.clone(), loaded.version());
        let id = new_session_id();
        let store = self.shelf.create(self.workspace, &id);
        let name = path.display().to_string();
        let (kept, clock) = (Box::new(store.clone()), self.shelf.clock.clone());
        let (session, diagnostics) = Session::adopt(loaded, &source, name, id, self.workspace, kept, clock, trust)?;
        let what = match trust {
            Trust::Own => format!("has version {version} of the format, or no header"),
            _ => "is not a session of this Pith".to_owned(),
        };
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

    /// The folder's file that was changed last and says that it is of this folder.
    fn latest(&self) -> Result<Option<PathBuf>, ChoiceError> {
        let folder = self.shelf.folder(self.workspace);
        let mut files: Vec<_> = session_files(&folder)?
            .into_iter()
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.file_name())))
            .collect();
        files.sort();
        let root = match Root::open(&folder) {
            Ok(root) => root,
            Err(OpenError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(LoadError::Open(error).into()),
        };
        let of_this_folder =
            |name: &Path| header(&root, name).is_some_and(|header| Path::new(&header.cwd) == self.workspace);
        Ok(files
            .into_iter()
            .rev()
            .map(|(_, name)| PathBuf::from(name))
            .find(|name| of_this_folder(name))
            .map(|name| root.path().join(name)))
    }

    /// The file that a person's word means.
    fn find(&self, wanted: &str) -> Result<PathBuf, ChoiceError> {
        if wanted.contains('/') || wanted.ends_with(".jsonl") {
            return Ok(PathBuf::from(wanted));
        }
        let mut found: Vec<(String, PathBuf)> = Vec::new();
        for folder in listed(self.shelf.index.folder())? {
            for entry in session_files(&folder.path())? {
                let name = entry.file_name().to_string_lossy().into_owned();
                let id = name.strip_suffix(".jsonl").and_then(|stem| stem.split_once('_')).map(|(_, id)| id.to_owned());
                if let Some(id) = id.filter(|id| !wanted.is_empty() && id.starts_with(wanted)) {
                    found.push((id, entry.path()));
                }
            }
        }
        if found.len() > 1 && found.iter().filter(|(id, _)| id == wanted).count() == 1 {
            found.retain(|(id, _)| id == wanted);
        }
        match found.len() {
            0 if Path::new(wanted).is_file() => Ok(PathBuf::from(wanted)),
            0 => Err(ChoiceError::NotFound { wanted: wanted.to_owned() }),
            1 => Ok(found.remove(0).1),
            _ => {
                found.sort();
                let found = found.into_iter().take(MATCHES_SHOWN).map(|(id, _)| id).collect();
                Err(ChoiceError::Ambiguous { wanted: wanted.to_owned(), found })
            }
        }
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

/// What is in a folder; nothing where the folder is not there.
fn listed(folder: &Path) -> Result<Vec<DirEntry>, ChoiceError> {
    let failed = |source| ChoiceError::Unlistable { path: folder.to_owned(), source };
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.collect::<io::Result<_>>().map_err(failed),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

/// The session files of a folder: regular, by the name.
fn session_files(folder: &Path) -> Result<Vec<DirEntry>, ChoiceError> {
    let mut entries = listed(folder)?;
    entries.retain(|entry| {
        entry.path().extension().is_some_and(|extension| extension == "jsonl")
            && entry.file_type().is_ok_and(|kind| kind.is_file())
    });
    Ok(entries)
}

/// A file's first line, where it is a session's.
fn header(root: &Root, name: &Path) -> Option<Header> {
    let mut bytes = Vec::new();
    root.open_file(name).ok()?.take(HEADER_LIMIT_BYTES).read_to_end(&mut bytes).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice::<Header>(line).ok().filter(|header| header.kind == "session")
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
