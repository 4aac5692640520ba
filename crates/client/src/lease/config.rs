//! The settings of a lease, and which times fit together.

use std::time::Duration;

/// The jitter factor of a candidate's waits.
pub(super) const JITTER: f64 = 1.2;

/// The configuration of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// The namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Our identity, unique for each candidate process.
    pub identity: String,
    /// How long other candidates wait for a leader that does not renew. In whole seconds.
    pub lease_duration: Duration,
    /// How long a leader tries to renew before it stops. Shorter than `lease_duration`.
    pub renew_deadline: Duration,
    /// The interval between attempts.
    pub retry_period: Duration,
    /// Whether a leader releases the lease when it ends, so that the next one need not wait.
    pub release_on_exit: bool,
}

/// The times are inconsistent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LeaseConfigError(String);

impl LeaseConfig {
    /// The longest time from the last renewal of a leader that was killed until another candidate that runs can hold the
    /// lease: it sees that renewal, waits for the lease to end, and looks again, once per longest interval each.
    pub fn longest_takeover(&self) -> Duration {
        self.lease_duration.saturating_add(self.retry_period.mul_f64(JITTER).saturating_mul(2))
    }

    /// Checks that a leader stops before another one may start.
    ///
    /// # Errors
    /// Names the invalid time.
    pub fn check(&self) -> Result<(), LeaseConfigError> {
        let refuse = |why: &str| Err(LeaseConfigError(why.to_owned()));
        if self.identity.is_empty() {
            return refuse("the identity of a contender for a lease must not be empty");
        }
        if self.lease_duration.subsec_nanos() != 0 || self.lease_duration.is_zero() {
            return refuse("the lease duration must be a whole number of seconds, at least one");
        }
        if self.renew_deadline >= self.lease_duration {
            return refuse("the lease duration must be longer than the renew deadline");
        }
        if self.retry_period.is_zero() || self.renew_deadline <= self.retry_period.mul_f64(JITTER) {
            return refuse(
                "the renew deadline must be longer than 1.2 times the retry period, and that longer than nothing",
            );
        }
        Ok(())
    }
}
