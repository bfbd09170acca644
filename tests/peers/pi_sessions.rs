//! pi's sessions and ours: what one wrote, the other tells its model the same of, message by message.

use crate::install;
use pith_core::{CompactEnd, LeftBranch, MoveEnd};
use pith_protocol::{Content, EntryId};
use pith_runtime::{Environment, Options, Places, SessionChoice};
use pith_tests::{Answer, Home, Reply, Request, Running, Server, Wire, target_folder, text_of, told};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// What pi may take for one command.
const LIMIT: Duration = Duration::from_secs(60);
/// What every summary says.
const SUMMARY: &str = "They looked at alpha and were content.";

/// The model of both: it looks where it is asked to list, sums up where it has no tools, and goes on otherwise.
fn model() -> Server {
    Server::start(|request: &Request| {
        if request.method != "POST" {
            return Answer::json(404, &json!({ "error": { "message": "no" } }));
        }
        let body = request.json();
        let last = body["messages"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
        let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        let text = text_of(&last);
        let reply = if !has_tools {
            Reply::text(SUMMARY)
        } else if last["role"] == "tool" {
            Reply::text("There is one file: alpha.")
        } else if text.contains("list files") {
            Reply::text("Let me look.").and_call("call_1", "bash", json!({ "command": "ls" })).and_call(
                "call_2",
                "read",
                json!({ "path": "a.txt" }),
            )
        } else {
            Reply::text(&format!("I heard: {}", text.chars().take(40).collect::<String>()))
        };
        Answer::sse(Wire::OpenAi.sse(&reply))
    })
}

/// Results of one reply's calls in the order of their ids: Pith tells them as they were asked for, pi as they came.
fn in_one_order(mut lines: Vec<String>) -> Vec<String> {
    for run in lines.chunk_by_mut(|one, next| one.starts_with("tool of ") && next.starts_with("tool of ")) {
        run.sort();
    }
    lines
}

/// pi in a scratch folder of its own.
struct Pi {
    home: Home,
}

impl Pi {
    fn new(server: &Server) -> Self {
        let home = Home::new();
        home.write("a.txt", "alpha\n");
        let models = json!({ "providers": { "fake": { "baseUrl": format!("{}/v1", server.url()), "api": "openai-completions", "apiKey": "x",
            "models": [{ "id": "fake-1", "contextWindow": 128000, "maxTokens": 4096 }] } } });
        home.beside("agent/models.json", models.to_string());
        let settings = json!({ "defaultProvider": "fake", "defaultModel": "fake-1", "enableInstallTelemetry": false,
            "compaction": { "enabled": true, "reserveTokens": 1000, "keepRecentTokens": 10 } });
        home.beside("agent/settings.json", settings.to_string());
        let extension = "export default function (pi) {\n  pi.registerCommand(\"nav\", { description: \"moves the leaf\", handler: async (args, ctx) => {\n\
             const [id, sum] = args.split(\" \"); await ctx.navigateTree(id, { summarize: sum === \"sum\" }); } });\n}\n";
        home.beside("nav.ts", extension);
        Self { home }
    }

    fn command(&self) -> Command {
        let cli = install::npm().join("node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js");
        let mut command = self.home.bare(&install::node().to_string_lossy());
        command
            .arg(cli)
            .env("PI_OFFLINE", "1")
            .env("PI_SKIP_VERSION_CHECK", "1")
            .env("PI_CODING_AGENT_DIR", self.home.root().join("agent"));
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) {
        let mut command = self.command();
        command.args(args);
        Running::start(command, LIMIT).finish().ok();
    }

    fn rpc(&self) -> Rpc {
        let mut command = self.command();
        command.args(["--mode", "rpc", "-e", &self.home.root().join("nav.ts").to_string_lossy()]);
        Rpc::start(command)
    }
}

/// pi, told what to do over its standard input.
struct Rpc {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Value>,
}

impl Rpc {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("pi starts");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let Ok(line) = serde_json::from_slice(&line) else { continue };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, input, lines }
    }

    #[track_caller]
    fn wait(&self, accepts: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).expect("pi says it in time");
            if accepts(&line) {
                return line;
            }
        }
    }

    #[track_caller]
    fn ask(&mut self, command: Value) -> Value {
        writeln!(self.input, "{command}").expect("pi reads");
        let answer = self.wait(|line| line["type"] == "response" && line["command"] == command["type"]);
        assert_eq!(answer["success"], true, "{command}: {answer}");
        answer["data"].clone()
    }

    #[track_caller]
    fn prompt(&mut self, text: &str) {
        self.ask(json!({ "type": "prompt", "message": text }));
        self.wait(|line| line["type"] == "agent_settled");
    }

    #[track_caller]
    fn file(&mut self) -> PathBuf {
        PathBuf::from(self.ask(json!({ "type": "get_state" }))["sessionFile"].as_str().expect("a file"))
    }

    /// The id of the user's message with these words.
    #[track_caller]
    fn user(&mut self, words: &str) -> String {
        let file = self.file();
        let entries = Home::entries(&file);
        let found = entries
            .iter()
            .rev()
            .find(|entry| entry["message"]["role"] == "user" && text_of(&entry["message"]).contains(words));
        found.and_then(|entry| entry["id"].as_str()).expect("it said so").to_owned()
    }
}

