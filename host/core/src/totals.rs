//! What a whole file comes to, all branches: counted while it is read, and on with every append.

use crate::skim::Skimmed;
use pith_protocol::{Content, Entry, EntryBody, Message, Usage, millis_from_iso};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Characters of the first user message, and of a session's name, that are kept.
pub const TITLE_CHARS: usize = 200;
/// The longest timestamp that can be one, in bytes.
const TIMESTAMP_BYTES: usize = 64;

/// What a whole file comes to, all branches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Totals {
    /// All entries.
    pub entries: u64,
    /// Messages of the user.
    pub users: u64,
    /// Replies.
    pub assistants: u64,
    /// Calls that replies asked for.
    pub tool_calls: u64,
    /// Results.
    pub tool_results: u64,
    /// The words of the first user message that has any, at most `TITLE_CHARS` characters. Foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_user_text: Option<String>,
    /// The name that the session was given last, at most `TITLE_CHARS` characters, without control characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When the last message of the user or reply was added; an RFC 3339 time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_activity: Option<String>,
    /// Compactions.
    pub compactions: u64,
    /// Tokens by model, in the order in which the models first came: replies, summaries, `usage` entries.
    pub usage: Vec<ModelUsage>,
}

/// What one model was used for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelUsage {
    /// The provider.
    pub provider: String,
    /// The provider's id of the model.
    pub model: String,
    /// Its replies in the conversation.
    pub replies: u64,
    /// The sum. Its cost is of what has a price.
    pub usage: Usage,
    /// Of `usage.total_tokens`, those whose price is not known.
    pub unpriced_tokens: u64,
    /// Replies that began and that the provider never counted: what they cost is not known either.
    pub uncounted_replies: u64,
}

/// The count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    totals: Totals,
    by_model: HashMap<(String, String), usize>,
    /// Who was asked last: whose a summary's tokens are.
    last_model: (String, String),
}

/// What the count needs of one entry.
#[derive(Debug, Default)]
pub(crate) struct Counted<'a> {
    pub timestamp: &'a str,
    pub what: What<'a>,
}

/// What an entry is for the count.
#[derive(Debug, Default)]
pub(crate) enum What<'a> {
    User,
    Reply {
        provider: &'a str,
        model: &'a str,
        usage: Option<&'a Usage>,
        calls: u64,
    },
    ToolResult,
    ModelChange {
        provider: &'a str,
        model: &'a str,
    },
    Summary {
        usage: Option<&'a Usage>,
        is_compaction: bool,
    },
    Usage {
        provider: &'a str,
        model: &'a str,
        usage: Option<&'a Usage>,
    },
    Name(Option<&'a str>),
    #[default]
    Nothing,
}

impl ModelUsage {
    /// Adds what another session, or another day, used of the same model.
    pub fn add(&mut self, other: &Self) {
        self.replies = self.replies.saturating_add(other.replies);
        self.unpriced_tokens = self.unpriced_tokens.saturating_add(other.unpriced_tokens);
        self.uncounted_replies = self.uncounted_replies.saturating_add(other.uncounted_replies);
        self.usage.add_tokens(&other.usage);
        self.usage.cost.add(&other.usage.cost);
    }

    /// Counts one use: so many replies, and what they took where that is said.
    pub fn count(&mut self, usage: Option<&Usage>, replies: u64) {
        self.replies = self.replies.saturating_add(replies);
        let Some(usage) = usage else { return };
        if usage.cost.unknown && usage.total_tokens == 0 {
            self.uncounted_replies = self.uncounted_replies.saturating_add(replies);
        }
        if usage.cost_total().is_none() {
            self.unpriced_tokens = self.unpriced_tokens.saturating_add(usage.total_tokens);
        }
        self.usage.add_tokens(usage);
        if !usage.cost.unknown {
            self.usage.cost.add(&usage.cost);
        }
    }

    /// Whether something of what it cost is not known.
    pub fn is_partly_unknown(&self) -> bool {
        self.unpriced_tokens > 0 || self.uncounted_replies > 0
    }
}

