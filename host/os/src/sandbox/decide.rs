//! The choice: from what a machine has to what is in force. Pure.

use std::fmt;
use std::path::PathBuf;

use super::{SandboxBackend, SandboxLevel};

/// The version of Landlock from which on it gives `guard` whole: it holds signals and abstract sockets. Later ones count as this one.
pub const LANDLOCK_ABI_WHOLE: u32 = 6;

/// What a machine has to make sandboxes of; or, as a mask, what of it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SandboxMachine {
    /// Bubblewrap was run with the arguments of a real child, and worked.
    pub bubblewrap: bool,
    /// Landlock's version, 0 for none; at most [`LANDLOCK_ABI_WHOLE`] is told apart.
    pub landlock_abi: u32,
}

impl SandboxMachine {
    /// The mask that hides nothing.
    pub const UNMASKED: Self = Self { bubblewrap: true, landlock_abi: u32::MAX };
}

impl Default for SandboxMachine {
    fn default() -> Self {
        Self::UNMASKED
    }
}

/// Something that a level promises and these means do not give, or take besides. Its text is a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxGap {
    /// Sockets without a file are reachable: old X servers and session buses listen there.
    AbstractSockets,
    /// A reserved folder is reached by a link that a child can replace.
    Link(PathBuf),
    /// A link in a reserved folder leads to where children can put something.
    LeadsOut(PathBuf),
    /// What is reserved cannot be read or written, but seen: whether and when it is used; and its owner's children can change its permissions
    /// and times.
    Metadata,
    /// The children are root.
    Root,
    /// `/tmp` is everybody's; `TMPDIR` is the session's own.
    SharedTemp,
    /// The working folder is or contains `/tmp`, so that is not hidden.
    WorkInTemp,
    /// Folders on the way to reserved ones can be neither listed nor have anything new made directly in them.
    WayFolders,
    /// Children have no Unix sockets, not even their own.
    NoUnixSockets,
    /// Children cannot make terminals for programs of theirs.
    NoTerminals,
    /// What is killed is the group; a program that leaves it lives on. And nothing at all ends with a host that is killed (SIGKILL), not even a
    /// plain program of the group.
    NotGathered,
}

impl SandboxGap {
    /// It makes the level weaker. The others make it stricter, or less comfortable, than it is elsewhere.
    pub fn weakens(&self) -> bool {
        match self {
            Self::AbstractSockets
            | Self::Link(_)
            | Self::LeadsOut(_)
            | Self::Metadata
            | Self::Root
            | Self::SharedTemp
            | Self::WorkInTemp => true,
            Self::WayFolders | Self::NoUnixSockets | Self::NoTerminals | Self::NotGathered => false,
        }
    }
}

impl fmt::Display for SandboxGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AbstractSockets => f.write_str(
                "programs can reach abstract sockets, where an X server may listen: this kernel's Landlock is older than ABI 6 (Linux 6.12)",
            ),
            Self::Link(link) => {
                write!(f, "{} is a link, which a program could replace: make it a real file or folder", link.display())
            }
            Self::LeadsOut(link) => {
                write!(f, "{} leads to where a program could put something: make it a real file or folder", link.display())
            }
            Self::Metadata => f.write_str(
                "programs can see when Pith's own files are used and change their permissions and times, though not read or write them",
            ),
            Self::Root => f.write_str("programs are root: they can change the system itself, and so what runs outside"),
            Self::SharedTemp => f.write_str("programs see everybody's /tmp; TMPDIR is a folder of the session's own"),
            Self::WorkInTemp => f.write_str("programs see everybody's /tmp, because the working folder is or contains it"),
            Self::WayFolders => f.write_str(
                "programs can neither list, nor make anything new directly in, the folders that lead to Pith's own, such as the home folder",
            ),
            Self::NoUnixSockets => f.write_str("programs cannot make Unix sockets"),
            Self::NoTerminals => f.write_str("programs cannot make terminals"),
            Self::NotGathered => f.write_str(
                "a program that makes a session of its own outlives its command; and every program that runs outlives Pith, where that is killed (SIGKILL)",
            ),
        }
    }
}

