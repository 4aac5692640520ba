//! Since when kubelets have been silent, and how many nodes of a zone are ready. Times are those at which something was
//! seen here: what nodes write into objects does not count, except that it has changed.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long a zone waits before the pods of the next node are evicted.
const PAUSE: Duration = Duration::from_secs(10);
/// The same in a large zone that is partly down.
const LONG_PAUSE: Duration = Duration::from_secs(100);
/// A zone with more nodes is large.
const LARGE: usize = 50;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Health {
    nodes: HashMap<Box<str>, Node>,
    zones: HashMap<String, Zone>,
}

#[derive(Debug)]
struct Node {
    /// When there was last a sign of its kubelet.
    heard: Instant,
    heartbeat: String,
    zone: String,
    /// Since when it is not ready, if it is not.
    unready: Option<Instant>,
    /// Whether its pods are known to be not ready since then.
    has_unready_pods: bool,
}

#[derive(Debug, Default)]
struct Zone {
    ready: usize,
    others: usize,
    /// When the pods of the next node may be evicted.
    next: Option<Instant>,
}

/// The last observation of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The time that its kubelet wrote.
    pub(super) heartbeat: String,
    pub(super) zone: String,
    pub(super) is_ready: bool,
}

/// Whether the pods of a node that is not ready are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// They are.
    Now,
    /// They are not yet. Those that are being evicted already go on.
    NotYet,
    /// They are not, because no node is ready: the fault is likely to be elsewhere.
    Off,
}

impl Health {
    /// Takes in the state of a node. A new heartbeat is a sign of its kubelet, and so is the first look.
    pub(super) fn see(&mut self, name: &str, seen: Seen, now: Instant) {
        let old = self.nodes.remove(name);
        if let Some(old) = &old {
            self.count(&old.zone, old.unready.is_none(), false);
        }
        self.count(&seen.zone, seen.is_ready, true);
        let Seen { heartbeat, zone, is_ready } = seen;
        let unready = old.as_ref().and_then(|old| old.unready).or(Some(now)).filter(|_| !is_ready);
        let has_unready_pods = !is_ready && old.as_ref().is_some_and(|old| old.has_unready_pods);
        let heard = old.filter(|old| old.heartbeat == heartbeat).map_or(now, |old| old.heard);
        self.nodes.insert(name.into(), Node { heard, heartbeat, zone, unready, has_unready_pods });
    }

