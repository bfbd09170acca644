//! `guard` by Landlock and seccomp: a thread is held, and starts the child, which inherits that. What is not allowed is denied, so what lies
//! beside the ways to the reserved folders is allowed piece by piece.

use std::fs::File;
use std::path::{Path, PathBuf};

use caps::errors::CapsError;
use caps::{CapSet, Capability};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags};

use super::view::{Layer, View};
use super::{SandboxError, calls};

/// The most entries of one folder that are allowed, each by a rule of its own; what comes after them is denied.
const ENTRIES_MAX: usize = 16_384;

/// Folders of the system that have rules of their own.
const SYSTEM: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// The version of the rights that are asked for.
const RIGHTS: ABI = ABI::V5;

/// Devices that programs work with. Terminals, disks and inputs are not among them.
const DEVICES: [&str; 15] = [
    "null",
    "zero",
    "full",
    "random",
    "urandom",
    "shm",
    "mqueue",
    "dri",
    "kfd",
    "kvm",
    "nvidia0",
    "nvidiactl",
    "nvidia-modeset",
    "nvidia-uvm",
    "nvidia-uvm-tools",
];

/// The kernel's version of Landlock: 0 without, 6 for 6 and later.
pub(super) fn abi() -> u32 {
    let hard = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let fs = |access: BitFlags<AccessFs>| hard().handle_access(access).and_then(Ruleset::create).is_ok();
    let tries: [(u32, &dyn Fn() -> bool); 6] = [
        (6, &|| hard().scope(Scope::from_all(ABI::V6)).and_then(Ruleset::create).is_ok()),
        (5, &|| fs(AccessFs::from_all(ABI::V5))),
        (4, &|| hard().handle_access(AccessNet::from_all(ABI::V4)).and_then(Ruleset::create).is_ok()),
        (3, &|| fs(AccessFs::from_all(ABI::V3))),
        (2, &|| fs(AccessFs::from_all(ABI::V2))),
        (1, &|| fs(AccessFs::from_all(ABI::V1))),
    ];
    tries.iter().find(|(_, works)| works()).map_or(0, |(version, _)| *version)
}

/// Holds this thread, and what it starts, from abstract sockets of others and from signals to others. Mounting stays possible.
pub(super) fn hold_abstract_sockets() -> Result<(), SandboxError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::from_all(ABI::V6))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    enforce(ruleset)
}

/// What a thread is about to be held by.
pub(crate) struct Hold {
    ruleset: RulesetCreated,
}

impl Hold {
    /// Looks at the folders as they are now.
    pub(super) fn new(view: &View<'_>) -> Result<Self, SandboxError> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(RIGHTS))
            .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI::V6)))
            .and_then(Ruleset::create)
            .map_err(failed)?;
        let mut rules = Rules { ruleset, view };
        rules.walk(Path::new("/"), everything())?;
        rules.system()?;
        for kept in &view.plan.reachable {
            // It may lie where entries are not looked at.
            if view.layer(kept).is_none() {
                rules.beside_layers(kept, everything())?;
            }
        }
        for layer in &view.layers {
            if let Layer::Show(folder) = layer {
                rules.beside_layers(&folder.path, if folder.writable { everything() } else { reading() })?;
            }
        }
        // The session's own, wherever that is.
        if let Some(temp) = &view.plan.temp {
            rules.allow(temp, everything())?;
        }
        Ok(Self { ruleset: rules.ruleset })
    }

    /// Holds this thread, for good.
    pub fn take_hold(self) -> Result<(), SandboxError> {
        drop_capabilities().map_err(|error| SandboxError::Failed { reason: format!("capabilities: {error}") })?;
        enforce(self.ruleset)?;
        calls::deny()
    }
}

/// What root keeps; see `bubblewrap`. With the others it would read memory of processes that Landlock keeps it from.
const CAPABILITIES: [Capability; 9] = [
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_FOWNER,
    Capability::CAP_FSETID,
    Capability::CAP_KILL,
    Capability::CAP_SETGID,
    Capability::CAP_SETUID,
    Capability::CAP_SETFCAP,
    Capability::CAP_NET_BIND_SERVICE,
];

