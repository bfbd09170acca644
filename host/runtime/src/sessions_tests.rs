use super::*;
use crate::clock::SystemClock;
use pith_protocol::{Content, ModelChange, UserMessage};
use std::time::{Duration, SystemTime};

struct Home {
    _dir: tempfile::TempDir,
    places: Places,
    work: PathBuf,
}

fn home() -> Home {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let work = top.join("work dir");
    std::fs::create_dir(&work).unwrap();
    Home { places: Places::beneath(&top.join("pith")), work, _dir: dir }
}

impl Home {
    fn open(&self, choice: SessionChoice) -> Result<Opened, ChoiceError> {
        self.open_in(&self.work, choice)
    }

    fn open_in(&self, workspace: &Path, choice: SessionChoice) -> Result<Opened, ChoiceError> {
        let (clock, outbox) = (Arc::new(SystemClock), Outbox::new());
        Opener { places: &self.places, workspace, durable: true, clock, outbox }.open(&choice)
    }

    /// A session on disk with one message; closed.
    fn written(&self, text: &str) -> (SessionId, PathBuf) {
        let opened = self.open(SessionChoice::New).unwrap();
        opened.session.append(said(text)).unwrap();
        (opened.session.id().clone(), opened.file.unwrap())
    }
}

fn said(text: &str) -> Message {
    Message::User(UserMessage { content: vec![Content::text(text)], timestamp: 1 })
}

fn words(session: &Session) -> Vec<String> {
    session
        .path()
        .iter()
        .filter_map(|entry| match entry.message()? {
            Message::User(user) => user.content.first()?.as_text().map(str::to_owned),
            Message::Assistant(reply) => Some(reply.text()),
            _ => None,
        })
        .collect()
}

