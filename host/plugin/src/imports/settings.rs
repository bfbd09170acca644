//! `settings`: this plugin's settings.

use crate::instance::Instance;
use pith_bindings::imports::pith::plugin::settings::Host;

impl Host for Instance {
    async fn get(&mut self) -> wasmtime::Result<String> {
        self.enter(0)?;
        Ok(self.facts.settings.clone())
    }
}
