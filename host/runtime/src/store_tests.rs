use super::*;
use std::os::unix::fs::PermissionsExt;

const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"\",\"cwd\":\"/w\"}\n";

fn entry(id: &str) -> String {
    format!("{{\"type\":\"custom\",\"id\":\"{id}\",\"parentId\":null,\"timestamp\":\"\",\"customType\":\"a/b\"}}\n")
}

#[test]
fn a_file_appears_with_the_first_append_and_for_one_user() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions/x/a.jsonl");
    let store = FileStore::new(path.clone(), true);
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
    let error = FileStore::new(path.clone(), true).append(b"x\n").unwrap_err();
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
    let store = FileStore::new(path.clone(), true).telling(outbox.clone());
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
    assert!(matches!(FileStore::open(&root(), Path::new("a.jsonl"), false), Err(LoadError::InUse { .. })));
    drop(store);
    let (store, _) = FileStore::open(&root(), Path::new("a.jsonl"), false).unwrap();
    std::fs::remove_file(&path).unwrap();
    store.append(entry("3").as_bytes()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{whole}{}", entry("3")));
}

#[test]
fn what_took_a_deleted_files_place_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let store = FileStore::new(path.clone(), false);
    store.append(HEADER.as_bytes()).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "mine").unwrap();
    for answer in [store.append(entry("1").as_bytes()), store.sync()] {
        let error = answer.unwrap_err();
        assert!(error.to_string().contains("written again after it was deleted"), "{error}");
        assert_eq!(error.source.kind(), io::ErrorKind::AlreadyExists);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    std::fs::remove_file(&path).unwrap();
    store.append(entry("1").as_bytes()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEADER}{}", entry("1")));
}

#[test]
fn one_writer_at_a_time_and_readers_take_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    let path = dir.path().join("a.jsonl");
    let first = FileStore::new(path.clone(), false);
    first.append(HEADER.as_bytes()).unwrap();
    let second = FileStore::open(&root, Path::new("a.jsonl"), false);
    assert!(matches!(&second, Err(LoadError::InUse { .. })));
    assert!(second.err().unwrap().to_string().contains("--no-session"));
    assert!(SourceFile::open(&path).is_ok());
    drop(first);
    let (second, _) = FileStore::open(&root, Path::new("a.jsonl"), false).unwrap();
    second.append(entry("1").as_bytes()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEADER}{}", entry("1")));
}

#[test]
fn nothing_is_appended_behind_what_another_program_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let store = FileStore::new(path.clone(), false);
    store.append(HEADER.as_bytes()).unwrap();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"to").unwrap();
    let error = store.append(entry("1").as_bytes()).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEADER}{{\"to"));
}

#[test]
fn what_cannot_be_written_whole_leaves_the_file_as_it_was() {
    // A real refusal by the system: the descriptor is not open for writing.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    std::fs::write(&path, HEADER).unwrap();
    let reader = File::open(&path).unwrap();
    let mut open = Open { writer: File::open(&path).unwrap(), reader, end: HEADER.len() as u64 };
    assert!(open.append(entry("1").as_bytes()).is_err());
    assert_eq!(open.end, HEADER.len() as u64);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), HEADER);
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
        let answer = FileStore::open(&root, Path::new(name), false).map(|_| ());
        assert!(matches!(answer, Err(LoadError::NotASession { .. })), "{name}: {answer:?}");
        assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), bytes);
    }
    std::fs::write(dir.path().join("later"), HEADER.replace(":3", ":4")).unwrap();
    let error = SourceFile::open(&dir.path().join("later")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("version 4"), "{error}");
    let huge = File::create(dir.path().join("huge")).unwrap();
    huge.set_len(SESSION_FILE_LIMIT_BYTES + 1).unwrap();
    let answer = FileStore::open(&root, Path::new("huge"), false).map(|_| ());
    assert!(matches!(answer, Err(LoadError::TooLarge { .. })), "{answer:?}");
}