/// This thread's; programs that it starts gain none back, since they gain no rights at all.
fn drop_capabilities() -> Result<(), CapsError> {
    let has = caps::read(None, CapSet::Permitted)?;
    if has.is_empty() {
        return Ok(());
    }
    caps::clear(None, CapSet::Ambient)?;
    caps::clear(None, CapSet::Inheritable)?;
    let kept = CAPABILITIES.into_iter().filter(|capability| has.contains(capability)).collect();
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)
}

fn enforce(ruleset: RulesetCreated) -> Result<(), SandboxError> {
    let status = ruleset.restrict_self().map_err(failed)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced if status.no_new_privs => Ok(()),
        _ => Err(SandboxError::Failed { reason: "Landlock did not take hold".to_owned() }),
    }
}

fn failed(error: impl std::fmt::Display) -> SandboxError {
    SandboxError::Failed { reason: format!("Landlock: {error}") }
}

/// Devices are made by nobody, and used where they are listed.
fn everything() -> BitFlags<AccessFs> {
    AccessFs::from_all(RIGHTS) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(RIGHTS)
}

struct Rules<'v> {
    ruleset: RulesetCreated,
    view: &'v View<'v>,
}

impl Rules<'_> {
    /// Allows a folder but for the layers within it.
    fn beside_layers(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        let is_way = self.view.layers.iter().any(|layer| layer.path().starts_with(path) && layer.path() != path);
        if is_way { self.walk(path, access) } else { self.allow(path, access) }
    }

    /// Allows what lies in a folder beside the ways to layers, and goes those ways.
    fn walk(&mut self, folder: &Path, access: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        let view = self.view;
        let mut ways: Vec<PathBuf> = Vec::new();
        for layer in view.layers.iter().map(Layer::path).filter(|path| path.starts_with(folder) && *path != folder) {
            // Also where the folder cannot be listed.
            let next = layer.strip_prefix(folder).ok().and_then(|rest| rest.components().next());
            ways.extend(next.map(|next| folder.join(next)));
        }
        ways.sort();
        ways.dedup();
        let is_own = |path: &Path| SYSTEM.iter().any(|own| path == Path::new(own));
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX) {
            let path = entry.path();
            if !ways.contains(&path) && !is_own(&path) {
                self.allow(&path, access)?;
            }
        }
        // A layer itself is no way: what is allowed of it is said by what it is.
        let ways = ways.iter().filter(|way| !view.layers.iter().any(|layer| layer.path() == *way) && !is_own(way));
        ways.cloned().collect::<Vec<_>>().iter().try_for_each(|way| self.walk(way, access))
    }

    fn system(&mut self) -> Result<(), SandboxError> {
        // Root could make the kernel run programs outside by what stands there.
        let proc = if rustix::process::geteuid().is_root() { reading() } else { everything() };
        self.allow(Path::new("/proc"), proc)?;
        self.allow(Path::new("/sys"), reading())?;
        // A user's own folders may lie in these two.
        self.beside_layers(Path::new("/run"), reading())?;
        for device in DEVICES {
            self.beside_layers(&Path::new("/dev").join(device), everything() | AccessFs::IoctlDev)?;
        }
        Ok(())
    }

    /// A rule for what lies there itself: a link is no way to have one for what it leads to. What is gone, or is not this user's to look at,
    /// has none.
    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(opened) = rustix::fs::open(path, flags, Mode::empty()) else { return Ok(()) };
        let Ok(met) = rustix::fs::fstat(&opened) else { return Ok(()) };
        let access = match FileType::from_raw_mode(met.st_mode) {
            FileType::Symlink => return Ok(()),
            FileType::Directory => access,
            _ => access & AccessFs::from_file(RIGHTS),
        };
        (&mut self.ruleset).add_rule(PathBeneath::new(File::from(opened), access)).map(|_| ()).map_err(failed)
    }
}
