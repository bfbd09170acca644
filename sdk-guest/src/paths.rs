//! Paths as a model writes them, and sentences for those that cannot be reached.
//!
//! Guest paths are host paths: a granted folder is opened at its own absolute path. `std::fs::canonicalize` always fails in
//! a guest and `std::env::temp_dir` panics there, so paths are made absolute as text, against the session's folder.

use std::io;

use crate::{Error, context};

/// One path: absolute, without `.` and `..`, spelled with `/`, beside the short form that the model is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestPath {
    absolute: String,
    cwd: String,
}

impl GuestPath {
    /// Reads what a model wrote, against the session's working folder. `invalid` for an empty path and for `~`.
    pub fn new(written: &str) -> Result<Self, Error> {
        Self::resolve(written, &context::cwd())
    }

    /// [`GuestPath::new`] against this folder.
    pub fn resolve(written: &str, cwd: &str) -> Result<Self, Error> {
        let written = written.strip_prefix('@').unwrap_or(written);
        if written.is_empty() {
            return Err(Error::invalid("The path is empty; give a file or folder, such as `src/main.rs` or `.`."));
        }
        if written.contains('\0') {
            return Err(Error::invalid("The path contains a NUL character."));
        }
        if written == "~" || written.starts_with("~/") {
            return Err(Error::invalid(format!(
                "`{written}`: plugins do not know a home folder, so `~` means nothing here. Write the path out, or relative to the working folder `{cwd}`."
            )));
        }
        let joined = if is_absolute(written) { written.to_owned() } else { format!("{cwd}/{written}") };
        Ok(Self { absolute: normal(&joined), cwd: normal(cwd) })
    }

    /// The path to give to `std::fs` and to imports.
    pub fn absolute(&self) -> &str {
        &self.absolute
    }

    /// The path to show: relative to the working folder where it lies in it.
    pub fn shown(&self) -> &str {
        relative(&self.absolute, &self.cwd)
    }

    /// The folder that this lies in; none for a root.
    pub fn parent(&self) -> Option<Self> {
        let parent = parent(&self.absolute)?;
        Some(Self { absolute: parent.to_owned(), cwd: self.cwd.clone() })
    }

    /// [`GuestPath::new`], but `denied` where the path lies in no folder that was granted.
    ///
    /// To be asked before any use of `std::fs`: where the working folder is opened as `.` too, as it is in Pith, the C
    /// library under `std` takes an absolute path that lies in no granted folder as one beneath `.`, and `/etc/x` would
    /// quietly become `etc/x`.
    pub fn granted(written: &str) -> Result<Self, Error> {
        let path = Self::new(written)?;
        path.check(&granted_folders(&path.cwd))?;
        Ok(path)
    }

    /// Says why the path could not be used and what to do instead. `deed` is a verb, such as `read`.
    pub fn explain(&self, deed: &str, error: &io::Error) -> Error {
        let folders = granted_folders(&self.cwd);
        let reachable = |path: &str| folders.iter().any(|f| contains(f, path)) && std::fs::metadata(path).is_ok();
        let names = |folder: &str| {
            let entries = std::fs::read_dir(folder).ok()?;
            let names = entries.take(MAX_NAMES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            Some(names.collect::<Vec<_>>())
        };
        match self.check(&folders) {
            Err(outside) => outside,
            Ok(()) => self.explain_with(deed, error, reachable, |folder| names(folder).unwrap_or_default()),
        }
    }

    fn check(&self, folders: &[String]) -> Result<(), Error> {
        if folders.iter().any(|folder| contains(folder, &self.absolute)) {
            return Ok(());
        }
        let reach = match folders {
            [] => "it was granted no folder".to_owned(),
            folders => format!("it may reach `{}` and what lies in it", folders.join("`, `")),
        };
        let folder = parent(&self.absolute).unwrap_or(&self.absolute);
        Err(Error::denied(format!(
            "`{}` is outside the folders that this plugin was granted: {reach}. Use a path in there; another folder is the user's to grant (`--grant PLUGIN:files={folder}:r`).",
            self.absolute
        )))
    }

    fn explain_with(
        &self,
        deed: &str,
        error: &io::Error,
        reachable: impl Fn(&str) -> bool,
        names: impl Fn(&str) -> Vec<String>,
    ) -> Error {
        use io::ErrorKind as Io;
        let shown = self.shown();
        let nearest = ancestors(&self.absolute).find(|folder| reachable(folder)).unwrap_or(&self.cwd);
        match error.kind() {
            Io::NotFound => {
                let folder = parent(&self.absolute).unwrap_or("/");
                if nearest == folder {
                    let name = self.absolute.rsplit('/').next().unwrap_or_default();
                    if let Some(like) = most_alike(name, names(folder)) {
                        let like = format!("{}/{like}", folder.trim_end_matches('/'));
                        let like = relative(&like, &self.cwd);
                        return Error::not_found(format!("There is no `{shown}`. Did you mean `{like}`?"));
                    }
                }
                let nearest = relative(nearest, &self.cwd);
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
            _ => {
                let refusal = Error::from(io::Error::new(error.kind(), error.to_string()));
                Error::new(refusal.kind, format!("Cannot {deed} `{shown}`: {error}."))
            }
        }
    }
}

impl AsRef<std::path::Path> for GuestPath {
    fn as_ref(&self) -> &std::path::Path {
        self.absolute.as_ref()
    }
}

impl std::fmt::Display for GuestPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.shown())
    }
}

