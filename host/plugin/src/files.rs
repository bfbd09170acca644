//! Files that a plugin's calls hold open: bounded together, so that no plugin takes the process's last descriptor.

use crate::limits::OPEN_FILES;
use rustix::process::{Resource, getrlimit};
use std::{
    any::Any,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// What part of the process's own limit one plugin may take.
const PART: u64 = 4;

/// All that is held open for one plugin, whoever holds it: a stream keeps a file open that its guest has let go.
pub(crate) struct OpenFiles {
    held: Mutex<Vec<Weak<dyn Any + Send + Sync>>>,
    /// As it was at load: the process's own limit is lower while a program starts.
    limit: usize,
}

impl Default for OpenFiles {
    fn default() -> Self {
        Self { held: Mutex::default(), limit: limit(getrlimit(Resource::Nofile).current) }
    }
}

impl OpenFiles {
    /// Whether one more may be opened.
    pub fn has_room(&self) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= self.limit {
            held.retain(|file| file.strong_count() > 0);
        }
        held.len() < self.limit
    }

    /// Counts this one until its last holder is gone.
    pub fn hold(&self, file: &Arc<impl Any + Send + Sync>) {
        let file: Weak<dyn Any + Send + Sync> = Arc::downgrade(&(file.clone() as Arc<dyn Any + Send + Sync>));
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    }
}

/// Files of one plugin, where the process may open so many; none: without end.
fn limit(of_process: Option<u64>) -> usize {
    let part = of_process.map_or(u64::MAX, |limit| limit / PART);
    OPEN_FILES.min(usize::try_from(part).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_go_makes_room() {
        assert_eq!(limit(None), OPEN_FILES);
        assert_eq!(limit(Some(1_000_000)), OPEN_FILES);
        assert_eq!(limit(Some(1024)), 256);
        let files = OpenFiles::default();
        let most = files.limit;
        let held: Vec<Arc<usize>> = (0..most).map(Arc::new).collect();
        held.iter().for_each(|file| files.hold(file));
        assert!(!files.has_room());
        let stream = held[0].clone();
        drop(held);
        assert!(files.has_room());
        let kept = files.held.lock().unwrap().len();
        assert_eq!((kept, *stream), (1, 0), "the stream's file counts still");
    }
}
