//! The session's tree through the library's door: moving, undoing, forking, naming, and room in the window.

use super::{Pith, RunError};
use pith_core::{CompactEnd, Delivery, ForkPoint, LeftBranch, MoveEnd, RunEnd, Said};
use pith_protocol::{Content, CustomMessageEntry, EntryId, Event};
use std::path::PathBuf;

/// A new session that was forked off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forked {
    /// Its id.
    pub id: pith_protocol::SessionId,
    /// Its file.
    pub file: PathBuf,
    /// How many entries it begins with.
    pub entries: u64,
}

impl Pith {
    /// Sums up older messages now, with the user's wishes for the summary. `abort` stops it; then nothing changed.
    ///
    /// # Errors
    /// `Busy` while a run goes on: what it says next would be summed up without its end. A session that cannot be written.
    pub async fn compact(&self, instructions: Option<String>) -> Result<CompactEnd, RunError> {
        let run = self.begin().ok_or(RunError::Busy)?;
        Ok(self.agent.compact(instructions, run.cancel.clone()).await?)
    }

    /// Goes on from another entry; from before the first without one. The words of a user's message come back to be written anew. `abort`
    /// stops a summary of the branch that is left; then the leaf is where it was.
    ///
    /// # Errors
    /// `Busy` while a run goes on, an entry that is not there, a session that cannot be read or written.
    pub async fn move_to(&self, to: Option<&EntryId>, left: LeftBranch) -> Result<MoveEnd, RunError> {
        let run = self.begin().ok_or(RunError::Busy)?;
        Ok(self.agent.move_leaf(to, left, run.cancel.clone()).await?)
    }

    /// Takes the last exchange out of what the model reads, and gives the user's words of it; none where there is none. The session keeps it,
    /// and files that were changed stay changed.
    ///
    /// # Errors
    /// `Busy` while a run goes on, a session that cannot be written.
    pub async fn undo(&self) -> Result<Option<Vec<Content>>, RunError> {
        let _run = self.begin().ok_or(RunError::Busy)?;
        Ok(self.agent.undo().await?)
    }

    /// Takes the newest `undo` back, where nothing was said since. Whether there was one.
    ///
    /// # Errors
    /// `Busy` while a run goes on, a session that cannot be written.
    pub async fn redo(&self) -> Result<bool, RunError> {
        let _run = self.begin().ok_or(RunError::Busy)?;
        Ok(self.agent.redo().await?)
    }

    /// Writes a new session that begins with a part of this one; this one goes on as it is, also while a run goes on.
    ///
    /// # Errors
    /// An entry that is not there, a file that cannot be written: nothing of it is left then. `NotKept` for a session in memory.
    pub async fn fork(&self, at: ForkPoint) -> Result<Forked, RunError> {
        let source = self.session_file().ok_or(RunError::NotKept)?;
        let (session, shelf) = (self.session().clone(), self.shelf.clone());
        let forked = tokio::task::spawn_blocking(move || {
            let cwd = session.cwd().to_owned();
            shelf.fork(&cwd, at, Some(&source), |order, store| session.fork(order, store))
        });
        Ok(forked.await.map_err(RunError::Interrupted)??)
    }

    /// Labels an entry of any branch; none takes its label away.
    ///
    /// # Errors
    /// An entry that is not there, a session that cannot be written.
    pub async fn set_label(&self, id: &EntryId, label: Option<String>) -> Result<(), RunError> {
        let entry = self.session().set_label(id, label)?;
        self.agent.outbox.send(Event::EntryAppended { entry }).await;
        Ok(self.session().sync()?)
    }

    /// Names the session; none takes its name away.
    ///
    /// # Errors
    /// A session that cannot be written.
    pub async fn set_name(&self, name: Option<String>) -> Result<(), RunError> {
        let entry = self.session().set_name(name)?;
        self.agent.outbox.send(Event::EntryAppended { entry }).await;
        self.agent.outbox.send(Event::SessionInfoChanged { name: self.session().name() }).await;
        Ok(self.session().sync()?)
    }

    /// Says something to the model that is not the user's: recorded as a `custom_message`, and told to the model as a plugin's. Where no run
    /// goes on, `Steer` and `FollowUp` begin one, whose end comes back; `NextRun` waits for the user's next message.
    ///
    /// # Errors
    /// Too many messages wait, a session that cannot be written.
    pub async fn say_custom(
        &self,
        message: CustomMessageEntry,
        delivery: Delivery,
    ) -> Result<Option<RunEnd>, RunError> {
        if message.content.is_empty() {
            return Err(RunError::Empty);
        }
        if delivery != Delivery::NextRun
            && let Some(run) = self.begin()
        {
            return self.run(Said::Plugin(message), &run).await.map(Some);
        }
        self.agent.mailbox.put(Said::Plugin(message), delivery)?;
        Ok(None)
    }
}
