//! `guard` by bubblewrap: namespaces of mounts, processes and IPC, made anew for each child.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::ground::{SandboxGround, has_entries, is_others};
use super::sockets;
use super::threads::on_lasting;
use super::view::{Layer, View};
use crate::process::Command;
use crate::program::find_program;

/// The longest that the trial may take; a machine that needs more has something that hangs.
pub const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// How often its end is looked for.
const PROBE_POLL: Duration = Duration::from_millis(1);
/// The most of its words that are quoted, in bytes.
const WORDS_LIMIT_BYTES: usize = 300;

/// Where else it is looked for than in the user's `PATH`.
const USUAL: &str = "/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin";

/// Devices that programs work with. Terminals, disks and inputs are not among them.
const DEVICES: [&str; 8] =
    ["dri", "kfd", "kvm", "nvidia0", "nvidiactl", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools"];
/// What name resolution and the programs of some systems need of `/run`.
const RUN: [&str; 3] = ["/run/current-system", "/run/opengl-driver", "/run/systemd/resolve/resolv.conf"];

/// Parts of the system's ssh configuration. Where the child is not root they belong to nobody that it knows of, and ssh, which wants them to be
/// root's or the user's, would not start.
const SSH_PARTS: &str = "/etc/ssh/ssh_config.d";

/// What root keeps: changing files of others and becoming others, as package managers do. Mounting, tracing, devices, raw memory and the
/// opening of files by number, which knows no folders, are not among them.
const CAPABILITIES: [&str; 9] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_NET_BIND_SERVICE",
];

/// Parts of `/proc` in which root changes the machine, or makes the kernel run programs outside: read only, as container engines have them.
/// Without the capability to mount, and locked for namespaces within, nobody takes that away again.
const PROC_READ_ONLY: [&str; 6] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/mtrr"];
/// Parts of `/proc` that root has no need of and that tell of the whole machine, or drive it: not there.
const PROC_MASKED: [&str; 9] = [
    "/proc/acpi",
    "/proc/scsi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
];

/// Variables that the dynamic loader and libc obey: they are the child's, not bubblewrap's.
const LOADER: [&[u8]; 5] = [b"LD_", b"GLIBC_TUNABLES", b"GCONV_PATH", b"LOCPATH", b"NLSPATH"];

/// A `bwrap` that neither this user nor a child of its can have put there, and that has no rights of its own.
pub(super) fn find(ground: &SandboxGround) -> Result<PathBuf, String> {
    let mut seen = "bubblewrap is not installed".to_owned();
    for path in [ground.variable("PATH").unwrap_or_default(), OsStr::new(USUAL)] {
        for entry in std::env::split_paths(path) {
            let Some(found) = find_program("bwrap", entry.as_os_str(), &ground.writable) else { continue };
            let Ok(real) = std::fs::canonicalize(&found) else { continue };
            let is_plain = std::fs::metadata(&real).is_ok_and(|met| met.permissions().mode() & 0o6000 == 0);
            match (is_others(&real), is_plain) {
                (true, true) => return Ok(real),
                (false, _) => seen = format!("{} is not used, since not only root can write to it", real.display()),
                (_, false) => seen = format!("{} is not used, since it is set-user-id", real.display()),
            }
        }
    }
    Err(seen)
}

