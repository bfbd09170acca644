//! Paths as fields of an input: what cannot be reached is refused before the tool runs, and the rest explains itself.

use pith_sdk::paths::{GuestPath, MAX_READ_BYTES};
use pith_sdk::testing::Place;
use pith_sdk::{Context, Error, ErrorKind, Input, Output, Tool};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, Input)]
struct Args {
    paths: Vec<GuestPath>,
    deed: String,
}

struct Do;

impl Tool for Do {
    const NAME: &'static str = "do";
    const DESCRIPTION: &'static str = "Does it.";
    type Input = Args;

    fn run(input: Args, _: &Context) -> Result<Output, Error> {
        let mut text = String::new();
        for path in &input.paths {
            text.push_str(&match input.deed.as_str() {
                "read" => path.read_to_string()?,
                "write" => path.write("new").map(|()| path.to_string())?,
                "list" => path.list()?.join(" "),
                "look" => path.metadata()?.len().to_string(),
                "join" => path.join("../b")?.to_string(),
                _ => "ran".to_owned(),
            });
        }
        Ok(Output::text(text))
    }
}

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in
            [("w/a.txt", &b"text\n"[..]), ("w/latin.txt", b"\xe4"), ("w/sub/deep.txt", b"d"), ("out", b"o")]
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        Self { folder }
    }

    fn run(&self, deed: &str, path: &str) -> Result<String, Error> {
        let place = Place::new(self.folder.path().join("w"));
        Ok(place.call::<Do>(&json!({ "paths": [path], "deed": deed }))?.to_text())
    }

    #[track_caller]
    fn check(&self, deed: &str, path: &str, expected: &str) {
        let found = match self.run(deed, path) {
            Ok(text) => text,
            Err(error) => format!("{:?}: {}", error.kind, error.message),
        };
        assert!(found.starts_with(expected), "{deed} {path}: {found:?} is not {expected:?}");
    }
}

#[test]
fn what_is_there_is_used() {
    let fixture = Fixture::new();
    fixture.check("read", "a.txt", "text\n");
    fixture.check("read", "@./sub/../a.txt", "text\n");
    fixture.check("list", ".", "a.txt latin.txt sub/");
    fixture.check("look", "a.txt", "5");
    fixture.check("join", "sub", "b");
    fixture.check("write", "x/y/new.txt", "x/y/new.txt");
    fixture.check("read", "x/y/new.txt", "new");
    fixture.check("write", "a.txt", "a.txt");
    fixture.check("read", "a.txt", "new");
}

#[test]
fn what_fails_explains_itself() {
    let fixture = Fixture::new();
    fixture.check("read", "b.txt", "ErrorKind::NotFound: There is no `b.txt`. Did you mean `a.txt`?");
    fixture.check("read", "sub", "ErrorKind::Invalid: `sub` is a folder, not a file.");
    fixture.check("read", "latin.txt", "ErrorKind::Invalid: `latin.txt` is not UTF-8 text (byte 0");
    fixture.check("read", "a.txt/b", "ErrorKind::Invalid: A part of `a.txt/b` is a file where a folder is needed.");
    fixture.check("list", "a.txt", "ErrorKind::Invalid: `a.txt` is a file, not a folder.");
    fixture.check("list", "no", "ErrorKind::NotFound: There is no `no`.");
    fixture.check("write", "sub", "ErrorKind::Invalid: `sub` is a folder");
    fixture.check("join", ".", "ErrorKind::Denied: `");
    let large = std::fs::File::create(fixture.folder.path().join("w/large")).unwrap();
    large.set_len(MAX_READ_BYTES + 1).unwrap();
    fixture.check("read", "large", "ErrorKind::Limit: `large` is larger than 16.0MB");
    large.set_len(MAX_READ_BYTES).unwrap();
    assert_eq!(fixture.run("read", "large").unwrap().len() as u64, MAX_READ_BYTES);
}

#[cfg(unix)]
#[test]
fn nothing_but_files_is_opened_and_links_stay_inside() {
    let fixture = Fixture::new();
    let work = fixture.folder.path().join("w");
    std::os::unix::fs::symlink("../out", work.join("link")).unwrap();
    std::os::unix::fs::symlink("a.txt", work.join("inner")).unwrap();
    std::os::unix::fs::symlink("/", work.join("root")).unwrap();
    let status = std::process::Command::new("mkfifo").arg(work.join("pipe")).status().unwrap();
    assert!(status.success());
    fixture.check("read", "inner", "text\n");
    fixture.check("read", "pipe", "ErrorKind::Invalid: `pipe` is not a regular file.");
    fixture.check("write", "pipe", "ErrorKind::Invalid: `pipe` is not a regular file.");
    for path in ["link", "root/etc/hostname", "root/no/such"] {
        fixture.check("read", path, &format!("ErrorKind::Denied: Cannot use `{path}`: it leads out"));
        fixture.check("write", path, "ErrorKind::Denied");
    }
}

#[test]
fn a_path_that_cannot_be_meant_is_refused_before_the_tool_runs() {
    let fixture = Fixture::new();
    fixture.check("none", "a.txt", "ran");
    fixture.check("none", "../out", "ErrorKind::Denied: `");
    fixture.check(
        "none",
        "/etc/passwd",
        "ErrorKind::Denied: `/etc/passwd` is outside the folders that this plugin was granted",
    );
    fixture.check("none", "~/x", "ErrorKind::Invalid: `~/x`: plugins do not know a home folder");
    // An input that is wrong otherwise has no path's error.
    let place = Place::new(fixture.folder.path());
    assert_eq!(place.call::<Do>(&json!({ "paths": ["/etc"], "deed": "none" })).unwrap_err().kind, ErrorKind::Denied);
    let error = place.stand(|| pith_sdk::serde_json::from_str::<Args>(r#"{"paths":["/etc"]}"#)).err().unwrap();
    assert!(error.to_string().contains("is outside the folders"), "{error}");
    assert_eq!(place.call::<Do>(&json!({ "paths": [], "deed": "none" })).unwrap().to_text(), "");
}
