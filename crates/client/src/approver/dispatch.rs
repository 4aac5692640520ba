//! Schedules the evaluation of requests: at once when they are created or their Machine changes, later when something
//! is missing, one at a time per node name, and a bounded number concurrently (NB-53 to NB-56, NB-63).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_apimachinery::time::Instant;
use portcullis_policy::approval::machine::{
    AddressKind, Grant, Intake, Known, Limits, Machine, Outcome, Reason, Request, Tripped, Unreadable,
    Verdict, intake,
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
use crate::schedule::Schedule;

const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The maximum delay for short waits, and for all others (NB-63).
const SOON: Duration = Duration::from_secs(15);
const LATE: Duration = Duration::from_secs(60);
/// The delay for changes that are also notified: a limit is no longer exceeded, or a newer request is gone.
const LAST: Duration = Duration::from_secs(600);
/// The interval at which an exceeded limit is reported (NB-72).
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The prefix of the common name of a node.
const NODE: &str = "system:node:";
/// The signers of the certificates of nodes.
const SIGNERS: [&str; 2] = ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"];

struct Dispatch {
    shared: Arc<Shared>,
    leadership: Option<Leadership>,
    requests: HashMap<String, Request>,
    schedule: Schedule,
    machines: HashMap<usize, BTreeMap<Key, Machine>>,
    /// The Machines that cannot be read.
    unreadable: HashMap<usize, BTreeMap<Key, Unreadable>>,
    nodes: HashSet<String>,
    /// How many Machines and Nodes have a name.
    names: HashMap<String, usize>,
    /// From when on requests for a name may match its Machine.
    since: HashMap<String, Instant>,
    /// The objects from before a list started that it has not contained so far.
    unseen: HashMap<Kind, HashSet<Key>>,
    /// The kinds whose first list is not complete.
    awaited: HashSet<Kind>,
    /// The kinds that cannot be listed.
    failed: HashSet<Kind>,
    running: JoinSet<Looked>,
    /// The request of each task, and its group.
    tasks: HashMap<Id, (String, String)>,
    /// Whether the Machines or Nodes changed since they were last counted.
    is_dirty: bool,
    tripped: Tripped,
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
    *shared.limits() = Limits::default();
    let mut dispatch = Dispatch {
        awaited: [Kind::Request, Kind::Node].into_iter().chain((0..groups).map(Kind::Machine)).collect(),
        shared,
        leadership,
        requests: HashMap::new(),
        schedule: Schedule::default(),
        machines: HashMap::new(),
        unreadable: HashMap::new(),
        nodes: HashSet::new(),
        names: HashMap::new(),
        since: HashMap::new(),
        unseen: HashMap::new(),
        failed: HashSet::new(),
        running: JoinSet::new(),
        tasks: HashMap::new(),
        is_dirty: true,
        tripped: Tripped::No,
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
                dispatch.reconfigured();
            }
            () = shared.freed.notified() => {}
            () = shared.clock.sleep(wait) => {}
        }
    }
}

impl Dispatch {
    fn take(&mut self, News { kind, change }: News) {
        match change {
            Change::Restarted => {
                let keys = self.keys(kind);
                self.unseen.insert(kind, keys);
            }
            Change::There(object) => {
                self.seen(kind, &object.key());
                self.put(object);
            }
            Change::Illegible(key, object) => {
                self.seen(kind, &key);
                self.put_unreadable(kind, key, object);
            }
            Change::Gone(object) => self.remove(kind, &object.key()),
            Change::Forgotten(key) => self.remove(kind, &key),
            // Objects that the list did not contain are gone.
            Change::Known => {
                self.awaited.remove(&kind);
                for key in self.unseen.remove(&kind).unwrap_or_default() {
                    self.remove(kind, &key);
                }
                if self.failed.remove(&kind) {
                    self.is_dirty = true;
                    self.schedule.rouse_all();
                }
            }
            Change::Failed => {
                self.awaited.remove(&kind);
                self.is_dirty |= self.failed.insert(kind);
            }
        }
    }

    fn seen(&mut self, kind: Kind, key: &Key) {
        if let Some(unseen) = self.unseen.get_mut(&kind) {
            unseen.remove(key);
        }
    }

    /// Returns the known objects of a kind.
    fn keys(&self, kind: Kind) -> HashSet<Key> {
        let of = |name: &String| (String::new(), name.clone());
        match kind {
            Kind::Request => self.requests.keys().map(of).collect(),
            Kind::Machine(place) => {
                let legible = self.machines.get(&place).into_iter().flat_map(BTreeMap::keys);
                let unreadable = self.unreadable.get(&place).into_iter().flat_map(BTreeMap::keys);
                legible.chain(unreadable).cloned().collect()
            }
            Kind::Node => self.nodes.iter().map(of).collect(),
        }
    }

