//! Real children in the sandbox `guard`, by each means that the machine has: what they try fails, what they work with works.
//!
//! Bubblewrap is tested where it works. `PITH_REQUIRE_SANDBOX=1`, as in CI, makes a machine without it, without Landlock or without python3 a
//! failure.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pith_os::{
    Command, Output, ProcessError, Sandbox, SandboxBackend, SandboxError, SandboxFolder, SandboxGap, SandboxGround,
    SandboxLevel, SandboxMachine, SpoolDir, run,
};
use tokio_util::sync::CancellationToken;

const CANARY: &str = "canary-of-the-store";

/// A user's place, outside of `/tmp`: a home with reserved folders in it, a working folder, a temporary one.
struct Yard {
    dir: tempfile::TempDir,
    sandbox: Sandbox,
    env: Vec<(OsString, OsString)>,
}

impl Yard {
    fn new(mask: SandboxMachine) -> Self {
        Self::with(mask, &[])
    }

    fn with(mask: SandboxMachine, more: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        // The probe is this program, wherever it was built.
        let own = std::env::current_exe().unwrap();
        let own = own.parent().unwrap().to_owned();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for folder in ["home/.config/pith", "home/.local/share/pith/sessions", "work", "temp", "state/spool/own"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("home/.config/pith/settings.toml"), CANARY).unwrap();
        fs::write(at("home/.local/share/pith/sessions/one.jsonl"), CANARY).unwrap();
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let mut env: Vec<(OsString, OsString)> = vec![("PATH".into(), path), ("HOME".into(), at("home").into())];
        env.extend(more.iter().map(|(name, value)| (name.into(), value.into())));
        let ground = SandboxGround {
            reserved: vec![at("home/.config/pith"), at("home/.local/share/pith"), at("home/.cache/pith")],
            held: vec![at("state")],
            work: Some(at("work")),
            kept: vec![at("home"), own],
            writable: vec![at("work")],
            temp: Some(at("temp")),
            environment: env.clone(),
        };
        let sandbox = Sandbox::new(SandboxLevel::Guard, ground, mask, None);
        Self { dir, sandbox, env }
    }

    fn at(&self, place: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(place)
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        Command {
            program: program.to_owned(),
            args: args.iter().map(OsString::from).collect(),
            cwd: self.at("work"),
            env: self.env.clone(),
            merge_stderr: true,
            timeout: Some(Duration::from_secs(60)),
            sandbox: Some(self.sandbox.clone()),
            ..Command::default()
        }
    }

    async fn finish(&self, command: Command) -> Output {
        let spool = SpoolDir::new(self.at("spool")).unwrap();
        run(command, 2 << 20, &spool, &CancellationToken::new(), None).await.unwrap()
    }

    /// What a script says.
    async fn sh(&self, script: &str) -> String {
        let output = self.finish(self.command(Path::new("/bin/sh"), &["-c", script])).await;
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What this test program says to `probe`, run as a child.
    async fn probe(&self, what: &str) -> String {
        let own = std::env::current_exe().unwrap();
        let mut command = self.command(&own, &["--exact", "probe", "--nocapture"]);
        command.env.push(("PITH_PROBE".into(), what.into()));
        let output = self.finish(command).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.split_once("probed: "));
        line.unwrap_or_else(|| panic!("no answer: {text}")).1.to_owned()
    }
}

/// Not a test when called by one: a child of the sandbox that tries one thing.
#[test]
fn probe() {
    let Ok(what) = std::env::var("PITH_PROBE") else { return };
    let (kind, at) = what.split_once(' ').unwrap();
    let tried = match kind {
        "unix" => UnixStream::connect(at).map(|_| ()),
        "abstract" => {
            SocketAddr::from_abstract_name(at).and_then(|address| UnixStream::connect_addr(&address)).map(|_| ())
        }
        "tcp" => std::net::TcpStream::connect(at).map(|_| ()),
        "pair" => UnixStream::pair().map(|_| ()),
        other => panic!("{other}"),
    };
    match tried {
        Ok(()) => writeln!(std::io::stdout(), "probed: reached").unwrap(),
        Err(error) => writeln!(std::io::stdout(), "probed: {error}").unwrap(),
    }
}

