//! What plugins use: calls and how they ended, processor time, time on the wall, bytes both ways, memory. Counted for each function that the
//! host calls; counting costs a call at most a microsecond, most of it two looks at the thread's clock.

use pin::Timed;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Every function of plugins that this host calls.
const FUNCTIONS: [&str; 4] = ["tools.specs", "tools.call", "tool-gate.before-call", "tool-filter.after-call"];
/// Four for each doubling from a microsecond to a day, and one for less.
const BUCKETS: usize = 1 + 4 * 37;

/// What one plugin used since it was loaded, or since it was first recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginUse {
    /// Its name.
    pub name: String,
    /// Its publisher.
    pub publisher: String,
    /// Its component's sha256 in hex.
    pub digest: String,
    /// By function, such as `tools.call`; those that were called.
    pub functions: BTreeMap<String, FunctionUse>,
}

/// What the calls of one function used, together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FunctionUse {
    /// Calls that began, each counted under exactly one of the four ends below when it is over.
    pub calls: u64,
    /// Calls that the plugin refused.
    pub refusals: u64,
    /// Calls that failed: a trap, a limit, a deadline, a broken answer.
    pub faults: u64,
    /// Calls that were given up from outside.
    pub aborted: u64,
    /// Processor time within calls, the host's part of them included, in nanoseconds. Programs that a plugin runs are not in it.
    pub cpu_nanos: u64,
    /// Bytes of what was called with.
    pub bytes_in: u64,
    /// Bytes of what came back, and of what was given to imports of the contract. Files that a plugin reads and writes are not in it.
    pub bytes_out: u64,
    /// The most memory that one call had, in bytes.
    pub peak_memory_bytes: u64,
    /// How long calls took, their wait for a place not included.
    pub wall: WallTimes,
}

/// How often calls took how long, in steps of a quarter of a doubling. Sums of it are exact, what is read from it is within 13 %.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallTimes(BTreeMap<u16, u64>);

impl FunctionUse {
    /// Adds what another count has; the sums stay at the largest number where they would pass it.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.calls, other.calls),
            (&mut self.refusals, other.refusals),
            (&mut self.faults, other.faults),
            (&mut self.aborted, other.aborted),
            (&mut self.cpu_nanos, other.cpu_nanos),
            (&mut self.bytes_in, other.bytes_in),
            (&mut self.bytes_out, other.bytes_out),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.peak_memory_bytes = self.peak_memory_bytes.max(other.peak_memory_bytes);
        for (step, times) in other.wall.0.iter().filter(|(step, _)| usize::from(**step) < BUCKETS) {
            let sum = self.wall.0.entry(*step).or_default();
            *sum = sum.saturating_add(*times);
        }
    }

    /// What came since an earlier count of the same calls. The peak is that of both.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut wall = self.wall.clone();
        for (step, times) in &earlier.wall.0 {
            if let Some(now) = wall.0.get_mut(step) {
                *now = now.saturating_sub(*times);
            }
        }
        wall.0.retain(|_, times| *times > 0);
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            refusals: self.refusals.saturating_sub(earlier.refusals),
            faults: self.faults.saturating_sub(earlier.faults),
            aborted: self.aborted.saturating_sub(earlier.aborted),
            cpu_nanos: self.cpu_nanos.saturating_sub(earlier.cpu_nanos),
            bytes_in: self.bytes_in.saturating_sub(earlier.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(earlier.bytes_out),
            peak_memory_bytes: self.peak_memory_bytes,
            wall,
        }
    }
}

