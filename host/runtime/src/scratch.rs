//! The folders that Pith makes for a session's plugins. One that cannot be made costs what it is for, never the start: a home that is
//! read-only, or none at all, is common in containers.

use crate::{
    places::{Places, create_private, real},
    plugins::Planned,
    remove::{open_holder, remove_in},
    spool::{HeldSpool, LazySpool, NoSpool},
};
use pith_core::Spool;
use pith_law::{Capability, Folder, FolderRefusal, check_folder};
use pith_os::SpoolDir;
use std::{
    ffi::{CString, OsStr},
    fs::{File, Permissions},
    io::{self, Write},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where a folder in memory is, in case nothing else can be written to.
const MEMORY_FOLDER: &str = "/dev/shm";

/// Folders that go when the session's process is done with it.
pub(crate) struct Scratch {
    /// Each goes with all that is in it.
    temps: Vec<Temporary>,
    /// The spool folder of a session that outlives the process.
    spool: Option<PathBuf>,
}

/// What a temporary folder's name begins with; as many letters and digits follow as `tempfile` chooses.
const PREFIX: &str = "pith-";
const CHOSEN: usize = 6;
/// The file in it that is locked while its process lives.
pub(crate) const MARK: &str = ".pith-session";
/// What stands in that file, for people.
const MARK_TEXT: &str = "A running Pith session holds this folder. Without one the next start removes it.\n";

/// Whether a temporary folder may be called so.
pub(crate) fn is_scratch_name(name: &str) -> bool {
    let chosen = name.strip_prefix(PREFIX);
    chosen.is_some_and(|rest| rest.len() == CHOSEN && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// A temporary folder. It goes when this is dropped; where its process is killed, the next start's sweep removes it.
struct Temporary {
    path: PathBuf,
    /// The lock. None where it cannot be had: then a killed process leaves the folder for good.
    _mark: Option<File>,
}

impl Temporary {
    fn make(within: &Path) -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix(PREFIX).rand_bytes(CHOSEN).tempdir_in(within)?.keep();
        let mark = marked(&path).ok();
        Ok(Self { path, _mark: mark })
    }
}

fn marked(folder: &Path) -> io::Result<File> {
    let mut mark = File::create_new(folder.join(MARK))?;
    mark.try_lock()?;
    mark.write_all(MARK_TEXT.as_bytes())?;
    Ok(mark)
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // By descriptors: programs may have written there. What cannot be removed is the sweep's.
        if let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name())
            && let (Ok(parent), Ok(name)) = (open_holder(parent), CString::new(name.as_bytes()))
        {
            let _ = remove_in(&parent, &name, Some(OsStr::new(MARK)));
        }
    }
}

