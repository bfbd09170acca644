//! The shipped plugin `protect`, the example of a gate: paths that may not be written and commands that may not run.
//!
//! A gate over text is advice, not a wall: a command can be spelled in ways that no list foresees. Walls are grants, the
//! sandbox and the host's own protected paths. What this gate does well is to stop a mistake, with the way out.

pub mod commands;
pub mod glob;
pub mod paths;
pub mod rules;
pub mod shell;

use pith_sdk::{Call, Error, Gate, Origin, Verdict, settings};

use crate::rules::Rules;

/// The gate.
#[derive(Debug)]
pub struct Protect;

impl Gate for Protect {
    fn before_call(call: &Call, _: &Origin) -> Result<Verdict, Error> {
        // Most calls end here: neither settings nor input are looked at.
        if !rules::concerns(call.name()) {
            return Ok(Verdict::Pass);
        }
        let rules: Rules = settings::get()?;
        rules.judge(call)
    }
}

pith_sdk::export_gate!(Protect);
