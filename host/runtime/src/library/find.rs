//! Which session a person's word means.

use crate::{index::Index, places::Places, sessions::ChoiceError, shelf::folder_of, store::LoadError};
use pith_os::{OpenError, Root};
use pith_protocol::Header;
use std::{
    collections::HashMap,
    fs::DirEntry,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The longest header line that is looked at to find a session, in bytes.
const HEADER_LIMIT_BYTES: u64 = 64 << 10;
/// Sessions that an ambiguous word names.
const MATCHES_SHOWN: usize = 5;
/// Characters of a name in a list of sessions that a word could mean.
const NAME_CHARS: usize = 60;
/// Characters of an id that are shown at least: they say when the session began.
const SHORT_ID_CHARS: usize = 8;

/// The folder's file that was changed last and says that it is of this folder; `workspace` is without links.
pub(crate) fn latest(places: &Places, workspace: &Path) -> Result<Option<PathBuf>, ChoiceError> {
    let folder = folder_of(places, workspace);
    let mut files: Vec<_> = session_files(&folder)?
        .into_iter()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.file_name())))
        .collect();
    files.sort();
    let root = match Root::open(&folder) {
        Ok(root) => root,
        Err(OpenError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(LoadError::Open(error).into()),
    };
    let of_this_folder = |name: &Path| header(&root, name).is_some_and(|header| Path::new(&header.cwd) == workspace);
    Ok(files
        .into_iter()
        .rev()
        .map(|(_, name)| PathBuf::from(name))
        .find(|name| of_this_folder(name))
        .map(|name| root.path().join(name)))
}

/// The file that a person's word means: `-` the latest of the folder, a path, the beginning of an id, a name.
///
/// # Errors
/// No session is meant, or several are; the sessions cannot be listed.
pub fn find_session(places: &Places, workspace: &Path, wanted: &str) -> Result<PathBuf, ChoiceError> {
    let index = &Index::at(places);
    let not_found = || ChoiceError::NotFound { wanted: wanted.to_owned() };
    if wanted == "-" {
        let none = || ChoiceError::NoneHere { workspace: workspace.to_owned() };
        return latest(places, workspace)?.ok_or_else(none);
    }
    if wanted.trim().is_empty() {
        return Err(not_found());
    }
    let path = Path::new(wanted);
    if wanted.contains('/') || path.extension().is_some_and(|extension| extension == "jsonl") {
        return Ok(path.to_owned());
    }
    let mut found: Vec<(String, PathBuf)> = ids(index)?.into_iter().filter(|(id, _)| id.starts_with(wanted)).collect();
    if found.is_empty() {
        found = known_by(index, wanted)?;
    }
    if found.len() > 1 && found.iter().filter(|(id, _)| id == wanted).count() == 1 {
        found.retain(|(id, _)| id == wanted);
    }
    match found.len() {
        0 if path.is_file() => Ok(path.to_owned()),
        0 => Err(not_found()),
        1 => Ok(found.remove(0).1),
        count => {
            found.sort();
            let mut found: Vec<String> = found.into_iter().take(MATCHES_SHOWN).map(|(id, _)| id).collect();
            if count > found.len() {
                found.push(format!("and {} more", count - found.len()));
            }
            Err(ChoiceError::Ambiguous { wanted: wanted.to_owned(), found })
        }
    }
}

/// By what the files say: their names, or ids where files were renamed. A name that is written exactly so comes before one in other case.
fn known_by(index: &Index, wanted: &str) -> Result<Vec<(String, PathBuf)>, ChoiceError> {
    let listed = index.list(None).map_err(|source| unlistable(index.folder(), source))?.sessions;
    let lower = wanted.trim().to_lowercase();
    let named = |exactly: bool| {
        let is =
            move |name: &str, lower: &str| if exactly { name == wanted.trim() } else { name.to_lowercase() == lower };
        let found = listed.iter().filter(|one| one.totals.name.as_deref().is_some_and(|name| is(name, &lower)));
        let told = |one: &crate::SessionSummary| {
            let name: String = one.totals.name.iter().flat_map(|name| name.chars()).take(NAME_CHARS).collect();
            (format!("{} ({name})", one.id), one.file.clone())
        };
        found.map(told).collect::<Vec<_>>()
    };
    for exactly in [true, false] {
        let found = named(exactly);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let by_id = listed.iter().filter(|one| one.id.starts_with(wanted));
    Ok(by_id.map(|one| (one.id.clone(), one.file.clone())).collect())
}

/// The ids of all sessions as their files' names have them, and the files.
fn ids(index: &Index) -> Result<Vec<(String, PathBuf)>, ChoiceError> {
    let mut found = Vec::new();
    for folder in listed(index.folder())? {
        for entry in session_files(&folder.path())? {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl")).and_then(|stem| stem.split_once('_'));
            if let Some((_, id)) = id.filter(|(_, id)| !id.is_empty()) {
                found.push((id.to_owned(), entry.path()));
            }
        }
    }
    Ok(found)
}

/// Of each session's id a beginning that no other session's has, as `find_session` takes it.
#[derive(Clone, Debug, Default)]
pub struct ShortIds(HashMap<String, usize>);

impl ShortIds {
    /// Of the sessions that there are now; where they cannot be listed, ids are whole.
    pub fn of(places: &Places) -> Self {
        let mut all = ids(&Index::at(places)).unwrap_or_default().into_iter().map(|(id, _)| id).collect();
        Self(short_ids(&mut all))
    }

    /// The beginning; the whole of an id that was not there.
    pub fn get<'i>(&self, id: &'i str) -> &'i str {
        self.0.get(id).and_then(|length| id.get(..*length)).unwrap_or(id)
    }
}

