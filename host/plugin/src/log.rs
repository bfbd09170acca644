//! Where plugins' lines and the texts of their faults go.

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// One line. The message is the plugin's or a trap's, foreign text of any characters: never for a screen as it is.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'l> {
    /// How much it matters.
    pub level: LogLevel,
    /// The plugin.
    pub plugin: &'l str,
    /// At most 64 KiB of a plugin's own words in one call; the text of a fault has as much of its standard output and error.
    pub message: &'l str,
}

/// Takes lines. Called from guests' calls, so it must not wait.
pub trait LogSink: Send + Sync {
    /// Takes one.
    fn write(&self, line: LogLine<'_>);

    /// A plugin's component of so many bytes is about to be compiled, which takes about a second for each MB; only at its first start. Asked
    /// from the threads that load.
    fn compiling(&self, _plugin: &str, _bytes: usize) {}
}

/// Drops all lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl LogSink for NoLog {
    fn write(&self, _: LogLine<'_>) {}
}
