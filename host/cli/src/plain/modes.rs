//! The terminal's modes as they were, put back however the program leaves.

use rustix::{
    process::getpgrp,
    stdio::stdin,
    termios::{
        ControlModes, InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush,
        tcgetattr, tcgetpgrp, tcsetattr,
    },
};
use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

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

    /// What a line is edited with, for [`EditModes::take_up`].
    pub fn for_editing(&self) -> EditModes {
        let lines = self.before.clone();
        let mut keys = lines.clone();
        // As the editor sets them.
        keys.input_modes &=
            !(InputModes::BRKINT | InputModes::ICRNL | InputModes::INPCK | InputModes::ISTRIP | InputModes::IXON);
        keys.control_modes |= ControlModes::CS8;
        keys.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN | LocalModes::ISIG);
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        EditModes { lines, keys, editing: Mutex::new(false) }
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

/// The modes while a line is edited. The editor sets them itself, also after it has stopped the process for Ctrl-Z; but another thread takes
/// that signal, so the editor may have set them, and drawn its line, just before the stop: the shell has set others since.
pub struct EditModes {
    lines: Termios,
    keys: Termios,
    editing: Mutex<bool>,
}

impl EditModes {
    /// Before a line is edited.
    pub fn begin(&self) {
        *self.editing.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// After it: whole lines again, whatever came between.
    pub fn end(&self) {
        let mut editing = self.editing.lock().unwrap_or_else(PoisonError::into_inner);
        *editing = false;
        let differs = tcgetattr(stdin()).is_ok_and(|now| now.local_modes != self.lines.local_modes);
        if differs && Modes::in_foreground() {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &self.lines);
        }
    }

    /// After the process was stopped and goes on: sets what editing needs. Whether a line is being edited, which has to be drawn again.
    pub fn take_up(&self) -> bool {
        let editing = self.editing.lock().unwrap_or_else(PoisonError::into_inner);
        *editing && Modes::in_foreground() && tcsetattr(stdin(), OptionalActions::Now, &self.keys).is_ok()
    }
}
