//! How often the host is asked for more, so that no command, however chatty and long, uses up the host calls of one call.

use std::time::Duration;

/// Host calls that one exported call may make; the host ends it beyond 10,000. Some are left for the rest.
pub const MAX_HOST_CALLS: u32 = 9_900;

/// How long to wait before asking again, after so many host calls: output gathers meanwhile. In all this lasts for more
/// than four hours of uninterrupted output.
pub fn pause(host_calls: u32) -> Duration {
    Duration::from_millis(match host_calls {
        0..2_000 => 0,
        2_000..5_000 => 50,
        5_000..8_000 => 500,
        8_000..9_000 => 2_000,
        _ => 15_000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_of_output_fit() {
        let all: Duration = (0..MAX_HOST_CALLS).map(pause).sum();
        assert!(all > Duration::from_secs(4 * 3600), "{all:?}");
    }

    #[test]
    fn an_ordinary_command_is_not_slowed() {
        assert_eq!(pause(1_999), Duration::ZERO);
    }
}
