//! Claims: held until no pod uses them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use kinds::Map;
use kinds::resources::core::persistent_volume_claims::{FINALIZER, PERSISTENT_VOLUME_CLAIMS};
use kinds::resources::pods::{PODS, UsedClaim, used_claims};
use memchr::memmem;
use portcullis_store::{Entry, Event};
use serde_json::Value;

use super::Todo;
use crate::controller::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::storage::{self, Stored};
use crate::registry::{meta, write};

/// The maximum number of claims that are changed in one commit.
const TOGETHER: usize = 100;

/// See the module.
pub(in crate::controller) struct ClaimProtection {
    backend: Arc<Backend>,
    /// The claims that wait to be removed, by namespace. Pods matter only where there are any.
    waiting: Mutex<HashMap<Box<str>, HashSet<Box<str>>>>,
}

impl ClaimProtection {
    pub(in crate::controller) fn new(backend: Arc<Backend>) -> Self {
        Self { backend, waiting: Mutex::default() }
    }

    /// Notes whether a claim waits.
    fn note(&self, namespace: &str, name: &str, waits: bool) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waits {
            waiting.entry(namespace.into()).or_default().insert(name.into());
        } else if let Some(names) = waiting.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                waiting.remove(namespace);
            }
        }
    }

    fn is_any_waiting(&self, namespace: &str) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).contains_key(namespace)
    }
}

/// Claims are looked at together with all others of their namespace, so that its pods are listed once for all of them.
impl Controller for ClaimProtection {
    const NAME: &'static str = "persistentvolumeclaim-protection-controller";
    const LISTED: &'static str = "/core/persistentvolumeclaims/";
    const WATCHED: &'static str = "/core/";

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        if let Some(claim) = event.key().strip_prefix(Self::LISTED) {
            let (namespace, name) = claim.split_once('/')?;
            let todo = event.entry.as_ref().map(|entry| Todo::at_first_sight(&entry.value, FINALIZER));
            self.note(namespace, name, todo == Some(Todo::Remove));
            return todo.filter(|todo| *todo != Todo::Nothing).map(|_| namespace.to_owned());
        }
        let (namespace, _) = event.key().strip_prefix("/core/pods/")?.split_once('/')?;
        let may_use = |entry: &&Arc<Entry>| may_use_claims(entry);
        let pod = event.previous.as_ref().filter(may_use).or(event.entry.as_ref().filter(may_use));
        (self.is_any_waiting(namespace) && pod.is_some()).then(|| namespace.to_owned())
    }

    fn forget(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn reconcile(&self, namespace: &str) -> Result<Next, Status> {
        let entries = write::all(&self.backend, &PERSISTENT_VOLUME_CLAIMS, namespace).await?;
        let (mut writes, mut waiting) = (Vec::new(), Vec::new());
        for entry in entries {
            if Todo::at_first_sight(&entry.value, FINALIZER) == Todo::Nothing {
                continue;
            }
            let stored = Stored::read(&PERSISTENT_VOLUME_CLAIMS, entry)?;
            match Todo::of(&stored.object, FINALIZER) {
                Todo::Nothing => {}
                Todo::Add => {
                    let mut claim = stored.object.clone();
                    meta::add_finalizer(&mut claim, FINALIZER);
                    writes.push(write::change(&PERSISTENT_VOLUME_CLAIMS, &stored, claim)?);
                }
                Todo::Remove => waiting.push(stored),
            }
        }
        if !waiting.is_empty() {
            let pods = write::all(&self.backend, &PODS, namespace).await?;
            let used =
                tokio::task::spawn_blocking(move || Used::by(&pods)).await.map_err(Status::internal)??;
            for stored in waiting.iter().filter(|stored| !used.has(&stored.object)) {
                let mut claim = stored.object.clone();
                meta::remove_finalizer(&mut claim, FINALIZER);
                writes.push(write::change(&PERSISTENT_VOLUME_CLAIMS, stored, claim)?);
            }
        }
        let mut are_all = true;
        for writes in writes.chunks(TOGETHER) {
            are_all &= write::commit_each(&self.backend, writes.to_vec()).await?;
        }
        Ok(if are_all { Next::OnChange } else { Next::Later })
    }
}

/// Returns whether a pod may have volumes with claims. Most have not, and need not be read.
fn may_use_claims(pod: &Entry) -> bool {
    let has = |word: &str| memmem::find(&pod.value, word.as_bytes()).is_some();
    has("\"persistentVolumeClaim\"") || has("\"ephemeral\"")
}

/// The claims of a namespace that pods use.
#[derive(Debug, Default)]
struct Used {
    named: HashSet<String>,
    /// The uids of the pods for which claims were made, by the names of the claims.
    ephemeral: HashMap<String, String>,
}

impl Used {
    fn by(pods: &[Arc<Entry>]) -> Result<Self, Status> {
        let mut used = Self::default();
        for pod in pods.iter().filter(|pod| may_use_claims(pod)) {
            for claim in used_claims(&storage::decode(&pod.value)?) {
                match claim {
                    UsedClaim::Named(name) => drop(used.named.insert(name.to_owned())),
                    UsedClaim::Ephemeral { name, pod } => drop(used.ephemeral.insert(name, pod.to_owned())),
                }
            }
        }
        Ok(used)
    }

    fn has(&self, claim: &Map) -> bool {
        let name = meta::text(claim, "name");
        let pod = self.ephemeral.get(name);
        self.named.contains(name) || pod.is_some_and(|pod| controller(claim) == Some(pod))
    }
}

/// The uid of the owner that manages an object.
fn controller(object: &Map) -> Option<&str> {
    let owners = meta::of(object).get("ownerReferences").and_then(Value::as_array);
    let is_controller = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    owners?.iter().find(is_controller)?.get("uid")?.as_str()
}
