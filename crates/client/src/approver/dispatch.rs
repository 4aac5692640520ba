//! Schedules the evaluation of requests: at once when they are created or their Machine changes, later when something
//! is missing, one at a time per node name, and a bounded number concurrently (NB-53 to NB-56, NB-63).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_policy::approval::machine::{
    AddressKind, Grant, Intake, Limits, Machine, Outcome, Reason, Request, Tripped, Verdict, intake,
};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};

use super::evaluate::{Looked, look};
use super::facts;
use super::follow::{self, Change, Key, Kind, NO_POOLS, News, Object};
use super::outlived::{self, Deleted};
use super::shared::Shared;
use crate::lease::Leadership;
use crate::random::fraction;

const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The maximum delay for short waits, and for all others (NB-63).
const SOON: Duration = Duration::from_secs(15);
const LATE: Duration = Duration::from_secs(60);
/// The delay for changes that are also notified: a limit is no longer exceeded, or a newer request is gone.
const LAST: Duration = Duration::from_secs(600);
/// How long a count of the requests is used while they keep changing.
const COUNT_AGE: Duration = Duration::from_millis(250);
/// The interval at which an exceeded limit is reported (NB-72).
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The signers of the certificates of nodes.
const SIGNERS: [&str; 2] = ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"];

/// A watched request.
struct Pending {
    request: Request,
    /// The time in the queue; none if only a change can help.
    due: Option<Duration>,
    tries: u32,
    is_running: bool,
    /// Whether it changed while it was evaluated.
    again: bool,
}

struct Dispatch {
    shared: Arc<Shared>,
    leadership: Option<Leadership>,
    requests: HashMap<String, Pending>,
    /// The queue, by monotonic time.
    queue: BTreeSet<(Duration, String)>,
    machines: HashMap<usize, BTreeMap<Key, Machine>>,
    nodes: HashSet<String>,
    /// The objects from before a list started that it has not contained so far.
    unseen: HashMap<Kind, HashSet<Key>>,
    /// The kinds whose first list is not complete.
    awaited: HashSet<Kind>,
    running: JoinSet<Looked>,
    /// The request of each task, and the node name that it has locked (NB-56).
    locked: HashMap<Id, (String, String)>,
    limits: Arc<Limits>,
    counted_at: Option<Duration>,
    is_dirty: bool,
    told_at: Option<Duration>,
    /// The Machines that are gone, to be reported (NB-133).
    deleted: mpsc::Sender<Deleted>,
}

/// Runs until the future is dropped.
pub(super) async fn work(shared: Arc<Shared>, leadership: Option<Leadership>) {
    let (sender, mut news) = mpsc::channel(256);
    let _following = follow::all(&shared, &sender);
    let (deleted, queue) = mpsc::channel(outlived::MOST_MACHINES);
    let mut telling = JoinSet::new();
    telling.spawn(outlived::tell_all(Arc::clone(&shared), leadership.clone(), queue));
    let groups = shared.config.load().machine_apis.len();
    let mut dispatch = Dispatch {
        awaited: [Kind::Request, Kind::Node].into_iter().chain((0..groups).map(Kind::Machine)).collect(),
        shared,
        leadership,
        requests: HashMap::new(),
        queue: BTreeSet::new(),
        machines: HashMap::new(),
        nodes: HashSet::new(),
        unseen: HashMap::new(),
        running: JoinSet::new(),
        locked: HashMap::new(),
        limits: Arc::default(),
        counted_at: None,
        is_dirty: true,
        told_at: None,
        deleted,
    };
    loop {
        let wait = dispatch.start_due();
        let shared = Arc::clone(&dispatch.shared);
        tokio::select! {
            Some(told) = news.recv() => dispatch.take(told),
            Some(done) = dispatch.running.join_next_with_id() => match done {
                Ok((id, looked)) => dispatch.finish(id, looked),
                Err(error) => dispatch.finish(error.id(), Looked::Failed(error.to_string())),
            },
            () = shared.reconfigured.notified() => {
                dispatch.is_dirty = true;
                dispatch.hurry_all(|_| true);
            }
            () = shared.clock.sleep(wait) => {}
        }
    }
}

