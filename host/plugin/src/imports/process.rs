//! `process`: runs the programs that the grant names.

use crate::{
    convert::refusal,
    folders::{self, GrantedFolder},
    imports::child::Held,
    instance::Instance,
    limits::{CHILDREN, PROCESS_KEEP_BYTES, SPAWN_KEEP_BYTES},
    plugin::Facts,
};
use pith_bindings::imports::pith::plugin::{
    process::{self as wit, Command, Exit, Host, Output},
    types::{Error, ErrorKind},
};
use pith_law::{Capability, ProcessBound, normalise};
use pith_os::{Background, ProcessError, Sandbox, SandboxError, SandboxFolder, SandboxLevel, Whole, find_program};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use wasmtime::component::Resource;

/// What a plugin may run, found when its grant is read.
pub(crate) struct ProcessAuthority {
    /// None: granted, and not found.
    programs: BTreeMap<String, Option<PathBuf>>,
    variables: BTreeSet<String>,
    environment: Vec<(OsString, OsString)>,
    /// What holds them.
    sandbox: Sandbox,
    /// A person is asked about each call of its tools while nothing can hold its programs.
    is_asked_about: AtomicBool,
    alive: Arc<Semaphore>,
    /// By spool; the oldest first.
    detached: Mutex<Vec<(PathBuf, Detached)>>,
    /// One more program was left running: who waits for a place looks again whether one can come.
    left_running: Notify,
}

/// A program that was left running.
struct Detached {
    /// What runs, in words.
    shown: String,
    background: Background,
}

/// What a message shows of a command, in characters.
const SHOWN_CHARS: usize = 60;

/// Variables that a plugin's programs get of the user's environment, where it is not given all of it.
const ENVIRONMENT: [&str; 12] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR", "NO_COLOR"];

impl ProcessAuthority {
    /// `excluded`: folders that some plugin may write to, from which no program is taken.
    pub fn new(
        grants: &[Capability],
        environment: &[(OsString, OsString)],
        inherits_environment: bool,
        excluded: &[PathBuf],
        sandbox: Sandbox,
    ) -> Self {
        let path = environment.iter().find(|(name, _)| name == "PATH").map_or(OsStr::new(""), |(_, path)| path);
        let mut authority = Self {
            programs: BTreeMap::new(),
            variables: BTreeSet::new(),
            environment: Vec::new(),
            sandbox,
            is_asked_about: AtomicBool::new(false),
            alive: Arc::new(Semaphore::new(CHILDREN)),
            detached: Mutex::default(),
            left_running: Notify::new(),
        };
        for grant in grants {
            match grant {
                Capability::Process(ProcessBound::Program(name)) => {
                    authority.programs.insert(name.clone(), find_program(name, path, excluded));
                }
                Capability::Process(ProcessBound::Variable(name)) => {
                    authority.variables.insert(name.clone());
                }
                _ => {}
            }
        }
        let is_given = |name: &OsStr| inherits_environment || ENVIRONMENT.iter().any(|given| name == *given);
        authority.environment = environment.iter().filter(|(name, _)| is_given(name)).cloned().collect();
        authority
    }

    fn program(&self, name: &str) -> Result<PathBuf, Error> {
        match self.programs.get(name) {
            Some(Some(path)) => Ok(path.clone()),
            Some(None) => Err(refusal(ErrorKind::NotFound, format!("the program {name} was not found at start"))),
            None if name.contains(['/', '\\']) => {
                Err(refusal(ErrorKind::Denied, "a program is a bare name: paths are not run"))
            }
            None => Err(refusal(ErrorKind::Denied, format!("running {name} was not granted"))),
        }
    }

    fn environment(&self, set: Vec<(String, String)>) -> Result<Vec<(OsString, OsString)>, Error> {
        let mut environment = self.environment.clone();
        for (name, value) in set {
            if !self.variables.contains(&name) {
                return Err(refusal(ErrorKind::Denied, format!("setting the variable {name} was not granted")));
            }
            environment.retain(|(known, _)| *known != *name);
            environment.push((name.into(), value.into()));
        }
        Ok(environment)
    }

    /// A place for one more program. Calls wait for each other's programs to end, their deadline running; a call that has one of its own
    /// running would wait for itself and is refused, and so is everybody where all places are taken by programs that were left running:
    /// these may never end.
    async fn one_more(&self, own: &Arc<AtomicUsize>) -> Result<Alive, Error> {
        let place = loop {
            let left_running = self.left_running.notified();
            tokio::pin!(left_running);
            left_running.as_mut().enable();
            if let Ok(place) = self.alive.clone().try_acquire_owned() {
                break place;
            }
            let (count, list) = self.running();
            if own.load(Ordering::Relaxed) > 0 || count >= CHILDREN {
                let end = if count == 0 { String::new() } else { format!("; left running: {list}") };
                let limit = format!("a plugin has at most {CHILDREN} programs running{end}");
                return Err(refusal(ErrorKind::Limit, limit));
            }
            tokio::select! {
                place = self.alive.clone().acquire_owned() => match place {
                    Ok(place) => break place,
                    Err(closed) => return Err(refusal(ErrorKind::Internal, closed.to_string())),
                },
                () = left_running => {}
            }
        };
        own.fetch_add(1, Ordering::Relaxed);
        Ok(Alive { _place: place, own: own.clone() })
    }