/// The names of the folders that were granted, absolute; the working folder stands for `.`.
#[cfg(target_arch = "wasm32")]
fn granted_folders(cwd: &str) -> Vec<String> {
    let opened = crate::bindings::preopens::wasi::filesystem::preopens::get_directories();
    let mut folders: Vec<String> =
        opened.into_iter().map(|(_, name)| if is_absolute(&name) { normal(&name) } else { cwd.to_owned() }).collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

/// On the machine that tests it, a plugin's code reaches the folders of its place.
#[cfg(not(target_arch = "wasm32"))]
fn granted_folders(_: &str) -> Vec<String> {
    crate::testing::granted_folders()
}

/// Whether `path` is `folder` or lies in it.
fn contains(folder: &str, path: &str) -> bool {
    path == folder || relative(path, folder) != path
}

/// How many names of a folder are looked at for one that is meant.
const MAX_NAMES: usize = 2_000;

#[cfg(target_arch = "wasm32")]
const EPERM: i32 = 63;
#[cfg(not(target_arch = "wasm32"))]
const EPERM: i32 = 1;

/// `path` as seen from `folder`: `.` for itself, the rest of the path where it lies in it, else `path`.
pub fn relative<'a>(path: &'a str, folder: &str) -> &'a str {
    match path.strip_prefix(folder.trim_end_matches('/')) {
        Some("") => ".",
        Some(rest) => match rest.strip_prefix('/') {
            Some("") => ".",
            Some(inside) => inside,
            None => path,
        },
        None => path,
    }
}

/// Absolute, or with a drive letter, as host paths on Windows are.
fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    path.starts_with('/') || (bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && &bytes[1..3] == b":/")
}

/// An absolute path without `.`, `..`, doubled and trailing `/`. `..` at the root stays there.
fn normal(path: &str) -> String {
    let (root, rest) = match path.find('/') {
        Some(at) => path.split_at(at),
        None => ("", path),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("{root}/{}", parts.join("/"))
}

fn parent(path: &str) -> Option<&str> {
    let at = path.rfind('/')?;
    match &path[..at] {
        "" if path == "/" => None,
        "" => Some("/"),
        parent => Some(parent),
    }
}

/// The folders above, nearest first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(path), |path| parent(path))
}

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
    use crate::ErrorKind;

    fn at(written: &str) -> GuestPath {
        GuestPath::resolve(written, "/w/app").unwrap()
    }

    #[test]
    fn paths_become_absolute_and_plain() {
        for (written, absolute, shown) in [
            ("src/a.rs", "/w/app/src/a.rs", "src/a.rs"),
            ("@src/a.rs", "/w/app/src/a.rs", "src/a.rs"),
            ("./src//b/../a.rs/", "/w/app/src/a.rs", "src/a.rs"),
            (".", "/w/app", "."),
            ("..", "/w", "/w"),
            ("../other", "/w/other", "/w/other"),
            ("/w/app2", "/w/app2", "/w/app2"),
            ("/w/app/x", "/w/app/x", "x"),
            ("../../../../etc", "/etc", "/etc"),
            ("~user", "/w/app/~user", "~user"),
            ("C:/x/../y", "C:/y", "C:/y"),
        ] {
            assert_eq!((at(written).absolute(), at(written).shown()), (absolute, shown), "{written}");
        }
        assert_eq!(GuestPath::resolve("x", "/").unwrap().shown(), "x");
    }

    #[test]
    fn what_means_nothing_here_is_said() {
        for written in ["", "@", "~", "~/x", "a\0b"] {
            assert_eq!(GuestPath::resolve(written, "/w").unwrap_err().kind, ErrorKind::Invalid, "{written:?}");
        }
        assert!(GuestPath::resolve("~/x", "/w").unwrap_err().message.contains("working folder `/w`"));
    }

    fn explain(written: &str, error: io::ErrorKind, names: &[&str]) -> Error {
        let exists = |path: &str| contains("/w", path) && !path.contains("missing");
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        at(written).explain_with("read", &error.into(), exists, |_| names.clone())
    }

    #[test]
    fn outside_names_what_is_granted() {
        let check = |written: &str, folders: &[&str]| {
            let folders: Vec<String> = folders.iter().map(|&folder| folder.to_owned()).collect();
            at(written).check(&folders)
        };
        for written in [".", "..", "../x", "/w", "/w/app/a"] {
            assert_eq!(check(written, &["/spool", "/w"]), Ok(()), "{written}");
        }
        assert_eq!(check("/etc", &["/"]), Ok(()));
        assert!(check("/ww", &["/w"]).is_err());
        let error = check("/etc/passwd", &["/spool", "/w"]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied);
        assert!(error.message.starts_with("`/etc/passwd` is outside the folders"), "{}", error.message);
        assert!(error.message.contains("it may reach `/spool`, `/w` and what lies in it"), "{}", error.message);
        assert!(error.message.contains("`--grant PLUGIN:files=/etc:r`"), "{}", error.message);
        assert!(check("x", &[]).unwrap_err().message.contains("granted no folder"));
    }

    #[test]
    fn a_missing_file_is_told_with_the_one_meant() {
        let message = |written, names: &[&str]| explain(written, io::ErrorKind::NotFound, names).message;
        assert_eq!(
            message("src/mian.rs", &["lib.rs", "main.rs"]),
            "There is no `src/mian.rs`. Did you mean `src/main.rs`?"
        );
        assert_eq!(message("readme.md", &["README.md"]), "There is no `readme.md`. Did you mean `README.md`?");
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