    fn put(&mut self, object: Object) {
        let key = object.key();
        match object {
            Object::Request(request) => self.put_request(*request),
            Object::Machine(place, machine) => {
                self.drop_unreadable(place, &key);
                let of = self.machines.entry(place).or_default();
                if of.get(&key) == Some(&*machine) {
                    return;
                }
                let old = of.insert(key, (*machine).clone());
                self.count_names(&machine, true);
                self.is_dirty = true;
                if let Some(old) = old {
                    self.count_names(&old, false);
                    self.wake(&old);
                }
                self.wake(&machine);
            }
            Object::Node(name) => {
                if self.nodes.insert(name.clone()) {
                    self.count_name(&name, true);
                    self.is_dirty = true;
                    self.rouse(&format!("{NODE}{name}"));
                }
            }
        }
    }

    fn put_unreadable(&mut self, kind: Kind, key: Key, object: Unreadable) {
        let Kind::Machine(place) = kind else { return };
        // It is not deleted, and nothing is reported.
        if let Some(machine) = self.machines.entry(place).or_default().remove(&key) {
            self.count_names(&machine, false);
            self.wake(&machine);
        }
        self.unreadable.entry(place).or_default().insert(key, object);
        self.is_dirty = true;
    }

    fn drop_unreadable(&mut self, place: usize, key: &Key) {
        if self.unreadable.entry(place).or_default().remove(key).is_some() {
            self.is_dirty = true;
            self.schedule.rouse_all();
        }
    }

    fn remove(&mut self, kind: Kind, key: &Key) {
        match kind {
            Kind::Request => self.drop_request(&key.1),
            Kind::Machine(place) => {
                self.drop_unreadable(place, key);
                if let Some(gone) = self.machines.entry(place).or_default().remove(key) {
                    self.count_names(&gone, false);
                    self.is_dirty = true;
                    self.wake(&gone);
                    self.report_deleted(&gone);
                }
            }
            Kind::Node => {
                if self.nodes.remove(&key.1) {
                    self.count_name(&key.1, false);
                    self.is_dirty = true;
                    self.rouse(&format!("{NODE}{}", key.1));
                }
            }
        }
    }

    fn count_names(&mut self, machine: &Machine, is_there: bool) {
        names_of(machine).iter().for_each(|name| self.count_name(name, is_there));
    }

