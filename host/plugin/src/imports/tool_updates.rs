//! `tool-updates`: asks for `specs` again. Only of plugins whose manifest says `dynamic`; none does while there are no manifests.

use crate::{
    instance::Instance,
    log::{LogLevel, LogLine},
};
use pith_bindings::imports::pith::plugin::tool_updates::Host;

impl Host for Instance {
    async fn changed(&mut self) -> wasmtime::Result<()> {
        self.enter(0)?;
        let message = "tool-updates.changed has no effect: the plugin's tools are not declared as dynamic";
        self.facts.log.write(LogLine { level: LogLevel::Warn, plugin: &self.facts.name, message });
        Ok(())
    }
}
