use super::{open::copy::COPY_BYTES, *};
use pith_core::LINE_LIMIT_BYTES;
use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::PermissionsExt,
};

const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"\",\"cwd\":\"/w\"}\n";

fn entry(id: &str) -> String {
    format!("{{\"type\":\"custom\",\"id\":\"{id}\",\"parentId\":null,\"timestamp\":\"\",\"customType\":\"a/b\"}}\n")
}

#[test]
fn a_file_appears_with_the_first_append_and_for_one_user() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions/x/a.jsonl");
    let store = FileStore::new(path.clone(), SessionSync::Turn);
    store.sync().unwrap();
    assert!(store.read(0, 1).is_err());
    assert!(!dir.path().join("sessions").exists());
    store.append(HEADER.as_bytes()).unwrap();
    store.append(entry("1").as_bytes()).unwrap();
    store.sync().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEADER}{}", entry("1")));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o7777, 0o700);
    assert_eq!(store.read(HEADER.len() as u64, 8).unwrap(), b"{\"type\":");
    // Never over a file that is there.
    let error = FileStore::new(path.clone(), SessionSync::Turn).append(b"x\n").unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::AlreadyExists);
}

fn notices(inbox: &mut pith_core::Inbox) -> Vec<String> {
    let mut met = Vec::new();
    while let Some(Some(event)) = futures::FutureExt::now_or_never(inbox.next()) {
        let Event::Notice { message } = event else { panic!("{event:?}") };
        met.push(message);
    }
    met
}

#[test]
fn a_deleted_file_is_written_again_whole_and_said_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x/a.jsonl");
    let root = || Root::open(&dir.path().join("x")).unwrap();
    let outbox = Outbox::new();
    let mut inbox = outbox.attach();
    let store = FileStore::new(path.clone(), SessionSync::Turn).telling(outbox.clone());
    store.append(HEADER.as_bytes()).unwrap();
    // Longer than one copied piece.
    let long = entry(&"1".repeat(COPY_BYTES + 10));
    store.append(long.as_bytes()).unwrap();
    assert_eq!(notices(&mut inbox), Vec::<String>::new());
    // With its folder, before an append.
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    store.append(entry("2").as_bytes()).unwrap();
    let whole = format!("{HEADER}{long}{}", entry("2"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(store.read((HEADER.len() + long.len()) as u64, entry("2").len()).unwrap(), entry("2").as_bytes());
    let told = notices(&mut inbox);
    assert!(told.len() == 1 && told[0].contains("x/a.jsonl was deleted"), "{told:?}");
    // Before a sync; one that is there is left alone.
    std::fs::remove_file(&path).unwrap();
    store.sync().unwrap();
    store.sync().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    assert_eq!(notices(&mut inbox).len(), 1);
    // It is held as the first one was.
    assert!(matches!(FileStore::open(&root(), Path::new("a.jsonl"), SessionSync::Never), Err(LoadError::InUse { .. })));
    drop(store);
    let (store, _) = FileStore::open(&root(), Path::new("a.jsonl"), SessionSync::Never).unwrap();
    std::fs::remove_file(&path).unwrap();
    store.append(entry("3").as_bytes()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{whole}{}", entry("3")));
}

/// The only other session file of a folder.
fn other_than(path: &Path) -> PathBuf {
    let names = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let others: Vec<PathBuf> = names.filter(|name| name != path && name.is_file()).collect();
    assert_eq!(others.len(), 1, "{others:?}");
    others[0].clone()
}

/// The header line of a session that went on elsewhere, checked; and the lines behind it.
fn went_on(path: &Path, old: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let header: Header = serde_json::from_str(header).unwrap();
    assert_eq!(header.parent_session.as_deref(), old.to_str());
    assert!(header.id.as_str().len() == 36 && path.to_str().unwrap().ends_with(&format!("_{}.jsonl", header.id)));
    assert_eq!(header.cwd, "/w");
    rest.to_owned()
}

#[test]
fn what_took_a_deleted_files_place_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let outbox = Outbox::new();
    let mut inbox = outbox.attach();
    let store = FileStore::new(path.clone(), SessionSync::Never).telling(outbox);
    store.append(HEADER.as_bytes()).unwrap();
    store.append(entry("1").as_bytes()).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "mine").unwrap();
    store.append(entry("2").as_bytes()).unwrap();
    store.append(entry("3").as_bytes()).unwrap();
    store.sync().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    let new = other_than(&path);
    assert_eq!(store.path(), new);
    assert_eq!(went_on(&new, &path), [entry("1"), entry("2"), entry("3")].concat());
    let told = notices(&mut inbox);
    let names = |text: &str| told[0].contains(text);
    assert!(told.len() == 1 && names("a.jsonl") && names(new.to_str().unwrap()) && names("another file"), "{told:?}");
    // What was appended is still where the session counts it.
    let at = |n: usize| (HEADER.len() + n * entry("1").len()) as u64;
    for (n, id) in [(0, "1"), (1, "2"), (2, "3")] {
        assert_eq!(store.read(at(n), entry(id).len()).unwrap(), entry(id).as_bytes());
    }
    assert_eq!(store.read(at(0), 2 * entry("1").len()).unwrap(), [entry("1"), entry("2")].concat().as_bytes());
}

