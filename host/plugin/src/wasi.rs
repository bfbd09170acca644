//! WASI over what was granted: an empty context, filled with the granted folders; and what WASI opens, judged before it is opened.

mod names;

use crate::{folders::GrantedFolder, instance::Instance, limits::RANDOM_BYTES, stdio::Kept};
use std::{os::fd::AsRawFd, time::Duration};
use wasmtime::component::{Linker, Resource, ResourceType};
use wasmtime_wasi::{
    Deterministic, FsPerms, HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder,
    filesystem::{Descriptor, WasiFilesystemView},
    p2::{
        FsError,
        bindings::filesystem::types::{
            DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, MetadataHashValue, OpenFlags, PathFlags,
        },
    },
};

fn builder(stdout: Kept, stderr: Kept) -> WasiCtxBuilder {
    let mut builder = WasiCtx::builder();
    builder.stdout(stdout).stderr(stderr).max_random_size(RANDOM_BYTES);
    builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
    builder
}

/// For a call: each granted folder at its own absolute path, the working folder also at `.`.
pub(crate) fn context(folders: &[GrantedFolder], stdout: Kept, stderr: Kept) -> wasmtime::Result<WasiCtx> {
    let mut builder = builder(stdout, stderr);
    // A call with folders runs on a thread of its own: ten times faster than a thread for each operation.
    builder.allow_blocking_current_thread(!folders.is_empty());
    for folder in folders {
        let perms = if folder.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        // The descriptor that was checked at load, not the path: what came in its place meanwhile was not granted.
        let held = format!("/proc/self/fd/{}", folder.handle.as_raw_fd());
        builder.preopened_dir(&held, &folder.guest_path, perms)?;
        if folder.is_workspace {
            builder.preopened_dir(&held, ".", perms)?;
        }
    }
    Ok(builder.build())
}

/// For `specs`, whose answers are kept: nothing in it differs from one time to the next.
pub(crate) fn fixed_context(stdout: Kept, stderr: Kept) -> WasiCtx {
    let mut builder = builder(stdout, stderr);
    builder.wall_clock(Still).monotonic_clock(Still);
    builder.secure_random(Deterministic::new(vec![0])).insecure_random(Deterministic::new(vec![0]));
    builder.insecure_random_seed(0);
    builder.build()
}

struct Still;

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for Still {
    fn resolution(&self) -> u64 {
        1_000_000_000
    }

    fn now(&self) -> u64 {
        0
    }
}