impl Dispatch {
    fn take(&mut self, News { kind, change }: News) {
        self.is_dirty = true;
        match change {
            Change::Restarted => {
                let keys = self.keys(kind);
                self.unseen.insert(kind, keys);
            }
            Change::There(object) => {
                if let Some(unseen) = self.unseen.get_mut(&kind) {
                    unseen.remove(&object.key());
                }
                self.put(object);
            }
            Change::Gone(object) => {
                if let Object::Machine(_, machine) = &object {
                    self.wake(machine);
                }
                self.remove(kind, &object.key());
            }
            // Objects that the list did not contain are gone.
            Change::Known => {
                self.awaited.remove(&kind);
                for key in self.unseen.remove(&kind).unwrap_or_default() {
                    self.remove(kind, &key);
                }
            }
        }
    }

    /// Returns the known objects of a kind.
    fn keys(&self, kind: Kind) -> HashSet<Key> {
        let of = |name: &String| (String::new(), name.clone());
        match kind {
            Kind::Request => self.requests.keys().map(of).collect(),
            Kind::Machine(place) => {
                self.machines.get(&place).into_iter().flatten().map(|m| m.0.clone()).collect()
            }
            Kind::Node => self.nodes.iter().map(of).collect(),
        }
    }

    fn put(&mut self, object: Object) {
        let key = object.key();
        match object {
            Object::Request(request) => self.put_request(*request),
            Object::Machine(place, machine) => {
                self.wake(&machine);
                self.machines.entry(place).or_default().insert(key, *machine);
            }
            Object::Node(name) => {
                self.nodes.insert(name);
            }
        }
    }

    fn remove(&mut self, kind: Kind, key: &Key) {
        match kind {
            Kind::Request => self.drop_request(&key.1),
            Kind::Machine(place) => {
                if let Some(gone) = self.machines.entry(place).or_default().remove(key) {
                    self.report_deleted(&gone);
                }
            }
            Kind::Node => {
                self.nodes.remove(&key.1);
            }
        }
    }

    /// NB-133: reports the certificates of a Machine's node, unless another Machine has the node.
    fn report_deleted(&self, gone: &Machine) {
        let internal = gone.addresses.iter().find(|address| address.kind == AddressKind::InternalDns);
        let name = gone.node_ref.as_deref().or_else(|| internal.map(|address| &*address.value));
        let Some(node) = name.map(|name| name.trim_end_matches('.').to_ascii_lowercase()) else { return };
        let mut others = self.machines.values().flat_map(BTreeMap::values);
        if others.any(|other| other.node_ref.as_deref() == Some(&node)) {
            return;
        }
        let requests = self.requests.values().map(|pending| &pending.request);
        let mut own: Vec<&Request> = requests
            .filter(|request| request.has_certificate && request.node_name() == Some(&node))
            .filter(|request| SIGNERS.contains(&request.signer_name.as_str()))
            .collect();
        own.sort_by_key(|request| std::cmp::Reverse(request.created.map(|at| at.seconds)));
        let left_out = own.len().saturating_sub(outlived::MOST_CERTIFICATES);
        let requests =
            own.iter().take(outlived::MOST_CERTIFICATES).map(|request| request.name.clone()).collect();
        let deleted = Deleted { machine: gone.clone(), node, requests, left_out };
        if let Err(error) = self.deleted.try_send(deleted) {
            tracing::warn!(machine = %gone, %error, "the certificates of a deleted Machine are not reported");
        }
    }

    fn put_request(&mut self, request: Request) {
        if let Some(grant) = Grant::of(&request) {
            self.shared.remember(grant);
        }
        let name = request.name.clone();
        match self.requests.get_mut(&name) {
            // Our own annotation is not a change.
            Some(known) if known.request == request => return,
            Some(known) => known.request = request,
            None => {
                let pending = Pending { request, due: None, tries: 0, is_running: false, again: false };
                self.requests.insert(name.clone(), pending);
            }
        }
        self.hurry(&name);
    }

