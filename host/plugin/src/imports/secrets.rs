//! `secrets`: whether a secret is set. None is before there are manifests that name them and hosts that they go to.

use crate::{convert::refusal, instance::Instance};
use pith_bindings::imports::pith::plugin::{
    secrets::Host,
    types::{Error, ErrorKind},
};

impl Host for Instance {
    async fn exists(&mut self, name: String) -> wasmtime::Result<bool> {
        self.enter(name.len())?;
        Ok(false)
    }

    async fn request(&mut self, name: String) -> wasmtime::Result<Result<bool, Error>> {
        self.enter(name.len())?;
        Ok(Err(refusal(ErrorKind::Unavailable, "nobody can be asked for a secret here")))
    }
}