fn touch(path: &Path, ago: u64) {
    let time = SystemTime::now() - Duration::from_secs(ago);
    std::fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

fn cases(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases").join(name)
}

#[test]
fn the_folders_latest_by_change_is_continued() {
    let home = home();
    let fresh = home.open(SessionChoice::Continue).unwrap();
    assert!(fresh.notices[0].contains("this is a new one") && fresh.session.is_empty());
    assert!(!home.places.data.exists());
    let (first, first_file) = home.written("one");
    let (_, second_file) = home.written("two");
    assert!(first_file.starts_with(home.places.sessions()));
    let folder = first_file.parent().unwrap().file_name().unwrap().to_str().unwrap();
    assert!(folder.starts_with("work_dir-") && folder.len() == "work_dir-".len() + 10, "{folder}");
    touch(&first_file, 10);
    touch(&second_file, 20);
    // A later one of another folder whose name happened to lead here, and one that is no session.
    let text = std::fs::read_to_string(&first_file).unwrap().replace("work dir", "elsewhere");
    std::fs::write(first_file.with_file_name("9_x.jsonl"), text).unwrap();
    std::fs::write(first_file.with_file_name("9_y.jsonl"), "").unwrap();
    let opened = home.open(SessionChoice::Continue).unwrap();
    assert_eq!((opened.session.id(), opened.file.as_deref()), (&first, Some(first_file.as_path())));
    assert_eq!(opened.notices, Vec::<String>::new());
    opened.session.append(said("more")).unwrap();
    drop(opened);
    let again = home.open(SessionChoice::Continue).unwrap();
    assert_eq!(words(&again.session), ["one", "more"]);
    // It is held: a second one is refused while the first lives.
    assert!(matches!(home.open(SessionChoice::Continue), Err(ChoiceError::Load(LoadError::InUse { .. }))));
}

#[test]
fn a_session_is_found_by_path_id_or_the_beginning_of_an_id() {
    let home = home();
    let (id, file) = home.written("one");
    let (other, _) = home.written("two");
    for wanted in [file.to_string_lossy().into_owned(), id.to_string()] {
        assert_eq!(home.open(SessionChoice::Open(wanted)).unwrap().session.id(), &id);
    }
    let shared = id.as_str().chars().zip(other.as_str().chars()).take_while(|(a, b)| a == b).count();
    let unique = id.as_str()[..=shared].to_owned();
    assert_eq!(home.open(SessionChoice::Open(unique)).unwrap().session.id(), &id);
    let both = id.as_str()[..shared].to_owned();
    let error = home.open(SessionChoice::Open(both)).err().unwrap().to_string();
    assert!(error.contains(id.as_str()) && error.contains(other.as_str()), "{error}");
    for wanted in ["nothing", "", "./none.jsonl", "none.jsonl"] {
        let answer = home.open(SessionChoice::Open(wanted.to_owned()));
        assert!(matches!(answer, Err(ChoiceError::NotFound { .. })), "{wanted}");
    }
}

#[test]
fn a_session_of_another_folder_goes_on_in_this_one_and_says_so() {
    let home = home();
    let (id, file) = home.written("one");
    let opened = home.open_in(Path::new("/usr"), SessionChoice::Open(id.to_string())).unwrap();
    assert_eq!(opened.file.as_deref(), Some(file.as_path()));
    assert_eq!(opened.session.cwd(), Path::new("/usr"));
    assert!(opened.notices[0].contains("work dir") && opened.notices[0].contains("/usr"), "{:?}", opened.notices);
}

#[test]
fn what_it_was_worked_on_with_is_known() {
    let home = home();
    let opened = home.open(SessionChoice::New).unwrap();
    let reply =
        pith_protocol::AssistantMessage { provider: "openai".to_owned(), model: "m1".to_owned(), ..Default::default() };
    opened.session.append(Message::Assistant(reply)).unwrap();
    let id = opened.session.id().to_string();
    drop(opened);
    let opened = home.open(SessionChoice::Open(id.clone())).unwrap();
    assert_eq!(opened.model.map(|model| model.to_string()).as_deref(), Some("openai/m1"));
    let change = ModelChange { provider: "anthropic".to_owned(), model_id: "m2".to_owned() };
    opened.session.append(EntryBody::ModelChange(change)).unwrap();
    let change = pith_protocol::ThinkingLevelChange { thinking_level: "high".to_owned() };
    opened.session.append(EntryBody::ThinkingLevelChange(change)).unwrap();
    drop(opened.session);
    let opened = home.open(SessionChoice::Open(id)).unwrap();
    assert_eq!(opened.model.map(|model| model.to_string()).as_deref(), Some("anthropic/m2"));
    assert_eq!(opened.thinking, Some(ThinkingLevel::High));
}

#[test]
fn a_session_that_pi_wrote_is_continued_in_a_new_file() {
    let home = home();
    let theirs = home.work.join("pi.jsonl");
    std::fs::copy(cases("pi/session-tools.jsonl"), &theirs).unwrap();
    let before = std::fs::read(&theirs).unwrap();
    let opened = home.open(SessionChoice::Open(theirs.to_string_lossy().into_owned())).unwrap();
    assert_eq!(opened.notices.len(), 1);
    assert!(opened.notices[0].contains("/home/user/project") && opened.notices[0].contains("work dir"));
    assert_eq!(opened.model.map(|model| model.to_string()).as_deref(), Some("fake/fake-1"));
    let file = opened.file.unwrap();
    assert!(!file.exists() && file.starts_with(home.places.sessions()));
    opened.session.append(said("go on")).unwrap();
    assert_eq!(std::fs::read(&theirs).unwrap(), before);
    let ours = std::fs::read_to_string(&file).unwrap();
    let header: Header = serde_json::from_str(ours.lines().next().unwrap()).unwrap();
    assert_eq!((header.cwd.as_str(), &header.id), (home.work.to_str().unwrap(), opened.session.id()));
    assert_eq!(header.parent_session.as_deref(), theirs.to_str());
    let theirs: Vec<&str> = std::str::from_utf8(&before).unwrap().lines().skip(1).collect();
    let copied: Vec<&str> = ours.lines().skip(1).take(theirs.len()).collect();
    assert_eq!(copied, theirs);
    assert_eq!(ours.lines().count(), theirs.len() + 2);
    // The new file is Pith's own from now on.
    drop(opened.session);
    let again = home.open(SessionChoice::Continue).unwrap();
    assert_eq!(again.notices, Vec::<String>::new());
    assert_eq!(words(&again.session), ["list files", "Let me look.", "There are 2 files.", "go on"]);
}

#[test]
fn a_damaged_line_loses_only_itself_and_the_next_append_begins_a_fresh_line() {
    let cases_of = [
        ("nul-run-midfile", &["one", "two", "three"][..], "line 3"),
        ("torn-glued", &["one", "two", "three"], "line 3"),
        ("torn-last-line", &["one", "two"], "line 4"),
        ("torn-then-rewritten", &["one", "two", "three"], "line 3"),
    ];
    for own in [true, false] {
        for (case, loaded, line) in cases_of {
            let home = home();
            let folder = if own { home.places.sessions().join("x") } else { home.work.clone() };
            std::fs::create_dir_all(&folder).unwrap();
            let path = folder.join("a.jsonl");
            std::fs::copy(cases(&format!("bugs/07-torn-lines/{case}.jsonl")), &path).unwrap();
            let before = std::fs::read(&path).unwrap();
            let opened = home.open(SessionChoice::Open(path.to_string_lossy().into_owned())).unwrap();
            let met: Vec<String> =
                words(&opened.session).iter().map(|text| text.split(' ').next().unwrap().to_owned()).collect();
            assert_eq!(met, loaded, "{case}");
            let notices = opened.notices.join("\n");
            assert!(notices.contains(line), "{case}: {notices}");
            opened.session.append(said("four")).unwrap();
            let after = std::fs::read(opened.file.unwrap()).unwrap();
            if own {
                assert!(after.starts_with(&before), "{case}");
            } else {
                assert_eq!(std::fs::read(&path).unwrap(), before, "{case}");
            }
            let last = after.strip_suffix(b"\n").unwrap().rsplit(|byte| *byte == b'\n').next().unwrap();
            let entry = pith_protocol::Entry::read(last).unwrap();
            assert_eq!(
                entry.parent_id.as_ref().map(|id| id.as_str()),
                Some(["m1", "m2", "m3"][if case == "torn-last-line" { 1 } else { 2 }])
            );
            drop(opened.session);
            let again = home.open(if own {
                SessionChoice::Open(path.to_string_lossy().into_owned())
            } else {
                SessionChoice::Continue
            });
            assert_eq!(words(&again.unwrap().session).last().map(String::as_str), Some("four"), "{case}");
        }
    }
}

#[test]
fn folders_never_share_a_name() {
    let names: Vec<String> =
        ["/a-b", "/a/b", "/b", "/", "/a/\u{e9} x"].map(|path| folder_name(Path::new(path))).to_vec();
    let unique: std::collections::HashSet<&String> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    assert!(names.iter().all(|name| name.is_ascii() && !name.contains(['/', ' '])), "{names:?}");
}

#[test]
fn a_session_in_memory_reads_back_and_leaves_nothing() {
    let home = home();
    let opened = home.open(SessionChoice::Memory).unwrap();
    opened.session.append(said("one")).unwrap();
    opened.session.sync().unwrap();
    assert_eq!((words(&opened.session), opened.file), (vec!["one".to_owned()], None));
    assert!(!home.places.data.exists());
}
