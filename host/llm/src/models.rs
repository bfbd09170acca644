//! The model table: what is known of models before they are asked. Windows, outputs and prices (US dollars for a million tokens) as
//! their providers publish them.

use crate::{Endpoint, Wire};
use pith_core::ModelCard;
use pith_protocol::{Cost, ModelRef, ThinkingLevel, Usage};

/// The window of a model that the table does not know, in tokens.
pub const UNKNOWN_WINDOW_TOKENS: u64 = 128_000;
/// The longest reply of a model that the table does not know, in tokens.
pub const UNKNOWN_OUTPUT_TOKENS: u64 = 16_384;

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Read afresh.
    pub input: f64,
    /// Written.
    pub output: f64,
    /// Read from the cache.
    pub cache_read: f64,
    /// Written into the cache.
    pub cache_write: f64,
}

impl Prices {
    /// What tokens cost.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let of = |tokens: u64, price: f64| tokens as f64 * price / 1_000_000.0;
        let (input, output) = (of(usage.input, self.input), of(usage.output, self.output));
        let (cache_read, cache_write) =
            (of(usage.cache_read, self.cache_read), of(usage.cache_write, self.cache_write));
        Cost {
            input,
            output,
            cache_read,
            cache_write,
            total: input + output + cache_read + cache_write,
            unknown: false,
        }
    }
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct KnownModel {
    provider: &'static str,
    id: &'static str,
    window_tokens: u64,
    output_tokens: u64,
    /// The words for `reasoning_effort` from the least on; on Anthropic's wire any word says that it thinks.
    efforts: &'static [&'static str],
    prices: Prices,
}

const BUDGET: &[&str] = &["budget"];
const EFFORTS: &[&str] = &["low", "medium", "high"];
const EFFORTS_WITH_MINIMAL: &[&str] = &["minimal", "low", "medium", "high"];

const fn claude(id: &'static str, output_tokens: u64, input: f64, output: f64) -> KnownModel {
    // Reading the cache costs a tenth, writing it for five minutes a quarter more.
    let prices = Prices { input, output, cache_read: input * 0.1, cache_write: input * 1.25 };
    KnownModel { provider: "anthropic", id, window_tokens: 200_000, output_tokens, efforts: BUDGET, prices }
}

const fn gpt(
    id: &'static str,
    window_tokens: u64,
    output_tokens: u64,
    efforts: &'static [&'static str],
    input: f64,
    cache_read: f64,
    output: f64,
) -> KnownModel {
    let prices = Prices { input, output, cache_read, cache_write: 0.0 };
    KnownModel { provider: "openai", id, window_tokens, output_tokens, efforts, prices }
}

/// All of them read pictures. The first of a provider is its default.
static KNOWN: &[KnownModel] = &[
    claude("claude-sonnet-4-5", 64_000, 3.0, 15.0),
    claude("claude-opus-4-5", 64_000, 5.0, 25.0),
    claude("claude-haiku-4-5", 64_000, 1.0, 5.0),
    claude("claude-sonnet-4-6", 64_000, 3.0, 15.0),
    claude("claude-opus-4-6", 128_000, 5.0, 25.0),
    claude("claude-opus-4-1", 32_000, 15.0, 75.0),
    claude("claude-opus-4", 32_000, 15.0, 75.0),
    claude("claude-sonnet-4", 64_000, 3.0, 15.0),
    gpt("gpt-5", 400_000, 128_000, EFFORTS_WITH_MINIMAL, 1.25, 0.125, 10.0),
    gpt("gpt-5-mini", 400_000, 128_000, EFFORTS_WITH_MINIMAL, 0.25, 0.025, 2.0),
    gpt("gpt-5-nano", 400_000, 128_000, EFFORTS_WITH_MINIMAL, 0.05, 0.005, 0.4),
    gpt("gpt-5.1", 400_000, 128_000, EFFORTS, 1.25, 0.125, 10.0),
    gpt("gpt-4.1", 1_047_576, 32_768, &[], 2.0, 0.5, 8.0),
    gpt("gpt-4.1-mini", 1_047_576, 32_768, &[], 0.4, 0.1, 1.6),
    gpt("gpt-4.1-nano", 1_047_576, 32_768, &[], 0.1, 0.025, 0.4),
    gpt("gpt-4o", 128_000, 16_384, &[], 2.5, 1.25, 10.0),
    gpt("gpt-4o-mini", 128_000, 16_384, &[], 0.15, 0.075, 0.6),
    gpt("o3", 200_000, 100_000, EFFORTS, 2.0, 0.5, 8.0),
    gpt("o4-mini", 200_000, 100_000, EFFORTS, 1.1, 0.275, 4.4),
];

/// The model that a provider's key alone chooses; none for providers without a table.
pub fn default_model(provider: &str) -> Option<ModelRef> {
    let known = KNOWN.iter().find(|known| known.provider == provider)?;
    Some(ModelRef { provider: known.provider.to_owned(), id: known.id.to_owned() })
}

/// The table's line for a model: by its id, or by its id without the date that a provider adds.
pub(crate) fn known(model: &ModelRef) -> Option<&'static KnownModel> {
    KNOWN.iter().find(|known| {
        known.provider == model.provider && model.id.strip_prefix(known.id).is_some_and(is_version_suffix)
    })
}

