//! Models: how they are named, how hard they think, what they used.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// `provider/id`, such as `anthropic/claude-x` or `openai/org/model`: the provider is what stands before the first slash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelRef {
    /// `anthropic`, `openai`, `scripted` or a plugin's.
    pub provider: String,
    /// The provider's own id.
    pub id: String,
}

/// A text that is not `provider/id`.
#[derive(Debug, thiserror::Error)]
#[error("a model is named PROVIDER/ID, such as anthropic/claude-sonnet-4-5, not {0:?}")]
pub struct InvalidModelRef(pub String);

impl FromStr for ModelRef {
    type Err = InvalidModelRef;

    fn from_str(text: &str) -> Result<Self, InvalidModelRef> {
        match text.split_once('/') {
            Some((provider, id)) if !provider.is_empty() && !id.is_empty() => {
                Ok(Self { provider: provider.to_owned(), id: id.to_owned() })
            }
            _ => Err(InvalidModelRef(text.to_owned())),
        }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.id)
    }
}

/// How hard a model is asked to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// Not at all.
    #[default]
    Off,
    /// 1,024 tokens.
    Minimal,
    /// 2,048 tokens.
    Low,
    /// 8,192 tokens.
    Medium,
    /// 16,384 tokens.
    High,
    /// More, where a model has it.
    Xhigh,
    /// The most that a model has.
    Max,
}

impl ThinkingLevel {
    /// The name in files and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// Tokens of one reply, and what they cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Read afresh.
    pub input: u64,
    /// Written, thoughts included.
    pub output: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    /// Written into the provider's cache.
    pub cache_write: u64,
    /// Of `output`, thoughts; where the provider says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// All four.
    pub total_tokens: u64,
    /// US dollars.
    pub cost: Cost,
}

/// US dollars. Where the price is not known all are 0, because pi reads numbers here, and `unknown` says so: see [`Usage::cost_total`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    /// For `Usage::input`.
    pub input: f64,
    /// For `Usage::output`.
    pub output: f64,
    /// For `Usage::cache_read`.
    pub cache_read: f64,
    /// For `Usage::cache_write`.
    pub cache_write: f64,
    /// All four.
    pub total: f64,
    /// The price is not known. pi ignores it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

impl Usage {
    /// What it cost in US dollars. None where that is unknown: it says so, or tokens were used and nothing is said to have been paid.
    pub fn cost_total(&self) -> Option<f64> {
        let is_silent = self.cost.total == 0.0 && self.total_tokens > 0;
        (!self.cost.unknown && !is_silent).then_some(self.cost.total)
    }

    /// Adds another's tokens, not its cost: whether an unknown one makes the sum unknown is the sum's to say.
    pub fn add_tokens(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        if let Some(reasoning) = other.reasoning {
            self.reasoning = Some(self.reasoning.unwrap_or(0).saturating_add(reasoning));
        }
    }

    /// Sets `total_tokens` from its parts.
    pub fn totalled(mut self) -> Self {
        self.total_tokens =
            self.input.saturating_add(self.output).saturating_add(self.cache_read).saturating_add(self.cache_write);
        self
    }
}

impl Cost {
    /// Adds another's amounts; `unknown` stays as it is.
    pub fn add(&mut self, other: &Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.total += other.total;
    }
}
