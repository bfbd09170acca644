//! Which file a path means, where names look alike.
//!
//! Gates have judged the path as it was written, so what is opened instead must be no name that a gate's rule is likely
//! to have: only a name that is not plain ASCII stands in for another, and only to be read.

use pith_sdk::paths::GuestPath;
use pith_sdk::text::with_notices;
use pith_sdk::{Content, Error, Output};

use crate::letters::folded;

/// The most names of one folder that are looked at.
const MAX_NAMES: usize = 20_000;
/// The most parts of a path that may look like others.
const MAX_PARTS: usize = 16;

/// The path that a tool was given. A leading `@` is a mark that people write before files, to gates and so to tools; where
/// there is only a name that begins with it, the way to write that is told.
pub fn given(written: &str) -> Result<GuestPath, Error> {
    let path = GuestPath::granted(written)?;
    if written.starts_with('@') && std::fs::symlink_metadata(&path).is_err() {
        let first = written.split('/').next().unwrap_or_default();
        if std::fs::symlink_metadata(GuestPath::granted(&format!("./{first}"))?).is_ok() {
            return Err(Error::not_found(format!(
                "A leading `@` is not part of a path, and there is no `{path}`. For what is called `{first}` write `./{written}`."
            )));
        }
    }
    Ok(path)
}

/// Where nothing is at `path`: the only other path there that looks the same. macOS writes names with a narrow space
/// before AM and PM, with a curly apostrophe and with letters taken apart, and nobody types those.
pub fn look_alike(path: &GuestPath) -> Option<GuestPath> {
    let mut missing = Vec::new();
    let mut folder = path.clone();
    while std::fs::symlink_metadata(&folder).is_err() {
        if missing.len() == MAX_PARTS {
            return None;
        }
        missing.push(folder.absolute().rsplit('/').next().unwrap_or_default().to_owned());
        folder = folder.parent()?;
    }
    let mut found = folder;
    for name in missing.iter().rev() {
        let inside = |name: &str| GuestPath::granted(&format!("{}/{name}", found.absolute().trim_end_matches('/')));
        let exact = inside(name).ok()?;
        found =
            if std::fs::symlink_metadata(&exact).is_ok() { exact } else { inside(&alike_in(&found, name)?).ok()? };
    }
    (found != *path).then_some(found)
}

/// The only name in a folder that looks like this one and is not plain ASCII.
fn alike_in(folder: &GuestPath, name: &str) -> Option<String> {
    let wanted = folded(name);
    let found = folder.entries(MAX_NAMES).ok()?;
    let mut alike = found
        .entries
        .into_iter()
        .map(|entry| entry.name)
        .filter(|other| !other.is_ascii() && other != name && folded(other) == wanted);
    let only = alike.next()?;
    alike.next().is_none().then_some(only)
}

/// The output, with a notice where it is of another path than the one that was written.
pub fn noted(mut output: Output, path: &GuestPath, written: &GuestPath) -> Output {
    if path != written
        && let Some(Content::Text(text)) = output.content.first_mut()
    {
        let notice = format!("This is `{path}`: the name as given is not there, but looks the same.");
        *text = with_notices(text, &[notice]);
    }
    output
}

/// Another name in the folder of `path` that looks like its own.
pub fn twin(path: &GuestPath) -> Option<GuestPath> {
    let folder = path.parent()?;
    let name = alike_in(&folder, path.absolute().rsplit('/').next()?)?;
    GuestPath::granted(&format!("{}/{name}", folder.absolute().trim_end_matches('/'))).ok()
}

/// [`GuestPath::explain`], which is told of a name that looks the same.
pub fn explain(path: &GuestPath, deed: &str, error: &std::io::Error) -> Error {
    let other = if error.kind() == std::io::ErrorKind::NotFound { look_alike(path) } else { None };
    match other {
        Some(other) => Error::not_found(format!(
            "There is no `{path}`, but `{other}`, which looks the same and has {}. To {deed} it, copy that name.",
            differences(&other.to_string())
        )),
        None => path.explain(deed, error),
    }
}

/// The characters of a name that are not ASCII, by their numbers.
fn differences(name: &str) -> String {
    let mut chars = Vec::new();
    for char in name.chars().filter(|char| !char.is_ascii()) {
        if let Err(at) = chars.binary_search(&char) {
            chars.insert(at, char);
        }
    }
    chars.truncate(6);
    let numbers: Vec<String> = chars.iter().map(|&char| format!("U+{:04X}", char as u32)).collect();
    numbers.join(", ")
}
