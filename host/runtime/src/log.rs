//! The log: a bounded file of plugins' lines and faults. Never the screen.

use crate::places::create_private;
use pith_protocol::iso_from_millis;
use rustix::fs::OFlags;
use std::{
    fmt::Write as _,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

/// The log's length at which it becomes `pith.log.1` and a new one begins, in bytes.
pub const LOG_LIMIT_BYTES: u64 = 4 << 20;
/// The most of one message, in bytes.
const MESSAGE_LIMIT_BYTES: usize = 128 << 10;

/// Writes lines to a file: time, level, plugin, message, the message escaped to one line of visible ASCII and letters. Where the file
/// cannot be written, lines are lost: a log must not end what it watches.
pub(crate) struct FileLog {
    path: PathBuf,
    open: Mutex<Option<File>>,
}

impl FileLog {
    /// The file is created at the first line.
    pub fn new(path: PathBuf) -> Self {
        Self { path, open: Mutex::new(None) }
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.as_ref()
            && file.metadata()?.len() >= LOG_LIMIT_BYTES
        {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
            *open = None;
        }
        let mut file = match open.take() {
            Some(file) => file,
            None => {
                if let Some(folder) = self.path.parent() {
                    create_private(folder)?;
                }
                // What a plugin with this folder put in its place is neither followed nor waited for.
                let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
                let flags = i32::try_from(flags).map_err(io::Error::other)?;
                let file =
                    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(&self.path)?;
                if !file.metadata()?.is_file() {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                file
            }
        };
        let written = file.write_all(line.as_bytes());
        *open = Some(file);
        written
    }
}

impl FileLog {
    /// Writes one line; `message` is foreign.
    pub fn write(&self, level: &str, plugin: &str, message: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let time = iso_from_millis(i64::try_from(now).unwrap_or_default());
        let (plugin, message) = (escaped(plugin, 100), escaped(message, MESSAGE_LIMIT_BYTES));
        // What cannot be logged is lost, see above.
        let _ = self.append(&format!("{time} {level} {plugin} {message}\n"));
    }
}

/// Foreign text on one line: control characters, line ends and what changes the direction or is not seen become escapes.
fn escaped(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    for c in text.chars() {
        if out.len() >= limit {
            out.push_str("...");
            break;
        }
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_alphanumeric() || c == ' ' || c.is_ascii_graphic() => out.push(c),
            c => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_log_that_is_a_fifo_or_a_link_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo.log");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        FileLog::new(fifo).write("warn", "mine", "this returns");
        let (link, target) = (dir.path().join("link.log"), dir.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        FileLog::new(link).write("warn", "mine", "not there");
        assert!(!target.exists());
    }

    #[test]
    fn foreign_text_is_one_harmless_line_and_the_file_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log/pith.log");
        let log = FileLog::new(path.clone());
        assert!(!dir.path().join("log").exists());
        let write = |message: &str| log.write("warn", "mine", message);
        write("a\nb \u{1b}[31m \u{202e}x\\ é");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("Z warn mine a\\nb \\u{1b}[31m \\u{202e}x\\\\ é\n"), "{text}");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        let long = "x".repeat(MESSAGE_LIMIT_BYTES + 10);
        for _ in 0..100 {
            write(&long);
        }
        let lengths =
            ["pith.log", "pith.log.1"].map(|name| std::fs::metadata(path.with_file_name(name)).unwrap().len());
        let most = LOG_LIMIT_BYTES + MESSAGE_LIMIT_BYTES as u64 + 200;
        assert!(lengths.iter().all(|length| *length <= most), "{lengths:?}");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 2);
    }
}
