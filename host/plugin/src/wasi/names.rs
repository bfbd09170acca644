//! What a folder has in it, read name by name. `wasmtime-wasi` asks the system once more for each name and holds all of them; this takes the kind from
//! the folder itself, which makes a listing four times faster, and holds one buffer.

use crate::instance::Instance;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use std::{ffi::CStr, fs::File, io, sync::Arc};
use wasmtime::{
    StoreContextMut,
    component::{LinkerInstance, Resource, ResourceType},
};
use wasmtime_wasi::{
    filesystem::Descriptor,
    p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry, ErrorCode},
};

/// What a name that is no UTF-8 is listed as: WASI's error would end the listing in libraries, and the names after it would be lost with it. U+FFFD, the
/// replacement character.
pub(super) const NAMELESS: &str = "\u{fffd}";

/// A listing under way: the resource `directory-entry-stream`.
struct Names {
    names: Dir,
    /// For kinds that the folder does not tell.
    folder: Arc<File>,
    /// Its own descriptor, as it is counted.
    _held: Arc<()>,
}

/// Replaces the resource and its two functions.
pub(super) fn add_to_instance(types: &mut LinkerInstance<'_, Instance>) -> wasmtime::Result<()> {
    types.resource("directory-entry-stream", ResourceType::host::<Names>(), |mut store, rep| {
        store.data_mut().table.delete(Resource::<Names>::new_own(rep))?;
        Ok(())
    })?;
    types.func_wrap(
        "[method]descriptor.read-directory",
        |mut store: StoreContextMut<'_, Instance>, (folder,): (Resource<Descriptor>,)| {
            Ok((open(store.data_mut(), &folder)?,))
        },
    )?;
    types.func_wrap(
        "[method]directory-entry-stream.read-directory-entry",
        |mut store: StoreContextMut<'_, Instance>, (names,): (Resource<Names>,)| {
            Ok((store.data_mut().table.get_mut(&names)?.next(),))
        },
    )
}

fn open(
    instance: &mut Instance,
    folder: &Resource<Descriptor>,
) -> wasmtime::Result<Result<Resource<Names>, ErrorCode>> {
    let folder = match instance.table.get(folder)? {
        Descriptor::Dir(folder) => folder.dir.clone(),
        Descriptor::File(_) => return Ok(Err(ErrorCode::NotDirectory)),
    };
    if !instance.facts.files.has_room() {
        return Ok(Err(super::TOO_MANY_OPEN_FILES));
    }
    // Anew: a granted folder itself is held by a descriptor that cannot be read.
    let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(&folder, c".", readable, Mode::empty()).and_then(Dir::new) {
        Ok(names) => {
            let held = Arc::new(());
            instance.facts.files.hold(&held);
            Ok(Ok(instance.table.push(Names { names, folder, _held: held })?))
        }
        Err(error) => Ok(Err(code(error))),
    }
}

impl Names {
    fn next(&mut self) -> Result<Option<DirectoryEntry>, ErrorCode> {
        loop {
            let entry = match self.names.next() {
                None => return Ok(None),
                Some(Ok(entry)) => entry,
                Some(Err(error)) => return Err(code(error)),
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let type_ = match entry.file_type() {
                FileType::Unknown => self.looked_at(name),
                kind => kind_of(kind),
            };
            let name = name.to_str().map_or_else(|_| NAMELESS.to_owned(), str::to_owned);
            return Ok(Some(DirectoryEntry { type_, name }));
        }
    }

    /// On file systems whose folders know only names.
    fn looked_at(&self, name: &CStr) -> DescriptorType {
        let met = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        met.map_or(DescriptorType::Unknown, |met| kind_of(FileType::from_raw_mode(met.st_mode)))
    }
}

fn kind_of(kind: FileType) -> DescriptorType {
    match kind {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::Fifo => DescriptorType::Fifo,
        FileType::Socket => DescriptorType::Socket,
        _ => DescriptorType::Unknown,
    }
}

fn code(error: rustix::io::Errno) -> ErrorCode {
    ErrorCode::from(io::Error::from(error))
}
