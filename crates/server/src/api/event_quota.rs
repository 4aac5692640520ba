//! Bounds of the events that are stored: nobody fills memory and disk with them.
//!
//! DIVERGES: kube-apiserver has such bounds only with the admission plugin EventRateLimit, which is off by default.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use policy::User;
use policy::chain::MASTERS_GROUP;
use policy::identity::NodeIdentity;

use crate::http::status::Status;

/// What one node may write while an event lives: the number of events, and their size in bytes.
const NODE: Amount = Amount { count: 10_000.0, bytes: 4.0 * 1024.0 * 1024.0 };
/// What everybody together may write to the events of one namespace while an event lives. The number is that of a large
/// cluster which starts all of its pods in one namespace.
const NAMESPACE: Amount = Amount { count: 500_000.0, bytes: 256.0 * 1024.0 * 1024.0 };
const HOUR: Duration = Duration::from_secs(60 * 60);
/// When there are more buckets, those that are full are forgotten.
const BUCKETS: usize = 20_000;

#[derive(Clone, Copy, Debug)]
struct Amount {
    count: f64,
    bytes: f64,
}

/// Whose events are bounded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Node(String),
    Namespace(String),
}

/// What may still be written, as of a time.
struct Bucket {
    left: Amount,
    at: Instant,
}

/// What each node and each namespace may still write. What it wrote comes back while its events expire.
pub(crate) struct EventQuota {
    /// How long an event lives.
    lifetime: Duration,
    buckets: Mutex<HashMap<Holder, Bucket>>,
}

impl Holder {
    fn most(&self) -> Amount {
        match self {
            Self::Node(_) => NODE,
            Self::Namespace(_) => NAMESPACE,
        }
    }

    fn full(&self) -> Status {
        let (what, name) = match self {
            Self::Node(name) => ("node", name),
            Self::Namespace(name) => ("namespace", name),
        };
        Status::too_many_requests(format!(
            "too many events of {what} {name}: it can write more as older ones expire"
        ))
    }
}

impl EventQuota {
    /// Bounds events that live so long. If that is zero, they live for ever, and what may be written comes back in an hour.
    pub(crate) fn new(lifetime: Duration) -> Self {
        let lifetime = if lifetime.is_zero() { HOUR } else { lifetime };
        Self { lifetime, buckets: Mutex::default() }
    }

    fn buckets(&self) -> MutexGuard<'_, HashMap<Holder, Bucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one write of an event in a namespace, of this size in bytes.
    ///
    /// # Errors
    /// 429 if the node or the namespace has written too much.
    pub(crate) fn take(
        &self,
        user: &User,
        namespace: &str,
        bytes: usize,
        now: Instant,
    ) -> Result<(), Status> {
        if user.in_group(MASTERS_GROUP) {
            return Ok(());
        }
        let node = NodeIdentity::of(user).map(|node| Holder::Node(node.name().to_owned()));
        let holders = node.into_iter().chain([Holder::Namespace(namespace.to_owned())]);
        #[expect(clippy::cast_precision_loss, reason = "a body has few megabytes")]
        let bytes = bytes as f64;
        let mut buckets = self.buckets();
        for holder in holders {
            let most = holder.most();
            let bucket = buckets.entry(holder.clone()).or_insert(Bucket { left: most, at: now });
            let share = now.saturating_duration_since(bucket.at).as_secs_f64() / self.lifetime.as_secs_f64();
            bucket.at = now;
            bucket.left.count = most.count.min(bucket.left.count + share * most.count);
            bucket.left.bytes = most.bytes.min(bucket.left.bytes + share * most.bytes);
            if bucket.left.count < 1.0 || bucket.left.bytes < bytes {
                return Err(holder.full());
            }
            bucket.left.count -= 1.0;
            bucket.left.bytes -= bytes;
        }
        if buckets.len() > BUCKETS {
            // A bucket that was not used for so long is full.
            buckets.retain(|_, bucket| now.saturating_duration_since(bucket.at) < self.lifetime);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_writes_without_end_is_stopped_and_others_are_not() {
        let quota = EventQuota::new(HOUR);
        let node = |name: &str| User::new(format!("system:node:{name}"), ["system:nodes"]);
        let (thief, honest) = (node("thief"), node("honest"));
        let start = Instant::now();
        let megabyte = 1024 * 1024;
        let taken = |user: &User, now| {
            (0..100).take_while(|_| quota.take(user, "default", megabyte, now).is_ok()).count()
        };
        assert_eq!(taken(&thief, start), 4);
        assert!(quota.take(&honest, "default", 1000, start).is_ok());
        // Half of them have expired.
        assert_eq!(taken(&thief, start + HOUR / 2), 2);
        let small =
            (0..20_000).take_while(|_| quota.take(&honest, "default", 100, start + HOUR).is_ok()).count();
        assert_eq!(small, 10_000);
    }

    #[test]
    fn a_namespace_is_bounded_whoever_writes_and_administrators_are_not() {
        let quota = EventQuota::new(HOUR);
        let now = Instant::now();
        let user = |number: usize| User::new(format!("u{number}"), [""; 0]);
        let megabyte = 1024 * 1024;
        let taken = (0..1000).take_while(|n| quota.take(&user(*n), "a", megabyte, now).is_ok()).count();
        assert_eq!(taken, 256);
        assert!(quota.take(&user(0), "b", megabyte, now).is_ok());
        assert!(quota.take(&User::new("admin", [MASTERS_GROUP]), "a", megabyte, now).is_ok());
    }
}
