//! `context`: where in the work a call happens.

use crate::instance::Instance;
use pith_bindings::imports::pith::plugin::context::{Host, WindowUse};

impl Host for Instance {
    async fn session_id(&mut self) -> wasmtime::Result<Option<String>> {
        self.enter(0)?;
        Ok(self.scope.as_ref().map(|scope| scope.session.id().as_str().to_owned()))
    }

    async fn parent_session_id(&mut self) -> wasmtime::Result<Option<String>> {
        self.enter(0)?;
        // Sub-agents' sessions come with the interface that starts them.
        Ok(None)
    }

    async fn leaf_id(&mut self) -> wasmtime::Result<Option<String>> {
        self.enter(0)?;
        Ok(self.leaf.as_ref().map(|id| id.as_str().to_owned()))
    }

    async fn cwd(&mut self) -> wasmtime::Result<String> {
        self.enter(0)?;
        Ok(self
            .scope
            .as_ref()
            .map_or_else(|| "/".to_owned(), |scope| scope.session.cwd().to_string_lossy().into_owned()))
    }

    async fn turn(&mut self) -> wasmtime::Result<u32> {
        self.enter(0)?;
        Ok(self.scope.as_ref().map_or(0, |scope| scope.facts.turn))
    }

    async fn model(&mut self) -> wasmtime::Result<Option<String>> {
        self.enter(0)?;
        Ok(self.scope.as_ref().and_then(|scope| scope.facts.model.clone()))
    }

    async fn thinking(&mut self) -> wasmtime::Result<String> {
        self.enter(0)?;
        Ok(self.scope.as_ref().map_or("off", |scope| scope.facts.thinking.as_str()).to_owned())
    }

    async fn face(&mut self) -> wasmtime::Result<String> {
        self.enter(0)?;
        Ok(self.scope.as_ref().map_or_else(|| "library".to_owned(), |scope| scope.facts.face.clone()))
    }

    async fn interactive(&mut self) -> wasmtime::Result<bool> {
        self.enter(0)?;
        Ok(self.scope.as_ref().is_some_and(|scope| scope.facts.interactive))
    }

    async fn running(&mut self) -> wasmtime::Result<bool> {
        self.enter(0)?;
        Ok(self.scope.is_some())
    }

    async fn window(&mut self) -> wasmtime::Result<Option<WindowUse>> {
        self.enter(0)?;
        let facts = self.scope.as_ref().map(|scope| &scope.facts);
        Ok(facts.and_then(|facts| Some((facts.used_tokens?, facts.window_tokens?))).map(|(used, window)| WindowUse {
            used_tokens: u32::try_from(used).unwrap_or(u32::MAX),
            window_tokens: u32::try_from(window).unwrap_or(u32::MAX),
        }))
    }

    async fn caller(&mut self) -> wasmtime::Result<String> {
        self.enter(0)?;
        Ok(self.scope.as_ref().map_or("host", |scope| scope.caller.as_str()).to_owned())
    }

    async fn remaining_ms(&mut self) -> wasmtime::Result<u32> {
        self.enter(0)?;
        let left = self.deadline.left().as_millis();
        Ok(u32::try_from(left).unwrap_or(u32::MAX))
    }
}
