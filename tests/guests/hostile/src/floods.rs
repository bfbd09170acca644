//! Too much of everything.

use crate::Input;
use pith_sdk::process::{Chunk, Command};
use pith_sdk::{Content, Error, Output, context, process, state};
use std::{
    hint::black_box,
    io::{Write, stderr as err, stdout as out},
};

const BLOCK: usize = 64 << 10;

#[allow(unconditional_recursion, reason = "it shall end the stack")]
pub fn recurse(n: usize, frame: [u64; 64]) -> u64 {
    let mut next = frame;
    next[n % 64] = next[n % 64].wrapping_add(1);
    black_box(recurse(n.wrapping_add(1), black_box(next))).wrapping_add(frame[0])
}

pub fn allocate(_: &Input) -> Result<Output, Error> {
    let mut all = Vec::new();
    loop {
        all.push(black_box(vec![1u8; 1 << 20]));
    }
}

pub fn stdout(input: &Input) -> Result<Output, Error> {
    written(out().lock(), input)
}

pub fn stderr(input: &Input) -> Result<Output, Error> {
    written(err().lock(), input)
}

fn written(mut to: impl Write, input: &Input) -> Result<Output, Error> {
    for _ in 0..input.n {
        to.write_all(&[b'o'; BLOCK]).and_then(|()| to.flush()).map_err(|error| Error::internal(error.to_string()))?;
    }
    if input.deed == "panic" { panic!("after it") } else { Ok(Output::text("written")) }
}

pub fn log(input: &Input) -> Result<Output, Error> {
    let line = "\u{1b}[2Jlog\n".repeat(100);
    for _ in 0..input.n {
        pith_sdk::log::error(&line);
    }
    Ok(Output::text("logged"))
}

pub fn progress(input: &Input) -> Result<Output, Error> {
    let text = "p".repeat(1 << 20);
    for _ in 0..input.n {
        pith_sdk::progress::text(&text);
    }
    Ok(Output::text("shown"))
}

pub fn blocks(input: &Input) -> Result<Output, Error> {
    Ok(Output::content((0..input.n).map(|_| Content::Text(String::new())).collect()))
}

pub fn hostcall(input: &Input) -> Result<Output, Error> {
    pith_sdk::log::info(&"h".repeat(input.n));
    Ok(Output::text("taken"))
}

pub fn hostcalls(input: &Input) -> Result<Output, Error> {
    for _ in 0..input.n {
        black_box(context::turn());
    }
    Ok(Output::text("called"))
}

/// `n` entries of the size that `path` names, each of its own kind where `deed` is `kinds`.
pub fn state(input: &Input) -> Result<Output, Error> {
    let size = input.path.parse().unwrap_or(0);
    let body = match input.deed.as_str() {
        "deep" => format!("{}1{}", "[".repeat(size), "]".repeat(size)),
        "no-json" => "{".to_owned(),
        _ => format!("\"{}\"", "s".repeat(size)),
    };
    for n in 0..input.n {
        let kind = if input.deed == "kinds" { format!("kind-{n}") } else { "kind".to_owned() };
        state::save(&kind, &body)?;
    }
    Ok(Output::text("saved"))
}

fn bash(script: &str) -> Command {
    Command {
        program: "bash".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        cwd: None,
        env: Vec::new(),
        stdin: Vec::new(),
        timeout_ms: None,
        merge_stderr: true,
    }
}

/// Starts `n` programs and keeps them all.
pub fn spawn(input: &Input) -> Result<Output, Error> {
    let mut all = Vec::new();
    for _ in 0..input.n {
        all.push(process::spawn(&bash(&input.path))?);
    }
    Ok(Output::text(format!("{} run", all.len())))
}

/// Reads a program's output to its end; says the longest piece and the sum.
pub fn chunks(input: &Input) -> Result<Output, Error> {
    let child = process::spawn(&bash(&input.path))?;
    let (mut longest, mut sum) = (0, 0);
    loop {
        match child.next(None)? {
            Chunk::Stdout(bytes) | Chunk::Stderr(bytes) => {
                longest = longest.max(bytes.len());
                sum += bytes.len();
            }
            Chunk::Exit(exit) => return Ok(Output::text(format!("{longest} {sum} {}", exit.spool.unwrap_or_default()))),
        }
    }
}

/// Runs a program to its end; says how much of its output came.
pub fn run(input: &Input) -> Result<Output, Error> {
    let command = Command { timeout_ms: u32::try_from(input.n).ok().filter(|ms| *ms > 0), ..bash(&input.path) };
    let output = process::run(&command)?;
    Ok(Output::text(format!("{} {}", output.stdout.len(), output.exit.spool.unwrap_or_default())))
}
