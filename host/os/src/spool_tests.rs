use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn folder_and_files_are_private_and_names_are_unique() {
    let dir = tempfile::tempdir().unwrap();
    let spool = SpoolDir::new(dir.path().join("state/spool")).unwrap();
    assert_eq!(mode(spool.path()), 0o700);
    std::fs::set_permissions(spool.path(), Permissions::from_mode(0o755)).unwrap();
    let spool = SpoolDir::new(spool.path()).unwrap();
    assert_eq!(mode(spool.path()), 0o700);
    let mut one = spool.create("ba/../sh").unwrap();
    let two = spool.create("bash").unwrap();
    assert_ne!(one.path(), two.path());
    assert_eq!(one.path().parent(), Some(spool.path()));
    assert!(one.path().file_name().unwrap().to_str().unwrap().starts_with("bash-"));
    assert_eq!(mode(one.path()), 0o600);
    one.append(b"kept");
    let path = one.path().to_path_buf();
    drop(one);
    assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    spool.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_link_is_no_spool_folder() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/tmp", dir.path().join("spool")).unwrap();
    assert!(SpoolDir::new(dir.path().join("spool")).is_err());
}

/// A child that swaps the folder for a link to settings would have the host write there.
#[test]
fn files_are_made_in_the_folder_that_is_held_whatever_stands_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let (place, moved, settings) = (dir.path().join("spool"), dir.path().join("moved"), dir.path().join("settings"));
    let spool = SpoolDir::new(&place).unwrap();
    std::fs::rename(&place, &moved).unwrap();
    std::fs::create_dir(&settings).unwrap();
    std::os::unix::fs::symlink(&settings, &place).unwrap();
    spool.create("bash").unwrap().append(b"text");
    assert_eq!(std::fs::read_dir(&settings).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(&moved).unwrap().count(), 1);
}

fn len(file: &SpoolFile) -> u64 {
    std::fs::metadata(file.path()).unwrap().len()
}

/// 64 bytes a line, so that the n-th line is known.
fn lines(numbers: std::ops::Range<u64>) -> String {
    numbers.map(|number| format!("{number:063}\n")).collect()
}

#[test]
fn a_file_beyond_its_limit_keeps_its_beginning_and_its_newest_end() {
    let dir = tempfile::tempdir().unwrap();
    let spool = SpoolDir::new(dir.path().join("spool")).unwrap();
    let mut file = spool.create("one").unwrap();
    let (step, steps) = (16 * 1024, 100);
    for n in 0..steps {
        file.append(lines(n * step..(n + 1) * step).as_bytes());
        assert_eq!(file.is_cut(), n >= 32, "{n}");
        assert!(len(&file) <= SPOOL_FILE_LIMIT_BYTES);
    }
    let path = file.path().to_path_buf();
    file.end("[exited]");
    let text = std::fs::read_to_string(path).unwrap();
    let (head, rest) = text.split_once("\n[... ").unwrap();
    let (dropped, tail) =
        rest.split_once(" bytes were dropped here: a spool file keeps its beginning and its end ...]\n").unwrap();
    let tail = tail.strip_suffix("[exited]\n").unwrap();
    let known = head.len() as u64;
    assert!(known.is_multiple_of(64) && known >= SPOOL_FILE_LIMIT_BYTES / 4 - 64);
    assert_eq!(head, lines(0..known / 64));
    let first: u64 = tail.lines().next().unwrap().parse().unwrap();
    assert_eq!(tail, lines(first..steps * step));
    assert!(tail.len() as u64 >= SPOOL_FILE_LIMIT_BYTES / 4);
    assert_eq!(known + dropped.parse::<u64>().unwrap() + tail.len() as u64, steps * step * 64);
    assert_eq!(spool.used_bytes.load(Ordering::Relaxed), text.len() as u64 - "[exited]\n".len() as u64);
}

#[test]
fn the_limit_is_shared_by_all_files() {
    let dir = tempfile::tempdir().unwrap();
    let spool = SpoolDir::new(dir.path().join("spool")).unwrap();
    let block = vec![b'x'; 1024 * 1024];
    let mut files: Vec<SpoolFile> = ["one", "two", "three"].map(|name| spool.create(name).unwrap()).into();
    for _ in 0..50 {
        files.iter_mut().for_each(|file| file.append(&block));
    }
    let total: u64 = files.iter().map(len).sum();
    assert!(total <= SPOOL_LIMIT_BYTES && files.iter().all(|file| file.is_cut() && len(file) > 1 << 20), "{files:?}");
    // The pool is filled to its brim: a small file has nothing to give up.
    let left = SPOOL_LIMIT_BYTES - spool.used_bytes.load(Ordering::Relaxed);
    spool.used_bytes.fetch_add(left - 2, Ordering::Relaxed);
    let mut small = spool.create("small").unwrap();
    small.append(b"four");
    small.append(b"more");
    assert!(small.is_cut());
    let path = small.path().to_path_buf();
    small.end("[exited]");
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text, "fo\n[spool limit reached: the rest was not kept]\n[exited]\n");
}

#[test]
fn the_last_line_stands_alone() {
    let dir = tempfile::tempdir().unwrap();
    let spool = SpoolDir::new(dir.path().join("spool")).unwrap();
    for (said, kept) in [("", "[x]\n"), ("a\n", "a\n[x]\n"), ("a", "a\n[x]\n")] {
        let mut file = spool.create("one").unwrap();
        file.append(said.as_bytes());
        let path = file.path().to_path_buf();
        file.end("[x]");
        assert_eq!(std::fs::read_to_string(path).unwrap(), kept);
    }
}
