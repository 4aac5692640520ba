//! Deletes the pods that no kubelet ends: those of nodes that do not exist, or that somebody has declared out of service,
//! those that are deleted before they have a node, and the oldest of too many that have ended.
//!
//! Such pods are removed at once, without a grace period, and as failed if they have not ended.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kinds::resources::core::node_health::is_out_of_service;
use kinds::resources::core::nodes::NODES;
use kinds::resources::pods::{PODS, has_ended, mark_disrupted, mark_failed};
use memchr::memmem::{self, Finder};
use portcullis_store::{Entry, Event};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::Instant;

use super::pods_by_node::{PodsByNode, node_of};
use super::runner::{Controller, Next};
use super::settings::ControllerSettings;
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::meta::{self, now};
use crate::registry::options::DeleteOptions;
use crate::registry::storage::Stored;
use crate::registry::{storage, write};

const NODE_PREFIX: &str = "/core/nodes/";
const POD_PREFIX: &str = "/core/pods/";
/// How long a pod without a node may be terminating. Kubernetes looks for such pods every 20 seconds.
const UNBOUND_GRACE: Duration = Duration::from_secs(5);
/// The work on pods that have ended. Other keys are those of nodes and pods in the store.
const ENDED: &str = "ended";

/// See the module.
pub(super) struct PodGc {
    backend: Arc<Backend>,
    pods: Arc<PodsByNode>,
    settings: ControllerSettings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: HashSet<Box<str>>,
    /// The nodes that may be out of service.
    out_of_service: HashSet<Box<str>>,
    /// The nodes that pods are bound to and that do not exist, and since when that is known.
    missing: HashMap<Box<str>, Instant>,
    /// The pods that have ended, in the order in which they are deleted.
    ended: BTreeSet<Ended>,
}

/// A pod that has ended: those that were evicted come first, then the oldest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ended {
    was_evicted: std::cmp::Reverse<bool>,
    created: String,
    key: Box<str>,
}

