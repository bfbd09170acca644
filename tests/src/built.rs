//! Guests that cargo builds when a test first wants them.

use crate::place::{repository, target_folder};
use std::{path::PathBuf, process::Command, sync::OnceLock};

/// What the outer cargo sets for itself and a guest's own build must not see.
const SCRUBBED: [&str; 8] = [
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_MAKEFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET",
];

/// The component of `tests/guests/hostile`: a tool for each way to misbehave.
///
/// # Panics
/// Where it cannot be built.
pub fn hostile_component() -> &'static [u8] {
    static BUILT: OnceLock<Vec<u8>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let path = build("hostile");
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    })
}

fn build(name: &str) -> PathBuf {
    let target = target_folder().join("guests");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in SCRUBBED {
        cargo.env_remove(name);
    }
    cargo.args(["build", "--release", "--locked", "--target", "wasm32-wasip2", "--target-dir"]).arg(&target);
    let output = cargo.current_dir(repository().join("tests/guests").join(name)).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join(format!("wasm32-wasip2/release/{name}.wasm"))
}
