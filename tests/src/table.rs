//! Behaviour tables: `cases/tools/<tool>.toml`. A row is one call of one tool: the workspace before, the arguments, the result, the workspace
//! after. The same rows run through the host and natively.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

/// A tool's rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// In the order of the file.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

/// One call.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// What holds, as a sentence.
    pub name: String,
    /// Why it says nothing about the tool's own code.
    pub host_only: Option<String>,
    args: Option<Value>,
    args_json: Option<String>,
    #[serde(flatten)]
    before: Before,
    #[serde(flatten)]
    result: Expected,
    #[serde(flatten)]
    after: After,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Before {
    files: BTreeMap<String, String>,
    lines: BTreeMap<String, Lines>,
    base64: BTreeMap<String, String>,
    folders: Vec<String>,
    links: BTreeMap<String, String>,
    fifos: Vec<String>,
    modes: BTreeMap<String, String>,
    outside: BTreeMap<String, String>,
    settings: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    line: String,
    count: usize,
    end: Option<String>,
    last: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Expected {
    text: Option<String>,
    error: Option<String>,
    is_error: bool,
    starts: Option<String>,
    ends: Option<String>,
    has: Vec<String>,
    lacks: Vec<String>,
    line_count: Option<usize>,
    image: Option<String>,
    details: serde_json::Map<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct After {
    after: BTreeMap<String, String>,
    after_base64: BTreeMap<String, String>,
    modes_after: BTreeMap<String, String>,
    removed: Vec<String>,
    changes: bool,
}

/// What a call gave.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// All text, joined.
    pub text: String,
    /// It is an error.
    pub is_error: bool,
    /// Pictures: type and bytes.
    pub images: Vec<(String, Vec<u8>)>,
    /// For faces; null where there are none.
    pub details: Value,
}

impl Seen {
    /// From a `tool_execution_end`.
    ///
    /// # Panics
    /// Where a picture is no base64.
    pub fn of_event(event: &Value) -> Self {
        let blocks = event["result"]["content"].as_array().cloned().unwrap_or_default();
        let image = |block: &Value| {
            let bytes = STANDARD.decode(block["data"].as_str()?).expect("a picture is base64");
            Some((block["mimeType"].as_str()?.to_owned(), bytes))
        };
        Self {
            text: blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
            is_error: event["isError"].as_bool().unwrap_or_default(),
            images: blocks.iter().filter_map(image).collect(),
            details: event["result"]["details"].clone(),
        }
    }
}

/// Everything in a folder: what each path is.
type Tree = BTreeMap<String, Kind>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    File(Vec<u8>, u32),
    Folder,
    Link(PathBuf),
    Other,
}

/// The folders that a row runs in.
pub struct Ground {
    work: PathBuf,
    outside: PathBuf,
    before: Tree,
}

/// The keys that a row may have: what `flatten` cannot refuse by itself.
const KEYS: &[&str] = &[
    "name",
    "host_only",
    "args",
    "args_json",
    "files",
    "lines",
    "base64",
    "folders",
    "links",
    "fifos",
    "modes",
    "outside",
    "settings",
    "text",
    "error",
    "is_error",
    "starts",
    "ends",
    "has",
    "lacks",
    "line_count",
    "image",
    "details",
    "after",
    "after_base64",
    "modes_after",
    "removed",
    "changes",
];