impl WallTimes {
    /// The time within which this part of the calls ended (`0.5`: half of them). None without calls.
    pub fn within(&self, part: f64) -> Option<Duration> {
        let all = self.0.values().fold(0u64, |sum, times| sum.saturating_add(*times));
        if all == 0 {
            return None;
        }
        let wanted = ((all as f64 * part.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0u64;
        for (step, times) in &self.0 {
            seen = seen.saturating_add(*times);
            if seen >= wanted {
                return Some(middle(*step));
            }
        }
        None
    }
}

/// The step that a time belongs to.
fn step(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let Some(doublings) = micros.checked_ilog2() else { return 0 };
    // The two bits below the highest one.
    let quarter = ((u128::from(micros) << 2) >> doublings) & 3;
    (1 + 4 * doublings as usize + quarter as usize).min(BUCKETS - 1)
}

/// The middle of a step.
fn middle(step: u16) -> Duration {
    let Some(above) = u32::from(step).checked_sub(1) else { return Duration::from_nanos(500) };
    let (doublings, quarter) = (above / 4, u64::from(above % 4));
    // An eighth of the doubling's width, in nanoseconds.
    let eighth = 125u64.saturating_mul(1u64.checked_shl(doublings.min(40)).unwrap_or(u64::MAX));
    Duration::from_nanos(eighth.saturating_mul(8 + 2 * quarter + 1))
}

/// Counts of one plugin's functions.
#[derive(Default)]
pub(crate) struct Usage([Counters; FUNCTIONS.len()]);

impl Usage {
    /// The counts of the function with this name, which is one of those that are called.
    pub fn of(&self, function: &str) -> &Counters {
        let at = FUNCTIONS.iter().position(|known| *known == function).unwrap_or_default();
        &self.0[at]
    }

    /// What was counted so far, of functions that were called.
    pub fn so_far(&self) -> BTreeMap<String, FunctionUse> {
        let counted = FUNCTIONS.iter().zip(&self.0).filter(|(_, counters)| counters.calls.load(Relaxed) > 0);
        counted.map(|(name, counters)| ((*name).to_owned(), counters.so_far())).collect()
    }
}

/// How a call that began is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Gave,
    Refused,
    Fault,
    Aborted,
}

/// Counts of one function.
pub(crate) struct Counters {
    calls: AtomicU64,
    refusals: AtomicU64,
    faults: AtomicU64,
    aborted: AtomicU64,
    cpu_nanos: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    peak_memory_bytes: AtomicU64,
    wall: [AtomicU64; BUCKETS],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            calls: AtomicU64::default(),
            refusals: AtomicU64::default(),
            faults: AtomicU64::default(),
            aborted: AtomicU64::default(),
            cpu_nanos: AtomicU64::default(),
            bytes_in: AtomicU64::default(),
            bytes_out: AtomicU64::default(),
            peak_memory_bytes: AtomicU64::default(),
            wall: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl Counters {
    /// A call begins, with so many bytes. Dropped before its end was told, it was given up.
    pub fn begin(&self, bytes: usize) -> Begun<'_> {
        self.calls.fetch_add(1, Relaxed);
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
        Begun { counters: self, at: Instant::now(), end: End::Aborted }
    }

    /// The work of a call: the processor time of whatever thread polls it is counted.
    pub fn timed<F>(&self, work: F) -> Timed<'_, F> {
        Timed { work, cpu_nanos: &self.cpu_nanos }
    }

    pub fn gave(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
    }

    pub fn had_memory(&self, bytes: usize) {
        self.peak_memory_bytes.fetch_max(bytes as u64, Relaxed);
    }

    fn so_far(&self) -> FunctionUse {
        let wall = self.wall.iter().enumerate().map(|(step, times)| (step as u16, times.load(Relaxed)));
        FunctionUse {
            calls: self.calls.load(Relaxed),
            refusals: self.refusals.load(Relaxed),
            faults: self.faults.load(Relaxed),
            aborted: self.aborted.load(Relaxed),
            cpu_nanos: self.cpu_nanos.load(Relaxed),
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            peak_memory_bytes: self.peak_memory_bytes.load(Relaxed),
            wall: WallTimes(wall.filter(|(_, times)| *times > 0).collect()),
        }
    }
}

/// A call that has begun.
pub(crate) struct Begun<'c> {
    counters: &'c Counters,
    at: Instant,
    end: End,
}

impl Begun<'_> {
    pub fn end(mut self, end: End) {
        self.end = end;
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let count = match self.end {
            End::Gave => None,
            End::Refused => Some(&self.counters.refusals),
            End::Fault => Some(&self.counters.faults),
            End::Aborted => Some(&self.counters.aborted),
        };
        if let Some(count) = count {
            count.fetch_add(1, Relaxed);
        }
        self.counters.wall[step(self.at.elapsed())].fetch_add(1, Relaxed);
    }
}

/// This thread's processor time, in nanoseconds.
fn cpu_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or_default())
}

