//! What a person did not type as a command is none, and what they are asked about is seen whole.

use pith_tests::{Behaviour, Guest, Home, Terminal};
use serde_json::{Value, json};
use std::time::Duration;

const INTERRUPT: &str = "\u{3}";
const END: &str = "\u{4}";

/// Runs until the file `go-on` is there.
fn waiting() -> Value {
    call("until [ -e go-on ]; do sleep 0.01; done")
}

fn call(command: &str) -> Value {
    json!({ "name": "bash", "arguments": { "command": command } })
}

fn paste_during_a_run(term: &str, pasted: &str) {
    let home = Home::new();
    let model = home.scripted(json!([
        { "calls": [waiting()] },
        { "expect": { "last_user_contains": "notes:\n!touch PWNED\n/quit\nthanks" }, "text": "I read it." },
        { "text": "on we go" }
    ]));
    let mut command = home.command(&["--model", &model]);
    command.env("TERM", term).env("NO_COLOR", "1");
    let mut terminal = Terminal::of(&command);
    terminal.prompt();
    terminal.line("go");
    terminal.waits("· bash");
    terminal.keys(pasted);
    terminal.waits("the model reads this after its present step");
    home.write("go-on", "");
    terminal.waits("I read it.\n");
    terminal.prompt();
    // It went as one message, and what is typed is what it was.
    terminal.line("!echo typed-$((3+3))");
    terminal.waits("typed-6\n");
    terminal.prompt();
    terminal.line("more");
    terminal.waits("on we go\n");
    terminal.prompt();
    let raw = terminal.raw();
    let (on, off) = (raw.matches("\u{1b}[?2004h").count(), raw.matches("\u{1b}[?2004l").count());
    assert!(if term == "dumb" { on + off == 0 } else { on > 0 && off > 0 }, "{on} {off}");
    terminal.keys(END);
    terminal.exits(0);
    assert!(!home.work().join("PWNED").exists());
}

#[test]
fn a_paste_during_a_run_is_one_message_and_runs_nothing() {
    paste_during_a_run("xterm", "\u{1b}[200~notes:\r!touch PWNED\r/quit\rthanks\u{1b}[201~\r");
}

#[test]
fn a_paste_without_brackets_is_one_message_and_runs_nothing() {
    paste_during_a_run("xterm", "notes:\r!touch PWNED\r/quit\rthanks\r");
    paste_during_a_run("dumb", "notes:\r!touch PWNED\r/quit\rthanks\r");
}

