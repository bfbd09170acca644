//! `log`: lines for the log file.

use crate::{
    instance::Instance,
    log::{LogLevel, LogLine},
};
use pith_bindings::imports::pith::plugin::log::{Host, Level};

impl Host for Instance {
    async fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.enter(message.len())?;
        if self.log_left == 0 {
            return Ok(());
        }
        let kept = message.floor_char_boundary(self.log_left);
        self.log_left = self.log_left.saturating_sub(message.len());
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.facts.log.write(LogLine { level, plugin: &self.facts.name, message: &message[..kept] });
        Ok(())
    }
}
