//! Compactors, well and ill, and guests that ask the session's model.

use crate::{
    guests::{MODELS_IMPORT, MODELS_WORLD, Tool, WAIT, WAIT_IMPORTS, WAIT_WORLD, ask, compactor},
    house::{House, Talk, said},
};
use pith_core::{FailureKind, Hooks, Stop, Summarised, SummaryJob, SummaryPart, SummaryReason};
use pith_plugin::{
    Limits, PluginHost,
    limits::{COMPACTOR_DEADLINE, MODEL_REQUEST_BYTES, MODEL_REQUESTS, MODEL_WAIT, SUMMARY_BYTES},
};
use pith_protocol::{Content, Message, UserMessage};
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

fn job() -> SummaryJob {
    let user = UserMessage { content: vec![Content::text("a question")], timestamp: 0 };
    SummaryJob {
        reason: SummaryReason::Manual,
        part: SummaryPart::Whole,
        messages: vec![Arc::new(Message::User(user))],
        previous_summary: None,
        instructions: None,
        files_read: Vec::new(),
        files_modified: Vec::new(),
        limit_tokens: 500,
    }
}

async fn summarised(host: &PluginHost, talk: &Talk) -> String {
    match host.summarise(&job(), talk.scope()).await {
        Summarised::None => "none".to_owned(),
        Summarised::Summary { plugin, text, .. } => format!("{plugin}: {text}"),
        Summarised::Stopped { plugin, stop: Stop::Refused(refusal) } => {
            format!("{plugin} refused: {}", refusal.message)
        }
        Summarised::Stopped { stop: Stop::Fault(fault), .. } => fault.to_string(),
    }
}

const GRANTS: &[&str] = &["compactor"];

