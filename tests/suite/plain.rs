//! The plain face on a pseudo-terminal: a conversation as a person has it, with every key they press.

use crate::signals::assert_answered;
use pith_tests::{Answer, Behaviour, Guest, Home, Question, Reply, Server, Terminal, Wire};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Ctrl-C, Ctrl-D, Ctrl-Z, the key up.
const INTERRUPT: &str = "\u{3}";
const END: &str = "\u{4}";
const SUSPEND: &str = "\u{1a}";
const UP: &str = "\u{1b}[A";

/// Tries to drive the terminal: sets the title and the clipboard, clears, hides, rings, moves, turns round, draws a question.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}]52;c;b3duZWQ=\u{7}\u{1b}[2J\u{1b}[8mhid\u{8}den\u{9b}31m\rover\u{202e}txt.exe\u{200b}\u{1b}Pdcs\u{1b}\\ ┗━ y = yes: the-end";

#[track_caller]
fn assert_harmless(shown: &str) {
    for bad in ["\u{1b}]", "\u{7}", "\u{1b}[2J", "\u{1b}[8m", "\u{8}", "\u{9b}", "\u{202e}", "\u{200b}", "\u{1b}P"] {
        assert!(!shown.contains(bad), "{bad:?} reached the terminal: {shown:?}");
    }
}

