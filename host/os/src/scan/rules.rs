//! Ignore files, read through the opener: `.ignore`, `.gitignore`, `.git/info/exclude`; in git repositories and outside of them.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::OFlags;

use super::{IGNORE_BYTES_MAX, IGNORE_RULES_MAX};
use crate::open::{Root, open_file_in, open_in, read_whole};

/// The rules of one folder and those above it. Paths are relative to the granted folder.
pub(super) struct Rules {
    above: Option<Arc<Rules>>,
    ignore: Gitignore,
    gitignore: Gitignore,
    exclude: Gitignore,
    /// Git's rules of the folders above do not count here.
    is_repository: bool,
}

/// Which of the names that matter are in a folder.
#[derive(Clone, Copy, Default)]
pub(super) struct Present {
    pub ignore: bool,
    pub gitignore: bool,
    pub git: bool,
}

/// The rules of the folders between the granted folder `root` and `place` in it, `place` itself left out.
pub(super) fn above(root: &Root, place: &Path) -> Option<Arc<Rules>> {
    let mut folders: Vec<&Path> = place.ancestors().skip(1).collect();
    folders.reverse();
    let all = Present { ignore: true, gitignore: true, git: true };
    let rules: Option<Arc<Rules>> =
        folders.into_iter().fold(None, |above, folder| Rules::of(root.as_fd(), folder, folder, all, above));
    // Who names what is ignored wants what is in it.
    rules.filter(|rules| !is_ignored(rules, place))
}

fn is_ignored(rules: &Rules, place: &Path) -> bool {
    let parts = place.ancestors().filter(|part| !part.as_os_str().is_empty());
    parts.into_iter().any(|part| rules.says(part, true) == Some(true))
}

impl Rules {
    /// Adds the rules of a folder: `folder` beneath what `at` holds, `place` beneath the granted folder. `above` itself where it has none.
    pub fn of(
        at: BorrowedFd<'_>,
        folder: &Path,
        place: &Path,
        present: Present,
        above: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let read = |name: &str, there: bool| if there { parse(at, &folder.join(name), place) } else { None };
        let (ignore, gitignore) = (read(".ignore", present.ignore), read(".gitignore", present.gitignore));
        let exclude = read(".git/info/exclude", present.git);
        let is_repository = present.git && open_in(at, &folder.join(".git"), OFlags::RDONLY | OFlags::NONBLOCK).is_ok();
        if ignore.is_none() && gitignore.is_none() && exclude.is_none() && !is_repository {
            return above;
        }
        let or_empty = |rules: Option<Gitignore>| rules.unwrap_or_else(Gitignore::empty);
        Some(Arc::new(Self {
            above,
            ignore: or_empty(ignore),
            gitignore: or_empty(gitignore),
            exclude: or_empty(exclude),
            is_repository,
        }))
    }

    /// Some(true): ignored. Some(false): wanted by a `!` rule. Within one kind of file the innermost rule counts; `.ignore` before
    /// `.gitignore` before git's exclude file.
    pub fn says(&self, path: &Path, is_folder: bool) -> Option<bool> {
        let (mut ignore, mut gitignore, mut exclude) = (None, None, None);
        let (mut level, mut in_repository) = (Some(self), true);
        while let Some(rules) = level {
            ignore = ignore.or_else(|| verdict(&rules.ignore, path, is_folder));
            if in_repository {
                gitignore = gitignore.or_else(|| verdict(&rules.gitignore, path, is_folder));
                exclude = exclude.or_else(|| verdict(&rules.exclude, path, is_folder));
            }
            in_repository &= !rules.is_repository;
            level = rules.above.as_deref();
        }
        ignore.or(gitignore).or(exclude)
    }
}

fn verdict(rules: &Gitignore, path: &Path, is_folder: bool) -> Option<bool> {
    match rules.matched(path, is_folder) {
        Match::None => None,
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
    }
}

fn parse(at: BorrowedFd<'_>, file: &Path, place: &Path) -> Option<Gitignore> {
    // No links, as git itself since 2.32: what is not a plain file of the repository is no rule of it.
    let (opened, _) = open_file_in(at, file).ok()?;
    let bytes = read_whole(opened, file, IGNORE_BYTES_MAX).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(place);
    for line in text.trim_start_matches('\u{feff}').lines().take(IGNORE_RULES_MAX) {
        // A line that is no glob has no effect.
        let _ = builder.add_line(None::<PathBuf>, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
