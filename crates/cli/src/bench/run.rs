//! The measurement itself.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_policy::engine::Engine;
use portcullis_policy::{Attributes, User};

use super::histogram::Histogram;
use super::questions::{Questions, Ready};
use super::writer::Updates;

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Threads that decide.
    pub threads: u16,
    /// How long.
    pub time: Duration,
    /// Pods out and in again beside it.
    pub updates_per_second: u32,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Found {
    /// How many decisions were made.
    pub decisions: u64,
    /// How long single decisions took, of those that were timed.
    pub latency: Histogram,
    /// How many of them allowed.
    pub allowed: u64,
    /// How long it went on.
    pub elapsed: Duration,
    /// How long single updates took.
    pub updates: Histogram,
}

/// Decisions between two looks at the clock for the end.
const BATCH: usize = 1024;

/// One decision of so many is timed: reading the clock takes a good part of the time of a decision, and timing all of
/// them would measure the clock.
const TIMED: usize = 8;

/// What reading the clock twice in a row shows, in nanoseconds: the middle of many tries. It is taken off what is timed.
fn clock_cost() -> u64 {
    let mut costs = Histogram::default();
    for _ in 0..10_000 {
        let before = Instant::now();
        costs.record(nanoseconds(before.elapsed()));
    }
    costs.quantile(0.5)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Asks the questions on several threads until the time is over.
pub fn measure(engine: &Engine, questions: &Questions, updates: &Updates, plan: Plan) -> Found {
    let nobody = User::default();
    let ready = questions.ready(&nobody);
    let stop = AtomicBool::new(false);
    let clock = clock_cost();
    let started = Instant::now();
    std::thread::scope(|scope| {
        let writer = (plan.updates_per_second > 0)
            .then(|| scope.spawn(|| updates.run(engine.graph(), plan.updates_per_second, &stop)));
        let readers: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let from = questions.len() / usize::from(plan.threads) * usize::from(thread);
                let ready = &ready;
                scope.spawn(move || decide(engine, ready, questions.len(), from, plan.time, clock))
            })
            .collect();
        let mut all = Decided::default();
        for reader in readers {
            // A reader that panicked has already said so; its figures are missing then.
            if let Ok(decided) = reader.join() {
                all.latency.merge(&decided.latency);
                all.count += decided.count;
                all.allowed += decided.allowed;
            }
        }
        let elapsed = started.elapsed();
        stop.store(true, Ordering::Relaxed);
        let updates = writer.and_then(|writer| writer.join().ok()).unwrap_or_default();
        Found { decisions: all.count, latency: all.latency, allowed: all.allowed, elapsed, updates }
    })
}

/// Reads a request, as whoever asks has just done: who asks would otherwise be fetched from memory on the clock.
fn read(attributes: &Attributes<'_>) -> usize {
    let words = [attributes.user.name.as_str(), attributes.verb];
    let groups = attributes.user.groups.iter().map(String::as_str);
    let resource = attributes.resource.iter().flat_map(|r| [r.group, r.resource, r.namespace, r.name]);
    words.into_iter().chain(groups).chain(resource).flat_map(str::bytes).map(usize::from).sum()
}

/// How many decisions were made, how many of them allowed, and how long those that were timed took.
#[derive(Clone, Debug, Default)]
struct Decided {
    count: u64,
    allowed: u64,
    latency: Histogram,
}

fn decide(
    engine: &Engine,
    ready: &Ready<'_>,
    count: usize,
    from: usize,
    time: Duration,
    clock: u64,
) -> Decided {
    let mut decided = Decided::default();
    let mut at = from;
    let started = Instant::now();
    while started.elapsed() < time {
        for turn in 0..BATCH {
            let Some(attributes) = ready.attributes(at) else {
                at = 0;
                continue;
            };
            at = if at + 1 == count { 0 } else { at + 1 };
            let allowed = if turn % TIMED == 0 {
                black_box(read(&attributes));
                let before = Instant::now();
                let allowed = engine.chain().decide(&attributes).is_allow();
                decided.latency.record(nanoseconds(before.elapsed()).saturating_sub(clock));
                allowed
            } else {
                engine.chain().decide(&attributes).is_allow()
            };
            decided.allowed += u64::from(allowed);
            decided.count += 1;
        }
    }
    decided
}