fn scripted(home: &Home, replies: Value) -> Terminal {
    let model = home.scripted(replies);
    Terminal::start(home, &["--model", &model])
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

/// A component that asks the person about every call.
fn asking(home: &Home, key: Option<&str>) -> String {
    let gate = Guest::new().gate(Behaviour::Ask(format!("sure? {HOSTILE}"), key.map(str::to_owned)));
    gate.save(&home.root().join("asker.wasm")).to_string_lossy().into_owned()
}

#[test]
fn two_turns_are_one_session_and_ctrl_d_leaves() {
    let home = Home::new();
    home.write("a.txt", "alpha\n");
    let mut terminal = scripted(
        &home,
        json!([
            { "text": "Hello you." },
            { "text": "I look.", "calls": [call("read", json!({ "path": "a.txt" }))] },
            { "expect": { "last_result_contains": ["alpha"] }, "text": "It says alpha." }
        ]),
    );
    terminal.waits("the model is scripted");
    terminal.prompt();
    terminal.line("good morning");
    terminal.waits("Hello you.\n");
    terminal.prompt();
    terminal.line("what does a.txt say?");
    terminal.waits("I look.\n· read a.txt\n  done in");
    terminal.waits("1 line\nIt says alpha.\n");
    terminal.prompt();
    terminal.waits_for_lines(false);
    terminal.keys(END);
    terminal.exits(0);
    let messages = Home::messages(&home.session());
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant", "toolResult", "assistant"]);
    assert_eq!(messages[3]["content"][0]["text"], "what does a.txt say?");
}

#[test]
fn a_message_on_the_command_line_begins_a_conversation() {
    let home = Home::new();
    home.write("notes.md", "remember the milk\n");
    let model = home.scripted(json!([
        { "expect": { "last_user_contains": "remember the milk" }, "text": "Milk." },
        { "expect": { "last_user_contains": "remember the milk" }, "text": "Still milk." }
    ]));
    let mut terminal = Terminal::start(&home, &["--plain", "--model", &model, "@notes.md", "what?"]);
    terminal.waits("Milk.\n");
    terminal.prompt();
    // Within a conversation a mentioned file is attached too, and an address or a package is not one.
    terminal.line("see @notes.md, me@notes.md and @types");
    terminal.waits("attached notes.md");
    terminal.waits("Still milk.\n");
    terminal.prompt();
    terminal.line("/quit");
    terminal.exits(0);
}

#[test]
fn a_question_is_asked_by_the_host_and_only_yes_is_yes() {
    let home = Home::new();
    let touch = |name: &str| call("bash", json!({ "command": format!("touch {name} # {HOSTILE}") }));
    let model = home.scripted(json!([
        { "calls": [touch("one")] },
        { "expect": { "last_result_contains": ["the user said no"] }, "calls": [touch("two")] },
        { "calls": [touch("three")] },
        { "expect": { "last_result_contains": ["the user said no"] }, "text": "done" }
    ]));
    let gate = asking(&home, None);
    let mut terminal = Terminal::start(&home, &["--model", &model, "--plugin", &gate]);
    terminal.prompt();
    terminal.line("go");
    terminal.waits("┏━ Pith asks: shall this run?\n┃ bash {\"command\":\"touch one # ");
    terminal.waits("┃ asker: sure? ");
    terminal.waits("\n┗━ y = yes, anything else = no: ");
    terminal.line("n");
    terminal.waits("not run");
    terminal.waits("\n┗━ ");
    terminal.line("yes");
    terminal.waits("done in");
    terminal.waits("\n┗━ ");
    // Nothing but Enter is no.
    terminal.line("");
    terminal.waits("done\n");
    terminal.prompt();
    assert_harmless(&terminal.raw());
    terminal.line("/quit");
    terminal.exits(0);
    let there: Vec<bool> = ["one", "two", "three"].iter().map(|name| home.work().join(name).exists()).collect();
    assert_eq!(there, [false, true, false]);
}

#[test]
fn an_answer_for_the_session_is_kept_until_its_end() {
    let home = Home::new();
    let echo = || call("bash", json!({ "command": "echo hi" }));
    let model = home.scripted(json!([{ "calls": [echo()] }, { "calls": [echo()] }, { "text": "first" }, { "calls": [echo()] }, { "text": "last" }]));
    let gate = asking(&home, Some("all"));
    let mut terminal = Terminal::start(&home, &["--model", &model, "--plugin", &gate]);
    terminal.prompt();
    terminal.line("go");
    terminal.waits("a = yes, and the like until the session ends, anything else = no: ");
    terminal.line("a");
    terminal.waits("first\n");
    terminal.prompt();
    assert_eq!(terminal.shown().matches("Pith asks").count(), 1, "{}", terminal.shown());
    // A new session asks again. The scripted model begins from its first reply.
    terminal.line("/new");
    terminal.waits("new session");
    terminal.prompt();
    terminal.line("go");
    terminal.waits("Pith asks");
    terminal.waits("no: ");
    terminal.line("n");
    terminal.waits("no: ");
    terminal.line("n");
    terminal.waits("first\n");
    terminal.prompt();
    terminal.line("/quit");
    terminal.exits(0);
    assert_eq!(home.sessions().len(), 2);
}

/// Hostile case 15: what was typed before a question was read is no answer to it.
#[test]
fn what_was_typed_ahead_is_no_answer() {
    for _ in 0..5 {
        let home = Home::new();
        let model = home.scripted(json!([
            { "calls": [call("bash", json!({ "command": "touch ran" }))] },
            { "expect": { "last_result_contains": ["the user said no"] }, "text": "as you say" }
        ]));
        let gate = asking(&home, Some("all"));
        let mut terminal = Terminal::start(&home, &["--model", &model, "--plugin", &gate]);
        terminal.prompt();
        // The first "y" is there before the question, the second within its dead time.
        terminal.keys("go\ry\r");
        terminal.waits("┏━ Pith asks");
        terminal.line("y");
        if terminal.shown().contains('┗') {
            // This machine was so slow that the dead time had passed: it may have been an answer.
            continue;
        }
        terminal.waits("anything else = no: ");
        terminal.line("n");
        terminal.waits("as you say\n");
        assert!(!home.work().join("ran").exists());
        return;
    }
    panic!("the dead time had always passed");
}

#[test]
fn ctrl_c_at_a_question_stops_the_run() {
    let home = Home::new();
    let model =
        home.scripted(json!([{ "calls": [call("bash", json!({ "command": "touch ran" }))] }, { "text": "never" }]));
    let gate = asking(&home, None);
    let mut terminal = Terminal::start(&home, &["--model", &model, "--plugin", &gate]);
    terminal.prompt();
    terminal.line("go");
    terminal.waits("anything else = no: ");
    terminal.keys(INTERRUPT);
    terminal.waits("aborted");
    terminal.prompt();
    terminal.line("/quit");
    terminal.exits(0);
    assert!(!home.work().join("ran").exists());
    assert_answered(&home.session());
}

/// The arguments for a plugin that may ask the person, with a tool for each question.
fn curious(home: &Home, name: &str, questions: Vec<(&str, Question)>) -> [String; 4] {
    let guest = questions.into_iter().fold(Guest::new(), |guest, (tool, asks)| guest.tool(tool, Behaviour::Asks(asks)));
    let file = guest.save(&home.root().join(format!("{name}.wasm"))).to_string_lossy().into_owned();
    ["--plugin".to_owned(), file, "--grant".to_owned(), format!("{name}:dialog")]
}

fn confirm() -> Question {
    Question::Confirm(format!("Shall I? {HOSTILE}"), format!("all of it {HOSTILE}"))
}

fn with<'a>(model: &'a str, more: &'a [String]) -> Vec<&'a str> {
    ["--model", model].into_iter().chain(more.iter().map(String::as_str)).collect()
}

#[test]
fn a_plugin_asks_in_the_hosts_frame_and_nothing_is_no_answer() {
    let home = Home::new();
    let ask = |tool: &str, told: &str| json!({ "expect": { "last_result_contains": [told] }, "calls": [call(tool, json!({}))] });
    let model = home.scripted(json!([
        { "calls": [call("sure", json!({}))] },
        ask("sure", "yes"),
        ask("which", "none"),
        ask("words", "2"),
        ask("rewrite", "blue"),
        ask("form", "first\nsecond"),
        { "expect": { "last_result_contains": ["{\"age\":7,\"size\":\"l\"}"] }, "text": "I know all." }
    ]));
    let labels = vec!["the left".to_owned(), HOSTILE.to_owned()];
    let schema = json!({ "type": "object", "required": ["age"], "properties": {
        "age": { "type": "integer", "minimum": 1, "title": HOSTILE },
        "size": { "type": "string", "enum": ["s", "l"], "default": "l" }
    } });
    let asker = curious(
        &home,
        "curious",
        vec![
            ("sure", confirm()),
            ("which", Question::Choose("Which one?".to_owned(), labels)),
            ("words", Question::Line("What colour?".to_owned())),
            ("rewrite", Question::Edit("Your text".to_owned(), format!("old\n{HOSTILE}"))),
            ("form", Question::Form("About you".to_owned(), schema.to_string())),
        ],
    );
    let mut terminal = Terminal::start(&home, &with(&model, &asker));
    terminal.prompt();
    terminal.line("go");
    terminal.waits("┏━ Plugin curious asks:\n┃ Shall I? ");
    terminal.waits("┃ all of it ");
    terminal.waits("\n┗━ y = yes, anything else = no: ");
    terminal.line("y");
    terminal.waits("\n┗━ y = yes, anything else = no: ");
    terminal.keys(END);
    terminal.waits("\n(no answer)\n");
    terminal.waits("┃ Which one?\n┃ 1  the left\n┃ 2  ");
    terminal.waits("\n┗━ a number from 1 to 2, nothing = no answer: ");
    terminal.line("3");
    terminal.waits("┃ a number from 1 to 2 is wanted\n┗━ a number from 1 to 2, nothing = no answer: ");
    terminal.line("2");
    terminal.waits("┃ What colour?\n┗━ your answer, nothing = no answer: ");
    terminal.line("blue");
    terminal.waits("┃ Your text\n┃\n┃ old\n┃ ");
    terminal.waits("nothing = no answer: ");
    // Pasted lines are one answer.
    terminal.keys("first\rsecond\r.\r");
    terminal.waits("┃ About you\n┃ 1 of 2: ");
    terminal.waits("┗━ a whole number from 1 on, nothing = no answer at all: ");
    terminal.line("x");
    terminal.waits("┃ a whole number from 1 on is wanted\n┗━ ");
    terminal.waits("at all: ");
    terminal.line("7");
    terminal.waits("┃ 2 of 2: size (default: l)\n┃ 1  s\n┃ 2  l\n┗━ a number from 1 to 2, nothing = the default: ");
    terminal.line("");
    terminal.waits("I know all.\n");
    terminal.prompt();
    assert_harmless(&terminal.raw());
    terminal.line("/quit");
    terminal.exits(0);
}

#[test]
fn too_many_questions_are_refused_and_the_person_is_left_in_peace() {
    let home = Home::new();
    let ask = json!({ "calls": [call("sure", json!({}))] });
    let mut replies = vec![ask; 7];
    replies.push(
        json!({ "expect": { "last_result_contains": ["6 questions were asked within a minute"] }, "text": "enough" }),
    );
    let model = home.scripted(json!(replies));
    let asker = curious(&home, "curious", vec![("sure", confirm())]);
    let mut terminal = Terminal::start(&home, &with(&model, &asker));
    terminal.prompt();
    terminal.line("go");
    for _ in 0..6 {
        terminal.waits("anything else = no: ");
        terminal.line("");
    }
    terminal.waits("enough\n");
    terminal.prompt();
    assert_eq!(terminal.shown().matches("Plugin curious asks").count(), 6);
    terminal.line("/quit");
    terminal.exits(0);
}

/// Two plugins and a gate, all at once: one question after the other, each with its own answer.
#[test]
fn questions_are_asked_one_after_the_other() {
    let home = Home::new();
    let model = home.scripted(json!([
        { "calls": [call("first", json!({})), call("second", json!({}))] },
        { "expect": { "last_result_contains": ["yes", "no"] }, "text": "both known" }
    ]));
    let both = [curious(&home, "one", vec![("first", confirm())]), curious(&home, "two", vec![("second", confirm())])];
    let more: Vec<String> = both.into_iter().flatten().collect();
    let mut terminal = Terminal::start(&home, &with(&model, &more));
    terminal.prompt();
    terminal.line("go");
    terminal.waits("asks:\n");
    terminal.waits("anything else = no: ");
    let first_asks_one = terminal.shown().contains("Plugin one asks");
    assert_eq!(terminal.shown().matches("┏━").count(), 1, "{}", terminal.shown());
    terminal.line(if first_asks_one { "y" } else { "n" });
    terminal.waits(if first_asks_one { "Plugin two asks:" } else { "Plugin one asks:" });
    terminal.waits("anything else = no: ");
    terminal.line(if first_asks_one { "n" } else { "y" });
    terminal.waits("both known\n");
    terminal.prompt();
    terminal.line("/quit");
    terminal.exits(0);
}

#[test]
fn what_was_typed_ahead_is_no_answer_to_a_plugin() {
    for _ in 0..5 {
        let home = Home::new();
        let model = home.scripted(json!([
            { "calls": [call("sure", json!({}))] },
            { "expect": { "last_result_contains": ["no"] }, "text": "as you say" }
        ]));
        let asker = curious(&home, "curious", vec![("sure", confirm())]);
        let mut terminal = Terminal::start(&home, &with(&model, &asker));
        terminal.prompt();
        terminal.keys("go\ry\r");
        terminal.waits("┏━ Plugin curious asks");
        terminal.line("y");
        if terminal.shown().contains('┗') {
            // This machine was so slow that the dead time had passed: it may have been an answer.
            continue;
        }
        terminal.waits("anything else = no: ");
        terminal.line("n");
        terminal.waits("as you say\n");
        return;
    }
    panic!("the dead time had always passed");
}

#[test]
fn ctrl_c_at_a_plugins_question_stops_the_run() {
    let home = Home::new();
    let model = home.scripted(json!([{ "calls": [call("sure", json!({}))] }, { "text": "never" }]));
    let asker = curious(&home, "curious", vec![("sure", confirm())]);
    let mut terminal = Terminal::start(&home, &with(&model, &asker));
    terminal.prompt();
    terminal.line("go");
    terminal.waits("anything else = no: ");
    terminal.keys(INTERRUPT);
    terminal.waits("aborted");
    terminal.prompt();
    terminal.line("/quit");
    terminal.exits(0);
    assert_answered(&home.session());
}

#[test]
fn without_a_person_a_plugins_question_is_refused() {
    let home = Home::new();
    let model = home.scripted(json!([
        { "calls": [call("sure", json!({}))] },
        { "expect": { "last_result_contains": ["nobody can answer here"] }, "text": "alone" }
    ]));
    let asker = curious(&home, "curious", vec![("sure", confirm())]);
    let args: Vec<&str> = with(&model, &asker).into_iter().chain(["-p", "go"]).collect();
    let run = home.pith(&args).ok();
    assert!(run.stdout.contains("alone"), "{run}");
}

#[test]
fn the_header_names_the_sandbox() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "hi" }]));
    for (more, header, session) in [
        (&[][..], "new session · sandbox guard · /help", "sandbox  guard (no program ran yet)"),
        (&["--sandbox", "off"], "new session · sandbox off · /help", "sandbox  off (no program ran yet)"),
        (&["--no-plugins"], "new session · /help", "sandbox  none: no plugin may run programs"),
    ] {
        let args: Vec<&str> = ["--model", &*model].iter().chain(more).copied().collect();
        let mut terminal = Terminal::start(&home, &args);
        terminal.waits(header);
        terminal.prompt();
        terminal.line("/session");
        terminal.waits(session);
        terminal.prompt();
        terminal.line("/quit");
        terminal.exits(0);
    }
}

