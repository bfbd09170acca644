//! What a child process of a tool sees, and what becomes of it.

use pith_tests::{Answer, Home, Reply, Run, Running, Server, Wire, pith_binary};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    process::Command,
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

/// What a command prints, run by the tool.
#[track_caller]
fn bash(home: &Home, command: &str) -> String {
    let run = home.play(json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": command } }] }, { "text": "done" }]), &[]).ok();
    let (text, is_error) = run.result("c");
    assert!(!is_error, "{text}");
    text
}

#[test]
fn a_child_sees_the_users_environment_without_keys() {
    let home = Home::new()
        .with("ANTHROPIC_API_KEY", "canary-anthropic")
        .with("OPENAI_API_KEY", "canary-openai")
        .with("MY_OWN_VARIABLE", "is kept");
    let text = bash(&home, "env; cat /proc/self/environ | tr '\\0' '\\n'; cat /proc/$$/environ | tr '\\0' '\\n'");
    assert!(text.contains("MY_OWN_VARIABLE=is kept"), "{text}");
    assert!(!text.contains("canary") && !text.contains("API_KEY"), "{text}");
    // Nor is a key anywhere else that Pith wrote.
    for place in ["data", "state", "config"] {
        let found =
            Command::new("grep").args(["-r", "-l", "canary-"]).arg(home.root().join(place)).output().expect("grep");
        assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    }
}

#[test]
fn a_child_has_its_own_session_and_no_terminal() {
    let text = bash(&Home::new(), "ps -o pid=,sid=,tty= -p $$; : < /dev/tty || echo none");
    let words: Vec<&str> = text.split_whitespace().collect();
    // 0: its session's leader is not seen from within the sandbox.
    assert!(words[1] == words[0] || words[1] == "0", "pid and session: {text}");
    assert_eq!(words[2], "?", "a terminal: {text}");
    assert!(text.ends_with("none"), "{text}");
}

#[test]
fn a_child_has_three_descriptors_and_dumps_no_core() {
    // One that was left open on purpose, as a careless parent would.
    let home = Home::new();
    let model = home.scripted(json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": "ls /proc/$$/fd; ulimit -c" } }] }, { "text": "done" }]));
    let mut shell = home.bare("bash");
    shell.args(["-c", r#"exec 7</dev/null; exec "$0" --mode json --model "$1" go"#]).arg(pith_binary()).arg(&model);
    let run = Running::start(shell, Duration::from_secs(60)).finish().ok();
    let (text, _) = run.result("c");
    let lines: Vec<&str> = text.lines().filter(|line| *line != "255").collect();
    // 255 is bash's own copy of its script, where it has one.
    assert_eq!(lines, ["0", "1", "2", "0"], "descriptors, then the limit of cores: {text}");
}

#[test]
fn what_a_command_leaves_behind_ends_with_its_timeout() {
    for level in ["guard", "off"] {
        let home = Home::new();
        let held = Held::new(&home);
        let command = "exec 9>held; sleep 300 & sh -c 'sleep 301 & wait' & touch started; wait";
        let call = json!({ "id": "c", "name": "bash", "arguments": { "command": command, "timeout": 1 } });
        let run = home.play(json!([{ "calls": [call] }, { "text": "done" }]), &["--sandbox", level]).ok();
        let (text, is_error) = run.result("c");
        assert!(is_error && text.contains("timed out after 1 second and"), "{level}: {text}");
        assert!(home.work().join("started").exists());
        held.ends();
    }
}

#[test]
fn a_command_that_ignores_the_end_is_killed() {
    let home = Home::new();
    let held = Held::new(&home);
    let command = "exec 9>held; trap '' TERM INT HUP; while :; do sleep 0.1; done";
    let call = json!({ "id": "c", "name": "bash", "arguments": { "command": command, "timeout": 1 } });
    let run = home.play(json!([{ "calls": [call] }, { "text": "done" }]), &[]).ok();
    assert!(run.result("c").1, "{run}");
    assert!(run.wall < Duration::from_secs(20), "{run}");
    held.ends();
}

/// As an ordinary user: a process that is not dumpable belongs to root in `/proc`, so that not even its own user's processes read its
/// environment or memory.
#[test]
fn the_host_cannot_be_read_by_its_children() {
    let home = Home::new().with("OPENAI_API_KEY", "canary-openai");
    let command = "cat /proc/self/environ > /dev/null && echo own readable; until [ -s host ]; do sleep 0.02; done; host=/proc/$(cat host); \
                   cat $host/environ > /dev/null && echo host readable; ls $host/fd > /dev/null && echo host fds; \
                   if [ -e $host ]; then echo the host is there; else echo the host is not seen; fi";
    let model = home.scripted(
        json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": command } }] }, { "text": "done" }]),
    );
    let binary = home.root().join("pith");
    // By another program: what this process has open for writing, a child that another test just forks would have open too.
    assert!(Command::new("cp").arg(pith_binary()).arg(&binary).status().expect("cp").success());
    let mut start;
    if rustix::process::geteuid().is_root() {
        // Root reads everything; so somebody else is asked.
        let own = home.root().join("cache");
        fs::create_dir_all(&own).expect("a folder");
        assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(home.root()).status().expect("chown").success());
        fs::set_permissions(home.root(), fs::Permissions::from_mode(0o755)).expect("the owner may");
        start = home.bare("setpriv");
        start.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary).env("XDG_CACHE_HOME", own);
    } else {
        start = home.bare(&binary.to_string_lossy());
    }
    start.args(["--mode", "json", "--model", &model, "go"]);
    let running = Running::start(start, Duration::from_secs(60));
    home.write("host.new", running.id().to_string());
    fs::rename(home.work().join("host.new"), home.work().join("host")).expect("a name");
    let run = running.finish().ok();
    let (text, _) = run.result("c");
    assert!(text.contains("own readable") && text.contains("the host is "), "the check itself: {text}");
    assert!(!text.contains("host readable") && !text.contains("host fds"), "{text}");
}

#[test]
fn the_host_keeps_no_core_and_leaves_nothing_in_temp() {
    let home = Home::new();
    let text = bash(&home, "grep '^Max core' /proc/$PPID/limits");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{text}");
    let left: Vec<_> =
        fs::read_dir(home.root().join("tmp")).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A FIFO in the workspace. A command that opened it for writing (`exec 9>held`) is there, with all that it started, until the other end
/// reads the end.
pub struct Held(Receiver<()>);

impl Held {
    pub fn new(home: &Home) -> Self {
        let path = home.work().join("held");
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        let (ended, told) = channel();
        thread::spawn(move || {
            // Opens when there is a writer.
            let _ = File::open(path).and_then(|mut held| held.read_to_end(&mut Vec::new()));
            let _ = ended.send(());
        });
        Self(told)
    }

    fn is_held(&self) -> bool {
        self.0.try_recv().is_err()
    }

    #[track_caller]
    pub fn ends(&self) {
        self.0.recv_timeout(Duration::from_secs(5)).expect("nobody holds it any more");
    }
}

/// A model that answers by what the tools said so far: the next calls, or its last word.
fn model(answer: impl Fn(&[String]) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |request| {
        let request = request.json();
        let messages = request["messages"].as_array().into_iter().flatten();
        let results = messages.filter(|message| message["role"] == "tool").map(|message| text_of(&message["content"]));
        Answer::sse(Wire::OpenAi.sse(&answer(&results.collect::<Vec<_>>())))
    })
}

fn text_of(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    content.as_str().map_or_else(|| blocks.filter_map(|block| block["text"].as_str()).collect(), str::to_owned)
}

fn start(home: &Home) -> Running {
    start_with(home, &[])
}

fn start_with(home: &Home, more: &[&str]) -> Running {
    let args = ["--mode", "json", "--model", Wire::OpenAi.model()];
    home.start(&[&args, more, &["go"]].concat())
}

/// Where the output of a command goes that runs in the background.
#[track_caller]
fn output_of(said: &str) -> &str {
    let path = said.split_once("Output: ").and_then(|(_, rest)| rest.split_once(" (read or"));
    path.unwrap_or_else(|| panic!("no path: {said}")).0
}

fn background(id: &str, command: &str) -> Reply {
    Reply::call(id, "bash", json!({ "command": command, "background": true }))
}

#[test]
fn a_command_is_left_running_read_searched_and_stopped() {
    let server = model(|said| match said {
        [] => background("start", "exec 9>held; echo ready; sleep 300 & sleep 300"),
        [start] => Reply::call("read", "read", json!({ "path": output_of(start) })),
        [start, _] => Reply::call("grep", "grep", json!({ "pattern": "read.", "path": output_of(start) })),
        [start, _, _] => Reply::call("stop", "bash_stop", json!({ "output": output_of(start) })),
        [start, _, _, _] => Reply::call("again", "bash_stop", json!({ "output": output_of(start) })),
        [_, _, _, _, _] => Reply::call("look", "bash", json!({ "command": "echo still here" })),
        _ => Reply::text("done"),
    });
    let home = Wire::OpenAi.home(&server);
    let held = Held::new(&home);
    let mut running = start(&home);
    running.wait_line(|line| line.contains("\"tool_execution_end\"") && line.contains("\"read\""));
    let run = running.finish().ok();
    held.ends();
    assert_eq!(run.result("read").0.trim_end(), "ready");
    assert!(run.result("grep").0.contains("1: ready"), "{run}");
    let (stopped, is_error) = run.result("stop");
    assert!(!is_error && stopped.starts_with("Stopped. Its output:\n\nready\n[stopped after "), "{stopped}");
    let (again, is_error) = run.result("again");
    assert!(!is_error && again.starts_with("It had ended already. Its output:\n\nready\n[stopped after "), "{again}");
    assert_eq!(run.result("look"), ("still here".to_owned(), false));
}

#[test]
fn a_command_in_the_background_says_itself_when_it_is_over() {
    let server = model(|said| match said {
        [] => background("start", "sleep 1.3; printf 'the last word'; exit 7"),
        [_, .., last] if last.contains("[exited") => Reply::text("done"),
        [start, rest @ ..] => Reply::call(&format!("r{}", rest.len()), "read", json!({ "path": output_of(start) })),
    });
    let run = start(&Wire::OpenAi.home(&server)).finish().ok();
    let (said, _) = run.result("start");
    assert!(said.starts_with("(no output yet)\n\n[It goes on in the background. Output: /"), "{said}");
    assert!(said.ends_with("`bash_stop` ends it; your final answer does too.]"), "{said}");
    let (_, last, is_error) = run.results().pop().expect("results");
    assert!(!is_error && last.starts_with("the last word\n[exited with code 7 after 1."), "{last}");
}

#[test]
fn what_runs_in_the_background_ends_with_the_session_however_that_ends() {
    let signals = [None, Some(Signal::INT), Some(Signal::TERM), Some(Signal::HUP)];
    for (signal, level) in signals.into_iter().zip(["guard"; 4]).chain([(None, "off"), (Some(Signal::TERM), "off")]) {
        let server = model(move |said| match said {
            [] => background("start", "exec 9>held; echo ready; sleep 300 & sleep 300"),
            [_] if signal.is_some() => Reply::call("wait", "bash", json!({ "command": "sleep 300" })),
            _ => Reply::text("done"),
        });
        let home = Wire::OpenAi.home(&server);
        let held = Held::new(&home);
        let mut running = start_with(&home, &["--sandbox", level]);
        if let Some(signal) = signal {
            running
                .wait_line(|line| line.starts_with("{\"type\":\"tool_execution_start\"") && line.contains("\"wait\""));
            assert!(held.is_held());
            running.signal(signal);
        }
        let run = running.finish();
        held.ends();
        let path = output_of(&run.result("start").0).to_owned();
        let kept = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(kept.starts_with("ready\n[ended with the session after "), "{signal:?}: {kept}");
    }
}

/// Eight programs of a plugin run at once. What was left running may run for ever, so nobody waits for it.
#[test]
fn the_ninth_command_is_refused_with_those_that_run() {
    let server = model(|said| match said.len() {
        0 => (0..9).fold(Reply::text("Nine."), |reply, n| {
            reply.and_call(
                &format!("b{n}"),
                "bash",
                json!({ "command": format!("echo {n}; sleep 300"), "background": true }),
            )
        }),
        9 => Reply::call("ninth", "bash", json!({ "command": "echo in the foreground" })),
        10 => {
            let started = said.iter().find(|said| said.contains("Output: ")).expect("some were started");
            Reply::call("stop", "bash_stop", json!({ "output": output_of(started) }))
        }
        11 => Reply::call("then", "bash", json!({ "command": "echo there is a place" })),
        _ => Reply::text("done"),
    });
    let run = start(&Wire::OpenAi.home(&server)).finish().ok();
    let results: Vec<(String, bool)> = (0..9).map(|n| run.result(&format!("b{n}"))).collect();
    let (refused, started): (Vec<_>, Vec<_>) = results.into_iter().partition(|(_, is_error)| *is_error);
    assert_eq!((started.len(), refused.len()), (8, 1), "{run}");
    for (said, is_error) in [&refused[0], &run.result("ninth")] {
        assert!(
            *is_error && said.starts_with("Not run: a plugin has at most 8 programs running; left running: /"),
            "{said}"
        );
        assert!(said.ends_with(". End one with `bash_stop` first.") && said.contains("(`echo "), "{said}");
        for (other, _) in &started {
            assert!(said.contains(output_of(other)), "{said}");
        }
    }
    assert!(run.result("stop").0.starts_with("Stopped."), "{run}");
    assert_eq!(run.result("then"), ("there is a place".to_owned(), false));
}

#[test]
fn what_was_never_left_running_cannot_be_stopped() {
    let home = Home::new();
    let calls = json!([
        { "id": "outside", "name": "bash_stop", "arguments": { "output": "/etc/passwd" } },
        { "id": "none", "name": "bash_stop", "arguments": { "output": "x.log" } }
    ]);
    let run = home.play(json!([{ "calls": calls }, { "text": "done" }]), &[]).ok();
    for (id, words) in [("outside", "outside the folders"), ("none", "nothing was left running")] {
        let (said, is_error) = run.result(id);
        assert!(is_error && said.contains(words) && !said.contains("root:"), "{said}");
    }
    let server = model(|said| match said {
        [] => background("start", "echo a; sleep 300"),
        [start] => Reply::call("stop", "bash_stop", json!({ "output": format!("{}x", output_of(start)) })),
        _ => Reply::text("done"),
    });
    let run = start(&Wire::OpenAi.home(&server)).finish().ok();
    let (said, is_error) = run.result("stop");
    let path = output_of(&run.result("start").0).to_owned();
    assert!(is_error && said.contains("nothing of this plugin runs with that spool; left running: "), "{said}");
    assert!(said.contains(&format!("{path} (`echo a; sleep 300`, for ")), "{said}");
}

#[test]
fn a_long_output_is_read_and_searched_as_a_whole() {
    let server =
        model(|said| {
            let path = said
                .first()
                .and_then(|said| Some(said.split_once("Full output: ")?.1.trim_end_matches(']').to_owned()));
            match (said.len(), path) {
                (0, _) => Reply::call("run", "bash", json!({ "command": "seq -f 'line %.0f' 5000" })),
                (1, Some(path)) => Reply::call("read", "read", json!({ "path": path, "offset": 3, "limit": 2 }))
                    .and_call("grep", "grep", json!({ "path": path, "pattern": "^line 2999$" })),
                _ => Reply::text("done"),
            }
        });
    let run = start(&Wire::OpenAi.home(&server)).finish().ok();
    assert!(run.result("run").0.contains("\n\n[Showing lines 3001-5000 of 5000. Full output: /"), "{run}");
    assert!(run.result("read").0.starts_with("line 3\nline 4"), "{run}");
    assert!(run.result("grep").0.contains("2999: line 2999"), "{run}");
}

#[test]
fn output_is_shown_while_it_comes_ten_times_a_second_at_most() {
    let home = Home::new();
    let command = "for i in $(seq 40); do echo $i; sleep 0.02; done";
    let run: Run = home
        .play(json!([{ "calls": [{ "id": "c", "name": "bash", "arguments": { "command": command } }] }, { "text": "done" }]), &[])
        .ok();
    let updates = run.events().into_iter().filter(|event| event["type"] == "tool_execution_update").count() as u128;
    assert!((2..=run.wall.as_millis() / 100 + 2).contains(&updates), "{updates} in {:?}", run.wall);
    assert!(run.result("c").0.ends_with("\n39\n40"), "{run}");
}

/// Each line is written by itself: far more of them than a call may ask for pieces.
#[test]
fn a_chatty_command_is_followed_to_its_end() {
    let text = bash(&Home::new(), "for i in $(seq 30000); do echo $i; done");
    assert!(text.starts_with("28001\n") && text.contains("\n30000\n\n[Showing lines 28001-30000 of 30000."), "{text}");
}

/// The progress bar of a report about another agent.
#[test]
fn six_thousand_states_of_a_line_are_its_last_one() {
    let home = Home::new();
    let bar = fs::read(pith_tests::case("bugs/13-carriage-returns/output.bin")).expect("it is there");
    home.write("bar", bar);
    let text = bash(&home, "cat bar");
    assert!(text.ends_with("done") && text.len() < 1000 && text.lines().count() <= 2, "{text}");
}
