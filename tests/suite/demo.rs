//! `pith demo`, as a new user runs it.

use pith_tests::Home;
use std::time::Duration;

#[test]
fn the_demo_shows_an_agent_at_work() {
    let home = Home::with_cold_cache();
    let first = home.pith(&["demo"]).ok();
    let first = first.prints("scripted").prints("+++ b/src/total.sh").prints("ok: the total is 770").prints("protect");
    let first = first.prints("ANTHROPIC_API_KEY").prints("pith -p");
    assert!(first.stderr.is_empty(), "{first}");
    let session = home.session();
    assert!(first.stdout.contains(&*session.to_string_lossy()), "{first}");
    // What the session says happened, happened.
    let folder = first.stdout.lines().find_map(|line| line.strip_prefix("Folder: ")).expect("the folder's line");
    let folder = std::path::Path::new(folder);
    let script = std::fs::read_to_string(folder.join("src/total.sh")).expect("the sample stays");
    assert!(script.contains("total + price"), "{script}");
    let guarded = std::fs::read_to_string(folder.join(".env")).expect("the sample stays");
    assert!(!guarded.contains("TILL_DEBUG=1"), "protect let it through: {guarded}");
    let denied = Home::messages(&session)
        .into_iter()
        .any(|message| message["role"] == "toolResult" && message["toolName"] == "write" && message["isError"] == true);
    assert!(denied);

    let second = home.pith(&["demo"]).ok();
    // A sanity bound only: the figures are in bench/RESULTS.md.
    assert!(
        first.wall < Duration::from_secs(20) && second.wall < Duration::from_secs(5),
        "{:?} {:?}",
        first.wall,
        second.wall
    );
    assert_eq!(home.sessions().len(), 2);
}
