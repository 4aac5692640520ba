//! A clock that stands still until it is moved.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use portcullis_client::clock::{Clock, Sleep};
use tokio::sync::watch;

/// Clones are the same clock.
#[derive(Clone)]
pub struct MovedClock {
    began: SystemTime,
    running: Arc<Mutex<Duration>>,
    moved: watch::Sender<()>,
}

impl MovedClock {
    pub fn at(began: SystemTime) -> Self {
        Self { began, running: Arc::default(), moved: watch::Sender::new(()) }
    }

    pub fn advance(&self, time: Duration) {
        *self.running.lock().unwrap() += time;
        self.moved.send_replace(());
    }

    /// Moves the clock by one second at a time, with room for others in between, until something is so; at most so
    /// many seconds. Says whether it came to be.
    pub async fn advance_until(&self, seconds: u64, mut is_so: impl FnMut() -> bool) -> bool {
        for _ in 0..=seconds {
            // What has been set off by the last move takes its time, which is not that of this clock.
            for _ in 0..20 {
                if is_so() {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            self.advance(Duration::from_secs(1));
        }
        is_so()
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
        Box::pin(async move {
            while self.running() < until {
                moved.changed().await.unwrap();
            }
        })
    }
}
