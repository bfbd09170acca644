//! Ways of never coming back.

use crate::Input;
use pith_sdk::{Error, Output};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// Computes.
pub fn endless(_: &Input) -> Result<Output, Error> {
    let mut n = 0u64;
    loop {
        n = black_box(n.wrapping_add(1));
    }
}

/// Looks at the clock.
pub fn clock(_: &Input) -> Result<Output, Error> {
    let began = Instant::now();
    while black_box(began.elapsed()) < Duration::from_secs(1_000_000) {}
    Ok(Output::text("late"))
}

/// Waits in the host.
pub fn sleep(_: &Input) -> Result<Output, Error> {
    std::thread::sleep(Duration::from_secs(1_000_000));
    Ok(Output::text("late"))
}

/// Waits in the host as shortly as can be, for ever.
pub fn naps(_: &Input) -> Result<Output, Error> {
    loop {
        std::thread::sleep(Duration::from_nanos(1));
    }
}
