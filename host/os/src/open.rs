//! The one opener of foreign paths: beneath a folder's descriptor, no links out, regular files only, never blocking.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// How often a lookup is tried again after the kernel says that a rename ran into it.
#[cfg(target_os = "linux")]
const LOOKUP_TRIES: usize = 16;

/// Why a path was not opened. Every variant names the path as the caller gave it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nothing is there, or a part of the path is no folder.
    #[error("{path}: not found")]
    NotFound {
        /// As asked for.
        path: PathBuf,
    },
    /// A folder, FIFO, socket or device where a regular file is wanted, or no folder where one is wanted.
    #[error("{path}: not a regular file")]
    NotRegular {
        /// As asked for.
        path: PathBuf,
    },
    /// The path, or a link on it, leads out of the folder.
    #[error("{path}: leads out of its folder")]
    Escapes {
        /// As asked for.
        path: PathBuf,
    },
    /// Longer than the caller's limit; nothing of it is given.
    #[error("{path}: larger than {limit} bytes")]
    TooLarge {
        /// As asked for.
        path: PathBuf,
        /// In bytes.
        limit: u64,
    },
    /// Not UTF-8, where text is wanted.
    #[error("{path}: not UTF-8 text")]
    NotText {
        /// As asked for.
        path: PathBuf,
    },
    /// The user may not.
    #[error("{path}: permission denied")]
    Denied {
        /// As asked for.
        path: PathBuf,
    },
    /// Anything else that the system says.
    #[error("{path}: {source}")]
    Io {
        /// As asked for.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    fn of(errno: Errno, path: &Path) -> Self {
        let path = path.to_path_buf();
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::NotFound { path },
            // RESOLVE_BENEATH answers EXDEV; a refused link, or too many of them, ELOOP.
            Errno::XDEV | Errno::LOOP => Self::Escapes { path },
            // A FIFO without a reader, a socket, a device without a driver; a folder opened for writing.
            Errno::NXIO | Errno::NODEV | Errno::ISDIR => Self::NotRegular { path },
            Errno::ACCESS | Errno::PERM => Self::Denied { path },
            other => Self::Io { path, source: other.into() },
        }
    }

    fn io(source: io::Error, path: &Path) -> Self {
        match source.raw_os_error() {
            Some(code) => Self::of(Errno::from_raw_os_error(code), path),
            None => Self::Io { path: path.to_path_buf(), source },
        }
    }
}

/// What lies at a path beneath a root, links beneath it followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// FIFO, socket, device.
    Other,
}

/// A folder held by descriptor. Whatever is renamed or linked around it later, what it opens lies beneath that very folder.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    /// As the caller named it.
    given: PathBuf,
    /// Without links.
    real: PathBuf,
}

/// Which links a lookup may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Those that stay beneath the root.
    Beneath,
    /// None, at any component.
    Refused,
}

impl Root {
    /// Holds `dir`, the host's own or the user's choice (links on the way to it are followed).
    ///
    /// Errors: `NotFound`, `NotRegular` (no folder), `Denied`, `Io`.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let real = std::fs::canonicalize(dir).map_err(|source| OpenError::io(source, dir))?;
        let flags = FOLDER_HANDLE | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&real, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOTDIR => OpenError::NotRegular { path: dir.to_path_buf() },
            other => OpenError::of(other, dir),
        })?;
        Ok(Self { folder, given: dir.to_path_buf(), real })
    }

    /// The folder's path without links, as it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// The folder's descriptor, for [`open_in`].
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// `path` relative to this folder: what is relative already as it is, what is absolute by its leading part (as the folder was
    /// named or without links). None: it is named elsewhere. Says nothing about links and `..`; opening does.
    pub fn relative<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        if !path.is_absolute() {
            return Some(path);
        }
        path.strip_prefix(&self.real).or_else(|_| path.strip_prefix(&self.given)).ok()
    }

    /// Opens a regular file for reading: relative, or absolute inside the root's own path. Links are followed if they stay beneath.
    /// Never waits for anyone: a FIFO is `NotRegular` at once.
    pub fn open_file(&self, path: &Path) -> Result<File, OpenError> {
        self.open_regular(path, OFlags::RDONLY, Links::Beneath)
    }

    /// Opens an existing regular file for appending; as [`Root::open_file`] otherwise.
    pub fn open_append(&self, path: &Path) -> Result<File, OpenError> {
        self.open_regular(path, OFlags::WRONLY | OFlags::APPEND, Links::Beneath)
    }

    /// The whole of a regular file of at most `limit` bytes.
    pub fn read_limited(&self, path: &Path, limit: u64) -> Result<Vec<u8>, OpenError> {
        read_whole(self.open_file(path)?, path, limit)
    }

    /// The whole of a regular UTF-8 file of at most `limit` bytes, without a byte order mark.
    pub fn read_text(&self, path: &Path, limit: u64) -> Result<String, OpenError> {
        text(self.read_limited(path, limit)?, path)
    }

    /// What lies at `path`.
    pub fn kind(&self, path: &Path) -> Result<Kind, OpenError> {
        let found = self.lookup(path, FOLDER_HANDLE, Links::Beneath)?;
        Ok(match kind_of(&found, path)? {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            _ => Kind::Other,
        })
    }

    pub(crate) fn open_regular(&self, path: &Path, access: OFlags, links: Links) -> Result<File, OpenError> {
        let opened = self.lookup(path, access | OFlags::NONBLOCK | OFlags::NOCTTY, links)?;
        regular(opened, path)
    }

    /// A folder beneath, as a root of its own.
    pub(crate) fn within(&self, folder: &Path, links: Links) -> Result<Self, OpenError> {
        let held = self.lookup(folder, FOLDER_HANDLE | OFlags::DIRECTORY, links)?;
        let real = self.real.join(self.relative(folder).unwrap_or(folder));
        Ok(Self { folder: held, given: real.clone(), real })
    }

    /// A folder's descriptor, to list it.
    pub(crate) fn open_folder(&self, path: &Path, links: Links) -> Result<OwnedFd, OpenError> {
        self.lookup(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK, links)
    }

    fn lookup(&self, path: &Path, flags: OFlags, links: Links) -> Result<OwnedFd, OpenError> {
        let relative = self.relative(path).ok_or_else(|| OpenError::Escapes { path: path.to_path_buf() })?;
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        beneath(self.folder.as_fd(), relative, flags | OFlags::CLOEXEC, links)
            .map_err(|errno| OpenError::of(errno, path))
    }
}

