//! Time and chance for `core`.

use futures::future::BoxFuture;
use pith_core::Clock;
use pith_protocol::SessionId;
use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use uuid::Uuid;

/// The system's clocks and random bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Monotonic time counts from here: only differences are used.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    fn now_millis(&self) -> i64 {
        // A clock before 1970 is wrong anyway.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic_millis(&self) -> u64 {
        u64::try_from(BEGAN.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    /// The lowest 32 bits of a UUIDv7 are random, from the system's generator.
    fn random_u32(&self) -> u32 {
        u32::try_from(Uuid::now_v7().as_u128() & u128::from(u32::MAX)).unwrap_or_default()
    }
}

/// A new session's id: a UUIDv7, so that ids sort by time.
pub(crate) fn new_session_id() -> SessionId {
    SessionId::from(Uuid::now_v7().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn random_bits_do_not_repeat_and_use_all_places() {
        let drawn: Vec<u32> = (0..1000).map(|_| SystemClock.random_u32()).collect();
        assert!(drawn.iter().collect::<HashSet<_>>().len() > 990);
        assert_eq!(drawn.iter().fold(0, |all, bits| all | bits), u32::MAX);
        assert_eq!(drawn.iter().fold(u32::MAX, |all, bits| all & bits), 0);
    }

    #[test]
    fn session_ids_sort_by_time() {
        let ids: Vec<String> = (0..100).map(|_| new_session_id().to_string()).collect();
        assert!(ids.is_sorted() && ids[0].len() == 36 && ids[0].as_bytes()[14] == b'7', "{}", ids[0]);
    }
}
