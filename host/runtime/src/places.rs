//! Where Pith keeps things, and which folders it may not be started in.

use etcetera::base_strategy::{BaseStrategy, Xdg};
use pith_law::{FolderRefusal, check_folder};
use sha2::{Digest, Sha256};
use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Pith's own folders. None is created before something is written into it; then with mode 0700.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// `settings.toml`. Reserved: no plugin reaches it.
    pub config: PathBuf,
    /// Sessions, and the lines that the user typed. Reserved.
    pub data: PathBuf,
    /// Compiled code. Reserved.
    pub cache: PathBuf,
    /// Spooled output, the plugins' own folders, the log. Not reserved: plugins are granted parts of it, and their programs reach those alone.
    pub state: PathBuf,
}

/// The user has no home folder.
#[derive(Debug, thiserror::Error)]
#[error("the home folder is not known, so Pith has no place for its files: set HOME")]
pub struct NoHome;

/// A folder that Pith does not work in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// It is not there, or cannot be entered.
    #[error("the working folder {path} cannot be used: {source}", path = path.display())]
    Unusable {
        /// As asked for.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// A file.
    #[error("the working folder {path} is not a folder", path = path.display())]
    NotAFolder {
        /// As asked for.
        path: PathBuf,
    },
    /// It contains or lies in a folder that tools must not reach.
    #[error("Pith does not work in {workspace}: that folder contains or lies in {kept}, which no tool may reach; \
             start it in a project's folder, or name one with --workspace DIR",
            workspace = workspace.display(), kept = kept.display())]
    Reserved {
        /// Without links.
        workspace: PathBuf,
        /// One of Pith's own folders, or a system folder.
        kept: PathBuf,
    },
}

impl Places {
    /// The XDG base folders of this process's environment (`XDG_CONFIG_HOME` and so on), each with `pith` in it.
    pub fn from_process() -> Result<Self, NoHome> {
        let xdg = Xdg::new().map_err(|_| NoHome)?;
        let state = xdg.state_dir().unwrap_or_else(|| xdg.data_dir());
        Ok(Self {
            config: xdg.config_dir().join("pith"),
            data: xdg.data_dir().join("pith"),
            cache: xdg.cache_dir().join("pith"),
            state: state.join("pith"),
        })
    }

    /// All four within one folder, which should be absolute: `config`, `data`, `cache`, `state`.
    pub fn beneath(folder: &Path) -> Self {
        let at = |name: &str| folder.join(name);
        Self { config: at("config"), data: at("data"), cache: at("cache"), state: at("state") }
    }

    /// The folders that no plugin, tool or child is given, with and without links.
    pub fn reserved(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for folder in [&self.config, &self.data, &self.cache] {
            for path in [folder.clone(), real(folder)] {
                if !all.contains(&path) {
                    all.push(path);
                }
            }
        }
        all
    }

    /// `settings.toml`.
    pub fn settings_file(&self) -> PathBuf {
        self.config.join("settings.toml")
    }

    /// Where sessions lie, a folder for each working folder.
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// Where deleted sessions lie for a while.
    pub fn trash(&self) -> PathBuf {
        self.data.join("trash")
    }

    /// Where the spool folders of all sessions lie.
    pub fn spools(&self) -> PathBuf {
        self.state.join("spool")
    }

