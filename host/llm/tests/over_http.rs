//! Both wires against a real server that paces, cuts, redirects, refuses and hangs.

mod server;

use futures::StreamExt;
use pith_core::{FailureKind, ModelEvent, ModelFailure, ModelRequest};
use pith_llm::{Client, Endpoint, LlmError, Secret, Wire, connect, list_models};
use pith_protocol::{AssistantMessage, Content, Delta, Message, StopReason, UserMessage};
use serde_json::{Value, json};
use server::{Act, Server, answer, stream_head};
use std::{fs, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const WIRES: [Wire; 2] = [Wire::AnthropicMessages, Wire::OpenAiCompletions];

fn cases(folder: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases")).join(folder)
}

fn endpoint(wire: Wire, base: &str, key: Option<&str>) -> Endpoint {
    let key = key.map(|key| Secret::new(key).unwrap());
    match wire {
        Wire::AnthropicMessages => Endpoint::anthropic(Some(base), key).unwrap(),
        Wire::OpenAiCompletions => Endpoint::openai(Some(&format!("{base}/v1")), key).unwrap(),
    }
}

fn request() -> ModelRequest {
    let user = UserMessage { content: vec![Content::text("Hello")], timestamp: 0 };
    ModelRequest { messages: vec![Arc::new(Message::User(user))], ..ModelRequest::default() }
}

type Outcome = (Vec<ModelEvent>, AssistantMessage, Option<ModelFailure>);

async fn ask(endpoint: &Endpoint) -> Outcome {
    let model = connect(&Client::start(endpoint.is_https()), endpoint, "m");
    collect(model.ask(request(), CancellationToken::new()).collect::<Vec<_>>().await)
}

fn collect(events: Vec<ModelEvent>) -> Outcome {
    let dones = events.iter().filter(|event| matches!(event, ModelEvent::Done { .. })).count();
    match events.last() {
        Some(ModelEvent::Done { message, failure }) if dones == 1 => {
            let (message, failure) = (message.clone(), failure.clone());
            (events, message, failure)
        }
        _ => panic!("not done once and last: {events:?}"),
    }
}

async fn ask_server(wire: Wire, acts: Vec<Act>) -> (Outcome, Server) {
    let server = Server::start(vec![acts]).await;
    let outcome = ask(&endpoint(wire, &format!("http://127.0.0.1:{}", server.port), Some("sk-test"))).await;
    (outcome, server)
}

/// One short reply on a wire.
fn hello(wire: Wire) -> Vec<u8> {
    match wire {
        Wire::AnthropicMessages => [
            json!({"type": "message_start", "message": {"id": "m1", "usage": {"input_tokens": 3, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hél"}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo 😀"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}),
            json!({"type": "message_stop"}),
        ]
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .concat()
        .into_bytes(),
        Wire::OpenAiCompletions => {
            let chunk = |delta: Value, finish: Value| {
                format!(
                    "data: {}\n\n",
                    json!({"id": "m1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
                )
            };
            [
                chunk(json!({"content": "Hél"}), Value::Null),
                chunk(json!({"content": "lo 😀"}), Value::Null),
                chunk(json!({}), json!("stop")),
                format!("data: {}\n\n", json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})),
                "data: [DONE]\n\n".to_owned(),
            ]
            .concat()
            .into_bytes()
        }
    }
}

#[tokio::test]
async fn replies_stream_in_pieces_of_one_byte() {
    for wire in WIRES {
        let ((events, message, failure), server) =
            ask_server(wire, vec![Act::Send(stream_head()), Act::Pace(hello(wire), 1)]).await;
        assert_eq!((message.text().as_str(), message.stop_reason, failure), ("Héllo 😀", StopReason::Stop, None));
        assert_eq!((message.usage.input, message.usage.output, message.usage.total_tokens), (3, 4, 7));
        assert_eq!(
            (message.provider.as_str(), message.api.as_str(), message.model.as_str()),
            (
                match wire {
                    Wire::AnthropicMessages => "anthropic",
                    Wire::OpenAiCompletions => "openai",
                },
                wire.as_str(),
                "m"
            )
        );
        assert_eq!(message.response_id.as_deref(), Some("m1"));
        let deltas: Vec<_> =
            events.iter().filter(|event| matches!(event, ModelEvent::Delta(Delta::TextDelta { .. }))).collect();
        assert_eq!(deltas.len(), 2);
        assert!(matches!(events[0], ModelEvent::Started));
        let seen = &server.seen().await[0];
        let (line, key) = match wire {
            Wire::AnthropicMessages => ("POST /v1/messages HTTP/1.1", "x-api-key: sk-test"),
            Wire::OpenAiCompletions => ("POST /v1/chat/completions HTTP/1.1", "authorization: Bearer sk-test"),
        };
        assert!(seen.head.starts_with(line), "{}", seen.head);
        assert!(seen.head.contains(key), "{}", seen.head);
        assert!(seen.head.contains(concat!("user-agent: pith/", env!("CARGO_PKG_VERSION"))), "{}", seen.head);
        assert_eq!(seen.head.contains("anthropic-version: 2023-06-01"), wire == Wire::AnthropicMessages);
        let body: Value = serde_json::from_slice(&seen.body).unwrap();
        assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)));
    }
}

