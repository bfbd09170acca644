//! What a plugin's code finds in a place of a test, and what it is told it cannot find.

use pith_sdk::paths::GuestPath;
use pith_sdk::testing::{Facts, Place};
use pith_sdk::{
    Call, Context, Error, ErrorKind, Filter, Gate, Input, Origin, Output, Tool, Verdict, context, log, scan, settings,
    state,
};
use serde::Deserialize;
use serde_json::json;

struct Note;

#[derive(Deserialize, Input)]
struct NoteInput {
    /// The file.
    file: String,
}

#[derive(Deserialize)]
struct Settings {
    #[serde(default)]
    prefix: String,
}

impl Tool for Note {
    const NAME: &'static str = "note";
    const DESCRIPTION: &'static str = "Notes a file's first line.";
    type Input = NoteInput;

    fn run(input: NoteInput, context: &Context) -> Result<Output, Error> {
        let path = GuestPath::granted(&input.file)?;
        let text = std::fs::read_to_string(&path).map_err(|error| path.explain("read", &error))?;
        let line = text.lines().next().unwrap_or_default();
        context.progress(line);
        log::warn(line);
        let newest = state::load("note")?;
        state::save_if("note", &json!(line).to_string(), newest.as_ref().map(|saved| saved.entry_id.as_str()))?;
        let notes = state::history("note")?.len();
        let settings: Settings = settings::get()?;
        Ok(Output::text(format!("{}{line} ({notes}, {})", settings.prefix, context.remaining_ms())))
    }
}

#[test]
fn a_tool_finds_its_folder_its_settings_and_its_state() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "first\nsecond\n").unwrap();
    let facts = Facts { remaining_ms: 7, ..Facts::default() };
    let place = Place::new(folder.path()).with_settings(&json!({ "prefix": "> " })).with_facts(facts);
    assert_eq!(place.call::<Note>(&json!({ "file": "a.txt" })).unwrap().to_text(), "> first (1, 7)");
    let absolute = format!("{}/a.txt", place.cwd());
    assert_eq!(place.call::<Note>(&json!({ "file": absolute })).unwrap().to_text(), "> first (2, 7)");
    assert_eq!(place.progress(), ["first", "first"]);
    assert_eq!(place.logs(), [(log::Level::Warn, "first".to_owned()), (log::Level::Warn, "first".to_owned())]);
}

#[test]
fn what_lies_outside_is_refused_as_in_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let error = place.call::<Note>(&json!({ "file": "/etc/hostname" })).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("--grant PLUGIN:files=/etc:r"), "{}", error.message);
    let missing = place.call::<Note>(&json!({ "file": "a.txt" })).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    let spool = tempfile::tempdir().unwrap();
    std::fs::write(spool.path().join("x"), "spooled").unwrap();
    let place = place.with_folder(spool.path());
    let file = spool.path().canonicalize().unwrap().join("x");
    assert!(place.call::<Note>(&json!({ "file": file })).unwrap().to_text().starts_with("spooled"));
}

#[test]
fn input_that_the_schema_forbids_never_reaches_the_tool() {
    let folder = tempfile::tempdir().unwrap();
    let error = Place::new(folder.path()).call::<Note>(&json!({ "file": 1, "more": 2 })).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert_eq!(
        error.message,
        "Validation failed for tool \"note\":\n  - Additional properties are not allowed ('more' was unexpected)\n  \
         - file: 1 is not of type \"string\""
    );
}

struct Judge;

impl Gate for Judge {
    fn before_call(call: &Call, origin: &Origin) -> Result<Verdict, Error> {
        Ok(match (origin.caller.as_str(), call.name()) {
            ("user", _) => Verdict::Pass,
            (_, "read") => Verdict::deny(format!("{} in {}", call.json(), context::cwd())),
            _ => Verdict::ask("Sure?"),
        })
    }
}

struct Shout;

impl Filter for Shout {
    fn after_call(call: &Call, _: &Origin, output: Output) -> Result<Option<Output>, Error> {
        Ok((call.name() == "loud").then(|| Output::text(output.to_text().to_uppercase())))
    }
}

#[test]
fn gates_and_filters_see_calls_as_the_host_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let verdict = place.judge::<Judge>("read", &json!({ "b": { "d": 1, "c": 2 }, "a": [] })).unwrap();
    let expected = format!(r#"{{"a":[],"b":{{"c":2,"d":1}}}} in {}"#, place.cwd());
    assert!(matches!(&verdict, Verdict::Deny(reason) if *reason == expected), "{verdict:?}");
    assert!(matches!(place.judge::<Judge>("write", &json!({})), Ok(Verdict::Ask(_))));
    let filtered = |tool: &str| place.filter::<Shout>(tool, &json!({}), Output::text("hey")).unwrap().to_text();
    assert_eq!((filtered("loud"), filtered("calm")), ("HEY".to_owned(), "hey".to_owned()));
}

fn told(code: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(code).expect_err("it panics");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn what_only_the_host_has_is_told() {
    let without = told(|| {
        let _ = context::cwd();
    });
    assert!(without.starts_with("pith_sdk::context::cwd is answered by the host, and this test has none"), "{without}");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_owned();
    let query = scan::Query::files("/");
    let host = told(move || {
        let _ = Place::new(folder).stand(|| scan::run(&query));
    });
    assert!(host.starts_with("pith_sdk::scan::run needs the host"), "{host}");
    // The panic left the place.
    assert!(told(|| drop(context::cwd())).contains("is answered by the host"));
}
