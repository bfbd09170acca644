//! A context that never overflows.

use crate::world::*;
use pith_core::{CompactEnd, CompactionLaw, FailureKind, ModelCompaction, SummaryPart, SummaryReason};
use pith_protocol::{
    AssistantMessage, CompactionReason, Content, Event, Image, Message, StopReason, ToolResultMessage, Usage,
    UserMessage,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// A window of 8,000 tokens: 6,000 may be used, of which the conversation has about 5,800; about 2,900 stay.
const WINDOW: u64 = 8_000;

#[tokio::test]
async fn before_a_request_that_would_take_too_much_the_older_messages_are_summed_up() {
    let world = World::new(WINDOW, vec![says("done")], vec![writes("They talked.")]);
    let agent = world.agent();
    let inbox = agent.outbox.attach();
    talk(&agent, 0..7, 450);
    let end = world.run(&agent, "go on").await;
    assert_eq!(end.stop_reason, StopReason::Stop);
    let jobs = world.jobs();
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].reason, jobs[0].part), (SummaryReason::Threshold, SummaryPart::Whole));
    assert_eq!(jobs[0].previous_summary, None);
    let summed = serde_json::to_string(&jobs[0].messages).unwrap();
    assert!(summed.contains("question 0 begins") && summed.contains("answer 3 ends") && !summed.contains("question 4"));
    let sent = text(&world.requests()[0]);
    for (part, there) in [
        ("<summary>\\nThey talked.\\n</summary>", true),
        ("answer 3", false),
        ("question 4 begins", true),
        ("answer 6 ends", true),
        ("go on", true),
    ] {
        assert_eq!(sent.contains(part), there, "{part}");
    }
    let path = agent.session.path();
    let compaction = compactions(&agent.session).remove(0);
    let kept = path.iter().find(|entry| entry.id == compaction.first_kept_entry_id).unwrap();
    assert!(
        matches!(kept.message(), Some(Message::User(user)) if user.content[0].as_text().unwrap().starts_with("question 4"))
    );
    assert!(compaction.tokens_before > 6_000, "{}", compaction.tokens_before);
    assert_eq!(compaction.from_hook, Some(true));
    assert_eq!(compaction.details, Some(json!({"own": 1, "readFiles": [], "modifiedFiles": []})));
    let checkpoint = compaction.system_message.unwrap();
    assert_eq!(checkpoint["role"], "system");
    assert_eq!(checkpoint["sections"], json!({"preamble": "You are a test."}));
    assert_eq!(checkpoint["toolsAdded"].as_array().unwrap().len(), 3);
    assert_eq!(world.reloaded().project().messages, agent.session.project().messages);
    let events = events(agent, inbox).await;
    let order: Vec<&str> = kinds(&events).into_iter().filter(|kind| !kind.starts_with("message")).collect();
    let expected = [
        "agent_start",
        "turn_start",
        "compaction_start",
        "entry_appended",
        "compaction_end",
        "turn_end",
        "agent_end",
        "agent_settled",
    ];
    assert_eq!(order, expected);
    let ended = events.iter().find(|event| event["type"] == "compaction_end").unwrap();
    assert_eq!(
        (&ended["reason"], &ended["aborted"], &ended["willRetry"]),
        (&json!("threshold"), &json!(false), &json!(false))
    );
    assert_eq!(ended["result"]["summary"], "They talked.");
    let after = ended["result"]["estimatedTokensAfter"].as_u64().unwrap();
    assert!((2_500..4_500).contains(&after), "{after}");
}

#[tokio::test]
async fn nothing_happens_below_the_limit_and_the_providers_count_decides() {
    // Estimated 4,000 of 6,000: nothing.
    let world = World::new(WINDOW, vec![says("done")], Vec::new());
    let agent = world.agent();
    talk(&agent, 0..4, 450);
    world.run(&agent, "go on").await;
    assert!(world.jobs().is_empty() && compactions(&agent.session).is_empty());
    // The provider counted more.
    let world = World::new(WINDOW, vec![says("done")], vec![writes("They talked.")]);
    let agent = world.agent();
    talk(&agent, 0..4, 450);
    agent.session.append(user("and?".to_owned())).unwrap();
    agent.session.append(Message::Assistant(said("so it is", 6_500))).unwrap();
    world.run(&agent, "go on").await;
    assert_eq!(compactions(&agent.session).len(), 1);
    // That was before the compaction: the next request is counted afresh.
    *world.0.replies.lock().unwrap() = vec![says("done")].into();
    world.run(&agent, "go on").await;
    assert_eq!(compactions(&agent.session).len(), 1);
}

