//! Waits until a condition holds. The deadline is generous: it tells a test that hangs from one on a slow machine, and
//! says nothing about speed.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until the condition holds.
///
/// # Panics
/// It does not hold before the deadline.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_some(what, || condition().then_some(()));
}

/// Waits until there is a value, and returns it.
///
/// # Panics
/// There is none before the deadline.
#[track_caller]
pub fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    until_ok(what, || look().ok_or("not yet"))
}

/// Waits until there is a value, and returns it. The last error is part of the panic message.
///
/// # Panics
/// There is none before the deadline.
#[track_caller]
pub fn until_ok<T, E: Debug>(what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Ok(value) => return value,
            Err(error) => give_up_after(start, what, &error),
        }
        std::thread::sleep(PAUSE);
    }
}

/// As [`until`], without blocking the thread of an asynchronous test.
///
/// # Panics
/// The condition does not hold before the deadline.
pub async fn until_async(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        give_up_after(start, what, &"not yet");
        tokio::time::sleep(PAUSE).await;
    }
}

#[track_caller]
fn give_up_after(start: Instant, what: &str, last: &impl Debug) {
    assert!(start.elapsed() < DEADLINE, "waited {} s in vain: {what}; at last: {last:?}", DEADLINE.as_secs());
}
