use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::fit;
use super::saved::Saved;
use crate::bindings::imports::pith::plugin::messages::ToolCall;
use crate::log::Level;
use crate::{Call, Content, Context, Error, Filter, Gate, Origin, Output, Tool, Verdict};

/// A folder to stand in while a plugin's code runs: the session's working folder, granted for reading and writing, with
/// settings, facts and state that code finds there, and with ears for what it says. Each thread has its own.
#[derive(Debug)]
pub struct Place {
    standing: Rc<Standing>,
    /// Removed with the place.
    _fresh: Option<Fresh>,
}

/// A folder that was made for a test.
#[derive(Debug)]
struct Fresh(PathBuf);

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What `context` answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `model`, `user`, `plugin`, `script`, `mcp`, `replay` or `host`.
    pub caller: String,
    /// `interactive`, `print`, `json`, `rpc`, `library` or `channel`.
    pub face: String,
    /// Whether a person can answer.
    pub interactive: bool,
    /// `provider/model`.
    pub model: Option<String>,
    /// Milliseconds until the deadline; it does not count down.
    pub remaining_ms: u32,
    /// The level of thinking.
    pub thinking: String,
    /// Turns since the last user message.
    pub turn: u32,
}

impl Default for Facts {
    /// A model's call in print mode, two minutes before its deadline.
    fn default() -> Self {
        Self {
            caller: "model".to_owned(),
            face: "print".to_owned(),
            interactive: false,
            model: None,
            remaining_ms: 120_000,
            thinking: "off".to_owned(),
            turn: 0,
        }
    }
}

impl Place {
    /// Stands in an empty folder of its own, which is removed with the place.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn fresh() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("pith-place-{}-{number}", std::process::id()));
            match std::fs::create_dir(&folder) {
                Ok(()) => return Self { _fresh: Some(Fresh(folder.clone())), ..Self::new(folder) },
                // Left by a process of the same number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", folder.display()),
            }
        }
    }

    /// Stands in this folder, which is there.
    ///
    /// # Panics
    /// Where it is no folder, or its path is not UTF-8.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let absolute = folder.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        assert!(absolute.is_dir(), "{} is no folder", folder.display());
        let cwd = spelled(&absolute);
        let standing = Standing {
            granted: RefCell::new(vec![cwd.clone()]),
            cwd,
            settings: RefCell::new("{}".to_owned()),
            facts: RefCell::new(Facts::default()),
            logs: RefCell::default(),
            progress: RefCell::default(),
            state: RefCell::default(),
            changes: RefCell::default(),
        };
        Self { standing: Rc::new(standing), _fresh: None }
    }

    /// With this file, and the folders that it lies in.
    ///
    /// # Panics
    /// Where it cannot be written.
    #[must_use]
    pub fn with_file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = Path::new(self.cwd()).join(name);
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self
    }

    /// A file's text.
    ///
    /// # Panics
    /// Where it cannot be read.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        let path = Path::new(self.cwd()).join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// With these settings of the plugin.
    #[must_use]
    pub fn with_settings(self, settings: &Value) -> Self {
        *self.standing.settings.borrow_mut() = canonical(settings);
        self
    }

    /// With other facts for `context`.
    #[must_use]
    pub fn with_facts(self, facts: Facts) -> Self {
        *self.standing.facts.borrow_mut() = facts;
        self
    }

    /// With another folder granted, such as a spool.
    ///
    /// # Panics
    /// Where it is not there.
    #[must_use]
    pub fn with_folder(self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let absolute = folder.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        self.standing.granted.borrow_mut().push(spelled(&absolute));
        self
    }

    /// Calls a tool with this input, which is checked against its schema first. The call's id is `call`.
    pub fn call<T: Tool>(&self, input: &Value) -> Result<Output, Error> {
        let schema = T::schema().to_string();
        let faults = fit::faults(&schema, input);
        if !faults.is_empty() {
            return Err(Error::invalid(format!("Validation failed for tool \"{}\":\n{}", T::NAME, faults.join("\n"))));
        }
        let call = ToolCall { id: "call".to_owned(), name: T::NAME.to_owned(), input: canonical(input) };
        self.stand(|| crate::tool::call::<T>(call))
    }

    /// Has a gate judge the model's call of a tool, whose name and input are these.
    pub fn judge<G: Gate>(&self, tool: &str, input: &Value) -> Result<Verdict, Error> {
        self.judge_from::<G>(tool, input, &model_origin())
    }

    /// [`Place::judge`] of a call from elsewhere.
    pub fn judge_from<G: Gate>(&self, tool: &str, input: &Value, origin: &Origin) -> Result<Verdict, Error> {
        let call = Call::new("call", tool, canonical(input));
        self.stand(|| G::before_call(&call, origin))
    }

    /// Has a filter see a result of the model's call. Gives what it made of it: the result itself where it left it alone.
    pub fn filter<F: Filter>(&self, tool: &str, input: &Value, output: Output) -> Result<Output, Error> {
        let call = Call::new("call", tool, canonical(input));
        let before = output.clone();
        Ok(self.stand(|| F::after_call(&call, &model_origin(), output))?.unwrap_or(before))
    }

    /// Runs any code of the plugin here.
    pub fn stand<R>(&self, code: impl FnOnce() -> R) -> R {
        /// Steps back also where the code panics.
        struct Back(Option<Rc<Standing>>);
        impl Drop for Back {
            fn drop(&mut self) {
                HERE.with(|here| here.replace(self.0.take()));
            }
        }
        let _back = Back(HERE.with(|here| here.replace(Some(self.standing.clone()))));
        code()
    }

    /// A context as tools get it.
    pub fn context(&self) -> Context {
        Context::new("call".to_owned())
    }

    /// The folder, absolute, as `context::cwd` says it.
    pub fn cwd(&self) -> &str {
        &self.standing.cwd
    }

    /// The lines that were logged so far.
    pub fn logs(&self) -> Vec<(Level, String)> {
        self.standing.logs.borrow().clone()
    }

    /// The texts that were shown as progress so far.
    pub fn progress(&self) -> Vec<String> {
        self.standing.progress.borrow().clone()
    }

    /// How often the plugin said that its tools have changed.
    pub fn changes(&self) -> u32 {
        *self.standing.changes.borrow()
    }
}

