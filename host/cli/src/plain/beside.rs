//! Beside a run: what is typed meanwhile, the questions of gates, the signals that stop it.

use super::{
    command::{Order, Said, understand},
    conversation::{Conversation, Leave, NOTICE_CHARS},
    keyboard::Typed,
    mention,
    modes::Modes,
    question::{self, Asked, DEAD_TIME},
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
        if let Some(code) = leaving {
            let _ = self.screen.settle().await;
            return Err(Leave::Code(code));
        }
        match ended {
            Ok(ended) => Ok((ended, steered)),
            Err(error) => Err(Leave::Failed(Failure::refused(&error))),
        }
    }

    /// Something typed during a run. Whether more can come.
    async fn typed(&mut self, pith: &Pith, typed: Typed, steered: &mut Vec<String>) -> Result<bool, Leave> {
        let line = match typed {
            Typed::Line(line) => line,
            Typed::End => {
                self.later.push_back(Said::Order(Order::Quit));
                self.screen.say(format!("{}\n", self.style.dim("(Pith leaves when this is done)"))).await?;
                return Ok(false);
            }
            Typed::Gone => return Ok(false),
            Typed::Interrupt | Typed::Stopped => return Ok(true),
        };
        let told = match understand(&line) {
            Said::Nothing => return Ok(true),
            Said::Words(text) => match mention::with_files(pith.session().cwd(), &text) {
                Ok(message) => match pith.steer(message.content) {
                    Ok(()) => {
                        steered.push(text);
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
    async fn question(&mut self, pith: &Pith, mut asked: Asked) -> Result<Option<u8>, Leave> {
        // What happened before it stands above it, what happens meanwhile below.
        self.screen.settle().await?;
        self.screen.hold(true).await?;
        self.screen.say(question::framed(self.style, &asked.call, &asked.questions)).await?;
        let answered = self.answered(&mut asked).await;
        let answer = match answered {
            Ok(answer) => answer,
            Err(left) => {
                self.screen.hold(false).await?;
                return Err(left);
            }
        };
        let told = match answer {
            Answer::Line(line) => {
                self.screen.returned().await?;
                let decided = question::decision(&line, question::can_remember(&asked.questions));
                let _ = asked.answer.send(decided);
                None
            }
            Answer::Signal(code) => {
                // Stopped before the answer is dropped: the call ends as aborted, not as refused.
                pith.abort();
                Some(code)
            }
            Answer::Over => None,
        };
        self.screen.hold(false).await?;
        Ok(told)
    }

    async fn answered(&mut self, asked: &mut Asked) -> Result<Answer, Leave> {
        self.screen.settle().await?;
        let dead = tokio::time::sleep(DEAD_TIME);
        tokio::select! {
            biased;
            code = self.signals.next() => return Ok(Answer::Signal(code)),
            () = asked.answer.closed() => return Ok(Answer::Over),
            () = dead => {}
        }
        Modes::forget_typed();
        let choice = question::choice(self.style, question::can_remember(&asked.questions));
        self.screen.say(choice).await?;
        self.screen.settle().await?;
        self.keyboard.one_line();
        let answer = tokio::select! {
            biased;
            code = self.signals.next() => Answer::Signal(code),
            () = asked.answer.closed() => Answer::Over,
            typed = self.keyboard.next() => match typed {
                Typed::Line(line) => Answer::Line(line),
                _ => {
                    self.screen.say("\n").await?;
                    Answer::Line(String::new())
                }
            },
        };
        self.keyboard.stop().await;
        Ok(answer)
    }
}

/// What came of a question.
enum Answer {
    Line(String),
    Signal(u8),
    /// It is no longer asked.
    Over,
}
