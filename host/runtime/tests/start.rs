//! The library as programs embed it: real folders, real files, the scripted model.

use pith_protocol::{Command, Content, Entry, EntryBody, Event, Message, StopReason};
use pith_runtime::{ChoiceError, Done, Environment, Options, Pith, Places, RunError, SessionChoice, StartError, start};
use std::{
    future::Future,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

struct Home {
    top: PathBuf,
    _dir: TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("work")).unwrap();
        Self { top, _dir: dir }
    }

    fn work(&self) -> PathBuf {
        self.top.join("work")
    }

    fn places(&self) -> Places {
        Places::beneath(&self.top.join("pith"))
    }

    /// Options on a scenario.
    fn options(&self, scenario: &str) -> Options {
        let file = self.top.join("scenario.json");
        std::fs::write(&file, scenario).unwrap();
        let mut options = Options::at(self.places(), self.work(), Environment::default());
        options.model = Some(format!("scripted/{}", file.display()));
        options
    }

    fn session_files(&self) -> Vec<PathBuf> {
        let Ok(folders) = std::fs::read_dir(self.places().sessions()) else { return Vec::new() };
        // The index lies beside the folders.
        let folders = folders.map(|folder| folder.unwrap().path()).filter(|path| path.is_dir());
        let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
        files.map(|file| file.unwrap().path()).collect()
    }
}

/// A component that exports nothing, and imports what folders come by: an instance with nothing in it.
const BARE: &[u8] = b"\0asm\x0d\0\x01\0\x07\x03\x01\x42\0\x0a\x20\x01\0\x1bwasi:filesystem/types@0.2.6\x05\0";

/// Options on a scenario with a plugin that has all of Pith's own folders.
fn with_bare_plugin(home: &Home, scenario: &str) -> Options {
    let mut options = home.options(scenario);
    let file = home.top.join("bare.wasm");
    std::fs::write(&file, BARE).unwrap();
    options.plugins = vec![file];
    options.grants =
        ["spool:r", "plugin-data:rw", "temp:rw"].iter().map(|folder| format!("bare:files={folder}")).collect();
    options
}

fn words(text: &str) -> Vec<Content> {
    vec![Content::text(text)]
}

fn entries(file: &Path) -> Vec<Entry> {
    let bytes = std::fs::read(file).unwrap();
    let whole = bytes.strip_suffix(b"\n").unwrap();
    whole.split(|byte| *byte == b'\n').skip(1).map(|line| Entry::read(line).unwrap()).collect()
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("nothing hangs")
}

/// Every event up to the run's end.
async fn run_watched(pith: &Pith, text: &str) -> (pith_runtime::RunEnd, Vec<String>) {
    let mut inbox = pith.events();
    let watch = async {
        let mut names = Vec::new();
        while let Some(event) = inbox.next().await {
            let settled = matches!(event, Event::AgentSettled { .. });
            let name = serde_json::to_value(&event).unwrap()["type"].as_str().unwrap().to_owned();
            if names.last() != Some(&name) {
                names.push(name);
            }
            if settled {
                break;
            }
        }
        names
    };
    let (end, names) = within(async { tokio::join!(pith.prompt(words(text)), watch) }).await;
    (end.unwrap(), names)
}

#[tokio::test]
async fn without_plugins_a_prompt_becomes_text_and_a_file() {
    let home = Home::new();
    std::fs::write(home.work().join("AGENTS.md"), "Answer in rhymes.").unwrap();
    let scenario = r#"{"replies":[{"text":"Hello there, who is it?","expect":{"last_user_contains":"hi","system_contains":"Answer in rhymes."}},
        {"text":"Again.","expect":{"messages":3}}]}"#;
    let pith = start(home.options(scenario)).await.unwrap();
    assert_eq!(pith.model().model.provider, "scripted");
    assert_eq!(pith.notices(), Vec::<String>::new());
    assert!(!home.places().data.exists() && !home.places().state.exists() && !home.places().cache.exists());
    let (end, names) = run_watched(&pith, "hi").await;
    assert_eq!((end.stop_reason, end.error_message), (StopReason::Stop, None));
    assert_eq!(names[0], "agent_start");
    assert!(names.contains(&"message_update".to_owned()), "{names:?}");
    let file = pith.session_file().unwrap();
    let written = entries(&file);
    let kinds: Vec<&str> = written.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, ["model_change", "thinking_level_change", "message", "message", "message"]);
    let Some(Message::System(told)) = written[2].message() else { panic!("{:?}", written[2]) };
    let sections: Vec<&String> = told.sections.keys().collect();
    assert_eq!(sections, ["preamble", "project_context", "cwd", "environment"]);
    assert!(
        matches!(written[4].message(), Some(Message::Assistant(reply)) if reply.text() == "Hello there, who is it?")
    );
    // The prompt is recorded once, not with every message.
    let end = within(pith.prompt(words("more"))).await.unwrap();
    assert_eq!(end.stop_reason, StopReason::Stop, "{:?}", end.error_message);
    assert_eq!(entries(&file).len(), written.len() + 2);
    assert_eq!(home.session_files(), [file]);
}