/// Whether the machine is one on which everything has to be there.
fn is_demanding() -> bool {
    std::env::var_os("PITH_REQUIRE_SANDBOX").is_some()
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(found || !is_demanding(), "there is no {program}, and PITH_REQUIRE_SANDBOX is set");
    found
}

const ONLY_LANDLOCK: SandboxMachine = SandboxMachine { bubblewrap: false, landlock_abi: u32::MAX };

/// A yard for each means that works here.
fn yards(more: &[(&str, &str)]) -> Vec<(SandboxBackend, Yard)> {
    let mut yards = Vec::new();
    for (mask, backend) in
        [(SandboxMachine::UNMASKED, SandboxBackend::Bubblewrap), (ONLY_LANDLOCK, SandboxBackend::Landlock)]
    {
        let yard = Yard::with(mask, more);
        match yard.sandbox.in_force() {
            Ok(in_force) if in_force.backend == backend => yards.push((backend, yard)),
            other => assert!(!is_demanding(), "{backend} is not there: {other:?} (apt-get install bubblewrap?)"),
        }
    }
    yards
}

/// A process outside that must not be reached. Killed with the handle.
struct Victim(std::process::Child);

impl Victim {
    fn new() -> Self {
        Self(std::process::Command::new("sleep").arg("300").env("SECRET", CANARY).spawn().unwrap())
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn reserved_folders_are_neither_read_nor_written_nor_replaced() {
    for (backend, yard) in yards(&[]) {
        let (config, data) = (yard.at("home/.config/pith"), yard.at("home/.local/share/pith"));
        std::os::unix::fs::symlink(&config, yard.at("work/link")).unwrap();
        let before = fs::metadata(&config).unwrap().ino();
        let top = yard.at("");
        let top = top.to_str().unwrap().trim_end_matches('/');
        // Each line is a way somebody thought of. None may print the canary or leave a trace.
        let tries = format!(
            "C={c}; D={d}; T={top}
             cat $C/settings.toml $D/sessions/one.jsonl; grep -r canary $C $D; ls -A $C $D
             cat link/settings.toml; ls -A link/; cat ../home/.config/pith/settings.toml; cd $C && cat settings.toml; cd -
             chmod -R 777 $C $D; cat $C/settings.toml
             echo bad > $C/settings.toml; echo bad > $C/grants.toml; mkdir $C/x; echo bad > $D/sessions/one.jsonl
             rm -rf $C $D; rmdir $C; mv $C $C.old; mkdir -p $C
             for way in home/.config home/.local/share home/.local home; do mv $T/$way $T/$way.old; done
             mv $T $T.old; mkdir -p $C && echo bad > $C/settings.toml
             ln $C/settings.toml hard; ln -T $C hard2
             umount $C; umount -l $C; mount -o remount,rw $C; mount --bind $T/work $C; mount -t tmpfs none $C
             unshare -Urm sh -c \"umount $C; umount -l $C; cat $C/settings.toml; mount --bind $T/home $T/work; cat $T/work/.config/pith/settings.toml\"
             unshare -m sh -c \"umount $C; cat $C/settings.toml\"
             nsenter -t 1 -m cat $C/settings.toml; nsenter -t {pid} -m cat $C/settings.toml
             for p in 1 {pid} self $PPID; do cat /proc/$p/root$C/settings.toml /proc/$p/cwd/../home/.config/pith/settings.toml; done
             for d in /dev/vd* /dev/sd* /dev/nvme* /dev/dm-*; do head -c 1 $d && echo device readable; done
             mknod disk b 254 0 && head -c 1 disk && echo device readable; rm -f disk",
            c = config.display(),
            d = data.display(),
            pid = std::process::id(),
        );
        let text = yard.sh(&format!("{tries}\necho all tried")).await;
        assert!(text.contains("all tried"), "{backend}: {text}");
        assert!(!text.contains(CANARY) && !text.contains("device readable"), "{backend}: {text}");
        assert_eq!(fs::metadata(&config).unwrap().ino(), before, "{backend}: another folder stands there");
        for file in [config.join("settings.toml"), data.join("sessions/one.jsonl")] {
            assert_eq!(fs::read_to_string(&file).unwrap(), CANARY, "{backend}: {}", file.display());
        }
        assert_eq!(fs::read_dir(&config).unwrap().count(), 1, "{backend}");
        assert_eq!(fs::read_dir(yard.at("home/.cache/pith")).unwrap().count(), 0, "{backend}: made to be held");
        for left in ["work/hard", "work/hard2"] {
            assert!(!yard.at(left).exists(), "{backend}: {left}");
        }
    }
}

#[tokio::test]
async fn processes_outside_are_neither_read_nor_signalled_nor_traced() {
    for (backend, yard) in yards(&[]) {
        let mut victim = Victim::new();
        let (host, other) = (std::process::id(), victim.0.id());
        let script = format!(
            "for p in {host} {other}; do tr '\\0' '\\n' < /proc/$p/environ; ls /proc/$p/fd; head -c 1 /proc/$p/mem; cat /proc/$p/maps; \
             kill -0 $p && echo signalled; kill -9 $p && echo signalled; done; echo tried"
        );
        let text = yard.sh(&script).await;
        assert!(
            text.contains("tried") && !text.contains(CANARY) && !text.contains("SECRET") && !text.contains("signalled"),
            "{backend}: {text}"
        );
        assert!(victim.lives(), "{backend}");
        if has("python3") {
            let script = format!(
                "python3 -c '
import ctypes
c = ctypes.CDLL(None, use_errno=True)
for p in ({host}, {other}):
    print(\"attach\", c.ptrace(16, p, 0, 0), \"seize\", c.ptrace(0x4206, p, 0, 0))
    print(\"pidfd\", c.syscall(434, p, 0))
'"
            );
            let text = yard.sh(&script).await;
            assert!(
                text.contains("attach -1 seize -1") && !text.contains("attach 0") && !text.contains("seize 0"),
                "{backend}: {text}"
            );
        }
        assert!(victim.lives(), "{backend}");
    }
}

#[tokio::test]
async fn agents_buses_and_engines_are_not_reached() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let place = place.path().canonicalize().unwrap();
    // As dbus-launch, ssh-agent and older engines do: in /tmp; as others do: anywhere.
    let in_temp = dir.path().join("agent");
    let (agent, bus, engine) = (place.join("a"), place.join("b"), place.join("d"));
    let (tmux, kitty) = (place.join("t"), place.join("k"));
    let _listening: Vec<UnixListener> = [&in_temp, &agent, &bus, &engine, &tmux, &kitty]
        .map(|path| UnixListener::bind(path).unwrap())
        .into_iter()
        .collect();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let name = format!("pith-test-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let (bus_address, engine_address) =
        (format!("unix:path={},guid=1", text(&bus)), format!("unix://{}", text(&engine)));
    let (terminals, window) = (format!("{},12,0", text(&tmux)), format!("unix:{}", text(&kitty)));
    let more = [
        ("SSH_AUTH_SOCK", agent.to_str().unwrap()),
        ("DBUS_SESSION_BUS_ADDRESS", &bus_address),
        ("DOCKER_HOST", &engine_address),
        ("TMUX", &terminals),
        ("KITTY_LISTEN_ON", &window),
    ];
    let runs = PathBuf::from(format!("/run/pith-test-{}.sock", std::process::id()));
    let in_run = UnixListener::bind(&runs).ok();
    for (backend, yard) in yards(&more) {
        fs::create_dir_all(yard.at("home/.docker/run")).unwrap();
        fs::create_dir_all(yard.at("home/.gnupg")).unwrap();
        fs::create_dir_all(yard.at("home/.ssh/open")).unwrap();
        let places = [".docker/run/docker.sock", ".gnupg/S.gpg-agent", ".ssh/me@host", ".ssh/open/me@other"];
        let in_home = places.map(|place| yard.at(&format!("home/{place}")));
        // A socket's path has at most 107 bytes.
        let _home: Vec<UnixListener> = in_home.iter().filter_map(|path| bind_from_its_folder(path)).collect();
        assert_eq!(_home.len(), in_home.len());
        for path in [&in_temp, &agent, &bus, &engine, &tmux, &kitty].into_iter().chain(in_run.as_ref().map(|_| &runs)) {
            assert!(UnixStream::connect(path).is_ok(), "the check itself: {}", path.display());
            let answer = yard.probe(&format!("unix {}", path.display())).await;
            assert_ne!(answer, "reached", "{backend}: {}", path.display());
        }
        for path in places {
            let from_home = yard.probe(&format!("unix ../home/{path}")).await;
            assert_ne!(from_home, "reached", "{backend}: {path}");
        }
        let gaps = &yard.sandbox.in_force().unwrap().gaps;
        if !gaps.contains(&SandboxGap::AbstractSockets) {
            assert_ne!(yard.probe(&format!("abstract {name}")).await, "reached", "{backend}");
        }
        assert_eq!(yard.probe("pair -").await, "reached", "{backend}: pairs of one's own stay");
        let env = yard.sh("env").await;
        for name in ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "TMUX", "KITTY"] {
            assert!(!env.contains(name), "{backend}: {env}");
        }
    }
    if in_run.is_some() {
        fs::remove_file(runs).unwrap();
    }
}

/// Binds by a short name; nobody else in this process depends on the folder that it is in meanwhile.
fn bind_from_its_folder(path: &Path) -> Option<UnixListener> {
    let folder = fs::File::open(path.parent()?).ok()?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
    UnixListener::bind(format!("/proc/self/fd/{number}/{}", path.file_name()?.to_str()?)).ok()
}

#[tokio::test]
async fn terminals_of_others_are_not_typed_into() {
    if !has("script") || !has("python3") {
        return;
    }
    for (backend, yard) in yards(&[]) {
        let mut terminal = std::process::Command::new("script")
            .args(["-qfc", "tty; sleep 60", "/dev/null"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut name = Vec::new();
        let mut byte = [0];
        while terminal.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            name.extend(byte);
        }
        let name = String::from_utf8(name).unwrap().trim().to_owned();
        assert!(name.starts_with("/dev/pts/"), "{name}");
        let script = format!(
            "python3 -c '
import fcntl, os
for name in (\"{name}\", \"/dev/tty\", \"/dev/console\", \"/dev/tty1\", \"/dev/pts/0\"):
    try:
        fd = os.open(name, os.O_RDWR | os.O_NOCTTY)
        os.write(fd, b\"written\")
        print(\"written\", name)
        fcntl.ioctl(fd, 0x5412, b\"x\")
        print(\"typed\", name)
    except OSError as error:
        print(name, error)
try:
    fcntl.ioctl(1, 0x5412, b\"x\")
    print(\"typed\", 1)
except OSError as error:
    print(error)
print(\"tried\")
'"
        );
        let text = yard.sh(&script).await;
        let _ = terminal.kill();
        let _ = terminal.wait();
        assert!(text.contains("tried") && !text.contains("written") && !text.contains("typed"), "{backend}: {text}");
    }
}

#[tokio::test]
async fn ordinary_work_goes_on() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    for (backend, yard) in yards(&[("ODD", "a b\nc"), ("LD_SHOWN", "to the child")]) {
        fs::write(yard.at("home/.profile"), "mine\n").unwrap();
        let text = yard
            .sh("pwd; echo $ODD; printenv LD_SHOWN; cat ~/.profile; echo changed > ~/.profile; mkdir -p deep/er; echo hi > deep/er/file; \
                 cat < deep/er/file | tr h H; echo to stderr >&2; cat /etc/hostname > /dev/null && echo etc; echo x > /dev/null; \
                 head -c 3 /dev/urandom | wc -c; echo via > /dev/stdout; ls /proc/self/fd | wc -l; id -u")
            .await;
        let uid = rustix::process::getuid().as_raw();
        let work = yard.at("work");
        let expected = format!("{}\na b c\nto the child\nmine\nHi\nto stderr\netc\n3\nvia\n4\n{uid}\n", work.display());
        assert_eq!(text, expected, "{backend}");
        assert_eq!(fs::read_to_string(yard.at("home/.profile")).unwrap(), "changed\n");
        assert_eq!(fs::read_to_string(yard.at("work/deep/er/file")).unwrap(), "hi\n");
        assert_eq!(yard.probe(&format!("tcp 127.0.0.1:{port}")).await, "reached", "{backend}");

        // One temporary folder for all calls of the session, and nobody else's.
        yard.sh("echo kept > ${TMPDIR:-/tmp}/between").await;
        assert_eq!(yard.sh("cat ${TMPDIR:-/tmp}/between").await, "kept\n", "{backend}");
        assert_eq!(fs::read_to_string(yard.at("temp/between")).unwrap(), "kept\n");

        if has("git") {
            let text = yard
                .sh("cd deep && git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && git log --format=%s")
                .await;
            assert_eq!(text, "first\n", "{backend}");
        }
        if has("python3") {
            let text = yard.sh("python3 -c 'import subprocess, multiprocessing, tempfile; tempfile.TemporaryFile(); print(subprocess.check_output([\"echo\", \"from python\"]).decode())'").await;
            assert_eq!(text.trim(), "from python", "{backend}");
        }
    }
}

#[tokio::test]
async fn codes_signals_streams_and_amounts_come_through() {
    for (backend, yard) in yards(&[]) {
        for (script, code, signal) in [
            ("exit 0", Some(0), None),
            ("exit 7", Some(7), None),
            ("exit 129", Some(129), None),
            ("exit 255", Some(255), None),
            ("kill -KILL $$", None, Some(9)),
            ("kill -SEGV $$", None, Some(11)),
            ("kill -TERM $$", None, Some(15)),
        ] {
            let exit = yard.finish(yard.command(Path::new("/bin/sh"), &["-c", script])).await.exit;
            assert_eq!((exit.code, exit.signal, exit.timed_out), (code, signal, false), "{backend}: {script}");
        }
        let order = yard.sh("i=0; while [ $i -lt 100 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done").await;
        assert_eq!(order, (0..100).map(|i| format!("o{i}\ne{i}\n")).collect::<String>(), "{backend}");
        let apart =
            Command { merge_stderr: false, ..yard.command(Path::new("/bin/sh"), &["-c", "echo o; echo e >&2"]) };
        let output = yard.finish(apart).await;
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"o\n"[..], &b"e\n"[..]), "{backend}");
        let much: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let cat = Command { stdin: much.clone(), ..yard.command(Path::new("/bin/cat"), &[]) };
        assert!(yard.finish(cat).await.stdout == much, "{backend}");
        // A program that is gone is not a program that failed.
        let none = yard.command(Path::new("/bin/none-of-this"), &[]);
        let spool = SpoolDir::new(yard.at("spool")).unwrap();
        let error = run(none, 100, &spool, &CancellationToken::new(), None).await.unwrap_err();
        assert!(
            matches!(error, ProcessError::Spawn { .. }) && error.to_string().contains("none-of-this"),
            "{backend}: {error}"
        );
    }
}

#[tokio::test]
async fn a_daemon_does_not_hang_its_call_and_a_timeout_ends_all() {
    for (backend, yard) in yards(&[]) {
        let began = Instant::now();
        let text = yard.sh("sleep 300 & setsid sleep 300 & echo started").await;
        assert_eq!(text, "started\n", "{backend}");
        assert!(began.elapsed() < Duration::from_secs(20), "{backend}: {:?}", began.elapsed());
        if backend != SandboxBackend::Bubblewrap {
            continue;
        }
        // One that made a session of its own, and tells whether it lives by what it writes.
        let script = "setsid sh -c 'while :; do date +%N > beat; sleep 0.02; done' & until [ -s beat ]; do sleep 0.01; done; sleep 300";
        let mut command = yard.command(Path::new("/bin/sh"), &["-c", script]);
        command.timeout = Some(Duration::from_secs(2));
        let output = yard.finish(command).await;
        assert!(output.exit.timed_out && output.exit.signal == Some(9), "{:?}", output.exit);
        let beat = || fs::read_to_string(yard.at("work/beat")).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        // Still: ten looks in a row show the same.
        loop {
            let first = beat();
            let mut looks = 0;
            while looks < 10 && beat() == first {
                tokio::time::sleep(Duration::from_millis(20)).await;
                looks += 1;
            }
            if looks == 10 {
                break;
            }
            assert!(Instant::now() < until, "the grandchild lives on");
        }
    }
}

#[tokio::test]
async fn without_means_nothing_runs_and_the_words_say_what_to_do() {
    for landlock_abi in 0..6 {
        let yard = Yard::new(SandboxMachine { bubblewrap: false, landlock_abi });
        let spool = SpoolDir::new(yard.at("spool")).unwrap();
        let command = yard.command(Path::new("/bin/sh"), &["-c", "echo ran > ran"]);
        let error = run(command, 100, &spool, &CancellationToken::new(), None).await.unwrap_err();
        assert!(matches!(error, ProcessError::Sandbox(SandboxError::Unavailable { .. })), "{error:?}");
        let text = error.to_string();
        for word in ["bubblewrap", "Landlock ABI 6", "--sandbox off"] {
            assert!(text.contains(word), "{text}");
        }
        assert!(!yard.at("work/ran").exists());
    }
    // Off is off, and says so.
    let mut yard = Yard::new(SandboxMachine::UNMASKED);
    yard.sandbox = Sandbox::off();
    assert_eq!(yard.sandbox.in_force().unwrap().backend, SandboxBackend::Nothing);
    let text = yard.sh("cat ~/.config/pith/settings.toml").await;
    assert_eq!(text, CANARY);
}

#[tokio::test]
async fn an_older_landlock_makes_a_gap_of_bubblewraps() {
    let yard = Yard::new(SandboxMachine { bubblewrap: true, landlock_abi: 5 });
    if let Ok(in_force) = yard.sandbox.in_force() {
        assert_eq!(in_force.backend, SandboxBackend::Bubblewrap);
        assert!(in_force.gaps.contains(&SandboxGap::AbstractSockets));
        assert_eq!(yard.sh("echo works").await, "works\n");
    }
}

/// A working folder and a home in `/tmp` are there although `/tmp` is the session's own.
#[tokio::test]
async fn work_in_temp_stays() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let outside = tempfile::Builder::new().prefix("others-").tempdir_in("/tmp").unwrap();
    for (backend, mut yard) in yards(&[]) {
        let top = dir.path().canonicalize().unwrap().join(backend.to_string().replace(' ', "-"));
        for folder in ["work/sub", "home", "own"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        let ground = SandboxGround {
            reserved: vec![top.join("data"), top.join("home/.config/pith")],
            held: vec![top.join("state")],
            work: Some(top.join("work")),
            kept: vec![top.join("home")],
            temp: Some(top.join("own")),
            environment: yard.env.clone(),
            ..SandboxGround::default()
        };
        let mask = if backend == SandboxBackend::Landlock { ONLY_LANDLOCK } else { SandboxMachine::UNMASKED };
        yard.sandbox = Sandbox::new(SandboxLevel::Guard, ground, mask, None);
        for round in 0..2 {
            let mut command =
                yard.command(Path::new("/bin/sh"), &["-c", "echo written > there; pwd; ls /tmp; mv ../../x . 2>&1"]);
            command.cwd = top.join("work/sub");
            let output = yard.finish(command).await;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.starts_with(&format!("{}\n", top.join("work/sub").display())), "{backend}, {round}: {text}");
            if backend == SandboxBackend::Bubblewrap {
                assert!(!text.contains("others-"), "{backend}: {text}");
            }
            assert_eq!(fs::read_to_string(top.join("work/sub/there")).unwrap(), "written\n");
            // Putting a link where the next child's folders will be.
            let name = dir.path().file_name().unwrap().to_str().unwrap();
            yard.sh(&format!("cd /tmp && mv {name} {name}.old; ln -s / {name}")).await;
        }
    }
    drop(outside);
}

/// What the host holds, and the working folder, are there as far as they were granted.
#[tokio::test]
async fn children_reach_what_was_granted() {
    for (backend, mut yard) in yards(&[]) {
        let session = yard.sandbox.clone();
        for (file, text) in [
            ("work/.env", CANARY),
            ("work/sub/file", "inner"),
            ("state/log", CANARY),
            ("state/spool/other", CANARY),
            ("state/spool/own/bash.log", "mine"),
        ] {
            fs::create_dir_all(yard.at(file).parent().unwrap()).unwrap();
            fs::write(yard.at(file), text).unwrap();
        }
        let top = yard.at("");
        let top = top.to_str().unwrap().trim_end_matches('/').to_owned();
        let look = format!(
            "T={top}; pwd; cat $T/work/.env; echo; cat $T/work/sub/file; echo; echo w > $T/work/new; echo w > $T/work/sub/new; \
             cat $T/state/log $T/state/spool/other; ls $T/state/spool; echo w > $T/state/log; echo w > $T/state/new; mkdir $T/state/spool/x; \
             cat $T/state/spool/own/bash.log; echo; echo w > $T/state/spool/own/bash.log; echo w > $T/state/spool/own/new; \
             mv $T/state $T/old; mv $T/work $T/work2; ln -s $T/home/.config/pith $T/state/spool/link; echo all tried"
        );
        let all = yard.at("");
        let folder = |place: &str, writable| SandboxFolder { path: all.join(place), writable };
        let (none, reads) = (vec![], vec![folder("work", false), folder("state/spool/own", false)]);
        let part = vec![folder("work", false), folder("work/sub", true)];
        for (granted, sees, writes_sub, spool) in
            [(none, false, false, false), (reads, true, false, true), (part, true, true, false)]
        {
            yard.sandbox = session.within(&granted);
            let text = yard.sh(&look).await;
            let what = format!("{backend}, {granted:?}: {text}");
            assert!(text.contains("all tried"), "{what}");
            assert_eq!(text.matches(CANARY).count(), usize::from(sees), "{what}");
            assert_eq!(text.contains("inner"), sees, "{what}");
            assert_eq!(text.contains("mine"), spool, "{what}");
            let start = text.lines().next().unwrap();
            assert_eq!(start == yard.at("work").to_str().unwrap(), sees, "{what}");
            assert_eq!(yard.at("work/sub/new").exists(), writes_sub, "{what}");
            for trace in
                ["work/new", "state/new", "state/spool/x", "state/spool/link", "state/spool/own/new", "old", "work2"]
            {
                assert!(!yard.at(trace).exists(), "{trace}: {what}");
            }
            assert_eq!(fs::read_to_string(yard.at("state/log")).unwrap(), CANARY, "{what}");
            assert_eq!(fs::read_to_string(yard.at("state/spool/own/bash.log")).unwrap(), "mine", "{what}");
            // Its temporary folder is there in any case.
            assert_eq!(yard.sh("echo t > ${TMPDIR:-/tmp}/t; cat ${TMPDIR:-/tmp}/t").await, "t\n", "{what}");
        }
        yard.sandbox = session.within(&[folder("work", true)]);
        fs::create_dir(yard.at("home/notes")).unwrap();
        yard.sh("echo w > new; echo w > $HOME/notes/new").await;
        assert!(yard.at("work/new").exists() && yard.at("home/notes/new").exists(), "{backend}");
    }
}

/// Root's children could make the kernel run programs outside. Nothing is written: a file that can be opened for writing is enough.
#[tokio::test]
async fn what_drives_the_machine_is_not_opened_for_writing() {
    for (backend, yard) in yards(&[]) {
        let tries = "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/vm/drop_caches /proc/sysrq-trigger \
             /proc/irq/default_smp_affinity /sys/kernel/uevent_helper /sys/power/state; do (: >> $f) 2>/dev/null && echo opened $f; done; \
             (: < /proc/kcore) 2>/dev/null && head -c 1 /proc/kcore | grep -q . && echo read; true";
        let within = format!(
            "{tries}; mount -o remount,rw /proc/sys; umount /proc/sys; unshare -Urm sh -c 'mount -o remount,bind,rw /proc/sys; umount -l /proc/sys; {tries}'; \
             unshare -Urmpf sh -c 'mkdir -p p; mount -t proc proc p && (: >> p/sys/kernel/core_pattern) && echo opened anew'; echo all tried"
        );
        let text = yard.sh(&within).await;
        assert!(
            text.contains("all tried") && !text.contains("opened") && !text.contains("read\n"),
            "{backend}: {text}"
        );
    }
}

/// As a home in which all of it lies in `/tmp`, Pith's folders beside the home folder: bubblewrap hides them, Landlock has to keep them.
#[tokio::test]
async fn reserved_folders_in_temp_are_kept_too() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    for (backend, mut yard) in yards(&[]) {
        let top = dir.path().canonicalize().unwrap().join(backend.to_string().replace(' ', "-"));
        for folder in ["work", "home", "config/pith", "data/pith", "state/pith/spool/own", "tmp/own"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        for file in ["config/pith/settings.toml", "data/pith/x", "state/pith/log"] {
            fs::write(top.join(file), CANARY).unwrap();
        }
        fs::write(top.join("state/pith/spool/own/file"), "mine").unwrap();
        let ground = SandboxGround {
            reserved: vec![top.join("config/pith"), top.join("data/pith"), top.join("cache/pith")],
            held: vec![top.join("state/pith")],
            work: Some(top.join("work")),
            kept: vec![top.join("home")],
            writable: vec![top.join("work")],
            temp: Some(top.join("tmp/own")),
            environment: yard.env.clone(),
        };
        let mask = if backend == SandboxBackend::Landlock { ONLY_LANDLOCK } else { SandboxMachine::UNMASKED };
        let granted = [("work", true), ("state/pith/spool/own", false)];
        let granted = granted.map(|(place, writable)| SandboxFolder { path: top.join(place), writable });
        yard.sandbox = Sandbox::new(SandboxLevel::Guard, ground, mask, None).within(&granted);
        let script = format!(
            "T={}; cat $T/config/pith/settings.toml $T/data/pith/x $T/state/pith/log; for d in config data cache state; do echo bad > $T/$d/pith/bad; \
             mv $T/$d $T/$d.old; rm -rf $T/$d; done; cat $T/state/pith/spool/own/file; echo bad > $T/state/pith/spool/own/file; echo w > $T/work/new; echo h > $T/home/new; \
             echo t > ${{TMPDIR:-/tmp}}/t; cat ${{TMPDIR:-/tmp}}/t; echo all tried",
            top.display()
        );
        let mut command = yard.command(Path::new("/bin/sh"), &["-c", &script]);
        command.cwd = top.join("work");
        let text = String::from_utf8_lossy(&yard.finish(command).await.stdout).into_owned();
        assert!(
            text.ends_with("t\nall tried\n") && text.contains("mine") && !text.contains(CANARY),
            "{backend}: {text}"
        );
        for place in ["config/pith", "data/pith", "cache/pith", "state/pith"] {
            assert!(top.join(place).is_dir() && !top.join(place).join("bad").exists(), "{backend}: {place}");
        }
        assert_eq!(fs::read_to_string(top.join("config/pith/settings.toml")).unwrap(), CANARY, "{backend}");
        assert_eq!(fs::read_to_string(top.join("state/pith/spool/own/file")).unwrap(), "mine", "{backend}");
        assert!(
            top.join("work/new").exists() && top.join("home/new").exists() && top.join("tmp/own/t").exists(),
            "{backend}: {text}"
        );
    }
}

#[tokio::test]
async fn what_is_decided_is_told_once() {
    let (tell, told) = std::sync::mpsc::channel();
    let told_to = std::sync::Mutex::new(tell);
    let on_decided: pith_os::OnDecided = Box::new(move |decided| {
        let _ = told_to.lock().unwrap().send(decided.cloned().map_err(Clone::clone));
    });
    let mask = SandboxMachine { bubblewrap: false, landlock_abi: 0 };
    let sandbox = Sandbox::new(SandboxLevel::Guard, SandboxGround::default(), mask, Some(on_decided));
    assert!(!sandbox.is_decided());
    assert!(sandbox.in_force().is_err() && sandbox.clone().in_force().is_err() && sandbox.is_decided());
    assert!(told.try_recv().unwrap().is_err());
    assert!(told.try_recv().is_err(), "once");
    std::io::stdout().flush().unwrap();
}