#[test]
fn a_paste_at_a_simple_prompt_is_one_message() {
    let home = Home::new();
    let model = home
        .scripted(json!([{ "expect": { "last_user_contains": "!touch PWNED\n!touch PWNED" }, "text": "I read it." }]));
    let mut command = home.command(&["--model", &model]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::of(&command);
    terminal.prompt();
    terminal.keys("!touch PWNED\r!touch PWNED\r");
    terminal.waits("I read it.\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
    assert!(!home.work().join("PWNED").exists());
}

#[test]
fn a_paste_that_a_runs_end_cuts_short_is_given_back() {
    let home = Home::new();
    let model = home.scripted(json!([{ "calls": [waiting()] }, { "text": "I am done." }, { "text": "never" }]));
    let mut terminal = Terminal::start(&home, &["--model", &model]);
    terminal.prompt();
    terminal.line("go");
    terminal.waits("· bash");
    terminal.keys("\u{1b}[200~notes:\r!touch PWNED\r");
    terminal.waits("!touch PWNED");
    home.write("go-on", "");
    terminal.waits("I am done.\n");
    terminal.waits("> notes:");
    terminal.waits("!touch PWNED");
    terminal.waits_for_lines(false);
    terminal.keys(INTERRUPT);
    terminal.waits("Ctrl-C again");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
    assert!(!home.work().join("PWNED").exists());
}

/// What stands in the question's frame, its lines joined.
fn framed(shown: &str) -> String {
    let from = shown.rfind("┏━ Pith asks").expect("a question");
    let lines = shown[from..].lines().skip(1).take_while(|line| line.starts_with('┃'));
    lines.map(|line| line.trim_start_matches('┃').strip_prefix(' ').unwrap_or("\n")).collect()
}

#[test]
fn a_question_shows_all_that_would_run_or_says_where_it_is() {
    let home = Home::new();
    let command = |chars: usize| format!("{}touch MIDDLE;{}", "true; ".repeat(chars / 12), "true; ".repeat(chars / 12));
    let (short, long) = (command(31_000), command(40_000));
    let model = home.scripted(json!([
        { "calls": [call(&short)] },
        { "expect": { "last_result_contains": ["the user said no"] }, "calls": [call(&long)] },
        { "expect": { "last_result_contains": ["the user said no"] }, "text": "as you say" }
    ]));
    let gate = Guest::new().gate(Behaviour::Ask("sure?".to_owned(), Some("all".to_owned())));
    let gate = gate.save(&home.root().join("asker.wasm")).to_string_lossy().into_owned();
    let mut terminal = Terminal::start(&home, &["--model", &model, "--plugin", &gate]);
    terminal.prompt();
    terminal.line("go");
    terminal.waits("a = yes, and the like until the session ends, anything else = no: ");
    let json = |command: &str| json!({ "command": command }).to_string();
    assert!(framed(&terminal.shown()).starts_with(&format!("bash {}\n", json(&short))));
    terminal.line("n");
    terminal.waits("bytes of it, until this is answered: ");
    terminal.waits("\n┗━ y = yes, anything else = no: ");
    let frame = framed(&terminal.shown());
    assert!(frame.contains("characters are not shown") && !frame.contains("MIDDLE"), "{frame}");
    let (_, path) = frame.split_once("until this is answered: ").expect("a path");
    let path = path.lines().next().expect("a path");
    assert_eq!(std::fs::read_to_string(path).expect("the call"), json(&long));
    // No answer for the session to what is not seen whole.
    terminal.line("a");
    terminal.waits("as you say\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
    assert!(!home.work().join("MIDDLE").exists() && !std::path::Path::new(path).exists());
}

#[test]
fn ctrl_c_soon_after_the_one_that_stopped_a_run_leaves() {
    let home = Home::new();
    let model = home.scripted(json!([{ "calls": [call("sleep 300")] }, { "text": "never" }]));
    let mut left = false;
    for _ in 0..5 {
        let mut terminal = Terminal::start(&home, &["--model", &model]);
        terminal.prompt();
        terminal.line("go");
        terminal.waits("· bash sleep 300\n");
        terminal.keys(INTERRUPT);
        let pressed = std::time::Instant::now();
        terminal.waits("aborted\n");
        terminal.prompt();
        terminal.waits_for_lines(false);
        // As a person presses it twice: later than a signal that is sent twice comes.
        std::thread::sleep(Duration::from_millis(200).saturating_sub(pressed.elapsed()));
        terminal.keys(INTERRUPT);
        if pressed.elapsed() < Duration::from_millis(700) {
            terminal.exits(0);
            left = true;
            break;
        }
    }
    assert!(left, "this machine was too slow every time");
}

#[test]
fn settings_that_nobody_reads_or_that_are_broken_are_told() {
    let home = Home::new();
    home.beside("config/pith/settings.toml", "[plugins.protec]\npaths = [\"*.lock\"]\n");
    let model = home.scripted(json!([{ "text": "hello" }]));
    home.pith(&["--model", &model, "-p", "go"]).exits(0).says("did you mean [plugins.protect]?");
    home.beside("config/pith/settings.toml", "[plugins.protect]\npaths = [\"...\", \"[\"]\n");
    let write = json!({ "name": "write", "arguments": { "path": "a", "content": "" } });
    let model = home.scripted(json!([
        { "calls": [write] },
        { "expect": { "last_result_contains": ["the rule `[` of `paths`", "Until the user mends it"] }, "text": "told" }
    ]));
    home.pith(&["--model", &model, "-p", "go"]).exits(0).prints("told");
    assert!(!home.work().join("a").exists());
}

#[test]
fn a_reader_that_has_left_is_no_error() {
    let home = Home::new();
    for args in [&["plugin", "stats"][..], &["plugin", "stats", "--json"], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = home.command(args);
        let run = command.stdout(writer).stderr(std::process::Stdio::piped()).output().expect("pith");
        assert!(run.status.success(), "{args:?}: {run:?}");
        assert!(run.stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    }
}