#[test]
fn a_command_of_the_users_runs_is_recorded_and_reaches_the_model() {
    let reply = |text: &str| Answer::sse(Wire::OpenAi.sse(&Reply::text(text)));
    let server = Server::playing(vec![reply("I see."), reply("And that.")]);
    let home = Wire::OpenAi.home(&server);
    let mut terminal = Terminal::start(&home, &["--model", "openai/fake-1"]);
    terminal.prompt();
    terminal.line("!echo for-the-$((1+1)); echo err >&2; exit 3");
    terminal.waits("for-the-2\nerr\n");
    terminal.waits("code 3");
    terminal.prompt();
    terminal.line("!!echo secret-$((2+2))");
    terminal.waits("secret-4\n");
    terminal.prompt();
    terminal.line("what happened?");
    terminal.waits("I see.\n");
    terminal.prompt();
    terminal.line("!sudo true");
    terminal.waits("denied by protect");
    terminal.prompt();
    terminal.line("and?");
    terminal.waits("And that.\n");
    terminal.prompt();
    terminal.keys(END);
    let shown = terminal.exits(0);
    assert!(!shown.contains("for-the-2\nerr\nfor-the-2"), "{shown}");
    let requests = server.requests();
    let sent = requests[0].json()["messages"].to_string();
    assert!(sent.contains("for-the-2") && sent.contains("The user ran"), "{sent}");
    assert!(!sent.contains("secret-4"), "{sent}");
    let runs: Vec<Value> =
        Home::messages(&home.session()).into_iter().filter(|message| message["role"] == "bashExecution").collect();
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!(runs[0]["command"], "echo for-the-$((1+1)); echo err >&2; exit 3");
    assert!(runs[0]["output"].as_str().is_some_and(|output| output.starts_with("for-the-2\nerr")), "{}", runs[0]);
    assert_eq!(runs[0]["excludeFromContext"], Value::Null);
    assert_eq!(runs[1]["excludeFromContext"], true);
    assert_eq!(runs[1]["exitCode"], 0);
}