impl Table {
    /// Reads a tool's table.
    ///
    /// # Panics
    /// Where it is no table: an unknown key, two rows of one name.
    pub fn load(tool: &str) -> Self {
        let place = format!("tools/{tool}.toml");
        let text = crate::case_text(&place);
        let raw: toml::Table = toml::from_str(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
        for row in raw["row"].as_array().into_iter().flatten().filter_map(toml::Value::as_table) {
            for key in row.keys() {
                assert!(KEYS.contains(&&**key), "{place}: {:?}: there is no key `{key}`", row["name"]);
            }
        }
        let table: Self = toml::from_str(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
        let mut names = std::collections::BTreeSet::new();
        for row in &table.rows {
            assert!(names.insert(&row.name), "{place}: two rows are called {:?}", row.name);
            assert!(row.result.says_something(), "{place}: {:?} expects nothing", row.name);
        }
        table
    }
}

impl Row {
    /// Makes the workspace as it is before the call. `work` and `outside` are there and empty.
    ///
    /// # Panics
    /// Where that cannot be done.
    pub fn lay(&self, work: &Path, outside: &Path) -> Ground {
        let mut ground = Ground { work: work.to_path_buf(), outside: outside.to_path_buf(), before: Tree::new() };
        let before = &self.before;
        for folder in &before.folders {
            fs::create_dir_all(work.join(folder)).expect("a folder");
        }
        for (path, text) in &before.files {
            write(&work.join(path), ground.filled(text).as_bytes());
        }
        for (path, lines) in &before.lines {
            write(&work.join(path), lines.text().as_bytes());
        }
        for (path, text) in &before.base64 {
            write(&work.join(path), &STANDARD.decode(text).expect("base64"));
        }
        for (path, text) in &before.outside {
            write(&outside.join(path), text.as_bytes());
        }
        for (path, target) in &before.links {
            let link = work.join(path);
            fs::create_dir_all(link.parent().expect("a link lies in a folder")).expect("a folder");
            symlink(ground.filled(target), link).expect("a link");
        }
        for path in &before.fifos {
            assert!(Command::new("mkfifo").arg(work.join(path)).status().expect("mkfifo runs").success());
        }
        for (path, mode) in &before.modes {
            let mode = u32::from_str_radix(mode, 8).expect("an octal mode");
            fs::set_permissions(work.join(path), fs::Permissions::from_mode(mode)).expect("a mode");
        }
        ground.before = tree(work);
        ground
    }

    /// The arguments.
    ///
    /// # Panics
    /// Where they are no JSON.
    pub fn arguments(&self, ground: &Ground) -> Value {
        let text = match (&self.args, &self.args_json) {
            (Some(args), None) => args.to_string(),
            (None, Some(text)) => text.clone(),
            (None, None) => "{}".to_owned(),
            (Some(_), Some(_)) => panic!("{}: `args` and `args_json`", self.name),
        };
        serde_json::from_str(&ground.filled(&text)).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// What the user's settings say.
    pub fn settings(&self) -> &str {
        &self.before.settings
    }

    /// What differs from the row, in words; nothing where all is as it says.
    pub fn differs(&self, ground: &Ground, seen: &Seen) -> Option<String> {
        let mut wrong = self.result.differs(ground, seen, &self.arguments(ground));
        if !self.after.changes {
            wrong.extend(self.after.differs(ground));
        }
        if wrong.is_empty() {
            return None;
        }
        Some(format!("{}\n    arguments {}\n{}", self.name, self.arguments(ground), wrong.join("\n")))
    }
}

impl Lines {
    fn text(&self) -> String {
        let end = self.end.as_deref().unwrap_or("\n");
        let mut text: String =
            (1..=self.count).map(|number| self.line.replace("{n}", &number.to_string()) + end).collect();
        if self.last == Some(false) {
            text.truncate(text.len() - end.len());
        }
        text
    }
}

impl Ground {
    fn filled(&self, text: &str) -> String {
        text.replace("{work}", &self.work.to_string_lossy()).replace("{outside}", &self.outside.to_string_lossy())
    }
}

impl Expected {
    fn says_something(&self) -> bool {
        self.text.is_some()
            || self.error.is_some()
            || self.starts.is_some()
            || self.ends.is_some()
            || !self.has.is_empty()
            || self.image.is_some()
    }

    fn differs(&self, ground: &Ground, seen: &Seen, arguments: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        let is_error = self.is_error || self.error.is_some();
        if seen.is_error != is_error {
            wrong.push(format!("    is an error: {}, expected {is_error}: {}", seen.is_error, shown(&seen.text)));
        }
        if let Some(text) = self.text.as_ref().or(self.error.as_ref()) {
            let text = ground.filled(text);
            if seen.text != text {
                wrong.push(format!("    gave     {}\n    expected {}", shown(&seen.text), shown(&text)));
            }
        }
        let mut part = |what: &str, text: &str, holds: bool| {
            if !holds {
                wrong.push(format!("    does not {what} {text:?}: {}", shown(&seen.text)));
            }
        };
        for (what, text) in [("start with", &self.starts), ("end with", &self.ends)] {
            if let Some(text) = text.as_ref().map(|text| ground.filled(text)) {
                let holds = if what == "end with" { seen.text.ends_with(&text) } else { seen.text.starts_with(&text) };
                part(what, &text, holds);
            }
        }
        for text in self.has.iter().map(|text| ground.filled(text)) {
            part("have", &text, seen.text.contains(&text));
        }
        for text in self.lacks.iter().map(|text| ground.filled(text)) {
            part("lack", &text, !seen.text.contains(&text));
        }
        if let Some(count) = self.line_count.filter(|&count| count != seen.text.lines().count()) {
            wrong.push(format!("    has {} lines, expected {count}", seen.text.lines().count()));
        }
        for (key, value) in &self.details {
            let value: Value = serde_json::from_str(&ground.filled(&value.to_string())).expect("still JSON");
            if seen.details[key] != value {
                wrong.push(format!("    details.{key} is {}, expected {value}", seen.details[key]));
            }
        }
        match (&self.image, &seen.images[..]) {
            (None, []) => {}
            (Some(kind), [(mime_type, bytes)]) => {
                let path = ground.work.join(arguments["path"].as_str().unwrap_or_default());
                let same = fs::read(path).is_ok_and(|file| file == *bytes);
                if kind != mime_type || !same {
                    wrong.push(format!("    the picture is {mime_type}, the file's bytes: {same}"));
                }
            }
            (wanted, images) => wrong.push(format!("    {} pictures, expected {wanted:?}", images.len())),
        }
        wrong
    }
}

impl After {
    fn differs(&self, ground: &Ground) -> Vec<String> {
        let mut wanted = ground.before.clone();
        for path in &self.removed {
            wanted.remove(path);
        }
        let texts = self.after.iter().map(|(path, text)| (path, ground.filled(text).into_bytes()));
        let bytes = self.after_base64.iter().map(|(path, text)| (path, STANDARD.decode(text).expect("base64")));
        let mut now = tree(&ground.work);
        for (path, bytes) in texts.chain(bytes) {
            let mode = self.modes_after.get(path).map(|mode| u32::from_str_radix(mode, 8).expect("an octal mode"));
            let mode = mode.or(match (wanted.get(path), now.get(path)) {
                (Some(Kind::File(_, mode)), _) | (None, Some(Kind::File(_, mode))) => Some(*mode),
                _ => None,
            });
            wanted.insert(path.clone(), Kind::File(bytes, mode.unwrap_or(0o644)));
            for folder in Path::new(path).ancestors().skip(1).filter(|folder| *folder != Path::new("")) {
                wanted.insert(folder.to_string_lossy().into_owned(), Kind::Folder);
            }
        }
        let mut wrong = Vec::new();
        for (path, kind) in &wanted {
            let is = now.remove(path);
            if is.as_ref() != Some(kind) {
                let is = is.as_ref().map_or_else(|| "gone".to_owned(), Kind::shown);
                wrong.push(format!("    {path} is {is}\n    expected {}", kind.shown()));
            }
        }
        wrong.extend(now.into_iter().map(|(path, kind)| format!("    {path} is new: {}", kind.shown())));
        wrong
    }
}

impl Kind {
    fn shown(&self) -> String {
        match self {
            Self::File(bytes, mode) => format!("{mode:o} {}", shown(&String::from_utf8_lossy(bytes))),
            other => format!("{other:?}"),
        }
    }
}

/// What a failed row shows of a text: head and tail.
fn shown(text: &str) -> String {
    const EACH: usize = 700;
    if text.len() <= 2 * EACH {
        return format!("{text:?}");
    }
    let (head, tail) = (text.floor_char_boundary(EACH), text.ceil_char_boundary(text.len() - EACH));
    format!("{:?} [... {} bytes ...] {:?}", &text[..head], tail - head, &text[tail..])
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn tree(folder: &Path) -> Tree {
    let mut found = Tree::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            let kind = entry.file_type().expect("a kind");
            let kind = if kind.is_symlink() {
                Kind::Link(fs::read_link(&path).expect("a link"))
            } else if kind.is_dir() {
                waiting.push(path.clone());
                Kind::Folder
            } else if kind.is_file() {
                let mode = entry.metadata().expect("it is there").permissions().mode() & 0o7777;
                Kind::File(fs::read(&path).unwrap_or_default(), mode)
            } else {
                Kind::Other
            };
            let name = path.strip_prefix(folder).expect("beneath it").to_string_lossy().into_owned();
            found.insert(name, kind);
        }
    }
    found
}
