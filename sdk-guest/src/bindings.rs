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

pub mod compactor {
    wit_bindgen::generate!({
        path: "../wit",
        inline: "package pith:sdk-compactor; world exports-compactor { export pith:plugin/compactor@0.1.0; }",
        world: "pith:sdk-compactor/exports-compactor",
        with: {
            "pith:plugin/types@0.1.0": crate::bindings::imports::pith::plugin::types,
            "pith:plugin/messages@0.1.0": crate::bindings::imports::pith::plugin::messages,
            "pith:plugin/compactor@0.1.0": generate,
        },
        pub_export_macro: true,
        export_macro_name: "export",
        default_bindings_module: "pith_sdk::bindings::compactor",
    });
}

/// What the standard library knows and does not tell, or not in one question a name: the granted folders, and the names in
/// one. These are the functions that are used, of interfaces that the standard library imports whole; the component linker
/// replaces this version by the one that it imports.
pub mod folders {
    wit_bindgen::generate!({
        inline: "
            package pith:sdk-folders;
            world imports-folders {
                import wasi:filesystem/types@0.2.1;
                import wasi:filesystem/preopens@0.2.1;
            }
            package wasi:filesystem@0.2.1 {
                interface types {
                    enum descriptor-type { unknown, block-device, character-device, directory, fifo, symbolic-link, regular-file, socket }
                    flags descriptor-flags { read, write, file-integrity-sync, data-integrity-sync, requested-write-sync, mutate-directory }
                    flags path-flags { symlink-follow }
                    flags open-flags { create, directory, exclusive, truncate }
                    record directory-entry { %type: descriptor-type, name: string }
                    enum error-code {
                        access, would-block, already, bad-descriptor, busy, deadlock, quota, exist, file-too-large,
                        illegal-byte-sequence, in-progress, interrupted, invalid, io, is-directory, loop, too-many-links,
                        message-size, name-too-long, no-device, no-entry, no-lock, insufficient-memory, insufficient-space,
                        not-directory, not-empty, not-recoverable, unsupported, no-tty, no-such-device, overflow,
                        not-permitted, pipe, read-only, invalid-seek, text-file-busy, cross-device
                    }
                    resource descriptor {
                        open-at: func(path-flags: path-flags, path: string, open-flags: open-flags, %flags: descriptor-flags) -> result<descriptor, error-code>;
                        read-directory: func() -> result<directory-entry-stream, error-code>;
                    }
                    resource directory-entry-stream {
                        read-directory-entry: func() -> result<option<directory-entry>, error-code>;
                    }
                }
                interface preopens {
                    use types.{descriptor};
                    get-directories: func() -> list<tuple<descriptor, string>>;
                }
            }
        ",
        world: "pith:sdk-folders/imports-folders",
        generate_all,
    });
}