#[tokio::test]
async fn between_turns_too_and_what_was_said_meanwhile_is_read() {
    let look = || Reply::Message(asks(&[("look", json!({}))]));
    let world = World::new(WINDOW, vec![look(), look(), says("done")], vec![writes("He looked.")]);
    let agent = world.agent();
    *world.0.output.lock().unwrap() = vec![Content::text(words("output", 1_300))];
    talk(&agent, 0..4, 450);
    *world.0.steered.lock().unwrap() = Some((agent.mailbox.clone(), "faster please".to_owned()));
    let end = world.run(&agent, "look twice").await;
    assert_eq!(end.stop_reason, StopReason::Stop);
    let requests = world.requests();
    assert_eq!(requests.len(), 3);
    assert!(text(&requests[2]).contains("He looked.") && text(&requests[2]).contains("faster please"));
    requests.iter().for_each(paired);
}

#[tokio::test]
async fn after_a_run_where_somebody_may_go_on() {
    for (interactive, expected) in [(true, 1), (false, 0)] {
        let reply = AssistantMessage { usage: Usage { total_tokens: 7_000, ..Usage::default() }, ..said("done", 0) };
        let world = World::with(WINDOW, vec![Reply::Message(reply)], vec![writes("They talked.")], interactive);
        let agent = world.agent();
        let inbox = agent.outbox.attach();
        talk(&agent, 0..6, 450);
        world.run(&agent, "go on").await;
        assert_eq!(compactions(&agent.session).len(), expected);
        let events = events(agent, inbox).await;
        let kinds = kinds(&events);
        assert_eq!(kinds.last(), Some(&"agent_settled"));
        if interactive {
            let place = |kind: &str| kinds.iter().position(|one| *one == kind).unwrap();
            assert!(place("agent_end") < place("compaction_start"));
        }
    }
}

#[tokio::test]
async fn a_turn_that_is_cut_is_summed_up_in_two_parts() {
    let world = World::new(WINDOW, vec![says("done")], vec![writes("The history."), writes("The beginning.")]);
    let agent = world.agent();
    talk(&agent, 0..2, 300);
    agent.session.append(user(words("the task", 100))).unwrap();
    for at in 0..5 {
        called(&agent, &format!("k{at}"), "look", json!({}), words(&format!("result {at}"), 900), false);
    }
    world.run(&agent, "").await;
    let jobs = world.jobs();
    let parts: Vec<SummaryPart> = jobs.iter().map(|job| job.part).collect();
    assert_eq!(parts, [SummaryPart::History, SummaryPart::TurnStart]);
    let summed: Vec<String> = jobs.iter().map(|job| serde_json::to_string(&job.messages).unwrap()).collect();
    assert!(summed[0].contains("question 0") && summed[0].contains("answer 1") && !summed[0].contains("the task"));
    assert!(summed[1].contains("the task begins") && summed[1].contains("result 0") && !summed[1].contains("answer"));
    let compaction = compactions(&agent.session).remove(0);
    let (history, beginning) = (compaction.summary.find("The history."), compaction.summary.find("The beginning."));
    let task = compaction.summary.find("the task begins");
    assert!(history < task && task < beginning && history.is_some(), "{}", compaction.summary);
    paired(&world.requests()[0]);
    assert!(text(&world.requests()[0]).contains("result 4 ends"));
}

