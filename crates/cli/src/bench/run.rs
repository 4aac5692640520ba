//! The measurement of decisions.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_policy::engine::Engine;
use portcullis_policy::{Attributes, User};

use super::histogram::Histogram;
use super::questions::{Questions, Ready};
use super::writer::Updates;

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The number of deciding threads.
    pub threads: u16,
    /// The duration.
    pub time: Duration,
    /// The number of pods deleted and added again per second meanwhile.
    pub updates_per_second: u32,
}

/// The results of a measurement.
#[derive(Clone, Debug)]
pub struct Found {
    /// The number of decisions.
    pub decisions: u64,
    /// The latencies of the decisions that were timed.
    pub latency: Histogram,
    /// The number of allowed requests.
    pub allowed: u64,
    /// The elapsed time.
    pub elapsed: Duration,
    /// The latencies of updates.
    pub updates: Histogram,
}

/// The number of decisions between checks of the elapsed time.
const BATCH: usize = 1024;

/// One of this many decisions is timed: reading the clock takes a good part of the time of a decision, so timing all of
/// them would measure the clock.
const TIMED: usize = 8;

/// Returns the cost of reading the clock twice, in nanoseconds: the median of many attempts. It is subtracted from the
/// measured times.
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

/// Decides the requests on several threads until the time has elapsed.
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
            // The panic of a thread was already printed; its results are missing.
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

/// Touches a request, as its caller has just done: otherwise the measurement would include fetching the request from
/// memory.
fn read(attributes: &Attributes<'_>) -> usize {
    let words = [attributes.user.name.as_str(), attributes.verb];
    let groups = attributes.user.groups.iter().map(String::as_str);
    let resource = attributes.resource.iter().flat_map(|r| [r.group, r.resource, r.namespace, r.name]);
    words.into_iter().chain(groups).chain(resource).flat_map(str::bytes).map(usize::from).sum()
}

/// The number of decisions, the number of allowed ones, and the latencies of those that were timed.
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
