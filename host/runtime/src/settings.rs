//! `settings.toml`: few keys, each with a class, each checked before anything starts.

use crate::store::SessionSync;
use pith_core::{CompactionLaw, ModelCompaction, RetryLaw};
use pith_os::{OpenError, Root, SandboxLevel};
use pith_protocol::{ModelRef, ThinkingLevel};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};
use toml::de::{DeTable, DeValue};

/// The largest settings file, in bytes.
pub const SETTINGS_LIMIT_BYTES: u64 = 1 << 20;
/// The most retries, and the longest waits between them in milliseconds, that can be set.
const RETRY_ATTEMPTS: u64 = 20;
const RETRY_WAIT_MS: u64 = 3_600_000;
/// The most tokens that a key takes; more than any window has.
const MOST_TOKENS: u64 = 100_000_000;

/// Who may set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyClass {
    /// A matter of taste: a later layer wins.
    Taste,
    /// Decides what may happen: the user's own file alone; a project may only tighten it.
    Authority,
}

/// One key of `settings.toml`.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// With dots; `NAME` stands for any name.
    pub name: &'static str,
    /// Who may set it.
    pub class: KeyClass,
    /// What it takes, for people.
    pub takes: &'static str,
}

const fn key(name: &'static str, class: KeyClass, takes: &'static str) -> SettingKey {
    SettingKey { name, class, takes }
}

/// All keys. A key that is not here does not exist.
pub const SETTING_KEYS: [SettingKey; 12] = [
    key("model", KeyClass::Taste, "\"PROVIDER/ID\""),
    key("thinking", KeyClass::Taste, "\"off\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \"max\""),
    key("retry.attempts", KeyClass::Taste, "a number from 0 to 20"),
    key("retry.base_ms", KeyClass::Taste, "a number from 0 to 3600000"),
    key("retry.longest_ms", KeyClass::Taste, "a number from 0 to 3600000"),
    key("session.sync", KeyClass::Taste, "\"never\", \"turn\" or \"append\""),
    key("compaction.enabled", KeyClass::Taste, "true or false"),
    key("compaction.reserve_tokens", KeyClass::Taste, "a number from 0 to 100000000"),
    key("compaction.keep_recent_tokens", KeyClass::Taste, "a number from 0 to 100000000"),
    key(
        "compaction.models.NAME",
        KeyClass::Taste,
        "a table with enabled, reserve_tokens or keep_recent_tokens under a name \"PROVIDER/ID\"",
    ),
    key("sandbox", KeyClass::Authority, "\"guard\" or \"off\""),
    key("plugins.NAME", KeyClass::Authority, "a table, which the plugin reads"),
];

/// What the file says, defaults filled in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The model where nothing else names one.
    pub model: Option<ModelRef>,
    /// How hard it thinks where nothing else says.
    pub thinking: Option<ThinkingLevel>,
    /// When failed requests are tried again.
    pub retry: RetryLaw,
    /// When the session is made durable. Default: at the end of every turn.
    pub session_sync: SessionSync,
    /// When older messages are summed up.
    pub compaction: CompactionLaw,
    /// How far programs are held where nothing else says.
    pub sandbox: Option<SandboxLevel>,
    /// What plugins read, by plugin.
    pub plugins: BTreeMap<String, Value>,
}

impl Default for Settings {
    fn default() -> Self {
        let (model, thinking, retry) = (None, None, RetryLaw::default());
        let compaction = CompactionLaw::default();
        Self {
            model,
            thinking,
            retry,
            session_sync: SessionSync::default(),
            compaction,
            sandbox: None,
            plugins: BTreeMap::new(),
        }
    }
}

/// A settings file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// It cannot be read.
    #[error("the settings cannot be read: {0}")]
    Unreadable(#[from] OpenError),
    /// It is no TOML.
    #[error("{file}, line {line}: this is no TOML: {reason}", file = file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// The parser's words.
        reason: String,
    },
    /// A key that does not exist.
    #[error("{file}, line {line}: there is no setting {key}; there are: {known}", file = file.display(), known = known_keys())]
    UnknownKey {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// With dots.
        key: String,
    },
    /// A value of another kind than the key takes.
    #[error("{file}, line {line}: {key} takes {takes}", file = file.display())]
    WrongValue {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// With dots.
        key: String,
        /// What would fit.
        takes: &'static str,
    },
}

