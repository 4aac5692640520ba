//! Deletes the pods that do not tolerate a taint of their node with effect `NoExecute`, or no longer.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kinds::resources::core::node_health::evicting_taints;
use kinds::resources::core::nodes::NODES;
use kinds::resources::pods::{PODS, Stay, mark_disrupted, stay};
use memchr::memmem;
use portcullis_store::{Entry, Event};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::events::{self, Report};
use super::pods_by_node::{PodsByNode, node_of};
use super::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::meta::{self, now};
use crate::registry::storage::Stored;
use crate::registry::write;

/// See the module.
pub(super) struct TaintEviction {
    backend: Arc<Backend>,
    pods: Arc<PodsByNode>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The nodes that may have such taints.
    tainted: HashSet<Box<str>>,
    /// Since when pods, by uid, have been seen on a node with such taints. The time that they tolerate them for begins
    /// then, as in Kubernetes.
    since: HashMap<Box<str>, HashMap<String, Instant>>,
}

impl TaintEviction {
    pub(super) fn new(backend: Arc<Backend>, pods: Arc<PodsByNode>) -> Self {
        Self { backend, pods, state: Mutex::default() }
    }

    fn state<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Deletes a pod. Returns false after a conflict.
    async fn evict(&self, pod: Stored) -> Result<bool, Status> {
        let (namespace, name) = (meta::text(&pod.object, "namespace"), meta::text(&pod.object, "name"));
        tracing::info!(namespace, name, "deleting a pod that does not tolerate a taint of its node");
        let message = format!("Marking for deletion Pod {namespace}/{name}");
        let report = Report {
            component: Self::NAME,
            severity: "Normal",
            reason: "TaintManagerEviction",
            message: &message,
        };
        events::report(&self.backend, &PODS, &pod.object, &report).await?;
        let mut marked = pod.object.clone();
        let message = "Taint manager: deleting due to NoExecute taint";
        mark_disrupted(&mut marked, "DeletionByTaintManager", message, now());
        let write = write::replace(&PODS, &pod.entry, marked, write::CONTROLLERS)?;
        if !write::commit(&self.backend, vec![write]).await? {
            return Ok(false);
        }
        // Watchers see the reason before the deletion.
        match write::find(&self.backend, &PODS, namespace, name).await? {
            Some(found) if meta::text(&found.object, "uid") == meta::text(&pod.object, "uid") => {
                write::delete(&self.backend, &PODS, &found).await
            }
            _ => Ok(true),
        }
    }
}

/// A key is a node, whose pods are looked at together.
impl Controller for TaintEviction {
    const NAME: &'static str = "taint-eviction-controller";
    const LISTED: &'static str = "/core/nodes/";
    const WATCHED: &'static str = "/core/";
    /// Writers share a flush to disk, and many nodes may be lost together.
    const WORKERS: usize = 8;

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        if let Some(node) = event.key().strip_prefix(Self::LISTED) {
            let is_tainted = event.entry.as_deref().is_some_and(may_be_tainted);
            let was_tainted = self.state(|state| match is_tainted {
                true => !state.tainted.insert(node.into()),
                false => state.tainted.remove(node),
            });
            return (is_tainted || was_tainted).then(|| node.to_owned());
        }
        let pod = event.entry.as_deref().filter(|pod| pod.key.starts_with("/core/pods/"))?;
        if self.state(|state| state.tainted.is_empty()) {
            return None;
        }
        let node = node_of(pod).filter(|node| self.state(|state| state.tainted.contains(*node)))?;
        let is_changed = event.previous.as_deref().is_none_or(|old| differs(old, pod));
        is_changed.then(|| {
            self.pods.note(node, &pod.key);
            node.into()
        })
    }

    /// The time that pods have already tolerated is kept.
    fn forget(&self) {
        self.state(|state| state.tainted.clear());
    }

    async fn reconcile(&self, name: &str) -> Result<Next, Status> {
        let node = write::find(&self.backend, &NODES, "", name).await?;
        let taints: Vec<_> = node.iter().flat_map(|node| evicting_taints(&node.object)).cloned().collect();
        if taints.is_empty() {
            self.state(|state| state.since.remove(name));
            return Ok(Next::OnChange);
        }
        let mut before = self.state(|state| state.since.remove(name)).unwrap_or_default();
        let (mut since, mut next, mut are_all) = (HashMap::new(), None::<Duration>, true);
        for pod in self.pods.of(name).await? {
            if meta::is_terminating(&pod.object) {
                continue;
            }
            let uid = meta::text(&pod.object, "uid").to_owned();
            let left = match stay(&pod.object, &taints) {
                Stay::Forever => continue,
                Stay::No => Duration::ZERO,
                Stay::Seconds(seconds) => {
                    let begun = before.remove(&uid).unwrap_or_else(Instant::now);
                    since.insert(uid, begun);
                    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
                        .saturating_sub(begun.elapsed())
                }
            };
            match left.is_zero() {
                true => are_all &= self.evict(pod).await?,
                false => next = Some(next.map_or(left, |next| next.min(left))),
            }
        }
        self.state(|state| state.since.insert(name.into(), since));
        Ok(match (are_all, next) {
            (false, _) => Next::Later,
            (true, Some(left)) => Next::After(left),
            (true, None) => Next::OnChange,
        })
    }
}

/// Returns whether a node may have such a taint. Most have none, and need not be read.
fn may_be_tainted(node: &Entry) -> bool {
    memmem::find(&node.value, b"\"NoExecute\"").is_some()
}

/// Returns whether what the controller reads of a pod has changed.
fn differs(old: &Entry, new: &Entry) -> bool {
    #[derive(Deserialize)]
    struct Pod<'p> {
        #[serde(borrow)]
        spec: Spec<'p>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'p> {
        node_name: Option<String>,
        #[serde(borrow)]
        tolerations: Option<&'p RawValue>,
    }
    let [old, new] = [old, new].map(|pod| serde_json::from_slice::<Pod<'_>>(&pod.value));
    let (Ok(Pod { spec: old }), Ok(Pod { spec: new })) = (old, new) else { return true };
    let text = |spec: &Spec<'_>| spec.tolerations.map(|list| list.get().to_owned());
    old.node_name != new.node_name || text(&old) != text(&new)
}