    /// Notes that a kubelet has renewed its lease.
    pub(super) fn hear(&mut self, name: &str, now: Instant) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.heard = now;
        }
    }

    /// Returns whether the pods of a node are known to be not ready since it is not.
    pub(super) fn has_unready_pods(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.has_unready_pods)
    }

    /// Notes that the pods of a node are not ready.
    pub(super) fn note_unready_pods(&mut self, name: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.has_unready_pods = node.unready.is_some();
        }
    }

    /// Forgets a node.
    pub(super) fn forget(&mut self, name: &str) {
        if let Some(node) = self.nodes.remove(name) {
            self.count(&node.zone, node.unready.is_none(), false);
        }
    }

    /// Returns how long a kubelet may still be silent; zero when it has been so for longer than the grace period.
    pub(super) fn left(&self, name: &str, grace_period: Duration, now: Instant) -> Duration {
        let silent = self.nodes.get(name).map(|node| now.saturating_duration_since(node.heard));
        grace_period.saturating_sub(silent.unwrap_or_default())
    }

    /// Returns whether the pods of a node are evicted that is not ready. `begins` if they are not yet: the node must not have
    /// been ready for as long as `patience`, so that others that are lost at the same time are known to be, and the next
    /// node of the zone then has to wait.
    pub(super) fn eviction(
        &mut self,
        name: &str,
        begins: bool,
        patience: Duration,
        now: Instant,
    ) -> Eviction {
        if self.zones.values().all(|zone| zone.ready == 0) {
            return Eviction::Off;
        }
        if !begins {
            return Eviction::Now;
        }
        let is_late = |since: Instant| now.saturating_duration_since(since) >= patience;
        let node = self.nodes.get(name).filter(|node| node.unready.is_some_and(is_late));
        let Some(zone) = node.and_then(|node| self.zones.get_mut(&node.zone)) else {
            return Eviction::NotYet;
        };
        let total = zone.ready.saturating_add(zone.others);
        // 55 %, and more than two nodes.
        let is_partly_down =
            zone.ready > 0 && zone.others > 2 && zone.others.saturating_mul(100) >= total.saturating_mul(55);
        let pause = match is_partly_down {
            true if total <= LARGE => return Eviction::NotYet,
            true => LONG_PAUSE,
            false => PAUSE,
        };
        if zone.next.is_some_and(|next| next > now) {
            return Eviction::NotYet;
        }
        zone.next = Some(now + pause);
        Eviction::Now
    }

    fn count(&mut self, zone: &str, is_ready: bool, is_more: bool) {
        let counts = self.zones.entry(zone.to_owned()).or_default();
        let count = if is_ready { &mut counts.ready } else { &mut counts.others };
        *count = if is_more { count.saturating_add(1) } else { count.saturating_sub(1) };
        if counts.ready == 0 && counts.others == 0 {
            self.zones.remove(zone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(50);

    fn seen(heartbeat: &str, is_ready: bool) -> Seen {
        Seen { heartbeat: heartbeat.to_owned(), zone: "z".to_owned(), is_ready }
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_or_a_new_heartbeat_is_a_sign_of_life_and_an_old_one_is_not() {
        let (mut health, start) = (Health::default(), Instant::now());
        let left = |health: &Health, seconds: u64| health.left("n", GRACE, after(start, seconds)).as_secs();
        health.see("n", seen("1999-01-01T00:00:00Z", true), start);
        assert_eq!(left(&health, 20), 30, "whatever the clock of the node says");
        health.see("n", seen("1999-01-01T00:00:00Z", true), after(start, 20));
        assert_eq!(left(&health, 49), 1);
        assert_eq!(left(&health, 50), 0);
        health.hear("n", after(start, 60));
        assert_eq!(left(&health, 100), 10);
        health.see("n", seen("1998-01-01T00:00:00Z", true), after(start, 105));
        assert_eq!(left(&health, 105), 50);
        assert!(!health.has_unready_pods("n"));
        health.see("n", seen("1998-01-01T00:00:00Z", false), after(start, 106));
        health.note_unready_pods("n");
        health.see("n", seen("1998-01-01T00:00:00Z", false), after(start, 107));
        assert!(health.has_unready_pods("n"));
        health.see("n", seen("1998-01-01T00:00:01Z", true), after(start, 108));
        assert!(!health.has_unready_pods("n"));
        health.hear("unknown", start);
        health.forget("n");
        assert_eq!(left(&health, 1_000), 50, "a node that is not there is not silent");
    }

    /// Ten nodes of which so many are not ready.
    fn zone(total: usize, down: usize) -> (Health, Instant) {
        let (mut health, start) = (Health::default(), Instant::now());
        for i in 0..total {
            health.see(&format!("n-{i}"), seen("", i >= down), start);
        }
        (health, start)
    }

    #[test]
    fn one_node_after_the_other_is_emptied() {
        let (mut health, start) = zone(10, 3);
        assert_eq!(health.eviction("n-0", true, Duration::ZERO, start), Eviction::Now);
        assert_eq!(health.eviction("n-1", true, Duration::ZERO, after(start, 9)), Eviction::NotYet);
        assert_eq!(health.eviction("n-0", false, Duration::ZERO, after(start, 9)), Eviction::Now);
        assert_eq!(health.eviction("n-2", true, Duration::ZERO, after(start, 10)), Eviction::Now);
        assert_eq!(health.eviction("n-1", true, Duration::ZERO, after(start, 19)), Eviction::NotYet);
    }

    #[test]
    fn nodes_that_are_lost_together_are_seen_together() {
        let (mut health, start) = zone(2, 0);
        let patience = Duration::from_secs(5);
        health.see("n-0", seen("", false), after(start, 50));
        assert_eq!(health.eviction("n-0", true, patience, after(start, 50)), Eviction::NotYet);
        health.see("n-0", seen("", false), after(start, 52));
        assert_eq!(health.eviction("n-0", true, patience, after(start, 55)), Eviction::Now);
        let (mut health, start) = zone(2, 0);
        for name in ["n-0", "n-1"] {
            health.see(name, seen("", false), after(start, 50));
        }
        assert_eq!(health.eviction("n-0", true, patience, after(start, 55)), Eviction::Off);
    }

    #[test]
    fn a_zone_that_is_mostly_down_is_not_emptied_or_slowly_if_it_is_large() {
        let (mut health, start) = zone(10, 6);
        assert_eq!(health.eviction("n-0", true, Duration::ZERO, start), Eviction::NotYet);
        let (mut health, start) = zone(100, 60);
        assert_eq!(health.eviction("n-0", true, Duration::ZERO, start), Eviction::Now);
        assert_eq!(health.eviction("n-1", true, Duration::ZERO, after(start, 99)), Eviction::NotYet);
        assert_eq!(health.eviction("n-1", true, Duration::ZERO, after(start, 100)), Eviction::Now);
    }

    #[test]
    fn nothing_is_emptied_when_no_node_is_ready() {
        let (mut health, start) = zone(10, 10);
        assert_eq!(health.eviction("n-0", false, Duration::ZERO, start), Eviction::Off);
        let other = Seen { heartbeat: String::new(), zone: "other".to_owned(), is_ready: true };
        health.see("m", other.clone(), start);
        assert_eq!(
            health.eviction("n-0", true, Duration::ZERO, start),
            Eviction::Now,
            "one zone is lost as a whole"
        );
        health.forget("m");
        assert_eq!(health.eviction("n-0", false, Duration::ZERO, start), Eviction::Off);
        health.see("m", Seen { is_ready: false, ..other }, start);
        assert_eq!(health.eviction("n-0", true, Duration::ZERO, start), Eviction::Off);
    }
}
