//! One running session: the doors that faces stand at.

mod tree;

pub use tree::Forked;

use crate::{
    library::ShortIds,
    prompt::{self, ProjectContext},
    scratch::Scratch,
    shelf::Shelf,
    store::FileStore,
    sweep::Sweep,
    usage::Recorder,
};
use futures::future::BoxFuture;
use pith_core::{
    Agent, AskedQuestion, CanonicalCall, CompactEnd, Decision, ForkPoint, Inbox, LeftBranch, MailboxFull, ModelCard,
    MoveEnd, Person, RunEnd, Said, Session, SessionError, UserCall, UserCallEnd, UserCallError,
};
use pith_os::{Sandbox, SandboxError, SandboxInForce, SandboxLevel};
use pith_plugin::PluginUse;
use pith_protocol::{Command, Content};
use serde_json::Value;
use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// A session with its model, tools and gates. Dropping it, or any future of it, at any time leaves a valid session.
pub struct Pith {
    pub(crate) agent: Agent,
    /// Its file; none for one in memory.
    pub(crate) store: Option<FileStore>,
    /// Where forks of it go.
    pub(crate) shelf: Shelf,
    /// What its plugins use; none without plugins.
    pub(crate) usage: Option<Recorder>,
    /// What holds programs; none where no plugin may run any.
    pub(crate) sandbox: Option<Sandbox>,
    /// Goes with the session.
    pub(crate) _scratch: Scratch,
    /// Ends with the session.
    pub(crate) _sweep: Sweep,
    pub(crate) notices: Vec<String>,
    pub(crate) preamble: Option<String>,
    pub(crate) context: ProjectContext,
    /// What ends the present run; none between runs.
    pub(crate) running: Mutex<Option<CancellationToken>>,
}

/// A word to a session that came to nothing. What a model or a tool did wrong is no such error: see `RunEnd`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A run goes on already; steer it, or wait.
    #[error("a run goes on already")]
    Busy,
    /// An empty message.
    #[error("the message is empty")]
    Empty,
    /// The session cannot be written or read.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Too many messages wait.
    #[error(transparent)]
    Full(#[from] MailboxFull),
    /// A session in memory has no file to be forked from.
    #[error("this session is in memory only, so it cannot be forked")]
    NotKept,
    /// The work was interrupted: it panicked, or the runtime shuts down.
    #[error("it was interrupted: {0}")]
    Interrupted(#[source] tokio::task::JoinError),
    /// The user called a tool that no plugin offers.
    #[error(transparent)]
    Call(UserCallError),
}

/// What a command came to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Done {
    /// It was said, and gives nothing.
    Nothing,
    /// A run ended.
    Run(RunEnd),
    /// See [`Pith::compact`].
    Compacted(CompactEnd),
    /// See [`Pith::move_to`].
    Moved(MoveEnd),
    /// See [`Pith::undo`].
    Undone(Option<Vec<Content>>),
    /// See [`Pith::redo`].
    Redone(bool),
    /// See [`Pith::fork`].
    Forked(Forked),
}

impl Pith {
    /// The session's tree.
    pub fn session(&self) -> &Session {
        &self.agent.session
    }

    /// The session's file, which the first message creates; none for one in memory. It changes where another program wrote to it, or took its
    /// place: then the session goes on in a file of its own, and a notice says so.
    pub fn session_file(&self) -> Option<PathBuf> {
        self.store.as_ref().map(FileStore::path)
    }

    /// What the session is gone on with later, as `find_session` takes it: a beginning of its id that no other one has. None while nothing of
    /// it is on disk.
    pub fn short_id(&self) -> Option<String> {
        self.session_file().filter(|file| file.exists())?;
        let id = self.session().id().as_str();
        Some(ShortIds::of(&self.shelf.places).get(id).to_owned())
    }

    /// Attaches a face: it gets every event from here on, and has to take them. There is one: a second takes the place of the first.
    pub fn events(&self) -> Inbox {
        self.agent.outbox.attach()
    }

    /// No more events come: the face reads those that wait, then the end. A session that goes on after it is not shown.
    pub fn close_events(&self) {
        self.agent.outbox.close();
    }

    /// What people should know about the start, a sentence on a line each. Names from files and plugins'
    /// words in them are foreign text: not for a terminal as they are.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// What the plugins of this session used since its start, in the order in which they are asked.
    pub fn plugin_use(&self) -> Vec<PluginUse> {
        self.usage.as_ref().map(Recorder::so_far).unwrap_or_default()
    }

    /// How far programs that plugins run are held, as it was asked for. None where no plugin may run any.
    pub fn sandbox_level(&self) -> Option<SandboxLevel> {
        self.sandbox.as_ref().map(Sandbox::level)
    }

    /// What holds them, or why nothing can: then none is run. None before the first program, which decides it. Never blocks.
    pub fn sandbox_in_force(&self) -> Option<Result<SandboxInForce, SandboxError>> {
        let decided = self.sandbox.as_ref().filter(|sandbox| sandbox.is_decided())?;
        Some(decided.in_force().cloned())
    }

    /// The names of the tools whose plugins say that they only read (`readOnlyHint`): for views, never a reason to allow anything.
    pub fn reading_tools(&self) -> HashSet<String> {
        let says = |meta: &Value| meta.get("readOnlyHint").and_then(Value::as_bool) == Some(true);
        let offered = self.agent.dispatcher.offered();
        offered
            .iter()
            .filter(|tool| tool.spec.meta.as_ref().is_some_and(says))
            .map(|tool| tool.spec.name.clone())
            .collect()
    }

