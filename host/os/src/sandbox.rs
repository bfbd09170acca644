//! The sandbox of children: which level, by which means, and what those means do not give on this machine.
//!
//! `decide` is the whole of the choice, a pure function; `ground` says which folders are in question, `view` what a plugin's grants make of
//! them; `bubblewrap` and `landlock` are the means, `calls` the system calls that they deny, `threads` where children are started from.

#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(target_os = "linux")]
mod calls;
mod decide;
mod ground;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod threads;
mod view;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

pub use decide::{LANDLOCK_ABI_WHOLE, SandboxGap, SandboxInForce, SandboxMachine, decide_sandbox};
pub use ground::SandboxGround;
pub use view::SandboxFolder;

#[cfg(target_os = "linux")]
pub use bubblewrap::PROBE_LIMIT;
#[cfg(target_os = "linux")]
pub(crate) use bubblewrap::ending;
#[cfg(target_os = "linux")]
pub(crate) use threads::{on_held, on_lasting};

use crate::process::Command;
#[cfg(target_os = "linux")]
use ground::Plan;
#[cfg(target_os = "linux")]
use view::View;

/// How far a child is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxLevel {
    /// Not at all: it is the user. No folder is kept from it, whatever its plugin was granted; and what is not in the group that is killed, or
    /// runs when the host is killed, runs on.
    Off,
    /// As the user, with home and network; without the reserved folders, other processes, their terminals, buses, agents and container
    /// sockets, and with a `/tmp` of its own.
    #[default]
    Guard,
}

impl SandboxLevel {
    /// All names.
    pub const NAMES: [&str; 2] = ["off", "guard"];

    /// The level of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "guard" => Some(Self::Guard),
            _ => None,
        }
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Guard => "guard",
        })
    }
}

/// What holds children to a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxBackend {
    /// Nothing: level `off`.
    Nothing,
    /// The program `bwrap`: namespaces.
    Bubblewrap,
    /// The kernel's Landlock and seccomp.
    Landlock,
}

impl fmt::Display for SandboxBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "Landlock and seccomp",
        })
    }
}

/// A sandbox that cannot be given; nothing was started.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// This machine has not the means.
    #[error(
        "programs are not run: the sandbox level guard cannot be given on this machine, because {bubblewrap} and {landlock}. Ways out, all of \
         them the user's: install bubblewrap where user namespaces are allowed; a kernel with Landlock ABI {LANDLOCK_ABI_WHOLE} (Linux 6.12); \
         --sandbox off, which lets programs do whatever the user may"
    )]
    Unavailable {
        /// Why not bubblewrap.
        bubblewrap: String,
        /// Why not Landlock.
        landlock: String,
    },
    /// A reserved folder cannot be kept from children.
    #[error("programs are not run: {path} cannot be kept from them: {source}", path = path.display())]
    Ground {
        /// The folder.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: Arc<io::Error>,
    },
    /// The means failed at this start.
    #[error("the program is not run: its sandbox failed: {reason}")]
    Failed {
        /// What happened.
        reason: String,
    },
}

/// Who is told, once, what was decided; from the thread that decides.
pub type OnDecided = Box<dyn Fn(Result<&SandboxInForce, &SandboxError>) + Send + Sync>;

/// A session's sandbox: every child of it is started in one of the same kind. Decided at the first child, and for good. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    session: Arc<Inner>,
    /// What whoever starts children was granted; none where that was not said.
    folders: Option<Arc<[SandboxFolder]>>,
}

struct Inner {
    level: SandboxLevel,
    ground: SandboxGround,
    mask: SandboxMachine,
    on_decided: Option<OnDecided>,
    decided: OnceLock<Result<Decided, SandboxError>>,
}

struct Decided {
    in_force: SandboxInForce,
    means: Means,
}

enum Means {
    Bare,
    #[cfg(target_os = "linux")]
    Bubblewrap {
        program: PathBuf,
        plan: Plan,
        /// The kernel can also hold abstract sockets.
        scoped: bool,
    },
    #[cfg(target_os = "linux")]
    Landlock {
        plan: Plan,
    },
}

/// How a child is started: what remains of its sandbox after the arguments.
#[cfg(target_os = "linux")]
pub(crate) enum Start {
    /// From here.
    Here,
    /// From a thread that lasts as long as the process.
    Lasting {
        /// The thread is held from abstract sockets of others.
        scoped: bool,
    },
    /// From a thread of its own, which is held first.
    Held(Box<landlock::Hold>),
}

impl Sandbox {
    /// Level `off`.
    pub fn off() -> Self {
        Self::new(SandboxLevel::Off, SandboxGround::default(), SandboxMachine::UNMASKED, None)
    }

    /// A session's. `mask` hides means that the machine has, to see what happens without them: it takes away, it never adds.
    pub fn new(
        level: SandboxLevel,
        ground: SandboxGround,
        mask: SandboxMachine,
        on_decided: Option<OnDecided>,
    ) -> Self {
        let session = Arc::new(Inner { level, ground, mask, on_decided, decided: OnceLock::new() });
        Self { session, folders: None }
    }

    /// The same for children of somebody who was granted these folders. At `guard` they reach the working folder, and folders that the host
    /// holds, only as far as these say; where one was to start in a folder that it does not reach, it starts in the session's temporary one.
    pub fn within(&self, folders: &[SandboxFolder]) -> Self {
        Self { session: self.session.clone(), folders: Some(folders.into()) }
    }