#[tokio::test]
async fn an_earlier_summary_is_updated_with_what_is_new() {
    let (first, second) = (writes("First summary."), writes("Second summary."));
    let world = World::new(WINDOW, vec![says("done"), says("done")], vec![first, second]);
    let agent = world.agent();
    agent.session.append(user(words("read it", 50))).unwrap();
    called(&agent, "k1", "see", json!({"path": "./a.rs"}), words("file a", 300), false);
    called(&agent, "k2", "put", json!({"path": "b.rs", "content": "b"}), "written".to_owned(), false);
    called(&agent, "k3", "see", json!({"path": "absent.rs"}), "not there".to_owned(), true);
    called(&agent, "k4", "look", json!({"path": "folder"}), "listed".to_owned(), false);
    agent.session.append(Message::Assistant(said("I see.", 0))).unwrap();
    talk(&agent, 0..6, 480);
    world.run(&agent, "go on").await;
    talk(&agent, 6..9, 480);
    agent.session.append(user(words("and now", 50))).unwrap();
    called(&agent, "k1", "put", json!({"path": "a.rs", "content": "b"}), "written".to_owned(), false);
    called(&agent, "k2", "see", json!({"path": "c.rs"}), "c".to_owned(), false);
    talk(&agent, 9..12, 480);
    world.run(&agent, "go on").await;
    let jobs = world.jobs();
    assert_eq!(jobs.len(), 2);
    assert_eq!((&jobs[0].files_read, &jobs[0].files_modified), (&vec!["a.rs".to_owned()], &vec!["b.rs".to_owned()]));
    assert_eq!(jobs[1].previous_summary.as_deref(), Some("First summary."));
    let summed = serde_json::to_string(&jobs[1].messages).unwrap();
    assert!(!summed.contains("First summary.") && !summed.contains("file a") && !summed.contains("question 1 "));
    assert_eq!(jobs[1].files_read, ["c.rs"]);
    assert_eq!(jobs[1].files_modified, ["a.rs", "b.rs"]);
    let made = compactions(&agent.session);
    let details = json!({"own": 1, "readFiles": ["c.rs"], "modifiedFiles": ["a.rs", "b.rs"]});
    assert_eq!(made.last().unwrap().details, Some(details));
    let sent = text(world.requests().last().unwrap());
    assert!(sent.contains("Second summary.") && !sent.contains("First summary."));
}

#[tokio::test]
async fn by_hand() {
    let world = World::new(200_000, Vec::new(), vec![writes("By hand.")]);
    let agent = world.agent();
    let never = CancellationToken::new;
    assert_eq!(agent.compact(None, never()).await.unwrap(), CompactEnd::Nothing);
    talk(&agent, 0..1, 50);
    assert_eq!(agent.compact(None, never()).await.unwrap(), CompactEnd::Nothing);
    talk(&agent, 1..3, 50);
    let inbox = agent.outbox.attach();
    let CompactEnd::Compacted(result) = agent.compact(Some("names only".to_owned()), never()).await.unwrap() else {
        panic!()
    };
    assert_eq!(result.summary, "By hand.");
    let job = world.jobs().remove(0);
    assert_eq!((job.reason, job.instructions.as_deref()), (SummaryReason::Manual, Some("names only")));
    assert_eq!(job.messages.len(), 4, "the last turn stays");
    assert_eq!(agent.compact(None, never()).await.unwrap(), CompactEnd::Already);
    talk(&agent, 3..5, 50);
    // It fails: nothing changes, and the person is told.
    *world.0.writes.lock().unwrap() = vec![Writes::Refuses, Writes::Refuses].into();
    let before = agent.session.path().len();
    let CompactEnd::Failed(why) = agent.compact(None, never()).await.unwrap() else { panic!() };
    assert!(why.contains("no model answers"), "{why}");
    // It is stopped: the same.
    *world.0.writes.lock().unwrap() = vec![Writes::Hangs].into();
    assert_eq!(agent.compact(None, world.0.cancel.clone()).await.unwrap(), CompactEnd::Aborted);
    assert_eq!(agent.session.path().len(), before);
    // Nobody writes summaries: the host's own words.
    let CompactEnd::Compacted(result) = agent.compact(None, never()).await.unwrap() else { panic!() };
    assert!(result.summary.contains("not summed up") && result.summary.contains("By hand."), "{}", result.summary);
    assert!(result.summary.contains("question 3 begins"), "{}", result.summary);
    assert_eq!(compactions(&agent.session).last().unwrap().from_hook, None);
    let events = events(agent, inbox).await;
    let count = |kind: &str| kinds(&events).into_iter().filter(|one| *one == kind).count();
    assert_eq!((count("compaction_start"), count("compaction_end")), (4, 4));
    let ended: Vec<&Value> = events.iter().filter(|event| event["type"] == "compaction_end").collect();
    assert_eq!((&ended[2]["aborted"], &ended[2]["result"]), (&json!(true), &Value::Null));
    assert!(ended[1]["errorMessage"].is_string() && ended[3]["errorMessage"].is_string());
}