    /// Off the async threads, for the first program: it runs one to see whether that works. What was decided is told when a program starts.
    async fn decide_sandbox(&self) {
        if !self.sandbox.is_decided() {
            let sandbox = self.sandbox.clone();
            // Decided there, or anew at the start of the program.
            let _ = tokio::task::spawn_blocking(move || sandbox.in_force().is_ok()).await;
        }
    }

    /// What a person decides before a tool of the plugin is called: whether its programs may run although nothing can hold them. None where
    /// it runs none, or they are held. Who asks this answers for the call not being made without a yes.
    pub async fn question(&self, plugin: &str) -> Option<String> {
        if self.programs.is_empty() {
            return None;
        }
        self.is_asked_about.store(true, Ordering::Relaxed);
        self.decide_sandbox().await;
        match self.sandbox.in_force() {
            Err(SandboxError::Unavailable { bubblewrap, landlock }) => Some(format!(
                "run programs of plugin {plugin} without a sandbox? They may do whatever you may, and read and change Pith's own files. The level \
                 guard cannot be given here, because {bubblewrap} and {landlock}"
            )),
            _ => None,
        }
    }

    /// What holds the next program, which reaches of the host's folders what its plugin was granted; none where a person allowed a call's programs
    /// to go without.
    fn sandbox(&self, is_persons: bool, granted: &[GrantedFolder]) -> Option<Sandbox> {
        let is_allowed = is_persons && self.is_asked_about.load(Ordering::Relaxed);
        match self.sandbox.in_force() {
            Err(SandboxError::Unavailable { .. }) if is_allowed => None,
            _ => {
                let folder =
                    |known: &GrantedFolder| SandboxFolder { path: known.path.clone(), writable: known.writable };
                Some(self.sandbox.within(&granted.iter().map(folder).collect::<Vec<_>>()))
            }
        }
    }

    /// Keeps a program that runs on; those that ended are forgotten.
    pub(super) fn keep_detached(&self, spool: PathBuf, shown: String, background: Background) {
        let mut detached = self.detached();
        detached.retain(|(_, one)| one.background.is_running());
        detached.push((spool, Detached { shown, background }));
        drop(detached);
        self.left_running.notify_waiters();
    }

    /// How many programs were left running, and which.
    fn running(&self) -> (usize, String) {
        let detached = self.detached();
        let running: Vec<String> = detached
            .iter()
            .filter(|(_, one)| one.background.is_running())
            .map(|(spool, one)| {
                format!("{} (`{}`, for {} s)", spool.display(), one.shown, one.background.age().as_secs())
            })
            .collect();
        (running.len(), running.join(", "))
    }

    fn detached(&self) -> MutexGuard<'_, Vec<(PathBuf, Detached)>> {
        self.detached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one ran that had this spool.
    async fn stop_detached(&self, spool: &Path) -> bool {
        let stopped = {
            let mut detached = self.detached();
            let at = detached.iter().position(|(of, _)| of == spool);
            at.map(|at| detached.remove(at).1)
        };
        match stopped {
            Some(detached) => detached.background.stop().await,
            None => false,
        }
    }
}

