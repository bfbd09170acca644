//! For the authors of plugins: the component in the real program, called by a scripted model, a `check` for each behaviour.
//!
//! ```no_run
//! use pith_tests::author::{Plugin, refused, says};
//! use pith_tests::Home;
//! use serde_json::json;
//!
//! let plugin = Plugin::build("sdk-guest/examples/word-count").grant("files=workspace:r");
//! let home = Home::new();
//! home.write("a.txt", "three words here");
//! plugin.check(&home, "word_count", json!({ "path": "a.txt" }), says("a.txt has 3 words."));
//! plugin.check(&home, "word_count", json!({ "path": "/etc/passwd" }), refused("outside the folders"));
//! ```
//!
//! A plugin of one's own does the same in a file of its `tests` folder, with `pith-tests = { path = ".../tests" }` among its
//! dev-dependencies, `Plugin::build(env!("CARGO_MANIFEST_DIR"))` and the variable `PITH` set to the program. What is pure is
//! tested faster without the program: `pith_sdk::testing`.

use crate::{
    home::Home,
    place::{repository, target_folder},
    run::Run,
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// What the outer cargo sets for itself and an author's would not have.
const SCRUBBED: [&str; 7] = [
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_MAKEFLAGS",
    "CARGO_TARGET_DIR",
];

/// A component with its grants.
#[derive(Clone, Debug)]
pub struct Plugin {
    component: PathBuf,
    grants: Vec<String>,
    /// Lines of the settings file.
    settings: String,
}

/// What a call shall come to.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Exactly this text, of a result that is no error.
    Says(String),
    /// A result that is no error, with this in its text.
    Mentions(String),
    /// A result that is an error, with this in its text.
    Refused(String),
}

/// [`Expected::Says`].
pub fn says(text: impl Into<String>) -> Expected {
    Expected::Says(text.into())
}

/// [`Expected::Mentions`].
pub fn mentions(text: impl Into<String>) -> Expected {
    Expected::Mentions(text.into())
}

/// [`Expected::Refused`].
pub fn refused(text: impl Into<String>) -> Expected {
    Expected::Refused(text.into())
}

/// What a call came to.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The text that the model reads.
    pub text: String,
    /// Whether it is an error.
    pub is_error: bool,
    /// The details; null where there are none.
    pub details: Value,
}

