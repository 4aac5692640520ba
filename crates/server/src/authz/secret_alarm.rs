//! The alarm on secrets: a node that asks for more distinct secrets in a minute than is usual for a node (BC-33).
//!
//! It refuses nothing, and keeps hashes instead of names. Minutes are those of a clock that begins with the program, so a burst that
//! two of them share may go unnoticed up to twice the number.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use policy::{Attributes, NodeIdentity};
use portcullis_apimachinery::quote::quoted;
use portcullis_client::metrics::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

/// The largest number of secrets after which the alarm can be raised: it bounds what is kept of each node.
pub const MOST_SECRETS: usize = 10_000;
/// So many nodes are watched at a time; further ones are not.
const MOST_NODES: usize = 16_384;
/// Requests of different nodes seldom wait for each other.
const SHARDS: usize = 64;
const SECONDS: u64 = 60;

/// The metrics of the alarm. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct AlarmMetrics {
    raised: Counter,
    unwatched: Counter,
}

impl AlarmMetrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "portcullis_node_secret_alarms_total",
            "Minutes in which a node asked for more distinct secrets than --node-secret-alarm",
            self.raised.clone(),
        );
        registry.register(
            "portcullis_node_secret_alarm_unwatched_requests_total",
            "Requests of nodes for secrets that were not counted, because too many nodes asked in a minute",
            self.unwatched.clone(),
        );
    }
}

/// What a node has asked for in a minute.
#[derive(Default)]
struct Window {
    minute: u64,
    secrets: HashSet<u64>,
    is_raised: bool,
}

/// See the module.
pub struct SecretAlarm {
    most: usize,
    /// Its keys are random, so that nobody can choose secrets with equal hashes.
    hasher: RandomState,
    nodes: [Mutex<HashMap<u64, Window>>; SHARDS],
    began: Instant,
    metrics: AlarmMetrics,
    /// Gets the names of the nodes for which the alarm is raised.
    told: Option<mpsc::Sender<String>>,
}

impl SecretAlarm {
    /// An alarm after this many distinct secrets, at most [`MOST_SECRETS`]. `told` gets the name of the node; when it is full, the log
    /// and the metric say enough.
    pub fn new(most: usize, metrics: AlarmMetrics, told: Option<mpsc::Sender<String>>) -> Self {
        Self {
            most: most.min(MOST_SECRETS),
            hasher: RandomState::new(),
            nodes: std::array::from_fn(|_| Mutex::default()),
            began: Instant::now(),
            metrics,
            told,
        }
    }

    /// Notes what was asked for. Everything but a node's request for a secret is passed over.
    pub fn note(&self, attributes: &Attributes<'_>) {
        let Some(node) = NodeIdentity::of(attributes.user) else { return };
        let Some(request) = &attributes.resource else { return };
        if request.resource != "secrets" || !request.group.is_empty() || request.name.is_empty() {
            return;
        }
        let secret = self.hasher.hash_one((request.namespace, request.name));
        if self.is_new_alarm(node.name(), secret, self.began.elapsed().as_secs() / SECONDS) {
            self.raise(node.name());
        }
    }

    /// Whether this is the first secret too many of a node in a minute.
    fn is_new_alarm(&self, node: &str, secret: u64, minute: u64) -> bool {
        let node = self.hasher.hash_one(node);
        let shard = usize::try_from(node % SHARDS as u64).ok().and_then(|place| self.nodes.get(place));
        let Some(shard) = shard else { return false };
        let mut nodes = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if nodes.len() >= MOST_NODES / SHARDS && !nodes.contains_key(&node) {
            nodes.retain(|_, window| window.minute >= minute);
            if nodes.len() >= MOST_NODES / SHARDS {
                self.metrics.unwatched.inc();
                return false;
            }
        }
        let window = nodes.entry(node).or_default();
        if window.minute < minute {
            window.secrets.clear();
            (window.minute, window.is_raised) = (minute, false);
        }
        if window.is_raised {
            return false;
        }
        window.secrets.insert(secret);
        window.is_raised = window.secrets.len() > self.most;
        window.is_raised
    }

