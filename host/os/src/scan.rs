//! Search over the files of granted folders, on all cores: the mechanism of `grep` and `find`.
//!
//! The walk is our own, over descriptors, instead of `ignore::WalkBuilder`: that one opens ignore files by path, so that a FIFO or a link to
//! a device named `.gitignore` in a hostile repository would stop it for ever. Ignore rules, globs and line search are `ignore`'s,
//! `globset`'s and `grep`'s.

mod agenda;
mod globs;
mod lines;
mod rules;
mod search;
mod walk;
mod work;

use std::borrow::Borrow;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use crate::open::{Kind, Links, OpenError, Root};
use globs::Globs;
use walk::Start;
use work::Shared;

/// Roots of one query.
pub const ROOTS_MAX: usize = 64;
/// A pattern's length in bytes.
pub const PATTERN_BYTES_MAX: usize = 16 * 1024;
/// Memory of a compiled pattern, and of each thread's automaton, in bytes.
pub const PATTERN_COMPILED_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Globs of one query.
pub const GLOBS_MAX: usize = 64;
/// A glob's length in bytes.
pub const GLOB_BYTES_MAX: usize = 1024;
/// Matches that are given, whatever was asked for.
pub const RESULTS_MAX: u32 = 10_000;
/// Lines around a match, on each side, whatever was asked for.
pub const CONTEXT_LINES_MAX: u32 = 100;
/// A hit's text in bytes, whatever was asked for.
pub const LINE_BYTES_MAX: u32 = 64 * 1024;
/// All hits' paths and texts together, in bytes; there are no more after that.
pub const OUTCOME_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Files longer than this, in bytes, are skipped.
pub const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Files with a line longer than this, in bytes, are skipped.
pub const LINE_BUFFER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Files and folders that one query looks at; a larger tree is `truncated`.
pub const ENTRIES_MAX: usize = 1_000_000;
/// An ignore file's length in bytes; a longer one has no effect.
pub const IGNORE_BYTES_MAX: u64 = 256 * 1024;
/// Rules taken from one ignore file; the rest has no effect.
pub const IGNORE_RULES_MAX: usize = 4096;
/// Threads of one query.
pub const THREADS_MAX: usize = 16;

/// What a hit costs beside its path and text, in bytes.
const HIT_BYTES: usize = 64;

/// What to look for.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Absolute; files or folders within granted ones.
    pub roots: Vec<PathBuf>,
    /// A regular expression over one line; none lists files only, and links by their names.
    pub pattern: Option<String>,
    /// The pattern is the very text.
    pub literal: bool,
    /// For the pattern; where there is none, for the globs.
    pub ignore_case: bool,
    /// Where files are listed: folders too, their paths ending with `/`.
    pub folders: bool,
    /// Which files: those that match one without `!`, if there are any, and none with `!`. Without `/` a glob is for the name at any depth,
    /// with `/` for the path relative to the root. An excluded folder is not entered. Ignore files count whatever globs say. A root that is
    /// a file is looked at whatever globs and ignore files say.
    pub globs: Vec<String>,
    /// Also files and folders whose name begins with a dot; never what is in `.git`.
    pub hidden: bool,
    /// On each side of a match.
    pub context_lines: u32,
    /// At most [`RESULTS_MAX`].
    pub max_results: u32,
    /// At most [`LINE_BYTES_MAX`].
    pub max_line_bytes: u32,
}

/// A line, or a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hit {
    /// The query's root joined with the file's place in it.
    pub path: PathBuf,
    /// From 1; 0 where only the path is meant.
    pub line: u32,
    /// Without its end; invalid UTF-8 is replaced. A line longer than the query's limit is cut at characters so that its match is seen.
    pub text: String,
    /// It stands near a match.
    pub is_context: bool,
    /// Where the first match begins in `text`, in bytes.
    pub match_start: u32,
    /// Where it ends; where the text does, if it is longer. 0 of what has no match.
    pub match_end: u32,
    /// Bytes of the line before `text`.
    pub cut_before: u32,
    /// Bytes of the line after `text`.
    pub cut_after: u32,
}

impl Hit {
    /// What it holds in memory, in bytes, about.
    fn cost(&self) -> usize {
        self.path.as_os_str().len().saturating_add(self.text.len()).saturating_add(HIT_BYTES)
    }
}