#[test]
fn one_writer_at_a_time_and_readers_take_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    let path = dir.path().join("a.jsonl");
    let first = FileStore::new(path.clone(), SessionSync::Never);
    first.append(HEADER.as_bytes()).unwrap();
    let second = FileStore::open(&root, Path::new("a.jsonl"), SessionSync::Never);
    assert!(matches!(&second, Err(LoadError::InUse { .. })));
    let error = second.err().unwrap();
    assert!(error.to_string().contains(&format!("in use by another Pith (process {}", std::process::id())), "{error}");
    assert!(error.hint().unwrap().contains("--no-session"));
    assert!(SourceFile::open(&path).is_ok());
    drop(first);
    let (second, _) = FileStore::open(&root, Path::new("a.jsonl"), SessionSync::Never).unwrap();
    second.append(entry("1").as_bytes()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEADER}{}", entry("1")));
}

#[test]
fn behind_what_another_program_wrote_the_session_goes_on_in_another_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let outbox = Outbox::new();
    let mut inbox = outbox.attach();
    let store = FileStore::new(path.clone(), SessionSync::Never).telling(outbox);
    store.append(HEADER.as_bytes()).unwrap();
    store.append(entry("1").as_bytes()).unwrap();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"to").unwrap();
    let theirs = std::fs::read(&path).unwrap();
    store.append(entry("2").as_bytes()).unwrap();
    store.append(entry("3").as_bytes()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), theirs, "theirs is as they left it");
    assert_eq!(went_on(&other_than(&path), &path), [entry("1"), entry("2"), entry("3")].concat());
    let told = notices(&mut inbox);
    assert!(
        told.len() == 1 && told[0].contains("another program wrote to it") && !told[0].contains("not in it"),
        "{told:?}"
    );
    // The old one is free for others now.
    let root = Root::open(dir.path()).unwrap();
    assert!(FileStore::open(&root, Path::new("a.jsonl"), SessionSync::Never).is_ok());
}