impl Scratch {
    /// The folder that is `/tmp` for the session's programs, as anybody's `/tmp` is; on the disk for this user alone. None where it cannot be
    /// made: then each program has an empty one.
    pub fn programs_temp(&mut self, temp: &Path, reserved: &[PathBuf]) -> Option<PathBuf> {
        let folder = temporary(self, temp, reserved).ok()?.join("tmp");
        std::fs::create_dir(&folder).ok()?;
        std::fs::set_permissions(&folder, Permissions::from_mode(0o1777)).ok()?;
        Some(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(spool) = &self.spool {
            // An empty spool folder says nothing; one with files fails to go.
            let _ = std::fs::remove_dir(spool);
        }
    }
}

/// What plugins are given of Pith's own folders. Where one could not be made, its path is of nothing.
pub(crate) struct OwnFolders {
    pub scratch: Scratch,
    /// For people: what could not be made, and what that costs.
    pub notices: Vec<String>,
    /// Where programs' long outputs go.
    pub outputs: SpoolDir,
    /// The same for the dispatch.
    pub spool: Arc<dyn Spool>,
    /// Empty: there is none.
    pub plugin_data: PathBuf,
    /// Empty: there is none.
    pub temp: PathBuf,
}

/// For a session without plugins: nothing is made before it is needed.
pub(crate) fn untouched(places: &Places, session: &str, is_kept: bool) -> (Scratch, Arc<dyn Spool>) {
    if !is_kept {
        return (Scratch { temps: Vec::new(), spool: None }, Arc::new(NoSpool));
    }
    let path = places.spool(session);
    (Scratch { temps: Vec::new(), spool: Some(path.clone()) }, Arc::new(LazySpool::new(path)))
}

/// Makes what the plugins' grants ask for; `temp` is where temporary folders are made. A session that is not kept has its spool in a temporary folder, so that nothing of it stays
/// in the user's home, however the process ends.
///
/// # Errors
/// Nothing at all can be written to, not even memory: then there is no folder that programs' outputs could be refused by.
pub(crate) fn make(
    places: &Places,
    temp: &Path,
    session: &str,
    is_kept: bool,
    planned: &[Planned],
) -> Result<OwnFolders, (PathBuf, io::Error)> {
    let mut scratch = Scratch { temps: Vec::new(), spool: None };
    let mut notices = Vec::new();
    let reserved = places.reserved();
    let wish = if is_kept {
        let path = places.spool(session);
        usable(&path, &reserved).map(|()| path)
    } else {
        temporary(&mut scratch, temp, &reserved).map(|folder| folder.join("spool"))
    };
    let held = wish.and_then(|path| {
        let failed = |source| Unmade { path: path.clone(), source };
        let held = HeldSpool::open(&path).map_err(failed)?;
        scratch.spool = is_kept.then_some(path);
        Ok(held)
    });
    let (outputs, spool): (SpoolDir, Arc<dyn Spool>) = match held {
        Ok(held) => (held.dir.clone(), Arc::new(LazySpool::opened(held))),
        Err(unmade) => {
            notices.push(format!("long outputs are not kept: {unmade}"));
            (nowhere(&mut scratch, temp)?, Arc::new(NoSpool))
        }
    };
    let mut plugin_data = places.plugin_data();
    for plugin in planned.iter().filter(|plugin| wants(plugin, &Folder::PluginData)) {
        let folder = plugin_data.join(&plugin.name);
        let made = usable(&folder, &reserved)
            .and_then(|()| create_private(&folder).map_err(|source| Unmade { path: folder.clone(), source }));
        if let Err(unmade) = made {
            notices.push(format!("plugin {} has no folder of its own: {unmade}", plugin.name));
        }
    }
    if usable(&plugin_data, &reserved).is_err() {
        plugin_data = PathBuf::new();
    }
    let mut plugins_temp = PathBuf::new();
    if planned.iter().any(|plugin| wants(plugin, &Folder::Temp)) {
        match temporary(&mut scratch, temp, &reserved) {
            Ok(folder) => match std::fs::create_dir(folder.join("plugins")) {
                Ok(()) => plugins_temp = folder.join("plugins"),
                Err(error) => notices.push(format!("plugins have no temporary folder: {error}")),
            },
            Err(unmade) => notices.push(format!("plugins have no temporary folder: {unmade}")),
        }
    }
    Ok(OwnFolders { scratch, notices, outputs, spool, plugin_data, temp: plugins_temp })
}

fn wants(plugin: &Planned, folder: &Folder) -> bool {
    plugin.grants.iter().any(|grant| matches!(grant, Capability::Files(bound) if bound.folder == *folder))
}

/// A folder that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}", path = path.display())]
pub(crate) struct Unmade {
    path: PathBuf,
    source: io::Error,
}

/// Whether plugins may have a folder there: a `HOME` of `/dev/null` leads into a system folder.
pub(crate) fn usable(path: &Path, reserved: &[PathBuf]) -> Result<(), Unmade> {
    let why = |refusal| match refusal {
        FolderRefusal::Kept { kept, .. } => {
            format!("it contains or lies in {}, which no plugin may reach", kept.display())
        }
        other => other.to_string(),
    };
    let failed = |refusal| Unmade { path: path.to_owned(), source: io::Error::other(why(refusal)) };
    check_folder(path, reserved).and_then(|_| check_folder(&real(path), reserved)).map(|_| ()).map_err(failed)
}

fn temporary(scratch: &mut Scratch, all: &Path, reserved: &[PathBuf]) -> Result<PathBuf, Unmade> {
    let made = Temporary::make(all).map_err(|source| Unmade { path: all.to_owned(), source })?;
    usable(&made.path, reserved)?;
    let path = made.path.clone();
    scratch.temps.push(made);
    Ok(path)
}

/// A spool whose folder is gone, within a private one that stays, so that nobody can put one in its place: whatever is written there fails.
fn nowhere(scratch: &mut Scratch, all: &Path) -> Result<SpoolDir, (PathBuf, io::Error)> {
    let holder = Temporary::make(all).or_else(|error| Temporary::make(Path::new(MEMORY_FOLDER)).map_err(|_| error));
    let holder = holder.map_err(|error| (all.to_owned(), error))?;
    let path = holder.path.join("none");
    scratch.temps.push(holder);
    let made = SpoolDir::new(&path).and_then(|spool| std::fs::remove_dir(&path).map(|()| spool));
    made.map_err(|error| (path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::Origin;
    use tempfile::TempDir;

    struct Home {
        _dir: TempDir,
        top: PathBuf,
        places: Places,
        planned: Vec<Planned>,
    }

    fn home() -> Home {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("tmp")).unwrap();
        let grants = ["files=spool:r", "files=plugin-data:rw", "files=temp:rw"];
        let plugin = Planned {
            name: "mine".to_owned(),
            publisher: "local:test".to_owned(),
            origin: Origin::Shipped(b""),
            grants: grants.iter().map(|text| text.parse().unwrap()).collect(),
            written: Vec::new(),
        };
        Home { places: Places::beneath(&top.join("pith")), planned: vec![plugin], top, _dir: dir }
    }

    impl Home {
        fn make(&self, is_kept: bool) -> OwnFolders {
            make(&self.places, &self.top.join("tmp"), "s", is_kept, &self.planned).unwrap()
        }

        fn temps(&self) -> usize {
            std::fs::read_dir(self.top.join("tmp")).unwrap().count()
        }
    }

    #[test]
    fn a_temporary_folder_is_marked_and_locked_while_it_is_used() {
        let home = home();
        let own = home.make(true);
        let holder = own.temp.parent().unwrap().to_owned();
        assert!(is_scratch_name(holder.file_name().unwrap().to_str().unwrap()), "{}", holder.display());
        let mark = File::open(holder.join(MARK)).unwrap();
        assert!(mark.try_lock().is_err());
        std::fs::create_dir(own.temp.join("read-only")).unwrap();
        std::fs::write(own.temp.join("read-only/file"), "").unwrap();
        std::fs::set_permissions(own.temp.join("read-only"), Permissions::from_mode(0o500)).unwrap();
        drop(own);
        mark.try_lock().unwrap();
        assert_eq!(home.temps(), 0);
        for name in ["pith-test-abc123", "pith-abc12", "pith-abc.12", "pith-abcdefg", "abc123"] {
            assert!(!is_scratch_name(name), "{name}");
        }
    }

    fn keeps_nothing(own: &OwnFolders) {
        assert_eq!(own.spool.keep("bash", "text"), None);
        assert!(!own.outputs.path().exists() && own.outputs.create("bash").is_err());
    }

    #[test]
    fn a_kept_session_has_its_outputs_in_the_users_home_and_leaves_no_empty_folder() {
        let home = home();
        let spool = home.places.spool("s");
        for leaves in [false, true] {
            let own = home.make(true);
            assert_eq!((own.notices.as_slice(), own.outputs.path()), (&[][..], spool.as_path()));
            assert!(own.temp.starts_with(home.top.join("tmp")));
            assert_eq!(own.plugin_data, home.places.plugin_data());
            assert!(own.plugin_data.join("mine").is_dir());
            if leaves {
                own.spool.keep("bash", "text").unwrap();
            }
            drop(own);
            assert_eq!((spool.exists(), home.temps()), (leaves, 0));
        }
    }

    #[test]
    fn a_session_that_is_not_kept_leaves_nothing() {
        let home = home();
        let own = home.make(false);
        let path = own.spool.keep("bash", "text").unwrap();
        assert!(
            Path::new(&path).starts_with(own.outputs.path())
                && path.starts_with(home.top.join("tmp").to_str().unwrap())
        );
        assert_eq!(own.notices, Vec::<String>::new());
        assert!(!home.places.spools().exists());
        // A plugin's temporary folder is not the spool's.
        assert!(!own.outputs.path().starts_with(&own.temp));
        drop(own);
        assert_eq!(home.temps(), 0);
        let (scratch, spool) = untouched(&home.places, "s", false);
        assert_eq!(spool.keep("bash", "text"), None);
        drop(scratch);
        assert!(!home.places.spools().exists());
    }

    #[test]
    fn what_cannot_be_made_is_said_and_missing() {
        let home = home();
        std::fs::create_dir(home.top.join("pith")).unwrap();
        std::fs::write(&home.places.state, "").unwrap();
        let own = home.make(true);
        keeps_nothing(&own);
        let [outputs, data] = &own.notices[..] else { panic!("{:?}", own.notices) };
        assert!(outputs.starts_with("long outputs are not kept: ") && outputs.contains("state/spool/s"), "{outputs}");
        assert!(
            data.starts_with("plugin mine has no folder of its own: ") && data.contains("plugin-data/mine"),
            "{data}"
        );
        drop(own);
        // One that is not kept needs no home.
        let own = home.make(false);
        assert!(own.spool.keep("bash", "text").is_some() && own.notices.len() == 1, "{:?}", own.notices);
        drop(own);
        assert_eq!(home.temps(), 0);
        // Nothing but memory is left.
        std::fs::remove_dir(home.top.join("tmp")).unwrap();
        std::fs::write(home.top.join("tmp"), "").unwrap();
        for is_kept in [true, false] {
            let own = home.make(is_kept);
            keeps_nothing(&own);
            assert_eq!((own.notices.len(), own.temp.as_path()), (3, Path::new("")), "{:?}", own.notices);
            let holder = own.outputs.path().parent().unwrap().to_owned();
            assert!(holder.is_dir());
            drop(own);
            assert!(!holder.exists());
        }
    }

    /// `HOME=/dev/null` is what some services run with.
    #[test]
    fn a_home_in_a_system_folder_is_as_good_as_none() {
        let mut home = home();
        home.places = Places::beneath(Path::new("/dev/null/pith"));
        let own = home.make(true);
        keeps_nothing(&own);
        assert_eq!((own.notices.len(), own.plugin_data.as_path()), (2, Path::new("")), "{:?}", own.notices);
        let own = make(&home.places, Path::new("/dev/shm"), "s", false, &home.planned).unwrap();
        keeps_nothing(&own);
        assert_eq!((own.notices.len(), own.temp.as_path()), (3, Path::new("")), "{:?}", own.notices);
    }
}
