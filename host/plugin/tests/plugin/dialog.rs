//! `dialog`, with a guest that asks and an embedder's person who answers when the test says so.

use crate::{
    guests::{Tool, gate},
    house::{House, Talk, canonical, said},
};
use futures::future::BoxFuture;
use pith_core::{
    Answer, AskedQuestion, CannotAsk, CanonicalCall, Choice, Decision, Field, FieldKind, Hooks, Person, PluginQuestion,
    Verdict, Wanted,
};
use pith_plugin::{PluginHost, limits};
use pith_protocol::{CallOrigin, Caller};
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};

type Asked = (PluginQuestion, oneshot::Sender<Option<Answer>>);

/// Hands every question over.
struct AtHand(mpsc::Sender<Asked>);

impl Person for AtHand {
    fn is_there(&self) -> bool {
        true
    }

    fn decide<'a>(&'a self, _: &'a CanonicalCall, _: &'a [AskedQuestion]) -> BoxFuture<'a, Option<Decision>> {
        Box::pin(async { None })
    }

    fn ask<'a>(&'a self, question: &'a PluginQuestion) -> BoxFuture<'a, Result<Option<Answer>, CannotAsk>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.0.send((question.clone(), answer)).await.map_err(|_| CannotAsk)?;
            Ok(answered.await.ok().flatten())
        })
    }
}

/// Decides about calls only.
struct Judge;

impl Person for Judge {
    fn is_there(&self) -> bool {
        true
    }

    fn decide<'a>(&'a self, _: &'a CanonicalCall, _: &'a [AskedQuestion]) -> BoxFuture<'a, Option<Decision>> {
        Box::pin(async { None })
    }
}

const WORLD: &str = "import pith:plugin/dialog@0.1.0;";
const CONFIRM: &str =
    r#"(import "pith:plugin/dialog@0.1.0" "confirm" (func $confirm (param i32 i32 i32 i32 i32 i32 i32)))"#;
/// Words at 300 ("yes"), 304 ("no"), 308 ("none"), 320 (the title), 340 (the detail).
const WORDS: [(usize, &str); 5] = [(300, "yes"), (304, "no"), (308, "none"), (320, "Shall I?"), (340, "all of it")];

/// Asks whether it may, with a timeout in milliseconds where one is given; leaves the answer at 160.
fn confirm(timeout: Option<u32>) -> String {
    let (is_some, timeout) = (u8::from(timeout.is_some()), timeout.unwrap_or(0));
    format!(
        "(call $confirm (i32.const 320) (i32.const 8) (i32.const 340) (i32.const 9) (i32.const {is_some}) (i32.const {timeout}) (i32.const 160))"
    )
}

/// Says what was answered, or the error.
const SAY_ANSWER: &str = "
    (if (i32.load8_u (i32.const 160)) (then (return (call $say (i32.load (i32.const 168)) (i32.load (i32.const 172))))))
    (if (i32.eqz (i32.load8_u (i32.const 164))) (then (return (call $say (i32.const 308) (i32.const 4)))))
    (if (result i32) (i32.load8_u (i32.const 165))
        (then (call $say (i32.const 300) (i32.const 3))) (else (call $say (i32.const 304) (i32.const 2))))";

fn asking(body: &str) -> Vec<u8> {
    Tool { world: WORLD, imports: CONFIRM, constants: WORDS.to_vec(), body, ..Tool::default() }.build()
}

fn confirming(timeout: Option<u32>) -> Vec<u8> {
    asking(&format!("{} {SAY_ANSWER}", confirm(timeout)))
}

const GRANTS: &[&str] = &["tools", "dialog"];

/// A loaded guest, a session with a person, and where the questions come out.
fn at_hand(house: &House) -> (Arc<PluginHost>, Arc<Talk>, mpsc::Receiver<Asked>) {
    let (asked, questions) = mpsc::channel(8);
    let mut talk = house.session("one");
    talk.person = Arc::new(AtHand(asked));
    (Arc::new(house.load().unwrap()), Arc::new(talk), questions)
}

