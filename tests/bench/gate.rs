//! A gate call: the shipped gate `protect`, a fresh instance each time, against a native parse of the same bytes in the same round.

use crate::{Plan, figures::Figures};
use pith_core::{CanonicalCall, Hooks, Verdict, canonical_json};
use pith_protocol::ToolCall;
use pith_tests::{Bench, shipped_sources};
use serde_json::{Value, json};
use std::{fmt::Write, hint::black_box, sync::Arc, time::Instant};

/// The inputs: name, what the content is made of, bytes, calls in a round.
const INPUTS: [(&str, &str, usize, usize); 4] = [
    ("1 kB", SOURCE, 1_000, 200),
    ("10 kB", SOURCE, 10_000, 200),
    ("10 kB, string-heavy", DATA, 10_000, 200),
    ("1 MB", SOURCE, 1_000_000, 20),
];
/// A source file: an escape or two in a line.
const SOURCE: &str = "    let total = items.iter().map(|item| item.price * item.count).sum::<u64>(); // \"sum\"\n";
/// A data file: short strings, each with its quotes escaped.
const DATA: &str = "{\"id\": 7, \"tag\": \"a\\tb\", \"on\": true},\n";

/// The section of the report.
pub fn measure(plan: &Plan) -> String {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(rounds(plan))
}

async fn rounds(plan: &Plan) -> String {
    let bench = Bench::new(shipped_sources());
    let mut out = String::from(
        "\n## A gate call\n\nThe shipped gate `protect` judges a `write` whose input has this many bytes, a source file or (string-heavy) a data file of short quoted strings, in microseconds. It reads one field of it. \
         `gate` is the call of the gate alone, in a fresh instance; `dispatch` is everything before the tool runs: parse, coerce, canonical form, schema, gate. \
         `parse` is `serde_json::from_slice::<Value>` of the same bytes. Each round's figure is the median of its calls.\n\n\
         | input | parse | gate | gate / parse | gate p99 | dispatch | dispatch / parse | dispatch p99 |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut parts: Vec<[Figures; 5]> = INPUTS.iter().map(|_| Default::default()).collect();
    for round in 0..=plan.rounds {
        for ((_, line, bytes, calls), parts) in INPUTS.iter().zip(&mut parts) {
            let input = input(line, *bytes);
            let text: Arc<str> = canonical_json(&input).into();
            let call = CanonicalCall {
                id: "c".to_owned(),
                name: "write".to_owned(),
                input: Arc::new(text.to_string()),
                value: Arc::new(input.clone()),
            };
            let origin = Bench::origin("pith/files");
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
                let scope = bench.scope();
                let began = Instant::now();
                let judged = bench.host.judge(&call, &origin, scope).await;
                took[1].add(micros(began));
                assert!(judged.len() == 1 && matches!(judged[0].verdict, Ok(Verdict::Pass)), "{judged:?}");
                let scope = bench.scope();
                let began = Instant::now();
                let prepared = bench.dispatcher.prepare(&asked, None, scope).await;
                took[2].add(micros(began));
                assert!(prepared.is_ok(), "{:?}", prepared.err());
            }
            // The first round warms up.
            if round > 0 {
                let [parse, gate, dispatch] = &took;
                for (part, value) in parts.iter_mut().zip([
                    parse.median(),
                    gate.median(),
                    gate.at(0.99),
                    dispatch.median(),
                    dispatch.at(0.99),
                ]) {
                    part.add(value);
                }
            }
        }
    }
    for ((name, ..), [parse, gate, tail, dispatch, dispatch_tail]) in INPUTS.iter().zip(&parts) {
        let _ = writeln!(
            out,
            "| {name} | {:.1} | {:.1} ({:.1}) | {:.1} | {:.0} | {:.1} | {:.1} | {:.0} |",
            parse.median(),
            gate.median(),
            gate.at(0.9),
            gate.over(parse).median(),
            tail.median(),
            dispatch.median(),
            dispatch.over(parse).median(),
            dispatch_tail.median()
        );
    }
    out
}

fn micros(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6
}

/// A `write` of so many bytes, of which the gate reads the path.
fn input(line: &str, bytes: usize) -> Value {
    let content: String = line.chars().cycle().take(bytes.saturating_sub(40)).collect();
    json!({ "content": content, "path": "src/total.rs" })
}