#[tokio::test]
async fn an_overflow_is_met_by_a_summary_then_by_a_trim_then_it_is_an_error() {
    let overflow = || Reply::Fails(FailureKind::Overflow, None);
    for (overflows, requests, stop) in [(1, 2, StopReason::Stop), (2, 3, StopReason::Stop), (3, 3, StopReason::Error)] {
        let mut replies: Vec<Reply> = (0..overflows).map(|_| overflow()).collect();
        replies.push(says("fits"));
        let world = World::new(100_000, replies, vec![writes("They talked.")]);
        let agent = world.agent();
        let inbox = agent.outbox.attach();
        talk(&agent, 0..10, 450);
        let end = world.run(&agent, "go on").await;
        assert_eq!(end.stop_reason, stop, "{overflows}");
        let sent = world.requests();
        assert_eq!(sent.len(), requests);
        assert!(sent.windows(2).all(|two| size(&two[1]) < size(&two[0]) * 3 / 4), "each is much smaller");
        assert!(sent.iter().all(|request| text(request).contains("go on")));
        assert_eq!(world.jobs().len(), 1);
        assert_eq!(world.jobs()[0].reason, SummaryReason::Overflow);
        let events = events(agent, inbox).await;
        let ended: Vec<&Value> = events.iter().filter(|event| event["type"] == "compaction_end").collect();
        assert_eq!(ended.len(), overflows.min(2));
        assert!(ended.iter().all(|event| event["reason"] == "overflow" && event["willRetry"] == true));
        if stop == StopReason::Error {
            let why = end.error_message.unwrap();
            assert!(why.starts_with("the prompt is too long (") && why.contains("shortened twice"), "{why}");
            assert_eq!(end.failure.unwrap().kind, FailureKind::Overflow);
        }
    }
}

#[tokio::test]
async fn the_window_that_a_failure_names_holds_from_then_on() {
    let replies = vec![Reply::Fails(FailureKind::Overflow, Some(4_000)), says("fits"), says("fits")];
    let world = World::new(200_000, replies, vec![writes("Short."), writes("Shorter.")]);
    let agent = world.agent();
    talk(&agent, 0..6, 450);
    world.run(&agent, "go on").await;
    assert!(size(&world.requests()[1]) <= 3_000);
    talk(&agent, 6..9, 450);
    world.run(&agent, "go on").await;
    assert_eq!(world.jobs()[1].reason, SummaryReason::Threshold, "before a request, for 3,000 are the limit now");
    assert!(size(&world.requests()[2]) <= 3_000);
}

#[tokio::test]
async fn a_reply_that_says_it_exceeded_the_window_is_kept_and_followed_by_a_compaction() {
    let world = World::with(WINDOW, vec![Reply::Message(said("long", 9_000))], vec![writes("They talked.")], true);
    let agent = world.agent();
    let inbox = agent.outbox.attach();
    talk(&agent, 0..6, 450);
    let end = world.run(&agent, "go on").await;
    assert_eq!((end.stop_reason, world.requests().len()), (StopReason::Stop, 1));
    let events = events(agent, inbox).await;
    let ended = events.iter().find(|event| event["type"] == "compaction_end").unwrap();
    assert_eq!((&ended["reason"], &ended["willRetry"]), (&json!("overflow"), &json!(false)));
}

#[tokio::test]
async fn a_reply_that_the_window_cut_is_left_out_and_asked_for_again() {
    let usage = Usage { output: 20, total_tokens: 7_990, ..Usage::default() };
    let cut = AssistantMessage { stop_reason: StopReason::Length, usage, ..said("half a rep", 0) };
    let world =
        World::new(WINDOW, vec![Reply::Message(cut.clone()), says("a whole reply")], vec![writes("They talked.")]);
    let agent = world.agent();
    talk(&agent, 0..6, 450);
    let end = world.run(&agent, "go on").await;
    assert_eq!(end.stop_reason, StopReason::Stop);
    let sent = text(&world.requests()[1]);
    assert!(!sent.contains("half a rep") && sent.contains("They talked."), "{sent}");
    // One that its own limit cut stays.
    let usage = Usage { output: 1_000, total_tokens: 7_990, ..Usage::default() };
    let world = World::new(WINDOW, vec![Reply::Message(AssistantMessage { usage, ..cut })], Vec::new());
    let agent = world.agent();
    let end = world.run(&agent, "go on").await;
    assert_eq!((end.stop_reason, world.requests().len()), (StopReason::Length, 1));
}

