//! Lines for the log file, never for the screen. At most 64 KiB a call.

pub use crate::authorities::log::{Level, write};

/// For those who look for a fault.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Something worth knowing happened.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Something went wrong that the plugin coped with.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Something went wrong that somebody has to mend.
pub fn error(message: &str) {
    write(Level::Error, message);
}
