//! Commands about the session's tree, and about other sessions.

use super::{
    command::Order,
    conversation::{Conversation, Leave, NAME_CHARS},
};
use crate::{
    failure::chain,
    harmless::harmless_line,
    session::{cost, grouped, list, tree},
};
use pith_protocol::{Content, EntryId, Message};
use pith_runtime::{
    CompactEnd, EntryKind, ForkPoint, Index, LeftBranch, MoveEnd, Outlined, Pith, RunError, SessionChoice,
};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Messages of a tree, and sessions, that are listed.
const LISTED: usize = 30;

/// What numbers mean: those of the last list of each kind.
#[derive(Debug, Default)]
pub struct Shown {
    entries: Vec<EntryId>,
    sessions: Vec<PathBuf>,
}

impl Conversation {
    /// Does what a command says that is about sessions.
    pub(super) async fn order(&mut self, order: Order) -> Result<(), Leave> {
        let pith = self.ready().await?;
        match order {
            Order::Tree(None) => self.tree(&pith).await,
            Order::Tree(Some(words)) => self.move_to(&pith, &words).await,
            Order::Fork(None) | Order::Clone => self.fork(&pith, ForkPoint::Leaf, String::new()).await,
            Order::Fork(Some(words)) => match self.entry(&pith, &words) {
                Ok(id) => {
                    let (point, words) = match users_words(&pith, &id) {
                        Some(words) => (ForkPoint::Before(id), words),
                        None => (ForkPoint::At(id), String::new()),
                    };
                    self.fork(&pith, point, words).await
                }
                Err(why) => self.wrong(&why).await,
            },
            Order::Label(None) => {
                self.wrong("which message, and how is it labelled? /label 3 WORDS; /tree has the numbers").await
            }
            Order::Label(Some(words)) => {
                let (which, label) = words.split_once(char::is_whitespace).unwrap_or((&words, ""));
                match self.entry(&pith, which) {
                    Ok(id) => {
                        let label = Some(label.trim().to_owned()).filter(|label| !label.is_empty());
                        let done = pith.set_label(&id, label).await;
                        self.told(done, "labelled").await
                    }
                    Err(why) => self.wrong(&why).await,
                }
            }
            Order::Name(name) => {
                let words = if name.is_some() { "named" } else { "the name is taken away" };
                let done = pith.set_name(name).await;
                self.told(done, words).await
            }
            Order::Undo => match pith.undo().await {
                Ok(Some(words)) => {
                    self.restored = text(&words);
                    self.say("the last exchange is out of what the model reads; files stay as they are; /redo brings it back").await
                }
                Ok(None) => self.wrong("there is nothing left to take out").await,
                Err(error) => self.wrong(&chain(&error)).await,
            },
            Order::Redo => match pith.redo().await {
                Ok(true) => self.say("the model reads it again").await,
                Ok(false) => {
                    self.wrong("there is no /undo to take back: nothing was undone, or something was said since").await
                }
                Err(error) => self.wrong(&chain(&error)).await,
            },
            Order::Compact(wishes) => self.compact(&pith, wishes).await,
            Order::Sessions => self.sessions().await,
            Order::Resume(which) => self.resume(which).await,
            // Those are the conversation's own.
            Order::Help | Order::New | Order::Session | Order::Quit => Ok(()),
        }
    }

    async fn say(&mut self, words: &str) -> Result<(), Leave> {
        Ok(self.screen.say(format!("{}\n", self.style.dim(words))).await?)
    }

    async fn told(&mut self, done: Result<(), RunError>, words: &str) -> Result<(), Leave> {
        match done {
            Ok(()) => self.say(words).await,
            Err(error) => self.wrong(&chain(&error)).await,
        }
    }

