//! Which folders a sandbox is about: what children never reach, what stays reachable, and by which names else it could be reached.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};

use super::{SandboxBackend, SandboxError, SandboxGap, sockets};

/// Folders that children of bubblewrap have of their own, or that lead to nothing of the disk.
const OWN_FOLDERS: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];
/// Folders in which nothing of a user's lies; of `/dev` that is not true of `/dev/shm`.
const SYSTEM_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Variables that go with those that name a socket ([`sockets::WITHHELD`]): of agents, buses, and programs that type into the user's terminals for
/// whoever asks.
const WITHHELD_TOO: [&str; 6] =
    ["SSH_AGENT_PID", "DBUS_SESSION_BUS_PID", "DBUS_STARTER_ADDRESS", "TMUX_PANE", "STY", "ZELLIJ"];

/// The most of the table of mounts that is read, in bytes.
const MOUNTS_LIMIT_BYTES: usize = 4 << 20;

/// The most entries of a reserved folder that are looked at for being links, and the most links that lead to each other.
const LINKS_LOOKED_FOR: usize = 1024;
const LINK_HOPS: usize = 40;

/// What a session's sandbox is about.
#[derive(Clone, Debug, Default)]
pub struct SandboxGround {
    /// Folders that no child reaches, absolute; made, for this user alone, where they are not there yet.
    pub reserved: Vec<PathBuf>,
    /// Folders of the host that children reach only where that was granted ([`Sandbox::within`](crate::Sandbox::within)), absolute; made as
    /// reserved ones are.
    pub held: Vec<PathBuf>,
    /// The working folder. Children of whoever was not granted it do not reach it. None: nothing is kept from them for being that.
    pub work: Option<PathBuf>,
    /// Folders that stay reachable although they may lie in `/tmp`, absolute: the working folder, what was granted, the home.
    pub kept: Vec<PathBuf>,
    /// Folders that guests and children write to: no program that makes the sandbox is taken from there.
    pub writable: Vec<PathBuf>,
    /// A folder of the session's own, which becomes its children's `/tmp`. None: each child has an empty one.
    pub temp: Option<PathBuf>,
    /// The environment that children are given: where buses and agents listen is read from it.
    pub environment: Vec<(OsString, OsString)>,
}

impl SandboxGround {
    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        let (_, value) = self.environment.iter().find(|(known, _)| known == name)?;
        Some(value.as_os_str()).filter(|value| !value.is_empty())
    }

    pub(super) fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }

    pub(super) fn environment_of_child(&self, mut env: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        env.retain(|(name, value)| {
            let is_withheld = sockets::WITHHELD.iter().chain(&WITHHELD_TOO).any(|withheld| name == withheld);
            // Addresses of engines on a network stay.
            let is_engine =
                (name == "DOCKER_HOST" || name == "CONTAINER_HOST") && value.as_bytes().starts_with(b"unix:");
            !is_withheld && !is_engine
        });
        for (name, value) in &mut env {
            // Where it lay is not there: in the old /tmp, or in /run.
            let hidden =
                |path: &Path| path.starts_with("/run") || path.starts_with(real_temp()) || path.starts_with("/tmp");
            if name == "TMPDIR"
                && hidden(Path::new(value))
                && !self.kept.iter().any(|kept| Path::new(value).starts_with(kept))
            {
                *value = "/tmp".into();
            }
        }
        env
    }
}

/// What follows from a ground, on this machine, now, for one of the means.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The reserved and held folders as they are, by every name that a mount gives them; none within another.
    pub covers: Vec<PathBuf>,
    /// The working folder, by every name that a mount gives it.
    pub work: Vec<PathBuf>,
    /// Files in whose place a reserved folder would be; what leads to them is held too.
    pub in_the_way: Vec<PathBuf>,
    /// Files that links in reserved folders lead to, without links: a user's settings among other such files. They are only read.
    pub linked: Vec<PathBuf>,
    /// All that stays reachable, without links.
    pub reachable: Vec<PathBuf>,
    /// Folders of `/tmp` that stay what they are, outer ones first; their own mount points lie in `temp`.
    pub kept: Vec<PathBuf>,
    /// What lies between `/tmp` and the kept folders in it; made in `temp`, and held so that no child puts a link there.
    pub steps: Vec<PathBuf>,
    /// The session's own, without links; none for an empty one each.
    pub temp: Option<PathBuf>,
    /// The device and number of that folder.
    temp_is: Option<(u64, u64)>,
    /// `/tmp` without links; none where it is not hidden.
    pub temp_at: Option<PathBuf>,
    /// Whether children have the folders of the system for themselves.
    has_own_folders: bool,
    /// The gaps that the folders and the user make.
    pub gaps: Vec<SandboxGap>,
}

