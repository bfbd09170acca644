//! Writing a session out: to a writer, or to a new file at once whole.

use super::{ExchangeError, html, markdown, reading::Reading};
use crate::clock::SystemClock;
use pith_core::{ForkOrder, ForkPoint, Store, StoreError, StoreFault};
use std::{
    fs::File,
    io::{self, BufWriter, Seek, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// The most of one text that a page or a Markdown file has, in bytes: of what a tool printed, of a summary, of a message. The session has the
/// rest, and the place where it is cut says so.
pub const EXPORTED_TEXT_LIMIT_BYTES: usize = 1 << 20;
/// How much of a file is copied at a time, in bytes.
const COPY_BYTES: usize = 256 << 10;

/// As what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One page that needs and loads nothing else, without scripts.
    Html,
    /// For a forge or a note.
    Markdown,
    /// The session itself, for Pith and pi.
    Jsonl,
}

impl ExportFormat {
    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "html" | "htm" => Some(Self::Html),
            "markdown" | "md" => Some(Self::Markdown),
            "jsonl" => Some(Self::Jsonl),
            _ => None,
        }
    }

    /// By a file's extension.
    pub fn of_file(path: &Path) -> Option<Self> {
        Self::named(&path.extension()?.to_str()?.to_ascii_lowercase())
    }

    /// The extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Markdown => "md",
            Self::Jsonl => "jsonl",
        }
    }
}

/// An export that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct ExportOrder {
    /// As what.
    pub format: ExportFormat,
    /// Of JSON lines only the path to the leaf, without other branches. Pages and Markdown are of the path always.
    pub is_path_only: bool,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// What the session is called; foreign text.
    pub title: String,
    /// Its id.
    pub id: String,
    /// What was wrong with the session's file, a sentence each; foreign text.
    pub notices: Vec<String>,
}

/// Writes a session, whoever writes it now.
///
/// # Errors
/// The session cannot be read, or `out` cannot be written.
pub fn export_session(file: &Path, order: ExportOrder, out: &mut dyn Write) -> Result<Exported, ExchangeError> {
    let reading = Reading::open(file)?;
    match order.format {
        ExportFormat::Html => html::write(&reading, out)?,
        ExportFormat::Markdown => markdown::write(&reading, out)?,
        ExportFormat::Jsonl => lines(&reading, file, order.is_path_only, out)?,
    }
    out.flush().map_err(ExchangeError::Output)?;
    let notices = reading.tree.diagnostics.iter().map(|diagnostic| format!("{}: {diagnostic}", file.display()));
    Ok(Exported { title: reading.title(), id: reading.tree.header().id.to_string(), notices: notices.collect() })
}

/// The same into a file that only its owner reads: whole or not at all. One that is there is replaced only where `replaces` says so.
///
/// # Errors
/// As `export_session`; there is a file already.
pub fn export_to_file(
    file: &Path,
    order: ExportOrder,
    target: &Path,
    replaces: bool,
) -> Result<Exported, ExchangeError> {
    let failed = |source| ExchangeError::Unwritable { path: target.to_owned(), source };
    if !replaces && target.symlink_metadata().is_ok() {
        return Err(ExchangeError::Exists { path: target.to_owned() });
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let draft = tempfile::Builder::new().prefix(".pith-export-").tempfile_in(folder).map_err(failed)?;
    let mut out = BufWriter::with_capacity(COPY_BYTES, draft);
    let exported = export_session(file, order, &mut out).map_err(|error| match error {
        ExchangeError::Output(source) => failed(source),
        other => other,
    })?;
    let draft = out.into_inner().map_err(|error| failed(error.into_error()))?;
    let kept = if replaces { draft.persist(target) } else { draft.persist_noclobber(target) };
    kept.map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => ExchangeError::Exists { path: target.to_owned() },
        _ => failed(error.error),
    })?;
    Ok(exported)
}

