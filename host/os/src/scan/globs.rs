//! Which files and folders a query's globs let through.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::{GLOB_BYTES_MAX, GLOBS_MAX, ScanError, limit};

pub(super) struct Globs {
    /// None: every file.
    included: Option<GlobSet>,
    /// Those that end with `/` too.
    included_folders: Option<GlobSet>,
    excluded: GlobSet,
    /// Those that end with `/` too.
    excluded_folders: GlobSet,
}

impl Globs {
    /// `ignore_case`: upper and lower case are the same.
    pub fn new(globs: &[String], ignore_case: bool) -> Result<Self, ScanError> {
        limit("globs", globs.len(), GLOBS_MAX)?;
        let [mut included, mut included_folders, mut excluded, mut excluded_folders] =
            std::array::from_fn(|_| GlobSetBuilder::new());
        let compile = |glob: &str| {
            let mut builder = GlobBuilder::new(glob);
            builder.literal_separator(true).backslash_escape(true).case_insensitive(ignore_case).build()
        };
        let mut includes_some = false;
        for given in globs {
            limit("glob bytes", given.len(), GLOB_BYTES_MAX)?;
            let bad =
                |error: globset::Error| ScanError::Glob { glob: given.clone(), message: error.kind().to_string() };
            let (excludes, glob) = given.strip_prefix('!').map_or((false, given.as_str()), |glob| (true, glob));
            let glob = glob.strip_prefix("./").unwrap_or(glob);
            let (folder_only, glob) = glob.strip_suffix('/').map_or((false, glob), |glob| (true, glob));
            let glob = match glob.strip_prefix('/') {
                Some(anchored) => anchored.to_owned(),
                None if glob.contains('/') => glob.to_owned(),
                None => format!("**/{glob}"),
            };
            let compiled = compile(&glob).map_err(bad)?;
            if excludes {
                excluded_folders.add(compiled.clone());
                if !folder_only {
                    excluded.add(compiled);
                }
            } else {
                includes_some = true;
                included_folders.add(compiled.clone());
                let inside = if folder_only { compile(&format!("{glob}/**")).map_err(bad)? } else { compiled };
                included_folders.add(inside.clone());
                included.add(inside);
            }
        }
        let build = |set: GlobSetBuilder| {
            set.build().map_err(|error| ScanError::Glob { glob: globs.join(" "), message: error.kind().to_string() })
        };
        let some = |set| if includes_some { build(set).map(Some) } else { Ok(None) };
        Ok(Self {
            included: some(included)?,
            included_folders: some(included_folders)?,
            excluded: build(excluded)?,
            excluded_folders: build(excluded_folders)?,
        })
    }

    /// `path` is relative to the query's root.
    pub fn takes_file(&self, path: &Path) -> bool {
        !self.excluded.is_match(path) && self.included.as_ref().is_none_or(|set| set.is_match(path))
    }

    /// Of a folder that is entered: whether it is itself one of those wanted.
    pub fn takes_folder(&self, path: &Path) -> bool {
        self.included_folders.as_ref().is_none_or(|set| set.is_match(path))
    }

    /// `path` is relative to the query's root.
    pub fn enters_folder(&self, path: &Path) -> bool {
        !self.excluded_folders.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(list: &[&str]) -> Globs {
        Globs::new(&list.iter().map(ToString::to_string).collect::<Vec<_>>(), false).unwrap()
    }

    #[test]
    fn names_at_any_depth_and_paths_from_the_root() {
        let check = |list: &[&str], path: &str, taken: bool| {
            assert_eq!(globs(list).takes_file(Path::new(path)), taken, "{list:?} {path}");
        };
        check(&[], "a", true);
        check(&["*.rs"], "a.rs", true);
        check(&["*.rs"], "deep/er/a.rs", true);
        check(&["*.{ts,tsx}"], "x/a.tsx", true);
        check(&["*.rs"], "a.rsx", false);
        check(&["src/*.rs"], "src/a.rs", true);
        check(&["src/*.rs"], "src/deep/a.rs", false);
        check(&["src/*.rs"], "other/src/a.rs", false);
        check(&["src/**/*.rs"], "src/deep/a.rs", true);
        check(&["/a.rs"], "a.rs", true);
        check(&["/a.rs"], "src/a.rs", false);
        check(&["./src/*"], "src/a", true);
        check(&["docs/"], "x/docs/y/a", true);
        check(&["docs/"], "docs", false);
        check(&["!*.md"], "a.rs", true);
        check(&["!*.md"], "x/a.md", false);
        check(&["*.rs", "!b.rs"], "b.rs", false);
        check(&["!out/"], "out", true);
        assert!(!globs(&["!out/"]).enters_folder(Path::new("x/out")));
        assert!(!globs(&["!node_modules"]).enters_folder(Path::new("x/node_modules")));
        assert!(globs(&["*.rs"]).enters_folder(Path::new("x")));
        assert!(globs(&["docs/"]).takes_folder(Path::new("x/docs")));
        assert!(globs(&["docs/"]).takes_folder(Path::new("x/docs/y")));
        assert!(!globs(&["docs/**"]).takes_folder(Path::new("docs")));
        assert!(globs(&["d?cs"]).takes_folder(Path::new("x/docs")));
        assert!(Globs::new(&["READ*".to_owned()], true).unwrap().takes_file(Path::new("a/readme.md")));
    }

    #[test]
    fn bad_and_too_many_are_told() {
        let error = Globs::new(&["a[".to_owned()], false).err().unwrap();
        assert!(matches!(error, ScanError::Glob { glob, .. } if glob == "a["));
        assert!(matches!(Globs::new(&vec!["a".to_owned(); 65], false), Err(ScanError::Limit { limit: 64, .. })));
        assert!(matches!(Globs::new(&["a".repeat(1025)], false), Err(ScanError::Limit { .. })));
    }
}
