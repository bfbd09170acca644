//! What is done with a path, by names that explain themselves where it fails. Only regular files are opened.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};

use super::{Entries, Entry, EntryKind, GuestPath};
use crate::Error;
use crate::text::size;

/// The most bytes that [`GuestPath::read`] and [`GuestPath::read_to_string`] hold. Whoever wants more reads
/// [`GuestPath::open`] in pieces.
pub const MAX_READ_BYTES: u64 = 16 * 1024 * 1024;
/// The most names that [`GuestPath::list`] gives.
pub const MAX_LISTED: usize = 10_000;

impl GuestPath {
    /// What is known of a file or folder without opening it. Links are followed within the granted folders.
    pub fn metadata(&self) -> Result<Metadata, Error> {
        fs::metadata(self).map_err(|error| self.explain("look at", &error))
    }

    /// Whether something is there that can be reached.
    pub fn exists(&self) -> bool {
        fs::metadata(self).is_ok()
    }

    /// Opens a regular file for reading; anything else is refused unopened.
    pub fn open(&self) -> Result<File, Error> {
        let metadata = fs::metadata(self).map_err(|error| self.explain("read", &error))?;
        self.check_file(&metadata)?;
        File::open(self).map_err(|error| self.explain("read", &error))
    }

    /// A file's bytes, at most [`MAX_READ_BYTES`]; `limit` where it has more.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut file = self.open()?.take(MAX_READ_BYTES + 1);
        file.read_to_end(&mut bytes).map_err(|error| self.explain("read", &error))?;
        if bytes.len() as u64 > MAX_READ_BYTES {
            return Err(Error::limit(format!(
                "`{self}` is larger than {}, the most that this tool reads.",
                size(MAX_READ_BYTES)
            )));
        }
        Ok(bytes)
    }

    /// A file's text, as [`GuestPath::read`]; `invalid` where it is not UTF-8.
    pub fn read_to_string(&self) -> Result<String, Error> {
        String::from_utf8(self.read()?).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Error::invalid(format!("`{self}` is not UTF-8 text (byte {at} is the first that is wrong)."))
        })
    }

    /// Writes a whole file in place: its mode, owner and links stay. It is made where it is missing, with its folders.
    pub fn write(&self, content: impl AsRef<[u8]>) -> Result<(), Error> {
        let explain = |error: io::Error| self.explain("write", &error);
        match fs::metadata(self) {
            Ok(metadata) => self.check_file(&metadata)?,
            Err(_) => {
                if let Some(folder) = self.parent().filter(|folder| !folder.exists()) {
                    fs::create_dir_all(&folder).map_err(|error| folder.explain("make", &error))?;
                }
            }
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(self).map_err(explain)?;
        file.write_all(content.as_ref()).map_err(explain)
    }

    /// The names in a folder, sorted; those of folders end with `/`. One that is no UTF-8 is U+FFFD. At most [`MAX_LISTED`]; `limit` where there are more.
    pub fn list(&self) -> Result<Vec<String>, Error> {
        if !fs::metadata(self).map_err(|error| self.explain("list", &error))?.is_dir() {
            return Err(Error::invalid(format!("`{self}` is a file, not a folder.")));
        }
        let Entries { entries, is_all } = self.entries(MAX_LISTED)?;
        if !is_all {
            return Err(Error::limit(format!("`{self}` has more than {MAX_LISTED} entries; name one of its folders.")));
        }
        let named = |Entry { mut name, kind }| {
            if kind == EntryKind::Folder {
                name.push('/');
            }
            name
        };
        let mut names: Vec<String> = entries.into_iter().map(named).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn check_file(&self, metadata: &Metadata) -> Result<(), Error> {
        if metadata.is_dir() {
            return Err(Error::invalid(format!("`{self}` is a folder, not a file.")));
        }
        if !metadata.is_file() {
            return Err(Error::invalid(format!("`{self}` is not a regular file.")));
        }
        Ok(())
    }
}