/// A sandbox as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxInForce {
    /// What was asked for, and is held but for the gaps.
    pub level: SandboxLevel,
    /// By what.
    pub backend: SandboxBackend,
    /// What is not as the level says.
    pub gaps: Vec<SandboxGap>,
}

/// What is in force on such a machine; `ground` are the gaps that come from folders and user, whatever the means. None: the level cannot be
/// given, and nothing is started.
pub fn decide_sandbox(level: SandboxLevel, machine: SandboxMachine, ground: &[SandboxGap]) -> Option<SandboxInForce> {
    let given = |backend, more: &[SandboxGap]| {
        let mut gaps = ground.to_vec();
        gaps.extend(more.iter().filter(|gap| !ground.contains(gap)).cloned());
        Some(SandboxInForce { level, backend, gaps })
    };
    if level == SandboxLevel::Off {
        return Some(SandboxInForce { level, backend: SandboxBackend::Nothing, gaps: Vec::new() });
    }
    let whole = machine.landlock_abi >= LANDLOCK_ABI_WHOLE;
    match machine.bubblewrap {
        true if whole => given(SandboxBackend::Bubblewrap, &[]),
        true => given(SandboxBackend::Bubblewrap, &[SandboxGap::AbstractSockets]),
        false if whole => given(
            SandboxBackend::Landlock,
            &[
                SandboxGap::SharedTemp,
                SandboxGap::Metadata,
                SandboxGap::WayFolders,
                SandboxGap::NoUnixSockets,
                SandboxGap::NoTerminals,
                SandboxGap::NotGathered,
            ],
        ),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every machine there is: bubblewrap or not, Landlock 0 to 9.
    #[test]
    fn guard_is_given_by_one_of_two_means_or_not_at_all() {
        let link = SandboxGap::Link("/c".into());
        for landlock_abi in 0..10 {
            for bubblewrap in [false, true] {
                let machine = SandboxMachine { bubblewrap, landlock_abi };
                let off = decide_sandbox(SandboxLevel::Off, machine, &[]).unwrap();
                assert_eq!((off.backend, off.gaps.len()), (SandboxBackend::Nothing, 0));
                let guard = decide_sandbox(SandboxLevel::Guard, machine, std::slice::from_ref(&link));
                let Some(guard) = guard else {
                    assert!(!bubblewrap && landlock_abi < 6, "{machine:?}");
                    continue;
                };
                assert_eq!(guard.level, SandboxLevel::Guard);
                assert!(guard.gaps.contains(&link), "what the folders lack is said with any means");
                let weak: Vec<&SandboxGap> = guard.gaps.iter().filter(|gap| gap.weakens() && **gap != link).collect();
                match (bubblewrap, landlock_abi) {
                    (true, 6..) => assert_eq!((guard.backend, weak.len()), (SandboxBackend::Bubblewrap, 0)),
                    (true, _) => {
                        assert_eq!(guard.backend, SandboxBackend::Bubblewrap);
                        assert_eq!(weak, [&SandboxGap::AbstractSockets]);
                    }
                    (false, 6..) => {
                        assert_eq!(guard.backend, SandboxBackend::Landlock);
                        assert_eq!(weak, [&SandboxGap::SharedTemp, &SandboxGap::Metadata]);
                    }
                    (false, _) => panic!("{machine:?} gives no guard"),
                }
            }
        }
    }

    #[test]
    fn levels_have_names() {
        for name in SandboxLevel::NAMES {
            assert_eq!(SandboxLevel::named(name).unwrap().to_string(), name);
        }
        assert_eq!(SandboxLevel::named("Off"), None);
        assert_eq!(SandboxLevel::default(), SandboxLevel::Guard);
    }
}