    fn raise(&self, node: &str) {
        self.metrics.raised.inc();
        tracing::warn!(
            node = quoted(node),
            secrets = self.most,
            "a node asked for more distinct secrets in a minute than --node-secret-alarm"
        );
        if let Some(told) = &self.told {
            // A full queue has enough to tell.
            let _ = told.try_send(node.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use policy::{ResourceRequest, User};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_alarm_is_raised_once_for_each_minute_with_too_many_bc_33(
            most in 0_usize..4,
            mut asked in proptest::collection::vec((0_u64..4, 0_u8..3, 0_u64..6), 0..60),
        ) {
            asked.sort_by_key(|(minute, ..)| *minute);
            let alarm = SecretAlarm::new(most, AlarmMetrics::default(), None);
            let mut raised = Vec::new();
            for (minute, node, secret) in &asked {
                if alarm.is_new_alarm(&format!("n{node}"), *secret, *minute) {
                    raised.push((*minute, *node));
                }
            }
            // The same by counting each minute of each node anew.
            let all: BTreeSet<_> = asked.iter().map(|(minute, node, _)| (*minute, *node)).collect();
            let too_many = |of: &(u64, u8)| {
                let secrets = asked.iter().filter(|(minute, node, _)| (*minute, *node) == *of);
                secrets.map(|(.., secret)| secret).collect::<BTreeSet<_>>().len() > most
            };
            raised.sort_unstable();
            prop_assert_eq!(raised, all.into_iter().filter(too_many).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_kept_is_bounded_bc_33() {
        let alarm = SecretAlarm::new(1, AlarmMetrics::default(), None);
        for node in 0..100_000 {
            alarm.is_new_alarm(&format!("n{node}"), 0, 1);
        }
        let kept =
            |alarm: &SecretAlarm| alarm.nodes.iter().map(|nodes| nodes.lock().unwrap().len()).sum::<usize>();
        assert!(kept(&alarm) <= MOST_NODES, "{}", kept(&alarm));
        assert!(alarm.metrics.unwatched.get() > 50_000);
        // A later minute has room for others.
        assert!(!alarm.is_new_alarm("later", 1, 2));
        assert!(alarm.is_new_alarm("later", 2, 2));
        for secret in 0..1_000 {
            alarm.is_new_alarm("later", secret, 2);
        }
        let largest = |nodes: &Mutex<HashMap<u64, Window>>| {
            nodes.lock().unwrap().values().map(|window| window.secrets.len()).max().unwrap_or(0)
        };
        assert_eq!(alarm.nodes.iter().map(largest).max(), Some(2));
    }

    #[test]
    fn only_secrets_of_nodes_are_counted_bc_33() {
        let (sender, mut told) = mpsc::channel(4);
        let alarm = SecretAlarm::new(1, AlarmMetrics::default(), Some(sender));
        let node = User::new("system:node:n1", ["system:nodes"]);
        let jane = User::new("jane", ["system:nodes"]);
        let note = |user: &User, resource: &str, name: &str| {
            let request = ResourceRequest { namespace: "a", name, resource, ..ResourceRequest::default() };
            alarm.note(&Attributes { user, verb: "get", path: "", resource: Some(request) });
        };
        for name in ["a", "b", "c"] {
            note(&node, "configmaps", name);
            note(&jane, "secrets", name);
        }
        note(&node, "secrets", "a");
        note(&node, "secrets", "a");
        assert_eq!(alarm.metrics.raised.get(), 0);
        note(&node, "secrets", "b");
        note(&node, "secrets", "c");
        assert_eq!(alarm.metrics.raised.get(), 1);
        assert_eq!(told.try_recv().unwrap(), "n1");
        assert!(told.try_recv().is_err());
    }
}