#[test]
fn a_command_of_the_users_is_stopped_by_ctrl_c() {
    let home = Home::new();
    let mut terminal = scripted(&home, json!([{ "text": "hi" }]));
    terminal.prompt();
    // A length that no other test sleeps for: process ids of a sandbox are its own.
    let mark = format!("3{}", std::process::id());
    terminal.line(&format!("!echo begun; sleep {mark} & wait"));
    terminal.waits("\nbegun\n");
    until(|| is_running(&mark));
    terminal.keys(INTERRUPT);
    terminal.waits("aborted");
    terminal.prompt();
    until(|| !is_running(&mark));
    terminal.line("/quit");
    terminal.exits(0);
    let run = Home::messages(&home.session()).pop().expect("it is recorded");
    assert_eq!((&run["role"], &run["cancelled"]), (&json!("bashExecution"), &json!(true)), "{run}");
}

/// Waits, at most twenty seconds.
#[track_caller]
fn until(holds: impl Fn() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !holds() {
        assert!(std::time::Instant::now() < end, "it did not come to hold");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Whether there is a `sleep` for just so long.
fn is_running(length: &str) -> bool {
    let wanted = format!("sleep\0{length}\0");
    std::fs::read_dir("/proc")
        .expect("processes")
        .flatten()
        .any(|process| std::fs::read(process.path().join("cmdline")).is_ok_and(|line| line == wanted.as_bytes()))
}

#[test]
fn without_the_tool_a_command_of_the_users_says_so() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "hi" }]));
    let mut terminal = Terminal::start(&home, &["--model", &model, "--no-plugins"]);
    terminal.prompt();
    terminal.line("!ls");
    terminal.waits("error: there is no tool bash here");
    terminal.prompt();
    terminal.line("/quit");
    terminal.exits(0);
    assert!(home.sessions().is_empty());
}

