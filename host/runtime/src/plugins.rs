//! Which plugins are loaded, with which grants: the shipped ones as their data says, the user's as the user says.

use pith_law::{Capability, CapabilityError, GrantError, ProcessBound, Request, fold_plugin_name, parse_grant};
use std::path::PathBuf;

/// What naming a file on the command line grants.
const NAMED_FILE_GRANTS: [&str; 2] = ["tools", "tool-gate"];
/// The publisher of shipped plugins.
const SHIPPED_PUBLISHER: &str = "pith";

/// A plugin that comes with the binary.
#[derive(Clone, Copy)]
pub struct ShippedPlugin {
    /// `[a-z0-9-]`.
    pub name: &'static str,
    /// The component.
    pub component: &'static [u8],
    /// Its capabilities, `CAPABILITY[=BOUND]` each.
    pub grants: &'static [&'static str],
}

impl std::fmt::Debug for ShippedPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShippedPlugin").field("name", &self.name).field("grants", &self.grants).finish_non_exhaustive()
    }
}

/// Plugins that cannot be loaded as asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginsError {
    /// A grant that is none.
    #[error("--grant {text}: {source}")]
    Grant {
        /// As given.
        text: String,
        /// What is wrong.
        #[source]
        source: GrantError,
    },
    /// A grant for a plugin that is not loaded.
    #[error("--grant {text}: there is no plugin {plugin}; loaded are {loaded}",
        loaded = if loaded.is_empty() { "none".to_owned() } else { loaded.join(", ") })]
    UnknownPlugin {
        /// As given.
        text: String,
        /// The name in it.
        plugin: String,
        /// Those that are.
        loaded: Vec<String>,
    },
    /// A file that is not there.
    #[error("--plugin {path}: {source}", path = path.display())]
    Unreadable {
        /// As given.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// A file whose name gives no plugin's name.
    #[error("--plugin {path}: its name has no letter or digit to call the plugin by", path = path.display())]
    Nameless {
        /// As given.
        path: PathBuf,
    },
    /// Two plugins of one name.
    #[error("--plugin {path}: there is a plugin {plugin} already; rename the file", path = path.display())]
    Repeated {
        /// As given.
        path: PathBuf,
        /// The name.
        plugin: String,
    },
    /// The grants of a shipped plugin cannot be read.
    #[error("the shipped plugin {plugin} has a grant that cannot be read: {source}")]
    Shipped {
        /// The plugin.
        plugin: String,
        /// What is wrong.
        #[source]
        source: CapabilityError,
    },
}

