//! The model table: what is known of models before they are asked. It lies in `models.json`, which says its date and where its figures
//! are from.

use crate::{LongPrompt, Prices, Rates, Wire};
use pith_core::ModelCard;
use pith_protocol::ModelRef;
use serde::Deserialize;
use std::sync::OnceLock;

/// The window of a model that the table does not know, in tokens.
pub const UNKNOWN_WINDOW_TOKENS: u64 = 128_000;
/// The longest reply of a model that the table does not know, in tokens.
pub const UNKNOWN_OUTPUT_TOKENS: u64 = 16_384;

/// The file. What is for its readers only (`source`, `notes`) is not read.
#[derive(Debug, Deserialize)]
struct Table<'a> {
    as_of: &'a str,
    #[serde(borrow)]
    models: Vec<KnownModel<'a>>,
}

/// One line of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownModel<'a> {
    pub provider: &'a str,
    pub id: &'a str,
    /// The one that the provider's key alone chooses.
    #[serde(default)]
    default: bool,
    /// What prompt and reply may take together.
    window: u64,
    /// What the prompt may take, where that is less.
    #[serde(default)]
    input: Option<u64>,
    output: u64,
    images: bool,
    #[serde(borrow, default)]
    pub thinking: Thinking<'a>,
    prices: Rates,
    #[serde(default)]
    long: Option<LongPrompt>,
    /// The day on which the provider answers no more.
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "for the file's readers, and checked by a test"))]
    retires: Option<&'a str>,
}

/// How a model is asked to think.
#[derive(Debug, Default, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Thinking<'a> {
    /// It cannot be asked.
    #[default]
    None,
    /// `thinking.budget_tokens`.
    Budget,
    /// `thinking.type: adaptive` and `output_config.effort`.
    Adaptive {
        /// The efforts, from the least on.
        #[serde(borrow)]
        words: Vec<&'a str>,
        /// How it is asked not to think.
        off: Off,
        /// Its thoughts are checked against what stood before them, and refused where that has changed.
        #[serde(default)]
        bound: bool,
    },
    /// `reasoning_effort`.
    Effort {
        /// The efforts, from the least on; `none` where it can be told not to think.
        #[serde(borrow)]
        words: Vec<&'a str>,
    },
}

/// How an adaptive model is asked not to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Off {
    /// By saying nothing.
    Omit,
    /// By `thinking.type: disabled`.
    Disabled,
    /// Never: it thinks as little as it can.
    Never,
}

impl<'a> Thinking<'a> {
    /// The efforts, from the least on.
    pub fn words(&self) -> &[&'a str] {
        match self {
            Self::None | Self::Budget => &[],
            Self::Adaptive { words, .. } | Self::Effort { words } => words,
        }
    }

    /// Whether asking changes anything.
    fn thinks(&self) -> bool {
        matches!(self, Self::Budget) || self.words().iter().any(|word| *word != NO_EFFORT)
    }
}

/// The effort that is none.
pub(crate) const NO_EFFORT: &str = "none";

impl KnownModel<'_> {
    pub fn prices(&self) -> Prices {
        Prices { base: self.prices, long: self.long }
    }

    /// Whether the reply has room of its own, beside the prompt's.
    pub fn has_room_for_output(&self) -> bool {
        self.input.is_some_and(|input| input.saturating_add(self.output) <= self.window)
    }
}

fn table() -> &'static Table<'static> {
    static TABLE: OnceLock<Table<'static>> = OnceLock::new();
    TABLE.get_or_init(|| {
        #[expect(clippy::expect_used, reason = "the text is ours and the same in every build; a test reads it")]
        serde_json::from_str(include_str!("../models.json")).expect("models.json is as the test found it")
    })
}

/// The day on which the table's prices were what providers published, `YYYY-MM-DD`.
pub fn models_as_of() -> &'static str {
    table().as_of
}

/// The model that a provider's key alone chooses; none for providers without a table.
pub fn default_model(provider: &str) -> Option<ModelRef> {
    let known = table().models.iter().find(|known| known.provider == provider && known.default)?;
    Some(ModelRef { provider: known.provider.to_owned(), id: known.id.to_owned() })
}

/// The table's line for a model: by its id, or by its id without the date that a provider adds.
pub(crate) fn known(model: &ModelRef) -> Option<&'static KnownModel<'static>> {
    table().models.iter().find(|known| {
        known.provider == model.provider && model.id.strip_prefix(known.id).is_some_and(is_version_suffix)
    })
}

fn is_version_suffix(rest: &str) -> bool {
    let Some(tag) = rest.strip_prefix('-') else { return rest.is_empty() };
    let digits = tag.replace('-', "");
    let is_date = digits.len() == 8 && digits.starts_with("20") && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_date || tag == "latest" || tag == "0"
}

