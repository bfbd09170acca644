//! The tools themselves.

use pith_sdk::paths::GuestPath;
use pith_sdk::scan::{self, Query};
use pith_sdk::text::MAX_LINE_CHARS;
use pith_sdk::{Context, Error, ErrorKind, Output, Property, Schema, Tool};
use serde::Deserialize;

use crate::findings::{Findings, files, matches};

const DEFAULT_MATCHES: u32 = 100;
const DEFAULT_FILES: u32 = 1_000;
const MAX_CONTEXT_LINES: u32 = 100;
/// Bytes of a line that the host hands over: enough for the characters shown, and one more to see that it was cut.
const LINE_BYTES: u32 = (MAX_LINE_CHARS as u32 + 1) * 4;

/// One scan beneath `path`, hidden files too but for git's own.
fn query(path: &GuestPath) -> Query {
    let in_git = path.absolute().split('/').any(|part| part == ".git");
    Query {
        roots: vec![path.absolute().to_owned()],
        pattern: None,
        literal: false,
        ignore_case: false,
        folders: false,
        globs: if in_git { Vec::new() } else { vec!["!.git".to_owned()] },
        hidden: true,
        context_lines: 0,
        max_results: 0,
        max_line_bytes: LINE_BYTES,
    }
}

fn scan(path: &GuestPath, query: &Query) -> Result<scan::Outcome, Error> {
    scan::run(query).map_err(|refusal| {
        // The host says what it refused; the path's own sentence says what to do instead.
        match std::fs::metadata(path) {
            Err(error) if matches!(refusal.kind, ErrorKind::NotFound | ErrorKind::Denied) => {
                path.explain("search", &error)
            }
            _ => refusal,
        }
    })
}

fn output(findings: Findings) -> Output {
    Output::text(findings.text).details_if(findings.details.as_ref())
}

pub struct Grep;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrepInput {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    ignore_case: Option<bool>,
    literal: Option<bool>,
    context: Option<u32>,
    limit: Option<u32>,
}

impl Tool for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "Search the contents of files for a pattern. Gives matching lines as `path:line: text`. Ignored files (.gitignore) are left out, hidden ones are searched. At most 100 matches, or `limit`, and 50KB; long lines are cut to 500 characters.";
    const GUIDELINES: &'static [&'static str] = &["Use grep and find instead of grep, rg and find in a shell."];
    const META: Option<&'static str> = Some(r#"{"readOnlyHint":true}"#);
    type Input = GrepInput;

    fn schema() -> Schema {
        Schema::object()
            .required(
                "pattern",
                Property::string("A regular expression (Rust's syntax), or plain text with `literal`.").min_length(1),
            )
            .optional("path", Property::string("The folder or file to search; the working folder if absent."))
            .optional("glob", Property::string("Only files that match this glob, such as `*.ts` or `src/**/*.rs`."))
            .optional("ignoreCase", Property::boolean("Whether upper and lower case are the same."))
            .optional("literal", Property::boolean("Whether the pattern is plain text."))
            .optional(
                "context",
                Property::integer("Lines to show before and after each match.").at_least(0).at_most(MAX_CONTEXT_LINES),
            )
            .optional("limit", Property::integer("How many matches to show at most; 100 if absent.").at_least(1))
    }

    fn run(input: GrepInput, context: &Context) -> Result<Output, Error> {
        let path = GuestPath::granted(input.path.as_deref().unwrap_or("."))?;
        let limit = input.limit.unwrap_or(DEFAULT_MATCHES);
        let mut query = query(&path);
        query.globs.extend(input.glob);
        query.pattern = Some(input.pattern);
        query.literal = input.literal.unwrap_or(false);
        query.ignore_case = input.ignore_case.unwrap_or(false);
        query.context_lines = input.context.unwrap_or(0).min(MAX_CONTEXT_LINES);
        query.max_results = limit;
        let outcome = scan(&path, &query)?;
        Ok(output(matches(outcome.hits, &context.cwd(), limit, outcome.truncated)))
    }
}

pub struct Find;

#[derive(Deserialize)]
pub struct FindInput {
    pattern: String,
    path: Option<String>,
    limit: Option<u32>,
}

impl Tool for Find {
    const NAME: &'static str = "find";
    const DESCRIPTION: &'static str = "Find files by a glob. Gives their paths, sorted. Ignored files (.gitignore) are left out, hidden ones are found. At most 1000 results, or `limit`, and 50KB.";
    const META: Option<&'static str> = Some(r#"{"readOnlyHint":true}"#);
    type Input = FindInput;

    fn schema() -> Schema {
        Schema::object()
            .required(
                "pattern",
                Property::string(
                    "A glob, such as `*.ts` (at any depth), `src/*.rs` (from the folder searched) or `**/*.spec.ts`.",
                )
                .min_length(1),
            )
            .optional("path", Property::string("The folder to search; the working folder if absent."))
            .optional("limit", Property::integer("How many results to show at most; 1000 if absent.").at_least(1))
    }

    fn run(input: FindInput, context: &Context) -> Result<Output, Error> {
        let path = GuestPath::granted(input.path.as_deref().unwrap_or("."))?;
        if input.pattern.starts_with('!') {
            return Err(Error::invalid(
                "A pattern that starts with `!` finds nothing: give the files to find, not those to leave out.",
            ));
        }
        let limit = input.limit.unwrap_or(DEFAULT_FILES);
        let mut query = query(&path);
        query.globs.push(input.pattern);
        query.max_results = limit;
        let outcome = scan(&path, &query)?;
        Ok(output(files(outcome.hits, &context.cwd(), limit, outcome.truncated)))
    }
}
