//! Follows the health of nodes: notes in their conditions when their kubelets are silent, and sets the taints that follow
//! from the conditions. Pods of a silent node are not ready any more; the taint eviction controller deletes them.
//!
//! A renewal of a lease only moves a time. A node is looked at when it changes, when its kubelet would have been silent for
//! too long, and every few seconds while it is not ready.

mod health;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kinds::Map;
use kinds::resources::core::node_health::{
    Readiness, UNREACHABLE, evicting_taints, has_evicting_taint, heartbeat, mark_silent, readiness,
    set_evicting_taint, set_scheduling_taints, zone,
};
use kinds::resources::core::nodes::{NODES, NOT_READY};
use kinds::resources::pods::{PODS, mark_unready};
use memchr::memmem;
use portcullis_store::{Entry, Event};
use tokio::time::Instant;

use self::health::{Eviction, Health, Seen};
use super::events::{self, Report};
use super::pods_by_node::PodsByNode;
use super::runner::{Controller, Next};
use super::settings::ControllerSettings;
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::meta::{self, now};
use crate::registry::storage::Stored;
use crate::registry::{storage, write};

const LEASES: &str = "/coordination.k8s.io/leases/kube-node-lease/";

/// See the module.
pub(super) struct NodeLifecycle {
    backend: Arc<Backend>,
    pods: Arc<PodsByNode>,
    settings: ControllerSettings,
    health: Mutex<Health>,
}

impl NodeLifecycle {
    pub(super) fn new(backend: Arc<Backend>, pods: Arc<PodsByNode>, settings: ControllerSettings) -> Self {
        Self { backend, pods, settings, health: Mutex::default() }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, name: &str, node: &Map) {
        let seen = Seen {
            heartbeat: heartbeat(node).to_owned(),
            zone: zone(node),
            is_ready: readiness(node) == Readiness::Ready,
        };
        self.health().see(name, seen, Instant::now());
    }

    /// Sets the taint for which pods have to leave the node, as far as its zone allows. Returns whether the node is to be
    /// looked at again.
    fn set_eviction(&self, name: &str, node: &mut Map, now: &str) -> bool {
        let key = match readiness(node) {
            Readiness::NotReady => NOT_READY,
            Readiness::Unknown => UNREACHABLE,
            Readiness::Ready => {
                set_evicting_taint(node, None, now);
                return false;
            }
            // A kubelet that was never heard of has no pods.
            Readiness::Unreported => return false,
        };
        let is_begun = [NOT_READY, UNREACHABLE].iter().any(|key| has_evicting_taint(node, key));
        let patience = self.settings.node_monitor_period;
        match self.health().eviction(name, !is_begun, patience, Instant::now()) {
            Eviction::Now => set_evicting_taint(node, Some(key), now),
            Eviction::NotYet => {}
            Eviction::Off => set_evicting_taint(node, None, now),
        }
        true
    }

    /// Notes that the pods of a silent node are not ready, once. Returns false after a conflict.
    async fn mark_pods(&self, name: &str) -> Result<bool, Status> {
        if self.health().has_unready_pods(name) {
            return Ok(true);
        }
        let mut are_all = true;
        for pod in self.pods.of(name).await? {
            let mut unready = pod.object.clone();
            if mark_unready(&mut unready, now()) {
                let write = write::replace(&PODS, &pod.entry, unready, write::CONTROLLERS)?;
                are_all &= write::commit(&self.backend, vec![write]).await?;
            }
        }
        if are_all {
            self.health().note_unready_pods(name);
        }
        Ok(are_all)
    }

    /// Writes a node that has changed. Returns false after a conflict.
    async fn write(&self, stored: &Stored, node: Map) -> Result<bool, Status> {
        if node == stored.object {
            return Ok(true);
        }
        let is_lost = readiness(&stored.object) == Readiness::Ready && readiness(&node) != Readiness::Ready;
        let name = meta::text(&node, "name").to_owned();
        let is_evicted = evicting_taints(&node).next().is_some();
        let write = write::replace(&NODES, &stored.entry, node, write::CONTROLLERS)?;
        if !write::commit(&self.backend, vec![write]).await? {
            return Ok(false);
        }
        tracing::info!(node = name, is_lost, is_evicted, "wrote the health of a node");
        if is_lost {
            let message = format!("Node {name} status is now: NodeNotReady");
            let report = Report {
                component: Self::NAME,
                severity: "Normal",
                reason: "NodeNotReady",
                message: &message,
            };
            events::report(&self.backend, &NODES, &stored.object, &report).await?;
        }
        Ok(true)
    }
}

impl Controller for NodeLifecycle {
    const NAME: &'static str = "node-lifecycle-controller";
    const LISTED: &'static str = "/core/nodes/";
    /// Nodes, and the leases of their kubelets.
    const WATCHED: &'static str = "/co";
    /// Writers share a flush to disk, and many nodes may be lost together.
    const WORKERS: usize = 8;

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        if let Some(name) = event.key().strip_prefix(LEASES) {
            if is_renewed(event) {
                self.health().hear(name, Instant::now());
            }
            return None;
        }
        let name = event.key().strip_prefix(Self::LISTED)?;
        let Some(entry) = &event.entry else {
            self.health().forget(name);
            return None;
        };
        let node = storage::decode(&entry.value).ok()?;
        self.see(name, &node);
        Some(name.to_owned())
    }

    fn forget(&self) {
        *self.health() = Health::default();
    }

    async fn reconcile(&self, name: &str) -> Result<Next, Status> {
        let Some(stored) = write::find(&self.backend, &NODES, "", name).await? else {
            return Ok(Next::OnChange);
        };
        let grace_period = match readiness(&stored.object) {
            Readiness::Unreported => self.settings.node_startup_grace_period,
            _ => self.settings.node_monitor_grace_period,
        };
        let left = self.health().left(name, grace_period, Instant::now());
        let (mut node, now) = (stored.object.clone(), meta::time(now()));
        if left.is_zero() {
            mark_silent(&mut node, &now);
            // The last node that was ready must count as one that is not before anybody's pods are evicted.
            self.see(name, &node);
        }
        set_scheduling_taints(&mut node, &now);
        let is_not_ready = self.set_eviction(name, &mut node, &now);
        let is_unknown = readiness(&node) == Readiness::Unknown;
        if !self.write(&stored, node).await? || is_unknown && !self.mark_pods(name).await? {
            return Ok(Next::Later);
        }
        let period = self.settings.node_monitor_period;
        Ok(Next::After(match (left.is_zero(), is_not_ready) {
            (true, _) => period,
            (false, true) => left.min(period),
            (false, false) => left.max(Duration::from_millis(1)),
        }))
    }
}

/// Returns whether a lease was renewed: its time is later than before. The time is compared as text, which is in the same
/// form in every lease, and the lease is not read.
fn is_renewed(event: &Event) -> bool {
    let renewed = |entry: &Arc<Entry>| -> Option<Vec<u8>> {
        const MEMBER: &[u8] = b"\"renewTime\":\"";
        let at = memmem::find(&entry.value, MEMBER)?.saturating_add(MEMBER.len());
        Some(entry.value.get(at..)?.iter().copied().take_while(|byte| *byte != b'"').collect())
    };
    let new = event.entry.as_ref().and_then(renewed);
    new.is_some() && new > event.previous.as_ref().and_then(renewed)
}
