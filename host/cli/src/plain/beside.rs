//! Beside a run: what is typed meanwhile, the questions of gates, the signals that stop it.

use super::{
    command::{Order, Said, understand},
    conversation::{Conversation, Leave, NOTICE_CHARS, pasted},
    keyboard::Typed,
    mention,
    modes::Modes,
    question::{Asked, DEAD_TIME, Taken},
};
use crate::{
    failure::{Failure, HUNG_UP, INTERRUPTED, chain},
    harmless::harmless_line,
    play::{LEAVE_AFTER, SAME_WORD},
};
use pith_runtime::{Pith, RunError};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

impl Conversation {
    /// Waits for a run, and meanwhile for the keyboard, questions and signals. Gives the run's end and the messages that were typed for it.
    pub(super) async fn beside<T>(
        &mut self,
        pith: &Arc<Pith>,
        mut run: JoinHandle<Result<T, RunError>>,
    ) -> Result<(Result<T, RunError>, Vec<String>), Leave> {
        let mut steered = Vec::new();
        let mut stopping: Option<Instant> = None;
        let mut leaving: Option<u8> = None;
        let mut listening = true;
        let leave = tokio::time::sleep(Duration::MAX);
        tokio::pin!(leave);
        if !self.style.dumb {
            self.screen.brackets(true).await?;
        }
        self.keyboard.listen();
        let ended = loop {
            tokio::select! {
                biased;
                code = self.signals.next() => {
                    if stopping.is_some_and(|at| at.elapsed() < SAME_WORD) {
                        continue;
                    }
                    if stopping.is_some() {
                        return Err(Leave::Code(code));
                    }
                    stopping = Some(Instant::now());
                    pith.abort();
                    if code != INTERRUPTED {
                        leaving = Some(code);
                        leave.as_mut().reset((Instant::now() + LEAVE_AFTER).into());
                    }
                }
                ended = &mut run => break ended,
                Some(asked) = self.asked.recv() => {
                    for typed in self.keyboard.stop().await {
                        self.typed(pith, typed, &mut steered).await?;
                    }
                    let code = self.question(pith, asked).await?;
                    if let Some(code) = code {
                        stopping = Some(Instant::now());
                        pith.abort();
                        if code != INTERRUPTED {
                            leaving = Some(code);
                            leave.as_mut().reset((Instant::now() + LEAVE_AFTER).into());
                        }
                    }
                    self.keyboard.listen();
                    listening = true;
                }
                typed = self.keyboard.next(), if listening => {
                    listening = self.typed(pith, typed, &mut steered).await?;
                }
                () = &mut leave => return Err(Leave::Code(leaving.unwrap_or(HUNG_UP))),
            }
        };
        for typed in self.keyboard.stop().await {
            self.typed(pith, typed, &mut steered).await?;
        }
        if !self.style.dumb {
            self.screen.brackets(false).await?;
        }
        if let Some(code) = leaving {
            let _ = self.screen.settle().await;
            return Err(Leave::Code(code));
        }
        self.stopped = stopping;
        match ended {
            Ok(ended) => Ok((ended, steered)),
            Err(error) => Err(Leave::Failed(Failure::refused(&error))),
        }
    }

    /// Something typed during a run. Whether more can come.
    async fn typed(&mut self, pith: &Pith, typed: Typed, steered: &mut Vec<String>) -> Result<bool, Leave> {
        let said = match typed {
            Typed::Line(line) => understand(&line),
            Typed::Pasted(text) => pasted(text),
            Typed::Unfinished(text) => {
                self.restored.push_str(&text);
                return Ok(true);
            }
            Typed::End => {
                self.later.push_back(Said::Order(Order::Quit));
                self.screen.say(format!("{}\n", self.style.dim("(Pith leaves when this is done)"))).await?;
                return Ok(false);
            }
            Typed::Gone => return Ok(false),
            Typed::Interrupt | Typed::GivenUp | Typed::Stopped => return Ok(true),
        };
        let told = match said {
            Said::Nothing => return Ok(true),
            Said::Words(text) => match mention::with_files(pith.session().cwd(), &text) {
                Ok(message) => match pith.steer(message.content) {
                    Ok(()) => {
                        steered.push(text);
                        self.tell_unattached(&message.notes).await?;
                        "(the model reads this after its present step)".to_owned()
                    }
                    Err(error) => format!("not sent: {}", chain(&error)),
                },
                Err(why) => format!("not sent: {}", harmless_line(&why, NOTICE_CHARS)),
            },
            Said::Wrong(why) => why,
            later => {
                self.later.push_back(later);
                "(done after this run)".to_owned()
            }
        };
        self.screen.say(format!("{}\n", self.style.dim(&told))).await?;
        Ok(true)
    }

    /// Asks. Gives a signal's code where one came instead of an answer; then, and where the question is no longer asked, nothing is decided.
    async fn question(&mut self, pith: &Pith, asked: Asked) -> Result<Option<u8>, Leave> {
        if asked.is_over() {
            return Ok(None);
        }
        // What happened before it stands above it, what happens meanwhile below.
        self.screen.settle().await?;
        self.screen.hold(true).await?;
        let told = self.asked(pith, asked).await;
        self.screen.hold(false).await?;
        told
    }

    async fn asked(&mut self, pith: &Pith, mut asked: Asked) -> Result<Option<u8>, Leave> {
        let mut shown = Some(asked.framed(self.style));
        loop {
            let line = match self.answered(&mut asked, shown.take()).await? {
                Answered::Line(line) => {
                    self.screen.returned().await?;
                    Some(line)
                }
                Answered::Nothing => {
                    self.screen.say(format!("{}\n", self.style.dim("(no answer)"))).await?;
                    None
                }
                Answered::Signal(code) => {
                    // Stopped before the answer is dropped: the call ends as aborted, not as refused.
                    pith.abort();
                    return Ok(Some(code));
                }
                Answered::Over => {
                    self.screen.say(format!("{}\n", self.style.dim("(no longer asked)"))).await?;
                    return Ok(None);
                }
            };
            asked = match asked.take(line.as_deref(), self.style) {
                Taken::Answered => return Ok(None),
                Taken::Again(asked, text) => {
                    shown = Some(text);
                    asked
                }
                Taken::More(asked) => asked,
            };
        }
    }

    /// One line of an answer. `shown` comes first where something new is asked, and what was typed before it was read is no answer to it.
    async fn answered(&mut self, asked: &mut Asked, shown: Option<String>) -> Result<Answered, Leave> {
        if let Some(shown) = shown {
            self.screen.say(shown).await?;
            self.screen.settle().await?;
            let dead = tokio::time::sleep(DEAD_TIME);
            tokio::select! {
                biased;
                code = self.signals.next() => return Ok(Answered::Signal(code)),
                () = asked.over() => return Ok(Answered::Over),
                () = dead => {}
            }
            Modes::forget_typed();
        }
        self.screen.say(asked.choice(self.style)).await?;
        self.screen.settle().await?;
        self.keyboard.one_line();
        let answered = tokio::select! {
            biased;
            code = self.signals.next() => Answered::Signal(code),
            () = asked.over() => Answered::Over,
            typed = self.keyboard.next() => match typed {
                Typed::Line(line) | Typed::Pasted(line) => Answered::Line(line),
                _ => Answered::Nothing,
            },
        };
        self.keyboard.stop().await;
        Ok(answered)
    }
}

/// What came of a question's line.
enum Answered {
    Line(String),
    /// Ctrl-D.
    Nothing,
    Signal(u8),
    /// It is no longer asked.
    Over,
}
