//! Leader election over a `coordination.k8s.io/v1` Lease, as in the controllers of Kubernetes.
//!
//! Clocks of different machines are never compared: a lease has expired when an observer has seen no change for the
//! lease duration by its own clock. A leader that cannot renew stops before another candidate may start.

mod config;
mod election;
mod leases;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::random::fraction;
use config::JITTER;
use election::{Election, Step};

pub use config::{LeaseConfig, LeaseConfigError};
pub use leases::{LeaseError, Leases};

/// The end of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Led<T> {
    /// The work is complete.
    Done(T),
    /// The lease was lost, and the work was stopped.
    Lost {
        /// Why.
        why: String,
    },
    /// Stopped on request; work in progress was stopped.
    Stopped,
}

/// Lets the leader check that it still holds the lease before critical steps.
#[derive(Clone)]
pub struct Leadership {
    clock: Arc<dyn Clock>,
    until: Arc<Until>,
}

/// The expiry of our lease. In milliseconds, by two clocks; the earlier one counts.
#[derive(Default)]
struct Until {
    /// By the monotonic clock.
    running: AtomicU64,
    /// By the system clock, since 1970. The monotonic clock stops while the machine is suspended.
    date: AtomicU64,
}

impl Leadership {
    /// Returns whether no other candidate can hold the lease yet. The work of a leader that lost the lease is stopped;
    /// this check covers the time before that, and machines that were suspended.
    pub fn holds(&self) -> bool {
        millis(self.clock.running()) < self.until.running.load(Ordering::Acquire)
            && millis(since_epoch(self.clock.now())) < self.until.date.load(Ordering::Acquire)
    }

    fn hold_until(&self, running: Duration, date: SystemTime) {
        self.until.running.store(millis(running), Ordering::Release);
        self.until.date.store(millis(since_epoch(date)), Ordering::Release);
    }

    fn give_up(&self) {
        self.hold_until(Duration::ZERO, SystemTime::UNIX_EPOCH);
    }
}

impl std::fmt::Debug for Leadership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leadership").field("holds", &self.holds()).finish_non_exhaustive()
    }
}

fn since_epoch(date: SystemTime) -> Duration {
    date.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Waits for the lease, works while it is held, and stops when it is lost, the work is complete or `stop` completes.
///
/// The work is stopped by dropping it: tasks that it has spawned must end with it.
///
/// # Errors
/// The times are inconsistent.
pub async fn lead<L, W, F>(
    leases: &L,
    config: LeaseConfig,
    clock: Arc<dyn Clock>,
    stop: impl Future<Output = ()> + Send,
    work: W,
) -> Result<Led<F::Output>, LeaseConfigError>
where
    L: Leases,
    W: FnOnce(Leadership) -> F,
    F: Future,
{
    config.check()?;
    let leadership = Leadership { clock: clock.clone(), until: Arc::default() };
    let mut contender = Contender {
        leases: leases.clone(),
        election: Election::new(config.clone()),
        config,
        clock,
        leadership: leadership.clone(),
    };
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        () = contender.acquire() => {}
        () = &mut stop => return Ok(Led::Stopped),
    }
    // Renewal runs in its own task, so that work that blocks its thread does not lose the lease.
    let (end, ended) = oneshot::channel();
    let mut renewing = tokio::spawn(contender.renew(ended));
    let led = tokio::select! {
        biased;
        lost = &mut renewing => {
            let why = match lost {
                Ok(Some(why)) => why,
                Ok(None) => "renewing ended".to_owned(),
                Err(error) => error.to_string(),
            };
            return Ok(Led::Lost { why });
        }
        () = &mut stop => Led::Stopped,
        done = work(leadership) => Led::Done(done),
    };
    // The work was dropped: now the lease may be released.
    drop(end);
    let _ = renewing.await;
    Ok(led)
}

/// As [`lead`], and contends for the lease again whenever it is lost, until the work is complete or `stop` completes.
/// `ended` is called after each term.
///
/// # Errors
/// The times are inconsistent.
pub async fn lead_again<L, F>(
    leases: &L,
    config: &LeaseConfig,
    clock: &Arc<dyn Clock>,
    stop: impl Future<Output = ()> + Send,
    work: impl Fn(Leadership) -> F,
    ended: impl Fn(),
) -> Result<(), LeaseConfigError>
where
    L: Leases,
    F: Future<Output = ()>,
{
    let (stopped, mut asked) = tokio::sync::watch::channel(false);
    let contend = async {
        loop {
            let mut asked = stopped.subscribe();
            let stop = async move {
                let _ = asked.wait_for(|stop| *stop).await;
            };
            let led = lead(leases, config.clone(), Arc::clone(clock), stop, &work).await?;
            ended();
            match led {
                Led::Lost { why } => {
                    tracing::warn!(lease = config.name, why, "the lease is lost; contending for it again");
                }
                Led::Done(()) | Led::Stopped => return Ok(()),
            }
        }
    };
    let _ = asked.borrow_and_update();
    let mut contend = std::pin::pin!(contend);
    tokio::select! {
        ended = &mut contend => return ended,
        () = stop => {}
    }
    // The lease is released before this returns.
    let _ = stopped.send(true);
    contend.await
}

struct Contender<L> {
    leases: L,
    election: Election,
    config: LeaseConfig,
    clock: Arc<dyn Clock>,
    leadership: Leadership,
}

