//! The scan on real trees: what it finds, in which order, what it never opens.

use super::*;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct Tree {
    // Held: dropping it removes the folders.
    dir: tempfile::TempDir,
    granted: [Root; 1],
}

/// A granted folder `w` with these files, and a file `secret` beside it.
fn tree(files: &[(&str, &str)]) -> Tree {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("secret"), "needle outside").unwrap();
    std::fs::create_dir(dir.path().join("w")).unwrap();
    for (path, text) in files {
        let path = dir.path().join("w").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let granted = [Root::open(&dir.path().join("w")).unwrap()];
    Tree { dir, granted }
}

impl Tree {
    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("w").join(path)
    }

    fn query(&self, pattern: Option<&str>) -> Query {
        Query {
            roots: vec![self.dir.path().join("w")],
            pattern: pattern.map(str::to_owned),
            max_results: 1000,
            max_line_bytes: 500,
            ..Query::default()
        }
    }

    fn scan(&self, query: &Query) -> Result<Outcome, ScanError> {
        scan(query, &self.granted, &|| false)
    }

    /// `path:line:text` of matches, `path-line-text` of context, `path` where only that is meant; paths relative to `w`.
    fn lines(&self, query: &Query) -> Vec<String> {
        let hits = self.scan(query).unwrap().hits;
        hits.iter().map(|hit| self.line(hit)).collect()
    }

    fn line(&self, hit: &Hit) -> String {
        let path = hit.path.strip_prefix(self.dir.path().join("w")).unwrap().display();
        match (hit.line, hit.is_context) {
            (0, _) => path.to_string(),
            (line, true) => format!("{path}-{line}-{}", hit.text),
            (line, false) => format!("{path}:{line}:{}", hit.text),
        }
    }
}

#[test]
fn lists_and_searches_in_the_order_of_paths() {
    let tree =
        tree(&[("b/x.rs", "needle"), ("b.rs", "no\nneedle b"), ("a/z/y.rs", "needle\nneedle"), ("a.txt", "none")]);
    assert_eq!(tree.lines(&tree.query(None)), ["a/z/y.rs", "a.txt", "b/x.rs", "b.rs"]);
    let found = tree.lines(&tree.query(Some("needle")));
    assert_eq!(found, ["a/z/y.rs:1:needle", "a/z/y.rs:2:needle", "b/x.rs:1:needle", "b.rs:2:needle b"]);
    let outcome = tree.scan(&tree.query(Some("needle"))).unwrap();
    assert_eq!((outcome.files_searched, outcome.skipped, outcome.truncated), (4, 0, false));
}

#[test]
fn patterns_literals_and_case() {
    let tree = tree(&[("a", "Foo(1)\r\nfoo.1\nfoo[\n\n")]);
    let with =
        |pattern: &str, literal, ignore_case| tree.lines(&Query { literal, ignore_case, ..tree.query(Some(pattern)) });
    assert_eq!(with(r"foo.\d", false, false), ["a:2:foo.1"]);
    assert_eq!(with(r"^foo\W1?\)?", false, true).len(), 3);
    assert_eq!(with("foo[", true, false), ["a:3:foo["]);
    assert_eq!(with(r"\)$", false, false), ["a:1:Foo(1)"]);
    assert_eq!(with("^$", false, false), ["a:4:"]);
    for bad in ["foo[", "(", "a)(b", "a\nb", r"\w{5000}{5000}"] {
        let error = tree.scan(&tree.query(Some(bad))).unwrap_err();
        assert!(matches!(&error, ScanError::Pattern { message } if !message.is_empty()), "{bad:?}: {error:?}");
    }
}

