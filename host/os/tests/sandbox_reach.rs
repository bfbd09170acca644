//! What children at `guard` reach past folders: system calls at others, keyrings, and links that lead out of reserved folders. By each means
//! that the machine has, with real children.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program};
use std::time::Duration;

use pith_os::{
    Command, ProcessError, Sandbox, SandboxBackend, SandboxError, SandboxGap, SandboxGround, SandboxLevel,
    SandboxMachine, SpoolDir, run,
};
use tokio_util::sync::CancellationToken;

const CANARY: &str = "canary";

/// Whether everything has to be there.
fn is_demanding() -> bool {
    std::env::var_os("PITH_REQUIRE_SANDBOX").is_some()
}

fn has_python() -> bool {
    let found = Program::new("python3").arg("--version").output().is_ok();
    assert!(found || !is_demanding(), "there is no python3, and PITH_REQUIRE_SANDBOX is set");
    found
}

/// A home with reserved folders, a working folder, a temporary one; outside of `/tmp`.
struct Yard {
    dir: tempfile::TempDir,
    sandbox: Sandbox,
}

impl Yard {
    /// One for each means; `lay` puts things there before anything is decided.
    fn each(lay: impl Fn(&Path)) -> Vec<(SandboxBackend, Self)> {
        let landlock = SandboxMachine { bubblewrap: false, ..SandboxMachine::UNMASKED };
        let means = [(SandboxBackend::Bubblewrap, SandboxMachine::UNMASKED), (SandboxBackend::Landlock, landlock)];
        let mut yards = Vec::new();
        for (backend, mask) in means {
            let dir = tempfile::tempdir_in("/var/tmp").unwrap();
            let top = dir.path().canonicalize().unwrap();
            for folder in ["home/.config/pith", "home/dots", "work", "scratch/tmp"] {
                fs::create_dir_all(top.join(folder)).unwrap();
            }
            lay(&top);
            let ground = SandboxGround {
                reserved: vec![top.join("home/.config/pith")],
                held: vec![top.join("scratch")],
                work: Some(top.join("work")),
                kept: vec![top.join("home")],
                temp: Some(top.join("scratch/tmp")),
                environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())],
                ..SandboxGround::default()
            };
            let sandbox = Sandbox::new(SandboxLevel::Guard, ground, mask, None);
            match sandbox.in_force() {
                Ok(in_force) if in_force.backend == backend => yards.push((backend, Self { dir, sandbox })),
                other => assert!(!is_demanding(), "{backend} is not there: {other:?}"),
            }
        }
        yards
    }

    fn at(&self, place: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(place)
    }

    async fn try_sh(&self, script: &str) -> Result<String, ProcessError> {
        let command = Command {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: self.at("work"),
            env: vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())],
            merge_stderr: true,
            timeout: Some(Duration::from_secs(60)),
            sandbox: Some(self.sandbox.clone()),
            ..Command::default()
        };
        let spool = SpoolDir::new(self.at("spool")).unwrap();
        let output = run(command, 1 << 20, &spool, &CancellationToken::new(), None).await?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn sh(&self, script: &str) -> String {
        self.try_sh(script).await.unwrap()
    }

    /// The results of system calls, a line each: `NAME RESULT`, the error's number below zero.
    async fn calls(&self, calls: &str) -> Vec<String> {
        let script = format!(
            "python3 - <<'END'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
NAMES = {{'prlimit': ({}), 'setaffinity': ({}), 'setscheduler': ({}), 'setparam': ({}), 'setattr': ({}), 'setpriority': ({}), 'ioprio': ({}),
  'migrate': ({}), 'move': ({}), 'madvise': ({}), 'keyctl': ({}), 'add_key': ({}), 'request_key': ({}), 'bpf': ({}), 'perf': ({}),
  'userfaultfd': ({}), 'io_uring': ({}), 'init_module': ({}), 'kexec': ({}), 'ioctl': ({})}}
def call(name, *args):
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(NAMES[name]), *args)
    print(name, result if result >= 0 else -ctypes.get_errno())
big = ctypes.create_string_buffer(b'\\xff' * 16 + b'\\0' * 112, 128)
{calls}
END",
            libc::SYS_prlimit64,
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setattr,
            libc::SYS_setpriority,
            libc::SYS_ioprio_set,
            libc::SYS_migrate_pages,
            libc::SYS_move_pages,
            libc::SYS_process_madvise,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_init_module,
            libc::SYS_kexec_load,
            libc::SYS_ioctl,
        );
        self.sh(&script).await.lines().map(str::to_owned).collect()
    }
}

/// A process outside. Killed with the handle.
struct Victim(Child);