/// What was found: the first matches, root by root in the order of the query, in each by paths (part by part, as bytes), then lines. The same
/// for the same files. What lies in two roots is found once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Matches and the lines near them.
    pub hits: Vec<Hit>,
    /// There was at least one more, or the tree is larger than a query looks at.
    pub truncated: bool,
    /// Files that were read, or listed; after an early stop not those that come later.
    pub files_searched: u32,
    /// Files that hold NUL bytes, and of which nothing is given therefore: those in which the pattern stands, and roots.
    pub binary: u32,
    /// Files and folders that were passed over: unreadable, too long, too deep.
    pub skipped: u32,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A root lies in no granted folder, by its name or by a link.
    #[error("{path}: not in a granted folder")]
    Outside {
        /// The root.
        path: PathBuf,
    },
    /// A root cannot be read.
    #[error(transparent)]
    Open(OpenError),
    /// Not a regular expression, or one that grows too large.
    #[error("bad pattern: {message}")]
    Pattern {
        /// For a person, or the model.
        message: String,
    },
    /// Not a glob.
    #[error("bad glob {glob:?}: {message}")]
    Glob {
        /// As given.
        glob: String,
        /// For a person, or the model.
        message: String,
    },
    /// The query itself is too large.
    #[error("too large: {what} (at most {limit})")]
    Limit {
        /// Which part.
        what: &'static str,
        /// Its limit.
        limit: usize,
    },
    /// The caller's `cancelled` said so.
    #[error("cancelled")]
    Cancelled,
}

/// Searches. Blocks its thread and uses all cores; `cancelled` is asked often, from all of them.
///
/// Every file is opened beneath the descriptor of its `granted` folder, links are not followed (but a root may be one that stays beneath),
/// nothing but regular files is opened.
pub fn scan(
    query: &Query,
    granted: &[impl Borrow<Root>],
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, ScanError> {
    let granted: Vec<&Root> = granted.iter().map(Borrow::borrow).collect();
    scan_on(threads(), query, &granted, cancelled)
}

fn scan_on(
    threads: usize,
    query: &Query,
    granted: &[&Root],
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, ScanError> {
    limit("roots", query.roots.len(), ROOTS_MAX)?;
    limit("pattern bytes", query.pattern.as_ref().map_or(0, String::len), PATTERN_BYTES_MAX)?;
    let globs = Globs::new(&query.globs, query.ignore_case && query.pattern.is_none())?;
    let matcher = query.pattern.as_ref().map(|pattern| search::matcher(pattern, query)).transpose()?;
    let mut starts: Vec<Start> = Vec::new();
    for root in &query.roots {
        let start = start(root, granted)?;
        if starts.iter().all(|other| other.named != start.named) {
            starts.push(start);
        }
    }
    Shared::new(query, &starts, &globs, matcher.as_ref(), cancelled).run(threads)
}

/// Threads of a query, the caller's own among them. Asked of the system once: it reads files to tell.
fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX))
}

fn max_results(query: &Query) -> usize {
    query.max_results.min(RESULTS_MAX) as usize
}

fn limit(what: &'static str, size: usize, limit: usize) -> Result<(), ScanError> {
    if size > limit { Err(ScanError::Limit { what, limit }) } else { Ok(()) }
}

/// Finds the granted folder of a root, the narrowest where several hold it, and holds the root itself by descriptor.
fn start(path: &Path, granted: &[&Root]) -> Result<Start, ScanError> {
    let outside = || ScanError::Outside { path: path.to_path_buf() };
    let named = lexical(path).ok_or_else(outside)?;
    let within = |root: &Root| root.relative(&named).map(Path::to_path_buf);
    let found = granted.iter().filter_map(|&root| Some((root, within(root)?)));
    let (root, place) = found.min_by_key(|(_, place)| place.components().count()).ok_or_else(outside)?;
    let refused = |error| match error {
        OpenError::Escapes { .. } => outside(),
        other => ScanError::Open(other),
    };
    let is_folder = match root.kind(&place).map_err(refused)? {
        Kind::Folder => true,
        Kind::File => false,
        Kind::Other => return Err(ScanError::Open(OpenError::NotRegular { path: path.to_path_buf() })),
    };
    let (folder, file) = if is_folder { (place.as_path(), None) } else { (Path::new(""), Some(place.clone())) };
    let above = rules::above(root, &place);
    let root = root.within(folder, Links::Beneath).map_err(refused)?;
    Ok(Start { root, named, place, file, above })
}

/// An absolute path without `.` and `..`; None where it is relative or climbs above `/`.
fn lexical(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => plain.pop().then_some(())?,
            other => plain.push(other),
        }
    }
    plain.is_absolute().then_some(plain)
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