impl PodGc {
    pub(super) fn new(backend: Arc<Backend>, pods: Arc<PodsByNode>, settings: ControllerSettings) -> Self {
        Self { backend, pods, settings, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_node(&self, name: &str, event: &Event) -> Option<String> {
        let mut state = self.state();
        let Some(node) = &event.entry else {
            state.nodes.remove(name);
            state.out_of_service.remove(name);
            return Some(event.key().to_owned());
        };
        if state.nodes.insert(name.into()) {
            state.missing.remove(name);
        }
        // Most nodes are not, and need not be read.
        let is_said = memmem::find(&node.value, b"out-of-service").is_some();
        match is_said {
            true => drop(state.out_of_service.insert(name.into())),
            false => drop(state.out_of_service.remove(name)),
        }
        is_said.then(|| event.key().to_owned())
    }

    fn of_pod(&self, event: &Event) -> Vec<String> {
        let [old, new] = [&event.previous, &event.entry].map(|entry| entry.as_deref().map(Pod::read));
        let [was, is] = [&old, &new].map(|pod| pod.as_ref().and_then(|pod| pod.ended(event.key())));
        let mut keys = Vec::new();
        let mut state = self.state();
        if let Some(was) = was.filter(|was| is.as_ref() != Some(was)) {
            state.ended.remove(&was);
        }
        state.ended.extend(is);
        let limit = self.settings.terminated_pod_gc_threshold;
        if limit > 0 && state.ended.len() > limit {
            keys.push(ENDED.to_owned());
        }
        let Some(new) = new else { return keys };
        let is_terminating = new.metadata.deletion_timestamp.is_some();
        match event.entry.as_deref().and_then(node_of) {
            None => keys.extend(is_terminating.then(|| event.key().to_owned())),
            Some(node) => {
                let is_lost = !state.nodes.contains(node);
                if is_lost || is_terminating && state.out_of_service.contains(node) {
                    self.pods.note(node, event.key());
                    keys.push(format!("{NODE_PREFIX}{node}"));
                }
            }
        }
        keys
    }

    /// Deletes the pods of a node that does not exist, and those that are terminating on one that is out of service.
    async fn clear_node(&self, name: &str) -> Result<Next, Status> {
        let mut are_all = true;
        match write::find(&self.backend, &NODES, "", name).await? {
            Some(node) => {
                self.state().missing.remove(name);
                if !is_out_of_service(&node.object) {
                    return Ok(Next::OnChange);
                }
                let pods = self.pods.of(name).await?;
                for pod in pods.into_iter().filter(|pod| meta::is_terminating(&pod.object)) {
                    are_all &= self.remove(pod, None).await?;
                }
            }
            None => {
                let since = *self.state().missing.entry(name.into()).or_insert_with(Instant::now);
                let left = self.settings.missing_node_grace_period.saturating_sub(since.elapsed());
                if !left.is_zero() {
                    return Ok(Next::After(left));
                }
                for pod in self.pods.of(name).await? {
                    are_all &= self.remove(pod, Some("PodGC: node no longer exists")).await?;
                }
                self.state().missing.remove(name);
            }
        }
        Ok(if are_all { Next::OnChange } else { Next::Later })
    }

    /// Deletes the oldest of too many pods that have ended.
    async fn clear_ended(&self) -> Result<Next, Status> {
        let excess: Vec<Ended> = {
            let state = self.state();
            let count = state.ended.len().saturating_sub(self.settings.terminated_pod_gc_threshold);
            state.ended.iter().take(count).cloned().collect()
        };
        let mut are_all = true;
        for ended in excess {
            let (namespace, name) = storage::place(&PODS, &ended.key);
            match write::find(&self.backend, &PODS, namespace, name).await? {
                Some(pod) if has_ended(&pod.object) => are_all &= self.remove(pod, None).await?,
                _ => drop(self.state().ended.remove(&ended)),
            }
        }
        Ok(if are_all { Next::OnChange } else { Next::Later })
    }

    /// Removes a pod, with the reason in its status if it has not ended. Returns false after a conflict.
    async fn remove(&self, mut pod: Stored, disruption: Option<&str>) -> Result<bool, Status> {
        if !has_ended(&pod.object) {
            let mut failed = pod.object.clone();
            mark_failed(&mut failed);
            if let Some(message) = disruption {
                mark_disrupted(&mut failed, "DeletionByPodGC", message, now());
            }
            let write = write::replace(&PODS, &pod.entry, failed, write::CONTROLLERS)?;
            if !write::commit(&self.backend, vec![write]).await? {
                return Ok(false);
            }
            let (namespace, name) = storage::place(&PODS, &pod.entry.key);
            let found = write::find(&self.backend, &PODS, namespace, name).await?;
            let uid = meta::text(&pod.object, "uid");
            match found.filter(|found| meta::text(&found.object, "uid") == uid) {
                Some(found) => pod = found,
                None => return Ok(true),
            }
        }
        let options = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
        if write::delete_as(&self.backend, &PODS, &pod, &pod.object, &options).await? {
            tracing::info!(pod = &*pod.entry.key, "removed a pod that no kubelet ends");
            return Ok(true);
        }
        // A finalizer holds it, or somebody else has changed it.
        Ok(meta::grace_period(&pod.object) == Some(0))
    }
}

impl Controller for PodGc {
    const NAME: &'static str = "pod-garbage-collector-controller";
    // Nodes come before pods.
    const LISTED: &'static str = "/core/";
    const WATCHED: &'static str = "/core/";
    /// Writers share a flush to disk, and many nodes may be lost together.
    const WORKERS: usize = 8;

    type Keys = Vec<String>;

    fn concerns(&self, event: &Event) -> Vec<String> {
        match event.key().strip_prefix(NODE_PREFIX) {
            Some(node) => self.of_node(node, event).into_iter().collect(),
            None if event.key().starts_with(POD_PREFIX) => self.of_pod(event),
            None => Vec::new(),
        }
    }

    fn forget(&self) {
        *self.state() = State::default();
    }

    async fn reconcile(&self, key: &str) -> Result<Next, Status> {
        if let Some(node) = key.strip_prefix(NODE_PREFIX) {
            return self.clear_node(node).await;
        }
        if key == ENDED {
            return self.clear_ended().await;
        }
        let (namespace, name) = storage::place(&PODS, key);
        let Some(pod) = write::find(&self.backend, &PODS, namespace, name).await? else {
            return Ok(Next::OnChange);
        };
        let node =
            pod.object.get("spec").and_then(|spec| spec.get("nodeName")).and_then(|name| name.as_str());
        if !meta::is_terminating(&pod.object) || node.is_some_and(|node| !node.is_empty()) {
            return Ok(Next::OnChange);
        }
        // Whoever deletes the pod is about to remove it, unless something holds it.
        let since = meta::seconds(meta::text(&pod.object, "deletionTimestamp")).unwrap_or_default();
        let over = u64::try_from(now().saturating_sub(since)).unwrap_or_default();
        let left = UNBOUND_GRACE.saturating_sub(Duration::from_secs(over));
        if !left.is_zero() {
            return Ok(Next::After(left));
        }
        Ok(if self.remove(pod, None).await? { Next::OnChange } else { Next::Later })
    }
}

/// Without one of these words in it, a pod is neither terminating nor has it ended.
static ENDING: LazyLock<[Finder<'_>; 3]> =
    LazyLock::new(|| ["deletionTimestamp", "Failed", "Succeeded"].map(Finder::new));

/// The fields of a changed pod that the controller reads.
#[derive(Default, Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    phase: Option<String>,
    reason: Option<String>,
}

impl Pod {
    /// Reads a pod that may be about to end or have ended; of any other there is nothing to read.
    fn read(entry: &Entry) -> Self {
        match ENDING.iter().any(|word| word.find(&entry.value).is_some()) {
            true => serde_json::from_slice(&entry.value).unwrap_or_default(),
            false => Self::default(),
        }
    }

    fn ended(&self, key: &str) -> Option<Ended> {
        matches!(self.status.phase.as_deref(), Some("Failed" | "Succeeded")).then(|| Ended {
            was_evicted: std::cmp::Reverse(self.status.reason.as_deref() == Some("Evicted")),
            created: self.metadata.creation_timestamp.clone().unwrap_or_default(),
            key: key.into(),
        })
    }
}
