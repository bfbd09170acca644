//! What plugins used, kept beyond the process: a line for each run in a file of the state folder, folded into one when it grows.

use crate::{
    places::{Places, create_private},
    spool::is_at,
};
use pith_os::{OpenError, Root};
use pith_plugin::{FunctionUse, PluginHost, PluginUse};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The file's length from which its lines are folded into one, in bytes.
pub const USE_FILE_FOLDED_BYTES: u64 = 256 << 10;
/// The longest file that is read, in bytes; what is longer was not written by Pith, and counts as nothing.
pub const USE_FILE_LIMIT_BYTES: u64 = 8 << 20;
/// Plugins that a folded line has, those that were used last; each of their versions counts.
pub const PLUGINS_REMEMBERED: usize = 200;
/// How often a file is tried that another process writes to just now, and the pause between. What could not be told is told next time.
const LOCK_TRIES: usize = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// What plugins used in all runs that were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedUse {
    /// When the first of them ended, in milliseconds since 1970. None where nothing was recorded.
    pub since_millis: Option<i64>,
    /// How many runs.
    pub runs: u64,
    /// Each version of each plugin, those that were used last at the end.
    pub plugins: Vec<PluginUse>,
    /// Lines that cannot be read: a process was killed while it wrote, or somebody else wrote.
    pub damaged_lines: usize,
}

/// One run, or many that were folded.
#[derive(Serialize, Deserialize)]
struct Line {
    /// 1.
    version: u32,
    since_millis: i64,
    runs: u64,
    plugins: Vec<PluginUse>,
}

/// What plugins used in runs of this user that are over, newest state of the file. Runs of sessions that keep nothing are not in it.
///
/// # Errors
/// The file is there and cannot be read, or is no file.
pub fn recorded_plugin_use(places: &Places) -> Result<RecordedUse, OpenError> {
    let state = match Root::open(&places.state) {
        Ok(state) => state,
        Err(OpenError::NotFound { .. }) => return Ok(RecordedUse::default()),
        Err(error) => return Err(error),
    };
    match state.read_limited(Path::new(FILE), USE_FILE_LIMIT_BYTES) {
        Ok(bytes) => Ok(read(&bytes)),
        Err(OpenError::NotFound { .. }) => Ok(RecordedUse::default()),
        Err(error) => Err(error),
    }
}

/// Its name in the state folder.
pub(crate) const FILE: &str = "plugin-use.jsonl";

/// Tells the file what the plugins of a session use, run by run.
pub(crate) struct Recorder {
    host: Arc<PluginHost>,
    /// None: nothing of the session is kept.
    file: Option<PathBuf>,
    told: Mutex<Vec<PluginUse>>,
}

impl Recorder {
    pub fn new(host: Arc<PluginHost>, file: Option<PathBuf>) -> Self {
        Self { host, file, told: Mutex::default() }
    }

    /// What this session's plugins used so far.
    pub fn so_far(&self) -> Vec<PluginUse> {
        self.host.usage()
    }

    /// A run is over: what was used since the last time is appended. Costs some microseconds, and at most ten milliseconds where other
    /// processes write too. What cannot be written is lost: a count must not end what it counts.
    pub fn record(&self) {
        let Some(file) = &self.file else { return };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.host.usage();
        let news = since(&now, &told);
        if news.is_empty() {
            return;
        }
        let line = Line { version: 1, since_millis: now_millis(), runs: 1, plugins: news };
        if append(file, &line).is_ok() {
            *told = now;
        }
    }
}

fn now_millis() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    i64::try_from(now).unwrap_or_default()
}