/// Runs it once as a child is run. The words say what went wrong, going on from "because".
pub(super) fn try_out(program: &Path, view: &View<'_>, ground: &SandboxGround, scoped: bool) -> Result<(), String> {
    let mut command = Command {
        program: program.to_owned(),
        args: vec!["--version".into()],
        cwd: "/".into(),
        env: Vec::new(),
        ..Command::default()
    };
    wrap(&mut command, program, view, &sockets::to_cover(ground, view));
    let run = move || {
        let mut start = std::process::Command::new(&command.program);
        start.args(&command.args).current_dir("/").env_clear();
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = start.spawn()?;
        let until = Instant::now() + PROBE_LIMIT;
        while child.try_wait()?.is_none() {
            if Instant::now() >= until {
                child.kill()?;
                child.wait()?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(PROBE_POLL);
        }
        child.wait_with_output()
    };
    let shown = program.display();
    match on_lasting(scoped, run, drop) {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => {
            let words = &output.stderr[..output.stderr.len().min(WORDS_LIMIT_BYTES)];
            let words = String::from_utf8_lossy(words).split_whitespace().collect::<Vec<_>>().join(" ");
            Err(format!("{shown} does not work here ({words})"))
        }
        Ok(Err(error)) => Err(format!("{shown} does not work here ({error})")),
        Err(error) => Err(format!("{shown} cannot be tried ({error})")),
    }
}

/// The same command behind bubblewrap. The order matters: what is made later lies over what was made before.
///
/// Bubblewrap itself starts in `/`: the system's call that starts it enters that folder first, and the working folder's disk may hang.
pub(super) fn wrap(command: &mut Command, bubblewrap: &Path, view: &View<'_>, sockets: &[PathBuf]) {
    let plan = view.plan;
    let is_root = rustix::process::geteuid().is_root();
    let mut args = Args(Vec::with_capacity(96));
    args.add(&["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--bind", "/", "/", "--dev", "/dev"]);
    for device in DEVICES.iter().map(|device| Path::new("/dev").join(device)).filter(|device| device.exists()) {
        args.at("--dev-bind", &device, &device);
    }
    // By what is written there root makes the kernel run programs outside; others end processes outside by control groups that are theirs.
    args.add(&["--proc", "/proc", "--ro-bind", "/sys", "/sys"]);
    if is_root {
        args.proc_parts();
        args.add(&["--cap-drop", "ALL"]);
        for capability in CAPABILITIES {
            args.add(&["--cap-add", capability]);
        }
    }
    if !is_root && has_entries(Path::new(SSH_PARTS)) {
        args.add(&["--tmpfs", SSH_PARTS]);
    }
    args.run_folder();
    if let Some(at) = &plan.temp_at {
        match &plan.temp {
            Some(temp) => args.at("--bind", temp, at),
            None => args.on("--tmpfs", at),
        }
        for step in &plan.steps {
            if let (Some(temp), Ok(within)) = (&plan.temp, step.strip_prefix(at)) {
                args.at("--bind", &temp.join(within), step);
            }
        }
        for kept in &plan.kept {
            args.at("--bind", kept, kept);
        }
    }
    // What was bound just now is a mount already.
    for pin in view.pins.iter().filter(|pin| !plan.kept.contains(pin)) {
        args.at("--bind", pin, pin);
    }
    for layer in &view.layers {
        match layer {
            Layer::Cover(path) => {
                args.add(&["--perms", "0500"]);
                args.on("--tmpfs", path);
            }
            Layer::Show(folder) => {
                args.at(if folder.writable { "--bind" } else { "--ro-bind" }, &folder.path, &folder.path);
            }
        }
    }
    // Only now: what is shown within a cover has its own place there.
    for layer in &view.layers {
        if let Layer::Cover(path) = layer {
            args.on("--remount-ro", path);
        }
    }
    for socket in sockets {
        args.at("--ro-bind", Path::new("/dev/null"), socket);
    }
    let loader = |name: &OsStr| LOADER.iter().any(|obeyed| name.as_bytes().starts_with(obeyed));
    let (obeyed, rest): (Vec<_>, Vec<_>) =
        std::mem::take(&mut command.env).into_iter().partition(|(name, _)| loader(name));
    command.env = rest;
    for (name, value) in obeyed {
        args.0.extend(["--setenv".into(), name, value]);
    }
    args.on("--chdir", &std::mem::replace(&mut command.cwd, PathBuf::from("/")));
    args.add(&["--"]);
    args.0.push(std::mem::replace(&mut command.program, bubblewrap.to_owned()).into());
    args.0.append(&mut command.args);
    command.args = args.0;
}

struct Args(Vec<OsString>);

impl Args {
    fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn on(&mut self, what: &str, path: &Path) {
        self.0.extend([OsString::from(what), path.into()]);
    }

    fn at(&mut self, what: &str, from: &Path, to: &Path) {
        self.0.extend([OsString::from(what), from.into(), to.into()]);
    }

    /// What root is kept from of `/proc`.
    fn proc_parts(&mut self) {
        for path in PROC_READ_ONLY.iter().map(Path::new).filter(|path| path.exists()) {
            self.at("--ro-bind", path, path);
        }
        for path in PROC_MASKED.iter().map(Path::new) {
            match std::fs::metadata(path) {
                Ok(met) if met.is_dir() => {
                    self.on("--tmpfs", path);
                    self.on("--remount-ro", path);
                }
                Ok(_) => self.at("--ro-bind", Path::new("/dev/null"), path),
                Err(_) => {}
            }
        }
    }

    /// An empty `/run`, but for what names are resolved with; and where else the system keeps sockets.
    fn run_folder(&mut self) {
        self.add(&["--tmpfs", "/run"]);
        let resolver = std::fs::canonicalize("/etc/resolv.conf").ok().filter(|file| file.starts_with("/run"));
        for path in RUN.iter().map(PathBuf::from).filter(|path| path.exists()).chain(resolver) {
            self.at("--ro-bind", &path, &path);
        }
        let user = format!("/run/user/{}", rustix::process::getuid().as_raw());
        if Path::new(&user).exists() {
            self.add(&["--perms", "0700", "--dir", &user]);
        }
        let is_folder = std::fs::symlink_metadata("/var/run").is_ok_and(|met| met.is_dir());
        if is_folder {
            self.add(&["--tmpfs", "/var/run"]);
        }
    }
}

/// Bubblewrap says 128 and the signal's number where a signal ended the program, as shells do. Signals that programs do not stand in for with
/// an exit code of their own are taken for signals; `exit 129`, git's word for wrong usage, stays what it is.
pub(crate) fn ending(code: Option<i32>, signal: Option<i32>) -> (Option<i32>, Option<i32>) {
    let fatal = [
        Signal::ILL,
        Signal::TRAP,
        Signal::ABORT,
        Signal::BUS,
        Signal::FPE,
        Signal::KILL,
        Signal::SEGV,
        Signal::TERM,
        Signal::XCPU,
        Signal::XFSZ,
        Signal::SYS,
    ];
    match code.and_then(|code| code.checked_sub(128)) {
        Some(number) if fatal.iter().any(|signal| signal.as_raw() == number) => (None, Some(number)),
        _ => (code, signal),
    }
}
