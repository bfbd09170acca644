//! How long a provider asks to wait.

use pith_core::FailureKind;
use reqwest::header::HeaderMap;
use std::time::Duration;

/// The longest wait that a provider may ask for; beyond it, it is no hint.
const RETRY_AFTER_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// `retry-after-ms`, else `retry-after` in seconds or as a date.
pub(crate) fn retry_after(headers: &HeaderMap, now_millis: i64) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str, unit: f64| text.parse::<f64>().ok().and_then(|number| wait(number * unit));
    if let Some(wait) = text("retry-after-ms").and_then(|text| number(text, 0.001)) {
        return Some(wait);
    }
    let text = text("retry-after")?;
    number(text, 1.0).or_else(|| {
        let then = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
        wait(then.saturating_sub(now_millis).max(0) as f64 / 1_000.0)
    })
}

/// What "try again in 1.5s" (also `200ms`, `6m0s`, `20 seconds`) asks for, of kinds that are tried again.
pub(crate) fn hinted_wait(kind: FailureKind, text: &str) -> Option<Duration> {
    if !kind.is_retryable() {
        return None;
    }
    let text = text.to_lowercase();
    let at = ["try again in ", "retry in ", "retry after "]
        .iter()
        .find_map(|hint| text.find(hint).map(|at| at + hint.len()))?;
    let mut rest = &text[at..];
    let mut seconds = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<f64>() else { break };
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3_600.0,
            _ => break,
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * unit);
        rest = &rest[letters..];
    }
    wait(seconds?)
}

fn wait(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|wait| *wait <= RETRY_AFTER_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    #[test]
    fn waits_in_headers_and_words() {
        let header = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_str(value).unwrap());
            retry_after(&headers, 1_445_412_475_000)
        };
        assert_eq!(header("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(header("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(header("retry-after-ms", "1500"), Some(Duration::from_millis(1_500)));
        assert_eq!(header("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(5)));
        assert_eq!(header("retry-after", "Wed, 21 Oct 2015 07:27:00 GMT"), Some(Duration::ZERO));
        for odd in ["", "soon", "-1", "NaN", "1e300", "99999999"] {
            assert_eq!(header("retry-after", odd), None, "{odd}");
        }
        let hint = |text| hinted_wait(FailureKind::RateLimited, text);
        assert_eq!(hint("Please try again in 6m0.5s."), Some(Duration::from_millis(360_500)));
        assert_eq!(hint("Please retry in 200ms"), Some(Duration::from_millis(200)));
        assert_eq!(hint("try again in 20 seconds, or later"), Some(Duration::from_secs(20)));
        assert_eq!(hint("try again in a while"), None);
        assert_eq!(hinted_wait(FailureKind::Quota, "try again in 20s"), None);
    }
}