#[tokio::test]
async fn without_a_key_no_credential_is_sent() {
    for wire in WIRES {
        let server = Server::start(vec![vec![Act::Send(stream_head()), Act::Send(hello(wire))]]).await;
        let (_, message, _) = ask(&endpoint(wire, &format!("http://localhost:{}", server.port), None)).await;
        assert_eq!(message.stop_reason, StopReason::Stop, "{message:?}");
        let head = server.seen().await[0].head.to_ascii_lowercase();
        assert!(!head.contains("authorization") && !head.contains("x-api-key"), "{head}");
    }
}

#[tokio::test]
async fn rate_limits_say_how_long_to_wait() {
    for wire in WIRES {
        let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}"#;
        let ((events, message, failure), _) = ask_server(wire, answer(429, "retry-after: 7\r\n", body)).await;
        assert_eq!(events.len(), 1, "a failure before the start is the only event");
        assert_eq!(message.error_message.as_deref(), Some("429: Slow down (rate_limit_error)"));
        let expect = ModelFailure {
            kind: FailureKind::RateLimited,
            retry_after: Some(Duration::from_secs(7)),
            window_tokens: None,
        };
        assert_eq!(failure, Some(expect));
    }
}

#[tokio::test]
async fn a_key_that_a_server_repeats_is_not_shown() {
    for wire in WIRES {
        let server = Server::start(vec![answer(401, "", "{\"error\":\"bad key sk-0123456789\"}")]).await;
        let endpoint = endpoint(wire, &format!("http://127.0.0.1:{}", server.port), Some("sk-0123456789"));
        let (_, message, failure) = ask(&endpoint).await;
        assert_eq!(message.error_message.as_deref(), Some("401: bad key (the key)"));
        assert_eq!(failure.unwrap().kind, FailureKind::Unauthorized);
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for wire in WIRES {
        let target = Server::start(vec![vec![Act::Send(stream_head()), Act::Send(hello(wire))]]).await;
        let location = format!("location: http://127.0.0.1:{}/elsewhere\r\n", target.port);
        for status in [301, 302, 307, 308] {
            let ((_, message, failure), _) = ask_server(wire, answer(status, &location, "")).await;
            let words = message.error_message.unwrap();
            assert!(words.contains("redirects are not followed") && words.contains("/elsewhere"), "{words}");
            assert_eq!(failure.unwrap().kind, FailureKind::Invalid);
        }
        assert!(target.seen().await.is_empty(), "the key must not travel");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_is_a_failure_that_keeps_what_came() {
    for wire in WIRES {
        let whole = hello(wire);
        let end = String::from_utf8(whole.clone()).unwrap().find("lo 😀").unwrap();
        let half = whole[..end].to_vec();
        let length = whole.len();
        let cut = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n");
        // Once as an end that the protocol cannot tell from a good one, once as a broken promise.
        for head in [stream_head(), cut.into_bytes()] {
            let ((_, message, failure), _) = ask_server(wire, vec![Act::Send(head), Act::Send(half.clone())]).await;
            assert_eq!((message.stop_reason, message.text().as_str()), (StopReason::Error, "Hél"));
            assert!(message.error_message.unwrap().contains("the stream ended early"));
            assert_eq!(failure.unwrap().kind, FailureKind::Unavailable);
        }
    }
}

#[tokio::test]
async fn a_last_event_without_its_blank_line_counts() {
    for wire in WIRES {
        let mut stream = hello(wire);
        stream.truncate(stream.len() - 2);
        let ((_, message, failure), _) = ask_server(wire, vec![Act::Send(stream_head()), Act::Send(stream)]).await;
        assert_eq!((message.stop_reason, failure), (StopReason::Stop, None));
    }
}

#[tokio::test]
async fn cancelling_ends_a_request_that_hangs() {
    for wire in WIRES {
        let whole = hello(wire);
        let end = String::from_utf8(whole.clone()).unwrap().find("lo 😀").unwrap();
        let half = whole[..end].to_vec();
        // Before the head, and in mid-stream.
        for (before, words) in [(vec![], ""), (vec![Act::Send(stream_head()), Act::Send(half)], "Hél")] {
            let reached = Arc::new(Notify::new());
            let acts = before.into_iter().chain([Act::Hang(Arc::clone(&reached))]).collect();
            let server = Server::start(vec![acts]).await;
            let endpoint = endpoint(wire, &format!("http://127.0.0.1:{}", server.port), None);
            let model = connect(&Client::start(false), &endpoint, "m");
            let cancel = CancellationToken::new();
            let mut stream = model.ask(request(), cancel.clone());
            let events = async {
                let mut events = Vec::new();
                while let Some(event) = stream.next().await {
                    let said = matches!(event, ModelEvent::Delta(Delta::TextDelta { .. }));
                    events.push(event);
                    if said {
                        cancel.cancel();
                    }
                }
                events
            };
            let cancelled = async {
                reached.notified().await;
                if words.is_empty() {
                    cancel.cancel();
                }
            };
            let both = async { tokio::join!(events, cancelled).0 };
            let events = tokio::time::timeout(Duration::from_secs(10), both).await.expect("it does not hang");
            let (_, message, failure) = collect(events);
            assert_eq!((message.stop_reason, message.text().as_str(), failure), (StopReason::Aborted, words, None));
        }
    }
}

/// A server that said why it ended and then neither the last word nor the connection's end.
#[tokio::test]
async fn a_server_that_forgets_to_close_is_not_waited_for() {
    for wire in WIRES {
        let whole = String::from_utf8(hello(wire)).unwrap();
        let last_word = whole.find("event: message_stop").or_else(|| whole.find("data: [DONE]")).unwrap();
        let acts = vec![
            Act::Send(stream_head()),
            Act::Send(whole.as_bytes()[..last_word].to_vec()),
            Act::Hang(Arc::new(Notify::new())),
        ];
        let asked = ask_server(wire, acts);
        let ((_, message, failure), _) = tokio::time::timeout(Duration::from_secs(60), asked).await.expect("it ends");
        assert_eq!((message.stop_reason, failure), (StopReason::Stop, None));
        assert_eq!(message.text(), "Héllo 😀");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for wire in WIRES {
        let (_, message, failure) = ask(&endpoint(wire, &format!("http://127.0.0.1:{port}"), None)).await;
        let words = message.error_message.unwrap();
        assert!(words.contains(&format!("127.0.0.1:{port}")) && words.contains("is the server running?"), "{words}");
        assert_eq!(failure.unwrap().kind, FailureKind::Unavailable);
    }
}

#[tokio::test]
async fn recorded_error_bodies_are_passed_on_in_the_providers_words() {
    let mut checked = 0;
    for (folder, wire) in [("streams/anthropic", WIRES[0]), ("streams/openai-chat", WIRES[1])] {
        for entry in fs::read_dir(cases(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !name.ends_with(".json") || name.ends_with(".expect.json") {
                continue;
            }
            let expect: Value = serde_json::from_slice(&fs::read(path.with_extension("expect.json")).unwrap()).unwrap();
            let status = expect["http_status"].as_u64().unwrap();
            let body = fs::read_to_string(&path).unwrap();
            let ((_, message, failure), _) =
                ask_server(wire, answer(status as u16, "content-type: application/json\r\n", &body)).await;
            let words = message.error_message.unwrap();
            let said = expect.pointer("/error_body/error/message").unwrap().as_str().unwrap();
            assert!(words.starts_with(&format!("{status}: ")) && words.contains(said), "{name}: {words}");
            assert!(!words.contains('\n'));
            let kind = match status {
                429 => FailureKind::RateLimited,
                _ => FailureKind::Invalid,
            };
            assert_eq!(failure.unwrap().kind, kind, "{name}");
            checked += 1;
        }
    }
    assert!(checked >= 5, "{checked}");
}

#[tokio::test]
async fn what_is_no_stream_is_told_apart() {
    for wire in WIRES {
        let json = "content-type: application/json\r\n";
        let ((_, message, failure), _) =
            ask_server(wire, answer(200, json, r#"{"error":{"message":"model is loading","code":503}}"#)).await;
        assert_eq!(message.error_message.as_deref(), Some("model is loading"));
        assert_eq!(failure.unwrap().kind, FailureKind::Unavailable);
        let ((_, message, _), _) = ask_server(wire, answer(200, json, r#"{"choices":[]}"#)).await;
        assert!(message.error_message.unwrap().contains("with JSON where a stream was asked for"));
        let ((_, message, _), _) = ask_server(wire, answer(200, "content-type: text/html\r\n", "<html>")).await;
        assert!(message.error_message.unwrap().contains("is the base URL"));
    }
    // A body of errors that never ends is read as far as the limit.
    let huge = "x".repeat(1_000_000);
    let ((_, message, _), _) = ask_server(WIRES[0], answer(500, "", &huge)).await;
    assert!(message.error_message.unwrap().len() < 1_100);
}

#[tokio::test]
async fn a_missing_v1_is_guessed() {
    let server = Server::start(vec![answer(404, "", "404 page not found")]).await;
    let endpoint = Endpoint::openai(Some(&format!("http://127.0.0.1:{}", server.port)), None).unwrap();
    let (_, message, failure) = ask(&endpoint).await;
    assert_eq!(message.error_message.as_deref(), Some("404: 404 page not found; does the base URL lack its /v1?"));
    assert_eq!(failure.unwrap().kind, FailureKind::Invalid);
}

#[tokio::test]
async fn models_are_listed() {
    for wire in WIRES {
        let body = json!({"object": "list", "data": [{"id": "one", "extra": 1}, {"id": "two/three"}]}).to_string();
        let server =
            Server::start(vec![answer(200, "", &body), answer(200, "", "{}"), answer(401, "", "{\"error\":\"no\"}")])
                .await;
        let endpoint = endpoint(wire, &format!("http://127.0.0.1:{}", server.port), Some("k"));
        let client = Client::start(false);
        assert_eq!(list_models(&client, &endpoint).await.unwrap(), ["one", "two/three"]);
        assert!(server.seen().await[0].head.starts_with("GET /v1/models"));
        assert!(matches!(list_models(&client, &endpoint).await, Err(LlmError::Listing { .. })));
        match list_models(&client, &endpoint).await {
            Err(LlmError::Listing { kind, message, .. }) => {
                assert_eq!((kind, message.as_str()), (FailureKind::Unauthorized, "401: no"));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A server with a certificate of an own CA, asked by a process of its own whose `SSL_CERT_FILE` names that CA, or another.
#[tokio::test]
async fn https_trusts_what_ssl_cert_file_names() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acts = vec![Act::Send(stream_head()), Act::Send(hello(Wire::OpenAiCompletions))];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let server = Server::start_with(vec![acts.clone(), acts], Some(acceptor)).await;
    let folder = tempfile::tempdir().unwrap();
    for (pem, expect) in [(cert.pem(), "done: Hél"), (other.cert.pem(), "cannot be trusted")] {
        let file = folder.path().join("roots.pem");
        fs::write(&file, pem).unwrap();
        let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "https_child", "--ignored", "--nocapture"]);
        child.env("SSL_CERT_FILE", &file).env("PITH_TEST_BASE", format!("https://localhost:{}/v1", server.port));
        // A proxy is not asked for what is on this machine.
        child.env("HTTPS_PROXY", "http://127.0.0.1:9").env("ALL_PROXY", "http://127.0.0.1:9").kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(30), child.output()).await.unwrap().unwrap();
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(words.contains(expect), "{words}");
    }
}

/// The process of the test above.
#[tokio::test]
#[ignore = "started by https_trusts_what_ssl_cert_file_names"]
#[allow(clippy::print_stdout)]
async fn https_child() {
    let endpoint = Endpoint::openai(Some(&std::env::var("PITH_TEST_BASE").unwrap()), None).unwrap();
    let (_, message, _) = ask(&endpoint).await;
    println!("done: {} {}", message.text(), message.error_message.unwrap_or_default());
}