    fn drop_request(&mut self, name: &str) {
        let Some(gone) = self.requests.remove(name) else { return };
        self.shared.forget(&gone.request.uid);
        if let Some(due) = gone.due {
            self.queue.remove(&(due, name.to_owned()));
        }
        // NB-75: a request that it superseded may be the newest now.
        let common_name = gone.request.common_name();
        if gone.request.is_pending() && !common_name.is_empty() {
            self.hurry_all(|request| request.common_name() == common_name);
        }
    }

    /// Schedules all matching requests as soon as possible.
    fn hurry_all(&mut self, which: impl Fn(&Request) -> bool) {
        let names: Vec<String> =
            self.requests.values().filter(|p| which(&p.request)).map(|p| p.request.name.clone()).collect();
        names.iter().for_each(|name| self.hurry(name));
    }

    /// Schedules a request as soon as possible, if it is pending.
    fn hurry(&mut self, name: &str) {
        let now = self.shared.clock.running();
        let Some(pending) = self.requests.get_mut(name) else { return };
        pending.tries = 0;
        pending.again = pending.is_running;
        let is_taken = matches!(intake(&pending.request, &self.shared.config.load()), Intake::Evaluate(_));
        let due = (is_taken && !pending.is_running).then_some(now);
        self.schedule(name, due);
    }

    fn schedule(&mut self, name: &str, due: Option<Duration>) {
        let Some(pending) = self.requests.get_mut(name) else { return };
        if let Some(before) = std::mem::replace(&mut pending.due, due) {
            self.queue.remove(&(before, name.to_owned()));
        }
        if let Some(due) = due {
            self.queue.insert((due, name.to_owned()));
        }
    }

    /// NB-53: schedules the requests of a Machine that has changed.
    fn wake(&mut self, machine: &Machine) {
        let dns = machine.addresses.iter().filter(|address| address.kind == AddressKind::InternalDns);
        let names: HashSet<String> = dns
            .map(|address| address.value.trim_end_matches('.').to_ascii_lowercase())
            .chain(machine.node_ref.clone())
            .collect();
        self.hurry_all(|request| request.node_name().is_some_and(|name| names.contains(name)));
    }

    /// Starts all due evaluations, and returns the time until the next one.
    fn start_due(&mut self) -> Duration {
        if !self.awaited.is_empty() {
            return LATE;
        }
        self.shared.is_ready.store(true, Ordering::Release);
        let now = self.shared.clock.running();
        self.count(now);
        let most = self.shared.config.load().max_concurrent;
        let mut locked: HashSet<String> = self.locked.values().map(|(_, lock)| lock.clone()).collect();
        let mut starting = Vec::new();
        // An outdated count is renewed soon.
        let mut wait = if self.is_dirty { COUNT_AGE } else { LATE };
        for (due, name) in &self.queue {
            if *due > now {
                wait = wait.min(*due - now);
                break;
            }
            if self.running.len().saturating_add(starting.len()) >= most {
                break;
            }
            let Some(pending) = self.requests.get(name) else { continue };
            let lock = pending.request.common_name();
            // A request whose node name is locked is evaluated after the one that holds the lock.
            if locked.insert(lock.to_owned()) {
                starting.push((name.clone(), lock.to_owned()));
            }
        }
        for (name, lock) in starting {
            self.start(name, lock);
        }
        wait
    }

    fn start(&mut self, name: String, lock: String) {
        self.schedule(&name, None);
        let Some(pending) = self.requests.get_mut(&name) else { return };
        pending.is_running = true;
        let (shared, limits) = (Arc::clone(&self.shared), Arc::clone(&self.limits));
        let (leadership, csr) = (self.leadership.clone(), name.clone());
        let task = self.running.spawn(async move { look(&shared, &csr, &limits, leadership.as_ref()).await });
        self.locked.insert(task.id(), (name, lock));
    }

