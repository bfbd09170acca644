//! Folders: which lie in which, and which are given to nobody.

use std::path::{Component, Path, PathBuf};

/// What the system itself shows as files. No plugin is given a folder that contains or lies in one of them.
pub const SYSTEM_FOLDERS: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Why a folder is given to nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FolderRefusal {
    /// It is not absolute, or climbs above the root.
    #[error("{path} is not an absolute path", path = path.display())]
    NotAbsolute {
        /// As asked for.
        path: PathBuf,
    },
    /// It contains, or lies in, a folder that is kept from plugins.
    #[error("{path} contains or lies in {kept}, which no plugin may reach", path = path.display(), kept = kept.display())]
    Kept {
        /// As asked for.
        path: PathBuf,
        /// The folder that is kept.
        kept: PathBuf,
    },
}

/// An absolute path without `.` and `..`, by its text alone: links are the caller's to resolve first. None for a relative path and for
/// one that climbs above the root.
pub fn normalise(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.file_name()?;
                plain.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => plain.push(part),
        }
    }
    Some(plain)
}

/// Whether one of two normalised absolute paths contains the other, or they are the same.
pub fn overlaps(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// Whether a folder may be given to a plugin: not where it contains or lies in one of `reserved` or a system folder. Gives the
/// normalised path.
pub fn check_folder(path: &Path, reserved: &[PathBuf]) -> Result<PathBuf, FolderRefusal> {
    let plain = normalise(path).ok_or_else(|| FolderRefusal::NotAbsolute { path: path.to_owned() })?;
    let system = SYSTEM_FOLDERS.iter().map(Path::new);
    let kept = reserved.iter().map(PathBuf::as_path).chain(system).find(|kept| overlaps(&plain, kept));
    match kept {
        Some(kept) => Err(FolderRefusal::Kept { path: plain, kept: kept.to_owned() }),
        None => Ok(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_goes_both_ways_and_by_whole_names() {
        for (a, b, answer) in [
            ("/a/b", "/a/b", true),
            ("/a", "/a/b", true),
            ("/a/b/c", "/a/b", true),
            ("/", "/x", true),
            ("/a/bc", "/a/b", false),
            ("/a", "/b", false),
        ] {
            assert_eq!(overlaps(Path::new(a), Path::new(b)), answer, "{a} {b}");
            assert_eq!(overlaps(Path::new(b), Path::new(a)), answer, "{b} {a}");
        }
    }

    #[test]
    fn kept_folders_are_refused_from_above_and_from_within() {
        let reserved = [PathBuf::from("/home/u/.config/pith")];
        for refused in
            ["/", "/home/u", "/home/u/.config/pith/x", "/proc", "/proc/self", "/dev/shm", "/home/u/x/../.config"]
        {
            let answer = check_folder(Path::new(refused), &reserved);
            assert!(matches!(answer, Err(FolderRefusal::Kept { .. })), "{refused}: {answer:?}");
        }
        assert!(matches!(check_folder(Path::new("x"), &reserved), Err(FolderRefusal::NotAbsolute { .. })));
        assert!(matches!(check_folder(Path::new("/.."), &reserved), Err(FolderRefusal::NotAbsolute { .. })));
        assert_eq!(check_folder(Path::new("/home/u/./a/../code"), &reserved), Ok(PathBuf::from("/home/u/code")));
    }

    proptest::proptest! {
        #[test]
        fn a_longer_list_of_reserved_folders_never_gives_more(
            path in "/([a-c]{1,2}/){0,3}[a-c]",
            kept in proptest::collection::vec("/([a-c]{1,2}/){0,2}[a-c]", 0..4),
            more in "/([a-c]{1,2}/){0,2}[a-c]",
        ) {
            let fewer: Vec<PathBuf> = kept.iter().map(PathBuf::from).collect();
            let longer: Vec<PathBuf> = kept.iter().chain([&more]).map(PathBuf::from).collect();
            if check_folder(Path::new(&path), &longer).is_ok() {
                proptest::prop_assert!(check_folder(Path::new(&path), &fewer).is_ok());
            }
        }
    }
}
