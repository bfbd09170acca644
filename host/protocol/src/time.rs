//! Times: UTC with milliseconds and `Z` in entries, milliseconds since 1970 in messages.

use jiff::Timestamp;

/// `2026-11-30T17:04:16.101Z`. A time outside the years that a timestamp can hold becomes 1970.
pub fn iso_from_millis(millis: i64) -> String {
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{time:.3}")
}

/// The inverse; none where the text is not an RFC 3339 time.
pub fn millis_from_iso(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_z() {
        assert_eq!(iso_from_millis(1_796_058_256_101), "2026-11-30T17:04:16.101Z");
        assert_eq!(iso_from_millis(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_from_millis(i64::MAX), "1970-01-01T00:00:00.000Z");
        assert_eq!(millis_from_iso("2026-11-30T17:04:16.101Z"), Some(1_796_058_256_101));
        assert_eq!(millis_from_iso("yesterday"), None);
    }
}
