//! The process sandbox, from a command of the `bash` tool, by each means that the machine has. What single means do is tested in
//! `host/os/tests/sandbox.rs`; here it is the program as users have it.
//!
//! Bubblewrap is tested where it works. `PITH_REQUIRE_SANDBOX=1`, as in CI, makes a machine without it or without Landlock a failure.

use crate::children::Held;
use pith_protocol::{Content, Message};
use pith_runtime::{Options, Places, ShippedPlugin};
use pith_tests::{Home, Run, Running, pith_binary, target_folder};
use rustix::process::{Signal, geteuid};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::net::UnixListener,
    process::Command,
    time::{Duration, Instant},
};

const CANARY: &str = "canary-of-the-store";
const LANDLOCK: [&str; 2] = ["--sandbox-mask", "no-bubblewrap"];

/// A home as users have it: Pith's folders lie within it, and there is something in them.
fn home() -> Home {
    let home = Home::new();
    let at = |place: &str| home.root().join("home").join(place).to_string_lossy().into_owned();
    let (config, data, state) = (at(".config"), at(".local/share"), at(".local/state"));
    let home = home.with("XDG_CONFIG_HOME", &config).with("XDG_DATA_HOME", &data).with("XDG_STATE_HOME", &state);
    home.beside("home/.config/pith/settings.toml", format!("# {CANARY}\n"));
    home.beside("home/.local/share/pith/sessions/old/old.jsonl", CANARY);
    home
}

