//! Which session is worked on: a new one, the folder's latest, one by name, one that others wrote.

use crate::{
    clock::new_session_id,
    places::{Places, real},
    settings,
    store::{FileStore, LoadError, MemoryStore, SourceFile},
};
use pith_core::{Clock, Diagnostic, Outbox, Session, SessionError, Trust};
use pith_os::{OpenError, Root};
use pith_protocol::{EntryBody, Header, Message, ModelRef, SessionId, ThinkingLevel, iso_from_millis};
use sha2::{Digest, Sha256};
use std::{
    fs::DirEntry,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The longest header line that is looked at to find a session, in bytes.
const HEADER_LIMIT_BYTES: u64 = 64 << 10;
/// Damaged lines that are named one by one.
const DIAGNOSTICS_SHOWN: usize = 20;
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
    /// Where it is kept, or will be.
    pub file: Option<PathBuf>,
    /// For people; foreign text in them is as it was.
    pub notices: Vec<String>,
    /// What it was last worked on with.
    pub model: Option<ModelRef>,
    pub thinking: Option<ThinkingLevel>,
}

/// What opening needs.
pub(crate) struct Opener<'a> {
    pub places: &'a Places,
    /// Checked.
    pub workspace: &'a Path,
    /// Whether a run's end waits for the disk.
    pub durable: bool,
    pub clock: Arc<dyn Clock>,
    /// Where it is told what happened to the file.
    pub outbox: Outbox,
}

impl Opener<'_> {
    /// Opens what was chosen.
    pub fn open(&self, choice: &SessionChoice) -> Result<Opened, ChoiceError> {
        match choice {
            SessionChoice::New => Ok(self.create(Vec::new())),
            SessionChoice::Memory => {
                let store = Box::new(MemoryStore::default());
                let session = Session::create(new_session_id(), self.workspace, store, self.clock.clone());
                Ok(Opened { session, file: None, notices: Vec::new(), model: None, thinking: None })
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
                if path.starts_with(real(&self.places.sessions())) { self.resume(&path) } else { self.adopt(&path) }
            }
        }
    }

    fn create(&self, notices: Vec<String>) -> Opened {
        let id = new_session_id();
        let file = self.new_file(&id);
        let store = Box::new(FileStore::new(file.clone(), self.durable).telling(self.outbox.clone()));
        let session = Session::create(id, self.workspace, store, self.clock.clone());
        Opened { session, file: Some(file), notices, model: None, thinking: None }
    }

    fn new_file(&self, id: &SessionId) -> PathBuf {
        let time = iso_from_millis(self.clock.now_millis()).replace([':', '.'], "-");
        self.folder().join(format!("{time}_{id}.jsonl"))
    }

    /// Where the working folder's sessions lie.
    fn folder(&self) -> PathBuf {
        self.places.sessions().join(folder_name(self.workspace))
    }

    /// Goes on in one of Pith's own files.
    fn resume(&self, path: &Path) -> Result<Opened, ChoiceError> {
        let (folder, name) = (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default());
        let root = Root::open(folder).map_err(LoadError::Open)?;
        let (store, loaded) = FileStore::open(&root, Path::new(name), self.durable)?;
        let mut notices = Vec::new();
        let cwd = loaded.header().cwd.clone();
        if Path::new(&cwd) != self.workspace {
            notices.push(format!("the session began in {cwd}; it goes on in {}", self.workspace.display()));
        }
        let (session, diagnostics) = Session::resume(
            loaded,
            self.workspace,
            Box::new(store.telling(self.outbox.clone())),
            self.clock.clone(),
            Trust::Own,
        )?;
        notices.extend(told(path, &diagnostics));
        Ok(opened(session, path.to_owned(), notices))
    }

    /// Goes on in a new file from one that others wrote; theirs is not touched.
    fn adopt(&self, path: &Path) -> Result<Opened, ChoiceError> {
        let (source, loaded) = SourceFile::open(path)?;
        let cwd = loaded.header().cwd.clone();
        let id = new_session_id();
        let file = self.new_file(&id);
        let store = Box::new(FileStore::new(file.clone(), self.durable).telling(self.outbox.clone()));
        let name = path.display().to_string();
        let clock = self.clock.clone();
        let (session, diagnostics) =
            Session::adopt(loaded, &source, name, id, self.workspace, store, clock, Trust::Foreign)?;
        let mut notices = vec![format!(
            "{} is not a session of this Pith: it is continued in the new file {}, with Pith's own prompt and tools, in {} (it says {cwd})",
            path.display(),
            file.display(),
            self.workspace.display(),
        )];
        notices.extend(told(path, &diagnostics));
        Ok(opened(session, file, notices))
    }

    /// The folder's file that was changed last and says that it is of this folder.
    fn latest(&self) -> Result<Option<PathBuf>, ChoiceError> {
        let folder = self.folder();
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
        let sessions = self.places.sessions();
        let mut found: Vec<(String, PathBuf)> = Vec::new();
        for folder in listed(&sessions)? {
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

fn opened(session: Session, file: PathBuf, notices: Vec<String>) -> Opened {
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
    Opened { session, file: Some(file), notices, model: changed.or(answered), thinking }
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

/// `<last folder name>-<10 hex of sha256(path)>`: readable, and never the same for two folders.
fn folder_name(workspace: &Path) -> String {
    let last = workspace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let last: String = last.chars().map(|c| if plain(c) { c } else { '_' }).take(40).collect();
    let digest = Sha256::digest(workspace.as_os_str().as_bytes());
    let hex: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("{last}-{hex}")
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