#[cfg(target_os = "linux")]
const FOLDER_HANDLE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const FOLDER_HANDLE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

#[cfg(target_os = "linux")]
fn beneath(folder: impl AsFd + Copy, path: &Path, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == Links::Refused {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    for _ in 0..LOOKUP_TRIES {
        match rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Old container runtimes answer EPERM for calls that they do not know; the walk then gives the true answer.
            Err(Errno::NOSYS | Errno::PERM) => return beneath_by_steps(folder, path, flags),
            answer => return answer,
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(not(target_os = "linux"))]
fn beneath(folder: impl AsFd + Copy, path: &Path, flags: OFlags, _links: Links) -> Result<OwnedFd, Errno> {
    beneath_by_steps(folder, path, flags)
}

/// For kernels without `openat2`: component by component, following no link at all, which is stricter.
fn beneath_by_steps(folder: impl AsFd + Copy, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => parts.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        }
    }
    let Some((last, folders)) = parts.split_last() else {
        return rustix::fs::openat(folder, ".", flags, Mode::empty());
    };
    let step = FOLDER_HANDLE | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut held: Option<OwnedFd> = None;
    for name in folders {
        let next = match &held {
            Some(at) => open_step(at.as_fd(), name, step)?,
            None => open_step(folder.as_fd(), name, step)?,
        };
        held = Some(next);
    }
    let at = held.as_ref().map_or_else(|| folder.as_fd(), AsFd::as_fd);
    let opened = open_step(at, last, flags | OFlags::NOFOLLOW)?;
    // With O_PATH the link itself would be opened.
    if FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode) == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    Ok(opened)
}

fn open_step(at: impl AsFd, name: &std::ffi::OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let opened = rustix::fs::openat(at.as_fd(), name, flags, Mode::empty());
    // O_DIRECTORY on a link answers ENOTDIR, which must not read as "not found".
    if matches!(opened, Err(Errno::NOTDIR)) {
        let met = rustix::fs::statat(at.as_fd(), name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(met.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    opened
}

/// Opens what lies in a folder that is held open already, with all that [`Root`] promises; no link is followed.
pub(crate) fn open_in(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, OpenError> {
    beneath(folder, path, flags | OFlags::CLOEXEC, Links::Refused).map_err(|errno| OpenError::of(errno, path))
}

/// A regular file in a folder that is held open already, to be read, and its length in bytes; as [`open_in`] otherwise.
pub(crate) fn open_file_in(folder: BorrowedFd<'_>, path: &Path) -> Result<(File, u64), OpenError> {
    let opened = open_in(folder, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    let met = rustix::fs::fstat(&opened).map_err(|errno| OpenError::of(errno, path))?;
    match FileType::from_raw_mode(met.st_mode) {
        FileType::RegularFile => Ok((File::from(opened), u64::try_from(met.st_size).unwrap_or(0))),
        _ => Err(OpenError::NotRegular { path: path.to_path_buf() }),
    }
}

/// Opens a file that the user named in an argument (not foreign): any path, links followed, but regular files only and never waiting.
pub fn open_regular(path: &Path) -> Result<File, OpenError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| OpenError::of(errno, path))?;
    regular(opened, path)
}

/// The whole of a file that the user named, of at most `limit` bytes; as [`open_regular`] otherwise.
pub fn read_regular(path: &Path, limit: u64) -> Result<Vec<u8>, OpenError> {
    read_whole(open_regular(path)?, path, limit)
}

fn kind_of(opened: &OwnedFd, path: &Path) -> Result<FileType, OpenError> {
    let met = rustix::fs::fstat(opened).map_err(|errno| OpenError::of(errno, path))?;
    Ok(FileType::from_raw_mode(met.st_mode))
}

fn regular(opened: OwnedFd, path: &Path) -> Result<File, OpenError> {
    match kind_of(&opened, path)? {
        FileType::RegularFile => Ok(File::from(opened)),
        _ => Err(OpenError::NotRegular { path: path.to_path_buf() }),
    }
}

pub(crate) fn read_whole(file: File, path: &Path, limit: u64) -> Result<Vec<u8>, OpenError> {
    let too_large = || OpenError::TooLarge { path: path.to_path_buf(), limit };
    let length = file.metadata().map_err(|source| OpenError::io(source, path))?.len();
    if length > limit {
        return Err(too_large());
    }
    // The length is a hint only: files of /proc say 0, others grow while they are read.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0).saturating_add(1));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|source| OpenError::io(source, path))?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

fn text(bytes: Vec<u8>, path: &Path) -> Result<String, OpenError> {
    let mut text = String::from_utf8(bytes).map_err(|_| OpenError::NotText { path: path.to_path_buf() })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
