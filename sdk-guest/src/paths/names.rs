//! A folder's names and what they are, with one question to the system for each.
//!
//! `std::fs::read_dir` costs a component three times that: the C library under it asks for an inode number of every name,
//! and has no use for it here.

use super::GuestPath;
use crate::Error;

/// What a name in a folder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, to whatever.
    Link,
    /// A FIFO, a socket, a device.
    Other,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name alone. One that is no UTF-8 is U+FFFD: it can be neither shown nor opened.
    pub name: String,
    /// What it stands for; links are not followed.
    pub kind: EntryKind,
}

/// What is in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// In no order.
    pub entries: Vec<Entry>,
    /// There are no more.
    pub is_all: bool,
}

impl GuestPath {
    /// What is in a folder, at most `max` names, each for one question to the system. [`GuestPath::list`] is sorted and shorter
    /// to write.
    pub fn entries(&self, max: usize) -> Result<Entries, Error> {
        entries(&self.absolute, &self.cwd, max).map_err(|error| self.explain("list", &error))
    }
}

/// [`GuestPath::entries`] with the system's error; `cwd` is the working folder.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn entries(folder: &str, _: &str, max: usize) -> std::io::Result<Entries> {
    let mut found = Entries::default();
    for entry in std::fs::read_dir(folder)? {
        if found.entries.len() == max {
            return Ok(found);
        }
        let entry = entry?;
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_symlink() => EntryKind::Link,
            Ok(kind) if kind.is_dir() => EntryKind::Folder,
            Ok(kind) if kind.is_file() => EntryKind::File,
            _ => EntryKind::Other,
        };
        let name = entry.file_name().into_string().unwrap_or_else(|_| char::REPLACEMENT_CHARACTER.to_string());
        found.entries.push(Entry { name, kind });
    }
    found.is_all = true;
    Ok(found)
}

#[cfg(target_arch = "wasm32")]
pub(super) use in_component::entries;

#[cfg(target_arch = "wasm32")]
mod in_component {
    use std::io;

    use super::{Entries, Entry, EntryKind};
    use crate::bindings::folders::wasi::filesystem::preopens::get_directories;
    use crate::bindings::folders::wasi::filesystem::types::{
        DescriptorFlags, DescriptorType, ErrorCode, OpenFlags, PathFlags,
    };
    use crate::paths::explain::EPERM;
    use crate::paths::{contains, granted_name, relative};

    pub(in crate::paths) fn entries(folder: &str, cwd: &str, max: usize) -> io::Result<Entries> {
        let (root, name) = get_directories()
            .into_iter()
            .map(|(root, name)| (root, granted_name(&name, cwd)))
            .filter(|(_, name)| contains(name, folder))
            .max_by_key(|(_, name)| name.len())
            .ok_or_else(|| io::Error::from_raw_os_error(EPERM))?;
        let opened = match relative(folder, &name) {
            "." => root,
            inside => root
                .open_at(PathFlags::SYMLINK_FOLLOW, inside, OpenFlags::DIRECTORY, DescriptorFlags::READ)
                .map_err(os_error)?,
        };
        let stream = opened.read_directory().map_err(os_error)?;
        let mut found = Entries::default();
        while let Some(entry) = stream.read_directory_entry().map_err(os_error)? {
            if found.entries.len() == max {
                return Ok(found);
            }
            let kind = match entry.type_ {
                DescriptorType::RegularFile => EntryKind::File,
                DescriptorType::Directory => EntryKind::Folder,
                DescriptorType::SymbolicLink => EntryKind::Link,
                _ => EntryKind::Other,
            };
            found.entries.push(Entry { name: entry.name, kind });
        }
        found.is_all = true;
        Ok(found)
    }

    /// The error that the standard library would give, by the C library's number.
    fn os_error(code: ErrorCode) -> io::Error {
        io::Error::from_raw_os_error(match code {
            ErrorCode::Access => 2,
            ErrorCode::Loop => 32,
            ErrorCode::NoEntry => 44,
            ErrorCode::NotDirectory => 54,
            ErrorCode::NotPermitted => EPERM,
            _ => 29,
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn names_come_with_what_they_are_and_whether_there_are_more() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a\nb"), "").unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::os::unix::fs::symlink("src", folder.path().join("link")).unwrap();
        let path = GuestPath::resolve(".", folder.path().to_str().unwrap()).unwrap();
        let Entries { mut entries, is_all } = path.entries(3).unwrap();
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let found: Vec<(&str, EntryKind)> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
        assert_eq!(found, [("a\nb", EntryKind::File), ("link", EntryKind::Link), ("src", EntryKind::Folder)]);
        assert!(is_all);
        let some = path.entries(2).unwrap();
        assert_eq!((some.entries.len(), some.is_all), (2, false));
    }
}
