//! `scan`: searches granted folders with all cores. The call already runs on a thread of its own, so the search blocks that one.

use crate::{cause::Exceeded, convert::refusal, instance::Instance};
use pith_bindings::imports::pith::plugin::{
    scan::{Hit, Host, Outcome, Query},
    types::{Error, ErrorKind},
};
use pith_os::{OpenError, ScanError};
use std::path::PathBuf;

impl Host for Instance {
    async fn run(&mut self, query: Query) -> wasmtime::Result<Result<Outcome, Error>> {
        let texts = query.roots.iter().chain(&query.globs).chain(&query.pattern);
        self.enter(texts.map(String::len).fold(0, usize::saturating_add))?;
        let Some(scope) = &self.scope else {
            return Ok(Err(refusal(ErrorKind::Unavailable, "there is no session whose folders could be searched")));
        };
        let cwd = scope.session.cwd();
        let query = pith_os::Query {
            roots: query.roots.iter().map(|root| cwd.join(root)).collect::<Vec<PathBuf>>(),
            pattern: query.pattern,
            literal: query.literal,
            ignore_case: query.ignore_case,
            folders: query.folders,
            globs: query.globs,
            hidden: query.hidden,
            context_lines: query.context_lines,
            max_results: query.max_results,
            max_line_bytes: query.max_line_bytes,
        };
        let is_over = || self.cancel.is_cancelled() || self.deadline.is_over();
        match pith_os::scan(&query, &self.facts.folders.roots, &is_over) {
            Ok(found) => Ok(Ok(outcome(found))),
            Err(ScanError::Cancelled) => Err(Exceeded::Ended.into()),
            Err(error) => Ok(Err(refused(&error))),
        }
    }
}

fn outcome(found: pith_os::Outcome) -> Outcome {
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
    Outcome {
        hits: hits.collect(),
        truncated: found.truncated,
        files_searched: found.files_searched,
        binary: found.binary,
        skipped: found.skipped,
    }
}

fn refused(error: &ScanError) -> Error {
    let kind = match error {
        ScanError::Outside { .. } => ErrorKind::Denied,
        ScanError::Open(OpenError::NotFound { .. }) => ErrorKind::NotFound,
        ScanError::Open(OpenError::NotRegular { .. } | OpenError::Denied { .. } | OpenError::Escapes { .. }) => {
            ErrorKind::Denied
        }
        ScanError::Pattern { .. } | ScanError::Glob { .. } => ErrorKind::Invalid,
        ScanError::Limit { .. } => ErrorKind::Limit,
        _ => ErrorKind::Internal,
    };
    refusal(kind, error.to_string())
}
