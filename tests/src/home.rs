//! A fresh home for each test: folders of its own, an environment with nothing of the outside, a workspace.

use crate::{
    place::{pith_binary, target_folder},
    run::{Run, Running},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

/// What one call of `pith` may take, unless a test says otherwise.
const LIMIT: Duration = Duration::from_secs(60);

/// A home. Everything in it is gone when it is dropped.
pub struct Home {
    folder: TempDir,
    environment: BTreeMap<String, String>,
    scenarios: std::cell::Cell<u32>,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// An empty one. The compiled code of plugins is shared by all homes of a target folder, as it is by all sessions of a user.
    ///
    /// # Panics
    /// Where the temporary folder cannot be made.
    pub fn new() -> Self {
        let home = Self::with_cold_cache();
        home.with("XDG_CACHE_HOME", &target_folder().join("tmp/pith-cache").to_string_lossy())
    }

    /// One whose cache is its own, and empty.
    ///
    /// # Panics
    /// Where the temporary folder cannot be made.
    pub fn with_cold_cache() -> Self {
        let folder = tempfile::Builder::new().prefix("pith-test-").tempdir().expect("a temporary folder");
        for name in ["home", "config", "data", "state", "tmp", "work"] {
            fs::create_dir(folder.path().join(name)).expect("a folder in it");
        }
        let mut environment = BTreeMap::new();
        environment.insert("PATH".to_owned(), std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned()));
        let mut home = Self { folder, environment, scenarios: std::cell::Cell::new(0) };
        for (name, place) in [
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_STATE_HOME", "state"),
            ("TMPDIR", "tmp"),
        ] {
            let folder = home.folder.path().join(place);
            home.environment.insert(name.to_owned(), folder.to_string_lossy().into_owned());
        }
        home
    }

    /// With a variable of the environment.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The environment.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// The folder that everything else lies in.
    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there")
    }

    /// The workspace.
    pub fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// Writes a file of the workspace, folders on the way included; gives its path.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn write(&self, place: &str, text: impl AsRef<[u8]>) -> PathBuf {
        write(&self.work().join(place), text.as_ref())
    }

    /// Writes a file beside the workspace; gives its path.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn beside(&self, place: &str, text: impl AsRef<[u8]>) -> PathBuf {
        write(&self.root().join(place), text.as_ref())
    }

    /// Reads a file of the workspace.
    ///
    /// # Panics
    /// Where it cannot be read.
    #[track_caller]
    pub fn read(&self, place: &str) -> String {
        let path = self.work().join(place);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A scenario for the scripted model, as `--model` wants it. `replies` is the list of its replies.
    pub fn scripted(&self, replies: Value) -> String {
        let number = self.scenarios.get();
        self.scenarios.set(number + 1);
        let path = self.beside(&format!("scenario-{number}.json"), json!({ "replies": replies }).to_string());
        format!("scripted/{}", path.display())
    }

    /// Calls `pith` in the workspace and waits for its end.
    #[track_caller]
    pub fn pith(&self, args: &[&str]) -> Run {
        self.start(args).finish()
    }

    /// One prompt to a scripted model, in `--mode json`.
    #[track_caller]
    pub fn play(&self, replies: Value, more: &[&str]) -> Run {
        let model = self.scripted(replies);
        let mut args = vec!["--mode", "json", "--model", &model];
        args.extend(more);
        args.push("go");
        self.pith(&args)
    }

    /// Calls `pith` with bytes on its standard input.
    ///
    /// # Panics
    /// Where they cannot be given.
    #[track_caller]
    pub fn pith_reading(&self, args: &[&str], input: &str) -> Run {
        let file = self.beside("stdin.txt", input);
        let mut command = self.command(args);
        command.stdin(fs::File::open(file).expect("just written"));
        Running::start(command, LIMIT).finish()
    }

    /// Starts `pith` in the workspace.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args), LIMIT)
    }

    /// The command that starts it.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bare(&pith_binary().to_string_lossy());
        command.args(args);
        command
    }

    /// Another program in the same place and environment.
    pub fn bare(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.environment).current_dir(self.work()).stdin(Stdio::null());
        command
    }

    /// The session files, oldest first.
    pub fn sessions(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.root().join("data/pith/sessions"), &mut |path| {
            // The index lies beside them.
            let is_index = path.file_name().is_some_and(|name| name == "index.jsonl");
            if path.extension().is_some_and(|extension| extension == "jsonl") && !is_index {
                found.push(path.to_path_buf());
            }
        });
        found.sort_by_key(|path| path.file_name().map(std::ffi::OsStr::to_owned));
        found
    }

    /// The only session file.
    ///
    /// # Panics
    /// Where there is none or more than one.
    #[track_caller]
    pub fn session(&self) -> PathBuf {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "session files: {sessions:?}");
        sessions[0].clone()
    }

    /// The lines of a session file.
    ///
    /// # Panics
    /// Where one is no JSON.
    #[track_caller]
    pub fn entries(file: &Path) -> Vec<Value> {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        text.lines().map(parse).collect()
    }

    /// The messages among them.
    #[track_caller]
    pub fn messages(file: &Path) -> Vec<Value> {
        let entries = Self::entries(file).into_iter().filter(|entry| entry["type"] == "message");
        entries.map(|entry| entry["message"].clone()).collect()
    }
}

fn write(path: &Path, bytes: &[u8]) -> PathBuf {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).expect("a folder");
    }
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path.to_path_buf()
}

/// Every file beneath a folder; nothing where there is no folder.
fn walk(folder: &Path, see: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, see);
        } else {
            see(&path);
        }
    }
}
