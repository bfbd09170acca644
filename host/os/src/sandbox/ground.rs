//! Which folders a sandbox is about: what children never reach, what stays reachable, and by which names else it could be reached.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};

use super::{SandboxError, SandboxGap};

/// Folders that children have of their own, or that lead to nothing of the disk.
pub(super) const OWN_FOLDERS: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Variables that lead to what a child must not reach. Without them programs do not even try.
const WITHHELD: [&str; 6] = [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SESSION_BUS_PID",
    "DBUS_STARTER_ADDRESS",
];

/// The most of the table of mounts that is read, in bytes.
const MOUNTS_LIMIT_BYTES: usize = 4 << 20;

/// What a session's sandbox is about.
#[derive(Clone, Debug, Default)]
pub struct SandboxGround {
    /// Folders that no child reaches, absolute; made, for this user alone, where they are not there yet.
    pub reserved: Vec<PathBuf>,
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
            let is_withheld = WITHHELD.iter().any(|withheld| name == withheld);
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

/// What follows from a ground, on this machine, now.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The reserved folders as they are, by every name that a mount gives them; none within another.
    pub covers: Vec<PathBuf>,
    /// What leads to them and could be renamed: then something else could be put in its place. Outer ones first.
    pub pins: Vec<PathBuf>,
    /// All that stays reachable, without links.
    pub reachable: Vec<PathBuf>,
    /// Folders of `/tmp` that stay what they are, outer ones first; their own mount points lie in `temp`.
    pub kept: Vec<PathBuf>,
    /// What lies between `/tmp` and the kept folders in it; made in `temp`, and held so that no child puts a link there.
    pub steps: Vec<PathBuf>,
    /// The session's own, without links; none for an empty one each.
    pub temp: Option<PathBuf>,
    /// `/tmp` without links; none where it is not hidden.
    pub temp_at: Option<PathBuf>,
    /// The gaps that the folders and the user make.
    pub gaps: Vec<SandboxGap>,
}

impl Plan {
    /// Makes the reserved folders that are not there, so that there is something to hold.
    pub fn of(ground: &SandboxGround) -> Result<Self, SandboxError> {
        let mut plan = Self::default();
        let kept: Vec<PathBuf> = ground.kept.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
        plan.place_temp(ground, &kept)?;
        for folder in ground.reserved.iter().filter(|folder| folder.is_absolute()) {
            if OWN_FOLDERS.iter().any(|own| folder.starts_with(own)) {
                continue;
            }
            for link in replaceable_links(folder) {
                plan.gaps.push(SandboxGap::Link(link));
            }
            match made(folder) {
                Ok(Made::There(real)) => plan.covers.push(real),
                // Nor can a child make it: the file in its way is held.
                Ok(Made::InTheWay(file)) => plan.pins.push(file),
                Ok(Made::Never) => {}
                Err(source) => return Err(SandboxError::Ground { path: folder.clone(), source: Arc::new(source) }),
            }
        }
        let mounts = Mount::all();
        let aliases: Vec<PathBuf> = plan.covers.iter().flat_map(|cover| aliases(cover, &mounts)).collect();
        plan.covers.extend(aliases);
        let hidden = |path: &Path| {
            let is_own = OWN_FOLDERS.iter().any(|own| path.starts_with(own));
            let in_temp = plan.temp_at.as_ref().is_some_and(|temp| path.starts_with(temp));
            is_own || (in_temp && !kept.iter().any(|kept| path.starts_with(kept)))
        };
        let mut covers: Vec<PathBuf> = plan.covers.iter().filter(|path| !hidden(path)).cloned().collect();
        covers.sort();
        covers.dedup();
        let outer = covers.clone();
        covers.retain(|path| !outer.iter().any(|other| other != path && path.starts_with(other)));
        let ways = covers.iter().flat_map(|cover| cover.ancestors().skip(1)).filter(|way| way.parent().is_some());
        let mut pins: Vec<PathBuf> = ways
            .map(Path::to_path_buf)
            .chain(plan.pins.iter().cloned())
            .filter(|way| !hidden(way) && is_renamable(way))
            .collect();
        pins.sort();
        pins.dedup();
        (plan.covers, plan.pins, plan.reachable) = (covers, pins, kept);
        if rustix::process::geteuid().is_root() {
            plan.gaps.push(SandboxGap::Root);
        }
        Ok(plan)
    }

    fn place_temp(&mut self, ground: &SandboxGround, kept: &[PathBuf]) -> Result<(), SandboxError> {
        let at = real_temp();
        // A home that is /tmp itself, as containers have it, is hidden with it; a working folder is not.
        if kept.first().is_some_and(|work| at.starts_with(work)) {
            self.gaps.push(SandboxGap::WorkInTemp);
            return Ok(());
        }
        self.temp = ground.temp.as_ref().and_then(|temp| std::fs::canonicalize(temp).ok());
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

    /// Whether a child does not see what lies there outside.
    pub fn hides(&self, path: &Path) -> bool {
        let in_temp = self.temp_at.as_ref().is_some_and(|temp| path.starts_with(temp));
        let is_kept = self.kept.iter().any(|kept| path.starts_with(kept));
        OWN_FOLDERS.iter().any(|own| path.starts_with(own))
            || (in_temp && !is_kept)
            || self.covers.iter().any(|cover| path.starts_with(cover))
    }
}

/// `/tmp` without links.
pub(super) fn real_temp() -> PathBuf {
    std::fs::canonicalize("/tmp").unwrap_or_else(|_| PathBuf::from("/tmp"))
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
fn is_renamable(path: &Path) -> bool {
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
