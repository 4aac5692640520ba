//! Bounds of the events that are stored: nobody fills memory and disk with them.
//!
//! DIVERGES: kube-apiserver has such bounds only with the admission plugin EventRateLimit, which is off by default.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use policy::User;
use policy::chain::MASTERS_GROUP;
use policy::identity::NodeIdentity;

use crate::http::status::Status;

/// The limit of one node in the lifetime of an event: the number of events, and their size in bytes.
const NODE: Amount = Amount { count: 10_000.0, bytes: 4.0 * 1024.0 * 1024.0 };
/// The limit of one namespace in the lifetime of an event, for all callers together. A large cluster may start all of its
/// pods in one namespace.
const NAMESPACE: Amount = Amount { count: 500_000.0, bytes: 256.0 * 1024.0 * 1024.0 };
/// With so many buckets, those that are full are forgotten, at most once in [`FORGET_PAUSE`].
const MANY: usize = 10_000;
const FORGET_PAUSE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// The number of namespaces with a bound of their own. Namespaces after that share one: clients choose the names, and a
/// namespace need not exist.
const NAMESPACES: usize = 50_000;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Amount {
    count: f64,
    bytes: f64,
}

/// The amount that is left at a time.
struct Bucket {
    most: Amount,
    left: Amount,
    at: Instant,
}

/// The buckets of nodes, or of namespaces, by name.
struct Buckets {
    most: Amount,
    of: HashMap<Box<str>, Bucket>,
    /// When full buckets were last forgotten.
    forgotten: Option<Instant>,
}

/// The amounts that are left for each node and each namespace. They grow again while events expire.
pub(crate) struct EventQuota {
    /// How long an event lives.
    lifetime: Duration,
    state: Mutex<State>,
}

struct State {
    nodes: Buckets,
    namespaces: Buckets,
}

impl Bucket {
    fn refill(&mut self, lifetime: Duration, now: Instant) {
        let share = now.saturating_duration_since(self.at).as_secs_f64() / lifetime.as_secs_f64();
        self.at = now;
        self.left.count = self.most.count.min(self.left.count + share * self.most.count);
        self.left.bytes = self.most.bytes.min(self.left.bytes + share * self.most.bytes);
    }

    fn has(&self, bytes: f64) -> bool {
        self.left.count >= 1.0 && self.left.bytes >= bytes
    }

    fn take(&mut self, bytes: f64) {
        self.left.count -= 1.0;
        self.left.bytes -= bytes;
    }
}

impl Buckets {
    fn new(most: Amount) -> Self {
        Self { most, of: HashMap::new(), forgotten: None }
    }

    /// Returns the bucket of this name, as of now.
    fn get(&mut self, name: &str, lifetime: Duration, now: Instant) -> &mut Bucket {
        let is_due = self.forgotten.is_none_or(|last| now.saturating_duration_since(last) >= FORGET_PAUSE);
        if self.of.len() >= MANY && is_due {
            self.forgotten = Some(now);
            // A bucket that was not used for so long is full.
            self.of.retain(|_, bucket| now.saturating_duration_since(bucket.at) < lifetime);
        }
        let most = self.most;
        let bucket = self.of.entry(name.into()).or_insert(Bucket { most, left: most, at: now });
        bucket.refill(lifetime, now);
        bucket
    }
}

impl EventQuota {
    /// Bounds events that live so long. If that is zero, they live for ever, and what may be written comes back in an hour.
    pub(crate) fn new(lifetime: Duration) -> Self {
        let lifetime = if lifetime.is_zero() { HOUR } else { lifetime };
        let state = State { nodes: Buckets::new(NODE), namespaces: Buckets::new(NAMESPACE) };
        Self { lifetime, state: Mutex::new(state) }
    }

    /// Takes one write of an event in a namespace, of this size in bytes.
    ///
    /// # Errors
    /// 429 if the node or the namespace has written too much. Then nothing is taken.
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
        #[expect(clippy::cast_precision_loss, reason = "a body has few megabytes")]
        let bytes = bytes as f64;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { nodes, namespaces } = &mut *state;
        let node = NodeIdentity::of(user);
        let of_node = node.as_ref().map(|node| nodes.get(node.name(), self.lifetime, now));
        if let (Some(node), Some(false)) = (&node, of_node.as_ref().map(|bucket| bucket.has(bytes))) {
            return Err(full("node", node.name()));
        }
        let has_own = namespaces.of.len() < NAMESPACES || namespaces.of.contains_key(namespace);
        let of_namespace = namespaces.get(if has_own { namespace } else { "" }, self.lifetime, now);
        if !of_namespace.has(bytes) {
            return Err(full("namespace", namespace));
        }
        of_namespace.take(bytes);
        if let Some(bucket) = of_node {
            bucket.take(bytes);
        }
        Ok(())
    }
}

fn full(what: &str, name: &str) -> Status {
    let message = format!("too many events of {what} {name}: it can write more as older ones expire");
    Status::too_many_requests(message)
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

    #[test]
    fn a_refused_event_takes_nothing_and_namespaces_without_end_are_forgotten() {
        let quota = EventQuota::new(HOUR);
        let start = Instant::now();
        let user = User::new("u", [""; 0]);
        let node = User::new("system:node:n", ["system:nodes"]);
        let megabyte = 1024 * 1024;
        while quota.take(&user, "full", megabyte, start).is_ok() {}
        // The node is not charged for events that a full namespace refuses.
        for _ in 0..10 {
            assert!(quota.take(&node, "full", megabyte, start).is_err());
        }
        assert_eq!((0..10).take_while(|_| quota.take(&node, "a", megabyte, start).is_ok()).count(), 4);
        for number in 0..2 * NAMESPACES {
            quota.take(&user, &format!("made-up-{number}"), 1, start).unwrap();
        }
        let held = || quota.state.lock().unwrap().namespaces.of.len();
        assert_eq!(held(), NAMESPACES + 1, "the others share one bucket");
        quota.take(&user, "a", 1, start + HOUR).unwrap();
        assert_eq!(held(), 1);
    }
}
