//! Files that a call has open for writing. While there is one, an abort waits a little: writes are in place, and a call that is dropped between two of
//! them leaves a file that is neither the old one nor the new.

use crate::limits::END_GRACE;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::watch;

/// Shared by a call's instance and by whoever ends the call.
#[derive(Clone)]
pub(crate) struct Writing(Arc<Inner>);

struct Inner {
    /// By the number of the guest's resource.
    open: Mutex<HashSet<u32>>,
    is_going: watch::Sender<bool>,
}

impl Default for Writing {
    fn default() -> Self {
        Self(Arc::new(Inner { open: Mutex::default(), is_going: watch::Sender::new(false) }))
    }
}

impl Writing {
    /// A file was opened for writing.
    pub fn opened(&self, rep: u32) {
        self.change(|open| {
            open.insert(rep);
        });
    }

    /// A file or folder was closed.
    pub fn closed(&self, rep: u32) {
        self.change(|open| {
            open.remove(&rep);
        });
    }

    fn change(&self, change: impl FnOnce(&mut HashSet<u32>)) {
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut open);
        self.0.is_going.send_if_modified(|is_going| std::mem::replace(is_going, !open.is_empty()) == open.is_empty());
    }

    /// Whether a file is open for writing now.
    pub fn is_going(&self) -> bool {
        *self.0.is_going.borrow()
    }

    /// Comes when no file is open for writing, and the call had a moment to say what it did. At once where there was none.
    pub async fn over(&self) {
        if !self.is_going() {
            return;
        }
        // The sender lives as long as this does.
        let _ = self.0.is_going.subscribe().wait_for(|is_going| !is_going).await;
        tokio::time::sleep(END_GRACE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[tokio::test]
    async fn it_goes_on_until_the_last_file_is_closed() {
        let writing = Writing::default();
        let began = Instant::now();
        writing.over().await;
        assert!(!writing.is_going() && began.elapsed() < END_GRACE);
        writing.opened(3);
        writing.opened(7);
        writing.closed(5);
        writing.closed(3);
        assert!(writing.is_going());
        assert!(tokio::time::timeout(Duration::from_millis(20), writing.over()).await.is_err());
        let other = writing.clone();
        let (closed, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(10), writing.over()), async {
            other.closed(7);
        });
        assert!(closed.is_ok() && !writing.is_going());
    }
}