    /// What was asked for.
    pub fn level(&self) -> SandboxLevel {
        self.session.level
    }

    /// Whether it is decided, so that [`Sandbox::in_force`] does not block.
    pub fn is_decided(&self) -> bool {
        self.session.decided.get().is_some()
    }

    /// What holds, decided now where it is not yet: that runs bubblewrap once, which blocks for some milliseconds, on a broken machine for
    /// ten seconds.
    ///
    /// Errors: the level cannot be given whole enough; no child is started then.
    pub fn in_force(&self) -> Result<&SandboxInForce, SandboxError> {
        self.decided().map(|decided| &decided.in_force)
    }

    fn decided(&self) -> Result<&Decided, SandboxError> {
        let inner = &*self.session;
        let decided = inner.decided.get_or_init(|| {
            let decided = inner.decide();
            if let Some(tell) = &inner.on_decided {
                tell(decided.as_ref().map(|decided| &decided.in_force));
            }
            decided
        });
        decided.as_ref().map_err(Clone::clone)
    }

    /// The environment of a child: what would lead it to agents and buses of the user, or to a folder that is not there, is taken out.
    pub(crate) fn environment(&self, env: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        match self.session.level {
            SandboxLevel::Off => env,
            SandboxLevel::Guard => self.session.ground.environment_of_child(env),
        }
    }

    /// Turns a command into one that starts it within the sandbox.
    #[cfg(target_os = "linux")]
    pub(crate) fn enter(&self, command: &mut Command) -> Result<Start, SandboxError> {
        let decided = self.decided()?;
        command.env = self.environment(std::mem::take(&mut command.env));
        match &decided.means {
            Means::Bare => Ok(Start::Here),
            Means::Bubblewrap { program, plan, scoped } => {
                plan.check_temp()?;
                let view = View::of(plan, self.folders.as_deref());
                command.cwd = view.start_in(&command.cwd);
                bubblewrap::wrap(command, program, &view, &sockets::to_cover(&self.session.ground, &view));
                Ok(Start::Lasting { scoped: *scoped })
            }
            Means::Landlock { plan } => {
                if let Some(temp) = &self.session.ground.temp {
                    command.env.retain(|(name, _)| name != "TMPDIR");
                    command.env.push(("TMPDIR".into(), temp.into()));
                }
                plan.check_temp()?;
                let view = View::of(plan, self.folders.as_deref());
                command.cwd = view.start_in(&command.cwd);
                Ok(Start::Held(Box::new(landlock::Hold::new(&view)?)))
            }
        }
    }

    /// No means are known here, so `guard` was refused before.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn enter(&self, command: &mut Command) -> Result<(), SandboxError> {
        self.decided()?;
        command.env = self.environment(std::mem::take(&mut command.env));
        Ok(())
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decided = self.session.decided.get().map(|decided| decided.as_ref().map(|decided| &decided.in_force));
        f.debug_struct("Sandbox").field("level", &self.session.level).field("decided", &decided).finish_non_exhaustive()
    }
}

impl Inner {
    #[cfg(not(target_os = "linux"))]
    fn decide(&self) -> Result<Decided, SandboxError> {
        let in_force = decide_sandbox(self.level, SandboxMachine { bubblewrap: false, landlock_abi: 0 }, &[]);
        let in_force = in_force.ok_or_else(|| SandboxError::Unavailable {
            bubblewrap: "bubblewrap is for Linux".to_owned(),
            landlock: "so is Landlock".to_owned(),
        })?;
        Ok(Decided { in_force, means: Means::Bare })
    }

    #[cfg(target_os = "linux")]
    fn decide(&self) -> Result<Decided, SandboxError> {
        if self.level == SandboxLevel::Off {
            let in_force = SandboxInForce { level: self.level, backend: SandboxBackend::Nothing, gaps: Vec::new() };
            return Ok(Decided { in_force, means: Means::Bare });
        }
        let plan = Plan::of(&self.ground, SandboxBackend::Bubblewrap)?;
        let landlock_abi = landlock::abi().min(self.mask.landlock_abi);
        let scoped = landlock_abi >= LANDLOCK_ABI_WHOLE;
        let found = if self.mask.bubblewrap {
            bubblewrap::find(&self.ground).and_then(|program| {
                let view = View::of(&plan, None);
                bubblewrap::try_out(&program, &view, &self.ground, scoped).map(|()| program)
            })
        } else {
            Err("bubblewrap is not to be used".to_owned())
        };
        let machine = SandboxMachine { bubblewrap: found.is_ok(), landlock_abi };
        // What bubblewrap hides by what it puts in its place has to be kept from children otherwise.
        let plan = if found.is_ok() { plan } else { Plan::of(&self.ground, SandboxBackend::Landlock)? };
        let in_force = decide_sandbox(self.level, machine, &plan.gaps);
        match (in_force, found) {
            (Some(in_force), Ok(program)) => {
                Ok(Decided { in_force, means: Means::Bubblewrap { program, plan, scoped } })
            }
            (Some(in_force), Err(_)) => Ok(Decided { in_force, means: Means::Landlock { plan } }),
            (None, found) => Err(SandboxError::Unavailable {
                bubblewrap: found.err().unwrap_or_default(),
                landlock: match landlock_abi {
                    0 => "this kernel has no Landlock".to_owned(),
                    abi => {
                        format!("this kernel's Landlock is too old (ABI {abi}, Linux 6.12 has {LANDLOCK_ABI_WHOLE})")
                    }
                },
            }),
        }
    }
}