    /// NB-76: counts the requests again if something changed.
    fn count(&mut self, now: Duration) {
        let is_fresh = self.counted_at.is_some_and(|at| now.saturating_sub(at) < COUNT_AGE);
        if !self.is_dirty || is_fresh {
            return;
        }
        (self.is_dirty, self.counted_at) = (false, Some(now));
        let machines: Vec<Machine> = self.machines.values().flat_map(|of| of.values().cloned()).collect();
        let config = self.shared.config.load_full();
        let before = self.limits.tripped();
        self.limits = Arc::new(Limits::of(
            self.requests.values().map(|pending| &pending.request),
            &machines,
            NO_POOLS,
            self.nodes.iter().map(String::as_str),
            &config,
            facts::instant(self.shared.clock.now()),
        ));
        self.shared.metrics.waiting(&self.limits);
        if before != Tripped::No && self.limits.tripped() == Tripped::No {
            self.hurry_all(|_| true);
        }
        let is_told = self.told_at.is_some_and(|at| now.saturating_sub(at) < TELL_EVERY);
        if self.limits.tripped() != Tripped::No && !is_told {
            self.told_at = Some(now);
            let (waiting, most) = (self.limits.recently_pending(), self.limits.max_pending());
            tracing::warn!(waiting, most, "too many pending certificate requests; some or all are held");
        }
    }

    fn finish(&mut self, task: Id, looked: Looked) {
        let now = self.shared.clock.running();
        let Some((name, _)) = self.locked.remove(&task) else { return };
        // The request may have been deleted.
        let Some(pending) = self.requests.get_mut(&name) else { return };
        pending.is_running = false;
        let again = std::mem::take(&mut pending.again);
        let wait = match &looked {
            Looked::Over => None,
            Looked::Failed(why) => {
                tracing::warn!(csr = name, why, "cannot evaluate a certificate request; will retry");
                Some(backoff(pending.tries, LATE, fraction()))
            }
            Looked::Decided(verdict) => {
                if verdict.outcome == Outcome::Retry {
                    self.shared.metrics.retried(verdict);
                }
                wait_after(verdict, pending.tries, fraction())
            }
        };
        pending.tries = pending.tries.saturating_add(1);
        if again {
            self.hurry(&name);
        } else {
            self.schedule(&name, wait.map(|wait| now + wait));
        }
    }
}

/// Returns when a request is evaluated again without a change (NB-63).
fn wait_after(verdict: &Verdict, tries: u32, chance: f64) -> Option<Duration> {
    match (verdict.outcome, verdict.reason) {
        (Outcome::Retry, reason) if reason.comes_soon() => Some(backoff(tries, SOON, chance)),
        (Outcome::Retry, _) => Some(backoff(tries, LATE, chance)),
        // These wait for other objects, whose deletion is not notified.
        (
            Outcome::Hold,
            Reason::NodeAlreadyExists
            | Reason::MachineHasNode
            | Reason::AmbiguousMachine
            | Reason::IdentityAlreadyGranted
            | Reason::ClientApprovalDisabled
            | Reason::WrongRequesterGroups,
        ) => Some(backoff(u32::MAX, LATE, chance)),
        (Outcome::Hold, Reason::PendingLimit | Reason::Superseded) => Some(backoff(u32::MAX, LAST, chance)),
        _ => None,
    }
}

/// Exponential backoff from one second up to the maximum, with 10% jitter.
fn backoff(tries: u32, longest: Duration, chance: f64) -> Duration {
    let full = FIRST_DELAY.saturating_mul(1 << tries.min(10)).min(longest);
    full.mul_f64(0.9 + chance / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_their_cap_and_are_spread_by_a_tenth_nb_63() {
        let seconds = |tries, longest| backoff(tries, longest, 0.5).as_secs_f64().round();
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 6, 40].map(|tries| seconds(tries, LATE)),
            [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
        );
        assert_eq!([3, 4, 5, u32::MAX].map(|tries| seconds(tries, SOON)), [8.0, 15.0, 15.0, 15.0]);
        assert_eq!(backoff(0, LATE, 0.0), Duration::from_millis(900));
        assert_eq!(backoff(0, LATE, 1.0), Duration::from_millis(1100));
    }
}
