//! Where sessions are measured: a folder beside what is built, so that it lies on a disk.

use pith_runtime::{Environment, Options, Pith, Places, SessionChoice, ShippedPlugin};
use std::{fs, path::PathBuf};

/// Places, a working folder and a scripted model.
pub struct Grounds {
    root: PathBuf,
    places: Places,
    /// Removes it all, where this process made it.
    _folder: Option<tempfile::TempDir>,
}

impl Grounds {
    /// Empty ones, whose sessions are made durable as `sync` says.
    pub fn new(sync: &str) -> Self {
        let parent = pith_tests::target_folder().join("tmp");
        fs::create_dir_all(&parent).expect("a folder for what is built");
        let folder = tempfile::Builder::new().prefix("pith-bench-").tempdir_in(parent).expect("a folder");
        let grounds = Self { _folder: Some(folder), ..Self::at(PathBuf::new()) };
        let root = grounds._folder.as_ref().map(|folder| folder.path().to_owned()).unwrap_or_default();
        let grounds = Self { places: Places::beneath(&root.join("pith")), root, ..grounds };
        for folder in [grounds.workspace(), grounds.places.sessions()] {
            fs::create_dir_all(folder).expect("a folder");
        }
        let settings = grounds.places.settings_file();
        fs::create_dir_all(settings.parent().expect("it lies in a folder")).expect("a folder");
        fs::write(settings, format!("[session]\nsync = \"{sync}\"\n")).expect("settings");
        let replies = serde_json::json!([{ "text": "ok" }, { "text": "ok" }]);
        fs::write(grounds.root.join("model.json"), replies.to_string()).expect("a scenario");
        grounds
    }

    /// Those of another process.
    pub fn at(root: PathBuf) -> Self {
        Self { places: Places::beneath(&root.join("pith")), root, _folder: None }
    }

    pub fn root(&self) -> &PathBuf {
        &self.root
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    pub fn workspace(&self) -> PathBuf {
        self.root.join("work")
    }

    /// A session file's path.
    pub fn file(&self, folder: &str, name: &str) -> PathBuf {
        self.places.sessions().join(folder).join(format!("{name}.jsonl"))
    }

    /// The library on one session, with the shipped plugins or without any.
    pub async fn start(&self, session: SessionChoice, with_plugins: bool) -> Pith {
        let mut options = Options::at(self.places.clone(), self.workspace(), Environment::default());
        options.session = session;
        options.model = Some(format!("scripted/{}", self.root.join("model.json").display()));
        options.load_plugins = with_plugins;
        let shipped = pith_bundle::shipped().iter();
        let shipped = shipped.map(|of| ShippedPlugin { name: of.name, component: of.component, grants: of.grants });
        options.shipped = shipped.collect();
        pith_runtime::start(options).await.expect("it starts")
    }
}
