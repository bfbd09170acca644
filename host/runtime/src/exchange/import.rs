//! Transcripts of others become sessions of this user's: each a new file in the sessions folder, whose entries stay foreign.

use super::{
    ExchangeError,
    claude::{self, Claude},
    codex::{self, Codex},
    draft::{Draft, LeftOut},
};
use crate::{
    clock::{SystemClock, new_session_id},
    guests::Progress,
    index::Index,
    places::{Places, real},
    shelf::Shelf,
    store::{FOREIGN_FILE_LIMIT_BYTES, SessionSync, SourceFile},
};
use pith_core::{Clock, LINE_LIMIT_BYTES, LoadedTree, Outbox, Session, Store, Trust};
use pith_protocol::{Custom, EntryBody};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// The most transcripts of one folder.
pub const IMPORT_FILES_LIMIT: usize = 100_000;
/// Folders within folders that are looked into.
const DEPTH_LIMIT: usize = 16;
/// Lines that are looked at to find out whose a file is.
const LINES_LOOKED_AT: usize = 50;
/// The largest transcript that is read, in bytes: much of one is notes that do not become entries.
const TRANSCRIPT_LIMIT_BYTES: u64 = 4 << 30;
/// What may wait in memory for the end of a reply, in bytes of lines: then it ends there.
const WAITING_LIMIT_BYTES: usize = 64 << 20;
/// From when on, and how often, people are told how far it is.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Damaged lines that are named one by one.
const DAMAGED_SHOWN: usize = 5;

/// Whose a transcript is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// pi's session format, Pith's own files included.
    Pi,
    /// Claude Code's.
    Claude,
    /// Codex's.
    Codex,
}

impl Origin {
    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "pi" => Some(Self::Pi),
            "claude" => Some(Self::Claude),
            "codex" => Some(Self::Codex),
            _ => None,
        }
    }

    /// The program, for people.
    pub fn program(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
        }
    }
}

/// An import that is wanted.
#[derive(Clone, Default)]
pub struct ImportOrder {
    /// Whose it is; else its content says so.
    pub from: Option<Origin>,
    /// What was imported already is imported once more.
    pub again: bool,
    /// The working folder of those that name none.
    pub workspace: PathBuf,
    /// Is told how far it is, where it takes longer than a second.
    pub progress: Option<Progress>,
}

/// What became of one file.
#[derive(Debug)]
pub struct Imported {
    /// The transcript, without links.
    pub source: PathBuf,
    /// What became of it.
    pub outcome: ImportOutcome,
}

/// What became of a transcript.
#[derive(Debug)]
pub enum ImportOutcome {
    /// A new session.
    Made {
        /// Whose the transcript was.
        origin: Origin,
        /// The new session's id.
        id: String,
        /// Its file.
        file: PathBuf,
        /// Its working folder; foreign text.
        cwd: PathBuf,
        /// Its entries.
        entries: u64,
        /// What has no place in a session, and how often it was met.
        left_out: Vec<(String, u64)>,
        /// What was wrong with the transcript, a sentence each.
        notices: Vec<String>,
    },
    /// This session came from it, so nothing was done.
    Already {
        /// The session's id.
        id: String,
    },
    /// A subagent's, within a folder: its session says what it gave. Named itself it is imported.
    Aside,
    /// Not imported; nothing was made.
    Failed(ExchangeError),
}

/// Imports a transcript, or all of a folder and its folders: files that are none are left alone there.
///
/// # Errors
/// The folder or the list of sessions cannot be read. What happens to a single file is in its outcome.
pub fn import_sessions(places: &Places, path: &Path, order: &ImportOrder) -> Result<Vec<Imported>, ExchangeError> {
    let failed = |source| ExchangeError::Source { path: path.to_owned(), source };
    let path = path.canonicalize().map_err(failed)?;
    let is_folder = path.metadata().map_err(failed)?.is_dir();
    let mut files = Vec::new();
    if is_folder {
        gather(&path, 0, &mut files)?;
        if files.len() > IMPORT_FILES_LIMIT {
            return Err(ExchangeError::TooMany { path, limit: IMPORT_FILES_LIMIT });
        }
        files.sort();
    } else {
        files.push(path);
    }
    let mut importer = Importer::new(places, order)?;
    let mut told = Instant::now();
    let mut done = Vec::with_capacity(files.len());
    let many = files.len();
    for (index, source) in files.into_iter().enumerate() {
        if let Some(progress) = &order.progress
            && told.elapsed() >= TOLD_AFTER
        {
            told = Instant::now();
            progress(&format!("importing: {} of {many}", index.saturating_add(1)));
        }
        let outcome = importer.file(&source, is_folder).unwrap_or_else(ImportOutcome::Failed);
        if is_folder && matches!(outcome, ImportOutcome::Failed(ExchangeError::Unknown { .. })) {
            continue;
        }
        done.push(Imported { source, outcome });
    }
    Ok(done)
}