mod pin {
    use super::cpu_nanos;
    use std::{
        pin::Pin,
        sync::atomic::{AtomicU64, Ordering::Relaxed},
        task::{Context, Poll},
    };

    /// Work whose processor time is counted.
    pub(crate) struct Timed<'c, F> {
        pub(super) work: F,
        pub(super) cpu_nanos: &'c AtomicU64,
    }

    impl<F: Future + Unpin> Future for Timed<'_, F> {
        type Output = F::Output;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            let before = cpu_nanos();
            let polled = Pin::new(&mut self.work).poll(context);
            self.cpu_nanos.fetch_add(cpu_nanos().saturating_sub(before), Relaxed);
            polled
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_back_within_a_seventh() {
        assert_eq!((step(Duration::ZERO), step(Duration::from_nanos(999))), (0, 0));
        let mut last = 0;
        for micros in [1, 2, 3, 4, 5, 7, 9, 100, 1_000, 1_234_567, 86_400_000_000] {
            let time = Duration::from_micros(micros);
            let step = step(time);
            assert!(step >= last && step < BUCKETS, "{micros}");
            last = step;
            let read = middle(step as u16).as_secs_f64() / time.as_secs_f64();
            assert!((0.85..1.3).contains(&read), "{micros} us is read as {:?}", middle(step as u16));
        }
        assert_eq!(step(Duration::MAX), BUCKETS - 1);
        assert!(middle(u16::MAX) > Duration::from_secs(86_400));
    }

    #[test]
    fn what_began_is_counted_once_however_it_ends() {
        let usage = Usage::default();
        let counters = usage.of("tools.call");
        for end in [End::Gave, End::Gave, End::Refused, End::Fault, End::Aborted] {
            counters.begin(10).end(end);
        }
        drop(counters.begin(1));
        counters.gave(7);
        counters.had_memory(100);
        counters.had_memory(50);
        let so_far = usage.so_far();
        assert_eq!(so_far.len(), 1);
        let used = &so_far["tools.call"];
        assert_eq!((used.calls, used.refusals, used.faults, used.aborted), (6, 1, 1, 2));
        assert_eq!((used.bytes_in, used.bytes_out, used.peak_memory_bytes), (51, 7, 100));
        assert_eq!(used.wall.0.values().sum::<u64>(), 6);
        let mut twice = used.clone();
        twice.add(used);
        assert_eq!(twice.calls, 12);
        assert_eq!(twice.since(used), *used);
        let text = serde_json::to_string(used).unwrap();
        assert_eq!(serde_json::from_str::<FunctionUse>(&text).unwrap(), *used);
        twice.calls = u64::MAX;
        twice.add(used);
        assert_eq!(twice.calls, u64::MAX);
    }

    #[test]
    fn parts_of_the_calls_ended_within_their_time() {
        let mut wall = WallTimes::default();
        assert_eq!(wall.within(0.5), None);
        for _ in 0..99 {
            *wall.0.entry(step(Duration::from_micros(100)) as u16).or_default() += 1;
        }
        *wall.0.entry(step(Duration::from_secs(1)) as u16).or_default() += 1;
        assert!(wall.within(0.5).unwrap() < Duration::from_micros(130));
        assert!(wall.within(0.99).unwrap() < Duration::from_micros(130));
        assert!(wall.within(1.0).unwrap() > Duration::from_millis(800));
    }

    #[tokio::test]
    async fn processor_time_is_that_of_the_polls() {
        let usage = Usage::default();
        let counters = usage.of("tools.call");
        let waiting = Box::pin(tokio::time::sleep(Duration::from_millis(30)));
        counters.timed(waiting).await;
        let waited = counters.so_far().cpu_nanos;
        assert!(waited < 20_000_000, "{waited}");
        let busy = Box::pin(async {
            let mut sum = 0u64;
            while cpu_nanos() < u64::MAX && sum < 2_000_000 {
                sum = std::hint::black_box(sum + 1);
            }
        });
        let began = cpu_nanos();
        counters.timed(busy).await;
        let (took, counted) = (cpu_nanos() - began, counters.so_far().cpu_nanos - waited);
        assert!(counted <= took && counted > took / 2, "{counted} of {took}");
    }
}
