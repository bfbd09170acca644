//! How a conversation begins: the session is started while the person types, and says who and where it is.

use super::{Conversation, Leave, NAME_CHARS, NOTICE_CHARS};
use crate::{failure::Failure, harmless::harmless_line, plain::transcript};
use pith_protocol::{Content, Message};
use pith_runtime::{Pith, RunError, SessionChoice, StartError};
use std::{sync::Arc, time::Duration};

/// Messages of a continued session that are shown.
const EARLIER_MESSAGES: usize = 4;

impl Conversation {
    pub(in crate::plain) fn start(&mut self) {
        let mut options = self.options.clone();
        // The next session has a name of its own.
        self.options.name = None;
        let (screen, style) = (Arc::downgrade(&self.screen), self.style);
        options.progress = Some(Arc::new(move |what: &str| {
            if let Some(screen) = screen.upgrade() {
                screen.offer(format!("{}\n", style.dim(&format!("· {}", harmless_line(what, NOTICE_CHARS)))));
            }
        }));
        self.starting = Some(tokio::spawn(pith_runtime::start(options)));
    }

    /// Waits until the session is there, at most so long.
    pub(in crate::plain) async fn wait_for_start(&mut self, within: Option<Duration>) -> Result<(), Leave> {
        let Some(mut starting) = self.starting.take() else { return Ok(()) };
        let late = async {
            match within {
                Some(within) => tokio::time::sleep(within).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            code = self.signals.next() => Err(Leave::Code(code)),
            started = &mut starting => self.started(started).await,
            () = late => {
                self.starting = Some(starting);
                Ok(())
            }
        }
    }

    pub(super) async fn started(
        &mut self,
        started: Result<Result<Pith, StartError>, tokio::task::JoinError>,
    ) -> Result<(), Leave> {
        match started {
            Ok(Ok(pith)) => self.header(pith).await,
            Ok(Err(error)) => {
                let failure = crate::plan::start_failure(&error);
                if self.pith.is_none() {
                    return Err(Leave::Failed(failure));
                }
                // The session before goes on.
                self.wrong(&failure.message).await
            }
            Err(error) => Err(Leave::Failed(Failure::refused(&error))),
        }
    }

    async fn header(&mut self, pith: Pith) -> Result<(), Leave> {
        self.screen.attach(pith.events(), pith.reading_tools()).await?;
        let model = harmless_line(&pith.model().model.to_string(), NAME_CHARS);
        let folder = harmless_line(&pith.session().cwd().to_string_lossy(), NAME_CHARS);
        let session = match pith.session_file() {
            Some(_) if pith.session().is_empty() => "new session",
            Some(_) => "continued session",
            None => "a session that is not kept",
        };
        // What it comes to on this machine is found out at the first program: the start does not wait for that.
        let sandbox = pith.sandbox_level().map(|level| format!(" · sandbox {level}")).unwrap_or_default();
        let mut text = format!(
            "{} {}\n{}\n",
            self.style.bold(&format!("pith {}", env!("CARGO_PKG_VERSION"))),
            self.style.dim(&format!("· {model} · {folder}")),
            self.style.dim(&format!("{session}{sandbox} · /help says what there is, Ctrl-D leaves"))
        );
        if pith.model().model.provider == "scripted" {
            text.push_str("note: the model is scripted: it plays a file, no model is asked\n");
        }
        for notice in pith.notices() {
            text.push_str(&format!("note: {}\n", harmless_line(notice, NOTICE_CHARS)));
        }
        text.push_str(&transcript::earlier(self.style, &earlier_messages(&pith)));
        self.screen.say(text).await?;
        self.pith = Some(Arc::new(pith));
        Ok(())
    }

    pub(in crate::plain) async fn ready(&mut self) -> Result<Arc<Pith>, Leave> {
        if self.starting.is_some() {
            self.wait_for_start(None).await?;
        }
        match &self.pith {
            Some(pith) => Ok(pith.clone()),
            None => Err(Leave::Failed(Failure::refused(&RunError::Empty))),
        }
    }

    pub(super) async fn begin_anew(&mut self) -> Result<(), Leave> {
        if !self.may_leave().await? {
            return Ok(());
        }
        if self.options.session != SessionChoice::Memory {
            self.options.session = SessionChoice::New;
        }
        self.start();
        self.wait_for_start(None).await
    }
}

/// The last messages of a session that goes on: whether the user's, and the words.
fn earlier_messages(pith: &Pith) -> Vec<(bool, String)> {
    let mut messages: Vec<(bool, String)> = pith.session().with_path(|path| {
        path.rev()
            .filter_map(|entry| match entry.message()? {
                Message::User(user) => {
                    Some((true, user.content.iter().filter_map(Content::as_text).collect::<String>()))
                }
                Message::Assistant(reply) => Some((false, reply.text())),
                _ => None,
            })
            .filter(|(_, text)| !text.trim().is_empty())
            .take(EARLIER_MESSAGES)
            .collect()
    });
    messages.reverse();
    messages
}
