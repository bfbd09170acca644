//! What tokens cost, in US dollars.

use pith_protocol::{Cost, Usage};
use serde::Deserialize;

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, from = "Published")]
pub struct Rates {
    /// Read afresh.
    pub input: f64,
    /// Written.
    pub output: f64,
    /// Read from the cache.
    pub cache_read: f64,
    /// Written into the cache, for as short a time as the provider offers.
    pub cache_write: f64,
    /// Written into the cache for an hour.
    pub cache_write_1h: f64,
}

/// Rates as providers publish them: what they do not name apart costs what input costs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
}

impl From<Published> for Rates {
    fn from(published: Published) -> Self {
        let Published { input, output, cache_read, cache_write, cache_write_1h } = published;
        let cache_write = cache_write.unwrap_or(input);
        let cache_write_1h = cache_write_1h.unwrap_or(cache_write);
        Self { input, output, cache_read: cache_read.unwrap_or(input), cache_write, cache_write_1h }
    }
}

/// What one model's tokens cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// For most requests.
    pub base: Rates,
    /// For requests whose prompt is long, where these differ.
    pub long: Option<LongPrompt>,
}

/// What requests with a long prompt cost: all of their tokens, not only those above the line.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrompt {
    /// The longest prompt at the usual rates, in tokens, those of the cache included.
    pub above: u64,
    /// The rates beyond.
    #[serde(rename = "prices")]
    pub rates: Rates,
}

impl Prices {
    /// What one request's tokens cost. `written_for_an_hour` is the part of `usage.cache_write` that the cache keeps for an hour.
    pub fn cost(&self, usage: &Usage, written_for_an_hour: u64) -> Cost {
        let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let rates = self.long.filter(|long| prompt > long.above).map_or(self.base, |long| long.rates);
        let of = |tokens: u64, rate: f64| tokens as f64 * rate / 1_000_000.0;
        let for_an_hour = written_for_an_hour.min(usage.cache_write);
        let input = of(usage.input, rates.input);
        let output = of(usage.output, rates.output);
        let cache_read = of(usage.cache_read, rates.cache_read);
        let cache_write =
            of(usage.cache_write - for_an_hour, rates.cache_write) + of(for_an_hour, rates.cache_write_1h);
        let total = input + output + cache_read + cache_write;
        Cost { input, output, cache_read, cache_write, total, unknown: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates { input: 2.0, output: 10.0, cache_read: 0.1, cache_write: 2.5, cache_write_1h: 4.0 };

    fn used(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Usage {
        Usage { input, output, cache_read, cache_write, ..Usage::default() }.totalled()
    }

    fn near(cost: &Cost, expected: [f64; 4]) {
        let [input, output, cache_read, cache_write] = expected;
        let pairs = [
            (cost.input, input),
            (cost.output, output),
            (cost.cache_read, cache_read),
            (cost.cache_write, cache_write),
            (cost.total, expected.iter().sum()),
        ];
        assert!(pairs.iter().all(|(got, want)| (got - want).abs() < 1e-9) && !cost.unknown, "{cost:?}, {expected:?}");
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let prices = Prices { base: RATES, long: None };
        let usage = used(1_000_000, 100_000, 2_000_000, 400_000);
        near(&prices.cost(&usage, 0), [2.0, 1.0, 0.2, 1.0]);
        near(&prices.cost(&usage, 100_000), [2.0, 1.0, 0.2, 0.75 + 0.4]);
        // A provider that counts wrong costs no more than all of it.
        near(&prices.cost(&usage, u64::MAX), [2.0, 1.0, 0.2, 1.6]);
    }

    #[test]
    fn a_long_prompt_changes_the_price_of_all_of_it() {
        let dear = Rates { input: 4.0, output: 15.0, cache_read: 0.2, cache_write: 5.0, cache_write_1h: 8.0 };
        let prices = Prices { base: RATES, long: Some(LongPrompt { above: 300_000, rates: dear }) };
        near(&prices.cost(&used(100_000, 1_000, 100_000, 100_000), 0), [0.2, 0.01, 0.01, 0.25]);
        near(&prices.cost(&used(100_001, 1_000, 100_000, 100_000), 0), [0.400_004, 0.015, 0.02, 0.5]);
        // What is written does not make a prompt long.
        near(&prices.cost(&used(100_000, 900_000, 0, 0), 0), [0.2, 9.0, 0.0, 0.0]);
    }

    #[test]
    fn what_is_not_published_costs_what_input_costs() {
        let rates: Rates = serde_json::from_str(r#"{"input": 3, "output": 9}"#).unwrap();
        assert_eq!((rates.cache_read, rates.cache_write, rates.cache_write_1h), (3.0, 3.0, 3.0));
        assert!(serde_json::from_str::<Rates>(r#"{"input": 3, "output": 9, "cached": 1}"#).is_err());
    }
}
