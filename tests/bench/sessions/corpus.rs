//! Session files to measure with: the same bytes every time, of the size and shape asked for.

use pith_protocol::iso_from_millis;
use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

/// How a file's entries hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One path, never compacted: all of it is what the model sees.
    Linear,
    /// One path with a compaction every 120 turns, which keeps the last 15.
    Compacted,
    /// A branch leaves the path every 20 turns and is never compacted: the last path goes through a third of the turns.
    Branched,
}

/// Turns between two compactions.
const COMPACTED_EVERY: u64 = 120;
/// Turns that one keeps.
const KEPT: u64 = 15;
/// Turns of a branch, and those that the next one leaves it after.
const BRANCH: (u64, u64) = (20, 7);
/// About four bytes of prose are a token.
const BYTES_A_TOKEN: u64 = 4;

/// Writes a file of at least `bytes`, up to one turn more; gives its length.
pub fn write(file: &Path, bytes: u64, shape: Shape, id: &str, cwd: &Path) -> u64 {
    let written = write_lines(file, bytes, shape, id, cwd);
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn write_lines(file: &Path, bytes: u64, shape: Shape, id: &str, cwd: &Path) -> io::Result<u64> {
    fs::create_dir_all(file.parent().unwrap_or(file))?;
    let mut out = Lines { out: BufWriter::new(File::create(file)?), written: 0, count: 0, words: Words(bytes | 1) };
    let began = out.time();
    out.line(&format!(
        r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{began}","cwd":{}}}"#,
        serde_json::json!(cwd)
    ))?;
    let mut parent: Option<u64> = None;
    // Each turn's first and last entry.
    let mut turns: Vec<(u64, u64)> = Vec::new();
    // What the model sees, in bytes.
    let mut seen = 0;
    while out.written < bytes {
        let number = turns.len() as u64;
        if shape == Shape::Branched && number > 0 && number.is_multiple_of(BRANCH.0) {
            let back = turns.len() - usize::try_from(BRANCH.0 - BRANCH.1).expect("it is small");
            parent = Some(turns[back - 1].1);
        }
        let first = out.count;
        let before = out.written;
        parent = Some(out.turn(parent, seen / BYTES_A_TOKEN)?);
        seen += out.written - before;
        turns.push((first, out.count - 1));
        if shape == Shape::Compacted && (number + 1).is_multiple_of(COMPACTED_EVERY) {
            let kept = turns[turns.len() - usize::try_from(KEPT).expect("it is small")].0;
            let summary = out.words.prose(4_000);
            let body = format!(
                r#""summary":{summary},"firstKeptEntryId":"{kept:08x}","tokensBefore":{}"#,
                seen / BYTES_A_TOKEN
            );
            parent = Some(out.entry("compaction", parent, &body)?);
            seen = seen * KEPT / COMPACTED_EVERY;
        }
    }
    out.out.flush()?;
    Ok(out.written)
}

struct Lines {
    out: BufWriter<File>,
    written: u64,
    count: u64,
    words: Words,
}

impl Lines {
    /// A message, a reply that calls a tool, its result and the answer: about 6 kB; gives the last one's number.
    fn turn(&mut self, parent: Option<u64>, tokens: u64) -> io::Result<u64> {
        let millis = self.millis();
        let asked = self.words.prose(150);
        let user = self.message(
            parent,
            &format!(r#"{{"role":"user","content":[{{"type":"text","text":{asked}}}],"timestamp":{millis}}}"#),
        )?;
        let (said, path) = (self.words.prose(300), self.words.word());
        let call = format!("call_{user:x}");
        let reply = self.reply(
            user,
            tokens,
            &format!(
                r#"{{"type":"text","text":{said}}},{{"type":"toolCall","id":"{call}","name":"read","arguments":{{"path":"src/{path}.rs"}}}}"#
            ),
            "toolUse",
        )?;
        let read = self.words.prose(4_000);
        let result = self.message(
            Some(reply),
            &format!(
                r#"{{"role":"toolResult","toolCallId":"{call}","toolName":"read","content":[{{"type":"text","text":{read}}}],"isError":false,"timestamp":{millis}}}"#
            ),
        )?;
        let answer = self.words.prose(700);
        self.reply(result, tokens + 1_100, &format!(r#"{{"type":"text","text":{answer}}}"#), "stop")
    }

    fn reply(&mut self, parent: u64, tokens: u64, content: &str, stop: &str) -> io::Result<u64> {
        let millis = self.millis();
        let message = format!(
            r#"{{"role":"assistant","content":[{content}],"api":"scripted","provider":"scripted","model":"m","usage":{{"input":{tokens},"output":200,"cacheRead":0,"cacheWrite":0,"totalTokens":{},"cost":{{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0,"total":0.0}}}},"stopReason":"{stop}","timestamp":{millis}}}"#,
            tokens + 200
        );
        self.message(Some(parent), &message)
    }

    fn message(&mut self, parent: Option<u64>, message: &str) -> io::Result<u64> {
        self.entry("message", parent, &format!(r#""message":{message}"#))
    }

    fn entry(&mut self, kind: &str, parent: Option<u64>, body: &str) -> io::Result<u64> {
        let number = self.count;
        let parent = parent.map_or_else(|| "null".to_owned(), |parent| format!("\"{parent:08x}\""));
        let time = self.time();
        self.line(&format!(
            r#"{{"type":"{kind}","id":"{number:08x}","parentId":{parent},"timestamp":"{time}",{body}}}"#
        ))?;
        self.count += 1;
        Ok(number)
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")?;
        self.written += line.len() as u64 + 1;
        Ok(())
    }

    fn millis(&self) -> i64 {
        1_790_000_000_000 + i64::try_from(self.count).unwrap_or(0) * 1_500
    }

    fn time(&self) -> String {
        iso_from_millis(self.millis())
    }
}

/// Words that follow from a seed.
struct Words(u64);

const WORDS: [&str; 32] = [
    "the",
    "file",
    "returns",
    "a",
    "result",
    "when",
    "session",
    "is",
    "opened",
    "and",
    "every",
    "line",
    "of",
    "it",
    "parsed",
    "once",
    "fn",
    "match",
    "self.entries",
    "{",
    "}",
    "=>",
    "\\\"quoted\\\"",
    "größer",
    "let",
    "mut",
    "tree",
    "\\n",
    "\\n    ",
    "branch",
    "Ok(())",
    "projection",
];

impl Words {
    fn next(&mut self) -> u64 {
        // Knuth's MMIX; the high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn word(&mut self) -> String {
        format!("m{:x}", self.next() & 0xffff)
    }

    /// A JSON string of about so many bytes.
    fn prose(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 32);
        text.push('"');
        while text.len() < bytes {
            let picked = self.next();
            let _ = match picked % 40 {
                word @ 0..32 => write!(text, "{} ", WORDS[usize::try_from(word).unwrap_or(0)]),
                _ => write!(text, "n{:x} ", picked & 0xffff),
            };
        }
        text.push('"');
        text
    }
}
