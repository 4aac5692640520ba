//! Follows the requests and evaluates them: at once when they come or change, later when something is missing, one at a
//! time for each node, and a bounded number at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_attestation::exchange::RequestFacts;
use portcullis_pki::evidence::Phase;
use tokio::task::{Id, JoinSet};

use super::evaluate::{Looked, look};
use super::shared::Shared;
use crate::attestation::{Parsed, Stored};
use crate::call::REQUESTS;
use crate::lease::Leadership;
use crate::random::fraction;
use crate::schedule::Schedule;
use crate::watched::{Event, Watched};

/// How many requests are evaluated at once.
const MOST: usize = 8;
/// How many earlier requests of a node a challenge is looked for in.
const MOST_EARLIER: usize = 16;
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// The attestors of this program. Requests for others are for other controllers.
const PROVIDERS: [&str; 3] = ["tpm", "challenge", "insecure"];

struct Work {
    shared: Arc<Shared>,
    leadership: Option<Leadership>,
    requests: HashMap<String, Arc<Parsed>>,
    /// The names of the requests of each node, the oldest first.
    nodes: HashMap<String, Vec<String>>,
    schedule: Schedule,
    running: JoinSet<Looked>,
    /// The request of each task, its group and its UID.
    tasks: HashMap<Id, (String, String, String)>,
    /// The names of requests that the current list has not contained so far.
    unseen: Option<Vec<String>>,
    is_listed: bool,
}

/// Runs until the future is dropped.
pub(super) async fn work(shared: Arc<Shared>, leadership: Option<Leadership>) {
    let mut watched = Watched::<Stored>::new(&shared.workload, REQUESTS, None);
    let mut work = Work {
        shared: Arc::clone(&shared),
        leadership,
        requests: HashMap::new(),
        nodes: HashMap::new(),
        schedule: Schedule::default(),
        running: JoinSet::new(),
        tasks: HashMap::new(),
        unseen: None,
        is_listed: false,
    };
    loop {
        let wait = work.start_due();
        tokio::select! {
            event = watched.next() => work.take(event),
            Some(done) = work.running.join_next_with_id() => match done {
                Ok((id, looked)) => work.finish(id, looked),
                Err(error) => work.finish(error.id(), Looked::Failed(error.to_string())),
            },
            () = shared.reconfigured.notified() => work.schedule.rouse_all(),
            () = shared.clock.sleep(wait) => {}
        }
    }
}

impl Work {
    fn take(&mut self, event: Event<Stored>) {
        match event {
            Event::Restarted => self.unseen = Some(self.requests.keys().cloned().collect()),
            Event::Listed(stored) => {
                if let Some(unseen) = &mut self.unseen {
                    unseen.retain(|name| *name != stored.metadata.name);
                }
                self.put(stored);
            }
            Event::Applied(stored) => self.put(stored),
            Event::Deleted(stored) => self.remove(&stored.metadata.name),
            Event::Synced => {
                self.is_listed = true;
                self.unseen.take().unwrap_or_default().iter().for_each(|name| self.remove(name));
            }
            Event::Unreadable { name, why, .. } => {
                tracing::warn!(csr = name, why, "a certificate request cannot be read");
            }
            Event::Failed { why, retry_in } => {
                tracing::warn!(why, ?retry_in, "cannot follow certificate requests; will retry");
            }
        }
    }

    fn put(&mut self, stored: Stored) {
        if !stored.provider().is_some_and(|provider| PROVIDERS.contains(&provider)) {
            return;
        }
        let name = stored.metadata.name.clone();
        let before = self.requests.get(&name);
        if before.is_some_and(|before| before.stored.metadata.uid != stored.metadata.uid) {
            self.remove(&name);
        }
        let parsed = Arc::new(Parsed::new(stored));
        let group = group_of(&parsed);
        let is_new = self.requests.insert(name.clone(), Arc::clone(&parsed)).is_none();
        if is_new {
            self.nodes.entry(group.clone()).or_default().push(name.clone());
        }
        if parsed.stored.is_decided() {
            self.schedule.remove(&name);
            if parsed.phase == Some(Phase::Prove) {
                // The request with the challenge has done its work.
                self.schedule.rouse(&group, Vec::new(), true);
            }
            return;
        }
        let is_known = self.is_known(&group);
        self.schedule.put(&name, &group, is_known);
    }