#[tokio::test]
async fn a_compactor_that_fails_is_replaced_by_the_hosts_own_trim() {
    let long = || writes(&"long ".repeat(10_000));
    let cases: Vec<(&str, Vec<Writes>, usize)> = vec![
        ("it trapped", vec![Writes::Traps], 1),
        ("no model answers", vec![Writes::Refuses, Writes::Refuses], 2),
        ("empty summary", vec![writes(" \n"), writes("")], 2),
        ("were asked for", vec![long(), long()], 2),
        ("no plugin here", vec![Writes::LeavesIt], 1),
    ];
    for (says_why, fails, jobs) in cases {
        let world = World::new(WINDOW, vec![says("done")], fails);
        let agent = world.agent();
        let inbox = agent.outbox.attach();
        talk(&agent, 0..8, 450);
        let end = world.run(&agent, "go on").await;
        assert_eq!(end.stop_reason, StopReason::Stop, "{says_why}");
        assert_eq!(world.jobs().len(), jobs, "{says_why}");
        let request = &world.requests()[0];
        assert!(size(request) <= 4_800, "{} after the trim: {says_why}", size(request));
        let sent = text(request);
        for part in ["question 0 begins", "were left out", "answer 7 ends", "go on"] {
            assert!(sent.contains(part), "{part}: {sent}");
        }
        assert_eq!(compactions(&agent.session)[0].from_hook, None);
        let events = events(agent, inbox).await;
        let ended = events.iter().find(|event| event["type"] == "compaction_end").unwrap();
        assert!(ended["errorMessage"].as_str().unwrap().contains(says_why), "{ended}");
        assert!(ended["result"]["summary"].is_string());
    }
    // The second try counts.
    let world = World::new(WINDOW, vec![says("done")], vec![Writes::Refuses, writes("At last.")]);
    let agent = world.agent();
    talk(&agent, 0..8, 450);
    world.run(&agent, "go on").await;
    assert!(text(&world.requests()[0]).contains("At last."));
}

#[tokio::test]
async fn a_run_does_not_ask_for_summaries_that_keep_failing() {
    let look = || Reply::Message(asks(&[("look", json!({}))]));
    let replies = vec![look(), look(), look(), look(), look(), look(), says("done")];
    let world = World::new(WINDOW, replies, (0..9).map(|_| Writes::Traps).collect());
    let agent = world.agent();
    *world.0.output.lock().unwrap() = (0..4).map(|_| Content::text(words("output", 700))).collect();
    let end = world.run(&agent, "look a lot").await;
    assert_eq!(end.stop_reason, StopReason::Stop);
    assert_eq!(world.jobs().len(), 2);
    let requests = world.requests();
    requests.iter().for_each(paired);
    assert!(requests.iter().all(|request| size(request) <= 6_000));
    assert!(requests.iter().all(|request| text(request).contains("look a lot")), "the task is never lost");
}

#[tokio::test]
async fn old_results_are_shortened_before_anything_is_left_out() {
    let world = World::new(WINDOW, vec![says("done")], Vec::new());
    let agent = world.agent();
    let inbox = agent.outbox.attach();
    agent.session.append(user("read them".to_owned())).unwrap();
    for at in 0..5 {
        called(&agent, &format!("k{at}"), "look", json!({}), words(&format!("result {at}"), 1_250), false);
    }
    world.run(&agent, "and?").await;
    let request = &world.requests()[0];
    let sent = text(request);
    assert!(compactions(&agent.session).is_empty());
    for at in 0..5 {
        assert!(sent.contains(&format!("result {at} begins")) && sent.contains(&format!("result {at} ends")), "{at}");
    }
    assert!(sent.contains("bytes left out"), "{sent}");
    assert!(sent.contains(&words("result 4", 1_250)), "the newest is whole");
    assert!(size(request) <= 4_500, "{}", size(request));
    paired(request);
    let reloaded = world.reloaded();
    assert_eq!(reloaded.project().messages, agent.session.project().messages);
    let whole = agent.session.path().iter().any(|entry| {
        matches!(entry.message(), Some(Message::ToolResult(result)) if result.content[0].as_text() == Some(&words("result 0", 1_250)))
    });
    assert!(whole, "the session keeps it");
    let events = events(agent, inbox).await;
    assert!(
        events
            .iter()
            .any(|event| event["type"] == "notice" && event["message"].as_str().unwrap().contains("shortened"))
    );
}