impl Tally {
    /// The totals so far.
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals.clone();
        totals.last_activity = totals.last_activity.filter(|time| millis_from_iso(time).is_some());
        totals
    }

    pub fn name(&self) -> Option<&str> {
        self.totals.name.as_deref()
    }

    /// Counts a line that was skimmed.
    pub fn add_line(&mut self, skimmed: &Skimmed<'_>, line: &[u8]) {
        let counted = skimmed.counted();
        // Its words are looked at whole, once.
        if matches!(counted.what, What::User)
            && self.totals.first_user_text.is_none()
            && let Ok(entry) = Entry::read(line)
        {
            self.totals.first_user_text = first_words(&entry);
        }
        self.add(&counted);
    }

    /// Counts an entry that was appended.
    pub fn add_entry(&mut self, entry: &Entry) {
        let what = match &entry.body {
            EntryBody::Message(said) => match said.message.as_ref() {
                Message::User(_) => {
                    if self.totals.first_user_text.is_none() {
                        self.totals.first_user_text = first_words(entry);
                    }
                    What::User
                }
                Message::Assistant(reply) => What::Reply {
                    provider: &reply.provider,
                    model: &reply.model,
                    usage: Some(&reply.usage),
                    calls: reply.tool_calls().count() as u64,
                },
                Message::ToolResult(_) => What::ToolResult,
                _ => What::Nothing,
            },
            EntryBody::ModelChange(change) => What::ModelChange { provider: &change.provider, model: &change.model_id },
            EntryBody::Compaction(made) => What::Summary { usage: made.usage.as_ref(), is_compaction: true },
            EntryBody::BranchSummary(made) => What::Summary { usage: made.usage.as_ref(), is_compaction: false },
            EntryBody::Usage(used) => {
                What::Usage { provider: &used.provider, model: &used.model, usage: Some(&used.usage) }
            }
            EntryBody::SessionInfo(info) => What::Name(info.name.as_deref()),
            _ => What::Nothing,
        };
        self.add(&Counted { timestamp: &entry.timestamp, what });
    }

    fn add(&mut self, counted: &Counted<'_>) {
        self.totals.entries = self.totals.entries.saturating_add(1);
        match counted.what {
            What::User => {
                self.totals.users = self.totals.users.saturating_add(1);
                self.active(counted.timestamp);
            }
            What::Reply { provider, model, usage, calls } => {
                self.totals.assistants = self.totals.assistants.saturating_add(1);
                self.totals.tool_calls = self.totals.tool_calls.saturating_add(calls);
                self.active(counted.timestamp);
                self.spend(provider, model, usage, 1);
                self.asked(provider, model);
            }
            What::ToolResult => self.totals.tool_results = self.totals.tool_results.saturating_add(1),
            What::ModelChange { provider, model } => self.asked(provider, model),
            What::Summary { usage, is_compaction } => {
                self.totals.compactions = self.totals.compactions.saturating_add(u64::from(is_compaction));
                if usage.is_some() {
                    let (provider, model) = self.last_model.clone();
                    self.spend(&provider, &model, usage, 0);
                }
            }
            What::Usage { provider, model, usage } => self.spend(provider, model, usage, 0),
            What::Name(name) => self.totals.name = name.and_then(tidy),
            What::Nothing => {}
        }
    }

    fn asked(&mut self, provider: &str, model: &str) {
        if self.last_model.0 != provider || self.last_model.1 != model {
            self.last_model = (provider.to_owned(), model.to_owned());
        }
    }

    fn active(&mut self, timestamp: &str) {
        if timestamp.len() <= TIMESTAMP_BYTES && !timestamp.is_empty() {
            match &mut self.totals.last_activity {
                Some(last) => {
                    last.clear();
                    last.push_str(timestamp);
                }
                none => *none = Some(timestamp.to_owned()),
            }
        }
    }

    fn spend(&mut self, provider: &str, model: &str, usage: Option<&Usage>, replies: u64) {
        let used = &mut self.totals.usage;
        // Mostly the model of the entry before.
        let at = match used.last() {
            Some(last) if last.provider == provider && last.model == model => used.len() - 1,
            _ => *self.by_model.entry((provider.to_owned(), model.to_owned())).or_insert_with(|| {
                used.push(ModelUsage { provider: provider.to_owned(), model: model.to_owned(), ..Default::default() });
                used.len() - 1
            }),
        };
        let Some(of_model) = used.get_mut(at) else { return };
        of_model.count(usage, replies);
    }
}

/// The words of a user message, where it has any.
fn first_words(entry: &Entry) -> Option<String> {
    let Some(Message::User(user)) = entry.message() else { return None };
    let words = user.content.iter().filter_map(Content::as_text);
    let text: String = words.flat_map(str::chars).skip_while(|c| c.is_whitespace()).take(TITLE_CHARS).collect();
    let text = text.trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A name or a label as it is kept: control characters become blanks, trimmed, at most `TITLE_CHARS` characters; none where nothing is left.
pub(crate) fn tidy(text: &str) -> Option<String> {
    let blank = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(blank).skip_while(|c| c.is_whitespace()).take(TITLE_CHARS).collect();
    let text = text.trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}
