//! What a person sees of calls that are over, and is told where a start or a request came to nothing.

use pith_tests::{Answer, Home, Server, Terminal, Wire};
use serde_json::{Value, json};

fn call(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

fn bash(command: &str) -> Value {
    call("bash", json!({ "command": command }))
}

/// Says "go" to a model that makes these calls in one reply, waits for its last word, and gives all that was shown since.
fn shown(home: &Home, calls: Value) -> String {
    let model = home.scripted(json!([{ "calls": calls }, { "text": "that is all" }]));
    let mut terminal = Terminal::start(home, &["--model", &model]);
    terminal.prompt();
    terminal.line("go");
    terminal.waits("that is all\n");
    terminal.prompt();
    let all = terminal.shown();
    terminal.line("/quit");
    terminal.exits(0);
    let from = all.find("\n· ").unwrap_or_else(|| panic!("no call was shown:\n{all}"));
    all[from + 1..].split("that is all").next().unwrap_or_default().to_owned()
}

/// Times differ: `1 ms`, `1.2 s` and the like become `T`.
fn timeless(shown: &str) -> String {
    let told = |line: &str| {
        let found = ["done in ", "failed after "].into_iter().find_map(|words| Some(line.find(words)? + words.len()));
        let Some(start) = found else { return line.to_owned() };
        let unit =
            [" ms", " s"].into_iter().filter_map(|unit| Some(start + line[start..].find(unit)? + unit.len())).min();
        unit.map_or_else(|| line.to_owned(), |end| format!("{}T{}", &line[..start], &line[end..]))
    };
    shown.lines().map(told).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_edit_shows_what_it_changed_and_a_read_how_much_there_was() {
    let home = Home::new();
    home.write("a.rs", "fn one() {}\n\tfn two() {}\nfn three() {}\n");
    let edit = json!({ "path": "a.rs", "edits": [{ "oldText": "two() {}", "newText": "two() { 2 }" }] });
    let shown = shown(&home, json!([call("edit", edit)]));
    assert_eq!(
        timeless(&shown),
        "· edit a.rs\n  done in T, +1 -1\n    @@ -1,3 +1,3 @@\n     fn one() {}\n    -    fn two() {}\n    +    fn two() { 2 }\n     fn three() {}"
    );
    let shown = self::shown(&home, json!([call("read", json!({ "path": "a.rs" }))]));
    assert_eq!(timeless(&shown), "· read a.rs\n  done in T, 3 lines");
    let shown = self::shown(&home, json!([call("write", json!({ "path": "b.txt", "content": "hi\n" }))]));
    assert!(shown.ends_with("    Successfully wrote 3 bytes to the new file b.txt.\n"), "{shown}");
}

#[test]
fn of_a_large_change_twelve_lines_are_shown() {
    let home = Home::new();
    home.write("a.txt", "here\n");
    let long = "line\n".repeat(40);
    let edit = json!({ "path": "a.txt", "edits": [{ "oldText": "here\n", "newText": long }] });
    let shown = shown(&home, json!([call("edit", edit)]));
    assert!(
        shown.contains("done in") && shown.contains(", +40 -1\n") && shown.ends_with("\n    ... 30 more lines\n"),
        "{shown}"
    );
    assert_eq!(shown.lines().count(), 2 + 12 + 1, "{shown}");
}

#[test]
fn of_a_command_the_end_is_shown_with_how_it_failed() {
    let home = Home::new();
    let shown = shown(&home, json!([bash("seq -f 'line %g' 1 20; echo FAILED; exit 3")]));
    assert_eq!(
        timeless(&shown).lines().skip(1).collect::<Vec<_>>(),
        [
            "  failed after T",
            "    ... 17 lines before",
            "    line 18",
            "    line 19",
            "    line 20",
            "    FAILED",
            "    Command exited with code 3"
        ]
    );
    let shown = self::shown(&home, json!([bash("printf 'all \\033[31mred\\033[2J\\n'; echo FAILED")]));
    assert_eq!(timeless(&shown).lines().skip(1).collect::<Vec<_>>(), ["  done in T", "    all red", "    FAILED"]);
    let shown =
        self::shown(&home, json!([call("bash", json!({ "command": "echo up; sleep 300", "background": true }))]));
    assert!(shown.contains("    [It goes on in the background"), "{shown}");
}

#[test]
fn calls_beside_each_other_are_named_shortly_at_their_end() {
    let home = Home::new();
    // The first waits for the second.
    let begin = "true a long beginning that both have in common;";
    let first = format!("{begin} until [ -e there ]; do sleep 0.01; done; echo one");
    let second = format!("{begin} touch there; echo two");
    let shown = shown(&home, json!([bash(&first), bash(&second)]));
    let lines: Vec<String> = timeless(&shown).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 6, "{shown}");
    assert!(lines[..2].iter().all(|line| line.starts_with(&format!("· bash {begin}"))), "{shown}");
    let ends = [&lines[2..4], &lines[4..6]];
    assert!(
        ends.iter().any(|end| end[0].starts_with("· bash …") && end[0].contains("touch there") && end[1] == "    two"),
        "{shown}"
    );
    assert!(
        ends.iter().any(|end| end[0].contains("until [ -e") && end[0].len() < 60 && end[1] == "    one"),
        "{shown}"
    );
}

#[test]
fn a_request_that_failed_says_how_often_it_was_tried() {
    // A port that nobody listens at any more.
    let url = Server::start(|_| Answer::json(200, &json!({}))).url();
    for (attempts, told) in [(2, Some("(tried 3 times)")), (0, None)] {
        let home = Wire::OpenAi.home_at(&url);
        home.beside("config/pith/settings.toml", format!("[retry]\nattempts = {attempts}\nbase_ms = 10\n"));
        let run = home.pith(&["--model", "openai/m", "-p", "hi"]).exits(1);
        assert!(told.map_or(!run.stderr.contains("tried"), |told| run.stderr.contains(told)), "{run}");
    }
    // With no model named the server is asked for its list.
    let run = Home::new().with("OPENAI_BASE_URL", &format!("{url}/v1")).pith(&["-p", "hi"]).exits(2);
    assert!(run.stderr.contains("is the server running?\n"), "{run}");
}

#[test]
fn a_slip_of_a_subcommand_is_no_message() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "as a message" }]));
    let home = home.with("PITH_MODEL", &model);
    home.pith(&["comletions", "bash"])
        .exits(2)
        .says("did you mean `pith completions bash`?")
        .says("pith -- comletions bash");
    home.pith(&["plugins", "stats"]).exits(2).says("`pith plugin stats`");
    assert!(home.sessions().is_empty());
    for args in
        [&["--", "comletions", "bash"][..], &["-p", "comletions", "bash"], &["demos are great"], &["compare", "these"]]
    {
        home.pith(args).ok().prints("as a message");
    }
}

#[test]
fn the_model_is_told_the_day_and_the_sandbox() {
    let home = Home::new();
    for (level, held) in [("guard", true), ("off", false)] {
        let told = if held { "sudo does not work" } else { "Today is 20" };
        let replies = json!([{ "expect": { "system_contains": told }, "text": "I know" }]);
        home.play(replies, &["--sandbox", level, "-p", "hi"]).ok().prints("I know");
        let session = home.sessions().pop().expect("a session");
        let system =
            Home::messages(&session).into_iter().find(|message| message["role"] == "system").expect("a prompt");
        let text = system["sections"]["environment"].as_str().unwrap_or_default().to_owned();
        assert!(text.starts_with("Today is 20") && text.contains("linux"), "{text}");
    }
}