#[test]
fn ctrl_c_stops_the_run_then_leaves() {
    let home = Home::new();
    let mut terminal = scripted(
        &home,
        json!([
            { "text": "word ".repeat(4000), "delay_ms": 20 },
            { "text": "Two.", "calls": [call("bash", json!({ "command": "sleep 300" }))] },
            { "text": "on we go" }
        ]),
    );
    terminal.prompt();
    terminal.line("go");
    terminal.waits("word word");
    terminal.keys(INTERRUPT);
    terminal.waits("aborted\n");
    terminal.prompt();
    terminal.line("again");
    terminal.waits("· bash sleep 300\n");
    terminal.keys(INTERRUPT);
    terminal.waits("aborted\n");
    terminal.prompt();
    terminal.line("and now?");
    terminal.waits("on we go\n");
    terminal.prompt();
    terminal.keys("half a line");
    terminal.waits("half a line");
    terminal.keys(INTERRUPT);
    terminal.waits("Ctrl-C again");
    terminal.prompt();
    terminal.waits_for_lines(false);
    terminal.keys(INTERRUPT);
    terminal.exits(0);
    assert_answered(&home.session());
    let stops: Vec<Value> = Home::messages(&home.session())
        .into_iter()
        .filter(|message| message["role"] == "assistant")
        .map(|message| message["stopReason"].clone())
        .collect();
    assert_eq!(stops.first(), Some(&json!("aborted")));
    assert_eq!(stops.last(), Some(&json!("stop")));
}

