//! The tool `find`.

use pith_sdk::paths::GuestPath;
use pith_sdk::scan::{self, Outcome, Query};
use pith_sdk::text::{Cut, brief};
use pith_sdk::{Context, Error, Input, Output, Schema, Tool};
use serde::Deserialize;

use crate::findings::{finish, more, not_text, passed_over, shown};
use crate::{Scan, git_hint, glob_hint, query, refused};

const DEFAULT_RESULTS: u32 = 1_000;

/// The tool.
pub struct Find;

/// What `find` is asked.
#[derive(Deserialize, Input)]
pub struct FindInput {
    /// A glob, such as `*.ts` (at any depth), `src/*.rs` (from the folder searched) or `**/*.spec.ts`. Lower case finds upper case too.
    #[input(min_length = 1)]
    pub pattern: String,
    /// The folder to search; the working folder if absent.
    pub path: Option<GuestPath>,
    /// How many results to show at most; 1000 if absent.
    #[input(min = 1, max = 10000)]
    pub limit: Option<u32>,
}

impl Tool for Find {
    const NAME: &'static str = "find";
    const DESCRIPTION: &'static str = "Find files and folders by a glob. Gives their paths, sorted; folders end with `/`. Ignored files (.gitignore) are left out unless path names them, hidden ones are found. At most 1000 results, or `limit`, and 50KB.";
    const META: Option<&'static str> = Some(r#"{"readOnlyHint":true}"#);
    type Input = FindInput;

    fn schema() -> Schema {
        FindInput::schema()
    }

    fn run(input: FindInput, context: &Context) -> Result<Output, Error> {
        find(input, &context.cwd(), scan::run)
    }
}

/// `find`, over any scan.
pub fn find(input: FindInput, cwd: &str, scan: impl Scan) -> Result<Output, Error> {
    if input.pattern.starts_with('!') {
        return Err(Error::invalid(
            "A pattern that starts with `!` finds nothing: give the files to find, not those to leave out.",
        ));
    }
    let (path, pattern) = place(&input)?;
    if std::fs::metadata(&path).is_ok_and(|met| met.is_file()) {
        return Err(Error::invalid(format!(
            "`{path}` is a file; find searches a folder. Give the folder as path, and a pattern such as `*.rs`."
        )));
    }
    let asked = asked(&path, &pattern, input.limit);
    let outcome = scan(&asked).map_err(|refusal| refused(refusal, &path))?;
    if outcome.hits.is_empty() && !outcome.truncated {
        let hint = match git_hint(&path, &pattern) {
            "" => glob_hint(&pattern),
            hint => hint.to_owned(),
        };
        let text = format!("No files found matching the pattern.{hint}");
        return Ok(finish(&text, passed_over(&outcome), Cut::default()));
    }
    Ok(paths(&outcome, cwd, asked.max_results))
}

/// Where to search and for what: an absolute pattern names the folder itself.
fn place(input: &FindInput) -> Result<(GuestPath, String), Error> {
    let given = || match &input.path {
        Some(path) => Ok(path.clone()),
        None => GuestPath::granted("."),
    };
    if !input.pattern.starts_with('/') {
        return Ok((given()?, input.pattern.clone()));
    }
    let (folder, rest) = literal_folder(&input.pattern);
    let base = given()?;
    let inside = |folder: &str| {
        let rest = folder.strip_prefix(base.absolute())?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
    };
    match inside(folder) {
        // The folder that is searched stays, so that ignore files count as they do for a relative pattern.
        Some(inside) => Ok((base, format!("{inside}/{rest}"))),
        None if input.path.is_none() => Ok((GuestPath::granted(folder)?, format!("/{rest}"))),
        None => Err(Error::invalid(format!(
            "The pattern `{}` is not in `{base}`: write it relative to path, or leave path out.",
            brief(&input.pattern)
        ))),
    }
}

/// The leading folders of an absolute glob that are names, and the rest.
fn literal_folder(pattern: &str) -> (&str, &str) {
    let first_sign = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let end = pattern[..first_sign].trim_end_matches('/').len().max(1);
    let end = if first_sign == pattern.len() || !pattern[..first_sign].ends_with('/') {
        pattern[..end].rfind('/').unwrap_or(0)
    } else {
        end
    };
    let rest = pattern[end..].trim_start_matches('/');
    (if end == 0 { "/" } else { &pattern[..end] }, rest)
}

/// What the host is asked. As with fd, a pattern in lower case finds both.
fn asked(path: &GuestPath, pattern: &str, limit: Option<u32>) -> Query {
    Query {
        globs: vec![pattern.to_owned()],
        ignore_case: !pattern.chars().any(char::is_uppercase),
        folders: true,
        ..query(path, limit.unwrap_or(DEFAULT_RESULTS))
    }
}

/// One path a line.
fn paths(outcome: &Outcome, cwd: &str, limit: u32) -> Output {
    // What the host makes of a name that is no UTF-8 opens nothing.
    let named = || outcome.hits.iter().filter(|hit| !hit.path.contains(char::REPLACEMENT_CHARACTER));
    let text: String = named().flat_map(|hit| [shown(&hit.path, cwd), std::borrow::Cow::Borrowed("\n")]).collect();
    let mut notices = Vec::new();
    let mut cut = Cut::default();
    if outcome.truncated {
        let (is_limit, notice) = more(outcome.hits.len(), limit, "results");
        notices.push(notice);
        cut.limit_reached = is_limit.then_some(("resultLimitReached", u64::from(limit)));
    }
    notices.extend(not_text(outcome.hits.len() - named().count(), "left out"));
    notices.extend(passed_over(outcome));
    finish(&text, notices, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_pattern_names_its_folder() {
        for (pattern, folder, rest) in [
            ("/w/src/*.rs", "/w/src", "*.rs"),
            ("/w/src/**/x", "/w/src", "**/x"),
            ("/w/sr*/x", "/w", "sr*/x"),
            ("/w/a.rs", "/w", "a.rs"),
            ("/w/docs/", "/w", "docs/"),
            ("/*.rs", "/", "*.rs"),
            ("/x", "/", "x"),
            ("/w//*.rs", "/w", "*.rs"),
        ] {
            assert_eq!(literal_folder(pattern), (folder, rest), "{pattern}");
        }
    }

    #[test]
    fn a_name_that_is_no_text_is_counted() {
        let hit = |path: &str| scan::Hit {
            path: path.into(),
            line: 0,
            text: String::new(),
            is_context: false,
            match_start: 0,
            match_end: 0,
            cut_before: 0,
            cut_after: 0,
        };
        let mut outcome = Outcome {
            hits: vec![hit("/w/a\u{fffd}"), hit("/w/b")],
            truncated: false,
            files_searched: 2,
            binary: 0,
            skipped: 0,
        };
        let said = "1 path that is not UTF-8 left out; only a shell command can reach such files.";
        assert_eq!(paths(&outcome, "/w", 9).to_text(), format!("b\n\n[{said}]"));
        outcome.hits.truncate(1);
        assert_eq!(paths(&outcome, "/w", 9).to_text(), format!("[{said}]"));
    }

    #[test]
    fn lower_case_finds_both() {
        let path = GuestPath::resolve(".", "/w").unwrap();
        assert!(asked(&path, "readme*", None).ignore_case);
        assert!(!asked(&path, "README*", None).ignore_case);
    }
}