impl<L: Leases> Contender<L> {
    /// Returns when we hold the lease.
    async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(lease = self.config.name, %error, "cannot acquire the lease; will retry");
                }
            }
            let wait = self.config.retry_period.mul_f64(1.0 + fraction() * (JITTER - 1.0));
            self.clock.sleep(wait).await;
        }
    }

    /// Renews the lease until it is lost, and returns why; or until `ended`, and releases it.
    async fn renew(mut self, mut ended: oneshot::Receiver<()>) -> Option<String> {
        let clock = self.clock.clone();
        let retry_period = self.config.retry_period;
        loop {
            tokio::select! {
                _ = &mut ended => {
                    self.release().await;
                    return None;
                }
                lost = self.keep() => {
                    if lost.is_some() {
                        self.leadership.give_up();
                        return lost;
                    }
                }
            }
            tokio::select! {
                _ = &mut ended => {
                    self.release().await;
                    return None;
                }
                () = clock.sleep(retry_period) => {}
            }
        }
    }

    /// Renews the lease once, with retries until the deadline. Returns the reason if the lease is lost.
    async fn keep(&mut self) -> Option<String> {
        let Some(renewed_at) = self.election.renewed_at() else {
            return Some("it was never ours".to_owned());
        };
        let deadline = renewed_at + self.config.renew_deadline;
        let mut last = String::new();
        loop {
            let clock = self.clock.clone();
            let left = deadline.saturating_sub(clock.running());
            if left.is_zero() {
                let seconds = self.config.renew_deadline.as_secs();
                return Some(format!("not renewed in {seconds} s{last}"));
            }
            let wait = self.config.retry_period.min(left);
            tokio::select! {
                renewed = self.attempt() => match renewed {
                    Ok(true) => return None,
                    Ok(false) => return Some(format!("{} has taken it", self.election.holder())),
                    Err(error) => {
                        tracing::warn!(lease = self.config.name, %error, "cannot renew the lease; will retry");
                        last = format!(": {error}");
                    }
                },
                () = clock.sleep(left) => continue,
            }
            clock.sleep(wait).await;
        }
    }

    /// Makes one attempt to acquire or renew the lease. Returns whether we hold it.
    async fn attempt(&mut self) -> Result<bool, LeaseError> {
        // Taken before the request, so that the time in the lease cannot be older.
        let (asked_at, asked_on) = (self.clock.running(), self.clock.now());
        let found = self.leases.get(&self.config.namespace, &self.config.name).await?;
        let step = self.election.decide(found.as_ref(), self.clock.running(), self.clock.now());
        let written = match (step, found) {
            (Step::Wait, _) => return Ok(false),
            (Step::Write(spec), None) => {
                let lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": self.config.name, "namespace": self.config.namespace},
                    "spec": spec,
                });
                self.leases.create(&lease).await
            }
            (Step::Write(spec), Some(found)) => {
                // With the resourceVersion that was read, so that one of two concurrent writes fails.
                let lease = with_spec(found, spec);
                self.leases.replace(&lease).await
            }
        };
        match written {
            Ok(lease) => {
                self.election.written(&lease, asked_at, self.clock.running());
                let lasts = self.config.lease_duration;
                self.leadership.hold_until(asked_at + lasts, asked_on + lasts);
                Ok(true)
            }
            // A conflicting write. The next read shows whether we have lost the lease.
            Err(LeaseError::Conflict) if self.election.renewed_at().is_none() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Releases the lease, if we hold it and this is configured.
    async fn release(&mut self) {
        self.leadership.give_up();
        if !self.config.release_on_exit {
            return;
        }
        let Some((lease, spec)) = self.election.release(self.clock.now()) else { return };
        let mut given = self.leases.replace(&with_spec(lease, spec.clone())).await.map(drop);
        if given == Err(LeaseError::Conflict) {
            // An abandoned renewal has arrived after all.
            given = match self.leases.get(&self.config.namespace, &self.config.name).await {
                Ok(Some(lease)) if self.election.is_ours(&lease) => {
                    self.leases.replace(&with_spec(lease, spec)).await.map(drop)
                }
                other => other.map(drop),
            };
        }
        if let Err(error) = given {
            tracing::warn!(lease = self.config.name, %error, "cannot give the lease away; others wait for its end");
        }
    }
}

/// Replaces the spec of a lease and keeps all other fields.
fn with_spec(mut lease: Value, spec: Value) -> Value {
    let Some(object) = lease.as_object_mut() else { return lease };
    match (object.get_mut("spec").and_then(Value::as_object_mut), spec) {
        (Some(old), Value::Object(new)) => old.extend(new),
        (_, new) => {
            object.insert("spec".to_owned(), new);
        }
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Sleep;
    use std::sync::Mutex;

    /// The monotonic and the system time of the clock.
    struct Shown(Mutex<(Duration, SystemTime)>);

    impl Clock for Shown {
        fn now(&self) -> SystemTime {
            self.0.lock().unwrap().1
        }

        fn running(&self) -> Duration {
            self.0.lock().unwrap().0
        }

        fn sleep(&self, _: Duration) -> Sleep<'_> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn who_has_been_asleep_or_is_late_does_not_hold_the_lease() {
        let (second, date) = (Duration::from_secs(1), SystemTime::now());
        let clock = Arc::new(Shown(Mutex::new((second, date))));
        let leadership = Leadership { clock: clock.clone(), until: Arc::default() };
        assert!(!leadership.holds(), "not before it is ours");
        leadership.hold_until(second * 16, date + second * 15);
        for (running, on, holds) in [
            (second * 15, date + second * 14, true),
            (second * 16, date + second * 14, false),
            (second * 2, date + second * 3600, false),
            (second * 16, date - second * 3600, false),
        ] {
            *clock.0.lock().unwrap() = (running, on);
            assert_eq!(leadership.holds(), holds, "{running:?}");
        }
        *clock.0.lock().unwrap() = (second, date);
        leadership.give_up();
        assert!(!leadership.holds());
    }
}