impl Plan {
    /// Makes the reserved and held folders that are not there, so that there is something to hold.
    ///
    /// What lies in `/tmp` or in `/run` is hidden by bubblewrap, which gives children their own; Landlock has to keep it from them.
    pub fn of(ground: &SandboxGround, backend: SandboxBackend) -> Result<Self, SandboxError> {
        let mut plan = Self { has_own_folders: backend == SandboxBackend::Bubblewrap, ..Self::default() };
        let mut covers = Vec::new();
        let none_lies_in: &[&str] = if plan.has_own_folders { &OWN_FOLDERS } else { &SYSTEM_FOLDERS };
        let mut held = Vec::new();
        let mut linked_folders = Vec::new();
        for (number, folder) in ground.reserved.iter().chain(&ground.held).enumerate() {
            let in_system = none_lies_in.iter().any(|own| folder.starts_with(own)) && !folder.starts_with("/dev/shm");
            if !folder.is_absolute() || in_system {
                continue;
            }
            for link in replaceable_links(folder) {
                plan.gaps.push(SandboxGap::Link(link));
            }
            match made(folder) {
                Ok(Made::There(real)) => {
                    if number >= ground.reserved.len() {
                        held.push(real.clone());
                    } else {
                        linked_folders.extend(plan.follow_links(&real));
                    }
                    covers.push(real);
                }
                // Nor can a child make it: the file in its way is held.
                Ok(Made::InTheWay(file)) => plan.in_the_way.push(file),
                Ok(Made::Never) => {}
                Err(source) => return Err(SandboxError::Ground { path: folder.clone(), source: Arc::new(source) }),
            }
        }
        let mut kept: Vec<PathBuf> = ground.kept.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
        let work = ground.work.as_ref().and_then(|work| std::fs::canonicalize(work).ok());
        kept.extend(work.clone());
        // Held ones stay where they are, to be covered there: parts of them may be granted.
        let mut stay = kept.clone();
        stay.extend(held);
        for (link, folder) in linked_folders {
            // What it leads to may be where all work is done.
            match stay.iter().any(|stay| stay.starts_with(&folder)) || folder.parent().is_none() {
                true => plan.gaps.push(SandboxGap::LeadsOut(link)),
                false => covers.push(folder),
            }
        }
        let temp = plan.find_temp(ground.temp.as_deref(), &covers[..])?;
        if plan.has_own_folders {
            let work_in_temp = work.iter().chain(ground.work.is_none().then(|| kept.first()).flatten());
            let is_work = work_in_temp.into_iter().any(|work| real_temp().starts_with(work));
            plan.place_temp(temp, &stay, is_work)?;
        } else {
            plan.temp = temp;
        }
        let mounts = Mount::all();
        let by_every_name = |folders: Vec<PathBuf>| {
            let mut all: Vec<PathBuf> = folders.iter().flat_map(|folder| aliases(folder, &mounts)).collect();
            all.extend(folders);
            all.sort();
            all.dedup();
            all
        };
        let mut covers = by_every_name(covers);
        covers.retain(|path| !plan.is_elsewhere(path));
        let outer = covers.clone();
        covers.retain(|path| !outer.iter().any(|other| other != path && path.starts_with(other)));
        let mut work = by_every_name(work.into_iter().collect());
        work.retain(|path| !plan.is_elsewhere(path));
        (plan.covers, plan.work, plan.reachable) = (covers, work, kept);
        if rustix::process::geteuid().is_root() {
            plan.gaps.push(SandboxGap::Root);
        }
        Ok(plan)
    }

