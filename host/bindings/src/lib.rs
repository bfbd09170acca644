//! Types: nothing but `bindgen!`, because it is slow to compile and seldom changes.
//!
//! One set of bindings for everything that a plugin may import, one small one for each export, all sharing the first one's types: a
//! component exports any subset, and `Pre::new` of each tells whether it has it. The words of the interfaces are in `wit/`.
#![allow(missing_docs, rust_2018_idioms, clippy::all)]

/// What plugins import; the host implements it.
pub mod imports {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package pith:host; world imports { include pith:plugin/imports@0.1.0; }",
        world: "pith:host/imports",
        imports: { default: async | trappable },
    });
}

/// Words of `messages` that exports are called with, in a form that is not copied on its way into the guest.
pub mod messages {
    pub use super::imports::pith::plugin::messages::{Host, HostWithStore, add_to_linker};
    use std::sync::Arc;
    use wasmtime::component::{ComponentType, Lower};

    /// `messages.tool-call`. Its input may be a megabyte, and goes to every gate, filter and the tool.
    #[derive(Clone, Debug, ComponentType, Lower)]
    #[component(record)]
    pub struct ToolCall {
        /// Unique within the session.
        pub id: String,
        /// The tool's short name.
        pub name: String,
        /// Canonical JSON.
        pub input: Arc<String>,
    }
}

/// The export `tools`.
pub mod tools {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package pith:host-tools; world tools { export pith:plugin/tools@0.1.0; }",
        world: "pith:host-tools/tools",
        exports: { default: async },
        with: {
            "pith:plugin/types": super::imports::pith::plugin::types,
            "pith:plugin/messages": super::messages,
            "pith:plugin/tool-types": super::imports::pith::plugin::tool_types,
        },
    });
}

/// The export `tool-gate`.
pub mod tool_gate {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package pith:host-tool-gate; world tool-gate { export pith:plugin/tool-gate@0.1.0; }",
        world: "pith:host-tool-gate/tool-gate",
        exports: { default: async },
        with: {
            "pith:plugin/types": super::imports::pith::plugin::types,
            "pith:plugin/call-types": super::imports::pith::plugin::call_types,
            "pith:plugin/messages": super::messages,
        },
    });
}

/// The export `tool-filter`.
pub mod tool_filter {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package pith:host-tool-filter; world tool-filter { export pith:plugin/tool-filter@0.1.0; }",
        world: "pith:host-tool-filter/tool-filter",
        exports: { default: async },
        with: {
            "pith:plugin/types": super::imports::pith::plugin::types,
            "pith:plugin/call-types": super::imports::pith::plugin::call_types,
            "pith:plugin/messages": super::messages,
            "pith:plugin/tool-types": super::imports::pith::plugin::tool_types,
        },
    });
}

/// The export `compactor`. Its messages are the imports' own types: they are made once for a summary, and a summary is seldom.
pub mod compactor {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package pith:host-compactor; world compactor { export pith:plugin/compactor@0.1.0; }",
        world: "pith:host-compactor/compactor",
        exports: { default: async },
        with: {
            "pith:plugin/types": super::imports::pith::plugin::types,
            "pith:plugin/messages": super::imports::pith::plugin::messages,
        },
    });
}
