//! Moving in the tree, undoing, and messages that are not the user's.

use crate::world::{Reply, called, words};
use crate::world::{World, Writes, asks, compactions, paired, says, text, writes};
use pith_core::{Agent, Delivery, LeftBranch, MoveEnd, Said, SummaryReason};
use pith_protocol::{Content, CustomMessageEntry, EntryBody, EntryId, Event, Message};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A conversation of three prompts, each answered.
async fn three(replies: Vec<Reply>, summaries: Vec<Writes>) -> (World, Agent) {
    let mut all = vec![says("answer one"), says("answer two"), says("answer three")];
    all.extend(replies);
    let world = World::new(100_000, all, summaries);
    let agent = world.agent();
    for prompt in ["ask one", "ask two", "ask three"] {
        world.run(&agent, prompt).await;
    }
    (world, agent)
}

/// The entry of the user's or model's words.
fn entry(agent: &Agent, wanted: &str) -> EntryId {
    let is_it = |message: &Message| match message {
        Message::User(user) => user.content.iter().any(|block| block.as_text() == Some(wanted)),
        Message::Assistant(reply) => reply.text() == wanted,
        _ => false,
    };
    let outline = agent.session.outline();
    let found = outline
        .iter()
        .find(|node| agent.session.entry(&node.id).unwrap().is_some_and(|entry| entry.message().is_some_and(is_it)));
    found.unwrap_or_else(|| panic!("{wanted} is not there")).id.clone()
}

/// What the next request says, by a prompt whose answer is `last`.
async fn next(world: &World, agent: &Agent, prompt: &str) -> String {
    world.run(agent, prompt).await;
    let request = world.requests().pop().unwrap();
    paired(&request);
    text(&request)
}

fn moved(end: MoveEnd) -> (Option<String>, Option<String>, Option<String>) {
    let MoveEnd::Moved { words, summary, fallback, .. } = end else { panic!("{end:?}") };
    let words = words.map(|words| words.iter().filter_map(Content::as_text).collect());
    let summary = summary.map(|entry| match &entry.body {
        EntryBody::BranchSummary(branch) => branch.summary.clone(),
        other => panic!("{other:?}"),
    });
    (words, summary, fallback)
}

#[tokio::test]
async fn a_users_message_comes_back_to_be_written_anew_and_the_branch_is_left() {
    let (world, agent) = three(vec![says("another answer")], Vec::new()).await;
    let mut inbox = agent.outbox.attach();
    let end =
        agent.move_leaf(Some(&entry(&agent, "ask two")), LeftBranch::Kept, CancellationToken::new()).await.unwrap();
    assert_eq!(moved(end), (Some("ask two".to_owned()), None, None));
    assert!(matches!(inbox.next().await, Some(Event::LeafMoved { leaf_id: Some(_), from_id: Some(_) })));
    agent.outbox.close();
    let told = next(&world, &agent, "ask it otherwise").await;
    assert!(told.contains("answer one") && told.contains("ask it otherwise"), "{told}");
    assert!(!told.contains("ask two") && !told.contains("answer three"), "{told}");
    let again = text_of_path(&world.reloaded());
    assert_eq!(again, text_of_path(&agent.session));
}

fn text_of_path(session: &pith_core::Session) -> Vec<String> {
    session.path().iter().map(|entry| entry.id.to_string()).collect()
}

#[tokio::test]
async fn a_move_alone_survives_a_reload_and_a_reply_is_gone_on_from() {
    let (world, agent) = three(vec![says("more")], Vec::new()).await;
    let target = entry(&agent, "answer one");
    let end = agent.move_leaf(Some(&target), LeftBranch::Kept, CancellationToken::new()).await.unwrap();
    assert_eq!(moved(end).0, None);
    assert_eq!(text_of_path(&world.reloaded()), text_of_path(&agent.session));
    let told = next(&world, &agent, "and now").await;
    assert!(told.contains("answer one") && !told.contains("ask two"), "{told}");
    // Before the first entry nothing is left of it.
    let end = agent.move_leaf(None, LeftBranch::Kept, CancellationToken::new()).await.unwrap();
    assert!(matches!(end, MoveEnd::Moved { .. }));
    assert!(agent.session.project().messages.is_empty());
    let gone = EntryId::from("nowhere");
    assert!(agent.move_leaf(Some(&gone), LeftBranch::Kept, CancellationToken::new()).await.is_err());
}