/// What a place holds.
#[derive(Debug)]
pub(crate) struct Standing {
    cwd: String,
    granted: RefCell<Vec<String>>,
    settings: RefCell<String>,
    facts: RefCell<Facts>,
    logs: RefCell<Vec<(Level, String)>>,
    progress: RefCell<Vec<String>>,
    state: RefCell<Saved>,
    changes: RefCell<u32>,
}

#[cfg_attr(doc, allow(dead_code, reason = "the imports stand in the documentation"))]
impl Standing {
    pub(crate) fn session_id(&self) -> Option<String> {
        Some("test".to_owned())
    }

    pub(crate) fn leaf_id(&self) -> Option<String> {
        self.state.borrow().newest_id()
    }

    pub(crate) fn cwd(&self) -> String {
        self.cwd.clone()
    }

    pub(crate) fn facts(&self) -> Facts {
        self.facts.borrow().clone()
    }

    pub(crate) fn settings(&self) -> String {
        self.settings.borrow().clone()
    }

    pub(crate) fn log(&self, level: Level, message: &str) {
        self.logs.borrow_mut().push((level, message.to_owned()));
    }

    pub(crate) fn progress(&self, content: &[Content]) {
        self.progress.borrow_mut().push(crate::output::text_of(content));
    }

    pub(crate) fn state<R>(&self, ask: impl FnOnce(&mut Saved) -> R) -> R {
        ask(&mut self.state.borrow_mut())
    }

    pub(crate) fn tools_changed(&self) {
        *self.changes.borrow_mut() += 1;
    }
}

thread_local! {
    static HERE: RefCell<Option<Rc<Standing>>> = const { RefCell::new(None) };
}

/// The place that this thread stands in.
///
/// # Panics
/// Where it stands in none.
#[track_caller]
#[cfg_attr(doc, allow(dead_code, reason = "the imports stand in the documentation"))]
pub(crate) fn here(asked: &str) -> Rc<Standing> {
    match HERE.with(|here| here.borrow().clone()) {
        Some(standing) => standing,
        None => panic!(
            "pith_sdk::{asked} is answered by the host, and this test has none: run the code in a place, with \
             pith_sdk::testing::Place::new(folder).call::<YourTool>(&input) or .stand(|| ...)"
        ),
    }
}

/// The folders that may be reached: the place's; without a place everything.
#[cfg_attr(doc, allow(dead_code, reason = "the imports stand in the documentation"))]
pub(crate) fn granted_folders() -> Vec<String> {
    match HERE.with(|here| here.borrow().clone()) {
        Some(standing) => standing.granted.borrow().clone(),
        None => vec!["/".to_owned()],
    }
}

/// Ends a test that asked for what only the host has.
#[track_caller]
#[cfg_attr(doc, allow(dead_code, reason = "the imports stand in the documentation"))]
pub(crate) fn needs_host(asked: &str) -> ! {
    panic!(
        "pith_sdk::{asked} needs the host: test this part by running the component in the real program, with the harness \
         pith_tests::author, and keep what is pure in functions of its own"
    )
}

fn spelled(path: &std::path::Path) -> String {
    match path.to_str() {
        Some(text) => text.replace('\\', "/"),
        None => panic!("{} is not UTF-8", path.display()),
    }
}

/// The model's own call of a tool of some other plugin.
fn model_origin() -> Origin {
    Origin {
        caller: "model".to_owned(),
        plugin: None,
        served_by: "test/tools".to_owned(),
        digest: None,
        parent_call_id: None,
        depth: 0,
        authorities: Vec::new(),
        meta: None,
    }
}

/// Keys in order, no white space: the form in which the host hands out JSON.
fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
                members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
                Value::Object(members.into_iter().collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}