#[test]
fn words_typed_while_it_works_reach_the_model() {
    let home = Home::new();
    let mut terminal = scripted(
        &home,
        json!([
            { "calls": [call("bash", json!({ "command": "echo go > begun; until [ -e go-on ]; do sleep 0.01; done" }))] },
            { "expect": { "last_user_contains": "be quick" }, "text": "I hurry." },
            { "text": "word ".repeat(4000), "delay_ms": 20 }
        ]),
    );
    terminal.prompt();
    terminal.line("go");
    terminal.waits("· bash");
    terminal.line("be quick");
    terminal.waits("the model reads this after its present step");
    terminal.line("!echo later-$((3+3))");
    terminal.waits("done after this run");
    home.write("go-on", "");
    terminal.waits("read now: be quick");
    terminal.waits("I hurry.\n");
    terminal.waits("later-6\n");
    terminal.prompt();
    // What a run that is stopped has not read is given back.
    terminal.line("more");
    terminal.waits("word word");
    terminal.line("unread words");
    terminal.waits("after its present step");
    terminal.keys(INTERRUPT);
    terminal.waits("aborted\n");
    terminal.waits("> unread words");
    terminal.keys(INTERRUPT);
    terminal.waits("Ctrl-C again");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
    let text: String = Home::messages(&home.session()).iter().map(Value::to_string).collect();
    assert!(text.contains("be quick") && !text.contains("unread words"));
}

#[test]
fn ctrl_d_while_it_works_leaves_afterwards() {
    let home = Home::new();
    let mut terminal = scripted(&home, json!([{ "text": "word ".repeat(40), "delay_ms": 20 }]));
    terminal.prompt();
    terminal.line("go");
    terminal.waits("word word");
    terminal.keys(END);
    terminal.waits("Pith leaves when this is done");
    terminal.exits(0);
    assert_eq!(
        Home::messages(&home.session()).last().map(|message| message["stopReason"].clone()),
        Some(json!("stop"))
    );
}