#[tokio::test]
async fn nothing_is_too_large_to_go_on() {
    let picture = || Content::Image(Image { data: "AAAA".to_owned(), mime_type: "image/png".to_owned() });
    let huge = 60_000;
    let prompt = |content: Vec<Content>| Message::User(UserMessage { content, timestamp: 0 });
    let result = |content: Vec<Content>| {
        Message::ToolResult(ToolResultMessage {
            tool_call_id: "c0".to_owned(),
            tool_name: "look".to_owned(),
            content,
            ..ToolResultMessage::default()
        })
    };
    let ask = |arguments| Message::Assistant(asks(&[("put", arguments)]));
    let many: Vec<(&str, Value)> = (0..300).map(|_| ("look", json!({"path": "some/where/in/the/tree"}))).collect();
    let cases: Vec<(&str, Vec<Message>)> = vec![
        ("a huge prompt", vec![prompt(vec![Content::text(words("prompt", huge))])]),
        (
            "a huge prompt in many pieces",
            vec![prompt((0..9_000).map(|at| Content::text(format!("piece {at}"))).collect())],
        ),
        ("many pictures", vec![prompt((0..20).map(|_| picture()).collect())]),
        (
            "a huge result",
            vec![
                user("look".to_owned()),
                Message::Assistant(asks(&[("look", json!({}))])),
                result(vec![Content::text(words("r", huge))]),
            ],
        ),
        (
            "a result of pictures",
            vec![
                user("look".to_owned()),
                Message::Assistant(asks(&[("look", json!({}))])),
                result((0..9).map(|_| picture()).collect()),
            ],
        ),
        (
            "huge arguments",
            vec![
                user("write".to_owned()),
                ask(json!({"path": "a", "content": words("c", huge)})),
                result(vec![Content::text("ok")]),
            ],
        ),
        (
            "arguments that are no text",
            vec![
                user("write".to_owned()),
                ask(json!({"path": "a", "content": "", "list": (0..huge).collect::<Vec<_>>()})),
                result(Vec::new()),
            ],
        ),
        ("a huge reply", vec![user("write".to_owned()), Message::Assistant(said(&words("reply", huge), 0))]),
        ("many calls at once", vec![user("write".to_owned()), Message::Assistant(asks(&many))]),
    ];
    for (what, messages) in cases {
        for before in [0, 5] {
            let world = World::new(WINDOW, vec![Reply::Windowed(6_100, "fits")], Vec::new());
            let agent = world.agent();
            talk(&agent, 0..before, 300);
            for message in &messages {
                agent.session.append(message.clone()).unwrap();
            }
            let end = world.run(&agent, "what now?").await;
            assert_eq!(end.stop_reason, StopReason::Stop, "{what}: {end:?}");
            let request = &world.requests()[0];
            assert!(text(request).contains("what now?"), "{what}");
            paired(request);
            assert_eq!(world.reloaded().project().messages, agent.session.project().messages, "{what}");
        }
    }
}

#[tokio::test]
async fn the_prompt_itself_may_be_what_is_too_large() {
    let world = World::new(WINDOW, vec![Reply::Windowed(6_100, "fits")], Vec::new());
    let agent = world.agent();
    talk(&agent, 0..3, 300);
    let end = world.run(&agent, &words("prompt", 60_000)).await;
    assert_eq!(end.stop_reason, StopReason::Stop);
    let sent = text(&world.requests()[0]);
    assert!(sent.contains("prompt begins") && sent.contains("prompt ends"));
    // Or the sections and tools: then that is the error.
    let world = World::new(WINDOW, vec![Reply::Windowed(6_100, "fits")], Vec::new());
    let agent = world.agent();
    let sections = vec![("preamble".to_owned(), words("section", 9_000))];
    let end = agent.run(vec![Content::text("go")], sections, CancellationToken::new()).await.unwrap();
    let why = end.error_message.unwrap();
    assert!(why.contains("the prompt and the tools alone take about 9"), "{why}");
    assert_eq!(world.requests().len(), 1);
}

