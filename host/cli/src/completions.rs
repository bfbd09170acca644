//! Completion scripts.

use crate::{
    args::Cli,
    failure::{DONE, Failure},
};
use clap::CommandFactory;

/// Prints one.
pub fn print(shell: clap_complete::Shell) -> Result<u8, Failure> {
    clap_complete::generate(shell, &mut Cli::command(), "pith", &mut std::io::stdout());
    Ok(DONE)
}