impl Plugin {
    /// Builds a crate for `wasm32-wasip2` as its author would, and takes its component. A folder that is not absolute is
    /// one of the repository. What was built is kept and shared by all tests.
    ///
    /// # Panics
    /// Where it does not build, with what cargo says; where it makes no component.
    #[track_caller]
    pub fn build(folder: impl AsRef<Path>) -> Self {
        let folder = repository().join(folder);
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        for name in SCRUBBED {
            cargo.env_remove(name);
        }
        cargo
            .args([
                "build",
                "--lib",
                "--release",
                "--target",
                "wasm32-wasip2",
                "--message-format",
                "json-render-diagnostics",
            ])
            .arg("--target-dir")
            .arg(target_folder().join("tmp/authors"))
            .current_dir(&folder);
        if folder.join("Cargo.lock").is_file() {
            cargo.arg("--locked");
        }
        let output = cargo.output().expect("cargo runs");
        assert!(output.status.success(), "{}:\n{}", folder.display(), String::from_utf8_lossy(&output.stderr));
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        let files = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).flat_map(|message| {
            let files = message["filenames"].as_array().cloned().unwrap_or_default();
            files.into_iter().filter_map(|file| file.as_str().map(PathBuf::from))
        });
        let mut components = files.filter(|file| file.extension().is_some_and(|extension| extension == "wasm"));
        let component = components.next_back();
        let Some(component) = component else {
            panic!("{} makes no component: its [lib] needs crate-type = [\"cdylib\"]", folder.display())
        };
        Self::at(component)
    }

    /// A component that is there.
    ///
    /// # Panics
    /// Where it is not.
    #[track_caller]
    pub fn at(component: impl Into<PathBuf>) -> Self {
        let component = component.into();
        assert!(component.is_file(), "there is no component {}", component.display());
        Self { component, grants: Vec::new(), settings: String::new() }
    }

    /// Its name: the file's, folded as the program folds it.
    pub fn name(&self) -> String {
        let stem = self.component.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
        stem.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect()
    }

    /// Its component.
    pub fn component(&self) -> &Path {
        &self.component
    }

    /// With a capability, such as `files=workspace:r` or `process=git`. Its tools and gates are granted by naming it.
    #[must_use]
    pub fn grant(mut self, capability: &str) -> Self {
        self.grants.push(format!("{}:{capability}", self.name()));
        self
    }

    /// With settings: lines of TOML, as they would stand below `[plugins.NAME]`.
    #[must_use]
    pub fn with_settings(mut self, toml: &str) -> Self {
        self.settings = format!("[plugins.{}]\n{toml}\n", self.name());
        self
    }

    /// Has the scripted model make these calls, one in each turn of one session, and gives what each came to. The shipped
    /// plugins are there too.
    ///
    /// # Panics
    /// Where the program does not end well, or a call has no result, with all that it printed.
    #[track_caller]
    pub fn calls(&self, home: &Home, calls: &[(&str, Value)]) -> Vec<Answer> {
        let (run, answers) = self.run(home, calls);
        answers.unwrap_or_else(|missing| panic!("the call {missing} has no result: {run}"))
    }

    /// One call: what it came to.
    ///
    /// # Panics
    /// As [`Plugin::calls`].
    #[track_caller]
    pub fn call(&self, home: &Home, tool: &str, input: Value) -> Answer {
        let answers = self.calls(home, &[(tool, input)]);
        answers.into_iter().next().expect("a call has an answer")
    }

    /// One call that comes to what is expected.
    ///
    /// # Panics
    /// Where it does not, with both, and with all that the program printed.
    #[track_caller]
    pub fn check(&self, home: &Home, tool: &str, input: Value, expected: Expected) {
        let (run, answers) = self.run(home, &[(tool, input.clone())]);
        let Ok([answer]) = answers.as_deref() else { panic!("the call has no result: {run}") };
        let (fits, wanted) = match &expected {
            Expected::Says(text) => (!answer.is_error && answer.text == *text, format!("the result\n{text}")),
            Expected::Mentions(text) => {
                (!answer.is_error && answer.text.contains(text), format!("a result that mentions\n{text}"))
            }
            Expected::Refused(text) => {
                (answer.is_error && answer.text.contains(text), format!("an error that mentions\n{text}"))
            }
        };
        let kind = if answer.is_error { "error" } else { "result" };
        assert!(
            fits,
            "\n--- {tool} {input}\ncame to the {kind}\n{}\n--- expected was {wanted}\n--- the run was {run}",
            answer.text
        );
    }

    /// The run, and the answers or the first call that has none.
    #[track_caller]
    fn run(&self, home: &Home, calls: &[(&str, Value)]) -> (Run, Result<Vec<Answer>, usize>) {
        if !self.settings.is_empty() {
            home.beside("config/pith/settings.toml", &self.settings);
        }
        let reply = |(at, (tool, input)): (usize, &(&str, Value))| json!({ "calls": [{ "id": format!("call-{at}"), "name": tool, "arguments": input }] });
        let mut replies: Vec<Value> = calls.iter().enumerate().map(reply).collect();
        replies.push(json!({ "text": "done" }));
        let component = self.component.to_string_lossy();
        let mut args = vec!["--plugin", &*component];
        for grant in &self.grants {
            args.extend(["--grant", grant]);
        }
        let run = home.play(Value::Array(replies), &args).ok();
        let events = run.events();
        let answer = |at: usize| {
            let id = format!("call-{at}");
            let end = events
                .iter()
                .find(|event| event["type"] == "tool_execution_end" && event["toolCallId"] == id)
                .ok_or(at)?;
            let (text, is_error) = run.result(&id);
            Ok(Answer { text, is_error, details: end["result"]["details"].clone() })
        };
        let answers = (0..calls.len()).map(answer).collect();
        (run, answers)
    }
}
