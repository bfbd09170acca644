//! `dialog`: asks the person. No face has one that a plugin may ask yet: `unavailable`, as the contract says where nobody can answer.

use crate::{convert::refusal, instance::Instance};
use pith_bindings::imports::pith::plugin::{
    dialog::{Choice, Host},
    types::{Error, ErrorKind},
};

fn nobody() -> Error {
    refusal(ErrorKind::Unavailable, "nobody can answer here")
}

impl Host for Instance {
    async fn confirm(
        &mut self,
        title: String,
        detail: String,
        _timeout_ms: Option<u32>,
    ) -> wasmtime::Result<Result<Option<bool>, Error>> {
        self.enter(title.len().saturating_add(detail.len()))?;
        Ok(Err(nobody()))
    }

    async fn choose(
        &mut self,
        title: String,
        choices: Vec<Choice>,
        _timeout_ms: Option<u32>,
    ) -> wasmtime::Result<Result<Option<u32>, Error>> {
        let bytes = choices.iter().map(|choice| choice.label.len()).fold(title.len(), usize::saturating_add);
        self.enter(bytes)?;
        Ok(Err(nobody()))
    }

    async fn ask(
        &mut self,
        title: String,
        _placeholder: Option<String>,
        _timeout_ms: Option<u32>,
    ) -> wasmtime::Result<Result<Option<String>, Error>> {
        self.enter(title.len())?;
        Ok(Err(nobody()))
    }

    async fn edit(&mut self, title: String, text: String) -> wasmtime::Result<Result<Option<String>, Error>> {
        self.enter(title.len().saturating_add(text.len()))?;
        Ok(Err(nobody()))
    }

    async fn form(&mut self, title: String, schema: String) -> wasmtime::Result<Result<Option<String>, Error>> {
        self.enter(title.len().saturating_add(schema.len()))?;
        Ok(Err(nobody()))
    }
}
