//! The scan's own limits, each reached by a real tree or query: a query that asks for too much gives what the limit allows, and says so.

use crate::arena::{Arena, case};
use pith_os::{
    CONTEXT_LINES_MAX, ENTRIES_MAX, GLOB_BYTES_MAX, GLOBS_MAX, IGNORE_BYTES_MAX, IGNORE_RULES_MAX,
    LINE_BUFFER_BYTES_MAX, LINE_BYTES_MAX, OUTCOME_BYTES_MAX, Outcome, PATTERN_BYTES_MAX, Query, RESULTS_MAX,
    ROOTS_MAX, Root, ScanError, scan,
};
use std::path::PathBuf;

/// Asks for all that there can be.
fn query(arena: &Arena, pattern: Option<&str>) -> Query {
    Query {
        roots: vec![arena.work()],
        pattern: pattern.map(str::to_owned),
        context_lines: 0,
        max_results: u32::MAX,
        max_line_bytes: u32::MAX,
        ..Query::default()
    }
}

/// On a thread that may block, as the host does.
async fn scanned(arena: &Arena, query: Query) -> Result<Outcome, ScanError> {
    let work = arena.work();
    let scanning = move || scan(&query, &[Root::open(&work).expect("it is there")], &|| false);
    tokio::task::spawn_blocking(scanning).await.expect("it does not panic")
}

fn write(arena: &Arena, name: &str, text: &str) {
    std::fs::write(arena.work().join(name), text).expect("the working folder can be written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_that_are_too_large() {
    case("queries that are too large", &[], async |arena| {
        let all = |change: &dyn Fn(&mut Query)| {
            let mut query = query(arena, Some("x"));
            change(&mut query);
            scanned(arena, query)
        };
        let is_limit = |outcome: Result<Outcome, ScanError>| matches!(outcome, Err(ScanError::Limit { .. }));
        assert!(is_limit(all(&|query| query.roots = vec![arena.work(); ROOTS_MAX + 1]).await));
        assert!(is_limit(all(&|query| query.globs = vec!["*.rs".to_owned(); GLOBS_MAX + 1]).await));
        assert!(is_limit(all(&|query| query.globs = vec!["a".repeat(GLOB_BYTES_MAX + 1)]).await));
        assert!(is_limit(all(&|query| query.pattern = Some("a".repeat(PATTERN_BYTES_MAX + 1))).await));
        // Short as written, far over the 10 MiB that one may take compiled.
        let grows = all(&|query| query.pattern = Some(r"(\w{1000}){1000}".to_owned())).await;
        assert!(matches!(&grows, Err(ScanError::Pattern { .. })), "{grows:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_that_would_be_too_large() {
    case("outcomes that would be too large", &[], async |arena| {
        write(arena, "many", &"x\n".repeat(RESULTS_MAX as usize + 1));
        let many = scanned(arena, query(arena, Some("x"))).await.expect("an outcome");
        assert!(many.truncated && many.hits.len() == RESULTS_MAX as usize, "{}", many.hits.len());
        let around = format!("{}needle\n{}", "y\n".repeat(500), "y\n".repeat(500));
        write(arena, "around", &around);
        let asked = Query { context_lines: u32::MAX, ..query(arena, Some("needle")) };
        let near = scanned(arena, asked).await.expect("an outcome");
        assert_eq!(near.hits.len(), 2 * CONTEXT_LINES_MAX as usize + 1);
        write(arena, "long", &format!("pin{}\n", "z".repeat(3 * LINE_BYTES_MAX as usize)));
        let long = scanned(arena, query(arena, Some("pin"))).await.expect("an outcome");
        assert!(long.hits[0].text.len() <= LINE_BYTES_MAX as usize && long.hits[0].cut_after > 0);
        let line = format!("wide{}\n", "w".repeat(LINE_BYTES_MAX as usize - 10));
        write(arena, "wide", &line.repeat(OUTCOME_BYTES_MAX / line.len() + 10));
        let wide = scanned(arena, query(arena, Some("wide"))).await.expect("an outcome");
        let bytes: usize = wide.hits.iter().map(|hit| hit.text.len()).sum();
        assert!(wide.truncated && bytes <= OUTCOME_BYTES_MAX, "{bytes}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_passed_over() {
    case("a line without end, ignore files without end", &[], async |arena| {
        write(arena, "endless", &"q".repeat(LINE_BUFFER_BYTES_MAX + 1));
        let endless = scanned(arena, query(arena, Some("q"))).await.expect("an outcome");
        assert!(endless.hits.is_empty() && endless.skipped == 1, "{endless:?}");
        std::fs::remove_file(arena.work().join("endless")).expect("it is there");
        let ignored = async |rules: String| {
            write(arena, ".gitignore", &rules);
            write(arena, "kept", "needle");
            scanned(arena, query(arena, Some("needle"))).await.expect("an outcome").hits.is_empty()
        };
        assert!(ignored("kept\n".to_owned()).await);
        assert!(ignored(format!("{}kept\n", "other\n".repeat(IGNORE_RULES_MAX - 1))).await);
        assert!(!ignored(format!("{}kept\n", "other\n".repeat(IGNORE_RULES_MAX))).await, "a rule after the last");
        let limit = usize::try_from(IGNORE_BYTES_MAX).expect("small");
        assert!(!ignored(format!("kept\n#{}", "x".repeat(limit))).await, "a file that is too long");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_that_is_too_large() {
    case("more than a million files, by 64 ways to some thousand", &[], async |arena| {
        let many = arena.work().join("many");
        std::fs::create_dir_all(&many).expect("a folder");
        for number in 0..ENTRIES_MAX / ROOTS_MAX + 1 {
            std::fs::write(many.join(number.to_string()), "").expect("a file");
        }
        let mut roots: Vec<PathBuf> = Vec::new();
        for number in 0..ROOTS_MAX {
            let way = arena.work().join(format!("way-{number}"));
            std::os::unix::fs::symlink("many", &way).expect("a link");
            roots.push(way);
        }
        let asked = Query { roots, globs: vec!["none".to_owned()], ..query(arena, None) };
        let outcome = scanned(arena, asked).await.expect("an outcome");
        assert!(outcome.truncated && outcome.hits.is_empty(), "{:?}", outcome.hits.len());
    })
    .await;
}