#[tokio::test]
async fn a_stop_during_a_compaction_loses_nothing() {
    let world = World::new(WINDOW, Vec::new(), vec![Writes::Hangs]);
    let agent = world.agent();
    let inbox = agent.outbox.attach();
    talk(&agent, 0..8, 450);
    let end = world.run(&agent, "go on").await;
    assert_eq!(end.stop_reason, StopReason::Aborted);
    assert!(compactions(&agent.session).is_empty() && world.requests().is_empty());
    let session = world.reloaded();
    assert!(session.path().iter().any(
        |entry| matches!(entry.message(), Some(Message::User(user)) if user.content[0].as_text() == Some("go on"))
    ));
    let events = events(agent, inbox).await;
    let ended: Vec<&Value> = events.iter().filter(|event| event["type"] == "compaction_end").collect();
    assert_eq!(ended.len(), 1);
    assert_eq!((&ended[0]["aborted"], &ended[0]["willRetry"]), (&json!(true), &json!(false)));
}

#[tokio::test]
async fn switched_off_nothing_is_summed_up_and_the_error_says_what_to_do() {
    let law = CompactionLaw { enabled: false, ..CompactionLaw::default() };
    let world = World::new(WINDOW, vec![Reply::Windowed(6_100, "fits")], vec![writes("By hand.")]).law(law);
    let agent = world.agent();
    talk(&agent, 0..8, 450);
    let end = world.run(&agent, "go on").await;
    assert_eq!((end.stop_reason, world.requests().len()), (StopReason::Error, 1));
    let why = end.error_message.unwrap();
    assert!(why.contains("automatic compaction is off: compact by hand"), "{why}");
    assert!(world.jobs().is_empty() && compactions(&agent.session).is_empty());
    assert!(matches!(agent.compact(None, CancellationToken::new()).await.unwrap(), CompactEnd::Compacted(_)));
    // For one model only.
    let own = ModelCompaction { enabled: Some(false), ..ModelCompaction::default() };
    for (name, happens) in [("test/m", false), ("test/n", true)] {
        let models = BTreeMap::from([(name.to_owned(), own)]);
        let law = CompactionLaw { models, ..CompactionLaw::default() };
        let world = World::new(WINDOW, vec![says("done")], vec![writes("They talked.")]).law(law);
        let agent = world.agent();
        talk(&agent, 0..8, 450);
        world.run(&agent, "go on").await;
        assert_eq!(!world.jobs().is_empty(), happens, "{name}");
    }
}

#[tokio::test]
async fn a_long_run_never_dies_of_its_own_history() {
    // 60 turns of results, each of another size, through a window that a few of them fill; the compactor works now and then.
    let mut replies: Vec<Reply> = Vec::new();
    for at in 0..60 {
        replies.push(Reply::Message(asks(&[("look", json!({})), ("see", json!({"path": format!("f{at}.rs")}))])));
    }
    replies.push(Reply::Windowed(6_000, "done"));
    let writes = (0..200).map(|at| match at % 5 {
        0 => Writes::Traps,
        1 => Writes::Refuses,
        2 => writes("S".repeat(900).as_str()),
        3 => writes(""),
        _ => Writes::LeavesIt,
    });
    let world = World::new(WINDOW, replies, writes.collect());
    let agent = world.agent();
    *world.0.output.lock().unwrap() = vec![Content::text(words("output", 600))];
    let end = world.run(&agent, "the long task").await;
    assert_eq!(end.stop_reason, StopReason::Stop);
    for request in world.requests() {
        assert!(size(&request) <= 6_000, "{}", size(&request));
        assert!(text(&request).contains("the long task"));
        paired(&request);
    }
    let last = compactions(&agent.session).pop().unwrap();
    let read = last.details.unwrap()["readFiles"].as_array().unwrap().len();
    assert!((40..60).contains(&read), "{read}");
}

#[tokio::test]
async fn the_reasons_are_told_apart() {
    let reason = |reason: CompactionReason| serde_json::to_value(Event::CompactionStart { reason }).unwrap();
    assert_eq!(reason(CompactionReason::Manual), json!({"type": "compaction_start", "reason": "manual"}));
    assert_eq!(reason(CompactionReason::Overflow), json!({"type": "compaction_start", "reason": "overflow"}));
}
