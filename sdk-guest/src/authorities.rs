//! The host's authorities and services: the imports themselves in a component, stand-ins of the same names and signatures on
//! the machine that a plugin is tested on. There, what a call knows, says and keeps is answered by the
//! [`Place`](crate::testing::Place) that it runs in; what reaches the world needs the host and says so.

#[cfg(any(target_arch = "wasm32", doc))]
pub use crate::bindings::imports::pith::plugin::{
    agent, context, dialog, http, models, process, scan, secrets, session_labels, session_read, state, storage,
    tool_calls, tool_updates, ui,
};
#[cfg(any(target_arch = "wasm32", doc))]
pub(crate) use crate::bindings::imports::pith::plugin::{log, progress, settings};

#[cfg(not(any(target_arch = "wasm32", doc)))]
pub use native::*;

#[cfg(not(any(target_arch = "wasm32", doc)))]
#[allow(missing_docs, reason = "the documentation is that of the imports, which these stand for")]
mod native {
    use crate::testing::here;

    /// Modules whose functions need the host. Each has the import's own signature, which the compiler checks.
    macro_rules! of_the_host {
        ($($module:ident { $(fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)* })*) => {$(
            pub mod $module {
                use crate::bindings::imports::pith::plugin::$module as import;
                #[allow(unused_imports, reason = "some have no types")]
                pub use crate::bindings::imports::pith::plugin::$module::*;
                $(
                    #[track_caller]
                    pub fn $name($($arg: $type),*) $(-> $result)? {
                        let _: fn($($type),*) $(-> $result)? = import::$name;
                        let _ = ($($arg,)*);
                        crate::testing::needs_host(concat!(stringify!($module), "::", stringify!($name)))
                    }
                )*
            }
        )*};
    }

    /// Modules that the place answers. `$answer` has the import's own signature, which the compiler checks.
    macro_rules! of_the_place {
        ($($module:ident { $(fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? $answer:block)* })*) => {$(
            pub mod $module {
                use crate::bindings::imports::pith::plugin::$module as import;
                #[allow(unused_imports, reason = "some have no types")]
                pub use crate::bindings::imports::pith::plugin::$module::*;
                use super::here;
                $(
                    #[track_caller]
                    pub fn $name($($arg: $type),*) $(-> $result)? {
                        let _: fn($($type),*) $(-> $result)? = import::$name;
                        $answer
                    }
                )*
            }
        )*};
    }

    of_the_host! {
        agent {
            fn send(_message: &import::CustomMessage, _delivery: import::Delivery) -> Result<String, Error>;
            fn abort();
            fn compact(_instructions: Option<&str>) -> Result<(), Error>;
        }
        dialog {
            fn confirm(_title: &str, _detail: &str, _timeout_ms: Option<u32>) -> Result<Option<bool>, Error>;
            fn choose(_title: &str, _choices: &[import::Choice], _timeout_ms: Option<u32>) -> Result<Option<u32>, Error>;
            fn ask(_title: &str, _placeholder: Option<&str>, _timeout_ms: Option<u32>) -> Result<Option<String>, Error>;
            fn edit(_title: &str, _text: &str) -> Result<Option<String>, Error>;
            fn form(_title: &str, _schema: &str) -> Result<Option<String>, Error>;
        }
        http {
            fn send(_request: &import::Request) -> Result<import::Response, Error>;
        }
        models {
            fn complete(_query: &import::Query) -> Result<import::AssistantMessage, Error>;
        }
        process {
            fn stop_detached(_spool: &str) -> Result<(), Error>;
            fn run(_command: &import::Command) -> Result<import::Output, Error>;
            fn spawn(_command: &import::Command) -> Result<import::Child, Error>;
        }
        scan {
            fn run(_query: &import::Query) -> Result<import::Outcome, Error>;
        }
        secrets {
            fn exists(_name: &str) -> bool;
            fn request(_name: &str) -> Result<bool, Error>;
        }
        session_labels {
            fn set_label(_entry_id: &str, _label: Option<&str>) -> Result<(), Error>;
            fn set_name(_name: &str) -> Result<(), Error>;
        }
        session_read {
            fn branch(_filter: &import::Filter) -> Result<Vec<String>, Error>;
            fn entries(_filter: &import::Filter) -> Result<Vec<String>, Error>;
            fn entry(_id: &str) -> Result<String, Error>;
            fn label(_entry_id: &str) -> Result<Option<String>, Error>;
            fn name() -> Result<Option<String>, Error>;
            fn system_prompt() -> Result<String, Error>;
        }
        storage {
            fn get(_scope: import::Scope, _key: &str) -> Result<Option<String>, Error>;
            fn set(_scope: import::Scope, _key: &str, _value: &str) -> Result<(), Error>;
            fn remove(_scope: import::Scope, _key: &str) -> Result<(), Error>;
            fn list_keys(_scope: import::Scope, _prefix: &str) -> Result<Vec<String>, Error>;
        }
        tool_calls {
            fn call(_name: &str, _input: &str) -> Result<import::ToolOutput, Error>;
        }
        ui {
            fn notify(_level: import::Level, _message: &str);
            fn alert(_title: &str, _message: &str);
            fn status(_line: Option<&[crate::bindings::imports::pith::plugin::view_types::Span]>);
            fn widget(_key: &str, _place: import::Place, _lines: &[import::Line]);
            fn show(_title: &str, _markdown: &str);
        }
    }

    of_the_place! {
        context {
            fn session_id() -> Option<String> { here("context::session_id").session_id() }
            fn parent_session_id() -> Option<String> { None }
            fn leaf_id() -> Option<String> { here("context::leaf_id").leaf_id() }
            fn cwd() -> String { here("context::cwd").cwd() }
            fn turn() -> u32 { here("context::turn").facts().turn }
            fn model() -> Option<String> { here("context::model").facts().model }
            fn thinking() -> String { here("context::thinking").facts().thinking }
            fn face() -> String { here("context::face").facts().face }
            fn interactive() -> bool { here("context::interactive").facts().interactive }
            fn running() -> bool { true }
            fn window() -> Option<import::WindowUse> { None }
            fn caller() -> String { here("context::caller").facts().caller }
            fn remaining_ms() -> u32 { here("context::remaining_ms").facts().remaining_ms }
        }
        log {
            fn write(level: import::Level, message: &str) { here("log::write").log(level, message) }
        }
        settings {
            fn get() -> String { here("settings::get").settings() }
        }
        progress {
            fn update(content: &[Content], _details: Option<&str>) { here("progress::update").progress(content) }
        }
        state {
            fn load(kind: &str) -> Result<Option<import::Saved>, Error> { here("state::load").state(|state| state.load(kind)) }
            fn history(kind: &str) -> Result<Vec<import::Saved>, Error> { here("state::history").state(|state| state.history(kind)) }
            fn save(kind: &str, body: &str) -> Result<String, Error> { here("state::save").state(|state| state.save(kind, body)) }
            fn save_if(kind: &str, body: &str, newest: Option<&str>) -> Result<String, Error> {
                here("state::save_if").state(|state| state.save_if(kind, body, newest))
            }
        }
        tool_updates {
            fn changed() { here("tool_updates::changed").tools_changed() }
        }
    }
}
