//! Removes folders of ours whatever others did in them: by descriptors, so that no link and no rename leads out.

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, openat, renameat, statat, unlinkat},
    io::Errno,
};
use std::{
    ffi::{CStr, CString, OsStr},
    fs::File,
    io,
    os::{fd::AsFd, unix::ffi::OsStrExt, unix::fs::MetadataExt},
    path::Path,
};

/// The most folders within each other that are gone into; deeper ones stay, and what they lie in. Each takes a descriptor.
pub(crate) const REMOVE_DEPTH_MAX: usize = 128;

/// Opens the folder in which temporary ones are made; the system may have a link there.
pub(crate) fn open_holder(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a folder that lies in another, without following a link or waiting for a FIFO. The name has no `/`.
pub(crate) fn open_in(folder: impl AsFd, name: &CStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(openat(folder, name, flags, Mode::empty())?))
}

/// The names of what lies in a folder, but for `.` and `..`.
pub(crate) fn names(folder: impl AsFd) -> io::Result<impl Iterator<Item = io::Result<CString>>> {
    let entries = Dir::read_from(folder)?;
    Ok(entries.map(|entry| Ok(entry?.file_name().to_owned())).filter(|name: &io::Result<CString>| {
        !name.as_ref().is_ok_and(|name| name.as_bytes() == b"." || name.as_bytes() == b"..")
    }))
}

/// Whether this is still what lies in the folder under the name.
pub(crate) fn is_in(held: &File, folder: impl AsFd, name: &CStr) -> io::Result<bool> {
    let held = held.metadata()?;
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(met) => Ok((met.st_dev, met.st_ino) == (held.dev(), held.ino())),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Gives it another name in the same folder.
pub(crate) fn rename_in(folder: impl AsFd, name: &CStr, new: &CStr) -> io::Result<()> {
    Ok(renameat(&folder, name, &folder, new)?)
}

/// Removes a folder that lies in another and all that is in it; `last` goes after everything else, so that what is left of a removal that was
/// cut short is still known by it.
pub(crate) fn remove_in(folder: impl AsFd, name: &CStr, last: Option<&OsStr>) -> io::Result<()> {
    let held = open_in(&folder, name)?;
    empty(&held, last, 0)?;
    if let Some(last) = last {
        let last = CString::new(last.as_bytes()).map_err(io::Error::other)?;
        match unlinkat(&held, last, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(unlinkat(&folder, name, AtFlags::REMOVEDIR)?)
}

/// Goes on after what cannot be removed; the first error is the result.
fn empty(folder: &File, but: Option<&OsStr>, depth: usize) -> io::Result<()> {
    // Caches of modules are folders that their owner may not write to.
    let _ = fchmod(folder, Mode::RWXU);
    let mut ended = Ok(());
    for name in names(folder)? {
        let name = name?;
        if but.is_some_and(|but| but.as_bytes() == name.as_bytes()) {
            continue;
        }
        let removed = remove_one(folder, &name, depth);
        if ended.is_ok() {
            ended = removed;
        }
    }
    ended
}

fn remove_one(folder: &File, name: &CStr, depth: usize) -> io::Result<()> {
    let met = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(met.st_mode) != FileType::Directory {
        return Ok(unlinkat(folder, name, AtFlags::empty())?);
    }
    if depth == REMOVE_DEPTH_MAX {
        return Err(io::Error::other("too many folders within each other"));
    }
    empty(&open_in(folder, name)?, None, depth + 1)?;
    Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt, symlink},
    };

    fn open(path: &Path) -> File {
        File::open(path).unwrap()
    }

    #[test]
    fn all_goes_and_nothing_that_a_link_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        std::fs::create_dir_all(top.join("others/in")).unwrap();
        std::fs::create_dir_all(top.join("gone/a/b")).unwrap();
        std::fs::write(top.join("gone/a/b/file"), "").unwrap();
        std::fs::write(top.join("gone/mark"), "").unwrap();
        symlink(top.join("others"), top.join("gone/a/link")).unwrap();
        std::fs::set_permissions(top.join("gone/a/b"), Permissions::from_mode(0o555)).unwrap();
        remove_in(open(top), c"gone", Some(OsStr::new("mark"))).unwrap();
        assert!(!top.join("gone").exists() && top.join("others/in").is_dir());
        symlink(top.join("others"), top.join("link")).unwrap();
        assert!(remove_in(open(top), c"link", None).is_err());
        assert!(top.join("others/in").is_dir() && top.join("link").is_symlink());
    }

    #[test]
    fn what_is_too_deep_stays_and_is_still_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut deep = dir.path().join("gone");
        for _ in 0..REMOVE_DEPTH_MAX + 3 {
            deep.push("d");
        }
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(dir.path().join("gone/mark"), "").unwrap();
        std::fs::write(dir.path().join("gone/other"), "").unwrap();
        assert!(remove_in(open(dir.path()), c"gone", Some(OsStr::new("mark"))).is_err());
        assert!(dir.path().join("gone/mark").exists() && !dir.path().join("gone/other").exists());
    }
}