fn is_version_suffix(rest: &str) -> bool {
    let Some(tag) = rest.strip_prefix('-') else { return rest.is_empty() };
    let digits = tag.replace('-', "");
    let is_date = digits.len() == 8 && digits.starts_with("20") && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_date || tag == "latest" || tag == "0"
}

/// What is known of a model; for one that the table does not have: 128,000 tokens of window, 16,384 of output, text only.
pub fn model_card(model: &ModelRef, wire: Wire) -> ModelCard {
    let known = known(model);
    ModelCard {
        model: model.clone(),
        api: wire.as_str().to_owned(),
        window_tokens: known.map_or(UNKNOWN_WINDOW_TOKENS, |known| known.window_tokens),
        output_tokens: known.map_or(UNKNOWN_OUTPUT_TOKENS, |known| known.output_tokens),
        reads_images: known.is_some(),
        thinks: known.is_some_and(|known| !known.efforts.is_empty()),
    }
}

/// A model's prices, where they are known.
pub fn prices(model: &ModelRef) -> Option<Prices> {
    known(model).map(|known| known.prices)
}

/// What a request's builder needs beside the request.
#[derive(Clone, Debug)]
pub struct Target {
    /// The model.
    pub card: ModelCard,
    /// Its prices, where known.
    pub prices: Option<Prices>,
    /// The provider's own server: it takes parameters that look-alikes reject.
    pub is_official: bool,
    /// The window and output are known, not assumed: they may be sent.
    pub is_known: bool,
    /// The words for `reasoning_effort`, from the least on.
    pub efforts: &'static [&'static str],
}

impl Target {
    /// The target for a model at an endpoint.
    pub fn new(endpoint: &Endpoint, model_id: &str) -> Self {
        let model = ModelRef { provider: endpoint.provider().to_owned(), id: model_id.to_owned() };
        let known = known(&model);
        Self {
            card: model_card(&model, endpoint.wire()),
            prices: known.map(|known| known.prices),
            is_official: endpoint.is_official(),
            is_known: known.is_some(),
            efforts: known.map_or(&[], |known| known.efforts),
        }
    }

    /// The model's word for a level: the level's own, else the next higher, else the highest; none for `Off`.
    pub(crate) fn effort(&self, level: ThinkingLevel) -> Option<&'static str> {
        if level == ThinkingLevel::Off || !self.card.thinks {
            return None;
        }
        const LADDER: [&str; 6] = ["minimal", "low", "medium", "high", "xhigh", "max"];
        let rung = |word: &str| LADDER.iter().position(|step| *step == word);
        let wanted = rung(level.as_str());
        self.efforts.iter().find(|word| rung(word) >= wanted).or(self.efforts.last()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, wire: Wire) -> ModelCard {
        model_card(&name.parse().unwrap(), wire)
    }

    #[test]
    fn ids_with_dates_are_known_and_other_suffixes_are_not() {
        let sonnet = card("anthropic/claude-sonnet-4-5-20250929", Wire::AnthropicMessages);
        assert_eq!(
            (sonnet.window_tokens, sonnet.output_tokens, sonnet.reads_images, sonnet.thinks),
            (200_000, 64_000, true, true)
        );
        assert_eq!(card("openai/gpt-5-mini-2025-08-07", Wire::OpenAiCompletions).output_tokens, 128_000);
        assert!(card("openai/gpt-4o-2024-08-06", Wire::OpenAiCompletions).reads_images);
        for unknown in [
            "openai/gpt-5-turbo",
            "openai/gpt-4.1-2",
            "anthropic/claude-sonnet-4-9-20270101",
            "openai/claude-sonnet-4-5",
            "openai/smol",
            "openai/gpt-55",
        ] {
            let card = card(unknown, Wire::OpenAiCompletions);
            assert_eq!(
                (card.window_tokens, card.output_tokens, card.reads_images, card.thinks),
                (128_000, 16_384, false, false),
                "{unknown}"
            );
            assert_eq!(prices(&unknown.parse().unwrap()), None);
        }
    }

    #[test]
    fn defaults_and_costs() {
        assert_eq!(default_model("anthropic").unwrap().to_string(), "anthropic/claude-sonnet-4-5");
        assert_eq!(default_model("openai").unwrap().to_string(), "openai/gpt-5");
        assert_eq!(default_model("scripted"), None);
        let usage = Usage {
            input: 1_000_000,
            output: 100_000,
            cache_read: 2_000_000,
            cache_write: 400_000,
            ..Usage::default()
        };
        let cost = prices(&default_model("anthropic").unwrap()).unwrap().cost(&usage);
        assert!((cost.total - (3.0 + 1.5 + 0.6 + 1.5)).abs() < 1e-9, "{cost:?}");
    }

    #[test]
    fn levels_are_fitted_to_what_a_model_has() {
        let target = |id| Target::new(&Endpoint::openai(None, None).unwrap(), id);
        assert_eq!(target("gpt-5").effort(ThinkingLevel::Minimal), Some("minimal"));
        assert_eq!(target("gpt-5.1").effort(ThinkingLevel::Minimal), Some("low"));
        assert_eq!(target("gpt-5").effort(ThinkingLevel::Max), Some("high"));
        assert_eq!(target("gpt-5").effort(ThinkingLevel::Off), None);
        assert_eq!(target("gpt-4.1").effort(ThinkingLevel::High), None);
    }
}
