//! All that a program says, in its order: in memory while it is short, then in a file of the spool.

use std::io;
use std::path::Path;

use crate::spool::{SpoolDir, SpoolFile};

/// An output that is kept as a whole, as far as the spool has room.
#[derive(Debug)]
pub struct Whole {
    spool: SpoolDir,
    prefix: String,
    keep_bytes: usize,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    File(SpoolFile),
    /// The file could not be made: the output itself still reaches whoever reads it.
    Nowhere,
}

impl Whole {
    /// Nothing yet. Beyond `keep_bytes` all of it goes to a file in `spool` whose name begins with `prefix`.
    pub fn new(spool: SpoolDir, prefix: String, keep_bytes: usize) -> Self {
        Self { spool, prefix, keep_bytes, place: Place::Memory(Vec::new()) }
    }

    /// Takes the next bytes. Never fails: [`Whole::is_cut`] tells.
    pub fn append(&mut self, bytes: &[u8]) {
        match &mut self.place {
            Place::Memory(memory) if memory.len().saturating_add(bytes.len()) <= self.keep_bytes => {
                memory.extend_from_slice(bytes);
            }
            Place::Memory(memory) => {
                let memory = std::mem::take(memory);
                self.place = match self.spool.create(&self.prefix) {
                    Ok(mut file) => {
                        file.append(&memory);
                        file.append(bytes);
                        Place::File(file)
                    }
                    Err(_) => Place::Nowhere,
                };
            }
            Place::File(file) => file.append(bytes),
            Place::Nowhere => {}
        }
    }

    /// The file's path on the host, where there is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::File(file) => Some(file.path()),
            _ => None,
        }
    }

    /// Whether something of it is neither in memory nor in the file.
    pub fn is_cut(&self) -> bool {
        match &self.place {
            Place::Memory(_) => false,
            Place::File(file) => file.is_cut(),
            Place::Nowhere => true,
        }
    }

    /// The file, made now if there is none.
    ///
    /// Errors: it cannot be made; what was said so far is lost then.
    pub fn into_file(self) -> io::Result<SpoolFile> {
        match self.place {
            Place::File(file) => Ok(file),
            Place::Memory(memory) => {
                let mut file = self.spool.create(&self.prefix)?;
                file.append(&memory);
                Ok(file)
            }
            Place::Nowhere => self.spool.create(&self.prefix),
        }
    }
}
