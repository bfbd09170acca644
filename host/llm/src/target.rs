//! What a request is built for.

use crate::{
    Endpoint, Prices,
    models::{self, KnownModel, NO_EFFORT, Off, Thinking},
};
use pith_core::{ModelCard, ModelRequest};
use pith_protocol::{ModelRef, ThinkingLevel};

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
    known: Option<&'static KnownModel<'static>>,
}

/// How Anthropic's wire is to ask for thoughts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing is said.
    Nothing,
    /// It is told not to think; thoughts of before are not sent.
    Disabled,
    /// With a budget, in tokens.
    Budget(u64),
    /// As it thinks best, with an effort.
    Adaptive {
        /// The model's word.
        effort: &'static str,
        /// Its thoughts must be allowed to be dropped where what stood before them has changed.
        is_bound: bool,
    },
}

impl Target {
    /// The target for a model at an endpoint.
    pub fn new(endpoint: &Endpoint, model_id: &str) -> Self {
        let model = ModelRef { provider: endpoint.provider().to_owned(), id: model_id.to_owned() };
        let known = models::known(&model);
        Self {
            card: models::model_card(&model, endpoint.wire()),
            prices: known.map(KnownModel::prices),
            is_official: endpoint.is_official(),
            is_known: known.is_some(),
            known,
        }
    }

    /// The longest reply that fits: what is wanted, or the model's own, but no more than the window leaves.
    pub(crate) fn fitted_output(&self, request: &ModelRequest) -> u64 {
        if self.known.is_some_and(KnownModel::has_room_for_output) {
            return request.output_tokens.unwrap_or(self.card.output_tokens).min(self.card.output_tokens).max(1);
        }
        crate::replay::fitted_output(&self.card, request)
    }

    /// The model's word for `reasoning_effort`: the level's own, else the next higher, else the highest; for `Off` `none`, where it has it.
    pub(crate) fn effort(&self, level: ThinkingLevel) -> Option<&'static str> {
        let Some(Thinking::Effort { words }) = self.known.map(|known| &known.thinking) else { return None };
        let can_be_off = words.contains(&NO_EFFORT);
        if level == ThinkingLevel::Off || !self.card.thinks {
            return can_be_off.then_some(NO_EFFORT);
        }
        fitting(words, level)
    }

    /// How thoughts are asked for on Anthropic's wire.
    pub(crate) fn asked_thinking(&self, level: ThinkingLevel) -> Asked {
        let budget = match level {
            ThinkingLevel::Off => None,
            ThinkingLevel::Minimal => Some(1_024),
            ThinkingLevel::Low => Some(2_048),
            ThinkingLevel::Medium => Some(8_192),
            ThinkingLevel::High | ThinkingLevel::Xhigh | ThinkingLevel::Max => Some(16_384),
        };
        match (self.known.map(|known| &known.thinking), budget) {
            (Some(Thinking::Budget), Some(budget)) => Asked::Budget(budget),
            (Some(Thinking::Adaptive { off: Off::Omit, .. }), None) => Asked::Nothing,
            (Some(Thinking::Adaptive { off: Off::Disabled, .. }), None) => Asked::Disabled,
            (Some(Thinking::Adaptive { words, bound, .. }), _) => {
                // One that cannot be off thinks as little as it can.
                let level = if budget.is_none() { ThinkingLevel::Minimal } else { level };
                fitting(words, level)
                    .map_or(Asked::Nothing, |effort| Asked::Adaptive { effort, is_bound: *bound && self.is_official })
            }
            _ => Asked::Nothing,
        }
    }
}

fn fitting(words: &[&'static str], level: ThinkingLevel) -> Option<&'static str> {
    const LADDER: [&str; 6] = ["minimal", "low", "medium", "high", "xhigh", "max"];
    let rung = |word: &str| LADDER.iter().position(|step| *step == word);
    let wanted = rung(level.as_str());
    // `none` has no rung, and is below all.
    words.iter().find(|word| rung(word) >= wanted).or(words.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThinkingLevel::{High, Max, Medium, Minimal, Off as No, Xhigh};

    #[test]
    fn efforts_are_fitted_to_what_a_model_has() {
        let target = |id| Target::new(&Endpoint::openai(None, None).unwrap(), id);
        let efforts = |id| [No, Minimal, Medium, Max].map(|level| target(id).effort(level));
        assert_eq!(efforts("gpt-5"), [None, Some("minimal"), Some("medium"), Some("high")]);
        assert_eq!(efforts("gpt-5.1"), [Some("none"), Some("low"), Some("medium"), Some("high")]);
        assert_eq!(efforts("gpt-6-sol"), [Some("none"); 4], "with tools it takes no other");
        assert!(!target("gpt-6-sol").card.thinks && target("gpt-5.1").card.thinks);
        assert_eq!(efforts("gpt-4.1"), [None; 4]);
        assert_eq!(efforts("smol"), [None; 4]);
    }

    #[test]
    fn each_generation_is_asked_for_thoughts_in_its_own_way() {
        let asked = |id, base| {
            let target = Target::new(&Endpoint::anthropic(base, None).unwrap(), id);
            [No, Minimal, High, Xhigh, Max].map(|level| target.asked_thinking(level))
        };
        let adaptive = |effort, is_bound| Asked::Adaptive { effort, is_bound };
        let budget = Asked::Budget;
        assert_eq!(
            asked("claude-haiku-4-5", None),
            [Asked::Nothing, budget(1_024), budget(16_384), budget(16_384), budget(16_384)]
        );
        assert_eq!(
            asked("claude-opus-4-6", None),
            [
                Asked::Nothing,
                adaptive("low", false),
                adaptive("high", false),
                adaptive("max", false),
                adaptive("max", false)
            ]
        );
        assert_eq!(
            asked("claude-sonnet-5", None),
            [
                Asked::Disabled,
                adaptive("low", false),
                adaptive("high", false),
                adaptive("xhigh", false),
                adaptive("max", false)
            ]
        );
        let never_off = ["low", "low", "high", "xhigh", "max"];
        assert_eq!(asked("claude-sonnet-5-5", None), never_off.map(|word| adaptive(word, true)));
        // What other servers make of the newest parameters nobody knows.
        let elsewhere = Some("http://127.0.0.1:1");
        assert_eq!(asked("claude-sonnet-5-5", elsewhere), never_off.map(|word| adaptive(word, false)));
        assert_eq!(asked("smol", None), [Asked::Nothing; 5]);
    }
}
