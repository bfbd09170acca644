//! The plugins that Pith ships with: their components, built for wasm32-wasip2 by this crate's build script, and the grants
//! that each has. Nothing precompiled is among them; the host compiles at first start and keeps that in the user's cache.
//!
//! `PITH_BUNDLE=DIR` at build time takes ready components instead of building them: see `build.rs`, also for
//! rust-analyzer.

include!(concat!(env!("OUT_DIR"), "/components.rs"));

/// One shipped plugin.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The plugin's name, `[a-z]+`.
    pub name: &'static str,
    /// The component, as a `.wasm` file holds it.
    pub component: &'static [u8],
    /// What it is granted, as `--grant NAME:` would take it: `CAPABILITY` or `CAPABILITY=BOUND`.
    pub grants: &'static [&'static str],
}

const SHIPPED: [Shipped; 5] = [
    Shipped { name: "files", component: FILES, grants: &["tools", "files=workspace:rw", "files=spool:r"] },
    Shipped { name: "search", component: SEARCH, grants: &["tools", "files=workspace:r", "files=spool:r"] },
    // The folder is its programs': what a plugin is not granted, its programs do not see. The component itself opens nothing there.
    Shipped {
        name: "shell",
        component: SHELL,
        grants: &["tools", "process=bash", "files=workspace:rw", "files=spool:r"],
    },
    Shipped { name: "protect", component: PROTECT, grants: &["tool-gate"] },
    Shipped { name: "compact", component: COMPACT, grants: &["compactor", "models"] },
];

/// The shipped plugins, in the order in which their tools are shown.
pub fn shipped() -> &'static [Shipped] {
    &SHIPPED
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest component that is shipped: compiling one at first start costs 1.2 s of processor time per MB.
    const MAX_COMPONENT_BYTES: usize = 340 * 1024;

    fn has(component: &[u8], text: &str) -> bool {
        component.windows(text.len()).any(|window| window == text.as_bytes())
    }

    #[test]
    fn each_is_a_component_of_a_modest_size() {
        for plugin in shipped() {
            // The magic number, then version 13 of layer 1: a component and no core module.
            assert!(plugin.component.starts_with(b"\0asm\x0d\0\x01\0"), "{}", plugin.name);
            assert!(plugin.component.len() <= MAX_COMPONENT_BYTES, "{}: {}", plugin.name, plugin.component.len());
        }
    }

    #[test]
    fn each_names_what_it_is_granted_and_no_more() {
        // Names of interfaces stand in a component as text, and of those that its code does not use there is nothing.
        for (interface, grant) in [
            ("tools", "tools"),
            ("tool-gate", "tool-gate"),
            ("tool-filter", "tool-filter"),
            ("compactor", "compactor"),
            ("process", "process=bash"),
            ("agent", "agent"),
            ("http", "http"),
            ("models", "models"),
            ("tool-calls", "tool-calls"),
        ] {
            for plugin in shipped() {
                let named = has(plugin.component, &format!("pith:plugin/{interface}@0.1.0"));
                assert_eq!(named, plugin.grants.contains(&grant), "{} and {interface}", plugin.name);
            }
        }
    }
}
