//! The ResourceQuota controller: counts what the objects of namespaces with quotas use, and writes it into the status of the
//! quotas.
//!
//! New and changed objects are counted when they are stored, by admission. This controller counts again when something was
//! deleted, a pod has ended, the limits of a quota have changed, or the server has made an object itself; and all from time
//! to time, as pods that should have ended long ago are no longer counted.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kinds::Kinds;
use kinds::quota::is_settled;
use kinds::resources::core::quotas::RESOURCE_QUOTAS;
use memchr::memmem;
use portcullis_store::{Entry, Event};
use tokio::time::{Instant, sleep};

use super::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::quotas;
use crate::registry::reservation::QuotaTurns;
use crate::registry::storage;
use crate::registry::write::{self, CONTROLLERS};

/// Counting takes at most one part in so many of the time, and waits at most so long for that.
const SHARE: u32 = 5;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The objects that the server makes itself in namespaces, without admission.
const OWN: [&str; 3] = ["/core/configmaps/", "/core/secrets/", "/core/serviceaccounts/"];

/// See the module.
pub(super) struct ResourceQuotas {
    backend: Arc<Backend>,
    kinds: Kinds,
    turns: Arc<QuotaTurns>,
    sync_period: Duration,
    /// The names of the quotas, by namespace. Other namespaces need no look.
    limited: Mutex<HashMap<Box<str>, HashSet<Box<str>>>>,
}

impl ResourceQuotas {
    pub(super) fn new(
        backend: Arc<Backend>,
        kinds: Kinds,
        turns: Arc<QuotaTurns>,
        sync_period: Duration,
    ) -> Self {
        Self { backend, kinds, turns, sync_period, limited: Mutex::default() }
    }

    /// Notes whether a quota is there.
    fn note(&self, namespace: &str, name: &str, is_there: bool) {
        let mut limited = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        if is_there {
            limited.entry(namespace.into()).or_default().insert(name.into());
        } else if let Some(names) = limited.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                limited.remove(namespace);
            }
        }
    }

    fn is_limited(&self, namespace: &str) -> bool {
        self.limited.lock().unwrap_or_else(PoisonError::into_inner).contains_key(namespace)
    }

    /// Counts, and writes what is used. Returns false after a conflict.
    async fn settle(&self, namespace: &str) -> Result<bool, Status> {
        let _turn = self.turns.wait(namespace).await;
        let stored = quotas::read(quotas::stored(&self.backend, namespace).await?).await?;
        let objects = stored.iter().map(|stored| stored.object.clone()).collect();
        let counted = quotas::count(&self.backend, &self.kinds, namespace, objects).await?;
        let mut writes = Vec::new();
        for (stored, counted) in stored.iter().zip(counted) {
            if counted != stored.object {
                writes.push(write::replace(&RESOURCE_QUOTAS, &stored.entry, counted, CONTROLLERS)?);
            }
        }
        write::commit_each(&self.backend, writes).await
    }
}

impl Controller for ResourceQuotas {
    const NAME: &'static str = "resourcequota-controller";
    const LISTED: &'static str = "/core/resourcequotas/";
    const WATCHED: &'static str = "/";
    const WORKERS: usize = 4;

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        if let Some(quota) = event.key().strip_prefix(Self::LISTED) {
            let (namespace, name) = quota.split_once('/')?;
            self.note(namespace, name, event.entry.is_some());
            let is_due =
                event.previous.is_none() || event.entry.as_deref().is_none_or(|quota| !has_settled(quota));
            return (is_due && self.is_limited(namespace)).then(|| namespace.to_owned());
        }
        // The group, the kind, the namespace and the name.
        let mut parts = event.key().split('/').skip(3);
        let (namespace, _) = parts.next().zip(parts.next())?;
        (may_need_count(event) && self.is_limited(namespace)).then(|| namespace.to_owned())
    }

    fn forget(&self) {
        self.limited.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn reconcile(&self, namespace: &str) -> Result<Next, Status> {
        if !self.is_limited(namespace) {
            return Ok(Next::OnChange);
        }
        let started = Instant::now();
        let is_done = self.settle(namespace).await?;
        sleep((started.elapsed() * (SHARE - 1)).min(LONGEST_PAUSE)).await;
        Ok(if is_done { Next::After(self.sync_period) } else { Next::Later })
    }
}

/// Whether the status of a quota is known to be complete. A large one is not read for that.
fn has_settled(quota: &Entry) -> bool {
    !quotas::are_large([quota]) && storage::decode(&quota.value).is_ok_and(|quota| is_settled(&quota))
}

/// Whether admission has not counted what happened.
fn may_need_count(event: &Event) -> bool {
    match (&event.previous, &event.entry) {
        (_, None) => true,
        (None, Some(_)) => OWN.iter().any(|prefix| event.key().starts_with(prefix)),
        (Some(before), Some(after)) => {
            event.key().starts_with("/core/pods/") && has_ended(after) && !has_ended(before)
        }
    }
}

/// Whether a stored pod has ended. Reading all of it would take too long.
fn has_ended(pod: &Entry) -> bool {
    let has = |phase: &str| memmem::find(&pod.value, phase.as_bytes()).is_some();
    has("\"phase\":\"Succeeded\"") || has("\"phase\":\"Failed\"")
}
