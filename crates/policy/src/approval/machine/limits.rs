//! Limits on pending requests, and which requests they affect (NB-70 to NB-75).

use hashbrown::{HashMap, HashSet};
use portcullis_apimachinery::time::Instant;

use super::candidates;
use super::config::{Config, PendingLimit};
use super::intake::{Intake, SignerPath, intake};
use super::names::host_key;
use super::object::{AddressKind, Machine, MachinePool};
use super::reason::Reason;
use super::request::Request;
use super::result::Failure;
use crate::identity::NODE_USER_PREFIX;

/// How many more requests than machines may be pending (NB-70).
const HEADROOM: usize = 100;
/// How long a pending request counts (NB-71), in seconds.
const RECENT_SECONDS: i64 = 60 * 60;
/// The maximum time by which a creation may lie in the future (NB-71), in seconds.
const FUTURE_SECONDS: i64 = 10;
/// How many requests of one identity may be pending before only the newest is evaluated (NB-74).
const PER_IDENTITY: usize = 5;

/// The pending requests, counted once for all decisions.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    mode: PendingLimit,
    max_pending: usize,
    recently_pending: usize,
    unmatched: usize,
    identities: usize,
    /// The node names known from Machines or Nodes.
    known: HashSet<String>,
    /// By common name, signer and user.
    waiting: HashMap<[String; 3], Waiting>,
}

/// The pending requests of one identity.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    newest: Option<Instant>,
    recent: usize,
}

/// Whether a limit is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tripped {
    /// No.
    No,
    /// Yes: no request is approved (NB-72).
    Everything,
    /// Yes: names without Machine and Node are held (NB-73).
    Unmatched,
}

impl Limits {
    /// Counts the requests. `machines` are those that may match; `nodes` are the names of all Nodes.
    pub fn of<'a>(
        requests: impl IntoIterator<Item = &'a Request>,
        machines: &[Machine],
        pools: &[MachinePool],
        nodes: impl IntoIterator<Item = &'a str>,
        config: &Config,
        now: Instant,
    ) -> Self {
        let mut known: HashSet<String> = nodes.into_iter().map(host_key).collect();
        let node_count = known.len();
        let machines = candidates::of_cluster(machines, config);
        for machine in &machines {
            known.extend(machine.values(&[AddressKind::InternalDns]).map(host_key));
            known.extend(machine.node_ref.as_deref().map(host_key));
        }
        for pool in candidates::pools_of_cluster(pools, config) {
            known.extend(pool.node_refs.iter().map(|name| host_key(name)));
        }
        known.remove("");

        let mut limits = Self {
            mode: config.pending_limit,
            max_pending: machines.len().max(node_count).saturating_add(HEADROOM),
            known,
            ..Self::default()
        };
        let (mut identities, mut unmatched) = (HashSet::new(), HashSet::new());
        for request in requests {
            if !matches!(intake(request, config), Intake::Evaluate(_)) {
                continue;
            }
            let is_recent = is_recent(request, now);
            let waiting = limits.waiting.entry(identity(request)).or_default();
            waiting.newest = waiting.newest.max(request.created);
            if !is_recent {
                continue;
            }
            waiting.recent = waiting.recent.saturating_add(1);
            limits.recently_pending = limits.recently_pending.saturating_add(1);
            let pair = (request.common_name(), request.signer_name.as_str());
            identities.insert(pair);
            if !limits.is_known(request) {
                unmatched.insert(pair);
            }
        }
        limits.identities = identities.len();
        limits.unmatched = unmatched.len();
        limits
    }

    /// The maximum number of pending requests (NB-70, NB-76).
    pub fn max_pending(&self) -> usize {
        self.max_pending
    }

    /// The number of recently pending requests (NB-71, NB-76).
    pub fn recently_pending(&self) -> usize {
        self.recently_pending
    }

    /// The number of distinct names in pending requests (NB-77).
    pub fn pending_identities(&self) -> usize {
        self.identities
    }

    /// Returns whether the limit is exceeded; at the limit it is not (NB-72, NB-73).
    pub fn tripped(&self) -> Tripped {
        match self.mode {
            PendingLimit::Global if self.recently_pending > self.max_pending => Tripped::Everything,
            PendingLimit::Identity if self.unmatched > self.max_pending => Tripped::Unmatched,
            _ => Tripped::No,
        }
    }

    /// NB-72, NB-73: the limit for all requests together.
    pub(super) fn check_total(&self, request: &Request) -> Result<String, Failure> {
        // The detail does not contain the number of pending requests, because the request would be reported again
        // whenever the number changes.
        let most = self.max_pending;
        match self.tripped() {
            Tripped::Everything => Err(Failure::of(
                Reason::PendingLimit,
                format!("more requests wait than may, which is {most}"),
            )),
            Tripped::Unmatched if !self.is_known(request) => Err(Failure::of(
                Reason::PendingLimit,
                format!(
                    "more names without Machine and Node wait than may, which is {most}; this is one of them"
                ),
            )),
            _ => Ok(format!("{} requests wait, at most {most} may", self.recently_pending)),
        }
    }

    /// NB-75: whether a newer request of the same user for the same name is pending. On the serving path only a request
    /// for the user's own name can be superseded, so that no node supersedes another's.
    pub(super) fn check_newest(&self, request: &Request, path: SignerPath) -> Result<String, Failure> {
        if path == SignerPath::Serving && request.common_name() != request.username {
            return Ok(String::new());
        }
        if request.content.is_err() || self.is_newest(request) {
            return Ok(String::new());
        }
        Err(Failure::of(Reason::Superseded, "a newer request for the same name waits".to_owned()))
    }

    /// NB-74: of more than five recent requests for one name, only the newest is evaluated.
    pub(super) fn check_identity(&self, request: &Request) -> Result<String, Failure> {
        let recent = self.waiting_like(request).recent;
        if recent <= PER_IDENTITY || self.is_newest(request) {
            return Ok(String::new());
        }
        let detail =
            format!("more than {PER_IDENTITY} requests for this name wait, and only the newest is looked at");
        Err(Failure::of(Reason::PendingLimit, detail))
    }

    fn waiting_like(&self, request: &Request) -> Waiting {
        self.waiting.get(&identity(request)).copied().unwrap_or_default()
    }

    fn is_newest(&self, request: &Request) -> bool {
        request.created >= self.waiting_like(request).newest
    }

    fn is_known(&self, request: &Request) -> bool {
        let name = request.common_name().strip_prefix(NODE_USER_PREFIX);
        name.is_some_and(|name| self.known.contains(&host_key(name)))
    }
}

fn identity(request: &Request) -> [String; 3] {
    [request.common_name(), &request.signer_name, &request.username].map(str::to_owned)
}

/// NB-71: created strictly between an hour ago and ten seconds ahead.
fn is_recent(request: &Request, now: Instant) -> bool {
    let add = |seconds: i64| Instant { seconds: now.seconds.saturating_add(seconds), ..now };
    request.created.is_some_and(|created| created > add(-RECENT_SECONDS) && created < add(FUTURE_SECONDS))
}
