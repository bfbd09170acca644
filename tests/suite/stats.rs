//! `pith plugin stats`: what plugins used, told by another process than the one that they ran in.

use pith_tests::{Behaviour, Guest, Home};
use serde_json::{Value, json};

fn stats(home: &Home) -> Value {
    let run = home.pith(&["plugin", "stats", "--json"]).ok();
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

/// The numbers of one function.
fn of<'s>(stats: &'s Value, plugin: &str, function: &str) -> &'s Value {
    let plugins = stats["plugins"].as_array().expect("a list");
    let found = plugins.iter().find(|found| found["name"] == plugin).unwrap_or_else(|| panic!("no {plugin}: {stats}"));
    &found["functions"][function]
}

#[test]
fn what_plugins_used_is_summed_over_runs() {
    let home = Home::new();
    home.write("a.txt", "text\n");
    home.pith(&["plugin", "stats"]).ok().prints("Nothing is recorded yet");
    assert_eq!(stats(&home)["plugins"], json!([]));
    let guest = Guest::new()
        .tool("fine", Behaviour::Fine("all well".into()))
        .tool("no", Behaviour::Refuse("not today".into()))
        .tool("trap", Behaviour::Trap)
        .save(&home.root().join("mine.wasm"));
    let guest = guest.to_string_lossy().into_owned();
    let call = |name: &str| json!({ "calls": [{ "name": name, "arguments": {} }] });
    let read = json!({ "calls": [{ "name": "read", "arguments": { "path": "a.txt" } }] });
    for _ in 0..2 {
        let replies = json!([read, call("fine"), call("no"), call("trap"), { "text": "done" }]);
        home.play(replies, &["--plugin", &guest]).ok();
    }
    let told = stats(&home);
    assert_eq!((&told["runs"], &told["damaged_lines"]), (&json!(2), &json!(0)));
    assert!(told["since"].as_str().is_some_and(|since| since.starts_with("20") && since.ends_with('Z')), "{told}");
    let mine = of(&told, "mine", "tools.call");
    assert_eq!((&mine["calls"], &mine["refusals"], &mine["faults"]), (&json!(6), &json!(2), &json!(2)));
    assert!(mine["cpu_nanos"].as_u64() > Some(0) && mine["wall_p50_nanos"].as_u64() > Some(0), "{mine}");
    assert!(mine["peak_memory_bytes"].as_u64() >= Some(64 << 10), "{mine}");
    // Six texts of two words, and what was called with.
    assert_eq!(mine["bytes_out"], 2 * "all well".len());
    assert!(mine["bytes_in"].as_u64() > Some(0), "{mine}");
    assert_eq!(of(&told, "files", "tools.call")["calls"], 2);
    // The gate saw all eight.
    assert_eq!(of(&told, "protect", "tool-gate.before-call")["calls"], 8);
    let table = home.pith(&["plugin", "stats"]).ok();
    assert!(table.stdout.lines().any(|line| line.starts_with("mine ") && line.contains("tools.call")), "{table}");
    home.pith(&["plugin", "stats", "--help"]).ok().prints("pith plugin stats --json");
}

#[test]
fn a_session_that_keeps_nothing_is_not_counted_and_a_damaged_file_costs_its_lines() {
    let home = Home::new();
    home.write("a.txt", "text\n");
    let replies = || json!([{ "calls": [{ "name": "read", "arguments": { "path": "a.txt" } }] }, { "text": "done" }]);
    home.play(replies(), &["--no-session"]).ok();
    assert_eq!(stats(&home)["runs"], 0);
    home.play(replies(), &[]).ok();
    let file = home.root().join("state/pith/plugin-use.jsonl");
    let whole = std::fs::read(&file).expect("it was recorded");
    std::fs::write(&file, &whole[..whole.len() - 20]).expect("it can be written");
    home.play(replies(), &[]).ok();
    let told = stats(&home);
    assert_eq!((&told["runs"], &told["damaged_lines"]), (&json!(1), &json!(1)));
    // Somebody put a FIFO there: the run ends as ever, and stats say why they do not.
    std::fs::remove_file(&file).expect("it is there");
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, 0o600.into()).expect("a FIFO");
    home.play(replies(), &[]).ok();
    home.pith(&["plugin", "stats"]).exits(2).says("not a regular file");
}

#[test]
fn a_grant_of_what_a_plugin_does_not_ask_for_ends_the_start() {
    let home = Home::new();
    let plugin =
        Guest::new().tool("fine", Behaviour::Fine("x".into())).import("dialog").save(&home.root().join("mine.wasm"));
    let plugin = plugin.to_string_lossy().into_owned();
    let model = home.scripted(json!([{ "text": "hi" }]));
    for grant in ["mine:process=git", "mine:tool-filter", "mine:files=workspace:r", "files:process=git"] {
        let args = ["--plugin", &plugin, "--grant", "mine:dialog", "--grant", grant, "--model", &model, "-p", "go"];
        let run = home.pith(&args).exits(2);
        let asks =
            if grant.starts_with("mine") { "plugin mine asks for dialog, tools" } else { "plugin files asks for" };
        run.says(&format!("--grant {grant} is of no use")).says(asks);
    }
    // What it asks for is granted; a tool's export, by naming it, too.
    home.pith(&["--plugin", &plugin, "--grant", "mine:dialog", "--grant", "mine:tools", "--model", &model, "-p", "go"])
        .ok();
    assert_eq!(home.sessions().len(), 1);
}
