//! The terminal's modes as they were, put back however the program leaves.

use rustix::{
    process::getpgrp,
    stdio::stdin,
    termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp, tcsetattr},
};
use std::io::{self, Write};

/// Ends what a line editor that was left in its middle had begun: bracketed paste, colours.
const ENDINGS: &[u8] = b"\x1b[?2004l\x1b[0m";

/// Restores when dropped, also by a panic's unwinding.
pub struct Modes {
    before: Termios,
    escapes: bool,
}

impl Modes {
    /// Keeps what holds now. `escapes`: the terminal knows them.
    pub fn keep(escapes: bool) -> io::Result<Self> {
        Ok(Self { before: tcgetattr(stdin())?, escapes })
    }

    /// Drops what was typed and not read.
    pub fn forget_typed() {
        let _ = tcflush(stdin(), QueueSelector::IFlush);
    }

    /// Whether this process may read its terminal: a job in the background that does is stopped.
    pub fn in_foreground() -> bool {
        tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        let differs = tcgetattr(stdin()).is_ok_and(|now| now.local_modes != self.before.local_modes);
        // A terminal that is gone, or a shell's by now, is left alone.
        if differs && Self::in_foreground() {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
            if self.escapes {
                let mut out = io::stdout().lock();
                let _ = out.write_all(ENDINGS);
                let _ = out.write_all(b"\r\n");
                let _ = out.flush();
            }
        }
    }
}
