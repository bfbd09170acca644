//! pi 1.6.0 opens what Pith wrote, and the other way round.

use crate::{aimock::aimock, install};
use pith_tests::{Home, Reply, Run, Running, Wire};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command, time::Duration};

/// pi in a scratch folder of its own, its model a server at this address.
struct Pi {
    home: Home,
}

impl Pi {
    fn new(url: &str) -> Self {
        let home = Home::new();
        let models = json!({ "providers": { "fake": { "baseUrl": format!("{url}/v1"), "api": "openai-completions", "apiKey": "x",
            "models": [{ "id": "fake-1", "contextWindow": 128000, "maxTokens": 4096 }] } } });
        home.beside("agent/models.json", models.to_string());
        let settings = json!({ "defaultProvider": "fake", "defaultModel": "fake-1", "enableInstallTelemetry": false });
        home.beside("agent/settings.json", settings.to_string());
        Self { home }
    }

    #[track_caller]
    fn run(&self, work: &Path, args: &[&str]) -> Run {
        let cli = install::npm().join("node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js");
        let mut command: Command = self.home.bare(&install::node().to_string_lossy());
        command.arg(cli).args(args).current_dir(work);
        command
            .env("PI_OFFLINE", "1")
            .env("PI_SKIP_VERSION_CHECK", "1")
            .env("PI_CODING_AGENT_DIR", self.home.root().join("agent"));
        Running::start(command, Duration::from_secs(60)).finish().ok()
    }

    /// The newest session that it wrote.
    fn session(&self) -> std::path::PathBuf {
        let mut found = Vec::new();
        let mut folders = vec![self.home.root().join("agent/sessions")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else {
                    found.push(entry.path());
                }
            }
        }
        found.sort();
        found.pop().expect("pi wrote a session")
    }
}

fn fixtures() -> Value {
    json!([
        { "match": { "userMessage": "list files", "hasToolResult": true }, "response": { "content": "There is one file: alpha.", "reasoning": "I saw the listing." } },
        { "match": { "userMessage": "list files" }, "response": { "content": "Let me look.", "toolCalls": [
            { "name": "bash", "arguments": { "command": "ls" } }, { "name": "read", "arguments": { "path": "a.txt" } }] } },
        { "match": { "userMessage": "and now" }, "response": { "content": "Now it goes on." } }
    ])
}

/// What pi puts into its page: the session's lines in base64, in one element.
fn exported(html: &str) -> String {
    let start = html
        .find("id=\"session-data\"")
        .and_then(|at| html[at..].find('>').map(|end| at + end + 1))
        .unwrap_or_else(|| panic!("no session data in pi's page"));
    let data = html[start..].split('<').next().unwrap_or_default().trim();
    let decoded = Command::new("python3")
        .args(["-c", "import sys,base64; sys.stdout.buffer.write(base64.b64decode(sys.argv[1]))", data])
        .output()
        .expect("python3");
    assert!(decoded.status.success(), "{}", String::from_utf8_lossy(&decoded.stderr));
    String::from_utf8_lossy(&decoded.stdout).into_owned()
}

#[test]
fn a_session_that_pith_wrote_opens_in_pi() {
    let folder = tempfile::tempdir().expect("a folder");
    let peer = aimock(folder.path(), &fixtures());
    let home = Wire::OpenAi.home_at(&peer.url());
    home.write("a.txt", "alpha\n");
    home.write("AGENTS.md", "Be brief.\n");
    home.pith(&["--model", "openai/fake-1", "-p", "list files"]).ok().prints("There is one file: alpha.");
    let ours = home.session();
    let before = fs::read(&ours).expect("it is there");

    let pi = Pi::new(&peer.url());
    let page = pi.home.root().join("out.html");
    pi.run(&home.work(), &["--export", &ours.to_string_lossy(), &page.to_string_lossy()]);
    let html = fs::read_to_string(&page).expect("pi wrote a page");
    let data = exported(&html);
    for words in
        ["list files", "Let me look.", "I saw the listing.", "There is one file: alpha.", "toolResult", "a.txt"]
    {
        assert!(data.contains(words), "{words} is not in pi's page: {data}");
    }
    // And pi goes on from it, with the whole conversation.
    let copy = pi.home.beside("ours.jsonl", &before);
    let run = pi.run(&home.work(), &["--session", &copy.to_string_lossy(), "-p", "and now"]);
    run.prints("Now it goes on.");
    let journal = peer.json("/__aimock/journal").to_string();
    let last = journal.rfind("and now").expect("pi asked");
    assert!(journal[..last].contains("There is one file: alpha."), "pi sent the conversation that Pith wrote");
    let appended = Home::messages(&copy);
    assert!(appended.len() > Home::messages(&ours).len(), "pi appended to it");
    assert_eq!(fs::read(&ours).expect("it is there"), before);
    // What pi appended, Pith reads again.
    let home = home.with("PITH_MODEL", "openai/fake-1");
    home.pith(&["--session", &copy.to_string_lossy(), "-p", "and now"]).ok().prints("Now it goes on.");
}

#[test]
fn a_session_that_pi_writes_continues_in_pith() {
    let folder = tempfile::tempdir().expect("a folder");
    let peer = aimock(folder.path(), &fixtures());
    let pi = Pi::new(&peer.url());
    let home = Home::new();
    home.write("a.txt", "alpha\n");
    pi.run(&home.work(), &["-p", "list files"]).prints("There is one file: alpha.");
    let theirs = pi.session();
    let before = fs::read_to_string(&theirs).expect("it is there");

    let server =
        pith_tests::Server::playing(vec![pith_tests::Answer::sse(Wire::Anthropic.sse(&Reply::text("From Pith.")))]);
    // On another wire and model than pi's.
    let home = home.with("ANTHROPIC_BASE_URL", &server.url()).with("ANTHROPIC_API_KEY", "k");
    let run = home
        .pith(&["--session", &theirs.to_string_lossy(), "--model", "anthropic/other", "-p", "what did you see?"])
        .ok();
    let run = run.prints("From Pith.");
    assert!(run.stderr.contains(&*theirs.to_string_lossy()), "it is said that it is a copy: {run}");
    assert_eq!(fs::read_to_string(&theirs).expect("it is there"), before, "pi's file is untouched");
    let sent = server.requests().remove(0).json();
    let messages = sent["messages"].to_string();
    for words in ["list files", "Let me look.", "alpha", "There is one file: alpha.", "what did you see?"] {
        assert!(messages.contains(words), "{words}: {messages}");
    }
    assert!(!sent["system"].to_string().contains("running inside pi"), "{}", sent["system"]);
    let ours = home.session();
    let text = fs::read_to_string(&ours).expect("it is there");
    for line in before.lines().skip(1) {
        assert!(text.contains(line), "a raw line of pi's is lost: {line}");
    }
    // And pi opens the continuation.
    let page = pi.home.root().join("out.html");
    pi.run(&home.work(), &["--export", &ours.to_string_lossy(), &page.to_string_lossy()]);
    let data = exported(&fs::read_to_string(&page).expect("pi wrote a page"));
    assert!(data.contains("From Pith.") && data.contains("There is one file: alpha."));
}