/// Where a component comes from.
#[derive(Debug)]
pub(crate) enum Origin {
    Shipped(&'static [u8]),
    /// Without links.
    File(PathBuf),
}

/// One plugin to load.
#[derive(Debug)]
pub(crate) struct Planned {
    pub name: String,
    pub publisher: String,
    pub origin: Origin,
    pub grants: Vec<Capability>,
    /// Those among them that the user wrote.
    pub written: Written,
}

/// Grants that the user wrote: as written, and read.
pub(crate) type Written = Vec<(String, Capability)>;

/// The grants of what a plugin that asks for this has no use for, as written.
pub(crate) fn useless<'w>(written: &'w Written, asks: &'w [Request]) -> impl Iterator<Item = &'w str> {
    let is_of_use = |grant: &Capability| {
        // A variable is set for programs.
        let by_program =
            matches!(grant, Capability::Process(ProcessBound::Variable(_))) && asks.contains(&Request::Process);
        by_program || asks.iter().any(|request| request.is_served_by(grant))
    };
    written.iter().filter(move |(_, grant)| !is_of_use(grant)).map(|(text, _)| text.as_str())
}

/// The plugins to load, shipped ones first, in their order; each grant at its plugin.
pub(crate) fn plan(
    shipped: &[ShippedPlugin],
    files: &[PathBuf],
    grants: &[String],
) -> Result<Vec<Planned>, PluginsError> {
    let mut planned: Vec<Planned> = Vec::new();
    for plugin in shipped {
        let grants = plugin.grants.iter().map(|text| text.parse()).collect::<Result<_, _>>();
        let grants = grants.map_err(|source| PluginsError::Shipped { plugin: plugin.name.to_owned(), source })?;
        planned.push(Planned {
            name: plugin.name.to_owned(),
            publisher: SHIPPED_PUBLISHER.to_owned(),
            origin: Origin::Shipped(plugin.component),
            grants,
            written: Vec::new(),
        });
    }
    for path in files {
        let real = path.canonicalize().map_err(|source| PluginsError::Unreadable { path: path.clone(), source })?;
        // By the name that the user gave, which may be a link's.
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let name = fold_plugin_name(&stem).ok_or_else(|| PluginsError::Nameless { path: path.clone() })?;
        if planned.iter().any(|other| other.name == name) {
            return Err(PluginsError::Repeated { path: path.clone(), plugin: name });
        }
        planned.push(Planned {
            publisher: format!("local:{}", real.display()),
            grants: NAMED_FILE_GRANTS.iter().filter_map(|text| text.parse().ok()).collect(),
            origin: Origin::File(real),
            written: Vec::new(),
            name,
        });
    }
    for text in grants {
        let grant = parse_grant(text).map_err(|source| PluginsError::Grant { text: text.clone(), source })?;
        match planned.iter_mut().find(|plugin| plugin.name == grant.plugin) {
            Some(plugin) => {
                plugin.written.push((text.clone(), grant.capability.clone()));
                plugin.grants.push(grant.capability);
            }
            None => {
                let loaded = planned.iter().map(|plugin| plugin.name.clone()).collect();
                return Err(PluginsError::UnknownPlugin { text: text.clone(), plugin: grant.plugin, loaded });
            }
        }
    }
    Ok(planned)
}

/// The most of a name that is quoted, in characters.
const QUOTED_CHARS: usize = 64;
/// Notices of settings that nobody reads; more of them are only counted.
const UNREAD_NOTICES: usize = 8;

/// For people: which tables of the settings no loaded plugin reads, each with the name that may have been meant.
pub(crate) fn unread<'s>(tables: impl Iterator<Item = &'s String>, loaded: &[String]) -> Vec<String> {
    let unread: Vec<&String> = tables.filter(|table| !loaded.contains(table)).collect();
    let told = |table: &&String| {
        let name: String = table.chars().take(QUOTED_CHARS).collect();
        let meant = match nearest(&name, loaded) {
            Some(meant) => format!("did you mean [plugins.{meant}]?"),
            None => format!("loaded are {}", loaded.join(", ")),
        };
        format!("the settings [plugins.{name}] are read by nobody: no plugin {name} is loaded; {meant}")
    };
    let mut notices: Vec<String> = unread.iter().take(UNREAD_NOTICES).map(told).collect();
    if let Some(more) = unread.len().checked_sub(UNREAD_NOTICES).filter(|more| *more > 0) {
        notices.push(format!("the settings of {more} more plugins are read by nobody"));
    }
    notices
}

