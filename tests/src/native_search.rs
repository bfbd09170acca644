//! `grep` and `find` of the shipped plugin `search` over `pith_os`'s scan, with no component and no host between them.

use pith_os::{OpenError, Root, ScanError};
use pith_plugin_search::{FindInput, GrepInput, find, grep};
use pith_sdk::scan::{Hit, Outcome, Query};
use pith_sdk::testing::Place;
use pith_sdk::{Context, Error, ErrorKind, Output, Schema, Tool};
use serde_json::Value;
use std::path::Path;

/// Calls one of them in this working folder.
///
/// # Panics
/// Where the tool is another.
pub fn call(folder: &Path, tool: &str, arguments: &Value) -> Result<Output, Error> {
    let place = Place::new(folder);
    match tool {
        "grep" => place.call::<Grep>(arguments),
        "find" => place.call::<Find>(arguments),
        _ => panic!("{tool} is no tool of `search`"),
    }
}

macro_rules! over_the_os {
    ($name:ident, $input:ident, $run:ident) => {
        struct $name;

        impl Tool for $name {
            const NAME: &'static str = pith_plugin_search::$name::NAME;
            const DESCRIPTION: &'static str = pith_plugin_search::$name::DESCRIPTION;
            type Input = $input;

            fn schema() -> Schema {
                pith_plugin_search::$name::schema()
            }

            fn run(input: $input, context: &Context) -> Result<Output, Error> {
                let cwd = context.cwd();
                $run(input, &cwd, |query| scan(query, &cwd))
            }
        }
    };
}

over_the_os!(Grep, GrepInput, grep);
over_the_os!(Find, FindInput, find);

fn scan(query: &Query, cwd: &str) -> Result<Outcome, Error> {
    let granted = Root::open(Path::new(cwd)).expect("the working folder");
    let query = pith_os::Query {
        roots: query.roots.iter().map(|root| Path::new(cwd).join(root)).collect(),
        pattern: query.pattern.clone(),
        literal: query.literal,
        ignore_case: query.ignore_case,
        folders: query.folders,
        globs: query.globs.clone(),
        hidden: query.hidden,
        context_lines: query.context_lines,
        max_results: query.max_results,
        max_line_bytes: query.max_line_bytes,
    };
    let found = pith_os::scan(&query, &[granted], &|| false).map_err(|error| refused(&error))?;
    let hits = found.hits.into_iter().map(|hit| Hit {
        path: hit.path.to_string_lossy().into_owned(),
        line: hit.line,
        text: hit.text,
        is_context: hit.is_context,
        match_start: hit.match_start,
        match_end: hit.match_end,
        cut_before: hit.cut_before,
        cut_after: hit.cut_after,
    });
    Ok(Outcome {
        hits: hits.collect(),
        truncated: found.truncated,
        files_searched: found.files_searched,
        binary: found.binary,
        skipped: found.skipped,
    })
}

/// As the host says it.
fn refused(error: &ScanError) -> Error {
    let kind = match error {
        ScanError::Open(OpenError::NotFound { .. }) => ErrorKind::NotFound,
        ScanError::Outside { .. } | ScanError::Open(_) => ErrorKind::Denied,
        ScanError::Pattern { .. } | ScanError::Glob { .. } => ErrorKind::Invalid,
        ScanError::Limit { .. } => ErrorKind::Limit,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, error.to_string())
}
