//! Completion scripts.

use crate::{
    args::Cli,
    failure::{Failure, hand_over},
};
use clap::CommandFactory;

/// Prints one.
pub fn print(shell: clap_complete::Shell) -> Result<u8, Failure> {
    // Not written as it is made: the generator panics where its reader has left.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "pith", &mut script);
    hand_over(&script)
}