#[test]
fn earlier_lines_come_back_in_the_next_session() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let mut terminal = scripted(&home, json!([{ "text": "one" }, { "text": "two" }]));
    terminal.prompt();
    terminal.line("remember this line");
    terminal.waits("one\n");
    terminal.prompt();
    terminal.line(" but not this");
    terminal.waits("two\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
    let file = home.root().join("data/pith/history");
    assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(&file).expect("it is text");
    assert!(kept.contains("remember this line") && !kept.contains("but not this"), "{kept}");
    let mut terminal =
        scripted(&home, json!([{ "expect": { "last_user_contains": "remember this line" }, "text": "three" }]));
    terminal.prompt();
    terminal.waits_for_lines(false);
    terminal.keys(UP);
    terminal.waits("remember this line");
    terminal.keys("\r");
    terminal.waits("three\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
}

/// What others wrote into the history is drawn harmless, and a file that is none costs nothing.
#[test]
fn a_strange_history_drives_nothing() {
    let home = Home::new();
    home.beside("data/pith/history", format!("#V2\n{HOSTILE}\n"));
    let mut terminal = scripted(&home, json!([{ "text": "fine" }]));
    terminal.prompt();
    terminal.waits_for_lines(false);
    terminal.keys(UP);
    terminal.waits("the-end");
    let raw = terminal.raw();
    for bad in ["\u{1b}]", "\u{7}", "\u{1b}[2J", "\u{202e}", "\u{9b}"] {
        assert!(!raw.contains(bad), "{bad:?}: {raw:?}");
    }
    terminal.keys(INTERRUPT);
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
    let fifo = home.root().join("data/pith/history");
    std::fs::remove_file(&fifo).expect("it is there");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let mut terminal = scripted(&home, json!([{ "text": "fine" }]));
    terminal.prompt();
    terminal.line("go");
    terminal.waits("fine\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn nothing_foreign_drives_the_terminal() {
    let home = Home::new();
    let mut terminal = scripted(
        &home,
        json!([
            { "thinking": HOSTILE, "text": HOSTILE, "calls": [
                call("bash", json!({ "command": format!("printf '%s' '{HOSTILE}'") })),
                call("read", json!({ "path": HOSTILE })),
                call(HOSTILE, json!({})),
                call("write", json!({ "path": format!(".git/{HOSTILE}"), "content": "" }))
            ] },
            { "error": { "message": HOSTILE, "kind": "invalid" } }
        ]),
    );
    terminal.prompt();
    terminal.line("go");
    terminal.waits("denied by protect");
    terminal.waits("error: ");
    terminal.prompt();
    terminal.line("!cat h");
    terminal.waits("No such file");
    terminal.prompt();
    home.write("h", HOSTILE);
    terminal.line("!cat h");
    terminal.waits("the-end");
    terminal.prompt();
    assert_harmless(&terminal.raw());
    terminal.keys(END);
    terminal.exits(0);
    // The same again, as a session that goes on shows what was said.
    let model = home.scripted(json!([{ "text": "x" }]));
    let mut terminal = Terminal::start(&home, &["-c", "--model", &model]);
    terminal.waits("continued session");
    terminal.waits("the-end");
    terminal.prompt();
    assert_harmless(&terminal.raw());
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn a_dumb_terminal_sees_no_escape_at_all() {
    let home = Home::new();
    let model = home.scripted(json!([
        { "thinking": "hm", "text": HOSTILE, "calls": [call("bash", json!({ "command": "echo hi" }))] },
        { "expect": { "last_result_contains": ["hi"] }, "text": "one" },
        { "expect": { "last_user_contains": "first\nsecond" }, "text": "two" }
    ]));
    let gate = asking(&home, None);
    let mut command = home.command(&["--model", &model, "--plugin", &gate]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::of(&command);
    terminal.prompt();
    terminal.line("go");
    terminal.waits("anything else = no: ");
    terminal.line("y");
    terminal.waits("one\n");
    terminal.prompt();
    terminal.line("first\\");
    terminal.waits("… ");
    terminal.line("second");
    terminal.waits("two\n");
    terminal.prompt();
    assert_harmless(&terminal.raw());
    assert!(!terminal.raw().contains('\u{1b}'), "{:?}", terminal.raw());
    terminal.keys(INTERRUPT);
    terminal.waits("Ctrl-C again");
    terminal.prompt();
    terminal.line("/help");
    terminal.waits("!COMMAND");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn colours_are_dropped_where_they_are_not_wanted() {
    let home = Home::new();
    let model = home.scripted(json!([{ "thinking": "deep thought", "text": "answer" }]));
    let args = ["--model", &*model, "go"];
    let mut plain = Terminal::start(&home, &args);
    plain.waits("· thinking\nanswer\n");
    plain.prompt();
    assert!(!plain.raw().contains("\u{1b}[2m") && !plain.raw().contains("deep thought"));
    let mut command = home.command(&args);
    command.env("TERM", "xterm");
    let mut coloured = Terminal::of(&command);
    coloured.waits("deep thought\nanswer\n");
    coloured.prompt();
    assert!(coloured.raw().contains("\u{1b}[2mdeep"), "{:?}", coloured.raw());
}

/// Plugins that are compiled for the first time take seconds: the prompt is there meanwhile, and what is typed is not lost.
#[test]
fn one_may_type_while_plugins_are_compiled() {
    let home = Home::with_cold_cache();
    let mut terminal = scripted(&home, json!([{ "expect": { "last_user_contains": "early bird" }, "text": "worm" }]));
    terminal.prompt();
    terminal.keys("early bi");
    terminal.waits("new session");
    terminal.line("rd");
    terminal.waits("worm\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
    let home = Home::with_cold_cache();
    let mut terminal = scripted(&home, json!([{ "expect": { "last_user_contains": "early bird" }, "text": "worm" }]));
    terminal.line("early bird");
    terminal.waits("new session");
    terminal.waits("worm\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn several_lines_are_one_message() {
    let home = Home::new();
    let mut terminal = scripted(
        &home,
        json!([
            { "expect": { "last_user_contains": "one\ntwo" }, "text": "continued" },
            { "expect": { "last_user_contains": "three\nfour\nfive" }, "text": "pasted" }
        ]),
    );
    terminal.prompt();
    terminal.line("one\\");
    terminal.line("two");
    terminal.waits("continued\n");
    terminal.prompt();
    terminal.waits_for_lines(false);
    terminal.keys("\u{1b}[200~three\nfour\nfive\u{1b}[201~");
    terminal.waits("five");
    terminal.keys("\r");
    terminal.waits("pasted\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn commands_are_never_sent_and_paths_are() {
    let server = Server::playing(vec![Answer::sse(Wire::OpenAi.sse(&Reply::text("a file")))]);
    let home = Wire::OpenAi.home(&server);
    let mut terminal = Terminal::start(&home, &["--model", "openai/fake-1"]);
    terminal.prompt();
    terminal.line("/frobnicate");
    terminal.waits("error: there is no command /frobnicate; /help lists them");
    terminal.prompt();
    terminal.line("/session");
    terminal.waits("(with the first message)");
    terminal.waits("openai/fake-1");
    terminal.prompt();
    terminal.line("/etc/hosts is what?");
    terminal.waits("a file\n");
    terminal.prompt();
    terminal.line("/session");
    terminal.waits(&home.session().file_name().expect("a name").to_string_lossy());
    terminal.prompt();
    terminal.line("/exit");
    terminal.exits(0);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_failed_request_is_said_and_the_conversation_goes_on() {
    let home = Home::new();
    let mut terminal = scripted(
        &home,
        json!([
            { "error": { "message": "no such key", "kind": "unauthorized" } },
            { "error": { "message": "no such field", "kind": "invalid" } },
            { "text": "back again" }
        ]),
    );
    terminal.prompt();
    terminal.line("go");
    terminal.waits("error: ");
    terminal.waits("no such key");
    terminal.prompt();
    terminal.line("go");
    terminal.waits("no such field");
    terminal.prompt();
    terminal.line("go");
    terminal.waits("back again\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn a_session_that_goes_on_shows_what_was_said() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "The answer is 42." }]));
    home.pith(&["--model", &model, "-p", "what is the answer?"]).ok();
    let mut terminal = Terminal::start(&home, &["-c", "--model", &model]);
    terminal.waits("continued session");
    terminal.waits("> what is the answer?\nThe answer is 42.\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn a_start_that_is_refused_leaves_the_terminal_as_it_was() {
    let home = Home::new();
    let terminal = Terminal::start(&home, &[]);
    let shown = terminal.exits(2);
    assert!(shown.contains("error: "), "{shown}");
    home.beside("config/pith/settings.toml", "modle = 1\n");
    let shown = Terminal::start(&home, &["--model", "openai/x"]).exits(2);
    assert!(shown.contains("there is no setting modle"), "{shown}");
}

#[test]
fn signals_end_it_and_leave_the_terminal_as_it_was() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        for busy in [false, true] {
            let home = Home::new();
            let mut terminal = scripted(
                &home,
                json!([{ "calls": [call("bash", json!({ "command": "sleep 300" }))] }, { "text": "no" }]),
            );
            terminal.prompt();
            terminal.waits_for_lines(false);
            if busy {
                terminal.line("go");
                terminal.waits("· bash");
            }
            terminal.signal(signal);
            terminal.exits(code);
            if busy {
                assert_answered(&home.session());
            }
        }
    }
}

#[test]
fn a_terminal_that_is_closed_ends_the_run_in_order() {
    for busy in [false, true] {
        let home = Home::new();
        let mut terminal =
            scripted(&home, json!([{ "calls": [call("bash", json!({ "command": "sleep 300" }))] }, { "text": "no" }]));
        terminal.prompt();
        terminal.waits_for_lines(false);
        if busy {
            terminal.line("go");
            terminal.waits("· bash");
        }
        assert_eq!(terminal.hang_up(), Some(129), "busy: {busy}");
        if busy {
            assert_answered(&home.session());
        }
    }
}

#[test]
fn a_window_may_change_its_size_at_any_time() {
    let home = Home::new();
    let mut terminal = scripted(&home, json!([{ "text": "word ".repeat(60), "delay_ms": 5 }, { "text": "fine" }]));
    terminal.prompt();
    terminal.keys("go");
    terminal.resize(40, 10);
    terminal.keys(" on");
    terminal.resize(0, 0);
    terminal.keys("\r");
    terminal.waits("word word");
    terminal.resize(3, 2);
    terminal.prompt();
    terminal.resize(200, 60);
    terminal.line("again");
    terminal.waits("fine\n");
    terminal.prompt();
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn ctrl_c_after_words_were_typed_is_the_first_again() {
    let home = Home::new();
    let mut terminal = scripted(&home, json!([{ "text": "never" }]));
    terminal.prompt();
    for words in ["", "some words", "x"] {
        terminal.waits_for_lines(false);
        terminal.keys(words);
        terminal.waits(words);
        terminal.keys(INTERRUPT);
        terminal.waits("Ctrl-C again");
        terminal.prompt();
    }
    // What was typed and taken back leaves no words.
    terminal.waits_for_lines(false);
    terminal.keys("y\u{7f}");
    terminal.keys(INTERRUPT);
    terminal.exits(0);
}

/// Ctrl-Z and `fg`, from a shell with job control, at the prompt and while a tool runs.
#[test]
fn it_may_be_put_aside_and_taken_up_again() {
    let home = Home::new();
    let model = home.scripted(json!([
        { "calls": [call("bash", json!({ "command": "until [ -e go-on ]; do sleep 0.01; done; echo hi" }))] },
        { "text": "all done" }
    ]));
    let mut shell = home.bare("bash");
    shell.args(["--norc", "--noprofile", "-i"]).env("TERM", "xterm").env("NO_COLOR", "1").env("PS1", "shell$ ");
    let mut terminal = Terminal::of(&shell);
    terminal.waits("shell$ ");
    terminal.line(&format!("'{}' --model '{model}'", pith_tests::pith_binary().display()));
    terminal.waits("new session");
    terminal.prompt();
    terminal.waits_for_lines(false);
    terminal.keys(SUSPEND);
    terminal.waits("Stopped");
    terminal.waits("shell$ ");
    terminal.line("fg");
    terminal.prompt();
    terminal.line("go");
    terminal.waits("· bash");
    terminal.keys(SUSPEND);
    terminal.waits("Stopped");
    terminal.waits("shell$ ");
    home.write("go-on", "");
    terminal.line("fg");
    terminal.waits("all done\n");
    terminal.prompt();
    terminal.line("/quit");
    terminal.waits("shell$ ");
    terminal.line("exit 7");
    terminal.exits(7);
}