/// The name that this one is a slip of: at most a third of it differs.
fn nearest<'n>(name: &str, names: &'n [String]) -> Option<&'n str> {
    let limit = (name.chars().count() / 3).max(1);
    let best = names.iter().map(|other| (strsim::levenshtein(name, other), other.as_str())).min()?;
    (best.0 <= limit).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: [ShippedPlugin; 2] = [
        ShippedPlugin { name: "files", component: b"", grants: &["tools", "files=workspace:rw"] },
        ShippedPlugin { name: "protect", component: b"", grants: &["tool-gate"] },
    ];

    fn texts(plugin: &Planned) -> Vec<String> {
        plugin.grants.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn naming_a_file_grants_little_and_grants_add_to_one_plugin() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("My Tool.wasm");
        std::fs::write(&file, "").unwrap();
        let link = dir.path().join("other.wasm");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let grants = ["my-tool:files=workspace:rw", "my-tool:process=git", "files:tool-filter"].map(str::to_owned);
        let planned = plan(&SHIPPED, &[file.clone(), link], &grants).unwrap();
        let names: Vec<&str> = planned.iter().map(|plugin| plugin.name.as_str()).collect();
        assert_eq!(names, ["files", "protect", "my-tool", "other"]);
        assert_eq!(texts(&planned[0]), ["tools", "files=workspace:rw", "tool-filter"]);
        assert_eq!(texts(&planned[1]), ["tool-gate"]);
        assert_eq!(texts(&planned[2]), ["tools", "tool-gate", "files=workspace:rw", "process=git"]);
        assert_eq!(texts(&planned[3]), ["tools", "tool-gate"]);
        let real = file.canonicalize().unwrap();
        assert_eq!(planned[3].publisher, format!("local:{}", real.display()));
        assert_eq!(planned[0].publisher, "pith");
    }

    #[test]
    fn a_grant_of_what_a_plugin_does_not_ask_for_is_useless() {
        let grants = [
            "files:process=git",
            "files:process=env:CC",
            "files:files=workspace:r",
            "files:tool-filter",
            "files:dialog",
        ];
        let planned = plan(&SHIPPED, &[], &grants.map(str::to_owned)).unwrap();
        let useless =
            |asks: &[Request]| super::useless(&planned[0].written, asks).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(useless(&[]), grants);
        assert_eq!(useless(&[Request::Process, Request::Files]), grants[3..]);
        assert_eq!(
            useless(&[Request::Export(pith_law::Export::ToolFilter)]),
            ["files:process=git", "files:process=env:CC", "files:files=workspace:r", "files:dialog"]
        );
        // What comes with a plugin's file is the user's word for none of it.
        assert_eq!(super::useless(&planned[1].written, &[]).count(), 0);
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let (taken, nameless) = (dir.path().join("Files.wasm"), dir.path().join("___.wasm"));
        std::fs::write(&taken, "").unwrap();
        std::fs::write(&nameless, "").unwrap();
        let error = |files: &[PathBuf], grants: &[&str]| {
            let grants: Vec<String> = grants.iter().map(|text| (*text).to_owned()).collect();
            plan(&SHIPPED, files, &grants).unwrap_err()
        };
        assert!(matches!(error(&[taken], &[]), PluginsError::Repeated { .. }));
        assert!(matches!(error(&[nameless], &[]), PluginsError::Nameless { .. }));
        assert!(matches!(error(&[dir.path().join("none.wasm")], &[]), PluginsError::Unreadable { .. }));
        let unknown = error(&[], &["mine:tools"]).to_string();
        assert!(unknown.contains("no plugin mine") && unknown.contains("files, protect"), "{unknown}");
        let wrong = error(&[], &["files:everything"]).to_string();
        assert!(wrong.contains("--grant files:everything"), "{wrong}");
        assert!(matches!(error(&[], &["files"]), PluginsError::Grant { .. }));
    }

    #[test]
    fn settings_that_nobody_reads_are_told_with_the_name_that_was_meant() {
        let loaded = ["files", "search", "shell", "protect"].map(str::to_owned);
        let told = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            unread(names.iter(), &loaded)
        };
        assert_eq!(told(&["files", "protect"]), [""; 0]);
        let one = told(&["protec"]).join("\n");
        assert!(one.contains("[plugins.protec]") && one.ends_with("did you mean [plugins.protect]?"), "{one}");
        let far = told(&["mine"]).join("\n");
        assert!(far.ends_with("loaded are files, search, shell, protect"), "{far}");
        for (name, meant) in [("file", "files"), ("Shell", "shell"), ("saerch", "search"), ("protects", "protect")] {
            assert_eq!(nearest(name, &loaded), Some(meant), "{name}");
        }
        let many: Vec<String> = (0..100).map(|at| format!("{at}{}", "x".repeat(10_000))).collect();
        let told = unread(many.iter(), &loaded);
        assert_eq!(told.len(), UNREAD_NOTICES + 1);
        assert!(told.iter().all(|notice| notice.len() < 400) && told[UNREAD_NOTICES].contains("92 more"));
    }
}