fn known_keys() -> String {
    SETTING_KEYS.iter().fold(String::new(), |mut all, key| {
        let _ = write!(all, "{}{}", if all.is_empty() { "" } else { ", " }, key.name);
        all
    })
}

impl Settings {
    /// Reads the file; without one everything has its default.
    pub fn read(file: &Path) -> Result<Self, SettingsError> {
        let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { return Ok(Self::default()) };
        // A link to where the user keeps dotfiles is the user's own, so the file's real folder is the root.
        let real = file.canonicalize().ok();
        let (folder, name) = match real.as_deref().and_then(|real| Some((real.parent()?, real.file_name()?))) {
            Some(place) => place,
            None => (folder, name),
        };
        let text = match Root::open(folder).and_then(|root| root.read_text(Path::new(name), SETTINGS_LIMIT_BYTES)) {
            Ok(text) => text,
            Err(OpenError::NotFound { .. }) => return Ok(Self::default()),
            Err(error) => return Err(error.into()),
        };
        Self::parse(&text, file)
    }

    /// Reads the text; `file` is for errors.
    pub fn parse(text: &str, file: &Path) -> Result<Self, SettingsError> {
        let line_of = |at: usize| text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        let table = DeTable::parse(text).map_err(|error| SettingsError::Syntax {
            file: file.to_owned(),
            line: line_of(error.span().map_or(0, |span| span.start)),
            reason: error.message().lines().collect::<Vec<_>>().join(" "),
        })?;
        let mut settings = Self::default();
        let read = Reader { file, line_of: &line_of };
        settings.take_top(&read, table.get_ref())?;
        Ok(settings)
    }

    fn take_top(&mut self, read: &Reader<'_>, table: &DeTable<'_>) -> Result<(), SettingsError> {
        for (name, value) in table.iter() {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            match (name, value.get_ref()) {
                ("retry" | "session" | "compaction" | "plugins", DeValue::Table(inner)) => {
                    for (inner_name, value) in inner.iter() {
                        let at = inner_name.span().start;
                        self.take(read, at, name, inner_name.get_ref().as_ref(), value.get_ref())?;
                    }
                }
                _ => self.take(read, at, "", name, value.get_ref())?,
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        read: &Reader<'_>,
        at: usize,
        section: &str,
        name: &str,
        value: &DeValue<'_>,
    ) -> Result<(), SettingsError> {
        let key = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
        let unfit = |key: &str, at| read.unfit(key, at);
        match (section, name) {
            ("", "model") => {
                let model = value.as_str().and_then(|text| text.parse().ok());
                self.model = Some(model.ok_or_else(|| unfit(&key, at))?);
            }
            ("", "thinking") => {
                let level = value.as_str().and_then(level);
                self.thinking = Some(level.ok_or_else(|| unfit(&key, at))?);
            }
            ("", "sandbox") => {
                let level = value.as_str().and_then(SandboxLevel::named);
                self.sandbox = Some(level.ok_or_else(|| unfit(&key, at))?);
            }
            ("retry", "attempts") => {
                let attempts = number(value, RETRY_ATTEMPTS).and_then(|number| u32::try_from(number).ok());
                self.retry.attempts = attempts.ok_or_else(|| unfit(&key, at))?;
            }
            ("retry", "base_ms") => {
                let wait = number(value, RETRY_WAIT_MS).ok_or_else(|| unfit(&key, at))?;
                self.retry.base = Duration::from_millis(wait);
            }
            ("retry", "longest_ms") => {
                let wait = number(value, RETRY_WAIT_MS).ok_or_else(|| unfit(&key, at))?;
                self.retry.longest = Duration::from_millis(wait);
            }
            ("session", "sync") => {
                // Once it was yes or no.
                let of_truth = |truth| if truth { SessionSync::Turn } else { SessionSync::Never };
                let named = value.as_str().and_then(SessionSync::named);
                self.session_sync = named.or(value.as_bool().map(of_truth)).ok_or_else(|| unfit(&key, at))?;
            }
            ("compaction", "enabled") => self.compaction.enabled = value.as_bool().ok_or_else(|| unfit(&key, at))?,
            ("compaction", "reserve_tokens") => {
                self.compaction.reserve_tokens = number(value, MOST_TOKENS).ok_or_else(|| unfit(&key, at))?;
            }
            ("compaction", "keep_recent_tokens") => {
                self.compaction.keep_recent_tokens = number(value, MOST_TOKENS).ok_or_else(|| unfit(&key, at))?;
            }
            ("compaction", "models") => {
                let models = value.as_table().ok_or_else(|| unfit("compaction.models.NAME", at))?;
                for (model, own) in models.iter() {
                    let at = model.span().start;
                    let name = model.get_ref().parse::<ModelRef>().map_err(|_| unfit("compaction.models.NAME", at))?;
                    let own = own.get_ref().as_table().ok_or_else(|| unfit("compaction.models.NAME", at))?;
                    self.compaction.models.insert(name.to_string(), model_compaction(read, own)?);
                }
            }
            ("plugins", _) if value.is_table() => {
                self.plugins.insert(name.to_owned(), json(value));
            }
            ("plugins", _) => return Err(unfit("plugins.NAME", at)),
            _ => return Err(SettingsError::UnknownKey { file: read.file.to_owned(), line: (read.line_of)(at), key }),
        }
        Ok(())
    }
}

/// What is different for one model.
fn model_compaction(read: &Reader<'_>, table: &DeTable<'_>) -> Result<ModelCompaction, SettingsError> {
    let mut own = ModelCompaction::default();
    for (name, value) in table.iter() {
        let (at, value) = (name.span().start, value.get_ref());
        let unfit = || read.unfit("compaction.models.NAME", at);
        match name.get_ref().as_ref() {
            "enabled" => own.enabled = Some(value.as_bool().ok_or_else(unfit)?),
            "reserve_tokens" => own.reserve_tokens = Some(number(value, MOST_TOKENS).ok_or_else(unfit)?),
            "keep_recent_tokens" => own.keep_recent_tokens = Some(number(value, MOST_TOKENS).ok_or_else(unfit)?),
            _ => return Err(unfit()),
        }
    }
    Ok(own)
}

/// Where errors are.
struct Reader<'a> {
    file: &'a Path,
    line_of: &'a dyn Fn(usize) -> usize,
}

impl Reader<'_> {
    fn unfit(&self, key: &str, at: usize) -> SettingsError {
        let takes = SETTING_KEYS.iter().find(|known| known.name == key).map_or("another value", |known| known.takes);
        SettingsError::WrongValue { file: self.file.to_owned(), line: (self.line_of)(at), key: key.to_owned(), takes }
    }
}

