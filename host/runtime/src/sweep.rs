//! What nobody needs any more: spool folders, of which a killed run leaves up to 64 MiB behind and a session that nobody goes on with keeps its
//! own; scratch folders of processes that were killed; and what lies in the trash of sessions for longer than it is kept.
//!
//! Works beneath the descriptors of folders that are none of a link's: programs may have written beside them before.

use crate::{
    library::empty_trash,
    places::Places,
    remove::{is_in, names, open_holder, open_in, remove_in, rename_in},
    scratch::{MARK, is_scratch_name, usable},
    spool::open_folder,
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, statat};
use std::{
    ffi::{CStr, CString, OsStr},
    fs::File,
    io,
    os::unix::fs::MetadataExt,
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
/// The most folders that one start removes, of each kind: a backlog goes little by little, never as one long burst of disk work.
pub const SPOOLS_REMOVED_A_START: usize = 100;
/// How long a scratch folder stays that nobody holds: its owner may just be making it.
pub const SCRATCH_KEPT: Duration = Duration::from_secs(10 * 60);
/// What a folder is called while it is being removed, before its own name.
const REMOVED_PREFIX: &str = ".removed-";
/// The most folders within each other that are looked at for something young; with more a spool folder stays.
const DEPTH_MAX: usize = 32;

/// The removal, on a thread of its own beside the session. Ends after the folder in hand when this is dropped.
pub(crate) struct Sweep {
    stop: Arc<AtomicBool>,
    /// On the runtime's blocking threads, which the runtime joins at its end.
    _thread: JoinHandle<()>,
}

impl Sweep {
    /// Begins, with the spools and with the scratch folders in `temp`. Needs a tokio runtime.
    pub fn begin(places: &Places, temp: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (spools, reserved) = (places.spools(), places.reserved());
        let places = places.clone();
        let thread = tokio::task::spawn_blocking(move || {
            // Nothing to say where it fails: the next start tries again.
            if usable(&spools, &reserved).is_ok() {
                let _ = remove_old(&spools, SystemTime::now(), &stopped);
            }
            let _ = remove_left(&temp, SystemTime::now(), &stopped);
            if !stopped.load(Ordering::Relaxed) {
                empty_trash(&places, SystemTime::now());
            }
        });
        Self { stop, _thread: thread }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Removes the spool of a session that was deleted. Whether there was one and it is gone: one that somebody holds stays.
pub(crate) fn remove_spool_of(places: &Places, session: &str) -> bool {
    let remove = || -> io::Result<bool> {
        usable(&places.spools(), &places.reserved()).map_err(io::Error::other)?;
        let path = places.spool(session);
        let name = path.file_name().unwrap_or_default();
        let called = CString::new(name.as_encoded_bytes()).map_err(io::Error::other)?;
        let spools = open_folder(&places.spools())?;
        let held = open_in(&spools, &called)?;
        if held.try_lock().is_err() || !is_in(&held, &spools, &called)? {
            return Ok(false);
        }
        remove_renamed(&spools, &called, &name.to_string_lossy())?;
        Ok(true)
    };
    remove().unwrap_or(false)
}

/// Its name first: whoever opens the session from here on makes a folder of its own.
fn remove_renamed(spools: &File, called: &CStr, name: &str) -> io::Result<()> {
    let gone = CString::new(format!("{REMOVED_PREFIX}{name}")).map_err(io::Error::other)?;
    rename_in(spools, called, &gone)?;
    remove_in(spools, &gone, None)
}

/// Removes spool folders that are old; how many folders that were.
fn remove_old(spools: &Path, now: SystemTime, stop: &AtomicBool) -> io::Result<usize> {
    let spools = open_folder(spools)?;
    each(&spools, stop, |name| remove_spool(&spools, name, now))
}

/// Removes scratch folders that were left; how many that were.
fn remove_left(temp: &Path, now: SystemTime, stop: &AtomicBool) -> io::Result<usize> {
    let temp = open_holder(temp)?;
    each(&temp, stop, |name| remove_scratch(&temp, name, now))
}

/// One that fails costs only itself.
fn each(folder: &File, stop: &AtomicBool, mut remove: impl FnMut(&CStr) -> io::Result<bool>) -> io::Result<usize> {
    let mut removed = 0;
    for name in names(folder)? {
        if removed == SPOOLS_REMOVED_A_START || stop.load(Ordering::Relaxed) {
            break;
        }
        if remove(&name?).unwrap_or(false) {
            removed += 1;
        }
    }
    Ok(removed)
}

fn remove_spool(spools: &File, called: &CStr, now: SystemTime) -> io::Result<bool> {
    let Ok(name) = called.to_str() else { return Ok(false) };
    let left_over = name.starts_with(REMOVED_PREFIX);
    // Only what is called as spools are; and a glance first, because most are young.
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let met = statat(spools, called, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_folder = FileType::from_raw_mode(met.st_mode) == FileType::Directory;
    if !is_folder || (!left_over && (!is_plain || !is_old(changed(&met), now))) {
        return Ok(false);
    }
    let held = open_in(spools, called)?;
    // Whoever has the session open holds a lock; where locks do not work, nothing is removed.
    if held.try_lock().is_err() || !is_in(&held, spools, called)? {
        return Ok(false);
    }
    if left_over {
        remove_in(spools, called, None)?;
        return Ok(true);
    }
    if !all_old(&held, now, 0)? {
        return Ok(false);
    }
    remove_renamed(spools, called, name)?;
    Ok(true)
}

/// Only what this user's Pith made, known by its name and by the file that its owner holds a lock on while it lives.
fn remove_scratch(temp: &File, called: &CStr, now: SystemTime) -> io::Result<bool> {
    if !called.to_str().is_ok_and(is_scratch_name) {
        return Ok(false);
    }
    let me = rustix::process::geteuid().as_raw();
    let folder = open_in(temp, called)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mark = File::from(openat(&folder, MARK, flags, Mode::empty())?);
    let (met, of_folder) = (mark.metadata()?, folder.metadata()?);
    let is_ours = met.is_file() && met.uid() == me && of_folder.uid() == me;
    let is_young = now.duration_since(met.modified()?).map_or(true, |age| age < SCRATCH_KEPT);
    if !is_ours || is_young || mark.try_lock().is_err() || !is_in(&folder, temp, called)? {
        return Ok(false);
    }
    remove_in(temp, called, Some(OsStr::new(MARK)))?;
    Ok(true)
}

/// Whether nothing in the folder is young. Links are looked at, not followed.
fn all_old(folder: &File, now: SystemTime, depth: usize) -> io::Result<bool> {
    if depth == DEPTH_MAX || !is_old(folder.metadata()?.modified()?, now) {
        return Ok(false);
    }
    for name in names(folder)? {
        let name = name?;
        let met = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !is_old(changed(&met), now) {
            return Ok(false);
        }
        let is_folder = FileType::from_raw_mode(met.st_mode) == FileType::Directory;
        if is_folder && !all_old(&open_in(folder, &name)?, now, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One before 1970 counts as young.
fn changed(met: &Stat) -> SystemTime {
    let seconds = u64::try_from(met.st_mtime).unwrap_or(u64::MAX >> 1);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or_else(SystemTime::now)
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

    fn listed(folder: &Path) -> Vec<String> {
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
        assert_eq!(listed(&spools), kept);
        assert_eq!(listed(&others), ["bash-1.log"]);
        let mut later = SystemTime::now() + 10 * DAY;
        assert_eq!(remove_old(&spools, later, &AtomicBool::new(true)).unwrap(), 0, "it was told to stop");
        assert_eq!(remove_old(&spools, later, &AtomicBool::new(false)).unwrap(), 4);
        assert_eq!(listed(&spools), ["file", "held", "link", "not a spool"]);
        assert_eq!(listed(&others), ["bash-1.log"]);
        drop(held);
        later += DAY;
        assert_eq!(remove_old(&spools, later, &AtomicBool::new(false)).unwrap(), 1);
        assert_eq!(listed(&spools), ["file", "link", "not a spool"]);
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
        assert_eq!(listed(dir.path()), Vec::<String>::new());
    }

    /// What a program could put there before its folders were closed to it.
    #[test]
    fn a_link_in_place_of_the_spools_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let sessions = dir.path().join("sessions");
        std::fs::create_dir(&sessions).unwrap();
        spool(&sessions, "old", 30);
        let spools = dir.path().join("spool");
        symlink(&sessions, &spools).unwrap();
        assert!(remove_old(&spools, SystemTime::now(), &AtomicBool::new(false)).is_err());
        assert_eq!(listed(&sessions), ["old"]);
    }

    #[tokio::test]
    async fn spools_among_what_is_reserved_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::beneath(&dir.path().canonicalize().unwrap());
        std::fs::create_dir_all(places.data.join("spool")).unwrap();
        spool(&places.data.join("spool"), "old", 30);
        symlink(&places.data, &places.state).unwrap();
        let mut sweep = Sweep::begin(&places, dir.path().join("none"));
        (&mut sweep._thread).await.unwrap();
        assert_eq!(listed(&places.data.join("spool")), ["old"]);
        // The same folder where it may be.
        std::fs::remove_file(&places.state).unwrap();
        std::fs::create_dir(&places.state).unwrap();
        std::fs::rename(places.data.join("spool"), places.spools()).unwrap();
        let mut sweep = Sweep::begin(&places, dir.path().join("none"));
        (&mut sweep._thread).await.unwrap();
        assert_eq!(listed(&places.spools()), Vec::<String>::new());
    }

    /// A scratch folder as it is left by a process that was killed.
    fn left(temp: &Path, name: &str, marked: bool) -> PathBuf {
        let folder = temp.join(name);
        std::fs::create_dir_all(folder.join("tmp/deep")).unwrap();
        std::fs::write(folder.join("tmp/deep/file"), "").unwrap();
        if marked {
            std::fs::write(folder.join(MARK), "").unwrap();
        }
        folder
    }

    #[test]
    fn scratch_folders_that_were_left_go_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let temp = dir.path();
        left(temp, "pith-abc123", true);
        left(temp, "pith-review", false);
        left(temp, "pith-notes-of-mine", true);
        left(temp, "other-abc123", true);
        let others = left(temp, "others", true);
        symlink(&others, temp.join("pith-linked")).unwrap();
        let held = left(temp, "pith-alive1", true);
        let held = File::open(held.join(MARK)).unwrap();
        held.try_lock_shared().unwrap();
        let sweep = |now| remove_left(temp, now, &AtomicBool::new(false)).unwrap();
        assert_eq!(sweep(SystemTime::now()), 0, "it is young");
        let later = SystemTime::now() + SCRATCH_KEPT + Duration::from_secs(1);
        assert_eq!(sweep(later), 1);
        let kept = ["other-abc123", "others", "pith-alive1", "pith-linked", "pith-notes-of-mine", "pith-review"];
        assert_eq!(listed(temp), kept);
        drop(held);
        assert_eq!(sweep(later), 1);
        assert!(!temp.join("pith-alive1").exists() && others.join("tmp/deep/file").exists());
    }
}
