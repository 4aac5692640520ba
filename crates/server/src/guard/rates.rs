//! Rate limits by user: one token bucket each.
//!
//! The number of buckets is bounded, because callers choose user names.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The maximum number of users with a bucket. A user whose bucket is full again can be dropped.
const USERS: usize = 16_384;

/// See the module.
pub struct Rates {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<Box<str>, Bucket>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Rates {
    /// Creates limits of this rate per second and burst for each user. Both allow at least one request.
    pub fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { per_second: per_second.max(f64::MIN_POSITIVE), burst, buckets: Mutex::default() }
    }

    /// Returns whether a request of this user is allowed now.
    pub(super) fn admit(&self, user: &str, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(user) {
            bucket.tokens = self.tokens(bucket, now);
            bucket.filled = now;
            let is_admitted = bucket.tokens >= 1.0;
            if is_admitted {
                bucket.tokens -= 1.0;
            }
            return is_admitted;
        }
        if buckets.len() >= USERS {
            buckets.retain(|_, bucket| self.tokens(bucket, now) < self.burst);
        }
        // All buckets are in use: new users must wait until one is idle, or new names would bypass the limit.
        if buckets.len() >= USERS {
            return false;
        }
        buckets.insert(user.into(), Bucket { tokens: self.burst - 1.0, filled: now });
        true
    }

    fn tokens(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        (bucket.tokens + passed * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nobody_gets_more_than_the_burst_and_the_rate(
            waits in prop::collection::vec(0_u64..300, 1..200), rate in 1_u32..50, burst in 1_u32..20,
        ) {
            let rates = Rates::new(f64::from(rate), burst);
            let start = Instant::now();
            let mut now = start;
            let mut admitted = 0_u32;
            for wait in waits {
                now += Duration::from_millis(wait);
                admitted += u32::from(rates.admit("jane", now));
                let most = f64::from(burst) + (now - start).as_secs_f64() * f64::from(rate);
                prop_assert!(f64::from(admitted) <= most + 1e-6);
            }
        }
    }

    #[test]
    fn one_user_does_not_use_up_what_is_anothers() {
        let rates = Rates::new(1.0, 2);
        let now = Instant::now();
        assert!(rates.admit("jane", now) && rates.admit("jane", now) && !rates.admit("jane", now));
        assert!(rates.admit("joe", now));
        assert!(rates.admit("jane", now + Duration::from_secs(1)));
    }

    #[test]
    fn names_without_end_take_up_no_more_memory_and_are_no_way_round() {
        let rates = Rates::new(1.0, 1);
        let now = Instant::now();
        let admitted = (0..USERS + 10).filter(|n| rates.admit(&n.to_string(), now)).count();
        assert_eq!(admitted, USERS);
        assert_eq!(rates.buckets.lock().unwrap().len(), USERS);
        assert!(rates.admit("late", now + Duration::from_secs(2)));
    }
}
