//! A gate call: the shipped gate `protect`, a fresh instance each time, against a native parse of the same bytes in the same round.

use crate::{Plan, figures::Figures};
use futures::future::BoxFuture;
use pith_core::{
    AskedQuestion, CallScope, CanonicalCall, Clock, Decision, Dispatcher, Hooks, Outbox, Person, Progress, RunFacts, Session, Spool, Store,
    StoreError, Verdict, canonical_json,
};
use pith_plugin::{HostConfig, Limits, NoLog, Places, PluginCode, PluginHost, PluginSource};
use pith_protocol::{CallOrigin, Caller, SessionId, ThinkingLevel, ToolCall};
use pith_runtime::SystemClock;
use pith_tests::target_folder;
use serde_json::{Value, json};
use std::{borrow::Cow, fmt::Write, hint::black_box, path::Path, sync::Arc, time::Instant};
use tokio_util::sync::CancellationToken;

/// Sizes of the call's input, with how often each is called in a round.
const SIZES: [(&str, usize, usize); 3] = [("1 kB", 1_000, 200), ("10 kB", 10_000, 200), ("1 MB", 1_000_000, 20)];

/// The section of the report.
pub fn measure(plan: &Plan) -> String {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(rounds(plan))
}

async fn rounds(plan: &Plan) -> String {
    let work = tempfile::tempdir().expect("a folder");
    let host = Arc::new(load(work.path()));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let session = Session::create(SessionId::from("bench"), work.path(), Box::new(Nowhere), clock.clone());
    let dispatcher = Dispatcher::new(host.clone(), host.clone(), Arc::new(Nobody), Arc::new(Nowhere), clock);
    let mut out = String::from(
        "\n## A gate call\n\nThe shipped gate `protect` judges a `write` whose input has this many bytes (one long string), in microseconds. \
         `gate` is the call of the gate alone, in a fresh instance; `dispatch` is everything before the tool runs: parse, coerce, canonical form, schema, gate. \
         `parse` is `serde_json::from_slice::<Value>` of the same bytes. Each round's figure is the median of its calls.\n\n\
         | input | parse | gate | gate / parse | gate p99 | dispatch | dispatch / parse |\n|---|---|---|---|---|---|---|\n",
    );
    let mut parts: Vec<[Figures; 4]> = SIZES.iter().map(|_| Default::default()).collect();
    for round in 0..=plan.rounds {
        for ((_, bytes, calls), parts) in SIZES.iter().zip(&mut parts) {
            let input = input(*bytes);
            let text: Arc<str> = canonical_json(&input).into();
            let call = CanonicalCall { id: "c".to_owned(), name: "write".to_owned(), input: text.clone(), value: Arc::new(input.clone()) };
            let origin = origin();
            let asked = ToolCall {
                id: "c".to_owned(),
                name: "write".to_owned(),
                arguments: input.as_object().cloned().unwrap_or_default(),
                arguments_error: None,
                thought_signature: None,
                arguments_text: Some(text.clone()),
            };
            let mut took = [Figures::default(), Figures::default(), Figures::default()];
            for _ in 0..*calls {
                let began = Instant::now();
                black_box(serde_json::from_slice::<Value>(black_box(text.as_bytes())).expect("it is JSON"));
                took[0].add(micros(began));
                let scope = scope(&session);
                let began = Instant::now();
                let judged = host.judge(&call, &origin, scope).await;
                took[1].add(micros(began));
                assert!(judged.len() == 1 && matches!(judged[0].verdict, Ok(Verdict::Pass)), "{judged:?}");
                let scope = self::scope(&session);
                let began = Instant::now();
                let prepared = dispatcher.prepare(&asked, None, scope).await;
                took[2].add(micros(began));
                assert!(prepared.is_ok(), "{:?}", prepared.err());
            }
            // The first round warms up.
            if round > 0 {
                let [parse, gate, dispatch] = &took;
                for (part, value) in parts.iter_mut().zip([parse.median(), gate.median(), gate.at(0.99), dispatch.median()]) {
                    part.add(value);
                }
            }
        }
    }
    for ((name, _, _), [parse, gate, tail, dispatch]) in SIZES.iter().zip(&parts) {
        let _ = writeln!(
            out,
            "| {name} | {:.1} | {:.1} ({:.1}) | {:.1} | {:.0} | {:.1} | {:.1} |",
            parse.median(),
            gate.median(),
            gate.at(0.9),
            gate.over(parse).median(),
            tail.median(),
            dispatch.median(),
            dispatch.over(parse).median()
        );
    }
    out
}