/// All of plain WASI, with what lists folders and three functions replaced. `open-at` refuses what is no regular file or folder: WASI opens without `O_NONBLOCK`, and
/// a FIFO would hold its thread for ever. `symlink-at` makes no link that could lead out: WASI itself would not follow it, programs would.
/// A dropped `descriptor` is no file that is written to any more (`writing.rs`). `metadata-hash-at` knows the name that stands for one that is no UTF-8.
pub(crate) fn add_to_linker(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    let mut types = linker.instance(FILESYSTEM_TYPES)?;
    types.func_wrap_async("[method]descriptor.open-at", |mut store, (folder, follow, path, how, flags)| {
        Box::new(async move { Ok((open_at(store.data_mut(), folder, follow, path, how, flags).await?,)) })
    })?;
    types.func_wrap_async("[method]descriptor.symlink-at", |mut store, (folder, target, path)| {
        Box::new(async move { Ok((symlink_at(store.data_mut(), folder, target, path).await?,)) })
    })?;
    names::add_to_instance(&mut types)?;
    types.resource("descriptor", ResourceType::host::<Descriptor>(), |mut store, rep| {
        let instance = store.data_mut();
        instance.writing.closed(rep);
        HostDescriptor::drop(&mut instance.filesystem(), Resource::new_own(rep))
    })?;
    types.func_wrap_async("[method]descriptor.metadata-hash-at", |mut store, (folder, follow, path)| {
        Box::new(async move { Ok((metadata_hash_at(store.data_mut(), folder, follow, path).await?,)) })
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

/// As `wasmtime-wasi` defines it; a guest's older `@0.2.x` is matched to it.
const FILESYSTEM_TYPES: &str = "wasi:filesystem/types@0.2.12";

async fn open_at(
    instance: &mut Instance,
    folder: Resource<Descriptor>,
    follow: PathFlags,
    path: String,
    how: OpenFlags,
    flags: DescriptorFlags,
) -> wasmtime::Result<Result<Resource<Descriptor>, ErrorCode>> {
    // WASI has no word for EMFILE; this one says that there may be more later.
    if !instance.facts.files.has_room() {
        return Ok(Err(TOO_MANY_OPEN_FILES));
    }
    let mut files = instance.filesystem();
    let again = || Resource::new_borrow(folder.rep());
    match files.stat_at(again(), follow, path.clone()).await {
        // With links not followed a link itself is met: opening it answers as it should.
        Ok(met) if !is_plain(met.type_) && met.type_ != DescriptorType::SymbolicLink => {
            return Ok(Err(NOT_A_REGULAR_FILE));
        }
        // What is not there yet may be made; what cannot be looked at cannot be opened either.
        Ok(_) => {}
        Err(error) => match error.downcast()? {
            ErrorCode::NoEntry => {}
            code => return Ok(Err(code)),
        },
    }
    let opened = match files.open_at(again(), follow, path, how, flags).await {
        Ok(opened) => opened,
        Err(error) => return code(error).map(Err),
    };
    // What came in its place between the look and the opening.
    match files.get_type(Resource::new_borrow(opened.rep())).await {
        Ok(kind) if is_plain(kind) => {
            if flags.contains(DescriptorFlags::WRITE) && kind == DescriptorType::RegularFile {
                instance.writing.opened(opened.rep());
            }
            match instance.table.get(&opened)? {
                Descriptor::File(file) => instance.facts.files.hold(&file.file),
                Descriptor::Dir(folder) => instance.facts.files.hold(&folder.dir),
            }
            Ok(Ok(opened))
        }
        other => {
            HostDescriptor::drop(&mut files, opened)?;
            match other {
                Ok(_) => Ok(Err(NOT_A_REGULAR_FILE)),
                Err(error) => code(error).map(Err),
            }
        }
    }
}

/// C libraries ask for the hash of every name that they list, and end the listing where there is none.
async fn metadata_hash_at(
    instance: &mut Instance,
    folder: Resource<Descriptor>,
    follow: PathFlags,
    path: String,
) -> wasmtime::Result<Result<MetadataHashValue, ErrorCode>> {
    if path == names::NAMELESS {
        return Ok(Ok(MetadataHashValue { lower: 0, upper: 0 }));
    }
    match instance.filesystem().metadata_hash_at(folder, follow, path).await {
        Ok(hash) => Ok(Ok(hash)),
        Err(error) => code(error).map(Err),
    }
}

async fn symlink_at(
    instance: &mut Instance,
    folder: Resource<Descriptor>,
    target: String,
    path: String,
) -> wasmtime::Result<Result<(), ErrorCode>> {
    // Any `..`: where it leads depends on links that may change, and on where the link is moved.
    if target.starts_with('/') || target.split('/').any(|part| part == "..") {
        return Ok(Err(ErrorCode::NotPermitted));
    }
    match instance.filesystem().symlink_at(folder, target, path).await {
        Ok(()) => Ok(Ok(())),
        Err(error) => code(error).map(Err),
    }
}

/// What a guest is told of a FIFO, socket or device. No other opening is answered so.
const NOT_A_REGULAR_FILE: ErrorCode = ErrorCode::Unsupported;

/// What a guest is told where its plugin holds too many files open.
const TOO_MANY_OPEN_FILES: ErrorCode = ErrorCode::Quota;

fn is_plain(kind: DescriptorType) -> bool {
    matches!(kind, DescriptorType::RegularFile | DescriptorType::Directory)
}

fn code(error: FsError) -> wasmtime::Result<ErrorCode> {
    error.downcast()
}
