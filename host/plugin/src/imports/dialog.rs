//! `dialog`: asks the person. One question of a plugin at a time, six a minute; the call's deadline stands still while one is open.

use super::form;
use crate::{
    convert::refusal,
    instance::Instance,
    limits::{QUESTION_BYTES, QUESTION_PARTS, QUESTIONS_A_MINUTE, QUESTIONS_OPEN},
};
use pith_bindings::imports::pith::plugin::{
    dialog::{self as wit, Host},
    types::{Error, ErrorKind},
};
use pith_core::{Answer, Choice, PluginQuestion, Wanted, canonical_json};
use serde_json::Value;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

const MINUTE: Duration = Duration::from_secs(60);

/// A plugin's questions, of all its calls.
#[derive(Default)]
pub(crate) struct Questions(Mutex<Asked>);

#[derive(Default)]
struct Asked {
    open: usize,
    /// When those of the last minute were asked.
    lately: VecDeque<Instant>,
}

/// A question that is open until this is dropped.
struct Open<'q>(&'q Questions);

impl Questions {
    fn open(&self, now: Instant) -> Result<Open<'_>, Error> {
        let mut asked = self.lock();
        if asked.open >= QUESTIONS_OPEN {
            let text = "another question of this plugin is open; ask when it is answered";
            return Err(refusal(ErrorKind::Limit, text));
        }
        asked.lately.retain(|at| now.saturating_duration_since(*at) < MINUTE);
        if asked.lately.len() >= QUESTIONS_A_MINUTE {
            let text = format!(
                "{QUESTIONS_A_MINUTE} questions were asked within a minute; ask later, or all at once in a form"
            );
            return Err(refusal(ErrorKind::Limit, text));
        }
        asked.lately.push_back(now);
        asked.open += 1;
        Ok(Open(self))
    }

    /// A panic elsewhere cannot leave it half changed.
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut asked = self.0.lock();
        asked.open = asked.open.saturating_sub(1);
    }
}

fn nobody() -> Error {
    refusal(ErrorKind::Unavailable, "nobody can answer here")
}

impl Instance {
    /// The one way to the person. `bytes` are the question's words.
    async fn question(
        &mut self,
        bytes: usize,
        title: String,
        wanted: impl FnOnce() -> Result<Wanted, Error> + Send,
        timeout_ms: Option<u32>,
    ) -> wasmtime::Result<Result<Option<Answer>, Error>> {
        self.enter(bytes)?;
        Ok(self.answer(bytes, title, wanted, timeout_ms).await)
    }

    async fn answer(
        &mut self,
        bytes: usize,
        title: String,
        wanted: impl FnOnce() -> Result<Wanted, Error> + Send,
        timeout_ms: Option<u32>,
    ) -> Result<Option<Answer>, Error> {
        let person = match &self.scope {
            Some(scope) if scope.person.is_there() => &scope.person,
            _ => return Err(nobody()),
        };
        if bytes > QUESTION_BYTES {
            let text = format!("a question has at most {} KiB of words", QUESTION_BYTES >> 10);
            return Err(refusal(ErrorKind::Limit, text));
        }
        let question = PluginQuestion { plugin: self.facts.name.clone(), title, wanted: wanted()? };
        let _open = self.facts.questions.open(Instant::now())?;
        let wait = self.facts.limits.question_wait;
        let wait = timeout_ms.map_or(wait, |ms| wait.min(Duration::from_millis(ms.into())));
        let _held = self.deadline.hold();
        match tokio::time::timeout(wait, person.ask(&question)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(nobody()),
            Err(_) => Ok(None),
        }
    }
}

/// An answer of another kind than was asked for is a face's mistake; the guest is not told something else instead.
fn told<T>(
    answered: Result<Option<Answer>, Error>,
    read: impl FnOnce(Answer) -> Option<T>,
) -> Result<Option<T>, Error> {
    let Some(answer) = answered? else { return Ok(None) };
    match read(answer) {
        Some(answer) => Ok(Some(answer)),
        None => Err(refusal(ErrorKind::Internal, "the answer was none to this question")),
    }
}

