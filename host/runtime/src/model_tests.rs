use super::*;
use std::io::{Read, Write};

/// What `choose` gives: the model's name and the notices, or the error.
fn choose(
    environment: &[(&str, &str)],
    flag: Option<&str>,
    resumed: Option<&str>,
    settings: Option<&str>,
) -> (Result<String, String>, Vec<String>) {
    let environment: Environment = environment.iter().copied().collect();
    let read = |text: Option<&str>| text.map(|text| text.parse::<ModelRef>().unwrap());
    let (flag, resumed, settings) = (read(flag), read(resumed), read(settings));
    let named = Named { flag: flag.as_ref(), resumed: resumed.as_ref(), settings: settings.as_ref() };
    let client = Client::start(false);
    let providers = Providers {
        client,
        environment: &environment,
        base: Path::new("/"),
        settings_file: Path::new("/c/settings.toml"),
    };
    let mut notices = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let chosen = runtime.block_on(providers.choose(named, &mut notices));
    (chosen.map(|model| model.card().model.to_string()).map_err(|error| error.to_string()), notices)
}

const A: (&str, &str) = ("ANTHROPIC_API_KEY", "a-key");
const O: (&str, &str) = ("OPENAI_API_KEY", "o-key");
const LOCAL: (&str, &str) = ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
const NAMED: (&str, &str) = ("PITH_MODEL", "openai/named");

#[test]
fn the_first_that_was_named_or_led_to_is_asked() {
    let cases: [(&[(&str, &str)], [Option<&str>; 3], &str); 11] = [
        (&[A, O, NAMED], [Some("openai/flag"), Some("openai/resumed"), Some("openai/set")], "openai/flag"),
        (&[A, O, NAMED], [None, Some("openai/resumed"), Some("openai/set")], "openai/resumed"),
        (&[A, O, NAMED], [None, None, Some("openai/set")], "openai/named"),
        (&[A, O], [None, None, Some("openai/set")], "openai/set"),
        (&[A, O], [None, None, None], "anthropic/claude-sonnet-5-5"),
        (&[O], [None, None, None], "openai/gpt-5.1"),
        (&[("ANTHROPIC_API_KEY", " "), O], [None, None, None], "openai/gpt-5.1"),
        (&[LOCAL], [Some("openai/org/m"), None, None], "openai/org/m"),
        // A resumed model that nobody serves here, or that has no key, is passed over.
        (&[O], [None, Some("fake/fake-1"), Some("openai/set")], "openai/set"),
        (&[O], [None, Some("anthropic/x"), None], "openai/gpt-5.1"),
        (&[O], [None, Some("scripted//etc/hostname"), None], "openai/gpt-5.1"),
    ];
    for (environment, [flag, resumed, settings], model) in cases {
        let (chosen, notices) = choose(environment, flag, resumed, settings);
        assert_eq!(chosen.as_deref(), Ok(model), "{environment:?} {flag:?} {resumed:?} {settings:?}");
        let passed_over = resumed.filter(|name| flag.is_none() && *name != model);
        assert_eq!(notices.len(), usize::from(passed_over.is_some()), "{notices:?}");
        assert!(notices.iter().all(|notice| notice.contains(passed_over.unwrap_or_default())), "{notices:?}");
    }
}

#[test]
fn errors_say_what_to_set() {
    let (nothing, _) = choose(&[], None, None, None);
    let nothing = nothing.unwrap_err();
    assert_eq!(nothing.lines().count(), 3);
    for word in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "--model", "PITH_MODEL", "/c/settings.toml"]
    {
        assert!(nothing.contains(word), "{word}: {nothing}");
    }
    let cases: [(&[(&str, &str)], &str, &[&str]); 7] = [
        (&[O], "anthropic/x", &["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"]),
        (&[A], "openai/x", &["OPENAI_API_KEY", "OPENAI_BASE_URL"]),
        (&[A], "other/x", &["no provider other", "anthropic, openai and scripted"]),
        (&[("OPENAI_API_KEY", "a b")], "openai/x", &["OPENAI_API_KEY: the key cannot be used"]),
        (&[("OPENAI_BASE_URL", "ftp://x")], "openai/x", &["OPENAI_BASE_URL: the base URL"]),
        (&[], "scripted//nowhere/at/all.json", &["/nowhere/at/all.json", "not found"]),
        (&[], "scripted//proc/self/status", &["scenario"]),
    ];
    for (environment, flag, says) in cases {
        let error = choose(environment, Some(flag), None, None).0.unwrap_err();
        assert!(says.iter().all(|word| error.contains(word)), "{flag}: {error}");
        assert!(!error.contains("a b"), "{error}");
    }
    let error = choose(&[("PITH_MODEL", "gpt")], None, None, None).0.unwrap_err();
    assert!(error.contains("PITH_MODEL") && error.contains("PROVIDER/ID"), "{error}");
}

/// A real server that answers each request for a list of models with `body`; gives its base URL.
fn server(body: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut piece = [0; 1024];
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(read) if read > 0 => head.extend_from_slice(&piece[..read]),
                    _ => return,
                }
            }
            let found = head.starts_with(b"GET /v1/models");
            let status = if found { "200 OK" } else { "404 Not Found" };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    url
}

#[test]
fn the_only_model_of_a_base_url_is_asked() {
    let one = server("{\"object\":\"list\",\"data\":[{\"id\":\"org/smol\",\"object\":\"model\"}]}");
    assert_eq!(choose(&[("OPENAI_BASE_URL", &one)], None, None, None).0.as_deref(), Ok("openai/org/smol"));
    // The other wire takes its base URL without /v1.
    let bare = one.strip_suffix("/v1").unwrap();
    assert_eq!(choose(&[("ANTHROPIC_BASE_URL", bare)], None, None, None).0.as_deref(), Ok("anthropic/org/smol"));
    let two = server("{\"data\":[{\"id\":\"a\"},{\"id\":\"b\"}]}");
    let error = choose(&[("OPENAI_BASE_URL", &two)], None, None, None).0.unwrap_err();
    assert!(error.lines().count() == 3 && error.contains("openai/a, openai/b"), "{error}");
    let error = choose(&[LOCAL], None, None, None).0.unwrap_err();
    assert!(error.lines().count() == 3 && error.contains("127.0.0.1:9"), "{error}");
}

#[test]
fn roots_are_read_only_where_https_is_wanted() {
    let needs = |environment: &[(&str, &str)], flag: Option<&str>| {
        let flag: Option<ModelRef> = flag.map(|text| text.parse().unwrap());
        needs_tls(&environment.iter().copied().collect(), flag.as_ref())
    };
    assert!(needs(&[A], None) && needs(&[LOCAL, O, A], None) && needs(&[O], Some("openai/x")));
    assert!(
        !needs(&[], None)
            && !needs(&[LOCAL], None)
            && !needs(&[LOCAL, A], Some("openai/x"))
            && !needs(&[A], Some("scripted/x"))
    );
}