/// Calls the tool beside the test.
fn calls(host: &Arc<PluginHost>, talk: &Arc<Talk>, tool: &'static str) -> tokio::task::JoinHandle<String> {
    let (host, talk) = (host.clone(), talk.clone());
    tokio::spawn(async move { said(&talk.call(&host, tool, json!({})).await) })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_asks_in_its_name_and_is_told_the_answer() {
    let house = House::with(&[("mine", confirming(None), GRANTS)]);
    let (host, talk, mut questions) = at_hand(&house);
    for (answer, told) in [
        (Some(Answer::Yes(true)), "yes"),
        (Some(Answer::Yes(false)), "no"),
        (None, "none"),
        (Some(Answer::Chosen(1)), "the answer was none to this question"),
    ] {
        let call = calls(&host, &talk, "try");
        let (question, answers) = questions.recv().await.unwrap();
        let wanted = Wanted::Confirm { detail: "all of it".to_owned() };
        assert_eq!(question, PluginQuestion { plugin: "mine".to_owned(), title: "Shall I?".to_owned(), wanted });
        answers.send(answer).unwrap();
        assert_eq!(call.await.unwrap(), told);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_only_decides_is_nobody_to_ask() {
    let house = House::with(&[("mine", confirming(None), GRANTS)]);
    let host = house.load().unwrap();
    let mut talk = house.session("one");
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "nobody can answer here");
    talk.person = Arc::new(Judge);
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "nobody can answer here");
}

/// A tool that calls one function of the import; `shape` is what follows the title.
fn other(function: &str, params: usize, shape: &str, say: &str, constants: &[(usize, &'static str)]) -> Vec<u8> {
    let imports = format!(
        r#"(import "pith:plugin/dialog@0.1.0" "{function}" (func $ask (param {} i32)))"#,
        "i32 ".repeat(params - 1)
    );
    let body = format!(
        "(call $ask (i32.const 320) (i32.const 8) {shape} (i32.const 160))
         (if (i32.load8_u (i32.const 160)) (then (return (call $say (i32.load (i32.const 168)) (i32.load (i32.const 172))))))
         (if (i32.eqz (i32.load8_u (i32.const 164))) (then (return (call $say (i32.const 308) (i32.const 4)))))
         {say}"
    );
    let constants = WORDS.iter().chain(constants).copied().collect();
    Tool { world: WORLD, imports: &imports, constants, body: &body, ..Tool::default() }.build()
}

/// Says the string that was answered.
const SAY_STRING: &str = "(call $say (i32.load (i32.const 168)) (i32.load (i32.const 172)))";
/// Says "yes" where the second was chosen.
const SAY_SECOND: &str = "(if (i32.ne (i32.load (i32.const 168)) (i32.const 1)) (then unreachable)) (call $say (i32.const 300) (i32.const 3))";
/// Two choices without words, and no timeout: what lies at 4096 is nothing.
const TWO: &str = "(i32.const 4096) (i32.const 2) (i32.const 0) (i32.const 0)";
const SCHEMA: &str =
    r#"{"type":"object","properties":{"b":{"type":"boolean"},"a":{"type":"integer"}},"required":["a"]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_question_has_its_kind_of_answer() {
    let text = |text: &str| Some(Answer::Text(text.to_owned()));
    let choice = || Choice { label: String::new(), description: None };
    let field = |name: &str, is_required, kind| Field {
        name: name.to_owned(),
        title: None,
        description: None,
        is_required,
        kind,
        default: None,
    };
    let number = FieldKind::Number { is_integer: true, min: f64::NEG_INFINITY, max: f64::INFINITY };
    let form = Wanted::Form(vec![field("b", false, FieldKind::YesNo), field("a", true, number)]);
    let values = json!({ "b": true, "a": 1 }).as_object().cloned().map(Answer::Form);
    let placeholder = "(i32.const 1) (i32.const 340) (i32.const 9) (i32.const 0) (i32.const 0)";
    let initial = "(i32.const 340) (i32.const 9)";
    let schema = format!("(i32.const 2048) (i32.const {})", SCHEMA.len());
    for (function, params, shape, say, wanted, answer, told) in [
        ("choose", 7, TWO, SAY_SECOND, Wanted::Choice(vec![choice(), choice()]), Some(Answer::Chosen(1)), "yes"),
        (
            "choose",
            7,
            TWO,
            SAY_SECOND,
            Wanted::Choice(vec![choice(), choice()]),
            Some(Answer::Chosen(2)),
            "the answer was none to this question",
        ),
        (
            "ask",
            8,
            placeholder,
            SAY_STRING,
            Wanted::Line { placeholder: Some("all of it".to_owned()) },
            text("words"),
            "words",
        ),
        ("edit", 5, initial, SAY_STRING, Wanted::Text { text: "all of it".to_owned() }, text("a\nb"), "a\nb"),
        ("edit", 5, initial, SAY_STRING, Wanted::Text { text: "all of it".to_owned() }, None, "none"),
        ("form", 5, &schema, SAY_STRING, form, values, r#"{"a":1,"b":true}"#),
    ] {
        let guest = other(function, params, shape, say, &[(2048, SCHEMA)]);
        let house = House::with(&[("mine", guest, GRANTS)]);
        let (host, talk, mut questions) = at_hand(&house);
        let call = calls(&host, &talk, "try");
        let (question, answers) = questions.recv().await.unwrap();
        assert_eq!(question.wanted, wanted, "{function}");
        answers.send(answer).unwrap();
        assert_eq!(call.await.unwrap(), told, "{function}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_has_its_limits() {
    let (long, many) = (limits::QUESTION_BYTES + 1, limits::QUESTION_PARTS + 1);
    let long = format!("(i32.const 4096) (i32.const {long})");
    let choices = |count: usize| format!("(i32.const 4096) (i32.const {count}) (i32.const 0) (i32.const 0)");
    for (function, params, shape, words) in [
        ("edit", 5, long.clone(), "at most 64 KiB of words"),
        ("form", 5, long, "at most 64 KiB of words"),
        ("form", 5, "(i32.const 340) (i32.const 9)".to_owned(), "no JSON"),
        ("choose", 7, choices(many), "1 to 100 choices, not 101"),
        ("choose", 7, choices(0), "1 to 100 choices, not 0"),
    ] {
        let guest = other(function, params, &shape, SAY_STRING, &[]);
        let house = House::with(&[("mine", guest, GRANTS)]);
        let (host, talk, _questions) = at_hand(&house);
        let told = said(&talk.call(&host, "try", json!({})).await);
        assert!(told.contains(words), "{function}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_seventh_question_in_a_minute_is_refused() {
    let house = House::with(&[("mine", confirming(None), GRANTS)]);
    let (host, talk, mut questions) = at_hand(&house);
    let began = Instant::now();
    for _ in 0..limits::QUESTIONS_A_MINUTE {
        let call = calls(&host, &talk, "try");
        questions.recv().await.unwrap().1.send(None).unwrap();
        assert_eq!(call.await.unwrap(), "none");
    }
    let told =
        tokio::time::timeout(Duration::from_secs(50), talk.call(&host, "try", json!({}))).await.map(|call| said(&call));
    assert!(began.elapsed() < Duration::from_secs(50), "this machine is too slow to ask seven times in a minute");
    assert!(told.unwrap().contains("6 questions were asked within a minute"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_question_of_a_plugin_is_open_and_other_plugins_may_ask() {
    let second = Tool {
        name: "other",
        world: WORLD,
        imports: CONFIRM,
        constants: WORDS.to_vec(),
        body: &format!("{} {SAY_ANSWER}", confirm(None)),
        ..Tool::default()
    };
    let house = House::with(&[("mine", confirming(None), GRANTS), ("yours", second.build(), GRANTS)]);
    let (host, talk, mut questions) = at_hand(&house);
    let first = calls(&host, &talk, "try");
    let (_, answers) = questions.recv().await.unwrap();
    assert!(said(&talk.call(&host, "try", json!({})).await).contains("another question of this plugin is open"));
    // In another session too: it is the same person.
    let mut beside = house.session("two");
    beside.person = talk.person.clone();
    assert!(said(&beside.call(&host, "try", json!({})).await).contains("another question of this plugin is open"));
    let other = calls(&host, &talk, "other");
    let (question, others) = questions.recv().await.unwrap();
    assert_eq!(question.plugin, "yours");
    others.send(Some(Answer::Yes(true))).unwrap();
    answers.send(Some(Answer::Yes(false))).unwrap();
    assert_eq!((first.await.unwrap().as_str(), other.await.unwrap().as_str()), ("no", "yes"));
}

/// The wait is longer than the call's deadline, which goes on afterwards; on the runtime's threads and on one of its own.
#[tokio::test(flavor = "multi_thread")]
async fn the_person_costs_the_call_no_time() {
    const DEADLINE: Duration = Duration::from_millis(400);
    for grants in [GRANTS, &["tools", "dialog", "files=workspace:r"]] {
        for (ending, told) in [
            (SAY_ANSWER, "yes"),
            ("(loop $on (br $on)) unreachable", "fault tools.call: exceeded its deadline of 400 ms"),
        ] {
            let mut house = House::new();
            let guest = asking(&format!("{} {ending}", confirm(None)));
            house.add("mine", guest, grants).limits.tool_deadline = DEADLINE;
            let (host, talk, mut questions) = at_hand(&house);
            let call = calls(&host, &talk, "try");
            let (_, answers) = questions.recv().await.unwrap();
            tokio::time::sleep(DEADLINE * 2).await;
            answers.send(Some(Answer::Yes(true))).expect("it still waits");
            assert_eq!(call.await.unwrap(), told, "{grants:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_waited_for_without_end() {
    // By the plugin's own limit, which is at most `QUESTION_WAIT`; by the guest's.
    for (wait, timeout) in [(Duration::from_millis(50), None), (limits::QUESTION_WAIT, Some(50))] {
        let mut house = House::new();
        house.add("mine", confirming(timeout), GRANTS).limits.question_wait = wait;
        let (host, talk, mut questions) = at_hand(&house);
        let call = calls(&host, &talk, "try");
        let (_, mut answers) = questions.recv().await.unwrap();
        assert_eq!(call.await.unwrap(), "none");
        // The face sees that nobody waits for an answer any more.
        answers.closed().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abort_ends_the_question() {
    let house = House::with(&[("mine", confirming(None), GRANTS)]);
    let (host, talk, mut questions) = at_hand(&house);
    let call = calls(&host, &talk, "try");
    let (_, mut answers) = questions.recv().await.unwrap();
    talk.cancel.cancel();
    assert_eq!(call.await.unwrap(), "aborted");
    answers.closed().await;
    // Its place is free again.
    let mut next = house.session("two");
    next.person = talk.person.clone();
    let call = calls(&host, &Arc::new(next), "try");
    questions.recv().await.unwrap().1.send(None).unwrap();
    assert_eq!(call.await.unwrap(), "none");
}

/// A gate may ask too: its own second is not the person's.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_asks_has_its_time_back() {
    let body = format!(
        "{} (if (result i32) (i32.load8_u (i32.const 165)) (then (call $pass)) (else (call $deny)))",
        confirm(None)
    );
    let guard = gate(CONFIRM, WORLD, &body);
    let house = House::with(&[("guard", guard, &["tool-gate", "dialog"])]);
    let (host, talk, mut questions) = at_hand(&house);
    for yes in [true, false] {
        let judged = {
            let (host, talk) = (host.clone(), talk.clone());
            tokio::spawn(async move {
                let origin = CallOrigin {
                    caller: Caller::Model,
                    plugin: None,
                    served_by: "x".to_owned(),
                    digest: None,
                    parent_call_id: None,
                    depth: 0,
                    authorities: Vec::new(),
                };
                host.judge(&canonical("x", json!({})), &origin, talk.scope()).await
            })
        };
        let (_, answers) = questions.recv().await.unwrap();
        tokio::time::sleep(limits::GUARD_DEADLINE + Duration::from_millis(200)).await;
        answers.send(Some(Answer::Yes(yes))).expect("it still waits");
        let verdict = if yes { Verdict::Pass } else { Verdict::Deny("not so".to_owned()) };
        assert_eq!(judged.await.unwrap()[0].verdict, Ok(verdict));
    }
}
