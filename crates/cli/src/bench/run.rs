//! The measurement itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_policy::User;
use portcullis_policy::engine::Engine;

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
    /// How long single decisions took.
    pub latency: Histogram,
    /// How many of them allowed.
    pub allowed: u64,
    /// How long it went on.
    pub elapsed: Duration,
    /// How long single updates took.
    pub updates: Histogram,
}

/// Decisions between two looks at the clock for the end.
const BATCH: usize = 1000;

/// Asks the questions on several threads until the time is over.
pub fn measure(engine: &Engine, questions: &Questions, updates: &Updates, plan: Plan) -> Found {
    let nobody = User::default();
    let ready = questions.ready(&nobody);
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let writer = (plan.updates_per_second > 0)
            .then(|| scope.spawn(|| updates.run(engine.graph(), plan.updates_per_second, &stop)));
        let readers: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let from = questions.len() / usize::from(plan.threads) * usize::from(thread);
                let ready = &ready;
                scope.spawn(move || decide(engine, ready, questions.len(), from, plan.time))
            })
            .collect();
        let mut latency = Histogram::default();
        let mut allowed = 0;
        for reader in readers {
            // A reader that panicked has already said so; its figures are missing then.
            if let Ok((of_reader, allowed_by_reader)) = reader.join() {
                latency.merge(&of_reader);
                allowed += allowed_by_reader;
            }
        }
        let elapsed = started.elapsed();
        stop.store(true, Ordering::Relaxed);
        let updates = writer.and_then(|writer| writer.join().ok()).unwrap_or_default();
        Found { latency, allowed, elapsed, updates }
    })
}

fn decide(engine: &Engine, ready: &Ready<'_>, count: usize, from: usize, time: Duration) -> (Histogram, u64) {
    let mut latency = Histogram::default();
    let (mut allowed, mut at) = (0, from);
    let started = Instant::now();
    let mut before = started;
    while before.duration_since(started) < time {
        for _ in 0..BATCH {
            let Some(attributes) = ready.attributes(at) else {
                at = 0;
                continue;
            };
            allowed += u64::from(engine.chain().decide(&attributes).is_allow());
            at = if at + 1 == count { 0 } else { at + 1 };
            // The end of one decision is the beginning of the next: one look at the clock for each.
            let now = Instant::now();
            latency.record(u64::try_from(now.duration_since(before).as_nanos()).unwrap_or(u64::MAX));
            before = now;
        }
    }
    (latency, allowed)
}