    fn remove(&mut self, name: &str) {
        let Some(gone) = self.requests.remove(name) else { return };
        self.shared.forget_offer(&gone.stored.metadata.uid);
        self.schedule.remove(name);
        let group = group_of(&gone);
        if let Some(names) = self.nodes.get_mut(&group) {
            names.retain(|other| other != name);
            if names.is_empty() {
                self.nodes.remove(&group);
            }
        }
    }

    /// Nodes of an inventory come before others, so that invented names delay nobody.
    fn is_known(&self, group: &str) -> bool {
        let settings = self.shared.settings.load();
        settings.inventory.of_node(group).is_some() || settings.machine_apis.is_some()
    }

    fn start_due(&mut self) -> Duration {
        if !self.is_listed {
            return LONGEST_DELAY;
        }
        self.shared.is_ready.store(true, Ordering::Release);
        let now = self.shared.clock.running();
        self.schedule.advance(now);
        while self.running.len() < MOST {
            let Some(name) = self.schedule.next() else { break };
            self.start(&name);
        }
        self.schedule.next_due().map_or(LONGEST_DELAY, |due| due.saturating_sub(now).min(LONGEST_DELAY))
    }

    fn start(&mut self, name: &str) {
        let Some(parsed) = self.requests.get(name).cloned() else {
            self.schedule.finish(name, "", |_| None);
            return;
        };
        let group = group_of(&parsed);
        let (earlier, is_superseded) = self.others(&parsed, &group);
        let (shared, leadership) = (Arc::clone(&self.shared), self.leadership.clone());
        let uid = parsed.stored.metadata.uid.clone();
        let task = self
            .running
            .spawn(async move { look(&shared, parsed, earlier, is_superseded, leadership.as_ref()).await });
        self.tasks.insert(task.id(), (name.to_owned(), group, uid));
    }

    /// The requests of the same node that may have asked for the challenge of this one, the newest first; and whether one
    /// has answered the challenge of this one.
    fn others(&self, parsed: &Parsed, group: &str) -> (Vec<RequestFacts>, bool) {
        let Some(own) = parsed.facts() else { return (Vec::new(), false) };
        let is_of_node = |facts: &RequestFacts| {
            facts.uid != own.uid
                && (&facts.username, &facts.common_name, &facts.public_key)
                    == (&own.username, &own.common_name, &own.public_key)
        };
        let names = self.nodes.get(group).into_iter().flatten().rev();
        let others = names.filter_map(|name| self.requests.get(name));
        let mut earlier = Vec::new();
        let mut is_superseded = false;
        for other in others {
            let Some(facts) = other.facts().filter(is_of_node) else { continue };
            match other.phase {
                Some(Phase::Enrol) if earlier.len() < MOST_EARLIER => earlier.push(facts),
                Some(Phase::Prove) => is_superseded |= !other.stored.status.certificate.is_empty(),
                _ => {}
            }
        }
        (earlier, is_superseded)
    }

    fn finish(&mut self, task: Id, looked: Looked) {
        let Some((name, group, uid)) = self.tasks.remove(&task) else { return };
        let clock = Arc::clone(&self.shared.clock);
        if let Looked::Challenged(until) = looked {
            self.shared.keep_offer(&uid, until);
        }
        self.schedule.finish(&name, &group, |tries| {
            let wait = match looked {
                Looked::Over => return None,
                Looked::Challenged(until) => {
                    until.duration_since(clock.now()).unwrap_or_default() + Duration::from_secs(1)
                }
                Looked::Waiting => backoff(tries, fraction()),
                Looked::Failed(why) => {
                    tracing::warn!(csr = name, why, "cannot evaluate a certificate request; will retry");
                    backoff(tries, fraction())
                }
            };
            Some(clock.running().saturating_add(wait))
        });
    }
}

/// The requests for the same node are evaluated one after the other.
fn group_of(parsed: &Parsed) -> String {
    parsed.node_name().unwrap_or_default().to_owned()
}

/// Exponential backoff from one second up to a minute, with 10% jitter.
fn backoff(tries: u32, chance: f64) -> Duration {
    let full = FIRST_DELAY.saturating_mul(1 << tries.min(10)).min(LONGEST_DELAY);
    full.mul_f64(0.9 + chance / 5.0)
}