    /// Takes up the files that links in a reserved folder lead to; gives the links to folders, and those folders.
    fn follow_links(&mut self, reserved: &Path) -> Vec<(PathBuf, PathBuf)> {
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(reserved).into_iter().flatten().flatten().take(LINKS_LOOKED_FOR) {
            if !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                continue;
            }
            let link = entry.path();
            match std::fs::canonicalize(&link) {
                Ok(target)
                    if target.starts_with(reserved) || SYSTEM_FOLDERS.iter().any(|own| target.starts_with(own)) => {}
                Ok(target) if target.is_dir() => folders.push((link.clone(), target)),
                Ok(target) => self.linked.push(target),
                // A program could make what it leads to.
                Err(_) => self.gaps.push(SandboxGap::LeadsOut(link.clone())),
            }
            let mut hop = link;
            for _ in 0..LINK_HOPS {
                let Ok(next) = std::fs::read_link(&hop) else { break };
                hop = hop.parent().map_or_else(|| next.clone(), |parent| parent.join(&next));
                for replaceable in replaceable_links(&hop) {
                    let gap = SandboxGap::Link(replaceable);
                    if !self.gaps.contains(&gap) {
                        self.gaps.push(gap);
                    }
                }
            }
        }
        folders
    }

    /// The session's own, without links on the way. Children of other sessions may reach where it lies.
    fn find_temp(&mut self, temp: Option<&Path>, reserved: &[PathBuf]) -> Result<Option<PathBuf>, SandboxError> {
        let Some(temp) = temp else { return Ok(None) };
        let found = std::fs::symlink_metadata(temp).ok().filter(Metadata::is_dir);
        let (Some(found), Ok(real)) = (found, std::fs::canonicalize(temp)) else { return Err(replaced(temp)) };
        if reserved.iter().any(|folder| folder.starts_with(&real)) {
            return Err(replaced(temp));
        }
        self.temp_is = Some((found.dev(), found.ino()));
        Ok(Some(real))
    }

    /// Whether the session's own temporary folder is still what it was.
    pub fn check_temp(&self) -> Result<(), SandboxError> {
        let (Some(temp), Some(was)) = (&self.temp, self.temp_is) else { return Ok(()) };
        match std::fs::symlink_metadata(temp) {
            Ok(met) if met.is_dir() && (met.dev(), met.ino()) == was => Ok(()),
            _ => Err(replaced(temp)),
        }
    }

    fn place_temp(&mut self, temp: Option<PathBuf>, kept: &[PathBuf], is_work: bool) -> Result<(), SandboxError> {
        let at = real_temp();
        // A home that is /tmp itself, as containers have it, is hidden with it; a working folder is not.
        if is_work {
            self.gaps.push(SandboxGap::WorkInTemp);
            return Ok(());
        }
        self.temp = temp;
        let mut within: Vec<PathBuf> =
            kept.iter().filter(|path| path.starts_with(&at) && **path != at).cloned().collect();
        within.sort();
        within.dedup();
        let outer = within.clone();
        within.retain(|path| !outer.iter().any(|other| other != path && path.starts_with(other)));
        for path in &within {
            let Ok(relative) = path.strip_prefix(&at) else { continue };
            let ways: Vec<&Path> = relative.ancestors().filter(|way| !way.as_os_str().is_empty()).collect();
            // The last one too, so that it is not a child's to make.
            for way in ways.iter().rev() {
                if let Some(temp) = &self.temp {
                    let made = DirBuilder::new().recursive(true).mode(0o755).create(temp.join(way));
                    made.map_err(|source| SandboxError::Ground { path: temp.join(way), source: Arc::new(source) })?;
                    if at.join(way) != *path {
                        self.steps.push(at.join(way));
                    }
                }
            }
        }
        self.steps.sort();
        self.steps.dedup();
        self.kept = within;
        self.temp_at = Some(at);
        Ok(())
    }

    /// Whether children have something of their own there, and do not see what lies there outside.
    pub fn is_elsewhere(&self, path: &Path) -> bool {
        let in_temp = self.temp_at.as_ref().is_some_and(|temp| path.starts_with(temp));
        let is_kept = self.kept.iter().any(|kept| path.starts_with(kept));
        self.has_own_folders && (OWN_FOLDERS.iter().any(|own| path.starts_with(own)) || (in_temp && !is_kept))
    }

    /// Where a child starts that does not reach the folder that it was to start in.
    pub fn elsewhere(&self) -> PathBuf {
        match (&self.temp_at, &self.temp) {
            (Some(at), _) => at.clone(),
            (None, Some(temp)) => temp.clone(),
            (None, None) => PathBuf::from("/"),
        }
    }
}

/// `/tmp` without links.
pub(super) fn real_temp() -> PathBuf {
    std::fs::canonicalize("/tmp").unwrap_or_else(|_| PathBuf::from("/tmp"))
}