    fn count_name(&mut self, name: &str, is_there: bool) {
        let count = self.names.entry(name.to_owned()).or_default();
        *count = if is_there { count.saturating_add(1) } else { count.saturating_sub(1) };
        if *count == 0 {
            self.names.remove(name);
            self.since.remove(name);
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
        let requests = self.requests.values();
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
        // Our own annotation is not a change.
        if self.requests.get(&request.name) == Some(&request) {
            return;
        }
        if self.requests.get(&request.name).is_some_and(|old| old.uid != request.uid) {
            self.drop_request(&request.name);
        }
        self.schedule_request(&request);
        self.requests.insert(request.name.clone(), request);
    }

    fn schedule_request(&mut self, request: &Request) {
        let shared = Arc::clone(&self.shared);
        let config = shared.config.load();
        let now = facts::instant(shared.clock.now());
        shared.limits().put(request, &shared.api_server_names, &config, now);
        let group = group_of(request);
        if matches!(intake(request, &config), Intake::Evaluate(_)) {
            self.schedule.put(&request.name, &group, self.is_known(&group));
        } else {
            self.schedule.remove(&request.name);
            shared.contest(&request.uid, None);
        }
        self.rouse(&group);
    }

    fn drop_request(&mut self, name: &str) {
        let Some(gone) = self.requests.remove(name) else { return };
        self.shared.forget(&gone.uid);
        self.schedule.remove(name);
        self.shared.limits().remove(name);
        self.rouse(&group_of(&gone));
    }

    /// Counts and evaluates everything by the new configuration.
    fn reconfigured(&mut self) {
        self.is_dirty = true;
        let requests = std::mem::take(&mut self.requests);
        requests.values().for_each(|request| self.schedule_request(request));
        self.requests = requests;
        self.schedule.rouse_all();
    }

    fn is_known(&self, group: &str) -> bool {
        group.strip_prefix(NODE).is_some_and(|name| self.names.contains_key(name))
    }

    /// NB-53: evaluates the requests of a Machine that has changed.
    fn wake(&mut self, machine: &Machine) {
        let skew =
            i64::try_from(self.shared.config.load().machine_clock_skew / 1_000_000_000).unwrap_or_default();
        for name in names_of(machine) {
            if let Some(created) = machine.created.filter(|_| self.names.contains_key(&name)) {
                let since = Instant { seconds: created.seconds.saturating_sub(skew), ..created };
                self.since.insert(name.clone(), since);
            }
            self.rouse(&format!("{NODE}{name}"));
        }
    }

    /// Evaluates all requests for a name, those first that may be approved: what is decided on one may change what is
    /// decided on the others (NB-74 to NB-75a).
    fn rouse(&mut self, group: &str) {
        let since = group.strip_prefix(NODE).and_then(|name| self.since.get(name)).copied();
        let first = self.shared.limits().leaders(group, since);
        let is_known = self.is_known(group);
        self.schedule.rouse(group, first, is_known);
    }

    /// Starts all due evaluations, and returns the time until the next one.
    fn start_due(&mut self) -> Duration {
        if !self.awaited.is_empty() {
            return LATE;
        }
        self.shared.is_ready.store(true, Ordering::Release);
        let now = self.shared.clock.running();
        self.count(now);
        self.schedule.advance(now);
        let most = self.shared.config.load().max_concurrent;
        // One that waits for a kubelet's answer leaves its place to others.
        while self.running.len().saturating_sub(self.shared.dialling.load(Ordering::Acquire)) < most {
            let Some(name) = self.schedule.next() else { break };
            self.start(name);
        }
        let longest = if self.tripped == Tripped::No { LATE } else { FIRST_DELAY };
        self.schedule.next_due().map_or(longest, |due| due.saturating_sub(now).min(longest))
    }

    fn start(&mut self, name: String) {
        let group = self.requests.get(&name).map(group_of).unwrap_or_default();
        let (shared, leadership, csr) = (Arc::clone(&self.shared), self.leadership.clone(), name.clone());
        let task = self.running.spawn(async move { look(&shared, &csr, leadership.as_ref()).await });
        self.tasks.insert(task.id(), (name, group));
    }

    /// NB-76: brings the counts up to now.
    fn count(&mut self, now: Duration) {
        let shared = Arc::clone(&self.shared);
        let mut limits = shared.limits();
        if std::mem::take(&mut self.is_dirty) {
            let machines: Vec<Machine> = self.machines.values().flat_map(|of| of.values().cloned()).collect();
            let unreadable: Vec<Unreadable> =
                self.unreadable.values().flat_map(|of| of.values().cloned()).collect();
            let is_blind = self.failed.iter().any(|kind| matches!(kind, Kind::Machine(_)));
            let known = Known { machines: &machines, pools: NO_POOLS, unreadable: &unreadable, is_blind };
            limits.know(known, self.nodes.iter().map(String::as_str), &shared.config.load());
        }
        limits.advance(facts::instant(shared.clock.now()));
        shared.metrics.waiting(&limits);
        let before = std::mem::replace(&mut self.tripped, limits.tripped());
        if before != Tripped::No && self.tripped == Tripped::No {
            self.schedule.rouse_all();
        }
        let is_told = self.told_at.is_some_and(|at| now.saturating_sub(at) < TELL_EVERY);
        if self.tripped != Tripped::No && !is_told {
            self.told_at = Some(now);
            let (waiting, most) = (limits.recently_pending(), limits.max_pending());
            tracing::warn!(waiting, most, "too many pending certificate requests; some or all are held");
        }
    }

    fn finish(&mut self, task: Id, looked: Looked) {
        let now = self.shared.clock.running();
        let Some((name, group)) = self.tasks.remove(&task) else { return };
        let metrics = &self.shared.metrics;
        self.schedule.finish(&name, &group, |tries| {
            let wait = match &looked {
                Looked::Over => None,
                Looked::Failed(why) => {
                    tracing::warn!(csr = name, why, "cannot evaluate a certificate request; will retry");
                    Some(backoff(tries, LATE, fraction()))
                }
                Looked::Decided(verdict) => {
                    if verdict.outcome == Outcome::Retry {
                        metrics.retried(verdict);
                    }
                    wait_after(verdict, tries, fraction())
                }
            };
            wait.map(|wait| now + wait)
        });
    }
}

/// The requests of a name are decided one at a time (NB-56). One that cannot be read has no name, and is alone.
fn group_of(request: &Request) -> String {
    match request.common_name() {
        "" => format!(" {}", request.name),
        name => name.to_owned(),
    }
}

/// The names of nodes that a Machine has.
fn names_of(machine: &Machine) -> HashSet<String> {
    let dns = machine.addresses.iter().filter(|address| address.kind == AddressKind::InternalDns);
    dns.map(|address| address.value.trim_end_matches('.').to_ascii_lowercase())
        .chain(machine.node_ref.clone())
        .collect()
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
        (Outcome::Hold, Reason::PendingLimit | Reason::Superseded | Reason::ContestedIdentity) => {
            Some(backoff(u32::MAX, LAST, chance))
        }
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
