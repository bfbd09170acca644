//! A command followed to its end, or left running: what is asked of the host, when, and what is made of it. Knows nothing of a host.

use std::time::{Duration, Instant};

use pith_sdk::Error;

use crate::report::{Answer, Ending, Spool, left_running, partial, report};
use crate::tail::Tail;

/// What one call asks of the host; the host ends it beyond 10,000. It gathers output the longer the more calls there were, so that they
/// last for hours.
const MAX_HOST_CALLS: u32 = 9_900;
/// Between two pieces of partial output; the host takes 10 a second.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// Bytes of partial output; the host keeps 64 KiB.
const PROGRESS_BYTES: usize = 16 * 1024;
/// How long one wait for output lasts, where nothing is to be shown meanwhile.
const WAIT: Duration = Duration::from_secs(30);
/// The host ends the command at its timeout; where it has not so much later, the guest does.
const GRACE: Duration = Duration::from_secs(2);
/// How long a command is watched before it is left running: what fails at once is seen at once.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// The longest timeout, in milliseconds: what 32 bits with a sign hold.
const MAX_TIMEOUT_MS: u32 = i32::MAX as u32;

/// A command that runs.
pub trait Program {
    /// What comes next; none where nothing came within `wait`.
    fn next(&mut self, wait: Duration) -> Result<Option<Piece>, Error>;
    /// Ends it with all that it started. Its exit still comes.
    fn kill(&mut self);
    /// Lets it run on when the call is over; gives the path of its output. Nothing else is asked of it then.
    fn leave(&mut self) -> Result<String, Error>;
}

/// What a command gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Output of both streams.
    Output(Vec<u8>),
    /// The last.
    Exit(Exit),
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// None where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its timeout ended it.
    pub timed_out: bool,
    /// The file with the whole output, where there is one.
    pub spool: Option<String>,
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// None: no limit.
    pub timeout: Option<Timeout>,
    /// It is left running.
    pub background: bool,
    /// It may leave something running itself, with `&`.
    pub has_jobs: bool,
    /// What ends a command in the background at the latest, in words.
    pub until: &'static str,
}

/// Follows a command; `show` gets partial output, at most ten times a second.
///
/// Errors: the host's; `limit` where it can neither be followed nor left running any more.
pub fn follow(program: &mut impl Program, plan: &Plan, show: &mut dyn FnMut(&str)) -> Result<Answer, Error> {
    let started = Instant::now();
    let mut tail = Tail::default();
    let mut shown_at: Option<Instant> = None;
    let mut unshown = false;
    let mut killed_late = false;
    let mut host_calls = 0;
    let exit = loop {
        let elapsed = started.elapsed();
        if plan.background && elapsed >= FIRST_LOOK {
            return leave(program, &tail, plan, "");
        }
        if host_calls >= MAX_HOST_CALLS {
            return leave(program, &tail, plan, ", for it writes longer than one call can follow");
        }
        let mut wait = if unshown { PROGRESS_EVERY } else { WAIT };
        if plan.background {
            wait = wait.min(FIRST_LOOK - elapsed);
        }
        if let Some(timeout) = plan.timeout.as_ref().filter(|_| !killed_late) {
            let left = (timeout.duration + GRACE).saturating_sub(elapsed);
            if left.is_zero() {
                program.kill();
                host_calls += 1;
                killed_late = true;
            }
            wait = wait.min(left.max(PROGRESS_EVERY));
        }
        host_calls += 1;
        match program.next(wait)? {
            Some(Piece::Exit(exit)) => break exit,
            Some(Piece::Output(bytes)) => {
                tail.push(&bytes);
                unshown = true;
            }
            None => {}
        }
        if unshown && shown_at.is_none_or(|at| at.elapsed() >= PROGRESS_EVERY) {
            let text = partial(&tail.kept());
            let mut from = text.len().saturating_sub(PROGRESS_BYTES);
            while !text.is_char_boundary(from) {
                from += 1;
            }
            show(&text[from..]);
            host_calls += 1;
            shown_at = Some(Instant::now());
            unshown = false;
        }
    };
    let kept = tail.kept();
    let timed_out = plan.timeout.as_ref().filter(|_| exit.timed_out || killed_late);
    let ending = Ending {
        code: exit.code,
        signal: exit.signal,
        timed_out_after: timed_out.map(|timeout| timeout.written.clone()),
        spool: exit.spool.map(|path| Spool { is_whole: is_whole(&path, kept.total_bytes), path }),
    };
    let mut answer = report(&kept, &ending);
    answer.text.push_str(match plan {
        Plan { background: true, has_jobs: true, .. } => {
            "\n\n[The shell ended at once, and what it had started with `&` ended with it. Leave out the `&`: `background` does that.]"
        }
        Plan { background: true, .. } => "\n\n[It ended at once: nothing goes on in the background.]",
        Plan { has_jobs: true, .. } => {
            "\n\n[What `&` left running ended with this call. To keep a command running, give it alone, with `background`.]"
        }
        _ => "",
    });
    Ok(answer)
}