#[tokio::test]
async fn the_branch_that_is_left_is_summed_up_where_the_session_goes_on() {
    let (world, agent) = three(vec![says("more")], vec![writes("it went wrong")]).await;
    called(&agent, "c9", "put", json!({"path": "b.rs"}), "written".to_owned(), false);
    let left = LeftBranch::SummedUp(Some("what failed".to_owned()));
    let end = agent.move_leaf(Some(&entry(&agent, "answer one")), left, CancellationToken::new()).await.unwrap();
    assert_eq!(moved(end), (None, Some("it went wrong".to_owned()), None));
    let job = world.jobs().pop().unwrap();
    assert_eq!((job.reason, job.instructions.as_deref()), (SummaryReason::Branch, Some("what failed")));
    assert_eq!(job.files_modified, ["b.rs"]);
    let first = format!("{:?}", job.messages.first().unwrap());
    assert!(first.contains("ask two"), "from the common ancestor on: {first}");
    let told = next(&world, &agent, "and now").await;
    assert!(told.contains("it went wrong") && !told.contains("answer three"), "{told}");
    assert_eq!(text_of_path(&world.reloaded()), text_of_path(&agent.session));
}

#[tokio::test]
async fn where_nobody_sums_a_branch_up_the_host_says_what_it_knows() {
    for (summaries, why) in [
        (vec![Writes::LeavesIt], None),
        (vec![Writes::Traps], Some("it trapped")),
        (vec![Writes::Refuses, Writes::Refuses], Some("no model answers")),
    ] {
        let (world, agent) = three(vec![says("more")], summaries).await;
        let left = LeftBranch::SummedUp(None);
        let end = agent.move_leaf(Some(&entry(&agent, "ask two")), left, CancellationToken::new()).await.unwrap();
        let (words, summary, fallback) = moved(end);
        let summary = summary.unwrap();
        assert_eq!(words.as_deref(), Some("ask two"));
        for known in ["2 messages of the user", "ask two", "ask three", "answer three"] {
            assert!(summary.contains(known), "{known}: {summary}");
        }
        match why {
            Some(why) => assert!(fallback.unwrap().contains(why)),
            None => assert_eq!(fallback, None),
        }
        assert!(next(&world, &agent, "on").await.contains("not summed up"));
    }
}

#[tokio::test]
async fn a_stop_during_the_summary_leaves_the_leaf_where_it_was() {
    let (world, agent) = three(Vec::new(), vec![Writes::Hangs]).await;
    let before = text_of_path(&agent.session);
    let left = LeftBranch::SummedUp(None);
    let end = agent.move_leaf(Some(&entry(&agent, "ask two")), left, world.0.cancel.clone()).await.unwrap();
    assert_eq!(end, MoveEnd::Aborted);
    assert_eq!(text_of_path(&agent.session), before);
    assert_eq!(text_of_path(&world.reloaded()), before);
}

#[tokio::test]
async fn undo_takes_exchanges_out_one_by_one_and_redo_brings_them_back() {
    let (world, agent) = three(vec![says("x"), says("y")], Vec::new()).await;
    // Results in another order than their calls, as calls beside each other give.
    let said = agent.session.append(Message::Assistant(asks(&[("look", json!({})), ("look", json!({}))]))).unwrap();
    let result = |id: &str| {
        Message::ToolResult(pith_protocol::ToolResultMessage {
            tool_call_id: id.to_owned(),
            tool_name: "look".to_owned(),
            content: vec![Content::text(format!("result {id}"))],
            ..Default::default()
        })
    };
    agent.session.append_all(vec![result("c1").into(), result("c0").into()]).unwrap();
    assert!(said.message().is_some());
    let words = |undone: Option<Vec<Content>>| undone.map(|words| words[0].as_text().unwrap().to_owned());
    let view = |agent: &Agent| format!("{:?}", agent.session.project().messages);
    let whole = view(&agent);
    assert_eq!(words(agent.undo().await.unwrap()).as_deref(), Some("ask three"));
    let one = view(&agent);
    assert!(!one.contains("ask three") && !one.contains("result c1") && one.contains("answer two"), "{one}");
    assert_eq!(words(agent.undo().await.unwrap()).as_deref(), Some("ask two"));
    agent.session.set_name(Some("a name between".to_owned())).unwrap();
    assert!(!view(&agent).contains("answer two"));
    assert!(agent.redo().await.unwrap());
    assert_eq!(view(&agent), one);
    assert!(agent.redo().await.unwrap());
    assert_eq!(view(&agent), whole);
    assert!(!agent.redo().await.unwrap());
    assert_eq!(agent.session.name().as_deref(), Some("a name between"));
    assert_eq!(text_of_path(&world.reloaded()), text_of_path(&agent.session));
    for expected in ["ask three", "ask two", "ask one"] {
        assert_eq!(words(agent.undo().await.unwrap()).as_deref(), Some(expected));
    }
    assert_eq!(agent.undo().await.unwrap(), None);
    // Once something was said, there is nothing to take back.
    let told = next(&world, &agent, "fresh").await;
    assert!(told.contains("fresh") && !told.contains("ask one"), "{told}");
    assert!(!agent.redo().await.unwrap());
}

