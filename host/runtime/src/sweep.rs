//! Spool folders that nobody needs any more: a killed run leaves up to 64 MiB behind, and a session that nobody goes on with keeps its own.

use crate::spool::{is_at, open_folder};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::task::JoinHandle;

/// How long a spool folder stays after its last change: a session that is gone on with after a weekend, or a week of holidays, finds the
/// outputs that its text names; of an older one the model has long read what it needed.
pub const SPOOL_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The most folders that one start removes: a backlog goes little by little, never as one long burst of disk work.
pub const SPOOLS_REMOVED_A_START: usize = 100;
/// What a folder is called while it is being removed, before its own name.
const REMOVED_PREFIX: &str = ".removed-";

/// The removal, on a thread of its own beside the session. Ends after the folder in hand when this is dropped.
pub(crate) struct Sweep {
    stop: Arc<AtomicBool>,
    /// On the runtime's blocking threads, which the runtime joins at its end.
    _thread: JoinHandle<()>,
}

impl Sweep {
    /// Begins. Needs a tokio runtime.
    pub fn begin(folder: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = tokio::task::spawn_blocking(move || {
            // Nothing to say where it fails: the next start tries again.
            let _ = remove_old(&folder, SystemTime::now(), &stopped);
        });
        Self { stop, _thread: thread }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Removes what is old; how many folders that were.
fn remove_old(spools: &Path, now: SystemTime, stop: &AtomicBool) -> io::Result<usize> {
    let mut removed = 0;
    for entry in std::fs::read_dir(spools)? {
        if removed == SPOOLS_REMOVED_A_START || stop.load(Ordering::Relaxed) {
            break;
        }
        let entry = entry?;
        // Of the entry itself: a link is no folder here. One that fails costs only itself.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && remove(spools, &entry.path(), now).unwrap_or(false) {
            removed += 1;
        }
    }
    Ok(removed)
}

fn remove(spools: &Path, folder: &Path, now: SystemTime) -> io::Result<bool> {
    let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { return Ok(false) };
    let left_over = name.starts_with(REMOVED_PREFIX);
    // Only what is called as spools are; and a glance first, because most are young.
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !left_over && (!is_plain || !is_old(std::fs::symlink_metadata(folder)?.modified()?, now)) {
        return Ok(false);
    }
    let held = open_folder(folder)?;
    // Whoever has the session open holds a lock; where locks do not work, nothing is removed.
    if held.try_lock().is_err() || !is_at(&held, folder)? {
        return Ok(false);
    }
    if left_over {
        std::fs::remove_dir_all(folder)?;
        return Ok(true);
    }
    if !all_old(folder, now)? {
        return Ok(false);
    }
    // Its name first: whoever opens the session from here on makes a folder of its own.
    let gone = spools.join(format!("{REMOVED_PREFIX}{name}"));
    std::fs::rename(folder, &gone)?;
    std::fs::remove_dir_all(&gone)?;
    Ok(true)
}

/// Whether nothing in the folder is young. Links are looked at, not followed.
fn all_old(folder: &Path, now: SystemTime) -> io::Result<bool> {
    if !is_old(std::fs::symlink_metadata(folder)?.modified()?, now) {
        return Ok(false);
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let met = entry.metadata()?;
        if !is_old(met.modified()?, now) || (met.is_dir() && !all_old(&entry.path(), now)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A time in the future is not old: a clock was set.
fn is_old(changed: SystemTime, now: SystemTime) -> bool {
    now.duration_since(changed).is_ok_and(|age| age > SPOOL_KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::HeldSpool;
    use std::fs::File;
    use std::os::unix::fs::symlink;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn age(path: &Path, days: u32) {
        File::open(path).unwrap().set_modified(SystemTime::now() - days * DAY).unwrap();
    }

    /// A spool folder with one file, both last changed so many days ago.
    fn spool(spools: &Path, name: &str, days: u32) -> PathBuf {
        let folder = spools.join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("bash-1.log"), "output").unwrap();
        age(&folder.join("bash-1.log"), days);
        age(&folder, days);
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn sweep(spools: &Path) -> usize {
        remove_old(spools, SystemTime::now(), &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn old_spools_that_nobody_holds_go_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let spools = dir.path().join("spool");
        std::fs::create_dir(&spools).unwrap();
        let others = spool(dir.path(), "others", 30);
        spool(&spools, "old", 8);
        spool(&spools, "young", 6);
        spool(&spools, "not a spool", 30);
        spool(&spools, ".removed-half", 0);
        let written = spool(&spools, "written", 30);
        age(&written.join("bash-1.log"), 1);
        let below = spool(&spools, "below", 30);
        spool(&below, "folder", 1);
        age(&below, 30);
        let linked = spool(&spools, "linked", 30);
        symlink(&others, linked.join("out")).unwrap();
        age(&linked, 30);
        symlink(&others, spools.join("link")).unwrap();
        spool(&spools, "held", 30);
        let held = HeldSpool::open(&spools.join("held")).unwrap();
        age(&spools.join("held"), 30);
        std::fs::write(spools.join("file"), "").unwrap();
        age(&spools.join("file"), 30);
        // A link's own time is that of now, so its folder stays; with an old one the folder would go, and the link with it.
        assert_eq!(sweep(&spools), 2);
        let kept = ["below", "file", "held", "link", "linked", "not a spool", "written", "young"];
        assert_eq!(names(&spools), kept);
        assert_eq!(names(&others), ["bash-1.log"]);
        let mut later = SystemTime::now() + 10 * DAY;
        assert_eq!(remove_old(&spools, later, &AtomicBool::new(true)).unwrap(), 0, "it was told to stop");
        assert_eq!(remove_old(&spools, later, &AtomicBool::new(false)).unwrap(), 4);
        assert_eq!(names(&spools), ["file", "held", "link", "not a spool"]);
        assert_eq!(names(&others), ["bash-1.log"]);
        drop(held);
        later += DAY;
        assert_eq!(remove_old(&spools, later, &AtomicBool::new(false)).unwrap(), 1);
        assert_eq!(names(&spools), ["file", "link", "not a spool"]);
        assert!(remove_old(&dir.path().join("none"), later, &AtomicBool::new(false)).is_err());
    }

    #[test]
    fn a_backlog_goes_little_by_little() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..SPOOLS_REMOVED_A_START + 3 {
            spool(dir.path(), &number.to_string(), 8);
        }
        assert_eq!(sweep(dir.path()), SPOOLS_REMOVED_A_START);
        assert_eq!(sweep(dir.path()), 3);
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }
}
