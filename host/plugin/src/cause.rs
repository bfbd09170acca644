//! What a failed guest call is told as: a cause in our own words, with the limit where there is one. Trap texts go to the log only.

use crate::{
    limits::{CORE_INSTANCES, EXPORTED_CALL_BYTES, HOST_CALL_BYTES, HOST_CALLS, RANDOM_BYTES},
    quota::Refused,
};
use std::time::Duration;
use wasmtime::Trap;

/// A limit that one of our imports found reached. It ends the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exceeded {
    #[error("called the host more than {HOST_CALLS} times")]
    HostCalls,
    #[error("gave the host more than {} MiB", EXPORTED_CALL_BYTES >> 20)]
    Bytes,
    #[error("was ended")]
    Ended,
}

/// How wasmtime's message begins where a guest hands over more than `set_hostcall_fuel` allows: its type is private.
const TOO_MUCH_DATA: &str = "too much data is being copied between the host and the guest";

/// The same of a component with more parts than the store's limiter allows.
const TOO_MANY_PARTS: &str = "resource limit exceeded: ";
/// The same where a guest asks for more random bytes than `max_random_size` allows.
const TOO_MUCH_RANDOM: &str = "requested len ";

/// The system's words where an instance's memory cannot be mapped: addresses are reserved by the gigabyte.
const NO_MEMORY: &str = "Cannot allocate memory";

/// The cause of a failed call.
pub(crate) fn cause(error: &wasmtime::Error, refused: Option<Refused>) -> String {
    if let Some(exceeded) = error.downcast_ref::<Exceeded>() {
        return exceeded.to_string();
    }
    if error.root_cause().to_string().starts_with(TOO_MUCH_DATA) {
        return format!("gave more than {} MiB at once", HOST_CALL_BYTES >> 20);
    }
    if error.downcast_ref::<wasmtime::component::ResourceTableError>().is_some() {
        return format!("held more than {} host resources, or one that is not its own", crate::limits::RESOURCES);
    }
    let root = error.root_cause().to_string();
    if root.starts_with(TOO_MANY_PARTS) {
        return format!("has more than {CORE_INSTANCES} core instances, memories or tables");
    }
    if root.starts_with(TOO_MUCH_RANDOM) {
        return format!("asked for more than {} MiB of random bytes at once", RANDOM_BYTES >> 20);
    }
    if root.contains(NO_MEMORY) {
        return "could not be started: the system gives this process no more memory (is `ulimit -v` set?)".to_owned();
    }
    if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        return format!("left with exit code {}", exit.0);
    }
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::StackOverflow) {
        return "overflowed its stack".to_owned();
    }
    // A guest that was refused memory usually aborts: the trap says only that.
    match refused {
        Some(Refused::Memory { limit_bytes }) => {
            return format!("ran out of memory (limit {} MiB)", limit_bytes >> 20);
        }
        Some(Refused::Tables) => {
            return format!("used more than {} table elements", crate::limits::TABLE_ELEMENTS);
        }
        None => {}
    }
    match trap {
        Some(Trap::UnreachableCodeReached) => "trapped: unreachable code, such as a panic".to_owned(),
        // In wasmtime's words, without its name for it.
        Some(trap) => format!("trapped: {}", trap.to_string().trim_start_matches("wasm trap: ")),
        None => "broke the contract of its interface".to_owned(),
    }
}

/// The cause of a call that took too long.
pub(crate) fn deadline_cause(limit: Duration) -> String {
    format!("exceeded its deadline of {}", in_words(limit))
}

fn in_words(time: Duration) -> String {
    if time < Duration::from_secs(1) || time.subsec_millis() != 0 {
        format!("{} ms", time.as_millis())
    } else {
        format!("{} s", time.as_secs())
    }
}