fn text(answer: Answer) -> Option<String> {
    match answer {
        Answer::Text(text) => Some(text),
        _ => None,
    }
}

fn choices(choices: Vec<wit::Choice>) -> Result<Wanted, Error> {
    if choices.is_empty() || choices.len() > QUESTION_PARTS {
        let text = format!("a question has 1 to {QUESTION_PARTS} choices, not {}", choices.len());
        return Err(refusal(ErrorKind::Invalid, text));
    }
    let choice = |choice: wit::Choice| Choice { label: choice.label, description: choice.description };
    Ok(Wanted::Choice(choices.into_iter().map(choice).collect()))
}

impl Host for Instance {
    async fn confirm(
        &mut self,
        title: String,
        detail: String,
        timeout_ms: Option<u32>,
    ) -> wasmtime::Result<Result<Option<bool>, Error>> {
        let bytes = title.len().saturating_add(detail.len());
        let answered = self.question(bytes, title, || Ok(Wanted::Confirm { detail }), timeout_ms).await?;
        Ok(told(answered, |answer| match answer {
            Answer::Yes(yes) => Some(yes),
            _ => None,
        }))
    }

    async fn choose(
        &mut self,
        title: String,
        offered: Vec<wit::Choice>,
        timeout_ms: Option<u32>,
    ) -> wasmtime::Result<Result<Option<u32>, Error>> {
        let words = |choice: &wit::Choice| {
            choice.label.len().saturating_add(choice.description.as_ref().map_or(0, String::len))
        };
        let bytes = offered.iter().map(words).fold(title.len(), usize::saturating_add);
        let count = offered.len();
        let answered = self.question(bytes, title, || choices(offered), timeout_ms).await?;
        Ok(told(answered, |answer| match answer {
            Answer::Chosen(at) if at < count => u32::try_from(at).ok(),
            _ => None,
        }))
    }

    async fn ask(
        &mut self,
        title: String,
        placeholder: Option<String>,
        timeout_ms: Option<u32>,
    ) -> wasmtime::Result<Result<Option<String>, Error>> {
        let bytes = title.len().saturating_add(placeholder.as_ref().map_or(0, String::len));
        let answered = self.question(bytes, title, || Ok(Wanted::Line { placeholder }), timeout_ms).await?;
        Ok(told(answered, text))
    }

    async fn edit(&mut self, title: String, initial: String) -> wasmtime::Result<Result<Option<String>, Error>> {
        let bytes = title.len().saturating_add(initial.len());
        let answered = self.question(bytes, title, || Ok(Wanted::Text { text: initial }), None).await?;
        Ok(told(answered, text))
    }

    async fn form(&mut self, title: String, schema: String) -> wasmtime::Result<Result<Option<String>, Error>> {
        let bytes = title.len().saturating_add(schema.len());
        let fields = || form::fields(&schema).map_err(|error| refusal(ErrorKind::Invalid, error.to_string()));
        let answered = self.question(bytes, title, || fields().map(Wanted::Form), None).await?;
        Ok(told(answered, |answer| match answer {
            Answer::Form(values) => Some(canonical_json(&Value::Object(values))),
            _ => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_open_at_a_time_and_six_within_any_minute() {
        let questions = Questions::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let refused = |seconds, words: &str| {
            let error = questions.open(at(seconds)).err().unwrap();
            assert!(error.kind == ErrorKind::Limit && error.message.contains(words), "{}", error.message);
        };
        let open = questions.open(at(0)).unwrap();
        refused(1, "another question");
        drop(open);
        for seconds in [10, 20, 30, 40, 50] {
            drop(questions.open(at(seconds)).unwrap());
        }
        refused(59, "within a minute");
        drop(questions.open(at(60)).unwrap());
        refused(69, "within a minute");
        drop(questions.open(at(70)).unwrap());
    }
}
