//! State that is shared by the parts of an approver.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use portcullis_policy::approval::machine::{Config, Grant, Grants, Limits, Reason, Request, Verdict};
use tokio::sync::Notify;

use super::facts::instant;
use super::metrics::ApproverMetrics;
use crate::clock::Clock;
use crate::connect::Connection;

/// The maximum number of denials in one period (NB-75).
const DENIALS: usize = 20;
/// The length of the period.
const DENIAL_PERIOD: Duration = Duration::from_secs(10);

/// How many evaluations wait for kubelets at most.
const MOST_DIALLING: usize = 100;

/// A callback for each new decision.
pub type Tell = Arc<dyn Fn(&Request, &Verdict) + Send + Sync>;

/// The state that is shared by the parts of an approver.
pub(super) struct Shared {
    pub(super) workload: Connection,
    pub(super) management: Connection,
    pub(super) config: ArcSwap<Config>,
    pub(super) metrics: ApproverMetrics,
    pub(super) is_dry_run: bool,
    pub(super) tell: Option<Tell>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) api_server_names: Vec<String>,
    /// The pending requests, as they are now (NB-75b).
    pub(super) limits: Mutex<Limits>,
    /// The pending requests that are contested, by their UIDs (NB-75a).
    pub(super) contested: Mutex<HashSet<String>>,
    /// The approvals, kept for longer than the requests exist (NB-94).
    pub(super) grants: Mutex<Grants>,
    /// The last reported decision on each request, by its UID.
    pub(super) told: Mutex<HashMap<String, [String; 4]>>,
    /// The times of denials, by the monotonic clock.
    pub(super) denials: Mutex<VecDeque<Duration>>,
    pub(super) is_ready: AtomicBool,
    /// Notified when the configuration changes.
    pub(super) reconfigured: Notify,
    /// How many evaluations wait for the answer of a kubelet.
    pub(super) dialling: AtomicUsize,
    /// Notified when an evaluation begins to wait.
    pub(super) freed: Notify,
}

impl Shared {
    /// The pending requests as they are now.
    pub(super) fn limits(&self) -> MutexGuard<'_, Limits> {
        locked(&self.limits)
    }

    /// The grants so far.
    pub(super) fn grants(&self) -> MutexGuard<'_, Grants> {
        locked(&self.grants)
    }

    /// Records whether a request is contested (NB-75a).
    pub(super) fn contest(&self, uid: &str, reason: Option<Reason>) {
        let mut contested = locked(&self.contested);
        let is_changed = match reason {
            Some(Reason::ContestedIdentity) => contested.insert(uid.to_owned()),
            _ => contested.remove(uid),
        };
        if is_changed {
            self.metrics.contested(contested.len());
        }
    }

    /// Keeps what was approved.
    pub(super) fn remember(&self, grant: Grant) {
        let mut grants = locked(&self.grants);
        grants.forget_old(instant(self.clock.now()));
        grants.remember(grant);
    }

    /// Returns whether a decision was not yet reported, neither by this process nor, according to the annotation, by an
    /// earlier one.
    pub(super) fn is_news(
        &self,
        request: &Request,
        decision: [String; 4],
        annotated: Option<[String; 4]>,
    ) -> bool {
        let is_annotated = annotated.as_ref() == Some(&decision);
        let before = locked(&self.told).insert(request.uid.clone(), decision.clone());
        !is_annotated && before != Some(decision)
    }

    /// Forgets what was told of a request.
    pub(super) fn forget(&self, uid: &str) {
        locked(&self.told).remove(uid);
        self.contest(uid, None);
    }

    /// Returns whether another request may be denied now.
    pub(super) fn may_deny(&self) -> bool {
        let now = self.clock.running();
        let mut denials = locked(&self.denials);
        denials.retain(|at| now.saturating_sub(*at) < DENIAL_PERIOD);
        let may = denials.len() < DENIALS;
        if may {
            denials.push_back(now);
        }
        may
    }
}

/// An evaluation that waits for the answer of a kubelet, which may take half a minute. Until it ends, another evaluation
/// has its place.
pub(super) struct Dialling<'a>(&'a Shared);

impl Shared {
    /// Begins to wait for a kubelet; none if too many evaluations do so.
    pub(super) fn dial(&self) -> Option<Dialling<'_>> {
        let add = |count: usize| (count < MOST_DIALLING).then(|| count.saturating_add(1));
        self.dialling.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).ok()?;
        self.freed.notify_one();
        Some(Dialling(self))
    }
}

impl Drop for Dialling<'_> {
    fn drop(&mut self) {
        self.0.dialling.fetch_sub(1, Ordering::AcqRel);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The protected data is consistent after every change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
