//! The line editor at the prompt, and the history that it goes through.

use super::keyboard::Typed;
use crate::harmless::is_invisible;
use rustyline::{
    ColorMode, Config, Context, Editor, ExternalPrinter, Helper,
    completion::Completer,
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::FileHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};
use std::{
    borrow::Cow,
    cell::Cell,
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Lines that are kept.
const HISTORY_LINES: usize = 1000;
/// The longest line that is kept, in bytes: what is pasted whole is seldom wanted again.
const HISTORY_LINE_BYTES: usize = 1000;
/// A file longer than all lines that could be kept, with their escapes, is none of ours and is not read.
const HISTORY_FILE_BYTES: u64 = 2 << 20;

/// What stands before a line of the user's.
pub const PROMPT: &str = "> ";

/// Lets text be shown above the line that is edited.
pub type Above = Box<dyn ExternalPrinter + Send>;

/// The editor.
pub struct LineEditor {
    editor: Editor<Manners, FileHistory>,
    /// None where there is nowhere to keep it.
    history: Option<PathBuf>,
}

impl LineEditor {
    /// With the lines that are kept in this file, which need not be there.
    pub fn new(history: PathBuf) -> rustyline::Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY_LINES)?
            .history_ignore_dups(true)?
            .history_ignore_space(true)
            .auto_add_history(false)
            // Not for colours: what is drawn goes through `Manners::highlight`.
            .color_mode(ColorMode::Forced)
            .build();
        let kept = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, kept)?;
        editor.set_helper(Some(Manners::default()));
        Ok(Self { history: usable(&history).then_some(history), editor }.loaded())
    }

    fn loaded(mut self) -> Self {
        if let Some(file) = self.history.as_deref().filter(|file| file.exists())
            && self.editor.load_history(file).is_err()
        {
            // Read as far as it goes; nothing is written into what cannot be read.
            self.history = None;
        }
        self
    }

    /// For text that comes while a line is edited; none where the terminal cannot do it.
    pub fn above(&mut self) -> Option<Above> {
        self.editor.create_external_printer().ok().map(|printer| Box::new(printer) as Above)
    }

    /// One message, of one or more lines, beginning with what is given.
    pub fn edit(&mut self, initial: &str) -> Typed {
        if let Some(manners) = self.editor.helper() {
            manners.has_words.set(!initial.is_empty());
        }
        match self.editor.readline_with_initial(PROMPT, (initial, "")) {
            Ok(line) => {
                self.remember(&line);
                Typed::Line(line.replace("\\\n", "\n"))
            }
            Err(ReadlineError::Interrupted) => {
                let had_words = self.editor.helper().is_some_and(|manners| manners.has_words.get());
                if had_words { Typed::GivenUp } else { Typed::Interrupt }
            }
            Err(ReadlineError::Eof) => Typed::End,
            Err(_) => Typed::Gone,
        }
    }

    /// Keeps a line, on disk at once: other sessions and a crash do not cost it. One that begins with a blank is not kept.
    fn remember(&mut self, line: &str) {
        if line.trim().is_empty() || line.len() > HISTORY_LINE_BYTES {
            return;
        }
        if let (Ok(true), Some(file)) = (self.editor.add_history_entry(line), &self.history) {
            // A history that cannot be written is missed at the next start, not now.
            let _ = self.editor.append_history(file);
        }
    }
}

/// Whether the file is a regular one of a sane size, or could be made.
fn usable(file: &Path) -> bool {
    match std::fs::symlink_metadata(file) {
        Ok(meta) => meta.is_file() && meta.len() <= HISTORY_FILE_BYTES,
        Err(_) => {
            file.parent().is_some_and(|folder| DirBuilder::new().recursive(true).mode(0o700).create(folder).is_ok())
        }
    }
}

/// How lines end and how they are drawn.
#[derive(Default)]
struct Manners {
    /// The line is not empty.
    has_words: Cell<bool>,
}

impl Helper for Manners {}

impl Completer for Manners {
    type Candidate = String;
}

impl Hinter for Manners {
    type Hint = String;

    /// None, ever; but it is asked after each key, also where nothing is drawn anew.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.has_words.set(!line.is_empty());
        None
    }
}

impl Validator for Manners {
    /// A backslash at the end continues the line.
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if typed.input().ends_with('\\') { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Highlighter for Manners {
    /// What was pasted, or stands in the history, is foreign: characters of no width, such as escapes, are not drawn.
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        let undrawn = |c: char| (c.is_control() && c != '\n') || is_invisible(c);
        if line.contains(undrawn) { line.chars().filter(|c| !undrawn(*c)).collect() } else { Cow::Borrowed(line) }
    }
}