/// What came since; both lists are of the same plugins in the same order.
fn since(now: &[PluginUse], told: &[PluginUse]) -> Vec<PluginUse> {
    let nothing = FunctionUse::default();
    let mut news = Vec::new();
    for (at, plugin) in now.iter().enumerate() {
        let before = told.get(at).map(|told| &told.functions);
        let functions: BTreeMap<String, FunctionUse> = plugin
            .functions
            .iter()
            .map(|(name, used)| {
                let before = before.and_then(|before| before.get(name)).unwrap_or(&nothing);
                (name.clone(), used.since(before))
            })
            .filter(|(_, used)| used.calls > 0)
            .collect();
        if !functions.is_empty() {
            news.push(PluginUse { functions, ..plugin.clone() });
        }
    }
    news
}

fn read(bytes: &[u8]) -> RecordedUse {
    let mut all = RecordedUse::default();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice::<Line>(line) {
            Ok(line) if line.version == 1 => all.add(line),
            _ => all.damaged_lines = all.damaged_lines.saturating_add(1),
        }
    }
    all
}

impl RecordedUse {
    fn add(&mut self, line: Line) {
        self.runs = self.runs.saturating_add(line.runs);
        self.since_millis = Some(self.since_millis.map_or(line.since_millis, |since| since.min(line.since_millis)));
        for used in line.plugins {
            let is_same = |known: &PluginUse| (&known.name, &known.digest) == (&used.name, &used.digest);
            let mut sum = match self.plugins.iter().position(is_same) {
                Some(at) => self.plugins.remove(at),
                None => PluginUse { functions: BTreeMap::new(), ..used.clone() },
            };
            sum.publisher = used.publisher;
            for (name, used) in &used.functions {
                sum.functions.entry(name.clone()).or_default().add(used);
            }
            self.plugins.push(sum);
        }
    }
}

/// Appends one line, folding those before it where they have become many.
fn append(path: &Path, line: &Line) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        create_private(folder)?;
    }
    let file = locked(path)?;
    let length = file.metadata()?.len();
    if length >= USE_FILE_FOLDED_BYTES {
        return fold(&file, length, path, line);
    }
    let mut text = Vec::new();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    // After a line that was cut off a fresh one begins.
    if last != *b"\n" {
        text.push(b'\n');
    }
    serde_json::to_writer(&mut text, line)?;
    text.push(b'\n');
    (&file).write_all(&text)
}

