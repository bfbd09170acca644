//! Who writes a session now: the lock on its file says whether somebody does, the index and the kernel's list of locks say who.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::{File, TryLockError},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// The longest list of locks that is read, in bytes.
const LOCKS_LIMIT_BYTES: u64 = 4 << 20;

/// A process that writes a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Holder {
    /// Its process id; 0 where that cannot be told.
    pub pid: u32,
    /// Since when, an RFC 3339 time; empty where that is not known.
    pub since: String,
    /// `interactive`, `print`, `json` ...; empty where that is not known.
    pub face: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("process ")?;
        match self.pid {
            0 => f.write_str("unknown")?,
            pid => write!(f, "{pid}")?,
        }
        if !self.face.is_empty() {
            write!(f, ", {}", self.face)?;
        }
        if !self.since.is_empty() {
            write!(f, ", since {}", self.since)?;
        }
        Ok(())
    }
}

/// Who holds the lock on a file. `noted` is who the index says: it counts if the lock is not said to be another's.
pub(crate) fn of(file: &Path, noted: Option<Holder>) -> Option<Holder> {
    // Readers need no lock, so whoever opens the session meanwhile waits for this one some microseconds at most.
    let opened = pith_os::open_regular(file).ok()?;
    match opened.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(named(&opened, noted)),
        _ => None,
    }
}

/// The holder of a file that is held.
pub(crate) fn named(held: &File, noted: Option<Holder>) -> Holder {
    let listed = listed(held);
    match (listed, noted) {
        (Some(pid), Some(noted)) if noted.pid == pid => noted,
        (Some(pid), _) => Holder { pid, ..Holder::default() },
        // The kernel's list is not to be had, or shows no processes of other containers.
        (None, Some(noted)) => noted,
        (None, None) => Holder::default(),
    }
}

/// The process that the kernel lists with an exclusive `flock` on the file.
fn listed(held: &File) -> Option<u32> {
    use std::io::Read;
    let met = held.metadata().ok()?;
    let mut text = String::new();
    File::open("/proc/locks").ok()?.take(LOCKS_LIMIT_BYTES).read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| pid_of(line, met.dev(), met.ino()))
}

/// `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`
fn pid_of(line: &str, dev: u64, ino: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, "FLOCK", _, "WRITE", pid, place, ..] = words.as_slice() else { return None };
    let mut parts = place.split(':');
    let mut hex = || u32::from_str_radix(parts.next()?, 16).ok();
    let (major, minor) = (hex()?, hex()?);
    let inode: u64 = parts.next()?.parse().ok()?;
    // Some file systems (btrfs, overlays) list another device than they tell: the inode decides, the device where it can be compared.
    let is_device = rustix::fs::major(dev) == major && rustix::fs::minor(dev) == minor;
    let pid: u32 = pid.parse().ok().filter(|pid| *pid > 0)?;
    (inode == ino && (is_device || major == 0)).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_file_is_told_by_the_lock_and_named_by_the_index() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let file = File::create(&path).unwrap();
        let me =
            Holder { pid: std::process::id(), since: "2026-01-01T00:00:00.000Z".to_owned(), face: "json".to_owned() };
        assert_eq!(of(&path, Some(me.clone())), None, "noted, and not held");
        file.lock().unwrap();
        let held = of(&path, Some(me.clone())).unwrap();
        assert_eq!(held, me);
        // A record that a killed process left, while another holds the file.
        let other = Holder { pid: 1, ..me.clone() };
        let held = of(&path, Some(other.clone())).unwrap();
        if std::fs::read_to_string("/proc/locks").is_ok_and(|text| text.contains(&format!(" {} ", me.pid))) {
            assert_eq!(held, Holder { pid: me.pid, ..Holder::default() });
        }
        drop(file);
        assert_eq!(of(&path, Some(me)), None);
        assert_eq!(of(&dir.path().join("none"), Some(other)), None);
    }

    #[test]
    fn the_kernels_list_is_read_as_it_is_written() {
        let dev = rustix::fs::makedev(0xfe, 1);
        let line = "12: FLOCK  ADVISORY  WRITE 4242 fe:01:56789 0 EOF";
        assert_eq!(pid_of(line, dev, 56789), Some(4242));
        for other in [
            "12: POSIX  ADVISORY  WRITE 4242 fe:01:56789 0 EOF",
            "12: FLOCK  ADVISORY  READ 4242 fe:01:56789 0 EOF",
            "12: FLOCK  ADVISORY  WRITE 4242 fe:01:5678 0 EOF",
            "12: FLOCK  ADVISORY  WRITE 4242 fe:02:56789 0 EOF",
            "12: FLOCK  ADVISORY  WRITE 0 fe:01:56789 0 EOF",
            "12: -> FLOCK  ADVISORY  WRITE 4242 fe:01:56789 0 EOF",
            "",
        ] {
            assert_eq!(pid_of(other, dev, 56789), None, "{other}");
        }
    }

    #[test]
    fn a_holder_is_told_in_few_words() {
        let holder = Holder { pid: 7, since: "2026-01-01T00:00:00.000Z".to_owned(), face: "print".to_owned() };
        assert_eq!(holder.to_string(), "process 7, print, since 2026-01-01T00:00:00.000Z");
        assert_eq!(Holder::default().to_string(), "process unknown");
    }
}
