//! The folders of a plugin's grants: found, checked and held at load.

use crate::error::LoadError;
use pith_law::{Access, Capability, FilesBound, Folder, check_folder};
use pith_os::Root;
use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Where the folders of grants are.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The working folder.
    pub workspace: PathBuf,
    /// Where long outputs of the session lie; always taken from `HostConfig::spool`. Grants of it are left out where it is not there.
    pub spool: PathBuf,
    /// Each plugin's own folder is in here, under its name. Empty: there is none. Grants of a folder that cannot be made are left out.
    pub plugin_data: PathBuf,
    /// Each plugin's temporary folder is in here, under its name. Made fresh by the caller for each start. Empty: there is none. Grants
    /// of a folder that cannot be made are left out.
    pub temp: PathBuf,
    /// The folders of skills.
    pub skills: Vec<PathBuf>,
    /// What no plugin may reach: Pith's own folders.
    pub reserved: Vec<PathBuf>,
}

impl Places {
    /// Adds what is kept from plugins in any case, and the reserved folders' paths without links: grants are compared without links too.
    pub(crate) fn reserve(&mut self, also: &Path) {
        self.reserved.push(also.to_owned());
        let real: Vec<PathBuf> = self.reserved.iter().filter_map(|path| real_path(path)).collect();
        self.reserved.extend(real);
    }
}

/// A path without links, also where its last parts are not there yet.
fn real_path(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|existing| {
        let real = std::fs::canonicalize(existing).ok()?;
        Some(real.join(path.strip_prefix(existing).ok()?))
    })
}

/// All folders of one plugin.
#[derive(Default)]
pub(crate) struct Folders {
    pub list: Vec<GrantedFolder>,
    /// The same, for the host's own opener.
    pub roots: Vec<Root>,
}

/// One granted folder.
pub(crate) struct GrantedFolder {
    /// Absolute, without links: also the guest's name for it.
    pub path: PathBuf,
    pub guest_path: String,
    pub writable: bool,
    pub is_workspace: bool,
    /// Held from load on.
    pub handle: File,
}

/// All folders that a plugin's grants name. Pith's own that cannot be made are left out, which costs a plugin less than its tools: the
/// caller made their places, and tells the user.
pub(crate) fn granted_folders(plugin: &str, grants: &[Capability], places: &Places) -> Result<Folders, LoadError> {
    let mut folders = Folders::default();
    for grant in grants {
        let Capability::Files(bound) = grant else { continue };
        for path in paths(plugin, bound, places) {
            let unusable = |source: io::Error| LoadError::FolderUnusable {
                plugin: plugin.to_owned(),
                capability: grant.to_string(),
                path: path.clone(),
                source,
            };
            let refused =
                |source| LoadError::Folder { plugin: plugin.to_owned(), capability: grant.to_string(), source };
            // By its name first, so that nothing is made where nothing may be reached.
            check_folder(&path, &places.reserved).map_err(refused)?;
            if matches!(bound.folder, Folder::PluginData | Folder::Temp) && !is_made(&path) {
                continue;
            }
            let root = Root::open(&path).map_err(|error| unusable(io::Error::other(error)))?;
            let real = check_folder(root.path(), &places.reserved).map_err(refused)?;
            let writable = bound.access == Access::ReadWrite;
            if let Some(known) = folders.list.iter_mut().find(|known| known.path == real) {
                known.writable |= writable;
                known.is_workspace |= bound.folder == Folder::Workspace;
                continue;
            }
            let handle = File::open(&real).map_err(unusable)?;
            let guest_path = real.to_str().ok_or_else(|| unusable(io::ErrorKind::InvalidFilename.into()))?.to_owned();
            let is_workspace = bound.folder == Folder::Workspace;
            folders.list.push(GrantedFolder { path: real, guest_path, writable, is_workspace, handle });
            folders.roots.push(root);
        }
    }
    Ok(folders)
}

/// Makes one of Pith's own folders. Whether it is there and can be entered.
fn is_made(path: &Path) -> bool {
    DirBuilder::new().recursive(true).mode(0o700).create(path).is_ok() && Root::open(path).is_ok()
}

fn paths(plugin: &str, bound: &FilesBound, places: &Places) -> Vec<PathBuf> {
    match &bound.folder {
        Folder::Workspace => vec![places.workspace.clone()],
        // Whoever made the spool made its folder.
        Folder::Spool => Some(&places.spool).filter(|path| path.is_dir()).cloned().into_iter().collect(),
        Folder::PluginData => own(&places.plugin_data, plugin),
        Folder::Temp => own(&places.temp, plugin),
        // A folder of skills that is not there has none.
        Folder::Skills => places.skills.iter().filter(|path| path.is_dir()).cloned().collect(),
        Folder::Path(path) => vec![path.clone()],
    }
}

fn own(all: &Path, plugin: &str) -> Vec<PathBuf> {
    if all.as_os_str().is_empty() { Vec::new() } else { vec![all.join(plugin)] }
}

/// Folders that some plugin may write to: no program that a plugin may run is taken from there.
pub(crate) fn writable_paths<'f>(folders: impl Iterator<Item = &'f GrantedFolder>) -> Vec<PathBuf> {
    folders.filter(|folder| folder.writable).map(|folder| folder.path.clone()).collect()
}

/// Whether a path lies within one of the folders, by its text.
pub(crate) fn holds(folders: &[GrantedFolder], path: &Path) -> bool {
    folders.iter().any(|folder| path.starts_with(&folder.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_folders_that_cannot_be_made_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::write(top.join("file"), "").unwrap();
        for folder in ["work", "spool"] {
            std::fs::create_dir(top.join(folder)).unwrap();
        }
        let grants: Vec<Capability> = ["files=workspace:rw", "files=spool:r", "files=plugin-data:rw", "files=temp:rw"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let given = |spool: &str, data: &str, temp: &str| {
            let at = |name: &str| if name.is_empty() { PathBuf::new() } else { top.join(name) };
            let (spool, plugin_data, temp) = (at(spool), at(data), at(temp));
            let places = Places { workspace: top.join("work"), spool, plugin_data, temp, ..Places::default() };
            let folders = granted_folders("mine", &grants, &places).map_err(|error| error.to_string()).unwrap();
            assert_eq!(folders.list.len(), folders.roots.len());
            let relative =
                |folder: &GrantedFolder| folder.path.strip_prefix(&top).unwrap().to_str().unwrap().to_owned();
            folders.list.iter().map(relative).collect::<Vec<_>>()
        };
        assert_eq!(given("spool", "data", "temp"), ["work", "spool", "data/mine", "temp/mine"]);
        assert_eq!(given("none", "file", "file"), ["work"]);
        assert_eq!(given("file", "", ""), ["work"]);
        assert!(!top.join("none").exists() && !Path::new("mine").exists());
        std::fs::remove_dir(top.join("data/mine")).unwrap();
        std::fs::write(top.join("data/mine"), "").unwrap();
        assert_eq!(given("spool", "data", "temp"), ["work", "spool", "temp/mine"]);
        // What the user named is there or is an error.
        let named = format!("files={}", top.join("file/x").display()).parse().unwrap();
        assert!(matches!(granted_folders("mine", &[named], &Places::default()), Err(LoadError::FolderUnusable { .. })));
    }
}
