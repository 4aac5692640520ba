//! When a review is asked again: five calls, half a second apart, then half as much longer each time (KA-50, WH-30).

use std::time::Duration;

use crate::random::fraction;

const CALLS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;

/// The waits between the calls of one review.
#[derive(Debug)]
pub struct Backoff {
    wait: Duration,
    calls: u32,
}

impl Default for Backoff {
    /// Of a review that was asked once.
    fn default() -> Self {
        Self { wait: FIRST_WAIT, calls: 1 }
    }
}

impl Backoff {
    /// How long to wait before the next call, at least so long. None: it was asked often enough.
    pub fn next(&mut self, least: Duration) -> Option<Duration> {
        if self.calls >= CALLS {
            return None;
        }
        let wait = self.wait.mul_f64(1.0 + JITTER * fraction()).max(least);
        self.wait = self.wait.mul_f64(FACTOR);
        self.calls += 1;
        Some(wait)
    }
}