#[test]
fn ignore_files_count_in_and_outside_of_repositories() {
    let tree = tree(&[
        (".gitignore", "*.log\n/target\n!keep.log\nbad[\n"),
        ("a.log", ""),
        ("keep.log", ""),
        ("target/x", ""),
        ("sub/target/x", ""),
        ("sub/.gitignore", "!a.log\nlocal\n"),
        ("sub/a.log", ""),
        ("sub/local", ""),
        ("local", ""),
        (".ignore", "secret.txt\n!.github\n"),
        ("secret.txt", ""),
        (".github/ci.yml", ""),
        (".hidden/x", ""),
        (".dot", ""),
        (".git/config", ""),
        (".git/info/exclude", "excluded\n"),
        ("excluded", ""),
        ("inner/.git/HEAD", ""),
        ("inner/b.log", ""),
        ("inner/secret.txt", ""),
    ]);
    let seen = ["inner/b.log", "keep.log", "local", "sub/a.log", "sub/target/x"];
    let mut all = vec![".github/ci.yml"];
    all.extend(seen);
    assert_eq!(tree.lines(&tree.query(None)), all);
    let hidden = tree.lines(&Query { hidden: true, ..tree.query(None) });
    let mut all =
        vec![".dot", ".github/ci.yml", ".gitignore", ".hidden/x", ".ignore", "inner/b.log", "keep.log", "local"];
    all.extend(["sub/.gitignore", "sub/a.log", "sub/target/x"]);
    assert_eq!(hidden, all);
    // The rules above a root count in it too.
    let sub = Query { roots: vec![tree.at("sub")], ..tree.query(None) };
    assert_eq!(tree.lines(&sub), ["sub/a.log", "sub/target/x"]);
    let inner = Query { roots: vec![tree.at("inner")], ..tree.query(None) };
    assert_eq!(tree.lines(&inner), ["inner/b.log"]);
    // What is named itself is looked at.
    let named = Query { roots: vec![tree.at("target"), tree.at("a.log")], ..tree.query(None) };
    assert_eq!(tree.lines(&named), ["target/x", "a.log"]);
}

#[test]
fn globs_narrow() {
    let tree = tree(&[("src/a.rs", ""), ("src/deep/b.rs", ""), ("c.rs", ""), ("node_modules/d.rs", ""), ("e.md", "")]);
    let with = |globs: &[&str]| {
        let globs = globs.iter().map(ToString::to_string).collect();
        tree.lines(&Query { globs, ..tree.query(None) })
    };
    assert_eq!(with(&["*.rs", "!node_modules"]), ["c.rs", "src/a.rs", "src/deep/b.rs"]);
    assert_eq!(with(&["src/*.rs"]), ["src/a.rs"]);
    assert_eq!(with(&["!*.rs"]), ["e.md"]);
    let root = Query { roots: vec![tree.at("src")], globs: vec!["deep/*".into()], ..tree.query(None) };
    assert_eq!(tree.lines(&root), ["src/deep/b.rs"]);
    // What is named itself is looked at.
    let file = Query { roots: vec![tree.at("e.md")], globs: vec!["*.rs".into()], ..tree.query(None) };
    assert_eq!(tree.lines(&file), ["e.md"]);
}

#[test]
fn context_and_limits_cut_exactly() {
    let text: String =
        (1..=20).map(|i| if i % 5 == 0 { format!("needle {i}\n") } else { format!("line {i}\n") }).collect();
    let tree = tree(&[("a", text.as_str()), ("b", "needle\nline")]);
    let with = |max_results, context_lines| {
        let query = Query { max_results, context_lines, ..tree.query(Some("needle")) };
        (tree.lines(&query), tree.scan(&query).unwrap().truncated)
    };
    let (lines, truncated) = with(1, 1);
    assert_eq!(lines, ["a-4-line 4", "a:5:needle 5", "a-6-line 6"]);
    assert!(truncated);
    let (lines, truncated) = with(4, 1);
    assert_eq!(lines.len(), 11);
    assert_eq!(lines.last().unwrap(), "a:20:needle 20");
    assert!(truncated);
    let (lines, truncated) = with(5, 0);
    assert_eq!((lines.len(), truncated), (5, false));
    assert_eq!(with(0, 0), (vec![], true));
    let listed = tree.scan(&Query { max_results: 1, ..tree.query(None) }).unwrap();
    assert_eq!((listed.hits.len(), listed.truncated), (1, true));
    let cut = tree.lines(&Query { max_line_bytes: 4, max_results: 1, ..tree.query(Some("needle")) });
    assert_eq!(cut, ["a:5:need"]);
}

