//! Medians, and how they are written.

use std::time::Duration;

/// What one part gave in all rounds.
#[derive(Default)]
pub struct Figures(Vec<f64>);

impl Figures {
    /// One more.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// One more, in milliseconds.
    pub fn add_time(&mut self, time: Duration) {
        self.add(time.as_secs_f64() * 1e3);
    }

    /// The value that this share of all is not above.
    pub fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short list")]
        let place = (last as f64 * share).round() as usize;
        sorted.get(place).copied().unwrap_or(f64::NAN)
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// Round by round, what this is less the other.
    pub fn less(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, two)| one - two).collect())
    }

    /// Round by round, how many times the other this is.
    pub fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, two)| one / two).collect())
    }
}
