//! The clock as a parameter: code that waits or compares dates takes a clock, which tests can control.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

/// The future of a delay.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A clock and timer.
pub trait Clock: Send + Sync {
    /// Returns the system time, which may jump.
    fn now(&self) -> SystemTime;

    /// Returns how long this clock has been running. It is monotonic, for measuring elapsed time.
    fn running(&self) -> Duration;

    /// Waits for this duration.
    fn sleep(&self, time: Duration) -> Sleep<'_>;
}

/// The system clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Creates a clock that starts now.
    #[expect(clippy::new_without_default, reason = "it depends on when it is made")]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn running(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, time: Duration) -> Sleep<'_> {
        Box::pin(tokio::time::sleep(time))
    }
}
