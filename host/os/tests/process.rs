//! Real processes: how they start, what they say, how they and their groups end.
#![cfg(unix)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pith_os::{
    Background, Child, Chunk, Command, Output, ProcessError, SPOOL_FILE_LIMIT_BYTES, STDIN_PENDING_BYTES, SpoolDir, run,
};
use tokio_util::sync::CancellationToken;

const KEEP_BYTES: usize = 64 * 1024;

fn shell(script: &str) -> Command {
    Command {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: "/".into(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        ..Command::default()
    }
}

struct Place {
    // Held: dropping it removes the folder.
    _dir: tempfile::TempDir,
    spool: SpoolDir,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let spool = SpoolDir::new(dir.path().join("spool")).unwrap();
    Place { _dir: dir, spool }
}

async fn finish(command: Command) -> Output {
    run(command, KEEP_BYTES, &place().spool, &CancellationToken::new(), None).await.unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Whether a process runs; one that is dead and waits for its parent does not.
fn runs(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X'])
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !condition() {
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn all(child: &mut Child) -> (Vec<u8>, pith_os::Exit) {
    let mut out = Vec::new();
    loop {
        match child.next(Some(Duration::from_secs(10))).await.unwrap() {
            Chunk::Stdout(bytes) | Chunk::Stderr(bytes) => out.extend(bytes),
            Chunk::Exit(exit) => return (out, exit),
        }
    }
}

#[tokio::test]
async fn exit_codes_signals_and_streams() {
    let output = finish(shell("echo out; echo err >&2; exit 7")).await;
    assert_eq!((output.exit.code, output.exit.signal, output.exit.timed_out), (Some(7), None, false));
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("out\n", "err\n"));
    assert_eq!((output.stdout_bytes, output.stderr_bytes), (4, 4));
    assert_eq!(output.exit.spool, None);
    assert!(!output.spool_cut && !output.cancelled);

    let output = finish(shell("kill -TERM $$")).await;
    assert_eq!((output.exit.code, output.exit.signal), (None, Some(15)));
}

#[tokio::test]
async fn merged_streams_keep_their_order() {
    let script = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done";
    let output = finish(Command { merge_stderr: true, ..shell(script) }).await;
    let expected: String = (0..200).map(|i| format!("o{i}\ne{i}\n")).collect();
    assert_eq!(text(&output.stdout), expected);
    assert!(output.stderr.is_empty());
}

#[tokio::test]
async fn a_timeout_kills_grandchildren() {
    let start = Instant::now();
    let timeout = Some(Duration::from_millis(300));
    let output = finish(Command { timeout, ..shell("sleep 1000 & echo $!; wait") }).await;
    assert!(output.exit.timed_out);
    assert_eq!(output.exit.signal, Some(9));
    assert!(start.elapsed() < Duration::from_secs(2));
    let grandchild: i32 = text(&output.stdout).trim().parse().unwrap();
    until("the grandchild is gone", || !runs(grandchild)).await;
}

#[tokio::test]
async fn a_flood_hides_no_timeout() {
    let timeout = Some(Duration::from_millis(300));
    let start = Instant::now();
    let output = finish(Command { timeout, ..shell("yes & yes >&2") }).await;
    assert!(output.exit.timed_out && output.stdout_bytes > 0 && output.stderr_bytes > 0);
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_daemon_that_holds_the_pipe_does_not_hang_the_run() {
    let start = Instant::now();
    let output = finish(shell("sleep 1000 & echo $!")).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(output.exit.code, Some(0));
    let daemon: i32 = text(&output.stdout).trim().parse().unwrap();
    until("the background job is gone", || !runs(daemon)).await;

    // One that left the session cannot be killed with it, but does not hold us either; nor does one that goes on talking.
    for script in ["setsid sleep 20 & echo $!", "setsid sh -c 'while :; do echo x; sleep 0.02; done' & echo $!"] {
        let start = Instant::now();
        let output = finish(shell(script)).await;
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        let away: i32 = text(&output.stdout).lines().next().unwrap().parse().unwrap();
        let _ = rustix::process::kill_process_group(
            rustix::process::Pid::from_raw(away).unwrap(),
            rustix::process::Signal::KILL,
        );
    }
}

#[tokio::test]
async fn what_was_written_before_the_end_is_all_there() {
    // More than a pipe holds, the last of it written just before the end, read by someone slow.
    let mut child = Child::spawn(shell("head -c 300000 /dev/zero; sleep 100 & exit 3")).unwrap();
    let mut count = 0;
    let exit = loop {
        match child.next(None).await.unwrap() {
            Chunk::Stdout(bytes) => count += bytes.len(),
            Chunk::Stderr(bytes) => panic!("{bytes:?}"),
            Chunk::Exit(exit) => break exit,
        }
        // Blocks the runtime's only thread on purpose: its idea of what is readable is stale afterwards.
        std::thread::sleep(Duration::from_millis(120));
    };
    assert_eq!((count, exit.code), (300_000, Some(3)));
}

#[tokio::test]
async fn a_flood_is_bounded_in_memory_and_spooled() {
    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
    let place = place();
    let (before, mut most, mut seen) = (resident_kib(), 0, 0_u64);
    let mut watch = |chunk: &Chunk| {
        if let Chunk::Stdout(bytes) = chunk {
            seen += bytes.len() as u64;
            if seen.is_multiple_of(16) {
                most = most.max(resident_kib());
            }
        }
    };
    let script = "head -c 104857600 /dev/zero; echo; echo the end";
    let output =
        run(shell(script), KEEP_BYTES, &place.spool, &CancellationToken::new(), Some(&mut watch)).await.unwrap();
    let total = 104_857_600 + 9;
    assert_eq!((output.stdout_bytes, seen), (total, total));
    assert_eq!(output.stdout.len(), KEEP_BYTES);
    assert!(output.stdout.ends_with(b"\0\nthe end\n"));
    assert!(output.spool_cut);
    assert!(most.saturating_sub(before) < 32 * 1024, "{before} -> {most} KiB");
    // Its beginning and its end are kept.
    let kept = std::fs::read(output.exit.spool.unwrap()).unwrap();
    assert!((SPOOL_FILE_LIMIT_BYTES / 2..=SPOOL_FILE_LIMIT_BYTES).contains(&(kept.len() as u64)), "{}", kept.len());
    assert!(kept.ends_with(b"\0\nthe end\n"));
}

#[tokio::test]
async fn a_long_output_is_whole_in_the_spool() {
    let place = place();
    let script = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done";
    let output = run(shell(script), 1000, &place.spool, &CancellationToken::new(), None).await.unwrap();
    let expected: String = (0..3000).map(|i| format!("line {i}\n")).collect();
    let spool = output.exit.spool.unwrap();
    assert!(spool.starts_with(place.spool.path()));
    assert_eq!(std::fs::read_to_string(spool).unwrap(), expected);
    assert_eq!(text(&output.stdout), &expected[expected.len() - 1000..]);
    assert!(!output.spool_cut);
}

#[tokio::test]
async fn standard_input_is_given_and_ends() {
    let stdin: Vec<u8> = (0..1_000_000_u32).map(|i| i as u8).collect();
    let command = Command { stdin: stdin.clone(), ..shell("cat") };
    let output = run(command, 2_000_000, &place().spool, &CancellationToken::new(), None).await.unwrap();
    assert!(output.stdout == stdin);
    // Nobody reads it: no error.
    assert_eq!(finish(Command { stdin, ..shell("exit 4") }).await.exit.code, Some(4));
    // None at all is the null device, never the terminal and not a pipe.
    let output = finish(shell("readlink /proc/self/fd/0; cat")).await;
    assert_eq!(text(&output.stdout), "/dev/null\n");
}

#[tokio::test]
async fn a_child_is_written_to_while_it_talks() {
    let mut child =
        Child::spawn(Command { stdin: b"one\n".to_vec(), stdin_open: true, ..shell("cat; exit 5") }).unwrap();
    let wait = Some(Duration::from_secs(5));
    assert_eq!(child.next(wait).await.unwrap(), Chunk::Stdout(b"one\n".to_vec()));
    assert!(matches!(child.next(Some(Duration::from_millis(20))).await, Err(ProcessError::Limit)));
    child.write(b"two\n").unwrap();
    assert_eq!(child.next(wait).await.unwrap(), Chunk::Stdout(b"two\n".to_vec()));
    child.close_stdin();
    assert!(matches!(child.write(b"three"), Err(ProcessError::StdinClosed)));
    for _ in 0..3 {
        assert!(matches!(child.next(wait).await.unwrap(), Chunk::Exit(exit) if exit.code == Some(5)));
    }
}

#[tokio::test]
async fn what_a_child_leaves_unread_is_bounded() {
    let mut child = Child::spawn(Command { stdin_open: true, ..shell("sleep 1000") }).unwrap();
    let block = vec![0; STDIN_PENDING_BYTES / 4];
    let taken = (0..100).take_while(|_| child.write(&block).is_ok()).count();
    assert!((4..6).contains(&taken), "{taken}");
    assert!(matches!(child.write(&block), Err(ProcessError::Limit)));
    let pid = child.id();
    child.close().await;
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[tokio::test]
async fn the_environment_and_the_folder_are_exactly_those_given() {
    let dir = tempfile::tempdir().unwrap();
    let env = vec![(OsString::from("ONE"), OsString::from("1=1")), ("TWO".into(), "".into())];
    let command = Command { program: "/usr/bin/env".into(), args: vec![], env, cwd: dir.path().into(), ..shell("") };
    let output = finish(command).await;
    let mut lines: Vec<_> = text(&output.stdout).lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["ONE=1=1", "TWO="]);
    let output = finish(Command { cwd: dir.path().into(), ..shell("pwd -P") }).await;
    assert_eq!(Path::new(text(&output.stdout).trim()), dir.path().canonicalize().unwrap());
}

#[tokio::test]
async fn a_session_of_its_own_without_terminal_descriptors_or_core_dumps() {
    // Not close-on-exec: what a careless library would leave open.
    let leak = rustix::io::dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
    // It waits for a word: the limits are set just after the start where the process itself is not hardened.
    let script = "read go; cat /proc/$$/stat; ulimit -c; ulimit -Hc; exec ls /proc/self/fd";
    let mut child = Child::spawn(Command { stdin_open: true, ..shell(script) }).unwrap();
    child.write(b"go\n").unwrap();
    let id = child.id().to_string();
    let (out, exit) = all(&mut child).await;
    drop(leak);
    assert_eq!(exit.code, Some(0));
    let lines: Vec<&str> = text(&out).lines().collect();
    let fields: Vec<&str> = lines[0].rsplit(')').next().unwrap().split_whitespace().collect();
    let (group, session, terminal) = (fields[2], fields[3], fields[4]);
    assert_eq!((group, session, terminal), (id.as_str(), id.as_str(), "0"));
    assert_eq!(&lines[1..3], ["0", "0"], "core limits");
    // The fourth is the folder that `ls` itself reads.
    assert_eq!(&lines[3..], ["0", "1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_kills_the_group_and_leaves_no_zombie() {
    for at_once in [true, false] {
        let mut child = Child::spawn(shell("sleep 1000 & echo $!; wait")).unwrap();
        let Chunk::Stdout(line) = child.next(Some(Duration::from_secs(5))).await.unwrap() else { panic!("no line") };
        let (leader, grandchild) = (child.id(), text(&line).trim().parse::<i32>().unwrap());
        assert!(runs(leader) && runs(grandchild));
        if at_once {
            drop(child);
        } else {
            // A run that is dropped in its middle.
            drop(Background::new(child, place().spool.create("x").unwrap(), Instant::now(), ()));
        }
        until("both are gone", || !runs(leader) && !runs(grandchild)).await;
        until("no zombie is left", || !Path::new(&format!("/proc/{leader}")).exists()).await;
    }
}

#[tokio::test]
async fn a_run_leaves_no_zombie_and_can_be_cancelled() {
    let cancel = CancellationToken::new();
    let mut said = Vec::new();
    let mut stop_at_first = |chunk: &Chunk| {
        if let Chunk::Stdout(bytes) = chunk {
            said.extend_from_slice(bytes);
            cancel.cancel();
        }
    };
    let start = Instant::now();
    let script = "echo $$; sleep 1000 & wait";
    let output = run(shell(script), KEEP_BYTES, &place().spool, &cancel, Some(&mut stop_at_first)).await.unwrap();
    assert!(output.cancelled && !output.exit.timed_out);
    assert_eq!(output.exit.signal, Some(9));
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(output.stdout, said);
    assert!(!Path::new(&format!("/proc/{}", text(&said).trim())).exists());
}

#[tokio::test]
async fn what_runs_in_the_background_says_how_it_ended() {
    let place = place();
    let start = |command: Command| {
        let file = place.spool.create("job").unwrap();
        let path = file.path().to_path_buf();
        let child = Child::spawn(command).unwrap();
        (Background::new(child, file, Instant::now(), ()), path)
    };
    for (command, said, how) in [
        (shell("echo first; sleep 0.1; echo last >&2; exit 6"), "first\nlast\n", "[exited with code 6 after 0."),
        (shell("printf open; kill -SEGV $$"), "open\n", "[ended by signal 11 after 0."),
        (
            Command { timeout: Some(Duration::from_millis(300)), ..shell("echo late; sleep 1000") },
            "late\n",
            "[timed out after 0.",
        ),
    ] {
        let (job, path) = start(command);
        until("it has ended", || !job.is_running()).await;
        let text = std::fs::read_to_string(path).unwrap();
        let last = text.strip_prefix(said).unwrap_or_else(|| panic!("{text}"));
        assert!(last.starts_with(how) && last.ends_with("]\n") && last.lines().count() == 1, "{text}");
        assert!(!job.stop().await);
    }
    let (job, path) = start(shell("echo started; sleep 1000 & wait"));
    until("it has started", || std::fs::read(&path).unwrap() == b"started\n").await;
    assert!(job.is_running() && job.stop().await);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("started\n[stopped after ") && text.ends_with(" s]\n"), "{text}");
}

/// A process that ends drops its runtime in the background: what it left running must be gone without the runtime's help.
#[test]
fn what_runs_in_the_background_ends_with_its_handle_and_needs_no_runtime_for_it() {
    let place = place();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (job, path) = runtime.block_on(async {
        let file = place.spool.create("job").unwrap();
        let path = file.path().to_path_buf();
        let child = Child::spawn(shell("sleep 1000 & echo $! $$; wait")).unwrap();
        let job = Background::new(child, file, Instant::now(), ());
        until("it has started", || std::fs::read_to_string(&path).unwrap().ends_with('\n')).await;
        (job, path)
    });
    // Nobody drives the runtime here.
    drop(job);
    let text = std::fs::read_to_string(&path).unwrap();
    let (pids, end) = text.split_once('\n').unwrap();
    assert!(end.starts_with("[ended with the session after ") && end.ends_with("]\n"), "{text}");
    let began = Instant::now();
    for pid in pids.split(' ') {
        while runs(pid.parse().unwrap()) {
            assert!(began.elapsed() < Duration::from_secs(10), "{pid} runs on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let start = |command: Command| Child::spawn(command).err().unwrap();
    assert!(matches!(start(Command { program: "sh".into(), ..shell("") }), ProcessError::Invalid { .. }));
    assert!(matches!(start(Command { cwd: ".".into(), ..shell("") }), ProcessError::Invalid { .. }));
    assert!(matches!(start(Command { args: vec!["a\0b".into()], ..shell("") }), ProcessError::Invalid { .. }));
    for name in ["", "A=B", "A\0"] {
        let env = vec![(OsString::from(name), OsString::from("x"))];
        assert!(matches!(start(Command { env, ..shell("") }), ProcessError::Invalid { .. }));
    }
    let nowhere = PathBuf::from("/nowhere/at/all");
    assert!(matches!(start(Command { cwd: nowhere.clone(), ..shell("") }), ProcessError::Folder { .. }));
    assert!(matches!(start(Command { cwd: "/bin/sh".into(), ..shell("") }), ProcessError::Folder { .. }));
    let error = start(Command { program: nowhere.clone(), ..shell("") });
    assert!(
        matches!(&error, ProcessError::Spawn { program, source } if *program == nowhere && source.kind() == std::io::ErrorKind::NotFound)
    );
}
