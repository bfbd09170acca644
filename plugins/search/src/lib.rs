//! The shipped plugin `search`: the tools `grep` and `find` over the host's `scan`, which is parallel and honours ignore
//! files. What is asked of it and what the model reads of its answer is decided here, by functions that take the scan as an
//! argument: [`grep`] and [`find`] run as well over any other.

mod find;
mod findings;
mod grep;
mod long_line;

use pith_sdk::paths::GuestPath;
use pith_sdk::scan::{Outcome, Query};
use pith_sdk::text::MAX_LINE_CHARS;
use pith_sdk::{Error, ErrorKind};

pub use find::{Find, FindInput, find};
pub use grep::{Grep, GrepInput, grep};

/// The most results that the host gives; as in the schemas' `maximum`.
const MAX_RESULTS: u32 = 10_000;
/// Bytes of a line that the host hands over: enough for the characters shown, and one more to see that it was cut.
const LINE_BYTES: u32 = (MAX_LINE_CHARS as u32 + 1) * 4;

/// What answers queries: in a component [`pith_sdk::scan::run`].
pub trait Scan: Fn(&Query) -> Result<Outcome, Error> {}

impl<F: Fn(&Query) -> Result<Outcome, Error>> Scan for F {}

/// One scan beneath `path`, hidden files too but for git's own.
fn query(path: &GuestPath, limit: u32) -> Query {
    let all = Query::files(path.absolute());
    Query { hidden: true, max_results: limit, max_line_bytes: LINE_BYTES, ..all }
}

/// A refusal of the host, in the words that help: the path's own where it is at fault, else those with what to write instead.
fn refused(refusal: Error, path: &GuestPath) -> Error {
    if matches!(refusal.kind, ErrorKind::NotFound | ErrorKind::Denied) {
        return match std::fs::metadata(path) {
            Err(error) => path.explain("search", &error),
            Ok(met) if !met.is_file() && !met.is_dir() => {
                Error::denied(format!("`{path}` is a pipe, socket or device; give a file or a folder."))
            }
            Ok(_) => refusal,
        };
    }
    match refusal.message.strip_prefix("bad glob ") {
        Some(glob) => Error::invalid(format!(
            "The glob {glob}. A `[`, `{{`, `*` or `?` that stands for itself is written with `\\` before it."
        )),
        None => refusal,
    }
}

/// A glob as the host takes it: relative to the folder searched, where it is written with that folder's whole path.
fn relative_glob(glob: &str, path: &GuestPath) -> String {
    let (not, written) = glob.strip_prefix('!').map_or(("", glob), |rest| ("!", rest));
    let inside = written.strip_prefix(path.absolute()).and_then(|rest| rest.strip_prefix('/'));
    inside.map_or_else(|| glob.to_owned(), |inside| format!("{not}/{inside}"))
}

/// What to say where nothing was found and a glob names git's own files; it begins with a blank where it does.
fn git_hint(path: &GuestPath, glob: &str) -> &'static str {
    let names_git = |path: &str| path.split('/').any(|part| part == ".git");
    if names_git(glob) && !names_git(path.absolute()) {
        " What is in `.git` is searched only where path names it, as in path=`.git`."
    } else {
        ""
    }
}

/// What may be wrong with a glob that let nothing through; it begins with a blank where there is something.
fn glob_hint(glob: &str) -> String {
    let outside_of_braces = glob.split('{').enumerate().any(|(index, part)| {
        let part = if index == 0 { part } else { part.split_once('}').map_or("", |(_, after)| after) };
        part.contains(',')
    });
    let like_a_regex = [".*", "\\.", "(", "|", "^", "$", ".+"].iter().any(|sign| glob.contains(sign));
    if outside_of_braces {
        " Several globs in one are written `*.{ts,tsx}`.".to_owned()
    } else if like_a_regex {
        " The pattern is a glob (`*`, `**`, `?`, `[a-z]`, `{a,b}`), not a regular expression.".to_owned()
    } else if glob.starts_with("../") || glob.contains("/../") {
        " A glob cannot climb with `..`: give the folder as `path`.".to_owned()
    } else {
        let plain = glob.trim_start_matches("./").trim_start_matches('/');
        if matches!(plain, "" | ".") {
            return " `*` finds everything.".to_owned();
        }
        if plain.trim_end_matches('/').contains('/') && !plain.starts_with("**/") {
            format!(" A glob with `/` counts from the folder searched; for any depth write `**/{plain}`.")
        } else {
            String::new()
        }
    }
}

pith_sdk::tools!(Grep, Find);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_may_be_written_with_the_whole_path() {
        let path = GuestPath::resolve("src", "/w").unwrap();
        for (glob, expected) in [
            ("*.rs", "*.rs"),
            ("/w/src/a/*.rs", "/a/*.rs"),
            ("!/w/src/*.rs", "!/*.rs"),
            ("/w/srcs/*.rs", "/w/srcs/*.rs"),
            ("/a/*.rs", "/a/*.rs"),
        ] {
            assert_eq!(relative_glob(glob, &path), expected, "{glob}");
        }
    }

    #[test]
    fn what_a_glob_may_have_meant() {
        for (glob, word) in [
            ("*.ts,*.tsx", "{ts,tsx}"),
            (r".*\.rs", "regular expression"),
            ("src/x.rs", "`**/src/x.rs`"),
            ("/src/*.rs", "`**/src/*.rs`"),
            ("../x/*.rs", "climb"),
            (".", "`*`"),
            ("./", "`*`"),
        ] {
            assert!(glob_hint(glob).contains(word), "{glob}: {}", glob_hint(glob));
        }
        for glob in ["*.{ts,tsx}", "**/a/*.rs", "x", "docs/"] {
            assert_eq!(glob_hint(glob), "", "{glob}");
        }
    }
}
