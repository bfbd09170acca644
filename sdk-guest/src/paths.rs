//! Paths as a model writes them, and sentences for those that cannot be reached.
//!
//! Guest paths are host paths: a granted folder is opened at its own absolute path. `std::fs::canonicalize` always fails in
//! a guest and `std::env::temp_dir` panics there, so paths are made absolute as text, against the session's folder.

mod explain;
mod names;
mod reach;
mod written;

use crate::text::brief;
use crate::{Error, context};

pub use explain::EIO;
pub use names::{Entries, Entry, EntryKind};
pub use reach::{MAX_LISTED, MAX_READ_BYTES};
pub(crate) use written::refused;

/// One path: absolute, without `.` and `..`, spelled with `/`, beside the short form that the model is shown.
///
/// As a field of a tool's [`Input`](trait@crate::Input) it is a path that the model wrote, in a folder that was granted: what is
/// not is refused before the tool runs, with the sentence that says what to do. Its methods say so too where something is
/// missing or forbidden, so `path.read_to_string()?` is all that a tool needs.
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
                "`{}`: plugins do not know a home folder, so `~` means nothing here. Write the path out, or relative to the working folder `{cwd}`.",
                brief(written)
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
        let is_folder = written.ends_with('/') || written.ends_with("..");
        path.check(&granted_folders(&path.cwd), is_folder)?;
        path.stays()?;
        Ok(path)
    }

    /// A name in this folder; `invalid` and `denied` as [`GuestPath::granted`].
    pub fn join(&self, name: &str) -> Result<Self, Error> {
        let path = Self::resolve(name, &self.absolute)?;
        let path = Self { absolute: path.absolute, cwd: self.cwd.clone() };
        path.check(&granted_folders(&path.cwd), false)?;
        path.stays()?;
        Ok(path)
    }

    /// In a component the host's opener refuses links that lead out, at each use.
    #[cfg(target_arch = "wasm32")]
    fn stays(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Without a host nobody but this refuses a link that leads out of the place.
    #[cfg(not(target_arch = "wasm32"))]
    fn stays(&self) -> Result<(), Error> {
        let nearest = ancestors(&self.absolute).find_map(|folder| std::fs::canonicalize(folder).ok());
        let real = std::fs::canonicalize(&self.absolute).ok().or(nearest);
        let Some(real) = real.as_ref().and_then(|path| path.to_str()) else { return Ok(()) };
        let folders = granted_folders(&self.cwd);
        if folders.iter().any(|folder| contains(folder, real)) {
            return Ok(());
        }
        Err(self.explain("use", &std::io::Error::from_raw_os_error(explain::EPERM)))
    }

    /// `is_folder` where it is known to be one; what lies outside cannot be asked.
    fn check(&self, folders: &[String], is_folder: bool) -> Result<(), Error> {
        if folders.iter().any(|folder| contains(folder, &self.absolute)) {
            return Ok(());
        }
        let reach = match folders {
            [] => "it was granted no folder".to_owned(),
            folders => format!("it may reach `{}` and what lies in it", folders.join("`, `")),
        };
        // The narrowest folder that it may mean, and never all there is.
        let is_folder = is_folder || contains(&self.absolute, &self.cwd);
        let folder = parent(&self.absolute).filter(|&parent| !is_folder && parent != "/").unwrap_or(&self.absolute);
        let folder = brief(folder);
        Err(Error::denied(format!(
            "`{}` is outside the folders that this plugin was granted: {reach}. Use a path in there; another folder is the user's to grant (`--grant PLUGIN:files={folder}:r`).",
            brief(&self.absolute)
        )))
    }
}

impl AsRef<std::path::Path> for GuestPath {
    fn as_ref(&self) -> &std::path::Path {
        self.absolute.as_ref()
    }
}

/// As [`GuestPath::shown`], for sentences: a very long one is cut in its middle.
impl std::fmt::Display for GuestPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&brief(self.shown()))
    }
}

/// The names of the folders that were granted, absolute; the working folder stands for `.`.
#[cfg(target_arch = "wasm32")]
fn granted_folders(cwd: &str) -> Vec<String> {
    let mut folders = Vec::new();
    for (_, name) in crate::bindings::folders::wasi::filesystem::preopens::get_directories() {
        let name = granted_name(&name, cwd);
        // In order, without `sort`: that would be 3 kB of every component, for a handful of names.
        if let Err(at) = folders.binary_search(&name) {
            folders.insert(at, name);
        }
    }
    folders
}

/// What an opened folder is called.
#[cfg(target_arch = "wasm32")]
fn granted_name(name: &str, cwd: &str) -> String {
    if is_absolute(name) { normal(name) } else { cwd.to_owned() }
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

    #[test]
    fn outside_names_what_is_granted() {
        let check = |written: &str, folders: &[&str]| {
            let folders: Vec<String> = folders.iter().map(|&folder| folder.to_owned()).collect();
            at(written).check(&folders, false)
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
        for (written, folder) in
            [("..", "/w"), ("../..", "/"), ("/etc", "/etc"), ("/usr/lib", "/usr"), ("/w/other/x", "/w/other")]
        {
            let message = check(written, &["/w/app"]).unwrap_err().message;
            assert!(message.contains(&format!("files={folder}:r`")), "{written}: {message}");
        }
        let long = check(&format!("/{}", "x/".repeat(3_000)), &["/w"]).unwrap_err().message;
        assert!(long.len() < 1_500 && long.contains("/x.../x"), "{long}");
        assert!(check("x", &[]).unwrap_err().message.contains("granted no folder"));
    }
}
