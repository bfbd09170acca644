//! The sample project: in the binary, copied out, read back, compared.

use similar::TextDiff;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// Files by their place in the project.
type Files = BTreeMap<&'static str, String>;

/// What is copied: place, text. The sample keeps a `.env` under another name, since many tools leave that name out.
const FILES: &[(&str, &str)] = &[
    ("README.md", include_str!("../../sample/README.md")),
    ("test.sh", include_str!("../../sample/test.sh")),
    ("src/total.sh", include_str!("../../sample/src/total.sh")),
    ("receipts/lunch.txt", include_str!("../../sample/receipts/lunch.txt")),
    (".env", include_str!("../../sample/env.sample")),
];

/// Copies the project to a new temporary folder, which stays for the user to look at.
pub fn unpack() -> io::Result<PathBuf> {
    let folder = tempfile::Builder::new().prefix("pith-demo-").tempdir()?.keep();
    // The shortest spelling of the folder: what the agent shows and what the shell shows are then the same.
    let folder = folder.canonicalize()?;
    for (place, text) in FILES {
        let path = folder.join(place);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(folder)
}

/// The project's files as they are now; one that is gone is empty.
pub fn read(folder: &Path) -> Files {
    FILES.iter().map(|(place, _)| (*place, std::fs::read_to_string(folder.join(place)).unwrap_or_default())).collect()
}

/// A unified diff of all files.
pub fn diff(before: &Files, after: &Files) -> String {
    let mut out = String::new();
    for (place, old) in before {
        let new = &after[place];
        if old != new {
            let diff = TextDiff::from_lines(old.as_str(), new.as_str());
            out.push_str(&diff.unified_diff().header(&format!("a/{place}"), &format!("b/{place}")).to_string());
        }
    }
    out
}