#[tokio::test]
async fn a_session_goes_on_and_is_held_by_one() {
    let home = Home::new();
    let first = start(home.options(r#"[{"text":"one"}]"#)).await.unwrap();
    within(first.prompt(words("hi"))).await.unwrap();
    let file = first.session_file().unwrap();
    let mut options = home.options(r#"[{"text":"two","expect":{"messages":3}}]"#);
    options.session = SessionChoice::Continue;
    let error = start(options.clone()).await.err().unwrap();
    assert!(error.to_string().contains("in use") && error.exit_code() == 2, "{error}");
    // Another session of the same process, in the same folder, is no trouble.
    let mut beside = options.clone();
    beside.session = SessionChoice::New;
    let beside = start(beside).await.unwrap();
    assert_ne!(beside.session().id(), first.session().id());
    drop(first);
    let again = start(options).await.unwrap();
    assert_eq!(again.session_file(), Some(file.clone()));
    let end = within(again.prompt(words("and?"))).await.unwrap();
    assert_eq!(end.stop_reason, StopReason::Stop, "{:?}", end.error_message);
    assert_eq!(home.session_files(), [file]);
}

#[tokio::test]
async fn a_session_in_memory_leaves_nothing_on_disk() {
    let home = Home::new();
    let mut options = home.options(r#"[{"text":"one"}]"#);
    options.session = SessionChoice::Memory;
    let pith = start(options).await.unwrap();
    within(pith.prompt(words("hi"))).await.unwrap();
    assert_eq!(pith.session_file(), None);
    assert_eq!(pith.session().path().len(), 5);
    drop(pith);
    assert!(!home.top.join("pith").exists());
}

#[tokio::test]
async fn what_pi_told_its_model_is_replaced_when_its_session_goes_on_here() {
    let home = Home::new();
    let theirs = home.work().join("theirs.jsonl");
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/pi/session-tools.jsonl");
    std::fs::copy(case, &theirs).unwrap();
    let before = std::fs::read(&theirs).unwrap();
    let mut options = home.options(r#"[{"text":"Going on.","expect":{"system_contains":"coding agent of Pith"}}]"#);
    options.session = SessionChoice::Open(theirs.to_string_lossy().into_owned());
    let pith = start(options).await.unwrap();
    assert!(pith.notices()[0].contains("theirs.jsonl") && pith.notices()[0].contains("/home/user/project"));
    let foreign = pith.session().prompt_state();
    assert!(foreign.sections.iter().any(|(_, text)| text.contains("running inside pi")) && !foreign.tools.is_empty());
    let end = within(pith.prompt(words("go on"))).await.unwrap();
    assert_eq!(end.stop_reason, StopReason::Stop, "{:?}", end.error_message);
    let mut told = pith.session().prompt_state();
    // A new session's own state is what it shall be.
    let fresh = start(home.options(r#"[{"text":"x"}]"#)).await.unwrap();
    within(fresh.prompt(words("hi"))).await.unwrap();
    let mut own = fresh.session().prompt_state();
    told.sections.sort();
    own.sections.sort();
    assert_eq!(told, own);
    assert_eq!(std::fs::read(&theirs).unwrap(), before);
    let ours = std::fs::read(pith.session_file().unwrap()).unwrap();
    let (_, copied) = ours.split_at(ours.iter().position(|byte| *byte == b'\n').unwrap() + 1);
    let (_, lines) = before.split_at(before.iter().position(|byte| *byte == b'\n').unwrap() + 1);
    assert!(copied.starts_with(lines));
}

#[tokio::test]
async fn a_run_that_is_dropped_or_aborted_leaves_a_session_that_goes_on() {
    let home = Home::new();
    let slow = r#"[{"text":"A reply that comes in many slow pieces, one after the other.","delay_ms":2000}]"#;
    for aborted in [false, true] {
        let pith = start(home.options(slow)).await.unwrap();
        let mut inbox = pith.events();
        let arrived = async {
            while let Some(event) = inbox.next().await {
                if matches!(event, Event::MessageUpdate { .. }) {
                    break;
                }
            }
            if aborted {
                assert!(pith.abort());
                while let Some(event) = inbox.next().await {
                    if matches!(event, Event::AgentSettled { aborted: true }) {
                        break;
                    }
                }
            }
        };
        if aborted {
            let (end, ()) = within(async { tokio::join!(pith.prompt(words("hi")), arrived) }).await;
            assert_eq!(end.unwrap().stop_reason, StopReason::Aborted);
        } else {
            // Dropped in the middle of the stream.
            within(async {
                tokio::select! {
                    _ = pith.prompt(words("hi")) => panic!("it ends before its first piece is shown"),
                    () = arrived => {}
                }
            })
            .await;
        }
        assert!(!pith.abort());
        let file = pith.session_file().unwrap();
        drop((inbox, pith));
        let last = entries(&file).pop().unwrap();
        assert_eq!(matches!(last.message(), Some(Message::Assistant(_))), aborted, "{last:?}");
        let mut options = home.options(r#"[{"text":"done"}]"#);
        options.session = SessionChoice::Open(file.to_string_lossy().into_owned());
        let again = start(options).await.unwrap();
        let end = within(again.prompt(words("go on"))).await.unwrap();
        assert_eq!(end.stop_reason, StopReason::Stop, "{:?}", end.error_message);
    }
}

#[tokio::test]
async fn words_wait_in_the_mailbox_and_one_run_goes_at_a_time() {
    let home = Home::new();
    let scenario = r#"[{"text":"first","delay_ms":50,"expect":{"last_user_contains":"hi"}},{"text":"second","expect":{"last_user_contains":"later"}}]"#;
    let pith = start(home.options(scenario)).await.unwrap();
    assert!(matches!(pith.prompt(Vec::new()).await, Err(RunError::Empty)));
    let mut inbox = pith.events();
    let others = async {
        while let Some(event) = inbox.next().await {
            if matches!(event, Event::TurnStart) {
                break;
            }
        }
        assert!(matches!(pith.prompt(words("too early")).await, Err(RunError::Busy)));
        assert!(matches!(pith.send(Command::FollowUp { content: words("later") }).await.unwrap(), Done::Nothing));
        while let Some(event) = inbox.next().await {
            if matches!(event, Event::AgentSettled { .. }) {
                break;
            }
        }
    };
    let (end, ()) = within(async { tokio::join!(pith.send(Command::Prompt { content: words("hi") }), others) }).await;
    let Done::Run(end) = end.unwrap() else { panic!("no run") };
    assert_eq!(end.stop_reason, StopReason::Stop, "{:?}", end.error_message);
    let replies = end.messages.iter().filter(|message| matches!(***message, Message::Assistant(_))).count();
    assert_eq!(replies, 2);
    pith.close_events();
    assert!(within(inbox.next()).await.is_none());
}

#[tokio::test]
async fn a_resumed_model_that_is_not_served_here_is_passed_over_and_the_change_recorded() {
    let home = Home::new();
    let pith = start(home.options(r#"[{"text":"one"}]"#)).await.unwrap();
    within(pith.prompt(words("hi"))).await.unwrap();
    let file = pith.session_file().unwrap();
    drop(pith);
    let mut options = home.options(r#"[{"text":"two"}]"#);
    let scenario = options.model.take().unwrap();
    options.session = SessionChoice::Continue;
    options.thinking = Some("low".to_owned());
    // The session's own model was scripted: a file never brings a script with it.
    let error = start(options.clone()).await.err().unwrap();
    assert_eq!(error.to_string().lines().count(), 3, "{error}");
    options.environment = [("PITH_MODEL", scenario.as_str())].into_iter().collect();
    let pith = start(options).await.unwrap();
    assert!(pith.notices()[0].contains("scripted"), "{:?}", pith.notices());
    within(pith.prompt(words("go on"))).await.unwrap();
    let levels: Vec<_> = entries(&file)
        .into_iter()
        .filter_map(|entry| match entry.body {
            EntryBody::ThinkingLevelChange(change) => Some(change.thinking_level),
            _ => None,
        })
        .collect();
    assert_eq!(levels, ["off", "low"]);
}

#[tokio::test]
async fn a_start_that_is_refused_says_why_and_writes_nothing() {
    let home = Home::new();
    let good = home.options(r#"[{"text":"x"}]"#);
    let refused = |change: fn(&Home, &mut Options)| {
        let mut options = good.clone();
        change(&home, &mut options);
        async move { start(options).await.err().expect("the start is refused") }
    };
    let error = refused(|home, options| options.workspace = home.top.clone()).await;
    assert!(matches!(error, StartError::Workspace(_)) && error.to_string().contains("--workspace DIR"), "{error}");
    let error = refused(|_, options| options.thinking = Some("hard".to_owned())).await;
    assert!(matches!(error, StartError::Level { .. }) && error.to_string().contains("minimal"), "{error}");
    let error = refused(|_, options| options.model = Some("gpt".to_owned())).await;
    assert!(error.to_string().contains("--model") && error.to_string().contains("PROVIDER/ID"), "{error}");
    let error = refused(|_, options| options.model = None).await;
    assert!(matches!(error, StartError::Model(_)) && error.to_string().lines().count() == 3, "{error}");
    let error = refused(|_, options| options.grants = vec!["mine:tools".to_owned()]).await;
    assert!(matches!(error, StartError::Plugins(_)) && error.to_string().contains("no plugin mine"), "{error}");
    let error = refused(|_, options| options.session = SessionChoice::Open("nothing".to_owned())).await;
    assert!(matches!(error, StartError::Session(ChoiceError::NotFound { .. })) && error.hint().is_some(), "{error}");
    let error = refused(|home, options| {
        let file = home.top.join("no component.wasm");
        std::fs::write(&file, "hello").unwrap();
        options.plugins = vec![file];
    })
    .await;
    assert!(matches!(error, StartError::Guests(_)) && error.to_string().contains("no-component"), "{error}");
    assert!(!home.places().data.exists());
    std::fs::create_dir_all(home.places().config).unwrap();
    std::fs::write(home.places().settings_file(), "modle = 1").unwrap();
    let error = refused(|_, _| {}).await;
    assert!(matches!(error, StartError::Settings(_)) && error.to_string().contains("line 1"), "{error}");
}

#[tokio::test]
async fn a_failed_run_comes_with_what_helps() {
    let home = Home::new();
    let says = [
        ("unauthorized", Some("check the key")),
        ("overflow", Some("window")),
        ("quota", Some("credit")),
        ("invalid", None),
    ];
    for (kind, hint) in says {
        let scenario = format!(r#"[{{"error":{{"message":"no","kind":"{kind}"}}}}]"#);
        let pith = start(home.options(&scenario)).await.unwrap();
        let end = within(pith.prompt(words("hi"))).await.unwrap();
        assert_eq!((end.stop_reason, end.error_message.as_deref()), (StopReason::Error, Some("no")), "{kind}");
        let given = pith_runtime::failure_hint(&end);
        assert_eq!(given.is_some(), hint.is_some(), "{kind}: {given:?}");
        assert!(given.unwrap_or_default().contains(hint.unwrap_or_default()), "{kind}");
    }
}

#[tokio::test]
async fn a_state_folder_that_cannot_be_made_costs_what_it_is_for_and_no_more() {
    let home = Home::new();
    std::fs::create_dir(home.top.join("pith")).unwrap();
    std::fs::write(home.places().state, "").unwrap();
    let options = with_bare_plugin(&home, r#"[{"text":"one"}]"#);
    let pith = start(options.clone()).await.unwrap();
    let [outputs, data] = pith.notices() else { panic!("{:?}", pith.notices()) };
    assert!(outputs.contains("long outputs are not kept") && data.contains("plugin bare"), "{:?}", pith.notices());
    let end = within(pith.prompt(words("hi"))).await.unwrap();
    assert_eq!((end.stop_reason, home.session_files().len()), (StopReason::Stop, 1), "{:?}", end.error_message);
    drop(pith);
    // The rest of the home, too: a session that has to be written says that it cannot be, and goes on in memory.
    std::fs::remove_dir_all(home.top.join("pith")).unwrap();
    std::fs::write(home.top.join("pith"), "").unwrap();
    let pith = start(options.clone()).await.unwrap();
    let cache: Vec<&String> = pith.notices().iter().filter(|notice| notice.contains("compiled")).collect();
    assert!(matches!(&cache[..], [one] if one.starts_with("compiled code is not kept: ")), "{:?}", pith.notices());
    let end = within(pith.prompt(words("hi"))).await.unwrap();
    assert_eq!(end.stop_reason, StopReason::Stop);
    let reason = pith.session().unsaved().unwrap().reason;
    assert!(reason.contains("cannot be created") && reason.contains("pith/data/sessions"), "{reason}");
    let rescued = pith.rescue().unwrap();
    assert_eq!(rescued.file, pith.session_file().unwrap());
    std::fs::remove_file(rescued.rescue.unwrap()).unwrap();
    drop(pith);
    let pith = start(Options { session: SessionChoice::Memory, ..options }).await.unwrap();
    let end = within(pith.prompt(words("hi"))).await.unwrap();
    assert_eq!(end.stop_reason, StopReason::Stop, "{:?}", end.error_message);
}

#[tokio::test]
async fn a_session_in_memory_with_plugins_leaves_no_spool() {
    let home = Home::new();
    let mut options = with_bare_plugin(&home, r#"[{"text":"one"}]"#);
    options.session = SessionChoice::Memory;
    let pith = start(options).await.unwrap();
    assert_eq!(pith.notices(), Vec::<String>::new());
    within(pith.prompt(words("hi"))).await.unwrap();
    // Also where the process is killed now.
    assert!(!home.places().spools().exists() && !home.places().data.exists());
}

#[tokio::test]
async fn a_session_file_that_is_deleted_meanwhile_is_there_again_and_people_are_told() {
    let home = Home::new();
    let pith = start(home.options(r#"[{"text":"one"},{"text":"two"}]"#)).await.unwrap();
    within(pith.prompt(words("hi"))).await.unwrap();
    let file = pith.session_file().unwrap();
    let before = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut inbox = pith.events();
    let end = within(pith.prompt(words("more"))).await.unwrap();
    assert_eq!(end.stop_reason, StopReason::Stop, "{:?}", end.error_message);
    pith.close_events();
    let mut told = Vec::new();
    while let Some(event) = within(inbox.next()).await {
        if let Event::Notice { message } = event {
            told.push(message);
        }
    }
    assert!(matches!(&told[..], [one] if one.contains("was deleted")), "{told:?}");
    let after = std::fs::read(&file).unwrap();
    assert!(after.starts_with(&before) && after.len() > before.len());
    drop(pith);
    let mut options = home.options(r#"[{"text":"three","expect":{"messages":5}}]"#);
    options.session = SessionChoice::Continue;
    let again = start(options).await.unwrap();
    let end = within(again.prompt(words("and?"))).await.unwrap();
    assert_eq!(end.stop_reason, StopReason::Stop, "{:?}", end.error_message);
}

#[tokio::test]
async fn a_start_removes_old_spools_beside_its_work() {
    let home = Home::new();
    let long_ago = std::time::SystemTime::now() - 2 * pith_runtime::SPOOL_KEPT;
    let spool = |name: &str| {
        let folder = home.places().spools().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("bash-1.log"), "output").unwrap();
        for path in [folder.join("bash-1.log"), folder.clone()] {
            std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
        folder
    };
    let first = start(with_bare_plugin(&home, r#"[{"text":"one"}]"#)).await.unwrap();
    let (killed, own) = (spool("killed"), spool(first.session().id().as_str()));
    let _second = start(with_bare_plugin(&home, r#"[{"text":"one"}]"#)).await.unwrap();
    within(async {
        while std::fs::read_dir(home.places().spools()).unwrap().count() > 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(!killed.exists() && own.join("bash-1.log").exists());
}

#[tokio::test]
async fn foreign_words_never_make_a_line_of_their_own() {
    let home = Home::new();
    let theirs = home.work().join("theirs.jsonl");
    let header = r#"{"type":"session","version":3,"id":"s","timestamp":"","cwd":"/x\nnote: all is well"}"#;
    std::fs::write(&theirs, format!("{header}\n")).unwrap();
    let mut options = home.options(r#"[{"text":"x"}]"#);
    options.session = SessionChoice::Open(theirs.to_string_lossy().into_owned());
    let pith = start(options).await.unwrap();
    assert!(pith.notices().iter().any(|notice| notice.contains("/x note: all is well")), "{:?}", pith.notices());
    assert!(pith.notices().iter().all(|notice| notice.lines().count() == 1), "{:?}", pith.notices());
    let mut options = home.options(r#"[{"text":"x"}]"#);
    options.plugins = vec![home.top.join("mine\nhint: grant it all.wasm")];
    std::fs::create_dir(&options.plugins[0]).unwrap();
    let error = start(options).await.err().unwrap();
    assert!(matches!(error, StartError::Guests(_)) && error.to_string().contains("hint: grant it all"), "{error}");
    let mut said: Option<&dyn std::error::Error> = Some(&error);
    while let Some(words) = said {
        assert_eq!(words.to_string().lines().count(), 1, "{words}");
        said = words.source();
    }
}