#[tokio::test]
async fn undo_gives_the_words_as_they_were_said() {
    let (_, agent) = three(Vec::new(), Vec::new()).await;
    let id = entry(&agent, "ask three");
    agent.session.edit(&id, Some(vec![Content::text("shortened")])).unwrap();
    let undone = agent.undo().await.unwrap().unwrap();
    assert_eq!(undone[0].as_text(), Some("ask three"));
}

fn note(words: &str) -> CustomMessageEntry {
    CustomMessageEntry {
        custom_type: "mine/note".to_owned(),
        content: vec![Content::text(words)],
        display: true,
        details: None,
        publisher: None,
    }
}

#[tokio::test]
async fn messages_that_are_not_the_users_come_when_they_shall_and_are_marked() {
    let replies = vec![
        Reply::Message(asks(&[("look", json!({}))])),
        says("after the tools"),
        says("at the end"),
        says("with the next"),
        says("begun by it"),
    ];
    let world = World::new(100_000, replies, Vec::new());
    let agent = world.agent();
    agent.mailbox.put(Said::Plugin(note("for the next run")), Delivery::NextRun).unwrap();
    agent.mailbox.put(Said::Plugin(note("steered")), Delivery::Steer).unwrap();
    agent.mailbox.put(Said::Plugin(note("followed up")), Delivery::FollowUp).unwrap();
    assert!(agent.mailbox.take_back().is_empty(), "only the user's words are taken back");
    world.run(&agent, "go").await;
    let requests: Vec<String> = world.requests().iter().map(text).collect();
    assert!(requests[0].contains("for the next run") && !requests[0].contains("steered"), "{}", requests[0]);
    assert!(requests[1].contains("steered") && !requests[1].contains("followed up"), "{}", requests[1]);
    assert!(requests[2].contains("followed up") && requests[2].contains("mine/note"), "{}", requests[2]);
    let kinds: Vec<bool> = agent
        .session
        .path()
        .iter()
        .filter(|entry| matches!(entry.body, EntryBody::CustomMessage(_)))
        .map(|entry| matches!(&entry.body, EntryBody::CustomMessage(custom) if custom.display))
        .collect();
    assert_eq!(kinds, [true, true, true]);
    // One that waits for the user's next message is not read by a run that a plugin began.
    agent.mailbox.put(Said::Plugin(note("later")), Delivery::NextRun).unwrap();
    let end = agent.run(Said::Plugin(note("a run of its own")), Vec::new(), CancellationToken::new()).await.unwrap();
    assert!(!end.messages.is_empty());
    let last = text(&world.requests().pop().unwrap());
    assert!(last.contains("a run of its own") && !last.contains("later"), "{last}");
    assert!(next(&world, &agent, "the user again").await.contains("later"));
}

#[tokio::test]
async fn a_branch_that_was_compacted_is_summed_up_with_its_summary() {
    let (world, agent) =
        three(Vec::new(), vec![writes("the long story"), writes("its turn"), writes("in short")]).await;
    let target = entry(&agent, "ask one");
    called(&agent, "c9", "look", json!({}), words("long", 60_000), false);
    let end = agent.compact(None, CancellationToken::new()).await.unwrap();
    // A turn that is cut is summed up in two parts.
    assert_eq!(compactions(&agent.session).len(), 1, "{end:?}");
    let end = agent.move_leaf(Some(&target), LeftBranch::SummedUp(None), CancellationToken::new()).await.unwrap();
    assert_eq!(moved(end).1.as_deref(), Some("in short"));
    let job = world.jobs().pop().unwrap();
    assert!(job.previous_summary.unwrap().contains("the long story"));
}
