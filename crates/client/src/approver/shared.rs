//! State that is shared by the parts of an approver.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use portcullis_policy::approval::machine::{Config, Grant, Grants, Request, Verdict};
use tokio::sync::Notify;

use super::facts::instant;
use super::metrics::ApproverMetrics;
use crate::clock::Clock;
use crate::connect::Connection;

/// The maximum number of denials in one period (NB-75).
const DENIALS: usize = 20;
/// The length of the period.
const DENIAL_PERIOD: Duration = Duration::from_secs(10);

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
    /// The approvals, kept for longer than the requests exist (NB-94).
    pub(super) grants: Mutex<Grants>,
    /// The last reported decision on each request, by its UID.
    pub(super) told: Mutex<HashMap<String, [String; 4]>>,
    /// The times of denials, by the monotonic clock.
    pub(super) denials: Mutex<VecDeque<Duration>>,
    pub(super) is_ready: AtomicBool,
    /// Notified when the configuration changes.
    pub(super) reconfigured: Notify,
}

impl Shared {
    /// Returns the grants so far.
    pub(super) fn memory(&self) -> Grants {
        locked(&self.grants).clone()
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The protected data is consistent after every change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
