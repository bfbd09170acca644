//! The opener against links, races, FIFOs, sockets and devices; each case through `openat2` and through the walk.

use super::*;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

struct Place {
    // Held: dropping it removes the folders.
    _dir: tempfile::TempDir,
    inside: PathBuf,
    root: Root,
}

/// `inside/{a.txt, sub/b.txt, within -> a.txt, out -> ../secret, away -> .. , absolute -> /etc/hostname}`, `secret` beside it.
fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("inside");
    std::fs::create_dir_all(inside.join("sub")).unwrap();
    std::fs::write(dir.path().join("secret"), "secret").unwrap();
    std::fs::write(inside.join("a.txt"), "alpha").unwrap();
    std::fs::write(inside.join("sub/b.txt"), "beta").unwrap();
    symlink("a.txt", inside.join("within")).unwrap();
    symlink("../a.txt", inside.join("sub/up")).unwrap();
    symlink("../secret", inside.join("out")).unwrap();
    symlink("..", inside.join("away")).unwrap();
    symlink(dir.path().join("secret"), inside.join("absolute")).unwrap();
    symlink("/proc/self/fd/0", inside.join("magic")).unwrap();
    symlink("loop", inside.join("loop")).unwrap();
    let root = Root::open(&inside).unwrap();
    Place { _dir: dir, inside, root }
}

fn by_steps(root: &Root, path: &str, flags: OFlags) -> Result<File, OpenError> {
    let path = Path::new(path);
    let opened = beneath_by_steps(root.folder.as_fd(), path, flags | OFlags::NONBLOCK | OFlags::CLOEXEC)
        .map_err(|errno| OpenError::of(errno, path))?;
    regular(opened, path)
}

#[test]
fn regular_files_beneath_open_by_relative_and_absolute_path() {
    let place = place();
    assert_eq!(place.root.read_limited(Path::new("a.txt"), 5).unwrap(), b"alpha");
    assert_eq!(place.root.read_text(Path::new("sub/../sub/b.txt"), 100).unwrap(), "beta");
    assert_eq!(place.root.read_text(&place.inside.join("sub/b.txt"), 100).unwrap(), "beta");
    assert_eq!(place.root.read_text(Path::new("within"), 100).unwrap(), "alpha");
    assert_eq!(place.root.read_text(Path::new("sub/up"), 100).unwrap(), "alpha");
}

#[test]
fn nothing_leads_out() {
    let place = place();
    for path in ["out", "away/secret", "absolute", "magic", "../secret", "sub/../../secret", "loop", "/etc/hostname"] {
        let error = place.root.open_file(Path::new(path)).unwrap_err();
        assert!(matches!(error, OpenError::Escapes { .. }), "{path}: {error:?}");
    }
    let sideways = place.inside.join("../secret");
    assert!(matches!(place.root.open_file(&sideways), Err(OpenError::Escapes { .. })));
}

#[test]
fn the_walk_is_stricter_and_never_laxer() {
    let place = place();
    let mut text = String::new();
    by_steps(&place.root, "./sub/b.txt", OFlags::RDONLY).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "beta");
    for path in ["out", "away/secret", "absolute", "magic", "../secret", "within", "loop", "/etc/hostname"] {
        let error = by_steps(&place.root, path, OFlags::RDONLY).unwrap_err();
        assert!(matches!(error, OpenError::Escapes { .. }), "{path}: {error:?}");
    }
    assert!(matches!(by_steps(&place.root, "a.txt/b", OFlags::RDONLY), Err(OpenError::NotFound { .. })));
    assert!(matches!(by_steps(&place.root, ".", OFlags::RDONLY), Err(OpenError::NotRegular { .. })));
}

#[test]
fn what_is_not_regular_is_refused_at_once() {
    let place = place();
    let fifo = place.inside.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.inside.join("socket")).unwrap();
    let start = Instant::now();
    for path in ["fifo", "socket", "sub", "."] {
        let error = place.root.open_file(Path::new(path)).unwrap_err();
        assert!(matches!(error, OpenError::NotRegular { .. }), "{path}: {error:?}");
        let error = by_steps(&place.root, path, OFlags::RDONLY).unwrap_err();
        assert!(matches!(error, OpenError::NotRegular { .. }), "{path}: {error:?}");
    }
    assert!(matches!(place.root.open_append(Path::new("fifo")), Err(OpenError::NotRegular { .. })));
    assert!(matches!(open_regular(&fifo), Err(OpenError::NotRegular { .. })));
    assert!(matches!(open_regular(Path::new("/dev/zero")), Err(OpenError::NotRegular { .. })));
    let devices = Root::open(Path::new("/dev")).unwrap();
    assert!(matches!(devices.read_limited(Path::new("zero"), 10), Err(OpenError::NotRegular { .. })));
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(place.root.kind(Path::new("fifo")).unwrap(), Kind::Other);
    assert_eq!(place.root.kind(Path::new("sub")).unwrap(), Kind::Folder);
    assert_eq!(place.root.kind(Path::new("within")).unwrap(), Kind::File);
}

#[test]
fn limits_and_text() {
    let place = place();
    let error = place.root.read_limited(Path::new("a.txt"), 4).unwrap_err();
    assert!(matches!(error, OpenError::TooLarge { limit: 4, .. }), "{error:?}");
    // A length of 0 that is not true.
    let own = Root::open(Path::new("/proc/self")).unwrap();
    assert!(matches!(own.read_limited(Path::new("status"), 10), Err(OpenError::TooLarge { .. })));
    std::fs::write(place.inside.join("marked"), "\u{feff}text").unwrap();
    std::fs::write(place.inside.join("bytes"), b"\xff\xfe").unwrap();
    assert_eq!(place.root.read_text(Path::new("marked"), 100).unwrap(), "text");
    assert!(matches!(place.root.read_text(Path::new("bytes"), 100), Err(OpenError::NotText { .. })));
    assert!(matches!(place.root.open_file(Path::new("none")), Err(OpenError::NotFound { .. })));
    assert!(matches!(place.root.open_file(Path::new("a.txt/x")), Err(OpenError::NotFound { .. })));
    assert!(matches!(Root::open(&place.inside.join("a.txt")), Err(OpenError::NotRegular { .. })));
}

#[test]
fn appends_to_what_is_there() {
    use std::io::Write;
    let place = place();
    place.root.open_append(Path::new("a.txt")).unwrap().write_all(b"+").unwrap();
    assert_eq!(std::fs::read(place.inside.join("a.txt")).unwrap(), b"alpha+");
    assert!(matches!(place.root.open_append(Path::new("new")), Err(OpenError::NotFound { .. })));
    assert!(matches!(place.root.open_append(Path::new("out")), Err(OpenError::Escapes { .. })));
}

/// Another thread swaps a folder for a link out, over and over; the secret is never read.
#[test]
fn a_race_of_links_reads_no_secret() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let place = place();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("b.txt"), "secret").unwrap();
    symlink(outside.path(), place.inside.join("link")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let (real, link) = (place.inside.join("sub"), place.inside.join("link"));
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                let cwd = rustix::fs::CWD;
                rustix::fs::renameat_with(cwd, &real, cwd, &link, exchange).unwrap();
            }
        });
        let mut read = 0;
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            let walked = by_steps(&place.root, "sub/b.txt", OFlags::RDONLY).and_then(|file| {
                let path = Path::new("sub/b.txt");
                text(read_whole(file, path, 100)?, path)
            });
            for text in [place.root.read_text(Path::new("sub/b.txt"), 100), walked].into_iter().flatten() {
                assert_eq!(text, "beta");
                read += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(read > 0);
    });
}
