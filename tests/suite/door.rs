//! The door: usage, refused starts, exit codes.

use pith_tests::{Behaviour, Guest, Home};
use serde_json::json;

#[test]
fn help_shows_examples_and_exit_codes() {
    let run = Home::new().pith(&["--help"]).ok();
    let run = run.prints("pith demo").prints("pith -c -p").prints("OPENAI_BASE_URL").prints("Exit codes");
    assert!(run.stderr.is_empty(), "{run}");
    Home::new().pith(&["--version"]).ok().prints("pith ");
}

#[test]
fn without_a_prompt_there_is_usage() {
    let home = Home::new();
    home.pith(&[]).exits(2).says("Usage");
    home.pith(&["-p"]).exits(2).says("Usage");
    assert!(home.sessions().is_empty());
}

#[test]
fn what_is_not_understood_is_refused() {
    let home = Home::new();
    for args in [
        &["--no-such-flag", "-p", "hi"][..],
        &["--mode", "xml", "-p", "hi"],
        &["-c", "--no-session", "-p", "hi"],
        &["--no-plugins", "--plugin", "x.wasm", "-p", "hi"],
        &["completions", "no-shell"],
    ] {
        let run = home.pith(args).exits(2);
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{run}");
    }
}

#[test]
fn without_a_model_three_lines_say_what_to_set() {
    let home = Home::new();
    let run = home.pith(&["-p", "hi"]).exits(2);
    let run = run.says("ANTHROPIC_API_KEY").says("OPENAI_API_KEY").says("OPENAI_BASE_URL");
    assert_eq!(run.stderr.lines().count(), 3, "{run}");
    assert!(run.stdout.is_empty() && home.sessions().is_empty(), "{run}");
    // An empty key is no key.
    let run = Home::new().with("OPENAI_API_KEY", "").pith(&["-p", "hi"]).exits(2);
    assert_eq!(run.stderr.lines().count(), 3, "{run}");
}

#[test]
fn a_model_that_cannot_be_served_names_what_is_missing() {
    let home = Home::new();
    home.pith(&["--model", "anthropic/x", "-p", "hi"]).exits(2).says("ANTHROPIC_API_KEY");
    home.pith(&["--model", "openai/x", "-p", "hi"]).exits(2).says("OPENAI_API_KEY");
    home.pith(&["--model", "nobody/x", "-p", "hi"]).exits(2).says("nobody");
    home.pith(&["--model", "no-slash", "-p", "hi"]).exits(2).says("PROVIDER/ID");
    home.pith(&["--model", "scripted/none.json", "-p", "hi"]).exits(2).says("none.json");
    let broken = home.beside("broken.json", "{\"replies\": [{\"txet\": \"\"}]}");
    home.pith(&["--model", &format!("scripted/{}", broken.display()), "-p", "hi"]).exits(2).says("txet");
}

#[test]
fn a_workspace_that_overlaps_a_reserved_folder_is_refused() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "hi" }]));
    let root = home.root();
    std::fs::create_dir_all(root.join("data/pith/sessions")).expect("a folder");
    for folder in [
        root.clone(),
        root.join("data"),
        root.join("data/pith"),
        root.join("data/pith/sessions"),
        "/proc".into(),
        "/".into(),
    ] {
        let folder = folder.to_string_lossy();
        home.pith(&["--workspace", &folder, "--model", &model, "-p", "go"]).exits(2).says("--workspace DIR");
    }
    // The process's own folder counts where none is named.
    let mut command = home.command(&["--model", &model, "-p", "go"]);
    command.current_dir(root.join("data"));
    pith_tests::Running::start(command, std::time::Duration::from_secs(30)).finish().exits(2).says("--workspace DIR");
    home.pith(&["--workspace", "no/such/folder", "--model", &model, "-p", "go"]).exits(2).says("no/such/folder");
    home.pith(&["--workspace", &home.work().to_string_lossy(), "--model", &model, "-p", "go"]).ok().prints("hi");
}

#[test]
fn grants_that_cannot_be_read_are_refused() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "hi" }]));
    let file = Guest::new().tool("mine", Behaviour::Echo).save(&home.root().join("mine.wasm"));
    let plugin = file.to_string_lossy();
    for (grant, says) in [
        ("mine", "NAME:CAPABILITY"),
        ("mine:flies=workspace", "flies"),
        ("mine:files=workspace:x", "workspace:x"),
        ("mine:files", "files="),
        ("other:dialog", "other"),
        ("mine:tools=x", "tools"),
    ] {
        let run = home.pith(&["--plugin", &plugin, "--grant", grant, "--model", &model, "-p", "go"]).exits(2);
        run.says(says);
    }
    assert!(home.sessions().is_empty());
}

#[test]
fn a_missing_grant_ends_the_start_with_the_very_argument() {
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "hi" }]));
    let guest = Guest::new().tool("mine", Behaviour::Echo).filter(Behaviour::Echo).import("dialog");
    let plugin = guest.save(&home.root().join("My Tools.wasm")).to_string_lossy().into_owned();
    let with = |grants: &[&str]| {
        let mut args = vec!["--plugin", &plugin, "--model", &model];
        for grant in grants {
            args.extend(["--grant", grant]);
        }
        args.extend(["-p", "go"]);
        home.pith(&args)
    };
    // The name is the file's stem, folded.
    with(&[]).exits(2).says("--grant my-tools:tool-filter").says("--grant my-tools:dialog");
    let run = with(&["my-tools:dialog"]).exits(2).says("--grant my-tools:tool-filter");
    assert!(!run.stderr.contains("my-tools:dialog"), "{run}");
    // And the argument is one that works.
    with(&["my-tools:dialog", "my-tools:tool-filter"]).ok().prints("hi");
}

#[test]
fn settings_that_cannot_be_used_end_the_start_with_their_place() {
    for (text, says) in [
        ("modle = \"openai/m\"\n", "modle"),
        ("model = 3\n", "model"),
        ("[retry]\nattempts = \"many\"\n", "attempts"),
        ("model = \n", "line 1"),
    ] {
        let home = Home::new();
        let file = home.beside("config/pith/settings.toml", text);
        let model = home.scripted(json!([{ "text": "never" }]));
        let run = home.pith(&["--model", &model, "-p", "go"]).exits(2);
        run.says(&file.to_string_lossy()).says(says);
    }
    let home = Home::new();
    let model = home.scripted(json!([{ "text": "never" }]));
    home.pith(&["--model", &model, "--thinking", "hard", "-p", "go"]).exits(2).says("xhigh");
    let settings = home.root().join("config/pith");
    std::fs::create_dir_all(&settings).expect("a folder");
    assert!(
        std::process::Command::new("mkfifo").arg(settings.join("settings.toml")).status().expect("mkfifo").success()
    );
    home.pith(&["--model", &model, "-p", "go"]).exits(2).says("settings.toml");
}

#[test]
fn completions_are_printed() {
    for (shell, word) in [("bash", "complete -F"), ("zsh", "#compdef pith"), ("fish", "complete -c pith")] {
        Home::new().pith(&["completions", shell]).ok().prints(word);
    }
}
