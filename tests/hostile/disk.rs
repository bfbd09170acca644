//! Ways out of the working folder, and files that hold whoever opens them.

use crate::arena::{Arena, case, hostile, short, usual};
use futures::future::join_all;
use pith_tests::{Home, Running, hostile_component};
use rustix::fs::{CWD, FileType, mknodat};
use serde_json::json;
use std::{
    fs,
    io::BufRead,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// What lies outside, and must neither be read nor changed.
const SECRET: &str = "outside, and secret";
/// How often a folder is swapped for a link while it is opened.
const ROUNDS: usize = 10_000;
/// How often a file is tried that does not open.
const TRIES: usize = 600;

/// A folder outside the working folder, with a secret in it; it is whole when the case is over.
struct Outside(tempfile::TempDir);

impl Outside {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        fs::create_dir(folder.path().join("empty")).unwrap();
        Self(folder)
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }

    #[track_caller]
    fn is_whole(&self) {
        assert_eq!(fs::read_to_string(self.0.path().join("secret")).unwrap(), SECRET);
        let mut names: Vec<_> = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["empty", "secret"]);
    }
}

/// One deed with one path: it fails, and nothing of the outside is told.
#[track_caller]
fn fails(arena: &Arena, deed: &str, path: &str, to: &str) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    let (call, told) = (json!({ "deed": deed, "path": path, "to": to }), format!("{place}: {deed} {path} {to}"));
    async move {
        let (text, _) = arena.call("path", call).await;
        assert!(text.starts_with("error"), "{told}: {}", short(&text));
        assert!(!text.contains("secret") && !text.contains("root:"), "{told}: {}", short(&text));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_that_lead_out() {
    case("paths that lead out: dots, absolute, links", &[usual()], async |arena| {
        let (outside, work) = (Outside::new(), arena.work());
        symlink(outside.0.path(), work.join("folder-link")).unwrap();
        symlink(outside.at("secret"), work.join("file-link")).unwrap();
        symlink("..", work.join("up-link")).unwrap();
        symlink("folder-link", work.join("chain")).unwrap();
        symlink("loop-b", work.join("loop-a")).unwrap();
        symlink("loop-a", work.join("loop-b")).unwrap();
        fs::create_dir(work.join("in")).unwrap();
        let up = "../".repeat(40);
        let secret = outside.at("secret");
        for path in [
            secret.clone(),
            format!("{up}{}", &secret[1..]),
            format!("in/{up}{}", &secret[1..]),
            format!("{}/{up}{}", work.display(), &secret[1..]),
            format!("./././/{up}/{}", &secret[1..]),
            "folder-link/secret".to_owned(),
            "chain/secret".to_owned(),
            "file-link".to_owned(),
            "up-link/spool".to_owned(),
            "loop-a".to_owned(),
            "/etc/passwd".to_owned(),
            "/proc/self/environ".to_owned(),
            "/proc/self/root/etc/passwd".to_owned(),
            "/proc/1/cmdline".to_owned(),
            "/dev/zero".to_owned(),
            "/dev/mem".to_owned(),
            "in\0../../secret".to_owned(),
            "x".repeat(10_000),
            "a/".repeat(5_000),
        ] {
            for deed in ["read", "stat", "write", "append", "truncate", "list", "remove"] {
                // A link itself may be removed: it is the folder's own.
                if deed == "remove" && (path.ends_with("-link") || path == "loop-a") {
                    continue;
                }
                fails(arena, deed, &path, "").await;
            }
        }
        for deed in ["make", "remove-all"] {
            // The C library looks for an absolute path that no folder has in the working folder: what it makes, it makes there.
            arena.call("path", json!({ "deed": deed, "path": outside.at("made") })).await;
            fails(arena, deed, "folder-link/made/more", "").await;
        }
        outside.is_whole();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_are_made_to_lead_out() {
    case("links, hard links, renames and copies across the border", &[usual()], async |arena| {
        let (outside, work) = (Outside::new(), arena.work());
        fs::write(work.join("mine"), "mine").unwrap();
        fs::create_dir(work.join("in")).unwrap();
        for target in [outside.at("secret"), "..".to_owned(), "in/../../spool".to_owned(), "/".to_owned()] {
            fails(arena, "link", &target, "made-link").await;
        }
        for deed in ["hard-link", "rename", "copy"] {
            fails(arena, deed, &outside.at("secret"), "taken").await;
            fails(arena, deed, "mine", &outside.at("given")).await;
            fails(arena, deed, "mine", "../given").await;
        }
        // A link that is fine where it was made, moved to where it is not.
        arena.fine("path", json!({ "deed": "link", "path": "mine", "to": "in/link" }), "").await;
        for name in ["made-link", "taken"] {
            assert!(fs::symlink_metadata(work.join(name)).is_err(), "{name}");
        }
        outside.is_whole();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lengths_and_places_that_cannot_be() {
    case("files grown to a petabyte, read at 4 EB", &[usual()], async |arena| {
        fs::write(arena.work().join("file"), "x").unwrap();
        let (text, _) = arena.call("path", json!({ "deed": "grow", "path": "grown" })).await;
        let grown =
            fs::metadata(arena.work().join("grown")).map_or(0, |met| std::os::unix::fs::MetadataExt::blocks(&met));
        assert!(grown == 0 && (text.starts_with("error") || text == "done"), "{text}: {grown} blocks");
        let (text, _) = arena.call("path", json!({ "deed": "seek", "path": "file" })).await;
        assert!(text.starts_with("error") || text == "0 bytes", "{text}");
        arena.call("read", json!({ "path": "grown" })).await;
    })
    .await;
}

/// The names of what holds whoever opens it; the socket has to be held.
fn traps(work: &Path) -> (UnixListener, Vec<&'static str>) {
    let mut names = vec!["fifo", "to-fifo", "socket", "zero", "tty", "fd"];
    // Only root makes devices, and not in every container: the links above stand for them elsewhere.
    let zero = rustix::fs::makedev(1, 5);
    if mknodat(CWD, work.join("device"), FileType::CharacterDevice, 0o600.into(), zero).is_ok() {
        names.push("device");
    }
    mknodat(CWD, work.join("fifo"), FileType::Fifo, 0o600.into(), 0).unwrap();
    symlink("fifo", work.join("to-fifo")).unwrap();
    symlink("/dev/zero", work.join("zero")).unwrap();
    symlink("/dev/tty", work.join("tty")).unwrap();
    symlink("/proc/self/fd/0", work.join("fd")).unwrap();
    (UnixListener::bind(work.join("socket")).unwrap(), names)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_regular_file() {
    case("FIFO, socket and devices by the standard library", &[usual()], async |arena| {
        let (_socket, names) = traps(&arena.work());
        for name in names {
            for deed in ["read", "write", "append", "truncate"] {
                let began = Instant::now();
                fails(arena, deed, name, "").await;
                assert!(began.elapsed() < Duration::from_secs(2), "{deed} {name}: {:?}", began.elapsed());
            }
        }
    })
    .await;
    case("FIFO, socket and devices by the shipped tools", &[], async |arena| {
        let (_socket, names) = traps(&arena.work());
        for name in names {
            for (tool, input) in [
                ("read", json!({ "path": name })),
                ("write", json!({ "path": name, "content": "x" })),
                ("edit", json!({ "path": name, "edits": [{ "oldText": "a", "newText": "b" }] })),
                ("grep", json!({ "pattern": "x", "path": name })),
            ] {
                let began = Instant::now();
                let (text, is_error) = arena.call(tool, input).await;
                assert!(began.elapsed() < Duration::from_secs(2), "{tool} {name}: {:?}", began.elapsed());
                assert!(is_error || text.contains("No matches"), "{tool} {name}: {}", short(&text));
            }
        }
        // A search of the whole folder passes them by.
        fs::write(arena.work().join("hay"), "a needle\n").unwrap();
        arena.fine("grep", json!({ "pattern": "needle" }), "a needle").await;
    })
    .await;
}

/// Hostile case 17, the first half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_hundred_tries_on_a_fifo() {
    case("600 tries on a FIFO", &[], async |arena| {
        let _socket = traps(&arena.work());
        let began = Instant::now();
        for _ in 0..TRIES / 12 {
            let tries = (0..12).map(|_| arena.call("read", json!({ "path": "fifo" })));
            assert!(join_all(tries).await.iter().all(|(_, is_error)| *is_error));
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert!(arena.bench.host.plugins().iter().all(|plugin| plugin.threads_left_behind == 0));
    })
    .await;
}

/// A file whose opening blocks until the kernel takes its holder's lease away, 45 s later: a dead mount, without a mount.
struct Stuck(Child);

impl Stuck {
    fn new(path: &Path) -> Self {
        fs::write(path, "stuck").unwrap();
        // F_SETLEASE, F_WRLCK.
        let script = r#"open(my $f, "<", $ARGV[0]) or die; $SIG{IO} = "IGNORE"; fcntl($f, 1024, 1) or die "lease: $!";
            $| = 1; print "held\n"; sleep 600"#;
        let mut holder =
            Command::new("perl").args(["-e", script]).arg(path).stdout(Stdio::piped()).spawn().expect("perl runs");
        let mut line = String::new();
        std::io::BufReader::new(holder.stdout.take().expect("its output")).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n", "this file system has no leases");
        Self(holder)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Hostile case 17, the second half: threads that hang in the file system are left behind, and nobody waits for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_hundred_tries_on_a_file_that_is_stuck() {
    let plugin = hostile(Duration::from_millis(100), json!({}));
    case("600 tries on a file that is stuck", &[plugin], async |arena| {
        let left = |name: &str| {
            let plugins = arena.bench.host.plugins();
            plugins.iter().find(|plugin| plugin.name == name).map(|plugin| plugin.threads_left_behind)
        };
        // A file for a part of the tries: on a slow machine the first lease is over before the last try.
        let mut stuck = Vec::new();
        for part in 0..4 {
            let path = format!("stuck-{part}");
            stuck.push(Stuck::new(&arena.work().join(&path)));
            for _ in 0..TRIES / 4 / 15 {
                let input = json!({ "deed": "read", "path": path });
                join_all((0..15).map(|_| arena.fault("path", input.clone(), "deadline of 100 ms"))).await;
            }
            assert!(left("hostile") >= Some(TRIES / 4) && left("files") == Some(0), "{:?}", left("hostile"));
        }
        // Its other calls are served meanwhile.
        arena.fine("fine", json!({}), "fine").await;
        drop(stuck);
        let ended = async {
            while left("hostile") != Some(0) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), ended)
            .await
            .expect("the threads end when the file system answers");
    })
    .await;
}

/// Swaps a folder for a link that leads out, and back, while it runs.
fn swapping(folder: &Path, outside: &Path, over: &AtomicBool) {
    let (real, link) = (folder.with_extension("real"), folder.with_extension("link"));
    while !over.load(Ordering::Relaxed) {
        symlink(outside, &link).unwrap();
        fs::rename(folder, &real).unwrap();
        // Whoever writes makes the folder anew where it is missing just now.
        let clear = || drop(fs::remove_file(folder).or_else(|_| fs::remove_dir_all(folder)));
        for next in [&link, &real] {
            clear();
            while fs::rename(next, folder).is_err() {
                clear();
            }
        }
    }
}

/// Runs `body` while the folder `a` of the working folder, with the file `secret` in it, is swapped for a link to a folder with another.
async fn raced(arena: &Arena, body: impl AsyncFn()) {
    let (outside, folder) = (Outside::new(), arena.work().join("a"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("secret"), "inside").unwrap();
    let (over, target) = (std::sync::Arc::new(AtomicBool::new(false)), outside.0.path().to_owned());
    let swapper = std::thread::spawn({
        let over = over.clone();
        move || swapping(&folder, &target, &over)
    });
    body().await;
    over.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    outside.is_whole();
}

/// Hostile case 19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_races() {
    case("10,000 reads of a guest while a folder becomes a link", &[usual()], async |arena| {
        raced(arena, async || {
            let (text, is_error) = arena.call("race", json!({ "n": ROUNDS, "path": "a/secret" })).await;
            assert!(!is_error && text.contains(" outside 0 "), "{text}");
            let inside: usize = text.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a number");
            assert!(inside > 0 && inside < ROUNDS, "nothing was raced: {text}");
        })
        .await;
    })
    .await;
    case("10,000 calls of `read` while a folder becomes a link", &[], async |arena| {
        raced(arena, async || {
            let mut inside = 0;
            for _ in 0..ROUNDS / 10 {
                for (text, _) in join_all((0..10).map(|_| arena.call("read", json!({ "path": "a/secret" })))).await {
                    assert!(!text.contains(SECRET), "{text}");
                    inside += usize::from(text.contains("inside"));
                }
            }
            assert!(inside > 0 && inside < ROUNDS, "nothing was raced: {inside}");
        })
        .await;
    })
    .await;
    case("2,000 searches while a folder becomes a link", &[], async |arena| {
        raced(arena, async || {
            for _ in 0..200 {
                let searches = (0..10).map(|_| arena.call("grep", json!({ "pattern": "outside|inside", "path": "a" })));
                assert!(join_all(searches).await.iter().all(|(text, _)| !text.contains(SECRET)));
            }
        })
        .await;
    })
    .await;
    case("2,000 writes while a folder becomes a link", &[], async |arena| {
        raced(arena, async || {
            for _ in 0..200 {
                let writes =
                    (0..10).map(|n| arena.call("write", json!({ "path": format!("a/new-{n}"), "content": "x" })));
                join_all(writes).await;
            }
        })
        .await;
    })
    .await;
}

/// In a process that may open 400 files: a quarter of them is one plugin's, and those beside it still work.
#[test]
fn more_open_files_than_a_plugin_may_have() {
    let home = Home::new();
    home.write("file", "some words");
    let plugin = home.root().join("hostile.wasm");
    fs::write(&plugin, hostile_component()).expect("a file");
    let call =
        |id: &str, name: &str, arguments: serde_json::Value| json!({ "id": id, "name": name, "arguments": arguments });
    let hold = json!({ "path": "file", "n": 900 });
    let calls: Vec<_> = ["1", "2", "3", "4"].iter().map(|id| call(id, "handles", hold.clone())).collect();
    let beside =
        [call("read", "read", json!({ "path": "file" })), call("bash", "bash", json!({ "command": "ulimit -n" }))];
    let replies = json!([{ "calls": calls.into_iter().chain(beside).collect::<Vec<_>>() }, { "text": "done" }]);
    let model = home.scripted(replies);
    let grants = ["hostile:files=workspace:rw", "hostile:process=bash"];
    let pith = home.command(&[
        "--mode",
        "json",
        "--model",
        &model,
        "--plugin",
        &plugin.to_string_lossy(),
        "--grant",
        grants[0],
        "--grant",
        grants[1],
        "-p",
        "go",
    ]);
    let mut limited = home.bare("bash");
    limited
        .args(["-c", "ulimit -Sn 300; ulimit -Hn 400; exec \"$0\" \"$@\""])
        .arg(pith.get_program())
        .args(pith.get_args());
    let run = Running::start(limited, Duration::from_secs(60)).finish().ok();
    for id in ["1", "2", "3", "4"] {
        let (text, is_error) = run.result(id);
        let count: usize =
            text.split_once(" open, then ").and_then(|(count, _)| count.parse().ok()).unwrap_or(usize::MAX);
        assert!(!is_error && count <= 100, "{text}");
    }
    assert_eq!(run.result("read").0, "some words");
    assert_eq!(run.result("bash").0.trim(), "300", "the user's own limit");
}
