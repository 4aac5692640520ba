//! A clock that stands still until a test moves it. Tests of other crates include this file: `portcullis-testkit` cannot
//! have it, for it knows no crate of the product.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "tests, and each uses a part of this")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use portcullis_client::clock::{Clock, Sleep};
use tokio::sync::watch;

/// How long a test waits in real time for something that happens at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Clones are the same clock.
#[derive(Clone)]
pub struct MovedClock {
    began: SystemTime,
    running: Arc<Mutex<Duration>>,
    moved: watch::Sender<()>,
    /// When each sleep ends, of all that have begun.
    sleeps: Arc<Mutex<Vec<Duration>>>,
}

impl MovedClock {
    pub fn at(began: SystemTime) -> Self {
        Self { began, running: Arc::default(), moved: watch::Sender::new(()), sleeps: Arc::default() }
    }

    pub fn advance(&self, time: Duration) {
        *self.running.lock().unwrap() += time;
        self.moved.send_replace(());
    }

    /// Waits until so many sleeps have begun that end when this clock has run for exactly this time. Without it, a test on
    /// a slow machine moves the clock before the task under test has begun its sleep.
    pub async fn wait_for_sleeps(&self, count: usize, end: Duration) {
        let deadline = Instant::now() + PATIENCE;
        while self.sleeps.lock().unwrap().iter().filter(|begun| **begun == end).count() < count {
            assert!(Instant::now() < deadline, "too few sleeps end at {end:?}: {:?}", self.sleeps.lock());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Moves the clock by one second at a time. Other tasks have time to run after each step.
    pub async fn advance_slowly(&self, seconds: u64) {
        for _ in 0..seconds {
            self.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }

    /// Moves the clock by one second at a time until the condition holds, at most by so many seconds, and says whether it
    /// holds. Other tasks have time to run between two steps, and more after the last one.
    pub async fn advance_until(&self, seconds: u64, mut condition: impl FnMut() -> bool) -> bool {
        for _ in 0..=seconds {
            // What the last step has caused takes real time.
            for _ in 0..20 {
                if condition() {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            self.advance(Duration::from_secs(1));
        }
        let deadline = Instant::now() + Duration::from_secs(3);
        while !condition() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        condition()
    }
}

impl Clock for MovedClock {
    fn now(&self) -> SystemTime {
        self.began + self.running()
    }

    fn running(&self) -> Duration {
        *self.running.lock().unwrap()
    }

    fn sleep(&self, time: Duration) -> Sleep<'_> {
        let until = self.running() + time;
        let mut moved = self.moved.subscribe();
        self.sleeps.lock().unwrap().push(until);
        Box::pin(async move {
            while self.running() < until {
                moved.changed().await.unwrap();
            }
        })
    }
}