/// One of the programs that a plugin may have running; given back when it goes.
pub(super) struct Alive {
    _place: OwnedSemaphorePermit,
    /// How many the call has itself.
    own: Arc<AtomicUsize>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.own.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Instance {
    fn command(&self, command: Command) -> Result<pith_os::Command, Error> {
        let Some(scope) = &self.scope else {
            return Err(refusal(ErrorKind::Unavailable, "there is no session to run programs for"));
        };
        let authority = &self.facts.process;
        let program = authority.program(&command.program)?;
        let sandbox = authority.sandbox(self.is_tool_call() && scope.facts.interactive, &self.facts.folders.list);
        let is_held = sandbox.as_ref().is_some_and(|sandbox| sandbox.level() != SandboxLevel::Off);
        let cwd = working_folder(&self.facts, scope.session.cwd(), command.cwd.as_deref(), is_held)?;
        Ok(pith_os::Command {
            program,
            args: command.args.into_iter().map(OsString::from).collect(),
            cwd,
            env: authority.environment(command.env)?,
            stdin: command.stdin,
            stdin_open: false,
            merge_stderr: command.merge_stderr,
            timeout: command.timeout_ms.map(|ms| Duration::from_millis(ms.into())),
            sandbox,
        })
    }
}

/// The session's folder, or one within a granted one, links resolved; where nothing holds the program, also one within the session's. A program that
/// is held and does not reach the session's folder starts in its temporary one instead: see `Sandbox::within`.
fn working_folder(facts: &Facts, session: &Path, asked: Option<&str>, is_held: bool) -> Result<PathBuf, Error> {
    let Some(asked) = asked else { return Ok(session.to_owned()) };
    let plain =
        normalise(Path::new(asked)).ok_or_else(|| refusal(ErrorKind::Invalid, "cwd has to be an absolute path"))?;
    let real =
        std::fs::canonicalize(&plain).map_err(|error| refusal(ErrorKind::NotFound, format!("{asked}: {error}")))?;
    let home = std::fs::canonicalize(session).unwrap_or_else(|_| session.to_owned());
    let is_sessions = real.starts_with(&home);
    if (is_sessions && !is_held) || folders::holds(&facts.folders.list, &real) {
        return Ok(real);
    }
    let grant = if is_sessions { "files=workspace:r".to_owned() } else { format!("files={}:r", real.display()) };
    let hint = format!("programs reach what their plugin was granted: --grant {}:{grant}", facts.name);
    Err(refusal(ErrorKind::Denied, format!("{asked} lies in no folder of this plugin; {hint}")))
}

fn command_bytes(command: &Command) -> usize {
    let env = command.env.iter().map(|(name, value)| name.len().saturating_add(value.len()));
    let args = command.args.iter().map(String::len);
    args.chain(env).fold(command.stdin.len(), usize::saturating_add)
}

/// A command in one short line.
fn shown(command: &pith_os::Command) -> String {
    let last = command.args.last().map(|word| word.to_string_lossy());
    let line = last.unwrap_or_else(|| command.program.to_string_lossy());
    let mut chars = line.chars().map(|char| if char.is_control() { ' ' } else { char });
    let short: String = chars.by_ref().take(SHOWN_CHARS).collect();
    if chars.next().is_some() { format!("{short}...") } else { short }
}

pub(super) fn exit(exit: pith_os::Exit, spool: Option<String>) -> Exit {
    Exit {
        code: exit.code,
        signal: exit.signal,
        timed_out: exit.timed_out,
        spool: exit.spool.map(|path| path.to_string_lossy().into_owned()).or(spool),
    }
}

pub(super) fn refused(error: &ProcessError) -> Error {
    let kind = match error {
        ProcessError::Invalid { .. } => ErrorKind::Invalid,
        ProcessError::Folder { .. } => ErrorKind::NotFound,
        ProcessError::Limit => ErrorKind::Limit,
        ProcessError::StdinClosed => ErrorKind::Conflict,
        ProcessError::Sandbox(_) => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    };
    refusal(kind, error.to_string())
}

impl Host for Instance {
    async fn stop_detached(&mut self, spool: String) -> wasmtime::Result<Result<(), Error>> {
        self.enter(spool.len())?;
        if self.facts.process.stop_detached(Path::new(&spool)).await {
            return Ok(Ok(()));
        }
        let end = match self.facts.process.running() {
            (0, _) => "nothing was left running".to_owned(),
            (_, list) => format!("left running: {list}"),
        };
        Ok(Err(refusal(ErrorKind::NotFound, format!("nothing of this plugin runs with that spool; {end}"))))
    }

    async fn run(&mut self, command: Command) -> wasmtime::Result<Result<Output, Error>> {
        self.enter(command_bytes(&command))?;
        let facts = self.facts.clone();
        facts.process.decide_sandbox().await;
        let command = match self.command(command) {
            Ok(command) => command,
            Err(refused) => return Ok(Err(refused)),
        };
        let _alive = match self.facts.process.one_more(&self.programs).await {
            Ok(alive) => alive,
            Err(refused) => return Ok(Err(refused)),
        };
        Ok(match pith_os::run(command, PROCESS_KEEP_BYTES, &self.facts.spool, &self.cancel, None).await {
            Ok(output) => Ok(Output {
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
                exit: exit(output.exit, None),
            }),
            Err(error) => Err(refused(&error)),
        })
    }

    async fn spawn(&mut self, command: Command) -> wasmtime::Result<Result<Resource<wit::Child>, Error>> {
        self.enter(command_bytes(&command))?;
        let facts = self.facts.clone();
        facts.process.decide_sandbox().await;
        let mut command = match self.command(command) {
            Ok(command) => command,
            Err(refused) => return Ok(Err(refused)),
        };
        // A program whose input was left empty gets /dev/null: many look into a pipe for more. One that was given some is given more.
        command.stdin_open = !command.stdin.is_empty();
        let alive = match self.facts.process.one_more(&self.programs).await {
            Ok(alive) => alive,
            Err(refused) => return Ok(Err(refused)),
        };
        let shown = shown(&command);
        let prefix = command.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let child = match pith_os::Child::start(command).await {
            Ok(child) => child,
            Err(error) => return Ok(Err(refused(&error))),
        };
        let whole = Whole::new(self.facts.spool.clone(), prefix, SPAWN_KEEP_BYTES);
        let held = self.table.push(Held::new(child, whole, alive, shown))?;
        // The bindings' own type is only a name for it: nothing of ours is known to that crate.
        Ok(Ok(Resource::new_own(held.rep())))
    }
}