#[test]
fn what_another_program_destroyed_comes_from_memory_as_far_as_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    let path = dir.path().join("a.jsonl");
    // Read, not appended here: not in memory.
    let early: String = (0..4000).map(|n| entry(&format!("early{n:05}"))).collect();
    std::fs::write(&path, format!("{HEADER}{early}")).unwrap();
    let outbox = Outbox::new();
    let mut inbox = outbox.attach();
    let (store, _) = FileStore::open(&root, Path::new("a.jsonl"), SessionSync::Never).unwrap();
    let store = store.telling(outbox);
    for n in 0..100 {
        store.append(entry(&format!("later{n:05}")).as_bytes()).unwrap();
    }
    // As an editor saves: the same file, another text from some place on.
    let text = std::fs::read_to_string(&path).unwrap();
    let changed = text.find("early02000").unwrap();
    let edited = format!("{}and something else{}", &text[..changed], &text[changed..]);
    std::fs::write(&path, &edited).unwrap();
    store.append(entry("last").as_bytes()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), edited);
    let rest = went_on(&other_than(&path), &path);
    let ids: Vec<String> = rest
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    let kept = ids.iter().filter(|id| id.starts_with("early")).count();
    assert!((1..2000).contains(&kept) && ids[..kept].iter().enumerate().all(|(n, id)| *id == format!("early{n:05}")));
    let later: Vec<String> = (0..100).map(|n| format!("later{n:05}")).chain(["last".to_owned()]).collect();
    assert_eq!(ids[kept..], later);
    let told = notices(&mut inbox);
    assert!(told.len() == 1 && told[0].contains("bytes that were overwritten are not in it"), "{told:?}");
    // What is there is found; what is lost is blank, and costs nothing beside it.
    let length = entry("early00000").len();
    let at = |n: usize| (HEADER.len() + n * length) as u64;
    assert_eq!(store.read(at(1), length).unwrap(), entry("early00001").as_bytes());
    assert_eq!(store.read(at(3000), length).unwrap(), vec![b' '; length]);
    assert_eq!(store.read(at(4099), length).unwrap(), entry("later00099").as_bytes());
    assert_eq!(store.read(at(4100), entry("last").len()).unwrap(), entry("last").as_bytes());
    assert!(store.read(at(4100), 1000).is_err());
}

#[test]
fn a_file_that_was_cut_off_is_whole_again_from_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let store = FileStore::new(path.clone(), SessionSync::Never);
    store.append(HEADER.as_bytes()).unwrap();
    let lines: Vec<String> = (0..50).map(|n| entry(&n.to_string())).collect();
    for line in &lines {
        store.append(line.as_bytes()).unwrap();
    }
    for length in [0, 10, 2000] {
        let now = store.path();
        OpenOptions::new().write(true).open(&now).unwrap().set_len(length).unwrap();
        store.append(entry("x").as_bytes()).unwrap();
        let text = std::fs::read_to_string(store.path()).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        assert!(rest.starts_with(&lines.concat()), "{length}: {rest}");
    }
}

#[test]
fn a_line_over_the_limit_loses_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let mut bytes = format!("{HEADER}{}", entry("1")).into_bytes();
    bytes.extend(std::iter::repeat_n(b'x', LINE_LIMIT_BYTES + 1));
    bytes.push(b'\n');
    bytes.extend(entry("2").as_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let (store, loaded) = SourceFile::open(&path).unwrap();
    let said: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["line 3 is damaged (over 64 MiB) and left out"]);
    let second = entry("2");
    let read = store.read((bytes.len() - second.len()) as u64, second.len()).unwrap();
    assert_eq!(read, second.as_bytes());
}

#[test]
fn what_is_no_session_is_said_so_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    for (name, bytes) in [("empty", ""), ("text", "hello\n"), ("entry", entry("1").as_str())] {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        let answer = FileStore::open(&root, Path::new(name), SessionSync::Never).map(|_| ());
        assert!(matches!(answer, Err(LoadError::NotASession { .. })), "{name}: {answer:?}");
        assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), bytes);
    }
    std::fs::write(dir.path().join("later"), HEADER.replace(":3", ":4")).unwrap();
    let error = SourceFile::open(&dir.path().join("later")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("version 4"), "{error}");
    let huge = File::create(dir.path().join("huge")).unwrap();
    huge.set_len(SESSION_FILE_LIMIT_BYTES + 1).unwrap();
    let answer = FileStore::open(&root, Path::new("huge"), SessionSync::Never).map(|_| ());
    assert!(matches!(answer, Err(LoadError::TooLarge { .. })), "{answer:?}");
}