#[test]
fn the_first_results_are_the_same_every_time() {
    let files: Vec<(String, String)> = (0..300)
        .map(|i| (format!("d{:02}/f{i:03}", i % 17), "x needle\n".repeat(1 + i % 7) + &"y\n".repeat(i * 10)))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let tree = tree(&files);
    let full = tree.lines(&tree.query(Some("needle")));
    let all = tree.scan(&tree.query(Some("needle"))).unwrap();
    assert_eq!((full.len(), all.truncated, all.files_searched), (1000, true, all.files_searched));
    let listed = tree.lines(&tree.query(None));
    for max in [1, 2, 3, 10, 100, 333, 999] {
        for threads in [1, 2, 3, 8, 16] {
            let query = Query { max_results: max, ..tree.query(Some("needle")) };
            let outcome = scan_on(threads, &query, &[&tree.granted[0]], &|| false).unwrap();
            let lines: Vec<String> = outcome.hits.iter().map(|hit| tree.line(hit)).collect();
            assert_eq!(lines, full[..max as usize]);
            assert!(outcome.truncated);
            let query = Query { max_results: max, ..tree.query(None) };
            let outcome = scan_on(threads, &query, &[&tree.granted[0]], &|| false).unwrap();
            let lines: Vec<String> = outcome.hits.iter().map(|hit| tree.line(hit)).collect();
            assert_eq!((lines.as_slice(), outcome.truncated), (&listed[..listed.len().min(max as usize)], max < 300));
        }
    }
    let early = tree.scan(&Query { max_results: 1, ..tree.query(Some("needle")) }).unwrap();
    assert!(early.files_searched < 300, "it stops early");
}

