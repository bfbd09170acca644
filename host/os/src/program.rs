//! Which program and which environment a child gets.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The environment without the variables named: exactly these names, nothing that only looks like them.
pub fn clean_environment(
    vars: impl IntoIterator<Item = (OsString, OsString)>,
    withheld: &[&str],
) -> Vec<(OsString, OsString)> {
    vars.into_iter().filter(|(name, _)| !withheld.iter().any(|held| name == OsStr::new(held))).collect()
}

/// Looks a bare name up in `path` (the form of `PATH`). Relative entries are skipped, and whatever lies, itself or by its links, in one of
/// `excluded_roots`: what a guest can write must not be run under a name that was granted.
///
/// Gives the entry's path joined with the name, not what a link there leads to: programs look at the name they are called by.
pub fn find_program(name: &str, path: &OsStr, excluded_roots: &[PathBuf]) -> Option<PathBuf> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return None;
    }
    let excluded: Vec<PathBuf> = excluded_roots
        .iter()
        .flat_map(|root| [Some(root.clone()), std::fs::canonicalize(root).ok()])
        .flatten()
        .collect();
    let allowed = |path: &Path| !excluded.iter().any(|root| path.starts_with(root));
    std::env::split_paths(path).filter(|entry| entry.is_absolute() && allowed(entry)).find_map(|entry| {
        let found = entry.join(name);
        let folder = std::fs::canonicalize(&entry).ok()?;
        let real = std::fs::canonicalize(&found).ok()?;
        let is_program = std::fs::metadata(&real).ok()?.is_file() && access(&real, Access::EXEC_OK).is_ok();
        (is_program && allowed(&folder) && allowed(&real)).then_some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn exactly_the_withheld_names_go() {
        let vars = ["A_KEY", "A_KEY_ID", "a_key", "PATH"].map(|name| (OsString::from(name), OsString::from("value")));
        let kept: Vec<OsString> =
            clean_environment(vars, &["A_KEY", "OTHER"]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(kept, ["A_KEY_ID", "a_key", "PATH"]);
    }

    #[test]
    fn programs_are_found_outside_what_guests_write() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for (path, mode) in [("work/bin/tool", 0o755), ("sys/tool", 0o755), ("sys/plain", 0o644), ("work/evil", 0o755)]
        {
            std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            std::fs::write(at(path), "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(at(path), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::fs::create_dir(at("sys/folder")).unwrap();
        symlink(at("work/bin"), at("link")).unwrap();
        symlink(at("work/evil"), at("sys/evil")).unwrap();
        symlink(at("sys/tool"), at("sys/alias")).unwrap();
        let path =
            std::env::join_paths([PathBuf::from("work/bin"), PathBuf::from(""), at("work/bin"), at("link"), at("sys")]);
        let (path, roots) = (path.unwrap(), [at("work")]);
        assert_eq!(find_program("tool", &path, &roots), Some(at("sys/tool")));
        assert_eq!(find_program("tool", &path, &[]), Some(at("work/bin/tool")));
        assert_eq!(find_program("alias", &path, &roots), Some(at("sys/alias")));
        for name in ["evil", "plain", "folder", "none", "", ".", "..", "sys/tool", "../sys/tool", "/bin/sh", "a\0b"] {
            assert_eq!(find_program(name, &path, &roots), None, "{name}");
        }
    }
}
