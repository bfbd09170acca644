//! The command line: flags as data, what they mean as a plan.

use crate::session::args::SessionCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pith demo                                     see it work, offline, in a second
  pith                                          converse, on a terminal; /help says how
  pith -p \"what does this project do?\"          ask, print the answer
  pith -p @notes.md \"summarise this\"            attach a file
  git diff | pith -p \"review this\"              piped text goes before the message
  pith -c -p \"and the tests?\"                   continue the folder's latest session
  pith --fork - --name attempt                  go on with a copy of it
  pith session list                             the folder's sessions; search, export, stats ...
  pith --mode json -p \"list files\"              events, a JSON line each
  pith --plugin my.wasm --grant my:files=workspace:r -p \"count words in README.md\"

A model:
  export ANTHROPIC_API_KEY=...                  or OPENAI_API_KEY
  export OPENAI_BASE_URL=http://127.0.0.1:8080/v1    a local server: llama.cpp, Ollama, LM Studio, vLLM; no key needed
  pith --model openai/NAME -p \"hi\"

Exit codes:
  0    done
  1    failed: the model's last message is an error or was cut, or the run was aborted by a plugin
  2    usage, or a start that was refused
  129  the terminal is gone (SIGHUP)
  130  Ctrl-C
  143  SIGTERM";

/// An agent that people can extend without trusting the extension.
#[derive(Debug, Parser)]
#[command(name = "pith", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Show an agent at work in a sample project: real loop, store and plugins; the model is scripted
    Demo,
    /// What plugins did
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Sessions: list, show, search, fork, export, import ...
    #[command(subcommand)]
    Session(SessionCommand),
    /// Print a completion script for a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// What plugins used: calls, faults, processor time, bytes, memory
    #[command(after_help = STATS_HELP)]
    Stats {
        /// One JSON object instead of a table
        #[arg(long)]
        json: bool,
    },
}

const STATS_HELP: &str = "\
Counted in runs that are over, of sessions that are kept; per version of a plugin and per function that Pith calls.
  cpu      processor time within calls; programs that a plugin runs are not in it
  p50 p99  how long calls took, within 13 %
  in/out   bytes of calls' inputs / of their results and of what was given to Pith; files are not in it
  memory   the most that one call had

Examples:
  pith plugin stats
  pith plugin stats --json | jq '.plugins[] | {name, faults: ([.functions[].faults] | add)}'";

#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// The message, and @FILE for each text file or picture to attach
    #[arg(value_name = "MESSAGE")]
    pub messages: Vec<String>,
    /// Print the answer and leave; without it there is a conversation, where input and output are a terminal
    #[arg(short, long)]
    pub print: bool,
    /// Converse line by line: the face for screen readers and simple terminals, and the only one that this version has
    #[arg(long, conflicts_with = "print")]
    pub plain: bool,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Mode::Text)]
    pub mode: Mode,
    /// The model, such as anthropic/claude-sonnet-5-5, openai/NAME or scripted/FILE
    #[arg(long, value_name = "PROVIDER/ID")]
    pub model: Option<String>,
    /// How hard the model thinks: off, minimal, low, medium, high, xhigh or max
    #[arg(long, value_name = "LEVEL")]
    pub thinking: Option<String>,
    /// Continue the folder's latest session
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["session", "no_session"])]
    pub continue_latest: bool,
    /// Continue this session: the beginning of its id, its name, or a file; one that Pith did not write is continued in a copy
    #[arg(long, value_name = "ID|NAME|FILE", conflicts_with = "no_session")]
    pub session: Option<String>,
    /// Begin a new session with a copy of this one, which stays as it is
    #[arg(long, value_name = "ID|NAME|FILE", conflicts_with_all = ["continue_latest", "session", "no_session"])]
    pub fork: Option<String>,
    /// Name the session
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Take what the session file says of prompt, tools and plugins' entries as your own, though Pith did not write it
    #[arg(long, conflicts_with = "no_session")]
    pub trust_session: bool,
    /// Keep nothing on disk
    #[arg(long)]
    pub no_session: bool,
    /// The folder to work in, instead of the present one
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Load one more plugin (repeatable); naming it grants its tools and gates, nothing else
    #[arg(long = "plugin", value_name = "FILE.wasm")]
    pub plugins: Vec<PathBuf>,
    /// Grant a capability to a plugin (repeatable), such as mine:files=workspace:rw, mine:process=git, mine:tool-filter
    #[arg(long = "grant", value_name = "NAME:CAPABILITY[=BOUND]")]
    pub grants: Vec<String>,
    /// How far programs are held that tools run: guard, or off, which lets them do whatever you may
    #[arg(long, value_name = "LEVEL", value_parser = ["guard", "off"])]
    pub sandbox: Option<String>,
    /// For tests: `no-bubblewrap`, `landlock=ABI`: what this machine has and shall not be used
    #[arg(long, value_name = "WHAT", hide = true, value_parser = mask)]
    pub sandbox_mask: Vec<SandboxMask>,
    /// Load no plugins at all: prompt, model, text
    #[arg(long, conflicts_with_all = ["plugins", "grants"])]
    pub no_plugins: bool,
}

/// Something of the machine that the sandbox is made without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxMask {
    NoBubblewrap,
    Landlock(u32),
}

fn mask(text: &str) -> Result<SandboxMask, String> {
    match text.split_once('=') {
        None if text == "no-bubblewrap" => Ok(SandboxMask::NoBubblewrap),
        Some(("landlock", abi)) => abi.parse().map(SandboxMask::Landlock).map_err(|error| error.to_string()),
        _ => Err("no-bubblewrap or landlock=ABI".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The answer
    #[default]
    Text,
    /// Every event, a JSON line each, the session's header first
    Json,
}