/// The flags of each means that works here.
fn means() -> Vec<(&'static str, &'static [&'static str])> {
    let all: [(&str, &[&str]); 2] = [("bubblewrap", &[]), ("Landlock", &LANDLOCK)];
    let works = |(name, flags): &(&str, &[&str])| {
        let home = home();
        bash(&home, flags, &["true"]);
        let log = fs::read_to_string(home.root().join("home/.local/state/pith/log/pith.log")).unwrap_or_default();
        let works = log.contains(&format!("sandbox guard by {name}"));
        let is_demanded = std::env::var_os("PITH_REQUIRE_SANDBOX").is_some();
        assert!(works || !is_demanded, "{name} does not work here (apt-get install bubblewrap?): {log}");
        works
    };
    all.into_iter().filter(works).collect()
}

/// One call of `bash` for each command, in one session; `c0`, `c1` ...
fn calls(commands: &[&str]) -> Value {
    let reply = |(number, command): (usize, &&str)| json!({ "calls": [{ "id": format!("c{number}"), "name": "bash", "arguments": { "command": command } }] });
    commands.iter().enumerate().map(reply).chain([json!({ "text": "done" })]).collect()
}

#[track_caller]
fn bash(home: &Home, flags: &[&str], commands: &[&str]) -> Run {
    home.play(calls(commands), flags).ok()
}

/// Ways to Pith's own files that somebody thought of. `$C` is the folder of settings, `$D` that of sessions, `$P` the host.
const WAYS: &str = r#"
cat $C/settings.toml; grep -r canary $C $D; ls -A $C $D/sessions
echo bad > $C/settings.toml; echo bad > $C/grants.toml; echo bad > $D/sessions/old/old.jsonl; mkdir -p $D/sessions/bad
chmod -R 777 $C; rm -rf $C $D; mv $C $C.old; mv ~/.config ~/.config.old; mv ~/.local/share ~/.local/old; mv ~/.local ~/.old; mv ~ ~.old
mkdir -p $C && echo bad > $C/settings.toml
ln $C/settings.toml hard; ln -s $C soft; cat soft/settings.toml
umount $C; mount -o remount,rw $C; mount --bind . $C
unshare -Urm sh -c "umount $C; cat $C/settings.toml"
for p in 1 self $PPID $P; do cat /proc/$p/root$C/settings.toml; tr '\0' '\n' < /proc/$p/environ | grep canary; head -c 1 /proc/$p/mem; done
kill -0 $P && echo signalled; kill -9 $P && echo signalled
echo x > /dev/tty && echo typed; for t in /dev/console /dev/tty1 /dev/pts/0; do [ -c $t ] && echo x > $t && echo typed; done
echo all tried
"#;

#[track_caller]
fn assert_untouched(home: &Home, text: &str, what: &str) {
    assert!(text.contains("all tried"), "{what}: {text}");
    for word in [CANARY, "canary-key", "signalled", "typed"] {
        assert!(!text.contains(word), "{what}: {word}: {text}");
    }
    let read = |place: &str| fs::read_to_string(home.root().join("home").join(place)).expect("it is there");
    assert_eq!(read(".config/pith/settings.toml"), format!("# {CANARY}\n"), "{what}");
    assert_eq!(read(".local/share/pith/sessions/old/old.jsonl"), CANARY, "{what}");
    for bad in [".config/pith/grants.toml", ".local/share/pith/sessions/bad", ".config.old", ".local/old", ".old"] {
        assert!(!home.root().join("home").join(bad).exists(), "{what}: {bad}");
    }
}

/// As root where the tests are root, and as somebody else.
#[test]
fn a_command_reaches_neither_pith_nor_its_files() {
    for (name, flags) in means() {
        let mut users = vec![false];
        if geteuid().is_root() {
            users.push(true);
        }
        for as_nobody in users {
            let home = home().with("OPENAI_API_KEY", "canary-key");
            let ways = format!("C=~/.config/pith; D=~/.local/share/pith; P=$(cat host)\n{WAYS}");
            let wait = "until [ -s host ]; do sleep 0.02; done";
            let model = home.scripted(calls(&[wait, &ways]));
            let mut start;
            if as_nobody {
                let binary = home.root().join("pith");
                assert!(Command::new("cp").arg(pith_binary()).arg(&binary).status().expect("cp").success());
                let cache = home.root().join("home/.cache");
                fs::create_dir_all(&cache).expect("a folder");
                let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(home.root()).status();
                assert!(owned.expect("chown").success());
                start = home.bare("setpriv");
                start.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
                start.env("XDG_CACHE_HOME", cache);
            } else {
                start = home.command(&[]);
            }
            start.args(["--mode", "json", "--model", &model]).args(flags).arg("go");
            let running = Running::start(start, Duration::from_secs(120));
            home.write("host.new", running.id().to_string());
            fs::rename(home.work().join("host.new"), home.work().join("host")).expect("a name");
            let run = running.finish().ok();
            let (text, _) = run.result("c1");
            assert_untouched(&home, &text, &format!("{name}, nobody: {as_nobody}"));
        }
    }
}

#[test]
fn a_command_works_as_ever() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("bound").port();
    for (name, flags) in means() {
        let home = home();
        home.beside("home/.gitconfig", "[user]\n\tname = me\n\temail = me@example.org\n");
        let run = bash(
            &home,
            flags,
            &[
                "git init -q . && echo one > file && git add file && git commit -qm first && git log --format='%an %s'",
                "mkdir -p ~/notes 2>/dev/null; echo \"[alias]\" >> ~/.gitconfig && echo home is written",
                &format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"),
                "echo between > ${TMPDIR:-/tmp}/file; mktemp > /dev/null && echo temporary",
                "cat ${TMPDIR:-/tmp}/file; ls ${TMPDIR:-/tmp}/pith-test-* >/dev/null 2>&1; exit 3",
                "kill -SEGV $$",
                "head -c 1000000 /dev/zero | tr '\\0' 'x' | wc -c",
                "setsid sleep 300 & sleep 300 & echo started",
            ],
        );
        let text = |id: &str| run.result(id).0;
        assert!(text("c0").contains("me first"), "{name}: {}", text("c0"));
        assert!(text("c1").contains("home is written"), "{name}: {}", text("c1"));
        assert!(text("c2").contains("connected"), "{name}: {}", text("c2"));
        assert!(text("c3").contains("temporary"), "{name}: {}", text("c3"));
        assert!(text("c4").starts_with("between") && text("c4").contains('3'), "{name}: {}", text("c4"));
        assert!(text("c5").contains("SIGSEGV"), "{name}: {}", text("c5"));
        assert!(text("c6").contains("1000000"), "{name}: {}", text("c6"));
        assert_eq!(text("c7"), "started", "{name}");
        assert!(run.wall < Duration::from_secs(60), "{name}: {run}");
        // The session's temporary folder went with it.
        let left: Vec<_> = fs::read_dir(home.root().join("tmp")).expect("it is there").flatten().collect();
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

/// Outputs, the log and what plugins keep are the host's: a command reads its own session's outputs, as its plugin may, and no more.
#[test]
fn what_the_host_keeps_is_not_the_commands() {
    for (name, flags) in means() {
        let home = home();
        let state = home.root().join("home/.local/state/pith");
        let spooled = || {
            let folders = fs::read_dir(state.join("spool")).expect("spools").flatten();
            let files = folders.flat_map(|folder| fs::read_dir(folder.path()).expect("a spool").flatten());
            files.map(|file| file.path()).collect::<Vec<_>>()
        };
        bash(&home, flags, &["seq 1 200000; echo other"]);
        let [other] = &spooled()[..] else { panic!("{name}: {:?}", spooled()) };
        bash(&home, flags, &["seq 1 200000; echo own"]);
        let own = spooled().into_iter().find(|file| file != other).expect("one more");
        let look = format!(
            "tail -n 1 {own}; tail -n 1 {other}; cd {state}; for f in {own} {other} log/pith.log plugin-use.jsonl new spool/new plugin-data/new; do \
             (echo bad >> {state}/$f) 2>/dev/null && echo written $f; (echo bad >> $f) 2>/dev/null && echo written $f; done; cat log/pith.log plugin-use.jsonl; \
             rm -rf {state}/*; mv {state}/spool {state}/old; ln -s ~/.config/pith {state}/spool; echo all tried",
            own = own.display(),
            other = other.display(),
            state = state.display()
        );
        let before = fs::read(&own).expect("it is there");
        let run = bash(&home, &[flags, &["-c"]].concat(), &[&look]);
        // A call's id that the session has already is given anew.
        let end = run.events().into_iter().find(|event| event["type"] == "agent_end").expect("it ends");
        let messages = end["messages"].as_array().expect("a list").iter();
        let text: String = messages
            .filter(|message| message["role"] == "toolResult")
            .filter_map(|message| message["content"][0]["text"].as_str())
            .collect();
        assert!(text.contains("all tried") && text.lines().any(|line| line == "own"), "{name}: {text}");
        for word in ["\nother", "written", "sandbox guard", "\"calls\""] {
            assert!(!text.contains(word), "{name}: {word}: {text}");
        }
        assert_eq!(fs::read(&own).expect("it is there"), before, "{name}");
        assert!(
            other.exists() && state.join("log/pith.log").exists() && state.join("plugin-use.jsonl").exists(),
            "{name}"
        );
        assert!(fs::symlink_metadata(state.join("spool")).expect("it is there").is_dir(), "{name}");
    }
}

/// Hostile case 25: a plugin that may run programs and was granted no folder reads none through them.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugins_programs_reach_what_the_plugin_was_granted() {
    let shell = pith_bundle::shipped().iter().find(|plugin| plugin.name == "shell").expect("it ships");
    for (name, flags) in means() {
        for (grants, reads, writes) in [
            (&["tools", "process=bash"][..], false, false),
            (&["tools", "process=bash", "files=workspace:r"], true, false),
            (&["tools", "process=bash", "files=workspace:rw"], true, true),
        ] {
            let home = home();
            home.write(".env", CANARY);
            let git = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm first";
            assert!(home.bare("sh").args(["-c", git]).status().expect("sh").success());
            let work = home.work();
            let look = format!(
                "git show HEAD:.env; cat .env {w}/.env; git -C {w} show HEAD:.env; echo w > {w}/new; echo w > ${{TMPDIR:-/tmp}}/t && echo all tried",
                w = work.display()
            );
            let model = home.scripted(calls(&[&look]));
            let mut options =
                Options::at(Places::beneath(&home.root().join("pith")), &work, home.environment().iter().collect());
            options.places.cache = target_folder().join("tmp/pith-cache/pith");
            options.model = Some(model);
            options.shipped = vec![ShippedPlugin { name: "shell", component: shell.component, grants }];
            options.sandbox_mask.bubblewrap = flags.is_empty();
            let pith = pith_runtime::start(options).await.unwrap_or_else(|error| panic!("{error}"));
            pith.prompt(vec![Content::text("go")]).await.expect("it runs");
            let said = pith.session().project();
            let text: String = said
                .messages
                .iter()
                .filter_map(|message| match message.as_ref() {
                    Message::ToolResult(result) => Some(result),
                    _ => None,
                })
                .flat_map(|result| result.content.iter().filter_map(Content::as_text))
                .collect();
            assert!(text.contains("all tried"), "{name}, {grants:?}: {text}");
            assert_eq!(text.contains(CANARY), reads, "{name}, {grants:?}: {text}");
            assert_eq!(work.join("new").exists(), writes, "{name}, {grants:?}: {text}");
        }
    }
}

#[test]
fn sockets_of_agents_are_out_of_reach() {
    for (name, flags) in means() {
        // As agents, buses and container engines listen: a socket in /tmp, and one in the home folder.
        let place = tempfile::Builder::new().prefix("ssh-").tempdir_in("/tmp").expect("a folder");
        let socket = place.path().join("agent.1");
        let _agent = UnixListener::bind(&socket).expect("it listens");
        let bus = format!("unix:path={}", socket.display());
        let home = home().with("SSH_AUTH_SOCK", &socket.to_string_lossy()).with("DBUS_SESSION_BUS_ADDRESS", &bus);
        let engine = home.root().join("home/.docker/run/docker.sock");
        fs::create_dir_all(engine.parent().expect("a parent")).expect("a folder");
        let _engine = UnixListener::bind(&engine).expect("it listens");
        let probe = format!(
            "env | grep -e SSH_AUTH -e DBUS; for s in {} {}; do python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print(\"reached\")' $s; done; \
             ssh-add -l; echo all tried",
            socket.display(),
            engine.display()
        );
        let run = bash(&home, flags, &[&probe]);
        let (text, _) = run.result("c0");
        assert!(text.contains("all tried") && !text.contains("reached"), "{name}: {text}");
        assert!(!text.contains("SSH_AUTH_SOCK=") && !text.contains("DBUS_SESSION"), "{name}: {text}");
    }
}

#[test]
fn all_of_it_ends_with_pith_however_that_ends() {
    let (name, flags) = means()[0];
    if name != "bubblewrap" {
        return;
    }
    let home = home();
    let held = Held::new(&home);
    let model = home.scripted(calls(&["exec 9>held; setsid sleep 300 & touch ready; wait"]));
    let mut args = vec!["--mode", "json", "--model", &model];
    args.extend(flags);
    let running = home.start(&[&args[..], &["go"]].concat());
    let until = Instant::now() + Duration::from_secs(30);
    while !home.work().join("ready").exists() {
        assert!(Instant::now() < until, "the command did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    running.signal(Signal::KILL);
    held.ends();
}

#[test]
fn off_is_off_and_is_said() {
    const SAID: &str = "note: the sandbox is off";
    let home = home();
    let look = calls(&["cat ~/.config/pith/settings.toml"]);
    let run = home.play(look.clone(), &["--sandbox", "off"]).ok().says(SAID);
    assert!(run.result("c0").0.contains(CANARY), "{run}");
    home.beside("home/.config/pith/settings.toml", format!("# {CANARY}\nsandbox = \"off\"\n"));
    home.play(look.clone(), &[]).ok().says(SAID);
    if means().is_empty() {
        return;
    }
    let run = home.play(look, &["--sandbox", "guard"]).ok();
    assert!(!run.stderr.contains(SAID) && !run.result("c0").0.contains(CANARY), "{run}");
    // Where no plugin runs programs nothing is said.
    let run =
        home.pith(&["--sandbox", "off", "--no-plugins", "--model", &home.scripted(json!([{ "text": "hi" }])), "go"]);
    assert!(!run.ok().stderr.contains(SAID));
    home.pith(&["--sandbox", "none", "-p", "x"]).exits(2).says("guard");
}

#[test]
fn a_machine_without_means_runs_nothing_and_says_why() {
    for abi in 0..6 {
        let home = home();
        let mask = format!("landlock={abi}");
        let flags = [&LANDLOCK[..], &["--sandbox-mask", &mask]].concat();
        let run = bash(&home, &flags, &["touch ran"]);
        let (text, is_error) = run.result("c0");
        assert!(is_error && text.contains("bubblewrap") && text.contains("--sandbox off"), "{abi}: {text}");
        assert!(!home.work().join("ran").exists());
    }
}

#[test]
fn what_these_means_do_not_give_is_an_event() {
    for (name, flags) in means() {
        let run = bash(&home(), flags, &["true"]);
        let notices: Vec<Value> = run.events().into_iter().filter(|event| event["type"] == "notice").collect();
        if name == "Landlock" {
            let message = notices[0]["message"].as_str().expect("words");
            assert!(message.contains("Landlock") && message.contains("install bubblewrap"), "{message}");
        } else {
            assert!(notices.is_empty(), "{notices:?}");
        }
        assert!(notices.len() < 2);
    }
}

/// A model that starts Pith in Pith, to get round the outer one.
#[test]
fn pith_in_pith_lies_within_the_outer_sandbox() {
    for (name, flags) in means() {
        let home = home();
        let inner =
            json!({ "replies": calls(&["cat ~/.config/pith/settings.toml; ls ~/.local/share/pith; echo inner ran"]) });
        home.write("inner.json", inner.to_string());
        // Where commands see it wherever it was built.
        let pith = home.work().join("inner-pith");
        fs::copy(pith_binary(), &pith).expect("a copy");
        // With places of its own, where it may write: the user's it cannot even read. Its plugins are compiled anew.
        let command = |more: &str| {
            format!(
                "T=${{TMPDIR:-/tmp}}; for p in CONFIG DATA STATE CACHE; do export XDG_${{p}}_HOME=$T/$p; done; \
                 {} --no-session --mode json --model scripted/inner.json {more} go",
                pith.display()
            )
        };
        let continued = format!("{} -c -p hi --model scripted/inner.json", pith.display());
        let run = bash(&home, flags, &[&command(""), &command("--sandbox off"), &continued]);
        for id in ["c0", "c1"] {
            let (text, _) = run.result(id);
            assert!(text.contains("inner ran") || text.contains("programs are not run"), "{name}, {id}: {text}");
            assert!(!text.contains(CANARY), "{name}, {id}: {text}");
        }
        assert!(run.result("c1").0.contains("inner ran"), "{name}: {run}");
        assert!(run.result("c2").1, "there is nothing to continue: {name}: {run}");
    }
}

/// A program that makes the sandbox is not taken from where commands write.
#[test]
fn a_planted_bwrap_is_not_used() {
    let home = home();
    let bin = home.work().join("bin");
    let planted = home.write("bin/bwrap", "#!/bin/sh\necho planted >> \"$HOME/planted\"\nexit 0\n");
    fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("the owner may");
    let path = format!("{}:{}", bin.display(), home.environment()["PATH"]);
    let home = home.with("PATH", &path);
    let run = bash(&home, &[], &["echo ran"]);
    assert!(!home.root().join("home/planted").exists(), "{run}");
}