impl Drop for Rpc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the last request told.
#[track_caller]
fn last_told(server: &Server) -> Vec<String> {
    in_one_order(told(&server.requests().last().expect("it asked").json(), SUMMARY))
}

/// Both go on from copies of a file, and tell their model the same.
#[track_caller]
fn both_go_on(server: &Server, pi: &Pi, file: &Path, what: &str) -> Vec<String> {
    let bytes = fs::read(file).expect("it is there");
    let copy = pi.home.beside("copy.jsonl", &bytes);
    pi.run(&["--session", &copy.to_string_lossy(), "-p", "what next?"]);
    let theirs = last_told(server);
    let home = Wire::OpenAi.home(server);
    let copy = home.beside("copy.jsonl", &bytes);
    home.pith(&["--session", &copy.to_string_lossy(), "--model", "openai/fake-1", "-p", "what next?"]).ok();
    let ours = last_told(server);
    assert_eq!(ours, theirs, "{what}: Pith on the left, pi on the right");
    assert_eq!(ours.last().map(String::as_str), Some("user: what next?"));
    ours
}

#[test]
fn what_pi_wrote_is_told_as_pi_tells_it() {
    let server = model();
    let pi = Pi::new(&server);
    let mut rpc = pi.rpc();
    rpc.prompt("list files");
    rpc.prompt("and now");
    let plain = rpc.file();
    let lines = both_go_on(&server, &pi, &plain, "prompts and tools");
    assert!(lines.iter().any(|line| line.starts_with("assistant: Let me look. call_1=bash{")), "{lines:#?}");

    let first = rpc.user("and now");
    rpc.ask(json!({ "type": "fork", "entryId": first }));
    rpc.prompt("another way");
    let forked = rpc.file();
    assert_ne!(forked, plain);
    let lines = both_go_on(&server, &pi, &forked, "a fork");
    assert!(lines.contains(&"user: another way".to_owned()) && !lines.contains(&"user: and now".to_owned()));

    rpc.prompt("and more");
    rpc.ask(json!({ "type": "compact" }));
    rpc.prompt("after it");
    let compacted = rpc.file();
    let lines = both_go_on(&server, &pi, &compacted, "a compaction");
    assert!(
        lines.iter().any(|line| line == "user: a summary") && !lines.contains(&"user: list files".to_owned()),
        "{lines:#?}"
    );

    // Away from a branch, with its summary and without.
    let after = rpc.user("after it");
    rpc.ask(json!({ "type": "prompt", "message": format!("/nav {after} sum") }));
    rpc.prompt("on the other branch");
    let file = rpc.file();
    assert!(fs::read_to_string(&file).expect("it is there").contains("\"type\":\"branch_summary\""));
    let lines = both_go_on(&server, &pi, &file, "a branch summary");
    assert!(!lines.contains(&"user: after it".to_owned()), "{lines:#?}");
    let other = rpc.user("on the other branch");
    rpc.ask(json!({ "type": "prompt", "message": format!("/nav {other}") }));
    rpc.prompt("a third");
    let file = rpc.file();
    let lines = both_go_on(&server, &pi, &file, "a move");
    assert!(!lines.contains(&"user: on the other branch".to_owned()), "{lines:#?}");
    rpc.ask(json!({ "type": "clone" }));
    rpc.ask(json!({ "type": "set_session_name", "name": "A name" }));
    rpc.ask(json!({ "type": "bash", "command": "echo by hand" }));
    rpc.prompt("the clone");
    let file = rpc.file();
    both_go_on(&server, &pi, &file, "a clone, a name, a command of the user's");
}