impl Victim {
    fn new() -> Self {
        Self(Program::new("sleep").arg("300").spawn().unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Landlock holds signals and tracing; these go past it, and bubblewrap's children do not see the processes.
#[tokio::test]
async fn limits_priorities_and_processors_of_others_are_not_set() {
    if !has_python() {
        return;
    }
    for (backend, yard) in Yard::each(|_| {}) {
        let victim = Victim::new();
        let before = fs::read_to_string(format!("/proc/{}/limits", victim.0.id())).unwrap();
        for pid in [victim.0.id(), std::process::id()] {
            let calls = format!(
                "p = {pid}
param = (ctypes.c_int * 1)(0)
call('prlimit', p, 0, big, 0)
call('setaffinity', p, 8, big)
call('setscheduler', p, 3, param)
call('setparam', p, param)
call('setattr', p, big, 0)
call('setpriority', 0, p, 19)
call('setpriority', 1, p, 19)
call('setpriority', 2, {uid}, 19)
call('ioprio', 1, p, 3 << 13)
call('migrate', p, 64, big, big)
call('move', p, 0, 0, 0, 0, 0)
call('madvise', p, 0, 0, 0, 0)",
                uid = rustix::process::getuid().as_raw()
            );
            let results = yard.calls(&calls).await;
            assert_eq!(results.len(), 12, "{backend}: {results:?}");
            for result in &results {
                let number: i32 = result.rsplit(' ').next().unwrap().parse().unwrap();
                let denied = match backend {
                    SandboxBackend::Landlock => number == -libc::EPERM || result.starts_with("setpriority 0 "),
                    // Nobody is there, nor any other process of the user's.
                    _ => number < 0 || result == "setpriority 0",
                };
                assert!(denied, "{backend}: {results:?}");
            }
            if backend == SandboxBackend::Landlock {
                assert!(results.iter().all(|result| result.ends_with(" -1")), "{results:?}");
            }
        }
        assert_eq!(fs::read_to_string(format!("/proc/{}/limits", victim.0.id())).unwrap(), before, "{backend}");
        // One's own stay settable, and limits of others readable.
        let own = yard
            .calls("param = (ctypes.c_int * 1)(0)\ncall('setpriority', 0, 0, 5)\ncall('setscheduler', 0, 3, param)\ncall('prlimit', 0, 4, 0, big)\ncall('prlimit', os.getppid(), 4, 0, big)")
            .await;
        assert_eq!(own, ["setpriority 0", "setscheduler 0", "prlimit 0", "prlimit 0"], "{backend}");
        let text = yard.sh("nice -n 3 echo nice; (ulimit -n 64; ulimit -n); taskset -c 0 echo pinned").await;
        assert_eq!(text, "nice\n64\npinned\n", "{backend}");
    }
}

#[tokio::test]
async fn keyrings_and_what_drives_the_kernel_are_out_of_reach() {
    if !has_python() {
        return;
    }
    for (backend, yard) in Yard::each(|_| {}) {
        let calls = "call('keyctl', 0, -4, 0)
call('add_key', b'user', b'a', b'b', 1, -4)
call('request_key', b'user', b'a', 0, 0)
call('bpf', 0, big, 0)
call('perf', big, 0, -1, -1, 0)
call('userfaultfd', 0)
call('io_uring', 1, big)
call('init_module', 0, 0, 0)
call('kexec', 0, 0, 0, 0)
call('ioctl', 0, 0x5412, big)
call('ioctl', 0, 0x541c, big)";
        let results = yard.calls(calls).await;
        assert_eq!(results.len(), 11, "{backend}: {results:?}");
        assert!(results.iter().all(|result| result.ends_with(" -1")), "{backend}: EPERM each: {results:?}");
    }
}

/// The same by the numbers of 32-bit programs, which need nothing but another instruction.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn the_32_bit_calls_are_no_way_round() {
    if !has_python() {
        return;
    }
    for (backend, yard) in Yard::each(|_| {}) {
        // push rbx; mov eax, NUMBER; xor ebx, ebx; int 0x80; pop rbx; ret
        let script = "python3 - <<'END'
import ctypes, mmap
def call(number):
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b'\\x53\\xb8' + number.to_bytes(4, 'little') + b'\\x31\\xdb\\xcd\\x80\\x5b\\xc3')
    at = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return ctypes.CFUNCTYPE(ctypes.c_int)(at)()
print('getpid', call(20) > 0, flush=True)
print('keyctl', call(288), flush=True)
print('init_module', call(128), flush=True)
END";
        let text = yard.sh(script).await;
        // Landlock's filter ends such a program, and so does a kernel without these calls.
        let is_ended = !text.contains("getpid");
        assert!(is_ended || text == "getpid True\nkeyctl -1\ninit_module -1\n", "{backend}: {text}");
    }
}

/// A control group that the user owns ends processes outside by a word in one of its files.
#[tokio::test]
async fn control_groups_are_not_written_to() {
    for (backend, yard) in Yard::each(|_| {}) {
        let text = yard
            .sh("for f in $(find /sys/fs/cgroup -maxdepth 3 -name 'cgroup.*' 2>/dev/null | head -n 200); do (: >> $f) 2>/dev/null && echo opened $f; done; \
                 mkdir /sys/fs/cgroup/pith-test && echo made; echo all tried")
            .await;
        assert!(text.contains("all tried") && !text.contains("opened") && !text.contains("made"), "{backend}: {text}");
    }
}

/// As those keep their settings who have them in a repository of such files.
#[tokio::test]
async fn what_links_in_reserved_folders_lead_to_is_not_written() {
    let lay = |top: &Path| {
        let config = top.join("home/.config/pith");
        fs::write(top.join("home/dots/settings.toml"), CANARY).unwrap();
        symlink("../../dots/settings.toml", config.join("settings.toml")).unwrap();
        fs::create_dir(top.join("home/dots/more")).unwrap();
        fs::write(top.join("home/dots/more/secret"), CANARY).unwrap();
        symlink(top.join("home/dots/more"), config.join("more")).unwrap();
        symlink(top.join("home/dots/none"), config.join("grants.toml")).unwrap();
        symlink(top.join("home"), config.join("home")).unwrap();
        symlink(top.join("home/dots/hop"), config.join("hops")).unwrap();
        symlink("settings.toml", top.join("home/dots/hop")).unwrap();
    };
    for (backend, yard) in Yard::each(lay) {
        let top = yard.at("");
        let script = format!(
            "cd {}/home; D=dots; echo bad > $D/settings.toml; echo bad >> $D/settings.toml; rm -f $D/settings.toml; mv $D/settings.toml $D/old; echo bad > new; \
             mv new $D/settings.toml; ln -f $D/settings.toml hard && echo bad > hard; mv $D old; mkdir -p $D; echo bad > $D/settings.toml; \
             echo bad > $D/more/secret; mv $D/more $D/more2; ls $D/more; echo all tried",
            top.display()
        );
        let text = yard.sh(&script).await;
        assert!(text.contains("all tried") && !text.contains("secret\n"), "{backend}: {text}");
        let config = yard.at("home/.config/pith");
        for file in ["settings.toml", "more/secret"] {
            assert_eq!(fs::read_to_string(config.join(file)).unwrap(), CANARY, "{backend}, {file}: {text}");
        }
        let gaps = &yard.sandbox.in_force().unwrap().gaps;
        for gap in [
            SandboxGap::LeadsOut(config.join("grants.toml")),
            SandboxGap::LeadsOut(config.join("home")),
            SandboxGap::Link(yard.at("home/dots/hop")),
        ] {
            assert!(gaps.contains(&gap), "{backend}: {gap:?} in {gaps:?}");
        }
        assert!(!gaps.contains(&SandboxGap::Link(config.join("settings.toml"))), "{backend}: {gaps:?}");
    }
}

/// The session's temporary folder is a child's own, but not what it is called outside.
#[tokio::test]
async fn the_temporary_folder_is_not_made_a_way_out() {
    for (backend, yard) in Yard::each(|top| fs::write(top.join("home/.config/pith/settings.toml"), CANARY).unwrap()) {
        let top = yard.at("");
        let script = format!(
            "T={}; mv $T/scratch/tmp $T/scratch/old; rmdir $T/scratch/tmp; ln -s $T/home/.config/pith $T/scratch/tmp; mv $T/scratch $T/old; \
             rm -rf $T/scratch; echo own > ${{TMPDIR:-/tmp}}/own; echo all tried",
            top.display()
        );
        for _ in 0..2 {
            assert!(yard.sh(&script).await.contains("all tried"), "{backend}");
            assert_eq!(fs::read_to_string(yard.at("scratch/tmp/own")).unwrap(), "own\n", "{backend}");
            assert_eq!(yard.sh("cat ${TMPDIR:-/tmp}/own").await, "own\n", "{backend}");
        }
        // Whatever else puts something in its place: nothing is started.
        fs::rename(yard.at("scratch/tmp"), yard.at("scratch/old")).unwrap();
        symlink(yard.at("home/.config/pith"), yard.at("scratch/tmp")).unwrap();
        let error = yard.try_sh("cat ${TMPDIR:-/tmp}/settings.toml").await.unwrap_err();
        assert!(matches!(error, ProcessError::Sandbox(SandboxError::Failed { .. })), "{backend}: {error}");
    }
}
