//! What plugins import, one file each, implemented on the instance. Every function says `enter` first.

mod child;
mod context;
mod dialog;
mod log;
pub(crate) mod process;
pub(crate) mod progress;
mod reply;
mod scan;
mod secrets;
mod settings;
pub(crate) mod state;
mod tool_updates;

use crate::{instance::Instance, wasi};
use pith_bindings::imports::pith::plugin as wit;
use pith_law::{Authority, Capability, Request};
use wasmtime::{
    Engine,
    component::{HasSelf, Linker},
};

/// Interfaces of `pith:plugin` that this host serves to guests, beside those that are always granted.
const SERVED: [Request; 3] = [Request::Files, Request::Process, Request::Authority(Authority::Dialog)];

/// Whether this host has an implementation of what is asked for.
pub(crate) fn is_served(request: Request) -> bool {
    SERVED.contains(&request)
}

/// Links exactly what was granted, what is always granted, and plain WASI.
pub(crate) fn linker(engine: &Engine, grants: &[Capability]) -> wasmtime::Result<Linker<Instance>> {
    let mut linker = Linker::new(engine);
    wasi::add_to_linker(&mut linker)?;
    wit::context::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    wit::log::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    wit::settings::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    wit::progress::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    wit::tool_updates::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    wit::reply::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    wit::state::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    wit::secrets::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    let has = |request: Request| grants.iter().any(|grant| request.is_served_by(grant));
    if has(Request::Files) {
        wit::scan::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    }
    if has(Request::Process) {
        wit::process::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    }
    if has(Request::Authority(Authority::Dialog)) {
        wit::dialog::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    }
    Ok(linker)
}