fn options(home: &Home, file: Option<&Path>) -> Options {
    let mut places = Places::beneath(&home.root().join("pith"));
    places.cache = target_folder().join("tmp/pith-cache/pith");
    let environment: Environment = home.environment().iter().collect();
    let mut options = Options::at(places, home.work(), environment);
    options.model = Some("openai/fake-1".to_owned());
    options.shipped = pith_bundle::shipped()
        .iter()
        .map(|plugin| pith_runtime::ShippedPlugin {
            name: plugin.name,
            component: plugin.component,
            grants: plugin.grants,
        })
        .collect();
    if let Some(file) = file {
        options.session = SessionChoice::Open(file.to_string_lossy().into_owned());
    }
    options
}

/// What Pith itself tells of its own file; it is not changed.
async fn told_by_us(server: &Server, home: &Home, file: &Path) -> Vec<String> {
    let copy = home.beside("ours.jsonl", fs::read(file).expect("it is there"));
    let mut options = options(home, Some(&copy));
    options.trust_session = true;
    let pith = pith_runtime::start(options).await.unwrap_or_else(|error| panic!("{error}"));
    pith.close_events();
    pith.prompt(vec![Content::text("what next?")]).await.expect("it asks");
    last_told(server)
}

#[test]
fn what_pith_wrote_is_told_by_pi_as_pith_tells_it() {
    let server = model();
    let pi = Pi::new(&server);
    let home = Wire::OpenAi.home(&server);
    home.write("a.txt", "alpha\n");
    home.beside("pith/config/settings.toml", "[compaction]\nkeep_recent_tokens = 50\n");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let check = async |file: &Path, what: &str| {
        let ours = told_by_us(&server, &home, file).await;
        let copy = pi.home.beside("copy.jsonl", fs::read(file).expect("it is there"));
        let page = pi.home.root().join("page.html");
        let _ = fs::remove_file(&page);
        pi.run(&["--export", &copy.to_string_lossy(), &page.to_string_lossy()]);
        assert!(page.metadata().is_ok_and(|met| met.len() > 1000), "{what}: pi exports it");
        pi.run(&["--session", &copy.to_string_lossy(), "-p", "what next?"]);
        assert_eq!(last_told(&server), ours, "{what}: pi on the left, Pith on the right");
        ours
    };
    runtime.block_on(async {
        let pith = pith_runtime::start(options(&home, None)).await.unwrap_or_else(|error| panic!("{error}"));
        pith.close_events();
        let say = async |text: &str| {
            pith.prompt(vec![Content::text(text)]).await.expect("it asks");
        };
        let user = |words: &str| -> EntryId {
            let entries = pith.session().path();
            let found = entries.iter().rev().find(|entry| {
                serde_json::to_string(entry)
                    .is_ok_and(|line| line.contains("\"role\":\"user\"") && line.contains(words))
            });
            found.expect("it was said").id.clone()
        };
        say("list files").await;
        say("and now").await;
        let file = pith.session_file().expect("it is kept");
        check(&file, "prompts and tools").await;

        pith.set_label(&user("and now"), Some("here".to_owned())).await.expect("it is labelled");
        pith.set_name(Some("A name".to_owned())).await.expect("it is named");
        say("a mistake").await;
        pith.undo().await.expect("it is undone").expect("there was something");
        let lines = check(&file, "a label, a name, an exchange that was undone").await;
        assert!(!lines.contains(&"user: a mistake".to_owned()), "{lines:#?}");

        say("this way").await;
        let moved = pith.move_to(Some(&user("this way")), LeftBranch::SummedUp(None)).await.expect("it moves");
        assert!(matches!(moved, MoveEnd::Moved { .. }), "{moved:?}");
        say("that way").await;
        let lines = check(&file, "a branch that was left").await;
        assert!(!lines.contains(&"user: this way".to_owned()), "{lines:#?}");
        assert!(fs::read_to_string(&file).expect("it is there").contains("\"type\":\"branch_summary\""));

        pith.move_to(Some(&user("that way")), LeftBranch::Kept).await.expect("it moves");
        check(&file, "a move and nothing else").await;
        say("go on").await;
        let made = pith.compact(Some("be brief".to_owned())).await.expect("it compacts");
        assert!(matches!(made, CompactEnd::Compacted { .. }), "{made:?}");
        check(&file, "a compaction").await;
        say("after it").await;
        let lines = check(&file, "a compaction and more").await;
        assert!(lines.iter().any(|line| line == "user: a summary"), "{lines:#?}");

        let forked = pith.fork(pith_core::ForkPoint::At(user("after it"))).await.expect("it forks");
        check(&forked.file, "a fork").await;
    });
}
