//! The system calls that are denied: a few by either means, since they reach past every folder and namespace; more where Landlock alone stands
//! between a child and the rest.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

#[cfg(target_arch = "x86_64")]
use seccompiler::sock_filter;

use super::SandboxError;

/// Denied by either means, whatever their arguments: what changes the kernel or listens to it, keyrings, which no namespace holds, and a second
/// way to make system calls, which no filter sees. Bubblewrap itself needs none of them.
const OF_THE_KERNEL: &[c_long] = &[
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// The same by the numbers of 32-bit programs, which run beside 64-bit ones; and any program can make a call by them.
#[cfg(target_arch = "x86_64")]
const OF_THE_KERNEL_32: [u32; 13] = [128, 129, 283, 286, 287, 288, 336, 350, 357, 374, 425, 426, 427];
/// `ioctl` among them.
#[cfg(target_arch = "x86_64")]
const IOCTL_32: u32 = 54;

/// Denied besides under Landlock: what changes or goes round the file system that its rules are about, and what advises memory of others.
/// Tracing and reading of other processes are Landlock's own to deny: within one child debuggers work.
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
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_process_madvise,
];

/// The other numbers of the same calls.
#[cfg(target_arch = "x86_64")]
const X32: c_long = 0x4000_0000;

/// `ioctl`s that put words into a terminal: `TIOCSTI` and `TIOCLINUX`, which have these numbers on all processors that there are filters for;
/// their types differ between C libraries.
const TERMINAL: [u64; 2] = [0x5412, 0x541c];

/// What sets something of the process that an argument of this position names, 0 for the caller's own. Landlock holds signals to others, not
/// these. A thread that names itself by its number is denied too: the filter cannot know it.
const OF_OTHERS: [(c_long, u8); 8] = [
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_migrate_pages, 0),
    (libc::SYS_move_pages, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Calls of which the first argument says whose the second one is, with the number for all of a user: 0 are then all of this user.
const OF_USERS: [(c_long, u64); 2] = [(libc::SYS_setpriority, libc::PRIO_USER as u64), (libc::SYS_ioprio_set, 3)];

/// Denies to this thread and what it starts, for good, all that Landlock alone would leave open. Programs of another kind of processor, 32-bit
/// ones too, are killed.
pub(super) fn deny() -> Result<(), SandboxError> {
    apply(program(true))
}

/// The same with only what reaches past bubblewrap. 32-bit programs of the same processor work on x86_64, and are killed elsewhere.
pub(super) fn deny_of_the_kernel() -> Result<(), SandboxError> {
    #[cfg(target_arch = "x86_64")]
    let program = program(false).map(|program| before_32_bit(&program));
    #[cfg(not(target_arch = "x86_64"))]
    let program = program(false);
    apply(program)
}

/// No program that this thread starts gains rights from here on.
fn apply(program: Result<BpfProgram, seccompiler::BackendError>) -> Result<(), SandboxError> {
    let failed = |error: &dyn std::fmt::Display| SandboxError::Failed { reason: format!("seccomp: {error}") };
    let program = program.map_err(|error| failed(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| failed(&error))
}

fn program(whole: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let condition = |index, op, value| SeccompCondition::new(index, SeccompCmpArgLen::Dword, op, value);
    let is = |index, value| SeccompRule::new(vec![condition(index, SeccompCmpOp::Eq, value)?]);
    let is_not_own = |index| SeccompRule::new(vec![condition(index, SeccompCmpOp::Ne, 0)?]);
    for call in OF_THE_KERNEL.iter().chain(if whole { DENIED } else { &[] }) {
        rules.insert(*call, Vec::new());
    }
    rules.insert(libc::SYS_ioctl, TERMINAL.iter().map(|code| is(1, *code)).collect::<Result<_, _>>()?);
    if whole {
        // Landlock knows nothing of sockets that are files.
        rules.insert(libc::SYS_socket, vec![is(0, libc::AF_UNIX as u64)?]);
        for (call, index) in OF_OTHERS {
            rules.entry(call).or_default().push(is_not_own(index)?);
        }
        for (call, user) in OF_USERS {
            rules.entry(call).or_default().push(is(0, user)?);
        }
        // Reading limits sets nothing: no new ones are given then.
        let sets = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
        let sets = SeccompRule::new(vec![condition(0, SeccompCmpOp::Ne, 0)?, sets])?;
        rules.insert(libc::SYS_prlimit64, vec![sets]);
    }
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

/// Numbers that only the x32 interface has, of calls of the lists above: `ioctl`, `kexec_load`, `move_pages`.
#[cfg(target_arch = "x86_64")]
const X32_OWN: [c_long; 3] = [514, 528, 533];

/// The program behind one for 32-bit calls, which it would kill for.
#[cfg(target_arch = "x86_64")]
fn before_32_bit(program: &BpfProgram) -> BpfProgram {
    /// `AUDIT_ARCH_I386`.
    const I386: u32 = 0x4000_0003;
    // Where the kernel puts number, architecture, and the lower half of the second argument.
    const NUMBER: u32 = 0;
    const ARCHITECTURE: u32 = 4;
    const SECOND: u32 = 24;
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUALS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let denied = step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned());
    let allowed = step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW);
    let mut own = vec![step(LOAD, 0, 0, NUMBER)];
    for call in OF_THE_KERNEL_32 {
        // On to the next unless it is this one.
        own.extend([step(EQUALS, 0, 1, call), denied.clone()]);
    }
    own.extend([step(EQUALS, 1, 0, IOCTL_32), allowed.clone(), step(LOAD, 0, 0, SECOND)]);
    for code in TERMINAL {
        own.extend([step(EQUALS, 0, 1, code as u32), denied.clone()]);
    }
    own.push(allowed);
    let past = u8::try_from(own.len()).unwrap_or(u8::MAX);
    let mut all = vec![step(LOAD, 0, 0, ARCHITECTURE), step(EQUALS, 0, past, I386)];
    all.append(&mut own);
    all.extend(program.iter().cloned());
    all
}
