//! Foreign text on a pseudo-terminal cannot drive it.

use pith_tests::{Home, Run, Running, pith_binary};
use serde_json::json;
use std::time::Duration;

/// Sets the title, clears the screen, hides what follows, rings, goes back to the line's start, turns the direction round.
const HOSTILE: &str =
    "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[8mhid\u{8}den\u{9b}31m\rover\u{202e}txt.exe\u{200b}\u{1b}Pdcs\u{1b}\\ end";

/// Runs `pith` on a pseudo-terminal; standard output and error come as one.
fn on_terminal(home: &Home, args: &[&str]) -> Run {
    let quoted: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
    let line = format!("'{}' {}", pith_binary().display(), quoted.join(" "));
    let mut command = home.bare("script");
    command.args(["-qec", &line, "/dev/null"]).env("NO_COLOR", "1").env("TERM", "xterm").env("SHELL", "/bin/sh");
    Running::start(command, Duration::from_secs(30)).finish()
}

#[track_caller]
fn assert_harmless(run: &Run) {
    for bad in ['\u{1b}', '\u{7}', '\u{8}', '\u{9b}', '\u{202e}', '\u{200b}'] {
        assert!(!run.stdout.contains(bad), "{bad:?} reached the terminal: {:?}", run.stdout);
    }
    assert!(!run.stdout.replace("\r\n", "\n").contains('\r'), "a bare carriage return: {:?}", run.stdout);
}

#[test]
fn a_models_words_are_harmless() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": HOSTILE }]));
    let run = on_terminal(&home, &["--model", &model, "-p", "go"]).ok().prints("end").prints("<U+202E>");
    assert_harmless(&run);
    // A pipe gets the very bytes.
    let run = home.pith(&["--model", &model, "-p", "go"]).ok();
    assert_eq!(run.stdout, format!("{HOSTILE}\n"));
}

#[test]
fn calls_results_refusals_and_errors_are_harmless() {
    let home = Home::new();
    let model = home.scripted(json!([
        { "calls": [
            { "name": "bash", "arguments": { "command": format!("printf '%s' '{HOSTILE}'") } },
            { "name": "read", "arguments": { "path": HOSTILE } },
            { "name": HOSTILE, "arguments": {} },
            { "name": "write", "arguments": { "path": format!(".git/{HOSTILE}"), "content": "" } }
        ] },
        { "error": { "message": HOSTILE, "kind": "invalid" } }
    ]));
    let run = on_terminal(&home, &["--model", &model, "-p", "go"]).exits(1).prints("bash").prints("protect");
    assert_harmless(&run);
}

#[test]
fn what_a_file_or_folder_is_called_is_harmless() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "hi" }]));
    home.write(&format!("{HOSTILE}.wasm"), "no component");
    let run = on_terminal(&home, &["--plugin", &format!("{HOSTILE}.wasm"), "--model", &model, "-p", "go"]).exits(2);
    assert_harmless(&run);
    let run = on_terminal(&home, &["--session", HOSTILE, "--model", &model, "-p", "go"]).exits(2);
    assert_harmless(&run);
}

#[test]
fn printing_without_a_prompt_is_usage_also_on_a_terminal() {
    on_terminal(&Home::new(), &["-p"]).exits(2).prints("Usage");
    on_terminal(&Home::new(), &["--mode", "json"]).exits(2).prints("Usage");
}
