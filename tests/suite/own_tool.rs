//! A plugin author's first tool: the example of the SDK, built as its README says and called.

use pith_tests::{Home, repository, target_folder};
use serde_json::json;
use std::{path::PathBuf, process::Command};

/// What the outer cargo sets for itself and an author's would not have.
const SCRUBBED: [&str; 6] =
    ["RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_MAKEFLAGS"];

/// Builds the example; gives the component.
fn word_count() -> PathBuf {
    let folder = repository().join("sdk-guest/examples/word-count");
    let target = target_folder().join("tmp/word-count");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in SCRUBBED {
        cargo.env_remove(name);
    }
    cargo
        .args(["build", "--release", "--locked", "--target", "wasm32-wasip2", "--target-dir"])
        .arg(&target)
        .current_dir(folder);
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("wasm32-wasip2/release/word_count.wasm")
}

#[test]
fn the_sdks_example_counts_words_within_its_grant() {
    let home = Home::new();
    home.write("README.md", "five words are in here\n");
    let secret = home.beside("secret.txt", "not for plugins\n");
    let plugin = word_count();
    let plugin = plugin.to_string_lossy();
    let play = |path: &str, grant: &[&str]| {
        let calls = json!([{ "id": "c", "name": "word_count", "arguments": { "path": path } }]);
        let mut args = vec!["--plugin", &*plugin];
        args.extend(grant);
        home.play(json!([{ "calls": calls }, { "text": "done" }]), &args).ok().result("c")
    };
    let granted = ["--grant", "word-count:files=workspace:r"];
    assert_eq!(play("README.md", &granted), ("README.md has 5 words.".to_owned(), false));
    for path in ["../secret.txt", &*secret.to_string_lossy(), "/etc/passwd"] {
        let (text, is_error) = play(path, &granted);
        assert!(is_error, "{path}: {text}");
    }
    // Without the grant it starts, since plain WASI is no request; it just finds no folder, and says what would allow it.
    let (text, is_error) = play("README.md", &[]);
    assert!(is_error && text.contains("README.md"), "{text}");
}
