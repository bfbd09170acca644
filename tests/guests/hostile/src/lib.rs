//! A guest that misbehaves as it is told: a tool for each kind. What it is told comes in the call's input; what `specs` says, from its
//! settings.

mod disk;
mod floods;
mod lies;
mod time;

use pith_sdk::bindings::{imports::pith::plugin::messages::ToolCall, tools::exports::pith::plugin::tools::Guest};
use pith_sdk::{Error, Output, ToolSpec};

/// What a call is told.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct Input {
    /// How often, or how much.
    pub n: usize,
    /// What to do with a path, or which form of a lie.
    pub deed: String,
    pub path: String,
    pub to: String,
}

type Kind = (&'static str, fn(&Input) -> Result<Output, Error>);

const KINDS: &[Kind] = &[
    ("fine", |_| Ok(Output::text("fine"))),
    ("loop", time::endless),
    ("clock", time::clock),
    ("sleep", time::sleep),
    ("naps", time::naps),
    ("recurse", |input| Ok(Output::text(floods::recurse(input.n, [1; 64]).to_string()))),
    ("trap", |_| core::arch::wasm32::unreachable()),
    ("panic", |input| panic!("{}", "p".repeat(input.n))),
    ("exit", |input| std::process::exit(input.n as i32)),
    ("allocate", floods::allocate),
    ("stdout", floods::stdout),
    ("stderr", floods::stderr),
    ("log", floods::log),
    ("progress", floods::progress),
    ("result", |input| Ok(Output::text("r".repeat(input.n)))),
    ("refusal", |input| Err(Error::invalid("e".repeat(input.n)))),
    ("blocks", floods::blocks),
    ("picture", |input| Ok(Output::text("see").and_image("image/png", vec![0; input.n]))),
    ("hostcall", floods::hostcall),
    ("hostcalls", floods::hostcalls),
    ("state", floods::state),
    ("spawn", floods::spawn),
    ("chunks", floods::chunks),
    ("run", floods::run),
    ("details", lies::details),
    ("structured", lies::structured),
    ("surroundings", disk::surroundings),
    ("network", disk::network),
    ("program", disk::program),
    ("path", disk::path),
    ("handles", disk::handles),
    ("race", disk::race),
];

struct Hostile;

impl Guest for Hostile {
    fn specs() -> Result<Vec<ToolSpec>, Error> {
        lies::specs(KINDS.iter().map(|(name, _)| *name))
    }

    fn call(call: ToolCall) -> Result<Output, Error> {
        let input: Input = pith_sdk::serde_json::from_str(&call.input).map_err(|error| Error::invalid(error.to_string()))?;
        match KINDS.iter().find(|(name, _)| *name == call.name) {
            Some((_, does)) => does(&input),
            None => Err(Error::not_found(call.name)),
        }
    }
}

pith_sdk::bindings::tools::export!(Hostile with_types_in pith_sdk::bindings::tools);