fn leave(program: &mut impl Program, tail: &Tail, plan: &Plan, why: &str) -> Result<Answer, Error> {
    match program.leave() {
        Ok(path) => Ok(left_running(&tail.kept(), path, plan.until, why)),
        Err(error) => {
            program.kill();
            Err(Error::new(
                error.kind,
                format!(
                    "The command was ended, for it could not be left running: {}. Run it without `background`.",
                    error.message
                ),
            ))
        }
    }
}

/// Whether a file holds so many bytes. One that cannot be looked at is taken for whole.
fn is_whole(path: &str, bytes: u64) -> bool {
    std::fs::metadata(path).map_or(true, |met| met.len() >= bytes)
}

/// A limit of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeout {
    duration: Duration,
    /// As the call gave it.
    written: String,
}

impl Timeout {
    /// Of seconds above 0, at most 2,147,483.647.
    pub fn new(seconds: f64) -> Result<Self, Error> {
        let max = f64::from(MAX_TIMEOUT_MS) / 1000.0;
        if !(seconds > 0.0 && seconds <= max) {
            return Err(Error::invalid(format!(
                "timeout is {seconds}; give seconds above 0, at most {max}, or leave it out."
            )));
        }
        Ok(Self { duration: Duration::from_secs_f64(seconds), written: seconds.to_string() })
    }