    /// The messages of the user on all branches, numbered; the newest where there are many.
    async fn tree(&mut self, pith: &Pith) -> Result<(), Leave> {
        let session = pith.session();
        let outline = session.outline();
        let leaf = session.leaf_id();
        let on_path: HashSet<usize> = crate::session::show::path(&outline, leaf.as_ref()).into_iter().collect();
        let is_listed = |one: &Outlined| {
            let kinds = [EntryKind::User, EntryKind::Compaction, EntryKind::BranchSummary, EntryKind::CustomMessage];
            kinds.contains(&one.kind) || session.label(&one.id).is_some() || Some(&one.id) == leaf.as_ref()
        };
        let all: Vec<(usize, usize)> =
            tree::walk(&outline, &on_path).into_iter().filter(|(index, _)| is_listed(&outline[*index])).collect();
        let left_out = all.len().saturating_sub(LISTED);
        let mut out = String::new();
        if left_out > 0 {
            out.push_str(&format!("({left_out} earlier ones are left out; `pith session tree` shows all)\n"));
        }
        self.shown.entries.clear();
        for (index, depth) in all.into_iter().skip(left_out) {
            let one = &outline[index];
            self.shown.entries.push(one.id.clone());
            let number = self.shown.entries.len();
            let mark = if on_path.contains(&index) { '*' } else { ' ' };
            let words = match session.entry(&one.id) {
                Ok(Some(entry)) => tree::words(&entry),
                _ => "(cannot be read)".to_owned(),
            };
            let label =
                session.label(&one.id).map(|label| format!("  [{}]", harmless_line(&label, 60))).unwrap_or_default();
            let here = if Some(&one.id) == leaf.as_ref() { "  <- here" } else { "" };
            out.push_str(&format!("{number:>3} {mark} {}{words}{label}{here}\n", "  ".repeat(depth.min(10))));
        }
        if self.shown.entries.is_empty() {
            out.push_str("nothing was said yet\n");
        }
        Ok(self.screen.say(out).await?)
    }

    /// `N`, or `N sum WISHES`.
    async fn move_to(&mut self, pith: &Arc<Pith>, words: &str) -> Result<(), Leave> {
        let (which, more) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let id = match self.entry(pith, which) {
            Ok(id) => id,
            Err(why) => return self.wrong(&why).await,
        };
        let more = more.trim();
        let left = match more.strip_prefix("sum") {
            Some(wishes) if wishes.is_empty() || wishes.starts_with(char::is_whitespace) => {
                LeftBranch::SummedUp(Some(wishes.trim().to_owned()).filter(|wishes| !wishes.is_empty()))
            }
            _ if more.is_empty() => LeftBranch::Kept,
            _ => {
                return self
                    .wrong("after the number stands nothing, or `sum` and your wishes: /tree 3 sum what failed")
                    .await;
            }
        };
        if matches!(left, LeftBranch::SummedUp(_)) {
            self.say("· summing up the branch that is left (Ctrl-C stops it)").await?;
        }
        let run = tokio::spawn({
            let pith = pith.clone();
            async move { pith.move_to(Some(&id), left).await }
        });
        let (ended, steered) = self.beside(pith, run).await?;
        self.screen.settle().await?;
        match ended {
            Ok(MoveEnd::Moved { words, summary, fallback, .. }) => {
                if let Some(why) = fallback {
                    let why = harmless_line(&why, NAME_CHARS);
                    self.screen.say(format!("warning: the summary is Pith's own: {why}\n")).await?;
                }
                let summed = if summary.is_some() { ", with a summary of the branch that was left" } else { "" };
                self.say(&format!("the conversation goes on from there{summed}")).await?;
                if let Some(words) = words {
                    self.restored = text(&words);
                }
            }
            Ok(MoveEnd::Aborted) => self.say("stopped; nothing moved").await?,
            Ok(_) => {}
            Err(error) => self.wrong(&chain(&error)).await?,
        }
        self.unread(pith, steered, false);
        Ok(())
    }

    async fn compact(&mut self, pith: &Arc<Pith>, wishes: Option<String>) -> Result<(), Leave> {
        let run = tokio::spawn({
            let pith = pith.clone();
            async move { pith.compact(wishes).await }
        });
        let (ended, steered) = self.beside(pith, run).await?;
        self.screen.settle().await?;
        match ended {
            // The events said it.
            Ok(CompactEnd::Compacted(_) | CompactEnd::Aborted | CompactEnd::Failed(_)) => {}
            Ok(CompactEnd::Nothing) => {
                self.say("there is nothing before the last turn that could be summed up").await?
            }
            Ok(CompactEnd::Already) => self.say("it is summed up already: nothing was said since").await?,
            Ok(_) => {}
            Err(error) => self.wrong(&chain(&error)).await?,
        }
        self.unread(pith, steered, false);
        Ok(())
    }

    async fn fork(&mut self, pith: &Pith, at: ForkPoint, words: String) -> Result<(), Leave> {
        match pith.fork(at).await {
            Ok(forked) => {
                if self.go_on(forked.file.display().to_string()).await? {
                    self.restored = words;
                }
                Ok(())
            }
            Err(error) => self.wrong(&chain(&error)).await,
        }
    }

