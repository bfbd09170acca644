//! Whether a file is still as it was read and written: a checksum for each block of it. It finds accidents, not forgers.

use crc32fast::Hasher;
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
};

/// What one checksum is of, in bytes.
const BLOCK_BYTES: usize = 64 << 10;

/// The checksums of a file, from its start.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    whole: Vec<u32>,
    /// Of the block that is not whole yet.
    last: Hasher,
    /// How much of it there is, less than a block.
    begun: usize,
}

impl Checks {
    /// What follows in the file.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES.saturating_sub(self.begun)));
            self.last.update(piece);
            self.begun = self.begun.saturating_add(piece.len());
            bytes = rest;
            if self.begun == BLOCK_BYTES {
                self.whole.push(std::mem::take(&mut self.last).finalize());
                self.begun = 0;
            }
        }
    }

    /// One sum of all. It changes with any of the bytes, but for forgers.
    pub fn sum(&self) -> u64 {
        let mut sums = Hasher::new();
        for sum in &self.whole {
            sums.update(&sum.to_le_bytes());
        }
        u64::from(sums.finalize()) << 32 | u64::from(self.last.clone().finalize())
    }

    /// How many bytes from the start are in the file as they were, in whole blocks, the last one apart.
    pub fn intact(&self, file: &File) -> u64 {
        let mut block = vec![0; BLOCK_BYTES];
        let mut intact: u64 = 0;
        let last = (self.begun, self.last.clone().finalize());
        let blocks = self.whole.iter().map(|sum| (BLOCK_BYTES, *sum)).chain([last]);
        for (length, sum) in blocks {
            let block = &mut block[..length];
            if file.read_exact_at(block, intact).is_err() || crc32fast::hash(block) != sum {
                break;
            }
            intact = intact.saturating_add(length as u64);
        }
        intact
    }
}

/// A reader that takes the checksums of what passes.
pub(super) struct Checked<'a> {
    pub file: &'a File,
    pub checks: Checks,
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.checks.add(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_found_and_what_was_not_is_too() {
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES + 100).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, &bytes).unwrap();
        let mut checks = Checks::default();
        // In pieces of any size.
        let mut rest = bytes.as_slice();
        for length in [1, 7, BLOCK_BYTES - 8, 1, 2 * BLOCK_BYTES, usize::MAX] {
            let (piece, after) = rest.split_at(rest.len().min(length));
            checks.add(piece);
            rest = after;
        }
        let mut read = Checked { file: &File::open(file.path()).unwrap(), checks: Checks::default() };
        io::copy(&mut read, &mut io::sink()).unwrap();
        assert_eq!((&read.checks.whole, read.checks.begun), (&checks.whole, checks.begun));
        assert_eq!(read.checks.sum(), checks.sum());
        let opened = file.as_file();
        assert_eq!(checks.intact(opened), bytes.len() as u64);
        opened.write_all_at(b"more", bytes.len() as u64).unwrap();
        assert_eq!(checks.intact(opened), bytes.len() as u64);
        for (at, intact) in [(3 * BLOCK_BYTES + 5, 3 * BLOCK_BYTES), (2 * BLOCK_BYTES, 2 * BLOCK_BYTES), (0, 0)] {
            opened.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
            assert_eq!(checks.intact(opened), intact as u64);
        }
        opened.write_all_at(&bytes, 0).unwrap();
        opened.set_len(BLOCK_BYTES as u64 + 1).unwrap();
        assert_eq!(checks.intact(opened), BLOCK_BYTES as u64);
        opened.set_len(0).unwrap();
        assert_eq!((checks.intact(opened), Checks::default().intact(opened)), (0, 0));
    }
}
