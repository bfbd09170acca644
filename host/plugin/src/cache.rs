//! Compiled code on disk, and what tools said of themselves beside it.
//!
//! A file here is native code in our process, and wasmtime notices truncation but not a changed byte. So the folder is the user's own and
//! private, a file is written under another name and renamed, its own digest stands beside it and is compared before it is mapped, and
//! whatever does not fit is compiled again from the component, whose sha256 is taken of the very bytes that are compiled.

use pith_os::Root;
use sha2::{Digest, Sha256};
use std::{
    fs::{DirBuilder, File, Metadata},
    hash::{Hash, Hasher},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};
use wasmtime::{Engine, component::Component};

/// The longest compiled file that is looked at, in bytes: 64 MiB of component grow about threefold.
const CODE_BYTES: u64 = 512 << 20;
/// The longest file of specs, in bytes: 64 tools of at most 70 kB.
const SPECS_BYTES: u64 = 8 << 20;

/// The folder of compiled code, for one engine configuration.
pub(crate) struct CodeCache {
    /// None where the folder cannot be used: code is then compiled at each start.
    folder: Option<Root>,
    engine_key: String,
    /// Why something could not be kept, the first time.
    unkept: OnceLock<String>,
    /// Something in the folder is not what was written there.
    altered: AtomicBool,
}

/// A sha256 in hex.
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    let mut text = String::with_capacity(digest.len() * 2);
    for byte in digest {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    text
}

impl CodeCache {
    /// Opens the folder, making it where it is missing. The second is why it cannot be used.
    pub fn open(dir: &Path, engine: &Engine) -> (Self, Option<String>) {
        let (folder, refused) = match private_folder(dir) {
            Ok(folder) => (Some(folder), None),
            Err(error) => (None, Some(format!("compiled code is not kept: {}: {error}", dir.display()))),
        };
        (
            Self { folder, engine_key: engine_key(engine), unkept: OnceLock::new(), altered: AtomicBool::new(false) },
            refused,
        )
    }

    /// Why something could not be kept in a folder that can be used, such as a full disk: then every start compiles anew.
    pub fn trouble(&self) -> Option<String> {
        let altered = || {
            let folder = self.folder.as_ref().filter(|_| self.altered.load(Ordering::Relaxed))?.path().display();
            Some(format!("compiled code in {folder} was not what was written there; it was compiled anew"))
        };
        self.unkept.get().cloned().or_else(altered)
    }

    /// The compiled form of the component with this digest, if it is there and whole.
    pub fn load(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let folder = self.folder.as_ref()?;
        let name = self.code_name(digest);
        let recorded = folder.read_text(Path::new(&format!("{name}.sum")), 64).ok()?;
        let Ok(mut file) = folder.open_file(Path::new(&name)) else {
            let is_there = std::fs::symlink_metadata(folder.path().join(&name)).is_ok();
            self.altered.fetch_or(is_there, Ordering::Relaxed);
            return None;
        };
        let before = file.metadata().ok()?;
        if before.len() > CODE_BYTES || digest_of(&mut file).ok()? != recorded {
            self.altered.store(true, Ordering::Relaxed);
            return None;
        }
        let path = folder.path().join(&name);
        // SAFETY: the file is what this host wrote: its digest is the recorded one, in a folder that only this user can write to, and
        // files there are never changed in place. Wasmtime itself refuses another version, target or configuration.
        #[allow(unsafe_code)]
        let component = unsafe { Component::deserialize_file(engine, &path) }.ok()?;
        // What was mapped is what was compared, not a file that came in its place; nothing of it has run yet.
        let after = std::fs::symlink_metadata(&path).ok()?;
        is_same(&before, &after).then_some(component)
    }

    /// Compiles and keeps. A full disk only costs the next start.
    pub fn compile(&self, engine: &Engine, digest: &str, bytes: &[u8]) -> wasmtime::Result<Vec<u8>> {
        let code = engine.precompile_component(bytes)?;
        self.keep(&self.code_name(digest), &code);
        Ok(code)
    }

    /// What was kept beside the code under this key.
    pub fn load_specs(&self, key: &str) -> Option<Vec<u8>> {
        let folder = self.folder.as_ref()?;
        let name = specs_name(key);
        let recorded = folder.read_text(Path::new(&format!("{name}.sum")), 64).ok()?;
        let bytes = folder.read_limited(Path::new(&name), SPECS_BYTES).ok()?;
        (hex_digest(&bytes) == recorded).then_some(bytes)
    }

    /// Keeps what a plugin said of its tools. A full disk only costs the next start.
    pub fn keep_specs(&self, key: &str, bytes: &[u8]) {
        self.keep(&specs_name(key), bytes);
    }

    fn code_name(&self, digest: &str) -> String {
        format!("{digest}-{}.cwasm", self.engine_key)
    }

    fn keep(&self, name: &str, bytes: &[u8]) {
        let Some(folder) = self.folder.as_ref().map(Root::path) else { return };
        let kept = replace(folder, name, bytes)
            .and_then(|()| replace(folder, &format!("{name}.sum"), hex_digest(bytes).as_bytes()));
        if let Err(error) = kept {
            self.unkept.get_or_init(|| format!("compiled code is not kept: {}: {error}", folder.display()));
        }
    }
}

/// Code that this process has just compiled.
pub(crate) fn in_memory(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes come from `precompile_component` or `serialize` of this process.
    #[allow(unsafe_code)]
    unsafe {
        Component::deserialize(engine, code)
    }
}

fn specs_name(key: &str) -> String {
    format!("{key}.specs.json")
}

fn private_folder(dir: &Path) -> io::Result<Root> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let met = std::fs::symlink_metadata(dir)?;
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if !met.is_dir() {
        return refused("it is a link, not a folder");
    }
    if met.uid() != rustix::process::getuid().as_raw() {
        return refused("it belongs to another user");
    }
    if met.mode() & 0o077 != 0 {
        return refused("others may enter it; its mode has to be 0700");
    }
    Root::open(dir).map_err(io::Error::other)
}

fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name)).map_err(|error| error.error)?;
    Ok(())
}

fn digest_of(file: &mut File) -> io::Result<String> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 128 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&sum.finalize())),
            read => sum.update(&buffer[..read]),
        }
    }
}

fn is_same(a: &Metadata, b: &Metadata) -> bool {
    let face = |met: &Metadata| {
        (met.dev(), met.ino(), met.len(), met.mtime(), met.mtime_nsec(), met.ctime(), met.ctime_nsec())
    };
    b.is_file() && face(a) == face(b)
}

/// What code of this engine depends on: wasmtime's version, target, processor, settings.
fn engine_key(engine: &Engine) -> String {
    struct Sum(Sha256);
    impl Hasher for Sum {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut sum = Sum(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut sum);
    hex(&sum.0.finalize()[..8])
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