    async fn sessions(&mut self) -> Result<(), Leave> {
        let places = self.options.places.clone();
        let folder = self.options.workspace.canonicalize().unwrap_or_else(|_| self.options.workspace.clone());
        let listed = tokio::task::spawn_blocking(move || Index::at(&places).list(None)).await;
        let sessions = match listed {
            Ok(Ok(listing)) => listing.sessions,
            Ok(Err(error)) => return self.wrong(&error.to_string()).await,
            Err(error) => return self.wrong(&error.to_string()).await,
        };
        let here = sessions.into_iter().filter(|one| Path::new(&one.cwd) == folder).take(LISTED);
        let mut out = String::new();
        self.shown.sessions.clear();
        for one in here {
            self.shown.sessions.push(one.file.clone());
            out.push_str(&format!("{:>3}  {}\n", self.shown.sessions.len(), list::line(&one)));
        }
        if out.is_empty() {
            out.push_str("there are no sessions of this folder yet\n");
        }
        Ok(self.screen.say(out).await?)
    }

    async fn resume(&mut self, which: Option<String>) -> Result<(), Leave> {
        let Some(which) = which else {
            self.sessions().await?;
            return self.say("/resume N goes on with one of them").await;
        };
        let numbered =
            which.parse::<usize>().ok().and_then(|number| self.shown.sessions.get(number.checked_sub(1)?)).cloned();
        if numbered.is_some() && numbered == self.ready().await?.session_file() {
            return self.wrong("this is the session that you are in").await;
        }
        let wanted = numbered.map_or(which.clone(), |file| file.display().to_string());
        self.go_on(wanted).await.map(drop)
    }

    /// In another session; the one before goes on where that cannot be opened. Whether it was. What `/new` makes stays as the user chose it.
    async fn go_on(&mut self, wanted: String) -> Result<bool, Leave> {
        if !self.may_leave().await? {
            return Ok(false);
        }
        let before = self.ready().await?.session().id().clone();
        let chosen = std::mem::replace(&mut self.options.session, SessionChoice::Open(wanted));
        self.start();
        self.options.session = chosen;
        self.wait_for_start(None).await?;
        let is_other = *self.ready().await?.session().id() != before;
        if is_other {
            self.shown = Shown::default();
        }
        Ok(is_other)
    }

    /// Whether this session may be left for another: not while something of it is in memory only.
    pub(super) async fn may_leave(&mut self) -> Result<bool, Leave> {
        let pith = self.ready().await?;
        if pith.session_file().is_none() || pith.session().save().is_ok() {
            return Ok(true);
        }
        let why = "this session is not saved yet, so it is not left for another: make room, or /quit, which tries to keep a copy";
        self.wrong(why).await?;
        Ok(false)
    }

    /// The entry that a number of the last `/tree`, or an id, means.
    fn entry(&self, pith: &Pith, which: &str) -> Result<EntryId, String> {
        if let Some(id) = which.parse::<usize>().ok().and_then(|number| self.shown.entries.get(number.checked_sub(1)?))
        {
            return Ok(id.clone());
        }
        let id = EntryId::from(which);
        match pith.session().entry(&id) {
            Ok(Some(_)) => Ok(id),
            _ => Err(format!("{} is no number of the last /tree, and no entry's id", harmless_line(which, 40))),
        }
    }
}

/// The words of a user's message; none for other entries.
fn users_words(pith: &Pith, id: &EntryId) -> Option<String> {
    let entry = pith.session().entry(id).ok()??;
    match entry.message()? {
        Message::User(user) => Some(text(&user.content)),
        _ => None,
    }
}

fn text(content: &[Content]) -> String {
    content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
}

/// What the session took so far, for `/session`.
pub fn took(pith: &Pith) -> String {
    let session = pith.session();
    let totals = session.totals();
    let sum = |part: fn(&pith_runtime::ModelUsage) -> u64| {
        grouped(totals.usage.iter().map(part).fold(0, u64::saturating_add))
    };
    let mut out = format!(
        "entries  {}\ntokens   {} read, {} written, {} from the cache, {} into it; cost {}\n",
        grouped(totals.entries),
        sum(|one| one.usage.input),
        sum(|one| one.usage.output),
        sum(|one| one.usage.cache_read),
        sum(|one| one.usage.cache_write),
        cost(totals.usage.iter()),
    );
    if let Some(name) = session.name() {
        out.push_str(&format!("name     {}\n", harmless_line(&name, NAME_CHARS)));
    }
    if let Some(unsaved) = session.unsaved() {
        let why = harmless_line(&unsaved.reason, NAME_CHARS);
        out.push_str(&format!("UNSAVED  {} entries wait in memory: {why}\n", unsaved.entries));
    }
    out
}
