//! A copy of a session file at another path, or at its own once its name is free: what is intact of it, the rest from memory.

use super::Open;
use pith_protocol::Header;
use std::{collections::VecDeque, io, os::unix::fs::FileExt, path::Path};

/// How much is copied at a time, in bytes.
pub(in crate::store) const COPY_BYTES: usize = 256 << 10;

impl Open {
    /// Another file with all of this one, at a path where nothing is; with another header if there is one. How much of it others destroyed is
    /// given beside it, in bytes.
    pub fn copy_to(&self, path: &Path, header: Option<Header>) -> io::Result<(Self, u64)> {
        let mut fresh = Self::create(path, header.clone().unwrap_or_else(|| self.header.clone()))?;
        let copied = self.copy_into(&mut fresh, header.is_some()).and_then(|lost| fresh.enter(path).map(|()| lost));
        if copied.is_err() && fresh.is_named {
            // Ours, and nothing that is not elsewhere.
            let _ = std::fs::remove_file(path);
        }
        Ok((fresh, copied?))
    }

    fn copy_into(&self, fresh: &mut Self, is_headed: bool) -> io::Result<u64> {
        let mut skipped = 0;
        if is_headed {
            let mut line = serde_json::to_vec(&fresh.header)?;
            line.push(b'\n');
            fresh.write(&line)?;
            fresh.header_end = line.len() as u64;
            fresh.keep(&line);
            skipped = self.header_end;
        } else {
            fresh.header_end = self.header_end;
        }
        // What the other program left as it was; of a line that it did not leave whole, nothing.
        let intact = match self.checks.intact(&self.reader) {
            all if all >= self.length => self.length,
            part => self.line_before(part)?,
        };
        let intact = intact.max(skipped);
        let (tail_from, tail) = self.tail_from(intact);
        let head_at = fresh.length;
        self.copy_range(fresh, skipped, intact)?;
        let tail_at = fresh.length;
        for piece in tail.chunks(COPY_BYTES) {
            fresh.write(piece)?;
            fresh.keep(piece);
        }
        fresh.pieces = self.pieces.copied(&[(skipped, intact, head_at), (tail_from, self.length, tail_at)]);
        Ok(tail_from.saturating_sub(intact))
    }

    /// The last place at or before `at` where a line begins.
    fn line_before(&self, at: u64) -> io::Result<u64> {
        let mut end = at;
        let mut piece = vec![0; COPY_BYTES];
        while end > 0 {
            let from = end.saturating_sub(COPY_BYTES as u64);
            let piece = &mut piece[..usize::try_from(end - from).map_err(io::Error::other)?];
            self.reader.read_exact_at(piece, from)?;
            if let Some(newline) = memchr::memrchr(b'\n', piece) {
                return Ok(from + newline as u64 + 1);
            }
            end = from;
        }
        Ok(0)
    }

    /// What is in memory of the file's end behind `intact`, whole lines: where it begins, and the bytes.
    fn tail_from(&self, intact: u64) -> (u64, Vec<u8>) {
        let begin = self.length.saturating_sub(self.tail.len() as u64);
        let kept = self.tail.iter().copied();
        if begin <= intact {
            let skip = usize::try_from(intact - begin).unwrap_or(usize::MAX);
            return (intact, kept.skip(skip).collect());
        }
        let line_end =
            |bytes: &VecDeque<u8>| bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let skip = if self.is_tail_cut { line_end(&self.tail) } else { 0 };
        (begin.saturating_add(skip as u64), kept.skip(skip).collect())
    }

    pub(super) fn copy_range(&self, fresh: &mut Self, from: u64, to: u64) -> io::Result<()> {
        let mut buffer = vec![0; COPY_BYTES];
        let mut offset = from;
        while offset < to {
            let wanted = usize::try_from(to - offset).unwrap_or(COPY_BYTES).min(COPY_BYTES);
            self.reader.read_exact_at(&mut buffer[..wanted], offset)?;
            fresh.write(&buffer[..wanted])?;
            fresh.keep(&buffer[..wanted]);
            offset = offset.saturating_add(wanted as u64);
        }
        Ok(())
    }
}