fn replaced(temp: &Path) -> SandboxError {
    SandboxError::Failed { reason: format!("{} is not the folder that was made there; start anew", temp.display()) }
}

enum Made {
    /// Without links.
    There(PathBuf),
    /// It cannot be, while this file is where it is.
    InTheWay(PathBuf),
    /// This user cannot make it.
    Never,
}

fn made(folder: &Path) -> io::Result<Made> {
    match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Ok(()) => std::fs::canonicalize(folder).map(Made::There),
        Err(error) => {
            if let Ok(real) = std::fs::canonicalize(folder) {
                return Ok(if real.is_dir() { Made::There(real) } else { Made::InTheWay(real) });
            }
            match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Ok(Made::Never),
                io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                    let real = folder.ancestors().skip(1).find_map(|way| std::fs::canonicalize(way).ok());
                    Ok(real.filter(|real| !real.is_dir()).map_or(Made::Never, Made::InTheWay))
                }
                _ => Err(error),
            }
        }
    }
}

/// Whether this user may rename it, as far as the folder that it lies in says.
pub(super) fn is_renamable(path: &Path) -> bool {
    path.parent().is_some_and(|parent| access(parent, Access::WRITE_OK).is_ok())
}

/// Links on the way to a folder that this user may replace.
fn replaceable_links(folder: &Path) -> Vec<PathBuf> {
    let mut way = PathBuf::new();
    let mut links = Vec::new();
    for part in folder.components() {
        way.push(part);
        let is_link = std::fs::symlink_metadata(&way).is_ok_and(|met| met.file_type().is_symlink());
        if is_link && matches!(part, Component::Normal(_)) && is_renamable(&way) {
            links.push(way.clone());
        }
    }
    links
}

/// A line of the table of mounts.
struct Mount {
    device: Vec<u8>,
    /// What of the file system is shown.
    root: PathBuf,
    at: PathBuf,
}

impl Mount {
    fn all() -> Vec<Self> {
        let bytes = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(MOUNTS_LIMIT_BYTES)];
        bytes.split(|byte| *byte == b'\n').filter_map(Self::read).collect()
    }

    fn read(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ').skip(2);
        let device = words.next()?.to_vec();
        let (root, at) = (unescaped(words.next()?), unescaped(words.next()?));
        Some(Self { device, root, at })
    }
}

/// The kernel writes blanks, tabs, newlines and backslashes as three octal digits.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d)));
        match digits {
            Some(digits) => {
                bytes.push(digits.iter().fold(0_u8, |all, digit| all.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The other names of a folder: file systems are mounted twice (ostree's `/var`, a btrfs top level, bind mounts of homes).
fn aliases(folder: &Path, mounts: &[Mount]) -> Vec<PathBuf> {
    // Of two mounts at one place the later one is seen.
    let own = mounts.iter().filter(|mount| folder.starts_with(&mount.at));
    let Some(own) = own.max_by_key(|mount| mount.at.as_os_str().len()) else { return Vec::new() };
    let Ok(relative) = folder.strip_prefix(&own.at) else { return Vec::new() };
    let inner = own.root.join(relative);
    let met = std::fs::metadata(folder).ok();
    let others = mounts.iter().filter(|mount| mount.device == own.device);
    let names = others.filter_map(|mount| {
        if let Ok(rest) = inner.strip_prefix(&mount.root) {
            let name = if rest.as_os_str().is_empty() { mount.at.clone() } else { mount.at.join(rest) };
            return (name != folder && is_same(&met, &std::fs::metadata(&name).ok())).then_some(name);
        }
        // A part of it is shown elsewhere.
        mount.root.starts_with(&inner).then(|| mount.at.clone())
    });
    names.filter(|name| !name.starts_with(folder) && name.is_dir()).collect()
}

fn is_same(one: &Option<Metadata>, other: &Option<Metadata>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Whether it is a folder with something in it.
pub(super) fn has_entries(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Whether nobody but root, or somebody outside of this user namespace, can have put the file there: neither this user nor a child of its.
pub(super) fn is_others(path: &Path) -> bool {
    let me = rustix::process::geteuid();
    path.ancestors().all(|part| {
        std::fs::metadata(part).is_ok_and(|met| {
            let is_mine = met.uid() == me.as_raw() && !me.is_root();
            !is_mine && met.permissions().mode() & 0o022 == 0
        })
    })
}

#[cfg(test)]
#[path = "ground_tests.rs"]
mod tests;