    /// Where a session's long outputs lie. The id stands in a file, so one that could be a path is replaced by its digest.
    pub fn spool(&self, session: &str) -> PathBuf {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let folder = self.spools();
        if (1..=64).contains(&session.len()) && session.bytes().all(plain) {
            return folder.join(session);
        }
        folder.join(Sha256::digest(session).iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    /// Where compiled code lies.
    pub fn compiled(&self) -> PathBuf {
        self.cache.join("compiled")
    }

    /// Where plugins' own folders lie.
    pub fn plugin_data(&self) -> PathBuf {
        self.state.join("plugin-data")
    }

    /// What plugins used.
    pub fn plugin_use_file(&self) -> PathBuf {
        self.state.join(crate::usage::FILE)
    }

    /// The log.
    pub fn log_file(&self) -> PathBuf {
        self.state.join("log").join("pith.log")
    }

    /// The lines that the user typed, over all sessions.
    pub fn history_file(&self) -> PathBuf {
        self.data.join("history")
    }

    /// The working folder without links, once it is one that tools may work in.
    pub fn check_workspace(&self, folder: &Path) -> Result<PathBuf, WorkspaceError> {
        let unusable = |source| WorkspaceError::Unusable { path: folder.to_owned(), source };
        let workspace = std::fs::canonicalize(folder).map_err(unusable)?;
        if !std::fs::metadata(&workspace).map_err(unusable)?.is_dir() {
            return Err(WorkspaceError::NotAFolder { path: folder.to_owned() });
        }
        match check_folder(&workspace, &self.reserved()) {
            Ok(_) => Ok(workspace),
            Err(FolderRefusal::Kept { kept, .. }) => Err(WorkspaceError::Reserved { workspace, kept }),
            Err(refusal) => Err(unusable(io::Error::new(io::ErrorKind::InvalidInput, refusal))),
        }
    }
}

/// The path without links as far as it exists: a folder that will be created is known by where it will be.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        if let Ok(found) = std::fs::canonicalize(there) {
            return missing.iter().rev().fold(found, |whole, part| whole.join(part));
        }
        match (there.file_name(), there.parent()) {
            (Some(name), Some(parent)) => {
                missing.push(name);
                there = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

/// Creates a folder and what is missing above it, for this user alone.
pub(crate) fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_workspace_neither_contains_nor_lies_in_a_reserved_folder() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let places = Places::beneath(&home.join("x/pith"));
        for folder in ["code", "x/pith/data/sessions/a", "x/pith/state/spool"] {
            std::fs::create_dir_all(home.join(folder)).unwrap();
        }
        assert_eq!(places.check_workspace(&home.join("code/../code")).unwrap(), home.join("code"));
        // The state folder is not reserved.
        assert!(places.check_workspace(&home.join("x/pith/state/spool")).is_ok());
        symlink(home.join("x/pith/data/sessions"), home.join("code/link")).unwrap();
        for refused in ["", "x", "x/pith", "x/pith/data", "x/pith/data/sessions/a", "code/link"] {
            let error = places.check_workspace(&home.join(refused)).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, WorkspaceError::Reserved { .. }), "{refused}: {text}");
            assert!(text.contains("--workspace DIR") && text.contains("x/pith/"), "{text}");
        }
        for system in ["/", "/proc", "/proc/self", "/sys", "/dev"] {
            assert!(
                matches!(places.check_workspace(Path::new(system)), Err(WorkspaceError::Reserved { .. })),
                "{system}"
            );
        }
        assert!(matches!(places.check_workspace(&home.join("none")), Err(WorkspaceError::Unusable { .. })));
        std::fs::write(home.join("file"), "").unwrap();
        assert!(matches!(places.check_workspace(&home.join("file")), Err(WorkspaceError::NotAFolder { .. })));
    }

    #[test]
    fn a_reserved_folder_behind_a_link_is_kept_by_both_names() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("dotfiles/config")).unwrap();
        std::fs::create_dir_all(home.join("pith")).unwrap();
        symlink(home.join("dotfiles/config"), home.join("pith/config")).unwrap();
        let places = Places::beneath(&home.join("pith"));
        let error = places.check_workspace(&home.join("dotfiles")).unwrap_err();
        assert!(matches!(error, WorkspaceError::Reserved { .. }), "{error}");
        assert_eq!(real(&home.join("pith/config/a/b")), home.join("dotfiles/config/a/b"));
    }

    #[test]
    fn a_sessions_id_never_leads_out_of_the_spool() {
        let places = Places::beneath(Path::new("/p"));
        assert_eq!(places.spool("01a2-b"), Path::new("/p/state/spool/01a2-b"));
        for id in ["..", "", "a/../../x", "/etc", &"a".repeat(65)] {
            let path = places.spool(id);
            assert_eq!(path.parent(), Some(Path::new("/p/state/spool")), "{id}");
            assert_eq!(path.file_name().map(|name| name.len()), Some(64), "{id}");
        }
    }

    #[test]
    fn folders_are_created_for_one_user() {
        let home = tempfile::tempdir().unwrap();
        create_private(&home.path().join("a/b")).unwrap();
        for folder in ["a", "a/b"] {
            assert_eq!(std::fs::metadata(home.path().join(folder)).unwrap().permissions().mode() & 0o7777, 0o700);
        }
    }
}