/// Opens the file, making it where it is missing, with this process's lock on it. The state folder is not reserved: what lies there in its
/// place is neither followed nor waited for.
fn locked(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    for _ in 0..LOCK_TRIES {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match file.try_lock() {
            // Folding puts another file in its place.
            Ok(()) if is_at(&file, path)? => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            // Without locks a line of two processes at once may be lost.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Puts a file with one line in the place of this one.
fn fold(file: &File, length: u64, path: &Path, line: &Line) -> io::Result<()> {
    let mut all = RecordedUse::default();
    if length <= USE_FILE_LIMIT_BYTES {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, 0)?;
        all = read(&bytes);
    }
    all.add(Line { plugins: line.plugins.clone(), ..*line });
    let surplus = all.plugins.len().saturating_sub(PLUGINS_REMEMBERED);
    all.plugins.drain(..surplus);
    let folded = Line {
        version: 1,
        since_millis: all.since_millis.unwrap_or(line.since_millis),
        runs: all.runs,
        plugins: all.plugins,
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::Builder::new().prefix(".plugin-use-").tempfile_in(folder)?;
    serde_json::to_writer(&mut new, &folded)?;
    new.write_all(b"\n")?;
    new.as_file().sync_data()?;
    new.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, digest: &str, calls: u64, at: i64) -> Line {
        let used = FunctionUse { calls, cpu_nanos: 1_000, peak_memory_bytes: calls * 100, ..FunctionUse::default() };
        let functions = BTreeMap::from([("tools.call".to_owned(), used)]);
        let plugin =
            PluginUse { name: name.to_owned(), publisher: "test".to_owned(), digest: digest.to_owned(), functions };
        Line { version: 1, since_millis: at, runs: 1, plugins: vec![plugin] }
    }

    fn places() -> (tempfile::TempDir, Places, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::beneath(dir.path());
        let file = places.state.join(FILE);
        (dir, places, file)
    }

    #[test]
    fn lines_are_summed_by_plugin_and_version() {
        let (_dir, places, file) = places();
        assert_eq!(recorded_plugin_use(&places).unwrap(), RecordedUse::default());
        for (name, digest, calls, at) in
            [("a", "1", 2, 500), ("b", "1", 1, 400), ("a", "1", 3, 600), ("a", "2", 1, 700)]
        {
            append(&file, &line(name, digest, calls, at)).unwrap();
        }
        let all = recorded_plugin_use(&places).unwrap();
        assert_eq!((all.since_millis, all.runs, all.damaged_lines), (Some(400), 4, 0));
        let sums: Vec<(&str, &str, u64)> = all
            .plugins
            .iter()
            .map(|plugin| (&*plugin.name, &*plugin.digest, plugin.functions["tools.call"].calls))
            .collect();
        assert_eq!(sums, [("b", "1", 1), ("a", "1", 5), ("a", "2", 1)]);
        assert_eq!(all.plugins[1].functions["tools.call"].peak_memory_bytes, 300);
    }

    #[test]
    fn a_line_that_was_cut_costs_itself_only() {
        let (_dir, places, file) = places();
        append(&file, &line("a", "1", 1, 1)).unwrap();
        let whole = std::fs::read(&file).unwrap();
        File::options().append(true).open(&file).unwrap().write_all(&whole[..whole.len() / 2]).unwrap();
        append(&file, &line("a", "1", 1, 1)).unwrap();
        File::options().append(true).open(&file).unwrap().write_all(b"\xff\0{\"version\":2}\n[[[\n").unwrap();
        append(&file, &line("a", "1", 1, 1)).unwrap();
        let all = recorded_plugin_use(&places).unwrap();
        assert_eq!((all.runs, all.damaged_lines), (3, 3));
    }

    #[test]
    fn the_file_is_folded_and_bounded() {
        let (_dir, places, file) = places();
        let runs = 3_000u64;
        for n in 0..runs {
            append(&file, &line(&format!("plugin-{}", n % 300), "1", 1, 5)).unwrap();
            assert!(std::fs::metadata(&file).unwrap().len() < USE_FILE_FOLDED_BYTES + 1_000);
        }
        let all = recorded_plugin_use(&places).unwrap();
        assert_eq!(all.runs, runs);
        // Of three hundred plugins those are left out that were not used for longest.
        assert!((200..=300).contains(&all.plugins.len()), "{}", all.plugins.len());
        assert_eq!(std::fs::read_dir(places.state).unwrap().count(), 1);
        // What is not ours is begun anew.
        std::fs::write(&file, vec![b'x'; 9 << 20]).unwrap();
        append(&file, &line("a", "1", 1, 5)).unwrap();
        assert!(std::fs::metadata(&file).unwrap().len() < 1_000);
    }

    #[test]
    fn processes_that_write_at_once_lose_nothing() {
        let (_dir, places, file) = places();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..700 {
                        // Refused while another writes: whoever records tries again later.
                        while append(&file, &line("a", "1", 1, 1)).is_err() {}
                    }
                });
            }
        });
        let all = recorded_plugin_use(&places).unwrap();
        assert_eq!((all.runs, all.damaged_lines), (2_800, 0));
    }

    #[test]
    fn what_lies_in_its_place_is_left_alone() {
        let (dir, places, file) = places();
        std::fs::create_dir(&places.state).unwrap();
        let target = dir.path().join("target");
        std::os::unix::fs::symlink(&target, &file).unwrap();
        assert!(append(&file, &line("a", "1", 1, 1)).is_err());
        assert!(!target.exists());
        std::fs::remove_file(&file).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        assert!(append(&file, &line("a", "1", 1, 1)).is_err());
        assert!(recorded_plugin_use(&places).is_err());
    }
}
