//! The system calls that are denied where Landlock alone stands between a child and the rest.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::SandboxError;

/// Denied whatever their arguments: what changes or goes round the file system that rules are about, what changes the kernel, keyrings, and a
/// second way to make system calls, which no filter sees. Tracing and reading of other processes are Landlock's own to deny: within one
/// child debuggers work.
const DENIED: &[c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// The other numbers of the same calls.
#[cfg(target_arch = "x86_64")]
const X32: c_long = 0x4000_0000;

/// `ioctl`s that put words into a terminal: `TIOCSTI` and `TIOCLINUX`, which have these numbers on all processors that there are filters for;
/// their types differ between C libraries.
const TERMINAL: [u64; 2] = [0x5412, 0x541c];

/// Denies them to this thread and what it starts, for good. Programs of another kind of processor are killed.
pub(super) fn deny() -> Result<(), SandboxError> {
    let failed = |error: &dyn std::fmt::Display| SandboxError::Failed { reason: format!("seccomp: {error}") };
    let program = program().map_err(|error| failed(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| failed(&error))
}

fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in DENIED {
        rules.insert(*call, Vec::new());
    }
    let argument = |index, value| {
        SeccompRule::new(vec![SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?])
    };
    // Landlock knows nothing of sockets that are files.
    rules.insert(libc::SYS_socket, vec![argument(0, libc::AF_UNIX as u64)?]);
    rules.insert(libc::SYS_ioctl, TERMINAL.iter().map(|code| argument(1, *code)).collect::<Result<_, _>>()?);
    #[cfg(target_arch = "x86_64")]
    for (call, arguments) in rules.clone() {
        // `ioctl` and some others have numbers of their own there; nobody needs any of it.
        rules.insert(call | X32, arguments);
    }
    #[cfg(target_arch = "x86_64")]
    for call in X32_OWN {
        rules.insert(call | X32, Vec::new());
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let denied = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?.try_into()
}

/// Numbers that only the x32 interface has, of calls of the list above: `ioctl`, `kexec_load`.
#[cfg(target_arch = "x86_64")]
const X32_OWN: [c_long; 2] = [514, 528];
