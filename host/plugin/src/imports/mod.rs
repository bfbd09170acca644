//! What plugins import, one file each, implemented on the instance. Every function says `enter` first.

mod child;
mod context;
pub(crate) mod dialog;
mod form;
mod log;
mod models;
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
use std::sync::{Arc, Mutex, PoisonError};
use wasmtime::{
    Engine,
    component::{HasSelf, Linker},
};

/// Interfaces of `pith:plugin` that this host serves to guests, beside those that are always granted. In the order in which `linker` takes them.
const SERVED: [Request; 4] =
    [Request::Files, Request::Process, Request::Authority(Authority::Dialog), Request::Authority(Authority::Models)];

/// Whether this host has an implementation of what is asked for.
pub(crate) fn is_served(request: Request) -> bool {
    SERVED.contains(&request)
}

/// What is linked, by engine and by what was granted of the authorities that are linked only then: plugins of one kind share a linker, which
/// takes a quarter of the time that loading one does.
#[derive(Default)]
pub(crate) struct Linkers(Mutex<Vec<(Engine, [bool; SERVED.len()], Arc<Linker<Instance>>)>>);

impl Linkers {
    /// Links exactly what was granted, what is always granted, and plain WASI.
    pub fn linker(&self, engine: &Engine, grants: &[Capability]) -> wasmtime::Result<Arc<Linker<Instance>>> {
        let granted = SERVED.map(|request| grants.iter().any(|grant| request.is_served_by(grant)));
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = made.iter().find(|(of, kind, _)| Engine::same(of, engine) && *kind == granted);
        if let Some((_, _, linker)) = known {
            return Ok(linker.clone());
        }
        let linker = Arc::new(linker(engine, granted)?);
        made.push((engine.clone(), granted, linker.clone()));
        Ok(linker)
    }
}

fn linker(
    engine: &Engine,
    [files, process, dialog, models]: [bool; SERVED.len()],
) -> wasmtime::Result<Linker<Instance>> {
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
    if files {
        wit::scan::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    }
    if process {
        wit::process::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    }
    if dialog {
        wit::dialog::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    }
    if models {
        wit::models::add_to_linker::<_, HasSelf<_>>(&mut linker, |instance| instance)?;
    }
    Ok(linker)
}