    /// The model that is asked.
    pub fn model(&self) -> &ModelCard {
        self.agent.model.card()
    }

    /// Runs until the agent stops. An aborted or failed run is an `Ok` whose `stop_reason` says so.
    pub async fn prompt(&self, content: Vec<Content>) -> Result<RunEnd, RunError> {
        if content.is_empty() {
            return Err(RunError::Empty);
        }
        let run = self.begin().ok_or(RunError::Busy)?;
        self.run(Said::User(content), &run).await
    }

    async fn run(&self, said: Said, run: &Running<'_>) -> Result<RunEnd, RunError> {
        let offered = self.agent.dispatcher.offered();
        let surroundings = prompt::Surroundings {
            workspace: self.agent.session.cwd(),
            now_millis: self.agent.session.clock().now_millis(),
            sandbox: self.sandbox_level(),
        };
        let sections = prompt::sections(self.preamble.as_deref(), &offered, &self.context, &surroundings);
        Ok(self.agent.run(said, sections, run.cancel.clone()).await?)
    }

    /// Calls a tool as the user, through the gates; what ran is recorded and, unless excluded, read by the model with its next request. A
    /// call that was refused or failed is an `Ok` whose output says so. `abort` stops it.
    pub async fn user_call(&self, call: UserCall) -> Result<UserCallEnd, RunError> {
        let run = self.begin().ok_or(RunError::Busy)?;
        self.agent.user_call(call, run.cancel.clone()).await.map_err(|error| match error {
            UserCallError::Session(error) => RunError::Session(error),
            other => RunError::Call(other),
        })
    }

    /// Takes back what was said by `steer` and `follow_up` and has not been read: words for a run that ended before it came to them.
    pub fn take_back(&self) -> Vec<Vec<Content>> {
        self.agent.mailbox.take_back()
    }

    /// Says something that reaches the model after the present turn's tools. Between runs it waits for the next one.
    pub fn steer(&self, content: Vec<Content>) -> Result<(), RunError> {
        Ok(self.agent.mailbox.steer(content)?)
    }

    /// Says something that reaches the model when it would stop. Between runs it waits for the next one.
    pub fn follow_up(&self, content: Vec<Content>) -> Result<(), RunError> {
        Ok(self.agent.mailbox.follow_up(content)?)
    }

    /// Ends the present run: finished results stay, open calls are answered. Whether there was one.
    pub fn abort(&self) -> bool {
        match self.lock().as_ref() {
            Some(cancel) => {
                cancel.cancel();
                true
            }
            None => false,
        }
    }

    /// Does what a command says, to its end.
    pub async fn send(&self, command: Command) -> Result<Done, RunError> {
        match command {
            Command::Prompt { content } => return self.prompt(content).await.map(Done::Run),
            Command::Steer { content } => self.steer(content)?,
            Command::FollowUp { content } => self.follow_up(content)?,
            Command::Abort => {
                self.abort();
            }
            Command::Compact { custom_instructions } => {
                return self.compact(custom_instructions).await.map(Done::Compacted);
            }
            Command::MoveLeaf { entry_id, summarize, custom_instructions } => {
                let left = if summarize { LeftBranch::SummedUp(custom_instructions) } else { LeftBranch::Kept };
                return self.move_to(entry_id.as_ref(), left).await.map(Done::Moved);
            }
            Command::Undo => return self.undo().await.map(Done::Undone),
            Command::Redo => return self.redo().await.map(Done::Redone),
            Command::Fork { entry_id } => return self.fork(ForkPoint::Before(entry_id)).await.map(Done::Forked),
            Command::Clone => return self.fork(ForkPoint::Leaf).await.map(Done::Forked),
            Command::SetSessionName { name } => self.set_name(Some(name)).await?,
            Command::SetLabel { entry_id, label } => self.set_label(&entry_id, label).await?,
        }
        Ok(Done::Nothing)
    }

    fn begin(&self) -> Option<Running<'_>> {
        let mut running = self.lock();
        if running.is_some() {
            return None;
        }
        let cancel = CancellationToken::new();
        *running = Some(cancel.clone());
        Some(Running { of: self, cancel })
    }

    /// A panic elsewhere cannot leave it half changed: every change is one assignment.
    fn lock(&self) -> MutexGuard<'_, Option<CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pith {
    /// The face reads what waits, then the end.
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            store.keep_totals(self.session().totals());
        }
        self.agent.outbox.close();
    }
}

/// The present run, until its future ends or is dropped.
struct Running<'a> {
    of: &'a Pith,
    cancel: CancellationToken,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.of.lock() = None;
        if let Some(usage) = &self.of.usage {
            usage.record();
        }
        if let Some(store) = &self.of.store {
            store.tell_totals(self.of.session().totals());
        }
        // Where the future was dropped: whatever still holds a child of the token ends.
        self.cancel.cancel();
    }
}

/// Nobody who could answer.
pub(crate) struct Nobody;

impl Person for Nobody {
    fn is_there(&self) -> bool {
        false
    }

    fn decide<'a>(&'a self, _: &'a CanonicalCall, _: &'a [AskedQuestion]) -> BoxFuture<'a, Option<Decision>> {
        Box::pin(async { None })
    }
}
