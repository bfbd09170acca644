//! The contract in Rust. One module for all imports, one for each export: the component type of an export travels in its
//! `export!` macro, so a guest that offers only tools carries nothing of the others.

pub mod imports {
    wit_bindgen::generate!({ path: "../wit", world: "pith:plugin/imports" });
}

pub mod tools {
    wit_bindgen::generate!({
        path: "../wit",
        inline: "package pith:sdk-tools; world exports-tools { export pith:plugin/tools@0.1.0; }",
        world: "pith:sdk-tools/exports-tools",
        with: {
            "pith:plugin/types@0.1.0": crate::bindings::imports::pith::plugin::types,
            "pith:plugin/messages@0.1.0": crate::bindings::imports::pith::plugin::messages,
            "pith:plugin/tool-types@0.1.0": crate::bindings::imports::pith::plugin::tool_types,
            "pith:plugin/tools@0.1.0": generate,
        },
        pub_export_macro: true,
        export_macro_name: "export",
        default_bindings_module: "pith_sdk::bindings::tools",
    });
}

pub mod tool_gate {
    wit_bindgen::generate!({
        path: "../wit",
        inline: "package pith:sdk-tool-gate; world exports-tool-gate { export pith:plugin/tool-gate@0.1.0; }",
        world: "pith:sdk-tool-gate/exports-tool-gate",
        with: {
            "pith:plugin/types@0.1.0": crate::bindings::imports::pith::plugin::types,
            "pith:plugin/messages@0.1.0": crate::bindings::imports::pith::plugin::messages,
            "pith:plugin/call-types@0.1.0": crate::bindings::imports::pith::plugin::call_types,
            "pith:plugin/tool-gate@0.1.0": generate,
        },
        pub_export_macro: true,
        export_macro_name: "export",
        default_bindings_module: "pith_sdk::bindings::tool_gate",
    });
}

pub mod tool_filter {
    wit_bindgen::generate!({
        path: "../wit",
        inline: "package pith:sdk-tool-filter; world exports-tool-filter { export pith:plugin/tool-filter@0.1.0; }",
        world: "pith:sdk-tool-filter/exports-tool-filter",
        with: {
            "pith:plugin/types@0.1.0": crate::bindings::imports::pith::plugin::types,
            "pith:plugin/messages@0.1.0": crate::bindings::imports::pith::plugin::messages,
            "pith:plugin/call-types@0.1.0": crate::bindings::imports::pith::plugin::call_types,
            "pith:plugin/tool-types@0.1.0": crate::bindings::imports::pith::plugin::tool_types,
            "pith:plugin/tool-filter@0.1.0": generate,
        },
        pub_export_macro: true,
        export_macro_name: "export",
        default_bindings_module: "pith_sdk::bindings::tool_filter",
    });
}

/// What the standard library knows and does not tell: the names of the granted folders. The component linker replaces this
/// version by the one that the standard library imports.
pub mod preopens {
    wit_bindgen::generate!({
        inline: "
            package pith:sdk-preopens;
            world imports-preopens {
                import wasi:filesystem/preopens@0.2.1;
            }
            package wasi:filesystem@0.2.1 {
                interface types {
                    resource descriptor;
                }
                interface preopens {
                    use types.{descriptor};
                    get-directories: func() -> list<tuple<descriptor, string>>;
                }
            }
        ",
        world: "pith:sdk-preopens/imports-preopens",
        generate_all,
    });
}
