//! `pith session ...` through the real program.

use pith_tests::{Home, Run, Terminal};
use serde_json::{Value, json};

/// A home with two sessions: one of two prompts, then one of one.
fn two() -> Home {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "The parser is broken.", "usage": { "input": 10, "output": 5, "cache_read": 3, "cache_write": 2 } }]));
    home.pith(&["--model", &model, "-p", "why does the Parser fail?"]).ok();
    home.pith(&["--model", &model, "-c", "-p", "and \u{1b}[31mnow\u{202e}?"]).ok();
    home.pith(&["--model", &model, "-p", "another talk"]).ok();
    home
}

fn listed(home: &Home) -> Vec<Value> {
    let run = home.pith(&["session", "list", "--json"]).ok();
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

fn id(one: &Value) -> String {
    one["id"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn assert_harmless(run: &Run) {
    assert!(!run.stdout.contains(['\u{1b}', '\u{202e}']), "{run}");
}

#[test]
fn sessions_are_listed_shown_searched_and_counted() {
    let home = two();
    let all = listed(&home);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0]["totals"]["firstUserText"], "another talk");
    assert_eq!(all[1]["totals"]["users"], 2);
    assert_eq!(all[1]["provenance"], "own");
    assert_eq!(all[1]["cost"]["isWhole"], false, "nobody knows what a scripted model costs");
    let older = id(&all[1]);

    let list = home.pith(&["session", "list"]).ok();
    assert!(
        list.stdout.contains("another talk") && list.stdout.contains("unknown") && !list.stdout.contains("$0"),
        "{list}"
    );
    assert_eq!(home.pith(&["session", "list", "--limit", "1"]).ok().stdout.lines().count(), 2);

    let show = home.pith(&["session", "show", &older]).ok();
    assert!(
        show.stdout.contains("you: why does the Parser fail?") && show.stdout.contains("model: The parser is broken."),
        "{show}"
    );
    assert_harmless(&show);
    let lines = home.pith(&["session", "show", &older, "--json"]).ok();
    assert!(
        lines.stdout.lines().all(|line| serde_json::from_str::<Value>(line).is_ok())
            && lines.stdout.lines().count() > 4
    );
    assert!(home.pith(&["session", "show", "-"]).ok().stdout.contains("another talk"), "- is the latest");

    let tree = home.pith(&["session", "tree", &older]).ok();
    assert!(tree.stdout.contains("<- goes on here"), "{tree}");
    assert_harmless(&tree);

    let found = home.pith(&["session", "search", "parser", "FAIL"]).ok();
    assert_eq!(found.stdout.lines().count(), 1, "{found}");
    assert!(found.stdout.contains("user: why does the Parser fail?"), "{found}");
    let hits = home.pith(&["session", "search", "parser", "--json"]).ok();
    assert_eq!(hits.stdout.lines().count(), 4, "{hits}");
    assert!(home.pith(&["session", "search", "nowhere"]).ok().stdout.is_empty());

    let stats = home.pith(&["session", "stats", "--json"]).ok();
    let stats: Value = serde_json::from_str(&stats.stdout).expect("JSON");
    assert_eq!(
        (&stats[0]["replies"], &stats[0]["cacheRead"], &stats[0]["cacheWrite"]),
        (&json!(3), &json!(9), &json!(6))
    );
    assert!(home.pith(&["session", "stats", &older]).ok().stdout.contains("unknown"));
}

#[test]
fn sessions_are_named_labelled_forked_and_found_by_their_names() {
    let home = two();
    let older = id(&listed(&home)[1]);
    let before = std::fs::read(listed(&home)[1]["file"].as_str().expect("a file")).expect("it is there");
    let forked = home.pith(&["session", "fork", &older, "--name", "my fork"]).ok();
    let fork = forked.stdout.trim().to_owned();
    assert_eq!(
        std::fs::read(listed(&home).iter().find(|one| id(one) == older).expect("it")["file"].as_str().expect("a file"))
            .expect("it is there"),
        before
    );
    let shown = home.pith(&["session", "show", "my fork"]).ok();
    assert!(shown.stdout.contains(&fork) && shown.stdout.contains("why does the Parser fail?"), "{shown}");
    let all = listed(&home);
    let made = all.iter().find(|one| id(one) == fork).expect("the fork");
    assert_eq!((&made["provenance"], &made["totals"]["name"]), (&json!("own"), &json!("my fork")));

    let entry: Value = serde_json::from_str(
        home.pith(&["session", "show", &fork, "--json"])
            .ok()
            .stdout
            .lines()
            .find(|line| line.contains("Parser fail"))
            .expect("a message"),
    )
    .expect("JSON");
    let entry = entry["id"].as_str().expect("an id").to_owned();
    home.pith(&["session", "label", &fork, &entry, "start"]).ok();
    assert!(home.pith(&["session", "tree", &fork]).ok().stdout.contains("[start]"));
    home.pith(&["session", "label", &fork, "00000000", "x"]).exits(2).says("there is no entry 00000000");
    home.pith(&["session", "name", &fork, ""]).ok();
    home.pith(&["session", "show", "my fork"]).exits(2).says("there is no session my fork");
    home.pith(&["session", "fork", &older, "--at", "nothing"]).exits(2).says("there is no entry nothing");
}

#[test]
fn sessions_are_deleted_after_asking_and_lie_in_the_trash() {
    let home = two();
    let all = listed(&home);
    let (newer, older) = (id(&all[0]), id(&all[1]));
    home.pith(&["session", "delete", &newer]).exits(2).says("--yes");
    assert_eq!(listed(&home).len(), 2);
    home.pith(&["session", "delete", &newer, "--yes"]).ok();
    let left = listed(&home);
    assert_eq!(left.len(), 1);
    let sessions = home.root().join("data/pith");
    let trash: Vec<_> = std::fs::read_dir(sessions.join("trash")).expect("a trash").collect();
    assert_eq!(trash.len(), 1);
    let mut terminal = Terminal::start(&home, &["session", "delete", &older]);
    terminal.waits("(2 messages)? [y/N] ".replace("(2", "(4").as_str());
    terminal.line("n");
    terminal.waits("kept");
    terminal.exits(0);
    assert_eq!(listed(&home).len(), 1);
    home.pith(&["session", "delete", &older, "--yes", "--forever"]).ok();
    assert!(listed(&home).is_empty());
}

#[test]
fn a_session_from_elsewhere_is_foreign_until_it_is_trusted() {
    let home = two();
    let file = listed(&home)[0]["file"].as_str().expect("a file").to_owned();
    let mut text = std::fs::read_to_string(&file).expect("it is there");
    text.push_str("{\"type\":\"label\",\"id\":\"ffffffff\",\"parentId\":null,\"timestamp\":\"\",\"targetId\":\"x\"}\n");
    std::fs::write(&file, text).expect("it can be written");
    let all = listed(&home);
    let one = all.iter().find(|one| one["file"] == file.as_str()).expect("it is listed");
    assert_eq!(one["provenance"], "foreign");
    assert!(home.pith(&["session", "list"]).ok().stdout.contains("[foreign]"));
    home.pith(&["session", "trust", &id(one)]).ok();
    let all = listed(&home);
    assert_eq!(all.iter().find(|one| one["file"] == file.as_str()).expect("it is listed")["provenance"], "trusted");
}