fn micros(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6
}

/// A `write` of a source file: one long string with what source files have in them.
fn input(bytes: usize) -> Value {
    let line = "    let total = items.iter().map(|item| item.price * item.count).sum::<u64>(); // \"sum\"\n";
    let content: String = line.chars().cycle().take(bytes.saturating_sub(40)).collect();
    json!({ "content": content, "path": "src/total.rs" })
}

fn origin() -> CallOrigin {
    CallOrigin {
        caller: Caller::Model,
        plugin: None,
        served_by: "pith/files".to_owned(),
        digest: None,
        parent_call_id: None,
        depth: 0,
        authorities: vec!["files=workspace:rw".to_owned()],
    }
}

fn scope(session: &Session) -> CallScope {
    let outbox = Outbox::new();
    let facts = RunFacts {
        model: Some("bench/bench".to_owned()),
        thinking: ThinkingLevel::Off,
        turn: 0,
        face: "library".to_owned(),
        interactive: false,
        window_tokens: None,
        used_tokens: None,
    };
    CallScope {
        session: session.clone(),
        facts: Arc::new(facts),
        caller: Caller::Model,
        cancel: CancellationToken::new(),
        progress: Progress::new(outbox.clone(), "c".to_owned(), "write".to_owned(), Value::Null),
        outbox,
    }
}

/// The shipped plugins with their grants, as the binary loads them.
fn load(work: &Path) -> PluginHost {
    let folder = |name: &str| {
        let path = work.join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        path.canonicalize().expect("just made")
    };
    let spool = pith_os::SpoolDir::new(folder("spool")).expect("a folder");
    let plugins = pith_bundle::shipped()
        .iter()
        .map(|plugin| PluginSource {
            name: plugin.name.to_owned(),
            publisher: "pith".to_owned(),
            code: PluginCode::Bytes(Cow::Borrowed(plugin.component)),
            grants: plugin.grants.iter().map(|grant| grant.parse().expect("a capability")).collect(),
            settings: json!({}),
            limits: Limits::default(),
            is_shipped: true,
            inherits_environment: false,
        })
        .collect();
    PluginHost::load(HostConfig {
        cache_dir: target_folder().join("tmp/pith-cache/pith/compiled"),
        places: Places {
            workspace: folder("work"),
            spool: spool.path().to_owned(),
            plugin_data: folder("data"),
            temp: folder("temp"),
            skills: Vec::new(),
            reserved: Vec::new(),
        },
        spool,
        plugins,
        environment: Vec::new(),
        reserved_tools: Vec::new(),
        log: Arc::new(NoLog),
    })
    .expect("the shipped plugins load")
}

/// Keeps nothing: what is measured here appends nothing.
struct Nowhere;

impl Store for Nowhere {
    fn append(&self, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&self, _: u64, _: usize) -> Result<Vec<u8>, StoreError> {
        Ok(Vec::new())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Spool for Nowhere {
    fn keep(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

struct Nobody;

impl Person for Nobody {
    fn is_there(&self) -> bool {
        false
    }

    fn decide<'a>(&'a self, _: &'a CanonicalCall, _: &'a [AskedQuestion]) -> BoxFuture<'a, Option<Decision>> {
        Box::pin(async { None })
    }
}
