//! Time as an argument: whoever waits or compares dates is given a clock, so that tests move it instead of waiting.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

/// What is awaited until a time has passed.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The time, and waiting.
pub trait Clock: Send + Sync {
    /// The date, which may jump.
    fn now(&self) -> SystemTime;

    /// How long this clock has been running. It never goes back: for measuring how long something took.
    fn running(&self) -> Duration;

    /// Ends when so much time has passed.
    fn sleep(&self, time: Duration) -> Sleep<'_>;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock that runs from now on.
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
