//! SIGKILL at random times.

use crate::whole::{busy, has_all, told, whole};
use pith_tests::Home;
use rustix::process::Signal;
use std::{
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Kills in all, of runs that had not ended.
const KILLS: u64 = 200;
/// Homes that are worked in beside each other.
const HOMES: u64 = 2;
/// After so many kills a new session is begun.
const KILLS_OF_A_SESSION: u64 = 10;
/// Turns of a run.
const TURNS: usize = 8;

/// The next of a row of numbers that look random.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn no_kill_at_any_time_costs_what_was_told() {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos() as u64;
    thread::scope(|scope| {
        let homes: Vec<_> = (0..HOMES).map(|n| scope.spawn(move || rounds((began + n) | 1, KILLS / HOMES))).collect();
        homes.into_iter().for_each(|home| home.join().expect("no round failed"));
    });
}

/// Kills so many runs before they end.
fn rounds(seed: u64, kills: u64) {
    let home = Home::new();
    home.write("given", "some words\n");
    let model = home.scripted(busy(TURNS));
    let mut random = seed;
    let args = |is_new: bool| {
        let mut args = vec!["--mode", "json", "--model", &model, "-p", "go"];
        if !is_new {
            args.push("-c");
        }
        args
    };
    // The first of all compiles the plugins.
    home.pith(&args(true)).ok();
    let usual = home.pith(&args(true)).ok().wall;
    let (mut killed, mut round) = (0, 0);
    let mut committed = Vec::new();
    let mut known = home.sessions();
    while killed < kills {
        assert!(round < 4 * kills, "seed {seed}: only {killed} of {round} were killed before they ended");
        let is_new = round % KILLS_OF_A_SESSION == 0;
        round += 1;
        if is_new {
            committed.clear();
            known = home.sessions();
        }
        // A session that was killed before its file was there is begun anew by `-c`, in another file or the one before.
        let running = home.start(&args(is_new || home.sessions() == known));
        let wait = usual.mul_f64((next(&mut random) % 1000) as f64 / 1000.0) + Duration::from_millis(1);
        thread::sleep(wait);
        running.signal(Signal::KILL);
        let run = running.finish();
        killed += u64::from(run.signal == Some(9));
        assert!(!run.stderr.contains("is not as this Pith left it"), "seed {seed}, round {round}: {run}");
        committed.extend(told(&run.stdout));
        let files: Vec<_> = home.sessions().into_iter().filter(|file| !known.contains(file)).collect();
        assert!(files.len() <= 1, "seed {seed}, round {round}: {files:?}");
        match files.first() {
            Some(file) => has_all(file, &committed),
            None => assert!(committed.is_empty(), "seed {seed}, round {round}: told before the file was there: {run}"),
        }
    }
    // What was killed goes on, and its listing counts it as our own.
    let run = home.pith(&args(false)).ok();
    assert!(!run.stderr.contains("is not as this Pith left it"), "{run}");
    for file in home.sessions() {
        whole(&file);
    }
}