/// The length of each id's beginning that no other one has, in bytes.
fn short_ids(ids: &mut Vec<String>) -> HashMap<String, usize> {
    ids.sort_unstable();
    ids.dedup();
    let common = |one: &str, other: &str| one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let mut lengths = HashMap::with_capacity(ids.len());
    for (at, id) in ids.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| ids.get(at)).map_or(0, |other| common(id, other));
        let after = ids.get(at + 1).map_or(0, |other| common(id, other));
        let mut length = before.max(after).saturating_add(1).max(SHORT_ID_CHARS).min(id.len());
        // A dash at the end says nothing, and ids of others may have longer characters.
        while length < id.len() && (!id.is_char_boundary(length) || id.as_bytes()[length - 1] == b'-') {
            length += 1;
        }
        lengths.insert(id.clone(), length);
    }
    lengths
}

fn unlistable(folder: &Path, source: io::Error) -> ChoiceError {
    ChoiceError::Unlistable { path: folder.to_owned(), source }
}

/// What is in a folder; nothing where the folder is not there.
fn listed(folder: &Path) -> Result<Vec<DirEntry>, ChoiceError> {
    let failed = |source| unlistable(folder, source);
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.collect::<io::Result<_>>().map_err(failed),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

/// The session files of a folder: regular, by the name.
fn session_files(folder: &Path) -> Result<Vec<DirEntry>, ChoiceError> {
    let mut entries = listed(folder)?;
    entries.retain(|entry| {
        entry.path().extension().is_some_and(|extension| extension == "jsonl")
            && entry.file_type().is_ok_and(|kind| kind.is_file())
    });
    Ok(entries)
}

/// A file's first line, where it is a session's.
fn header(root: &Root, name: &Path) -> Option<Header> {
    let mut bytes = Vec::new();
    root.open_file(name).ok()?.take(HEADER_LIMIT_BYTES).read_to_end(&mut bytes).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice::<Header>(line).ok().filter(|header| header.kind == "session")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_are_the_shortest_that_mean_one_session() {
        let check = |ids: &[&str], expected: &[&str]| {
            let mut owned: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            let lengths = short_ids(&mut owned);
            let short: Vec<&str> = ids.iter().map(|id| &id[..lengths[*id]]).collect();
            assert_eq!(short, expected);
        };
        check(&["019a0000-1111-7aaa"], &["019a0000"]);
        check(
            &["019a0000-1111-7aaa", "019a0000-1112-7aaa", "019a0001-0000-7000"],
            &["019a0000-1111", "019a0000-1112", "019a0001"],
        );
        // What is another's beginning can only be written whole.
        check(&["019a0000", "019a0000-1"], &["019a0000", "019a0000-1"]);
        check(&["a", "", "é"], &["a", "", "é"]);
        check(&["1234567é", "1234567è"], &["1234567é", "1234567è"]);
        check(&["x", "x"], &["x", "x"]);
    }

    #[test]
    fn words_mean_ids_names_and_files() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::beneath(dir.path());
        let index = Index::at(&places);
        let folder = index.folder().join("w-1");
        std::fs::create_dir_all(&folder).unwrap();
        let put = |file: &str, id: &str, name: &str| {
            let path = folder.join(file);
            let lines = [
                serde_json::json!({ "type": "session", "version": 3, "id": id, "timestamp": "", "cwd": "/w" }),
                serde_json::json!({ "type": "session_info", "id": "1", "parentId": null, "timestamp": "", "name": name }),
            ];
            std::fs::write(&path, format!("{}\n{}\n", lines[0], lines[1])).unwrap();
            path
        };
        let one = put("t_aa11.jsonl", "aa11", "Parser work");
        let two = put("t_aa22.jsonl", "aa22", "parser work");
        let three = put("renamed.jsonl", "bb33", "Überblick");
        let find = |wanted: &str| find_session(&places, Path::new("/w"), wanted);
        assert_eq!(find("aa1").unwrap(), one);
        assert_eq!(find("Parser work").unwrap(), one);
        assert_eq!(find("parser work").unwrap(), two);
        assert_eq!(find("bb3").unwrap(), three);
        assert_eq!(find("überblick").unwrap(), three);
        assert_eq!(find("x/none.jsonl").unwrap(), Path::new("x/none.jsonl"));
        let Err(ChoiceError::Ambiguous { found, .. }) = find("aa") else { panic!() };
        assert_eq!(found, ["aa11", "aa22"]);
        let Err(ChoiceError::Ambiguous { found, .. }) = find("PARSER WORK") else { panic!() };
        assert_eq!(found, ["aa11 (Parser work)", "aa22 (parser work)"]);
        for none in ["", " ", "cc", "ars"] {
            assert!(matches!(find(none), Err(ChoiceError::NotFound { .. })), "{none:?}");
        }
        assert!(matches!(find("-"), Err(ChoiceError::NoneHere { .. })));
    }
}