    /// In milliseconds, at least one.
    pub fn ms(&self) -> u32 {
        u32::try_from(self.duration.as_millis()).unwrap_or(MAX_TIMEOUT_MS).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pith_sdk::ErrorKind;

    /// A command of which every piece is known.
    struct Known {
        pieces: Vec<Piece>,
        endless: bool,
        leaves: Result<String, Error>,
        killed: bool,
        waits: Vec<Duration>,
    }

    impl Known {
        fn new(pieces: &[Piece]) -> Self {
            let mut pieces = pieces.to_vec();
            pieces.reverse();
            Self { pieces, endless: false, leaves: Ok("/spool/1".into()), killed: false, waits: Vec::new() }
        }
    }

    impl Program for Known {
        fn next(&mut self, wait: Duration) -> Result<Option<Piece>, Error> {
            self.waits.push(wait);
            match self.pieces.pop() {
                Some(piece) => Ok(Some(piece)),
                None if self.endless => Ok(Some(Piece::Output(b"y\n".to_vec()))),
                None => {
                    std::thread::sleep(wait);
                    Ok(None)
                }
            }
        }

        fn kill(&mut self) {
            self.killed = true;
        }

        fn leave(&mut self) -> Result<String, Error> {
            self.leaves.clone()
        }
    }

    fn out(text: &str) -> Piece {
        Piece::Output(text.as_bytes().to_vec())
    }

    fn exit(code: i32) -> Piece {
        Piece::Exit(Exit { code: Some(code), ..Exit::default() })
    }

    #[test]
    fn output_is_shown_while_it_comes_and_the_end_is_said() {
        let mut known = Known::new(&[out("a\n"), out("b\n"), exit(3)]);
        let mut shown = Vec::new();
        let answer = follow(&mut known, &Plan::default(), &mut |text| shown.push(text.to_owned())).unwrap();
        assert_eq!((answer.text.as_str(), answer.is_error), ("a\nb\n\nCommand exited with code 3", true));
        assert_eq!(shown, ["a"]);
        // The second piece is shown soon if nothing else comes.
        assert_eq!(known.waits, [WAIT, WAIT, PROGRESS_EVERY]);
    }

    #[test]
    fn one_that_writes_for_ever_is_left_running() {
        let mut known = Known { endless: true, ..Known::new(&[]) };
        let mut shown = 0;
        let plan = Plan { until: "the end", ..Plan::default() };
        let answer = follow(&mut known, &plan, &mut |_| shown += 1).unwrap();
        assert!(answer.text.contains("It goes on in the background, for it writes longer than one call can follow."));
        assert!(!answer.is_error && !known.killed);
        // All that is allowed, and none of it more than asked.
        assert!((9_900..9_910).contains(&(known.waits.len() + shown)), "{} {shown}", known.waits.len());
        let mut known = Known { leaves: Err(Error::internal("no spool")), endless: true, ..known };
        let error = follow(&mut known, &plan, &mut |_| {}).unwrap_err();
        assert!(known.killed && error.kind == ErrorKind::Internal && error.message.contains("no spool"), "{error:?}");
    }

    #[test]
    fn what_is_to_run_in_the_background_is_watched_first() {
        let plan = Plan { background: true, until: "the end", ..Plan::default() };
        let mut known = Known::new(&[out("port taken\n"), exit(1)]);
        let answer = follow(&mut known, &plan, &mut |_| {}).unwrap();
        assert_eq!(
            answer.text,
            "port taken\n\nCommand exited with code 1\n\n[It ended at once: nothing goes on in the background.]"
        );
        assert!(known.waits.iter().all(|wait| *wait <= FIRST_LOOK));
        let mut known = Known::new(&[out("ready\n")]);
        let answer = follow(&mut known, &plan, &mut |_| {}).unwrap();
        assert!(
            answer.text.starts_with("ready\n\n[It goes on in the background. Output: /spool/1 ("),
            "{}",
            answer.text
        );
        for (background, said) in [(true, "Leave out the `&`"), (false, "What `&` left running ended")] {
            let plan = Plan { background, has_jobs: true, ..Plan::default() };
            let answer = follow(&mut Known::new(&[exit(0)]), &plan, &mut |_| {}).unwrap();
            assert!(answer.text.starts_with("(no output)\n\n[") && answer.text.contains(said), "{}", answer.text);
        }
    }

    #[test]
    fn a_timeout_that_the_host_does_not_keep_is_kept_here() {
        let plan = Plan { timeout: Some(Timeout::new(0.001).unwrap()), ..Plan::default() };
        let mut known = Known::new(&[exit(0)]);
        follow(&mut known, &plan, &mut |_| {}).unwrap();
        assert!(!known.killed && known.waits[0] <= GRACE + Duration::from_millis(1));
        let late = Exit { signal: Some(9), timed_out: true, ..Exit::default() };
        let answer = follow(&mut Known::new(&[out("x"), Piece::Exit(late)]), &plan, &mut |_| {}).unwrap();
        assert!(
            answer.text.starts_with("x\n\nCommand timed out after 0.001 seconds and was ended."),
            "{}",
            answer.text
        );
    }

    #[test]
    fn timeouts() {
        let two_and_a_half = Timeout::new(2.5).unwrap();
        assert_eq!((two_and_a_half.ms(), two_and_a_half.written.as_str()), (2500, "2.5"));
        assert_eq!(Timeout::new(30.0).unwrap().written, "30");
        assert_eq!(Timeout::new(0.000_1).unwrap().ms(), 1);
        assert_eq!(Timeout::new(2_147_483.647).unwrap().ms(), MAX_TIMEOUT_MS);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 2_147_483.648] {
            assert!(Timeout::new(wrong).is_err(), "{wrong}");
        }
    }
}