fn giving() -> Vec<u8> {
    compactor("", "", &[], "(call $give (i32.const 256) (i32.const 4))")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_that_does_not_leave_it_to_the_next_writes_it() {
    let none = compactor("", "", &[], "(call $none)");
    let house =
        House::with(&[("first", none.clone(), GRANTS), ("second", giving(), GRANTS), ("third", giving(), GRANTS)]);
    assert_eq!(summarised(&house.load().unwrap(), &house.session("one")).await, "second: done");
    let house = House::with(&[("only", none, GRANTS)]);
    assert_eq!(summarised(&house.load().unwrap(), &house.session("one")).await, "none");
    assert_eq!(summarised(&House::with(&[]).load().unwrap(), &house.session("one")).await, "none");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_grant_it_does_not_start() {
    let house = House::with(&[("mine", giving(), &[])]);
    let error = house.load().err().unwrap().to_string();
    assert!(error.contains("mine") && error.contains("compactor"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_gives_or_fails_with_costs_its_call_and_the_third_fault_disables_it() {
    let long = format!("(call $give (i32.const 0) (i32.const {}))", SUMMARY_BYTES + 1);
    let grown = format!("(drop (memory.grow (i32.const 64))) {long}");
    for (body, told) in [
        ("unreachable", "plugin ill failed in compactor.compact"),
        (grown.as_str(), "a summary, too long,"),
        ("(call $give (i32.const -16) (i32.const 4))", "plugin ill failed in compactor.compact"),
    ] {
        let house = House::with(&[("ill", compactor("", "", &[], body), GRANTS), ("well", giving(), GRANTS)]);
        let (host, talk) = (house.load().unwrap(), house.session("one"));
        for _ in 0..3 {
            let text = summarised(&host, &talk).await;
            assert!(text.contains(told), "{body}: {text}");
        }
        let text = summarised(&host, &talk).await;
        assert!(text.contains("disabled after 3 faults"), "{body}: {text}");
    }
    let refusing = compactor("", "", &[], "(call $refuse (i32.const 4) (i32.const 256) (i32.const 4))");
    let house = House::with(&[("mine", refusing, GRANTS)]);
    assert_eq!(summarised(&house.load().unwrap(), &house.session("one")).await, "mine refused: done");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_compactor() {
    assert_eq!(Limits::default().compactor_deadline, COMPACTOR_DEADLINE);
    let waiting = compactor(WAIT_WORLD, WAIT_IMPORTS, &[], &format!("{WAIT} (call $none)"));
    for guest in [compactor("", "", &[], "(loop $for_ever (br $for_ever)) unreachable"), waiting] {
        let mut house = House::with(&[("slow", guest, GRANTS)]);
        house.plugins[0].limits.compactor_deadline = Duration::from_millis(200);
        let (host, talk, began) = (house.load().unwrap(), house.session("one"), Instant::now());
        let text = summarised(&host, &talk).await;
        assert!(text.contains("compactor.compact"), "{text}");
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}

/// Asks once and gives what it was answered: the first block's text, or the error's words.
fn asking(length: usize) -> Vec<u8> {
    // result<assistant-message, error> at 700: the blocks are at 704, a block's text at 4 from its place; an error's words at 708.
    let body = format!(
        "{}
        (if (i32.load8_u (i32.const 700)) (then
            (return (call $refuse (i32.load8_u (i32.const 704)) (i32.load (i32.const 708)) (i32.load (i32.const 712))))))
        (local.set $i (i32.load (i32.const 704)))
        (call $give (i32.load offset=4 (local.get $i)) (i32.load offset=8 (local.get $i)))",
        ask(256, length)
    );
    compactor(MODELS_WORLD, MODELS_IMPORT, &[], &body)
}

const ASKS: &[&str] = &["compactor", "models"];

#[tokio::test(flavor = "multi_thread")]
async fn the_sessions_model_is_asked_and_its_tokens_are_noted_under_the_plugin() {
    let house = House::with(&[("mine", asking(4), ASKS)]);
    let (host, talk) = (house.load().unwrap(), house.session("one"));
    talk.model.will_fail(FailureKind::Unavailable, "busy");
    talk.model.will_say("the summary");
    assert_eq!(summarised(&host, &talk).await, "mine: the summary");
    let asked = talk.model.asked.lock().unwrap();
    assert_eq!(asked.len(), 2, "one that failed is tried again");
    let text = serde_json::to_value(&asked[1].messages).unwrap();
    assert_eq!(text[0]["content"][0]["text"], "done");
    assert!(asked[1].tools.is_empty() && asked[1].cache_key.is_none());
    let spent = talk.spent.take();
    assert_eq!(spent.len(), 1);
    assert_eq!((spent[0].who.as_str(), spent[0].usage.total_tokens), ("mine", 110));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_refuses_is_a_refusal() {
    for kind in [FailureKind::Unauthorized, FailureKind::Overflow, FailureKind::Refused] {
        let house = House::with(&[("mine", asking(4), ASKS)]);
        let (host, talk) = (house.load().unwrap(), house.session("one"));
        talk.model.will_fail(kind, "no, because");
        assert_eq!(summarised(&host, &talk).await, "mine refused: no, because");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_the_grant_does_not_name_is_not_asked() {
    let house = House::with(&[("mine", asking(4), &["compactor", "models=other/model"])]);
    let (host, talk) = (house.load().unwrap(), house.session("one"));
    talk.model.will_say("never");
    let text = summarised(&host, &talk).await;
    assert!(text.contains("--grant mine:models=test/model"), "{text}");
    assert!(talk.model.asked.lock().unwrap().is_empty());
    // Without any grant for models it does not even start.
    let error = House::with(&[("mine", asking(4), GRANTS)]).load().err().unwrap().to_string();
    assert!(error.contains("models"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_its_limits() {
    let pages = MODEL_REQUEST_BYTES / 65_536 + 4;
    let mut long = asking(MODEL_REQUEST_BYTES + 1);
    let house = House::with(&[("mine", std::mem::take(&mut long), ASKS)]);
    let text = summarised(&house.load().unwrap(), &house.session("one")).await;
    // Its memory is smaller than what it says that it has.
    assert!(text.contains("compactor.compact"), "{text}");
    let body = format!(
        "(drop (memory.grow (i32.const {pages}))) {} (call $refuse (i32.load8_u (i32.const 704)) (i32.load (i32.const 708)) (i32.load (i32.const 712)))",
        ask(131_072, MODEL_REQUEST_BYTES + 1)
    );
    let house = House::with(&[("mine", compactor(MODELS_WORLD, MODELS_IMPORT, &[], &body), ASKS)]);
    let text = summarised(&house.load().unwrap(), &house.session("one")).await;
    assert!(text.contains("at most 8 MiB"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_asks_only_so_often() {
    let body = format!(
        "(loop $more {} (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $more (i32.le_u (local.get $i) (i32.const {MODEL_REQUESTS}))))
        (call $refuse (i32.load8_u (i32.const 704)) (i32.load (i32.const 708)) (i32.load (i32.const 712)))",
        ask(256, 4)
    );
    let house = House::with(&[("mine", compactor(MODELS_WORLD, MODELS_IMPORT, &[], &body), ASKS)]);
    let (host, talk) = (house.load().unwrap(), house.session("one"));
    for _ in 0..=MODEL_REQUESTS {
        talk.model.will_say("again");
    }
    let text = summarised(&host, &talk).await;
    assert!(text.contains(&format!("at most {MODEL_REQUESTS} times")), "{text}");
    assert_eq!(talk.model.asked.lock().unwrap().len(), MODEL_REQUESTS as usize);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_does_not_answer_is_waited_for_beside_the_calls_own_time() {
    assert_eq!(Limits::default().model_wait, MODEL_WAIT);
    let mut house = House::with(&[("mine", asking(4), ASKS)]);
    house.plugins[0].limits.compactor_deadline = Duration::from_millis(100);
    house.plugins[0].limits.model_wait = Duration::from_millis(400);
    let (host, talk, began) = (house.load().unwrap(), house.session("one"), Instant::now());
    let text = summarised(&host, &talk).await;
    assert_eq!(text, "mine refused: the model gave no answer within 0.4 s");
    assert!(began.elapsed() >= Duration::from_millis(400));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abort_ends_the_wait_for_a_model() {
    let house = House::with(&[("mine", asking(4), ASKS)]);
    let (host, talk) = (Arc::new(house.load().unwrap()), Arc::new(house.session("one")));
    let going = tokio::spawn({
        let (host, talk) = (host.clone(), talk.clone());
        async move { summarised(&host, &talk).await }
    });
    while talk.model.asked.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    talk.cancel.cancel();
    let text = tokio::time::timeout(Duration::from_secs(10), going).await.unwrap().unwrap();
    // The request or the whole call, whichever notices first.
    assert!(
        ["mine refused: the run was aborted", "mine refused: the request was stopped"].contains(&text.as_str()),
        "{text}"
    );
}

/// Tools may ask as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_asks_the_model() {
    let body = format!(
        "{} (local.set $i (i32.load (i32.const 704)))
        (call $say (i32.load offset=4 (local.get $i)) (i32.load offset=8 (local.get $i)))",
        ask(256, 4)
    );
    let tool = Tool { world: MODELS_WORLD, imports: MODELS_IMPORT, body: &body, ..Tool::default() }.build();
    let house = House::with(&[("mine", tool, &["tools", "models=test/model"])]);
    let (host, talk) = (house.load().unwrap(), house.session("one"));
    talk.model.will_say("an answer");
    assert_eq!(said(&talk.call(&host, "try", json!({})).await), "an answer");
    assert_eq!(talk.spent.take()[0].who, "mine");
}
