//! Sentences for what failed: why, and what to do instead.

use std::io;

use super::{GuestPath, ancestors, contains, granted_folders, parent, relative};
use crate::Error;
use crate::text::{brief, listed};

impl GuestPath {
    /// Says why the path could not be used and what to do instead. `deed` is a verb, such as `read`.
    pub fn explain(&self, deed: &str, error: &io::Error) -> Error {
        let folders = granted_folders(&self.cwd);
        let reachable = |path: &str| folders.iter().any(|f| contains(f, path)) && std::fs::metadata(path).is_ok();
        let names = |folder: &str| {
            let found = super::names::entries(folder, &self.cwd, MAX_NAMES).unwrap_or_default();
            found.entries.into_iter().map(|entry| entry.name).collect()
        };
        match self.check(&folders, false) {
            Err(outside) => outside,
            Ok(()) => self.explain_with(deed, error, reachable, names),
        }
    }

    fn explain_with(
        &self,
        deed: &str,
        error: &io::Error,
        reachable: impl Fn(&str) -> bool,
        names: impl Fn(&str) -> Vec<String>,
    ) -> Error {
        use io::ErrorKind as Io;
        let shown = &brief(self.shown());
        let nearest = ancestors(&self.absolute).find(|folder| reachable(folder)).unwrap_or(&self.cwd);
        match error.kind() {
            Io::NotFound => {
                let folder = parent(&self.absolute).unwrap_or("/");
                if nearest == folder {
                    let name = self.absolute.rsplit('/').next().unwrap_or_default();
                    if let Some(like) = most_alike(name, names(folder)) {
                        let like = format!("{}/{like}", folder.trim_end_matches('/'));
                        let like = listed(relative(&like, &self.cwd));
                        return Error::not_found(format!("There is no `{shown}`. Did you mean `{like}`?"));
                    }
                }
                let nearest = brief(relative(nearest, &self.cwd));
                Error::not_found(format!(
                    "There is no `{shown}`. The nearest folder that exists is `{nearest}`; list it to see what is there."
                ))
            }
            // WASI says EPERM for what its sandbox forbids and EACCES for what the file's permissions forbid.
            Io::PermissionDenied if error.raw_os_error() == Some(EPERM) => Error::denied(format!(
                "Cannot {deed} `{shown}`: it leads out of the granted folders (through a link), is not a regular file or folder, or its folder is granted for reading only."
            )),
            Io::PermissionDenied => {
                Error::denied(format!("Cannot {deed} `{shown}`: the permissions of the file or its folder forbid it."))
            }
            // `create_dir_all` says this of a link that leads out, and of a file where a folder is needed.
            Io::AlreadyExists => Error::invalid(format!(
                "Cannot {deed} `{shown}`: a part of it is a file, or a link that leads out of the granted folders."
            )),
            Io::ReadOnlyFilesystem => Error::denied(format!("Cannot {deed} `{shown}`: the file system is read-only.")),
            Io::IsADirectory => Error::invalid(format!("`{shown}` is a folder, not a file.")),
            Io::NotADirectory => Error::invalid(format!("A part of `{shown}` is a file where a folder is needed.")),
            _ if error.raw_os_error() == Some(EIO) && matches!(deed, "write" | "edit" | "make") => Error::new(
                crate::ErrorKind::Internal,
                format!("Cannot {deed} `{shown}`: the system does not say why; the disk may be full or read-only."),
            ),
            _ => {
                let refusal = Error::from(io::Error::new(error.kind(), error.to_string()));
                Error::new(refusal.kind, format!("Cannot {deed} `{shown}`: {error}."))
            }
        }
    }
}

/// How many names of a folder are looked at for one that is meant.
const MAX_NAMES: usize = 2_000;

#[cfg(target_arch = "wasm32")]
pub(super) const EPERM: i32 = 63;
#[cfg(not(target_arch = "wasm32"))]
pub(super) const EPERM: i32 = 1;

/// What the system says of all that it has no name for. To a component that may be a disk that is full or read-only: the C library
/// there knows no better.
pub const EIO: i32 = if cfg!(target_arch = "wasm32") { 29 } else { 5 };

/// The name that differs from `name` in case only, or by at most two typing errors.
fn most_alike(name: &str, names: Vec<String>) -> Option<String> {
    let allowed = if name.chars().count() < 5 { 1 } else { 2 };
    let lower = name.to_lowercase();
    let alike = names.into_iter().filter_map(|other| {
        let distance = distance(&lower, &other.to_lowercase());
        (distance <= allowed && other != name).then_some((distance, other))
    });
    alike.min().map(|(_, other)| other)
}

/// Levenshtein's distance, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(written: &str) -> GuestPath {
        GuestPath::resolve(written, "/w/app").unwrap()
    }

    fn explain(written: &str, error: io::ErrorKind, names: &[&str]) -> Error {
        let exists = |path: &str| contains("/w", path) && !path.contains("missing");
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        at(written).explain_with("read", &error.into(), exists, |_| names.clone())
    }

    #[test]
    fn a_missing_file_is_told_with_the_one_meant() {
        let message = |written, names: &[&str]| explain(written, io::ErrorKind::NotFound, names).message;
        assert_eq!(
            message("src/mian.rs", &["lib.rs", "main.rs"]),
            "There is no `src/mian.rs`. Did you mean `src/main.rs`?"
        );
        assert_eq!(message("readme.md", &["README.md"]), "There is no `readme.md`. Did you mean `README.md`?");
        assert_eq!(
            message("ab c.rs", &["ab\nc.rs"]),
            "There is no `ab c.rs`. Did you mean `\"ab\\nc.rs\"`?",
            "a name from the disk stays on its line"
        );
        let far = message("src/x.rs", &["main.rs"]);
        assert!(far.contains("nearest folder that exists is `src`"), "{far}");
        let far = message("missing/deep/x.rs", &["missinx"]);
        assert!(far.contains("nearest folder that exists is `.`"), "{far}");
    }

    #[test]
    fn the_sandbox_and_permissions_are_told_apart() {
        let sandbox = at("a").explain_with("read", &io::Error::from_raw_os_error(EPERM), |_| true, |_| Vec::new());
        assert!(sandbox.message.contains("leads out of the granted folders"), "{}", sandbox.message);
        let owner = explain("a", io::ErrorKind::PermissionDenied, &[]);
        assert!(owner.message.contains("permissions of the file"), "{}", owner.message);
    }

    #[test]
    fn distances() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "abc", 0), ("mian", "main", 2), ("a", "", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
