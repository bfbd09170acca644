//! A plugin author's first tool: the example of the SDK, built as its README says, with the author's own harness.

use pith_tests::Home;
use pith_tests::author::{Plugin, mentions, refused, says};
use serde_json::json;
use std::{panic::catch_unwind, process::Command};

const EXAMPLE: &str = "sdk-guest/examples/word-count";

#[test]
fn the_sdks_example_counts_words_within_its_grant() {
    let home = Home::new();
    home.write("README.md", "five words are in here\n");
    let secret = home.beside("secret.txt", "not for plugins\n");
    let plugin = Plugin::build(EXAMPLE);
    let granted = plugin.clone().grant("files=workspace:r");
    let check = |path: &str, expected| granted.check(&home, "word_count", json!({ "path": path }), expected);
    check("README.md", says("README.md has 5 words."));
    check("./README.md", mentions("README.md has"));
    check("readme.md", refused("There is no `readme.md`. Did you mean `README.md`?"));
    check("", refused("\"\" is shorter than 1 character"));
    let outside = "is outside the folders that this plugin was granted: it may reach";
    check("../secret.txt", refused(outside));
    check(&secret.to_string_lossy(), refused(outside));
    check("/etc/passwd", refused("--grant PLUGIN:files=/etc:r"));
    std::os::unix::fs::symlink(&secret, home.work().join("link")).expect("a link");
    check("link", refused("leads out of the granted folders"));
    // Without the grant it starts, since plain WASI is no request; it just finds no folder, and says what would allow it.
    plugin.check(&home, "word_count", json!({ "path": "README.md" }), refused("it was granted no folder"));
}

#[test]
fn calls_of_one_session_have_one_answer_each() {
    let home = Home::new();
    home.write("a.txt", "one");
    let plugin = Plugin::build(EXAMPLE).grant("files=workspace:r");
    let answers = plugin.calls(
        &home,
        &[
            ("word_count", json!({ "path": "a.txt" })),
            ("write", json!({ "path": "b.txt", "content": "two words" })),
            ("word_count", json!({ "path": "b.txt" })),
        ],
    );
    let texts: Vec<&str> = answers.iter().map(|answer| answer.text.as_str()).collect();
    assert_eq!((texts[0], texts[2]), ("a.txt has 1 words.", "b.txt has 2 words."));
    assert!(answers.iter().all(|answer| !answer.is_error), "{answers:?}");
}

#[test]
fn a_check_that_fails_shows_everything() {
    let home = Home::new();
    home.write("a.txt", "one");
    let plugin = Plugin::build(EXAMPLE).grant("files=workspace:r");
    let failed = catch_unwind(std::panic::AssertUnwindSafe(|| {
        plugin.check(&home, "word_count", json!({ "path": "a.txt" }), says("a.txt has 2 words."));
    }));
    let told = failed.expect_err("it fails").downcast_ref::<String>().cloned().unwrap_or_default();
    for part in
        ["word_count {\"path\":\"a.txt\"}", "a.txt has 1 words.", "a.txt has 2 words.", "--plugin", "agent_settled"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// The example's own tests, which need no host and no program.
#[test]
fn the_examples_own_tests_pass() {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in ["RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        cargo.env_remove(name);
    }
    let target = pith_tests::target_folder().join("tmp/authors");
    cargo
        .args(["test", "--release", "--locked", "--target-dir"])
        .arg(target)
        .current_dir(pith_tests::repository().join(EXAMPLE));
    let output = cargo.output().expect("cargo runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}
