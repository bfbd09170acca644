//! The plain face's commands about the session's tree and other sessions, on a pseudo-terminal.

use pith_tests::{Home, Terminal};
use serde_json::{Value, json};

const INTERRUPT: &str = "\u{3}";
const END: &str = "\u{4}";

fn scripted(home: &Home, replies: Value) -> Terminal {
    let model = home.scripted(replies);
    Terminal::start(home, &["--model", &model])
}

/// Says it, and waits for the answer and the prompt.
fn says(terminal: &mut Terminal, words: &str, answer: &str) {
    terminal.line(words);
    terminal.waits(answer);
    terminal.prompt();
}

/// Two exchanges, with which conversations here begin.
fn two_answers(terminal: &mut Terminal) {
    terminal.prompt();
    says(terminal, "ask one", "Answer one.\n");
    says(terminal, "ask two", "Answer two.\n");
}

#[test]
fn a_branch_is_left_and_found_again() {
    let home = Home::new();
    let mut terminal = scripted(
        &home,
        json!([
            { "text": "Answer one." },
            { "text": "Answer two." },
            { "expect": { "last_user_contains": "otherwise", "messages": 3 }, "text": "Another answer." }
        ]),
    );
    two_answers(&mut terminal);
    terminal.line("/tree");
    terminal.waits("1 * you: ask one\n");
    terminal.waits("2 * you: ask two\n");
    terminal.waits("3 * model: Answer two.  <- here\n");
    terminal.prompt();
    terminal.line("/tree 2");
    terminal.waits("the conversation goes on from there");
    // The words come back to be changed.
    terminal.waits("ask two");
    terminal.line(" otherwise");
    terminal.waits("Another answer.\n");
    terminal.prompt();
    says(&mut terminal, "/label 1 the beginning", "labelled");
    terminal.line("/tree");
    terminal.waits("you: ask one  [the beginning]\n");
    terminal.waits("    you: ask two\n");
    terminal.waits("* you: ask two otherwise\n");
    terminal.prompt();
    for (wrong, why) in [
        ("/tree 99", "no number of the last /tree"),
        ("/tree 1 backwards", "after the number stands nothing, or `sum`"),
        ("/label", "which message"),
        ("/undo it", "takes nothing after it"),
    ] {
        says(&mut terminal, wrong, why);
    }
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn a_branch_that_is_left_is_summed_up_and_ctrl_c_stops_that() {
    let home = Home::new();
    let mut terminal = scripted(
        &home,
        json!([
            { "text": "Answer one." },
            { "text": "Answer two." },
            { "expect": { "last_user_contains": "what failed" }, "text": "The branch in short." },
            { "expect": { "messages": 4 }, "text": "I know of the branch." },
            { "text": "never told, it takes too long", "delay_ms": 60_000 }
        ]),
    );
    two_answers(&mut terminal);
    says(&mut terminal, "/tree", "<- here\n");
    terminal.line("/tree 2 sum what failed");
    terminal.waits("with a summary of the branch that was left");
    terminal.waits("ask two");
    terminal.line(", again");
    terminal.waits("I know of the branch.\n");
    terminal.prompt();
    says(&mut terminal, "/tree", "model: I know of the branch.  <- here\n");
    // Whether the model was asked already or not.
    terminal.line("/tree 1 sum");
    terminal.waits("summing up the branch");
    terminal.keys(INTERRUPT);
    terminal.waits("stopped; nothing moved");
    terminal.prompt();
    says(&mut terminal, "/tree", "model: I know of the branch.  <- here\n");
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn undo_redo_and_compact() {
    let home = Home::new();
    let mut terminal = scripted(
        &home,
        json!([
            { "text": "Answer one." },
            { "text": "Answer two." },
            { "expect": { "messages": 3 }, "text": "Only one is before this." },
            { "expect": { "last_user_contains": "in three words" }, "text": "The story so far." },
            { "expect": { "last_user_contains": "go on" }, "text": "I go on." }
        ]),
    );
    terminal.prompt();
    says(&mut terminal, "/undo", "nothing left to take out");
    says(&mut terminal, "ask one", "Answer one.\n");
    says(&mut terminal, "ask two", "Answer two.\n");
    terminal.line("/undo");
    terminal.waits("/redo brings it back");
    terminal.waits("ask two");
    terminal.keys(INTERRUPT);
    terminal.waits("Ctrl-C again");
    terminal.prompt();
    says(&mut terminal, "/redo", "the model reads it again");
    says(&mut terminal, "/redo", "there is no /undo to take back");
    terminal.line("/undo");
    terminal.waits("/redo brings it back");
    terminal.waits("ask two");
    terminal.line(" anew");
    terminal.waits("Only one is before this.\n");
    terminal.prompt();
    terminal.line("/compact in three words");
    terminal.waits("summing up older messages");
    terminal.waits("summed up: ");
    terminal.prompt();
    says(&mut terminal, "/compact", "it is summed up already");
    says(&mut terminal, "go on", "I go on.\n");
    terminal.keys(END);
    terminal.exits(0);
}

#[test]
fn names_forks_and_other_sessions() {
    let home = Home::new();
    let mut terminal = scripted(&home, json!([{ "text": "Answer one." }, { "text": "Answer two." }]));
    terminal.prompt();
    says(&mut terminal, "ask one", "Answer one.\n");
    says(&mut terminal, "/name The \u{202e}first talk", "named");
    terminal.line("/session");
    terminal.waits("entries  ");
    terminal.waits("cost unknown\n");
    terminal.waits("name     The ");
    terminal.prompt();
    terminal.line("/clone");
    terminal.waits("continued session");
    terminal.prompt();
    says(&mut terminal, "/name The copy", "named");
    terminal.line("/sessions");
    terminal.waits("1 ");
    terminal.waits("The copy\n");
    terminal.waits("first talk\n");
    terminal.prompt();
    terminal.line("/resume 2");
    terminal.waits("continued session");
    terminal.prompt();
    terminal.line("/session");
    terminal.waits("first talk");
    terminal.prompt();
    terminal.line("/resume nothing-like-it");
    terminal.waits("there is no session nothing-like-it");
    terminal.prompt();
    says(&mut terminal, "/tree", "1 * you: ask one");
    terminal.line("/fork 1");
    terminal.waits("continued session");
    terminal.waits("> ask one");
    terminal.keys(INTERRUPT);
    terminal.waits("Ctrl-C again");
    terminal.prompt();
    terminal.keys(END);
    assert!(!terminal.exits(0).contains('\u{202e}'));
}