/// The file's own bytes; lines of an older version, or of the path alone, as a fork has them.
fn lines(reading: &Reading, file: &Path, is_path_only: bool, out: &mut dyn Write) -> Result<(), ExchangeError> {
    let Reading { source, tree, .. } = reading;
    if tree.is_current() && !is_path_only {
        return copy(source, tree.outline().last().map(|last| last.offset + u64::from(last.length)), file, out);
    }
    let header = tree.header().clone();
    let order = ForkOrder {
        at: if is_path_only { ForkPoint::Leaf } else { ForkPoint::Whole },
        id: if header.id.as_str().is_empty() { crate::clock::new_session_id() } else { header.id },
        cwd: header.cwd,
        parent_session: header.parent_session,
    };
    let kept = tempfile::tempfile().map_err(ExchangeError::Output)?;
    let target = Lines { path: file.to_owned(), kept: Mutex::new(kept) };
    tree.fork(source, &order, &SystemClock, &target)?;
    let mut kept = target.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    kept.rewind().and_then(|()| io::copy(&mut kept, out)).map(drop).map_err(ExchangeError::Output)
}

/// The bytes up to the end of the last entry that was read: what another process appends meanwhile is not in it, half a line least of all.
fn copy(source: &dyn Store, end: Option<u64>, file: &Path, out: &mut dyn Write) -> Result<(), ExchangeError> {
    let header_end = || {
        let met = std::fs::metadata(file).map(|met| met.len()).unwrap_or_default();
        met.min(COPY_BYTES as u64)
    };
    let end = end.unwrap_or_else(header_end);
    let mut at = 0;
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(COPY_BYTES).min(COPY_BYTES);
        let bytes = source.read(at, length).map_err(|error| ExchangeError::Session(error.into()))?;
        out.write_all(&bytes).map_err(ExchangeError::Output)?;
        at += length as u64;
    }
    out.write_all(b"\n").map_err(ExchangeError::Output)
}

/// A store that keeps what a fork writes, in a file without a name.
struct Lines {
    path: PathBuf,
    kept: Mutex<File>,
}

impl Store for Lines {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        let written = self.kept.lock().unwrap_or_else(PoisonError::into_inner).write_all(lines);
        let file = || self.path.display().to_string();
        written.map_err(|source| StoreError { kind: StoreFault::Unwritable, file: file(), action: "exported", source })
    }

    fn read(&self, _: u64, _: usize) -> Result<Vec<u8>, StoreError> {
        let source = io::ErrorKind::Unsupported.into();
        Err(StoreError { kind: StoreFault::Unreadable, file: self.path.display().to_string(), action: "read", source })
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A text up to the limit, and how many bytes of it are missing.
pub(super) fn bounded(text: &str) -> (&str, usize) {
    if text.len() <= EXPORTED_TEXT_LIMIT_BYTES {
        return (text, 0);
    }
    let mut end = EXPORTED_TEXT_LIMIT_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (&text[..end], text.len() - end)
}

/// What a call is about, in a few words: the first texts among its arguments.
pub(super) fn about(arguments: &serde_json::Map<String, serde_json::Value>) -> String {
    let texts = arguments.values().filter_map(serde_json::Value::as_str).filter(|text| !text.trim().is_empty());
    let words = texts.take(2).map(|text| text.chars().take(200).collect::<String>()).collect::<Vec<_>>().join(" ");
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(100).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}

/// Dollars, as people read them.
pub fn dollars(amount: f64) -> String {
    if amount > 0.0 && amount < 0.01 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// What one model cost. What has no known price, and what nobody counted, is said.
pub(super) fn cost(usage: &pith_core::ModelUsage) -> String {
    match (usage.is_partly_unknown(), usage.usage.cost.total) {
        (false, total) => dollars(total),
        (true, total) if total > 0.0 => format!("{} and what is unknown", dollars(total)),
        (true, _) => "unknown".to_owned(),
    }
}