fn number(value: &DeValue<'_>, most: u64) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|number| *number <= most)
}

/// A level by its name.
pub(crate) fn level(name: &str) -> Option<ThinkingLevel> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

/// A plugin's table as JSON. Dates become their text; a number that JSON has not becomes its text too. The parser bounds the nesting.
fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => number.into(),
            Err(_) => Value::String(integer.as_str().to_owned()),
        },
        DeValue::Float(float) => match float.as_str().parse::<f64>().ok().and_then(serde_json::Number::from_f64) {
            Some(number) => Value::Number(number),
            None => Value::String(float.as_str().to_owned()),
        },
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(
            table
                .iter()
                .map(|(name, value)| (name.get_ref().to_string(), json(value.get_ref())))
                .collect::<Map<_, _>>(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, String> {
        Settings::parse(text, Path::new("/c/settings.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_is_read() {
        let settings = parse(
            "model = \"openai/org/m\"\nthinking = \"high\"\nsandbox = \"off\"\n[retry]\nattempts = 5\nbase_ms = 0x10\nlongest_ms = 1_000\n\
             [session]\nsync = false\n[plugins.shell]\npath = \"/bin/sh\"\nlist = [1, 2.5, true]\ninner.day = 2026-11-30\n",
        )
        .unwrap();
        assert_eq!(settings.model.unwrap().to_string(), "openai/org/m");
        assert_eq!(settings.thinking, Some(ThinkingLevel::High));
        assert_eq!(settings.retry.attempts, 5);
        assert_eq!((settings.retry.base.as_millis(), settings.retry.longest.as_millis()), (16, 1000));
        assert_eq!(settings.session_sync, SessionSync::Never);
        assert_eq!(settings.sandbox, Some(SandboxLevel::Off));
        let shell = serde_json::json!({"path": "/bin/sh", "list": [1, 2.5, true], "inner": {"day": "2026-11-30"}});
        assert_eq!(settings.plugins.get("shell"), Some(&shell));
        assert_eq!(parse("").unwrap().session_sync, SessionSync::Turn);
        for (text, sync) in [
            ("true", SessionSync::Turn),
            ("\"never\"", SessionSync::Never),
            ("\"turn\"", SessionSync::Turn),
            ("\"append\"", SessionSync::Append),
        ] {
            assert_eq!(parse(&format!("session.sync = {text}")).unwrap().session_sync, sync, "{text}");
        }
        let compaction = parse(
            "[compaction]\nenabled = false\nreserve_tokens = 10_000\nkeep_recent_tokens = 5000\n\
             [compaction.models.\"openai/org/m\"]\nenabled = true\nreserve_tokens = 0\n",
        )
        .unwrap()
        .compaction;
        let own = ModelCompaction { enabled: Some(true), reserve_tokens: Some(0), keep_recent_tokens: None };
        let expected = CompactionLaw {
            enabled: false,
            reserve_tokens: 10_000,
            keep_recent_tokens: 5_000,
            models: BTreeMap::from([("openai/org/m".to_owned(), own)]),
        };
        assert_eq!(compaction, expected);
        assert_eq!(parse("").unwrap().compaction, CompactionLaw::default());
        assert_eq!(parse("retry.attempts = 0").unwrap().retry.attempts, 0);
    }

    #[test]
    fn errors_name_file_key_and_line() {
        let cases = [
            ("\nmodle = \"a/b\"", "line 2: there is no setting modle; there are: model, thinking, retry.attempts"),
            ("[retry]\ntries = 1", "line 2: there is no setting retry.tries"),
            ("[tools]\na = 1", "line 1: there is no setting tools"),
            ("model = \"gpt\"", "line 1: model takes \"PROVIDER/ID\""),
            ("model = 1", "line 1: model takes"),
            ("sandbox = \"none\"", "line 1: sandbox takes \"guard\" or \"off\""),
            ("sandbox = false", "line 1: sandbox takes"),
            ("thinking = \"hard\"", "line 1: thinking takes \"off\", \"minimal\""),
            ("[retry]\n\nattempts = -1", "line 3: retry.attempts takes a number from 0 to 20"),
            ("[retry]\nattempts = 21", "line 2: retry.attempts takes"),
            ("retry = 1", "line 1: there is no setting retry;"),
            ("session.sync = \"no\"", "line 1: session.sync takes \"never\", \"turn\" or \"append\""),
            ("[plugins]\nshell = 1", "line 2: plugins.NAME takes a table"),
            ("[compaction]\nenabled = 1", "line 2: compaction.enabled takes true or false"),
            ("compaction.reserve_tokens = -1", "line 1: compaction.reserve_tokens takes a number from 0"),
            ("compaction.keep = 1", "line 1: there is no setting compaction.keep"),
            ("[compaction.models]\ngpt.enabled = true", "line 2: compaction.models.NAME takes a table with enabled"),
            ("[compaction.models.\"a/b\"]\n\nreserve = 1", "line 3: compaction.models.NAME takes a table"),
            ("a = = 1", "line 1: this is no TOML"),
        ];
        for (text, says) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says) && error.starts_with("/c/settings.toml, line"), "{text:?}: {error}");
        }
    }

    #[test]
    fn every_key_of_the_table_is_one_that_is_read() {
        for key in SETTING_KEYS {
            // A value that no key takes: the error shows that the key is known.
            let text = format!("{} = 1979-05-27", key.name);
            assert!(parse(&text).unwrap_err().contains(key.takes), "{}", key.name);
        }
    }

    #[test]
    fn only_a_regular_file_of_a_bounded_size_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert!(Settings::read(&at("none/settings.toml")).unwrap().model.is_none());
        std::fs::create_dir(at("dots")).unwrap();
        std::fs::write(at("dots/pith.toml"), "\u{feff}model = \"a/b\"").unwrap();
        std::os::unix::fs::symlink(at("dots/pith.toml"), at("settings.toml")).unwrap();
        assert_eq!(Settings::read(&at("settings.toml")).unwrap().model.unwrap().to_string(), "a/b");
        std::fs::File::create(at("long.toml")).unwrap().set_len(SETTINGS_LIMIT_BYTES + 1).unwrap();
        assert!(matches!(Settings::read(&at("long.toml")), Err(SettingsError::Unreadable(OpenError::TooLarge { .. }))));
        assert!(matches!(Settings::read(dir.path()), Err(SettingsError::Unreadable(OpenError::NotRegular { .. }))));
        let fifo = at("fifo.toml");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(matches!(Settings::read(&fifo), Err(SettingsError::Unreadable(OpenError::NotRegular { .. }))));
    }
}