/// What is known of a model; for one that the table does not have: 128,000 tokens of window, 16,384 of output, text only. The window of
/// a model whose prompt may take less than all of it is what the prompt may take.
pub fn model_card(model: &ModelRef, wire: Wire) -> ModelCard {
    let known = known(model);
    ModelCard {
        model: model.clone(),
        api: wire.as_str().to_owned(),
        window_tokens: known.map_or(UNKNOWN_WINDOW_TOKENS, |known| known.input.unwrap_or(known.window)),
        output_tokens: known.map_or(UNKNOWN_OUTPUT_TOKENS, |known| known.output),
        reads_images: known.is_some_and(|known| known.images),
        thinks: known.is_some_and(|known| known.thinking.thinks()),
    }
}

/// A model's prices, where they are known.
pub fn prices(model: &ModelRef) -> Option<Prices> {
    known(model).map(KnownModel::prices)
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
        assert_eq!(card("anthropic/claude-opus-4-0", Wire::AnthropicMessages).output_tokens, 32_000);
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
    fn a_prompt_that_may_not_take_all_of_the_window_has_its_own_limit() {
        let card = card("openai/gpt-5.1", Wire::OpenAiCompletions);
        assert_eq!((card.window_tokens, card.output_tokens), (272_000, 128_000));
        assert!(known(&card.model).unwrap().has_room_for_output());
        assert!(!known(&"openai/gpt-4o".parse().unwrap()).unwrap().has_room_for_output());
    }

    #[test]
    fn defaults() {
        assert_eq!(default_model("anthropic").unwrap().to_string(), "anthropic/claude-sonnet-5-5");
        assert_eq!(default_model("openai").unwrap().to_string(), "openai/gpt-5.1");
        assert_eq!(default_model("scripted"), None);
    }

    fn is_day(text: &str) -> bool {
        text.parse::<jiff::civil::Date>().is_ok()
    }

    /// Every line is what a line can be; what it says is for whoever writes it to look up.
    #[test]
    fn every_line_makes_sense() {
        assert!(is_day(models_as_of()));
        let all = &table().models;
        assert!(all.len() >= 30);
        for (at, known) in all.iter().enumerate() {
            let line = format!("{}/{}", known.provider, known.id);
            assert!(all[..at].iter().all(|other| (other.provider, other.id) != (known.provider, known.id)), "{line}");
            // An earlier line must not take this one's id for its own with a date.
            let model = line.parse().unwrap();
            assert_eq!(super::known(&model).unwrap().id, known.id);
            assert!((8_000..=2_000_000).contains(&known.window), "{line}");
            assert!(known.input.is_none_or(|input| input < known.window && known.has_room_for_output()), "{line}");
            assert!(known.output >= 4_096 && known.output <= known.window / 2, "{line}");
            assert!(known.retires.is_none_or(is_day), "{line}");
            let mut rates = vec![known.prices];
            rates.extend(known.long.map(|long| long.rates));
            for rates in &rates {
                let Rates { input, output, cache_read, cache_write, cache_write_1h } = *rates;
                assert!(0.0 < cache_read && cache_read <= input && input < output && output <= 1_000.0, "{line}");
                assert!(
                    input <= cache_write && cache_write <= cache_write_1h && cache_write_1h <= 2.0 * input,
                    "{line}"
                );
            }
            if let [base, long] = rates[..] {
                assert!(base.input < long.input && base.output < long.output, "{line}");
                assert!(known.long.is_some_and(|long| long.above < known.input.unwrap_or(known.window)), "{line}");
            }
            const LADDER: [&str; 7] = [NO_EFFORT, "minimal", "low", "medium", "high", "xhigh", "max"];
            let rungs: Vec<_> =
                known.thinking.words().iter().map(|word| LADDER.iter().position(|rung| rung == word)).collect();
            assert!(rungs.iter().all(Option::is_some) && rungs.is_sorted(), "{line}");
            let fits = match (&known.thinking, known.provider) {
                (Thinking::None, _) => true,
                (Thinking::Budget, provider) => provider == "anthropic",
                (Thinking::Adaptive { words, .. }, provider) => provider == "anthropic" && !words.is_empty(),
                (Thinking::Effort { words }, provider) => provider == "openai" && !words.is_empty(),
            };
            assert!(fits, "{line}");
        }
        for provider in ["anthropic", "openai"] {
            let defaults: Vec<_> = all.iter().filter(|known| known.provider == provider && known.default).collect();
            assert_eq!(defaults.len(), 1, "{provider}");
            // One that is gone on the table's own day is no default.
            assert!(defaults[0].retires.is_none_or(|day| day > models_as_of()), "{provider}");
        }
    }
}