/// The files of a folder that may be transcripts. Links are not followed.
fn gather(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), ExchangeError> {
    let failed = |source| ExchangeError::Source { path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth < DEPTH_LIMIT {
            gather(&path, depth.saturating_add(1), files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
        if files.len() > IMPORT_FILES_LIMIT {
            return Ok(());
        }
    }
    Ok(())
}

struct Importer<'a> {
    order: &'a ImportOrder,
    shelf: Shelf,
    /// The sessions by the file that they came from.
    known: HashMap<String, String>,
}

/// A transcript that was read.
struct Source {
    store: Box<dyn Store>,
    loaded: LoadedTree,
    left_out: LeftOut,
    damaged: Vec<String>,
}

impl<'a> Importer<'a> {
    fn new(places: &Places, order: &'a ImportOrder) -> Result<Self, ExchangeError> {
        let index = Index::at(places);
        let unlistable = |source| ExchangeError::Unlistable { path: places.sessions(), source };
        let listing = index.list(order.progress.as_ref()).map_err(unlistable)?;
        let known = listing.sessions.into_iter().filter_map(|one| Some((one.parent?, one.id))).collect();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let shelf = Shelf {
            places: places.clone(),
            index,
            sync: SessionSync::Turn,
            face: "import".to_owned(),
            clock,
            outbox: Outbox::new(),
        };
        Ok(Self { order, shelf, known })
    }

    fn file(&mut self, source: &Path, is_of_folder: bool) -> Result<ImportOutcome, ExchangeError> {
        let name = source.display().to_string();
        if let Some(id) = self.known.get(&name).filter(|_| !self.order.again) {
            return Ok(ImportOutcome::Already { id: id.clone() });
        }
        let met = look(source)?;
        let origin = match (self.order.from, met) {
            (Some(origin), _) => origin,
            (None, Some((origin, _))) => origin,
            (None, None) => return Err(ExchangeError::Unknown { path: source.to_owned() }),
        };
        if is_of_folder && matches!(met, Some((_, true))) {
            return Ok(ImportOutcome::Aside);
        }
        let Source { store, loaded, left_out, damaged } = match origin {
            Origin::Pi => {
                let (store, loaded) = SourceFile::open(source)?;
                Source { store: Box::new(store), loaded, left_out: LeftOut::new(), damaged: Vec::new() }
            }
            Origin::Claude | Origin::Codex => read(source, origin)?,
        };
        let made = self.keep(source, &name, origin, store.as_ref(), loaded, left_out, damaged)?;
        if let ImportOutcome::Made { id, .. } = &made {
            self.known.insert(name, id.clone());
        }
        Ok(made)
    }

    fn keep(
        &self,
        source: &Path,
        name: &str,
        origin: Origin,
        store: &dyn Store,
        loaded: LoadedTree,
        left_out: LeftOut,
        damaged: Vec<String>,
    ) -> Result<ImportOutcome, ExchangeError> {
        if loaded.outline().is_empty() {
            return Err(ExchangeError::Empty { path: source.to_owned() });
        }
        let header = loaded.header();
        let cwd = Path::new(&header.cwd);
        let cwd = if cwd.is_absolute() { real(cwd) } else { self.order.workspace.clone() };
        let old_id = header.id.to_string();
        let id = new_session_id();
        let kept = self.shelf.create(&cwd, &id);
        let (target, clock) = (Box::new(kept.clone()), self.shelf.clock.clone());
        let (session, diagnostics) =
            Session::adopt(loaded, store, name.to_owned(), id.clone(), &cwd, target, clock, Trust::Foreign)?;
        let left_out: Vec<(String, u64)> = left_out.into_iter().map(|(what, count)| (what.to_owned(), count)).collect();
        let lost: serde_json::Map<String, Value> =
            left_out.iter().map(|(what, count)| (what.clone(), json!(count))).collect();
        let data = json!({ "from": origin, "file": name, "session": old_id, "leftOut": lost });
        let note = Custom { custom_type: "pith/imported".to_owned(), data, publisher: None };
        session.append(EntryBody::Custom(note))?;
        if session.unsaved().is_some() {
            // The store's own words of why.
            session.save()?;
        }
        session.sync()?;
        kept.keep_totals(session.totals());
        let mut notices = damaged;
        notices.extend(diagnostics.iter().map(ToString::to_string));
        let (entries, file) = (session.totals().entries, kept.path());
        Ok(ImportOutcome::Made { origin, id: id.to_string(), file, cwd, entries, left_out, notices })
    }
}

/// Whose a file is, by its first lines, and whether it is a subagent's.
fn look(source: &Path) -> Result<Option<(Origin, bool)>, ExchangeError> {
    let mut lines = Lines::open(source)?;
    for _ in 0..LINES_LOOKED_AT {
        let Some(line) = lines.next()? else { break };
        let Line::Whole(line) = line else { continue };
        let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
        if line["type"] == "session" && line["id"].is_string() {
            return Ok(Some((Origin::Pi, false)));
        }
        if codex::is_line(&line) {
            return Ok(Some((Origin::Codex, false)));
        }
        if claude::is_line(&line) {
            return Ok(Some((Origin::Claude, claude::is_aside(&line))));
        }
    }
    Ok(None)
}

/// Reads a transcript that is no session file.
fn read(source: &Path, origin: Origin) -> Result<Source, ExchangeError> {
    let mut lines = Lines::open(source)?;
    let mut draft = Draft::default();
    let (mut claude, mut codex) = (Claude::default(), Codex::default());
    let (mut damaged, mut more) = (Vec::new(), 0u64);
    let mut number = 0u64;
    let mut known = 0u64;
    let mut waiting = 0usize;
    // Of a subagent's own transcript all is what the conversation is.
    let is_aside = matches!(look(source)?, Some((_, true)));
    while let Some(line) = lines.next()? {
        number = number.saturating_add(1);
        if let Line::Whole(line) = &line {
            waiting = waiting.saturating_add(line.len());
        }
        let mut value = match line {
            Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
            Line::Whole(line) => serde_json::from_slice::<Value>(line).ok(),
            Line::TooLong => None,
        };
        let Some(line) = value.as_mut().filter(|line| line.is_object()) else {
            if damaged.len() < DAMAGED_SHOWN {
                damaged.push(format!("line {number} cannot be read and is left out"));
            } else {
                more = more.saturating_add(1);
            }
            continue;
        };
        if is_aside && let Some(members) = line.as_object_mut() {
            members.insert("isSidechain".to_owned(), Value::Bool(false));
        }
        match origin {
            Origin::Codex => {
                known = known.saturating_add(u64::from(codex::is_line(line)));
                codex.line(line, &mut draft);
            }
            _ => {
                known = known.saturating_add(u64::from(claude::is_line(line)));
                claude.line(line, &mut draft);
            }
        }
        if waiting > WAITING_LIMIT_BYTES {
            claude.finish(&mut draft);
            codex.finish(&mut draft);
            waiting = 0;
        }
        if draft.is_full {
            return Err(ExchangeError::TooLarge { path: source.to_owned(), limit: FOREIGN_FILE_LIMIT_BYTES });
        }
    }
    claude.finish(&mut draft);
    codex.finish(&mut draft);
    if known == 0 {
        return Err(ExchangeError::Unknown { path: source.to_owned() });
    }
    if draft.is_empty() {
        return Err(ExchangeError::Empty { path: source.to_owned() });
    }
    if more > 0 {
        damaged.push(format!("and {more} more of its lines cannot be read"));
    }
    let failed = |error: super::draft::DraftError| ExchangeError::Source {
        path: source.to_owned(),
        source: io::Error::other(error),
    };
    let (store, loaded, left_out) = draft.finish().map_err(failed)?;
    Ok(Source { store: Box::new(store), loaded, left_out, damaged })
}

/// A file's lines, one at a time.
struct Lines {
    path: PathBuf,
    input: BufReader<io::Take<File>>,
    line: Vec<u8>,
}

enum Line<'l> {
    Whole(&'l [u8]),
    TooLong,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, ExchangeError> {
        let opened = pith_os::open_regular(path).map_err(crate::store::LoadError::from)?;
        let met = opened.metadata().map_err(|source| ExchangeError::Source { path: path.to_owned(), source })?;
        if met.len() > TRANSCRIPT_LIMIT_BYTES {
            return Err(ExchangeError::TooLarge { path: path.to_owned(), limit: TRANSCRIPT_LIMIT_BYTES });
        }
        // It may grow while it is read.
        let input = BufReader::new(opened.take(TRANSCRIPT_LIMIT_BYTES));
        Ok(Self { path: path.to_owned(), input, line: Vec::new() })
    }

    fn next(&mut self) -> Result<Option<Line<'_>>, ExchangeError> {
        let path = &self.path;
        let failed = |source| ExchangeError::Source { path: path.clone(), source };
        self.line.clear();
        let limit = (LINE_LIMIT_BYTES as u64).saturating_add(1);
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut self.line).map_err(failed)?;
        if read == 0 {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') || self.line.len() <= LINE_LIMIT_BYTES {
            return Ok(Some(Line::Whole(&self.line)));
        }
        self.input.skip_until(b'\n').map_err(failed)?;
        Ok(Some(Line::TooLong))
    }
}
