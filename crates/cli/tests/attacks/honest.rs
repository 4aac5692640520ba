//! Honest clients beside an attack: their answers, and how long they wait.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::process::resident_bytes;
use serde_json::Value;

use crate::connections::Attack;

/// The pause between two requests of an honest client.
const PAUSE: Duration = Duration::from_millis(20);
/// The bound of the 99th percentile.
const P99: Duration = Duration::from_millis(100);
/// The bound of the slowest request.
const SLOWEST: Duration = Duration::from_millis(500);
/// A test machine is slow in bursts: an attack is repeated if a bound was exceeded. One that delays the server does so each
/// time.
const TRIES: usize = 4;
/// How much more memory the server may take. In bytes.
const GROWTH: usize = 64 << 20;
/// The program that is attacked.
pub(crate) trait Target: Sync {
    /// The number of its process.
    fn process(&self) -> u32;

    fn address(&self) -> SocketAddr;

    /// Somebody without credentials.
    fn anonymous(&self) -> Identity;

    /// Somebody with a certificate that the target accepts.
    fn known(&self) -> Identity;

    /// Its honest clients, by name.
    fn honest(&self) -> Vec<(&'static str, Ask)>;
}

/// One request of an honest client.
pub(crate) type Ask = Box<dyn FnMut() -> Result<(), String> + Send>;

/// The observations of an honest client.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// How long requests took, in order of time.
    times: Vec<Duration>,
    /// The requests that were not answered as they should be.
    faults: Vec<String>,
}

impl Seen {
    fn p99(&self) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort();
        sorted[sorted.len() * 99 / 100]
    }

    fn slowest(&self) -> Duration {
        *self.times.iter().max().unwrap()
    }
}

/// Honest clients that ask until they are told to stop.
struct Honest {
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, JoinHandle<Seen>)>,
}

fn asking(stop: &Arc<AtomicBool>, mut ask: Ask) -> JoinHandle<Seen> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut seen = Seen::default();
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            if let Err(fault) = ask() {
                seen.faults.push(fault);
            }
            seen.times.push(began.elapsed());
            thread::sleep(PAUSE);
        }
        seen
    })
}

/// Asks for something that must be answered with this code.
pub(crate) fn expect(
    client: &mut Client,
    code: u16,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<(), String> {
    let answer = client.ask(method, path, body).map_err(|error| format!("{method} {path}: {error}"))?;
    match answer.code == code {
        true => Ok(()),
        false => Err(format!("{method} {path}: {} {}", answer.code, answer.text())),
    }
}

impl Honest {
    fn start(target: &dyn Target) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let threads = target.honest().into_iter().map(|(name, ask)| (name, asking(&stop, ask))).collect();
        Self { stop, threads }
    }

    fn stop(self) -> Vec<(&'static str, Seen)> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|(name, thread)| (name, thread.join().unwrap())).collect()
    }
}

/// Runs an attack beside honest clients, and asserts the bounds. A machine that is slow without an attack has more time
/// with it.
pub(crate) fn withstand(target: &dyn Target, name: &str, attack: impl Fn()) {
    let mut slow = Vec::new();
    for _ in 0..TRIES {
        slow = attempt(target, name, &attack);
        if slow.is_empty() {
            return;
        }
    }
    panic!("{name}: slow each time: {slow:?}");
}

/// Runs an attack once, and asserts the bounds but those of time. Returns what took too long.
fn attempt(target: &dyn Target, name: &str, attack: &impl Fn()) -> Vec<String> {
    let process = target.process();
    let calm = Honest::start(target);
    thread::sleep(Duration::from_secs(1));
    let calm = calm.stop();
    let before = resident_bytes(process);
    let honest = Honest::start(target);
    let stop = Arc::<AtomicBool>::default();
    let watched = Arc::clone(&stop);
    let most = thread::scope(|scope| {
        let watching = scope.spawn(move || {
            let mut most = 0;
            while !watched.load(Ordering::Relaxed) {
                most = resident_bytes(process).max(most);
                thread::sleep(PAUSE);
            }
            most
        });
        attack();
        stop.store(true, Ordering::Relaxed);
        watching.join().unwrap()
    });
    let seen = honest.stop();
    let growth = most.saturating_sub(before);
    println!("{name}: memory +{} MiB", growth >> 20);
    let mut slow = Vec::new();
    for ((who, calm), (_, seen)) in calm.iter().zip(&seen) {
        let (p99, slowest) = (seen.p99(), seen.slowest());
        println!(
            "{name}: {who}: {} requests, p99 {p99:?}, slowest {slowest:?}; without the attack {:?}, {:?}",
            seen.times.len(),
            calm.p99(),
            calm.slowest()
        );
        assert!(calm.faults.is_empty(), "{name}: {who} before: {:?}", calm.faults);
        assert!(seen.faults.is_empty(), "{name}: {who}: {:?}", &seen.faults[..seen.faults.len().min(5)]);
        let allowance = calm.slowest() * 10;
        if p99 > P99 + allowance || slowest > SLOWEST + allowance {
            slow.push(format!("{who}: p99 {p99:?}, slowest {slowest:?}"));
        }
    }
    assert!(growth <= GROWTH, "{name}: {} MiB more memory", growth >> 20);
    slow
}

/// Runs attacks one after the other, each as [`withstand`].
pub(crate) fn withstand_each(target: &dyn Target, attacks: impl IntoIterator<Item = Attack>) {
    for Attack { name, run } in attacks {
        withstand(target, &name, run);
    }
}