#[test]
fn binary_files_are_skipped_and_odd_text_is_made_whole() {
    let tree = tree(&[("text", "needle")]);
    std::fs::write(tree.at("binary"), b"needle\n\0needle\n").unwrap();
    std::fs::write(tree.at("latin"), b"needle \xe9\n").unwrap();
    let utf16: Vec<u8> =
        [0xfeff_u16].into_iter().chain("needle é\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    std::fs::write(tree.at("utf16"), utf16).unwrap();
    std::fs::write(tree.at("other"), b"hay\0").unwrap();
    std::fs::write(tree.at("long"), ["needle\n", &"hay\n".repeat(200_000), "\0"].concat()).unwrap();
    let found = tree.lines(&tree.query(Some("needle")));
    assert_eq!(found, ["latin:1:needle \u{fffd}", "text:1:needle", "utf16:1:needle é"]);
    // Those in which the pattern stands, and roots.
    assert_eq!(tree.scan(&tree.query(Some("needle"))).unwrap().binary, 2);
    let root = Query { roots: vec![tree.at("other")], ..tree.query(Some("needle")) };
    assert_eq!(tree.scan(&root).unwrap().binary, 1);
}

#[test]
fn a_long_line_is_cut_around_its_match() {
    let line = format!("{}needle{}", "é".repeat(100), "y".repeat(100));
    let tree = tree(&[("a", &format!("x needle\n{line}\n"))]);
    let query = Query { max_line_bytes: 40, context_lines: 1, ..tree.query(Some("needle$|ne+dle")) };
    let hits = tree.scan(&query).unwrap().hits;
    let short = &hits[0];
    assert_eq!((short.match_start, short.match_end, short.cut_before, short.cut_after), (2, 8, 0, 0));
    let long = &hits[1];
    assert_eq!(long.text, format!("{}needle{}", "é".repeat(5), "y".repeat(24)));
    assert_eq!((long.match_start, long.match_end, long.cut_before, long.cut_after), (10, 16, 190, 76));
    // What is longer as it is shown moves the match.
    std::fs::write(tree.at("a"), b"\xff\xff needle").unwrap();
    let hits = tree.scan(&query).unwrap().hits;
    assert_eq!(&hits[0].text[hits[0].match_start as usize..hits[0].match_end as usize], "needle");
}

#[test]
fn folders_are_listed_where_that_is_asked() {
    let tree = tree(&[("src/a.rs", ""), ("src/Deep/b.rs", ""), ("x/src/c.md", ""), ("src.rs", "")]);
    symlink("src", tree.at("link")).unwrap();
    let with = |globs: &[&str], ignore_case| {
        let globs = globs.iter().map(ToString::to_string).collect();
        let query = Query { globs, folders: true, ignore_case, ..tree.query(None) };
        let hits = tree.scan(&query).unwrap().hits;
        let shown = |hit: &Hit| hit.path.to_str().unwrap().rsplit_once("/w/").unwrap().1.to_owned();
        hits.iter().map(shown).collect::<Vec<_>>()
    };
    let all = ["link", "src/", "src/Deep/", "src/Deep/b.rs", "src/a.rs", "src.rs", "x/", "x/src/", "x/src/c.md"];
    assert_eq!(with(&[], false), all);
    assert_eq!(with(&["src"], false), ["src/", "x/src/"]);
    assert_eq!(with(&["deep"], false), [""; 0]);
    assert_eq!(with(&["deep"], true), ["src/Deep/"]);
    assert_eq!(with(&["*", "!src"], false), ["link", "src.rs", "x/"]);
}

#[test]
fn who_names_what_is_ignored_wants_what_is_in_it() {
    let tree = tree(&[
        (".gitignore", "out/\n*.log\n"),
        ("out/deep/a.log", "needle"),
        ("out/.gitignore", "b\n"),
        ("out/b", "needle"),
    ]);
    let found = |root: &str| tree.lines(&Query { roots: vec![tree.at(root)], ..tree.query(Some("needle")) });
    assert_eq!(found("out"), ["out/deep/a.log:1:needle"]);
    assert_eq!(found("out/deep"), ["out/deep/a.log:1:needle"]);
    assert_eq!(found("."), [""; 0]);
}

#[test]
fn a_tree_deeper_than_there_are_descriptors_is_walked() {
    let deep = "d/".repeat(300);
    let files: Vec<(String, &str)> = (0..300).map(|at| (format!("{}z", &deep[..at * 2]), "needle")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let tree = tree(&files);
    let outcome = tree.scan(&tree.query(Some("needle"))).unwrap();
    assert_eq!((outcome.hits.len(), outcome.skipped), (300, 0));
    assert!(tree.line(&outcome.hits[0]).starts_with("d/d/d/"), "the deepest comes first");
}

/// A folder and a link to one outside change places all the time, each with the same names in it.
#[test]
fn ten_thousand_races_give_no_byte_from_outside() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let tree = tree(&[("a/one", "needle"), ("a/sub/two", "needle"), ("z", "needle")]);
    let outside = tree.dir.path().join("outside");
    std::fs::create_dir_all(outside.join("sub")).unwrap();
    std::fs::write(outside.join("one"), "needle outside").unwrap();
    std::fs::write(outside.join("sub/two"), "needle outside").unwrap();
    std::fs::write(outside.join("three"), "needle outside").unwrap();
    symlink(&outside, tree.at("b")).unwrap();
    let rounds = AtomicUsize::new(0);
    let scans = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while rounds.load(Ordering::Relaxed) < 10_000 || scans.load(Ordering::Relaxed) < 500 {
                renameat_with(CWD, tree.at("a"), CWD, tree.at("b"), RenameFlags::EXCHANGE).unwrap();
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut through = 0;
        while rounds.load(Ordering::Relaxed) < 10_000 || scans.load(Ordering::Relaxed) < 500 {
            for query in [tree.query(Some("needle")), tree.query(None)] {
                let outcome = tree.scan(&query).unwrap();
                for hit in &outcome.hits {
                    assert!(!hit.text.contains("outside") && !hit.path.ends_with("three"), "{hit:?}");
                }
                through += usize::from(outcome.hits.len() > 2);
            }
            // The root itself may be what changes.
            for root in ["a", "a/sub", "a/one"] {
                match tree.scan(&Query { roots: vec![tree.at(root)], ..tree.query(Some("needle")) }) {
                    Ok(outcome) => assert!(outcome.hits.iter().all(|hit| hit.text == "needle"), "{outcome:?}"),
                    Err(ScanError::Outside { .. } | ScanError::Open(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            scans.fetch_add(1, Ordering::Relaxed);
        }
        assert!(through > 0, "the folder was seen");
    });
}

#[test]
fn hostile_trees_cost_nothing_and_give_nothing() {
    let tree = tree(&[("sub/a", "needle"), ("real/b", "needle"), ("z", "needle")]);
    let fifo = |path: &str| {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, tree.at(path), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    };
    fifo("fifo");
    fifo(".gitignore");
    symlink("/dev/zero", tree.at(".ignore")).unwrap();
    symlink("/dev/zero", tree.at("sub/.gitignore")).unwrap();
    symlink("../../secret", tree.at("sub/out")).unwrap();
    symlink("../../", tree.at("sub/away")).unwrap();
    symlink("..", tree.at("sub/loop")).unwrap();
    symlink("real", tree.at("link")).unwrap();
    symlink("../z", tree.at("sub/file")).unwrap();
    let huge = std::fs::File::create(tree.at("huge")).unwrap();
    huge.set_len(FILE_BYTES_MAX * 1000).unwrap();
    let start = Instant::now();
    let outcome = tree.scan(&tree.query(Some("needle"))).unwrap();
    assert!(start.elapsed() < Duration::from_secs(2));
    let found: Vec<String> = outcome.hits.iter().map(|hit| tree.line(hit)).collect();
    assert_eq!(found, ["real/b:1:needle", "sub/a:1:needle", "z:1:needle"]);
    assert_eq!(outcome.skipped, 1);
    // A root may be a link that stays.
    let linked = Query { roots: vec![tree.at("link"), tree.at("sub/file")], ..tree.query(Some("needle")) };
    assert_eq!(tree.lines(&linked), ["link/b:1:needle", "sub/file:1:needle"]);
}

#[test]
fn roots_lie_in_granted_folders() {
    let tree = tree(&[("sub/a", "needle")]);
    symlink("../secret", tree.at("out")).unwrap();
    symlink("..", tree.at("away")).unwrap();
    symlink("/etc", tree.at("etc")).unwrap();
    let with = |roots: &[PathBuf]| tree.scan(&Query { roots: roots.to_vec(), ..tree.query(Some("needle")) });
    let outside = [
        tree.dir.path().join("secret"),
        tree.dir.path().to_path_buf(),
        tree.at("../secret"),
        tree.at("sub/../../secret"),
        tree.at("out"),
        tree.at("away/secret"),
        tree.at("away"),
        tree.at("etc"),
        "/".into(),
        "sub".into(),
        "../../..".into(),
    ];
    for root in outside {
        let error = with(std::slice::from_ref(&root)).unwrap_err();
        assert!(matches!(&error, ScanError::Outside { path } if *path == root), "{root:?}: {error:?}");
    }
    assert!(matches!(with(&[tree.at("none")]), Err(ScanError::Open(OpenError::NotFound { .. }))));
    // Nothing is found twice, and `..` that stays is no crime.
    let twice = with(&[tree.at("sub"), tree.at("."), tree.at("sub/../sub/a")]).unwrap();
    assert_eq!(twice.hits.len(), 1);
    assert!(matches!(with(&vec![tree.at("sub"); ROOTS_MAX + 1]), Err(ScanError::Limit { .. })));
}

#[test]
fn cancelling_stops_it_within_a_file() {
    let tree = tree(&[]);
    // 200 MB of text without an end in sight for this pattern.
    let block = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n".repeat(16 * 1024);
    let mut file = std::fs::File::create(tree.at("big")).unwrap();
    for _ in 0..200 {
        std::io::Write::write_all(&mut file, block.as_bytes()).unwrap();
    }
    let asked = AtomicUsize::new(0);
    let cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= 20;
    let query = tree.query(Some("(a|b)+c"));
    assert!(matches!(scan(&query, &tree.granted, &cancelled), Err(ScanError::Cancelled)));
    assert!(asked.into_inner() < 60, "asked once per read: it did not read on");
}
