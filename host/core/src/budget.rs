//! How the window is shared out: what is left for the reply, what of the conversation stays as it is, how long a summary may be.

use crate::ports::ModelCard;
use pith_protocol::ModelRef;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// When older messages are summed up, and how much stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionLaw {
    /// Whether it happens by itself. By hand it can always be asked for.
    pub enabled: bool,
    /// What is left free in the window, in tokens: it happens when more is used. Never more than a quarter of the window.
    pub reserve_tokens: u64,
    /// About how many of the newest tokens stay as they are. Never more than half of what the conversation may take.
    pub keep_recent_tokens: u64,
    /// What is different for a model, by `PROVIDER/ID`.
    pub models: BTreeMap<String, ModelCompaction>,
}

/// What is different for one model; what is none is as for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCompaction {
    /// See [`CompactionLaw::enabled`].
    pub enabled: Option<bool>,
    /// See [`CompactionLaw::reserve_tokens`].
    pub reserve_tokens: Option<u64>,
    /// See [`CompactionLaw::keep_recent_tokens`].
    pub keep_recent_tokens: Option<u64>,
}

impl Default for CompactionLaw {
    fn default() -> Self {
        Self { enabled: true, reserve_tokens: 16_384, keep_recent_tokens: 20_000, models: BTreeMap::new() }
    }
}

/// The law, and the windows that providers named when they refused a request as too long: these hold for the rest of the session.
#[derive(Debug, Default)]
pub struct Budgets {
    law: CompactionLaw,
    learned: Mutex<Vec<(ModelRef, u64)>>,
}

/// How one model's window is shared out, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Whether anything happens by itself.
    pub enabled: bool,
    /// The window.
    pub window: u64,
    /// What a request may take: more, and older messages are summed up.
    pub limit: u64,
    /// What the conversation may take of it; half of what prompt and tools leave of the window, where these take most of it.
    pub room: u64,
    /// About what stays as it is, of the newest messages.
    pub keep_recent: u64,
    /// The longest summary that is asked for.
    pub summary: u64,
}

impl Budgets {
    /// With this law, and nothing learned.
    pub fn new(law: CompactionLaw) -> Self {
        Self { law, learned: Mutex::default() }
    }

    /// The provider named the model's window; one of 0 says nothing.
    pub(crate) fn learn(&self, model: &ModelRef, window: u64) {
        if window > 0 {
            let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
            learned.retain(|(known, _)| known != model);
            learned.push((model.clone(), window));
        }
    }

    /// The model's window: as the provider named it, else as the model's card has it.
    pub(crate) fn window(&self, card: &ModelCard) -> u64 {
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        learned.iter().find(|(model, _)| *model == card.model).map_or(card.window_tokens, |(_, window)| *window)
    }

    /// Shares the model's window out. `fixed` is what prompt and tools take, estimated; `scale` what the provider counts for 1,000
    /// estimated tokens. The window and the limit are the provider's tokens, the rest estimated ones.
    pub(crate) fn of(&self, card: &ModelCard, fixed: u64, scale: u64) -> Budget {
        let window = self.window(card);
        let own = self.law.models.get(&card.model.to_string()).copied().unwrap_or_default();
        let reserve = own.reserve_tokens.unwrap_or(self.law.reserve_tokens).min(window / 4);
        let keep = own.keep_recent_tokens.unwrap_or(self.law.keep_recent_tokens);
        let limit = window.saturating_sub(reserve);
        let half_of_rest = scaled(window, scale).saturating_sub(fixed) / 2;
        let room = scaled(limit, scale).saturating_sub(fixed).max(half_of_rest);
        Budget {
            // A window that nobody knows cannot be filled.
            enabled: own.enabled.unwrap_or(self.law.enabled) && window > 0,
            window,
            limit,
            room,
            keep_recent: scaled(keep, scale).min(room / 2),
            summary: (reserve.saturating_mul(4) / 5).min(room / 8).max(SHORTEST_SUMMARY_TOKENS),
        }
    }
}

/// No summary is asked to be shorter, in tokens.
const SHORTEST_SUMMARY_TOKENS: u64 = 256;

/// The provider's tokens as estimated ones.
pub(crate) fn scaled(tokens: u64, scale: u64) -> u64 {
    tokens.saturating_mul(1_000) / scale.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(window_tokens: u64) -> ModelCard {
        ModelCard {
            model: ModelRef { provider: "p".to_owned(), id: "org/m".to_owned() },
            api: "test".to_owned(),
            window_tokens,
            output_tokens: 1_000,
            reads_images: false,
            thinks: false,
        }
    }

    #[test]
    fn windows_are_shared_out() {
        let budgets = Budgets::default();
        // window, fixed, scale -> limit, kept, summary
        for (window, fixed, scale, expected) in [
            (200_000, 4_000, 1_000, (183_616, 20_000, 13_107)),
            (128_000, 4_000, 1_000, (111_616, 20_000, 13_107)),
            // The reserve is a quarter of a small window, what stays half of what is left.
            (32_000, 4_000, 1_000, (24_000, 10_000, 2_500)),
            (8_192, 2_000, 1_000, (6_144, 2_072, 518)),
            // Prompt and tools fill it.
            (8_192, 9_000, 1_000, (6_144, 0, 256)),
            // They take most of it.
            (8_192, 6_000, 1_000, (6_144, 548, 256)),
            // The provider counts twice what is estimated.
            (128_000, 4_000, 2_000, (111_616, 10_000, 6_476)),
            (0, 0, 1_000, (0, 0, 256)),
            (u64::MAX, 0, 1_000, (u64::MAX - 16_384, 20_000, 13_107)),
        ] {
            let budget = budgets.of(&card(window), fixed, scale);
            assert_eq!((budget.limit, budget.keep_recent, budget.summary), expected, "{window} {fixed} {scale}");
            assert_eq!(budget.enabled, window > 0);
        }
    }

    #[test]
    fn a_model_has_its_own_law_and_a_named_window_holds() {
        let own = ModelCompaction { enabled: Some(false), reserve_tokens: Some(1_000), keep_recent_tokens: Some(500) };
        let law = CompactionLaw { models: BTreeMap::from([("p/org/m".to_owned(), own)]), ..CompactionLaw::default() };
        let budgets = Budgets::new(law);
        let budget = budgets.of(&card(100_000), 0, 1_000);
        assert_eq!((budget.enabled, budget.limit, budget.keep_recent), (false, 99_000, 500));
        budgets.learn(&card(0).model, 0);
        assert_eq!(budgets.window(&card(100_000)), 100_000);
        budgets.learn(&card(0).model, 40_000);
        budgets.learn(&card(0).model, 50_000);
        assert_eq!(budgets.of(&card(100_000), 0, 1_000).limit, 49_000);
        let other = ModelCard { model: ModelRef { provider: "p".to_owned(), id: "n".to_owned() }, ..card(100_000) };
        assert!(budgets.of(&other, 0, 1_000).enabled);
    }
}
