//! `pith session ...` on the command line.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What a session is called in arguments.
const WHICH: &str = "The beginning of its id, its name, a file, or - for the folder's latest";

#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// The folder's sessions, the newest first
    #[command(after_help = LIST_HELP)]
    List(ListArgs),
    /// What was said in a session
    #[command(after_help = SHOW_HELP)]
    Show(ShowArgs),
    /// A session's branches
    Tree(TreeArgs),
    /// Begin a new session with a copy of one, or of its beginning
    #[command(after_help = FORK_HELP)]
    Fork(ForkArgs),
    /// Name a session; an empty name takes its name away
    Name(NameArgs),
    /// Label an entry of a session; without a label its own is taken away
    Label(LabelArgs),
    /// Say that a session from elsewhere is yours: its plugins' state counts from now on
    Trust(WhichArgs),
    /// Move sessions into the trash beside them
    #[command(after_help = DELETE_HELP)]
    Delete(DeleteArgs),
    /// Find words in what was said
    #[command(after_help = SEARCH_HELP)]
    Search(SearchArgs),
    /// Tokens and their cost, of one session or of all
    Stats(StatsArgs),
    /// A session as one HTML page, as Markdown or as JSON lines
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArgs),
    /// Take in sessions of pi, Claude Code or Codex
    #[command(after_help = IMPORT_HELP)]
    Import(ImportArgs),
}

const LIST_HELP: &str = "\
A session from elsewhere, or changed by another program, is marked `foreign`; one that is being written, `in use`.

Examples:
  pith session list
  pith session list --all --limit 20
  pith session list --json | jq -r '.[].id'";
const SHOW_HELP: &str = "\
Examples:
  pith session show -                 the folder's latest
  pith session show 019a --full | less";
const FORK_HELP: &str = "\
Examples:
  pith session fork -                 a copy of the folder's latest
  pith session fork 019a --at 1b2c3d4e    up to that entry; `pith session tree` shows their ids";
const DELETE_HELP: &str = "\
Examples:
  pith session delete 019a
  pith session delete 019a 019b --yes";
const SEARCH_HELP: &str = "\
All of the words have to stand in one message; case does not matter.

Examples:
  pith session search parse error
  pith session search --all --tools ENOENT --json";
const EXPORT_HELP: &str = "\
A page has no scripts and loads nothing from elsewhere.

Examples:
  pith session export - -o talk.html
  pith session export 019a -o - --format markdown | less";
const IMPORT_HELP: &str = "\
Examples:
  pith session import ~/.claude/projects
  pith session import ~/.codex/sessions/2026
  pith session import ~/.pi/agent/sessions/--work--/2026-11-30T10-00-00-000Z_0199.jsonl";

#[derive(Debug, Args)]
pub struct WhichArgs {
    #[arg(value_name = "SESSION", help = WHICH)]
    pub session: String,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Those of all folders
    #[arg(long)]
    pub all: bool,
    /// At most so many, 0 for all; without it 50 in a table and all in JSON
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// A JSON array
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub which: WhichArgs,
    /// Calls, results and thoughts whole
    #[arg(long)]
    pub full: bool,
    /// The entries of the path, a JSON line each
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TreeArgs {
    #[command(flatten)]
    pub which: WhichArgs,
    /// Every entry, not only messages
    #[arg(long)]
    pub all: bool,
    /// All entries, a JSON array
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ForkArgs {
    #[command(flatten)]
    pub which: WhichArgs,
    /// Up to this entry
    #[arg(long, value_name = "ENTRY", conflicts_with = "whole")]
    pub at: Option<String>,
    /// All branches
    #[arg(long)]
    pub whole: bool,
    /// The new session's name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct NameArgs {
    #[command(flatten)]
    pub which: WhichArgs,
    /// One line
    pub name: String,
}

#[derive(Debug, Args)]
pub struct LabelArgs {
    #[command(flatten)]
    pub which: WhichArgs,
    /// The entry's id
    pub entry: String,
    /// One line
    pub label: Option<String>,
}

#[derive(Debug, Args)]
pub struct DeleteArgs {
    #[arg(value_name = "SESSION", required = true, help = WHICH)]
    pub sessions: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// For good, not into the trash
    #[arg(long)]
    pub forever: bool,
}

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Words, or parts of them; several in one argument have to follow each other
    #[arg(required = true)]
    pub words: Vec<String>,
    /// They are regular expressions, where case matters
    #[arg(long)]
    pub regex: bool,
    /// In the sessions of all folders
    #[arg(long)]
    pub all: bool,
    /// In what tools gave, too
    #[arg(long)]
    pub tools: bool,
    /// At most so many messages; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// A JSON line for each
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// A row for each model
    Model,
    /// A row for each session
    Session,
    /// A row for each day
    Day,
}

#[derive(Debug, Args)]
pub struct StatsArgs {
    #[arg(value_name = "SESSION", help = WHICH)]
    pub session: Option<String>,
    /// What a row is
    #[arg(long, value_enum, default_value_t = By::Model)]
    pub by: By,
    /// A JSON array
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One page
    Html,
    /// Markdown
    Markdown,
    /// The session's own lines
    Jsonl,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub which: WhichArgs,
    /// Without it the target's extension says it, else html
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Where to; - for standard output. Without it a file in the present folder
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Of JSON lines only the path to where the session goes on
    #[arg(long)]
    pub path: bool,
    /// Over a file that is there
    #[arg(long)]
    pub force: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// pi, or Pith itself
    Pi,
    /// Claude Code
    Claude,
    /// Codex
    Codex,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files, and folders of them
    #[arg(value_name = "FILE|FOLDER", required = true)]
    pub paths: Vec<PathBuf>,
    /// Whose they are; without it their content says so
    #[arg(long, value_enum)]
    pub from: Option<From>,
    /// Those that were imported already, once more
    #[arg(long)]
    pub again: bool,
    /// A JSON line for each
    #[arg(long)]
    pub json: bool,
}
