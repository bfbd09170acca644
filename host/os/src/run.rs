//! A program run to its end, with bounded memory and the whole of a long output in the spool.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use crate::child::Child;
use crate::process::{Chunk, Command, Exit, Output, ProcessError};
use crate::spool::SpoolDir;
use crate::whole::Whole;

/// Called with each piece of output as it comes, for progress.
pub type OnChunk<'a> = &'a mut (dyn FnMut(&Chunk) + Send);

/// Runs `command` to its end; then what is left of its process group is killed. Of each stream the last `keep_bytes` bytes are kept in
/// memory; where both together are longer, the whole goes to a file in `spool`, in the order it came.
///
/// A cancelled or timed out run gives what it said so far; an error means that it did not start.
pub async fn run(
    command: Command,
    keep_bytes: usize,
    spool: &SpoolDir,
    cancel: &CancellationToken,
    mut on_chunk: Option<OnChunk<'_>>,
) -> Result<Output, ProcessError> {
    let prefix = command.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut whole = Whole::new(spool.clone(), prefix, keep_bytes);
    let (mut stdout, mut stderr) = (Tail::new(keep_bytes), Tail::new(keep_bytes));
    let mut child = Child::start(command).await?;
    let mut cancelled = false;
    let exit = loop {
        let chunk = tokio::select! {
            biased;
            () = cancel.cancelled(), if !cancelled => {
                cancelled = true;
                child.kill();
                continue;
            }
            chunk = child.next(None) => chunk?,
        };
        if let Some(on_chunk) = &mut on_chunk {
            on_chunk(&chunk);
        }
        match chunk {
            Chunk::Stdout(bytes) => {
                whole.append(&bytes);
                stdout.append(&bytes);
            }
            Chunk::Stderr(bytes) => {
                whole.append(&bytes);
                stderr.append(&bytes);
            }
            Chunk::Exit(exit) => break exit,
        }
    };
    child.close().await;
    let spool_cut = whole.is_cut();
    let spool = whole.path().map(Path::to_path_buf);
    let (stdout_bytes, stderr_bytes) = (stdout.total_bytes, stderr.total_bytes);
    Ok(Output {
        exit: Exit { spool, ..exit },
        stdout: stdout.finish(),
        stderr: stderr.finish(),
        stdout_bytes,
        stderr_bytes,
        spool_cut,
        cancelled,
    })
}

/// The end of a stream, in at most twice its size.
struct Tail {
    keep_bytes: usize,
    bytes: Vec<u8>,
    total_bytes: u64,
}

impl Tail {
    fn new(keep_bytes: usize) -> Self {
        Self { keep_bytes, bytes: Vec::new(), total_bytes: 0 }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.total_bytes = self.total_bytes.saturating_add(bytes.len() as u64);
        let bytes = &bytes[bytes.len().saturating_sub(self.keep_bytes)..];
        if self.bytes.len().saturating_add(bytes.len()) > self.keep_bytes.saturating_mul(2) {
            self.trim();
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn trim(&mut self) {
        let surplus = self.bytes.len().saturating_sub(self.keep_bytes);
        self.bytes.drain(..surplus);
    }

    fn finish(mut self) -> Vec<u8> {
        self.trim();
        if self.total_bytes > self.bytes.len() as u64 {
            // At most three bytes of a character that was cut.
            let broken = self.bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
            self.bytes.drain(..broken);
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(keep_bytes: usize, chunks: &[&str]) -> String {
        let mut tail = Tail::new(keep_bytes);
        for chunk in chunks {
            tail.append(chunk.as_bytes());
            assert!(tail.bytes.len() <= 2 * keep_bytes);
        }
        String::from_utf8(tail.finish()).unwrap()
    }

    #[test]
    fn the_tail_is_the_end_from_a_character_on() {
        assert_eq!(tail(4, &["ab"]), "ab");
        assert_eq!(tail(4, &["ab", "cd"]), "abcd");
        assert_eq!(tail(4, &["ab", "cdefghijkl"]), "ijkl");
        assert_eq!(tail(4, &["a", "b", "c", "d", "e", "f", "g", "h", "i"]), "fghi");
        assert_eq!(tail(4, &["aé", "bcd"]), "bcd");
        assert_eq!(tail(3, &["€€"]), "€");
        assert_eq!(tail(0, &["abc"]), "");
    }
}
