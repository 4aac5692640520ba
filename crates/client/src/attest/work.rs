//! Follows the requests and evaluates them: at once when they come or change, later when something is missing, and a bounded
//! number at once. The users who make requests take turns, so that a flood with one bootstrap token does not delay the nodes
//! that have others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use portcullis_attestation::exchange::RequestFacts;
use portcullis_pki::evidence::Phase;
use portcullis_pki::sha256;
use tokio::task::{Id, JoinSet};

use super::looked::Looked;
use super::shared::Shared;
use super::{evaluate, serving};
use crate::attestation::{Kind, Parsed, Stored};
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
/// In how many groups the requests of one user are.
const GROUPS: u8 = 4;
/// The attestors of this program. Requests for others are for other controllers.
const PROVIDERS: [&str; 3] = ["tpm", "challenge", "insecure"];

/// What is kept of a request. Its evidence is read again when it is evaluated, so that many large requests do not fill the
/// memory.
struct Known {
    uid: String,
    /// Whether it is for a serving certificate.
    is_serving: bool,
    /// The requests that it takes turns with.
    group: String,
    /// What a challenge is bound to; none for a request that is malformed.
    facts: Option<RequestFacts>,
    /// The exchange that it belongs to.
    exchange: Option<ExchangeKey>,
    order: Order,
    is_decided: bool,
}

/// When a request was created, and in which order it came.
type Order = (SystemTime, u64);

/// The requests of one user for one name with one key: a digest of these.
type ExchangeKey = [u8; 32];

/// The requests that belong together.
#[derive(Default)]
struct Requests {
    /// Those that ask for a challenge, the oldest first.
    enrolling: BTreeMap<Order, String>,
    /// Those that were answered with a certificate.
    issued: BTreeSet<Order>,
    count: usize,
}

struct Work {
    shared: Arc<Shared>,
    leadership: Option<Leadership>,
    requests: HashMap<String, Known>,
    exchanges: HashMap<ExchangeKey, Requests>,
    /// How many requests have come.
    order: u64,
    schedule: Schedule,
    running: JoinSet<Looked>,
    /// The request of each task, its group and its UID.
    tasks: HashMap<Id, (String, String, String)>,
    /// The names of requests that the current list has not contained so far.
    unseen: Option<HashSet<String>>,
    is_listed: bool,
}

/// Runs until the future is dropped.
pub(super) async fn work(shared: Arc<Shared>, leadership: Option<Leadership>) {
    // Not by a feed: certificate requests are work to do, and in no engine.
    let mut watched = Watched::<Stored>::new(&shared.workload, REQUESTS, None);
    let mut work = Work {
        shared: Arc::clone(&shared),
        leadership,
        requests: HashMap::new(),
        exchanges: HashMap::new(),
        order: 0,
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
                    unseen.remove(&stored.metadata.name);
                }
                self.put(stored);
            }
            Event::Applied(stored) => self.put(stored),
            Event::Deleted(stored) => self.remove(&stored.metadata.name),
            Event::Synced => {
                self.is_listed = true;
                self.unseen.take().unwrap_or_default().iter().for_each(|name| self.remove(name));
            }
            Event::Current | Event::Resumed => {}
            Event::Unreadable { name, why, .. } => {
                tracing::warn!(csr = name, why, "a certificate request cannot be read");
            }
            Event::Failed { why, retry_in, .. } => {
                tracing::warn!(why, ?retry_in, "cannot follow certificate requests; will retry");
            }
        }
    }

    fn put(&mut self, stored: Stored) {
        let is_own = match stored.kind() {
            Some(Kind::Client(provider) | Kind::Serving(provider)) => PROVIDERS.contains(&provider),
            Some(Kind::KubeletServing) => true,
            None => false,
        };
        if !is_own {
            return;
        }
        let name = stored.metadata.name.clone();
        let parsed = Parsed::new(stored);
        let (phase, group) = (parsed.phase, group_of(&parsed));
        let is_known = self.is_known(parsed.node_name().unwrap_or_default());
        let has_certificate = !parsed.stored.status.certificate.is_empty();
        self.order = self.order.saturating_add(1);
        let before = self.requests.get(&name).filter(|before| before.uid == parsed.stored.metadata.uid);
        let order = before.map_or((parsed.created(), self.order), |before| before.order);
        self.forget(&name, Some(&parsed.stored.metadata.uid));
        // Requests for serving certificates take part in no exchange.
        let facts = parsed.facts().filter(|_| parsed.stored.provider().is_some());
        let known = Known {
            uid: parsed.stored.metadata.uid.clone(),
            is_serving: parsed.stored.provider().is_none(),
            group: group.clone(),
            exchange: facts.as_ref().map(exchange_key),
            facts,
            order,
            is_decided: is_over(&parsed.stored),
        };
        let is_decided = known.is_decided;
        if let Some(exchange) = known.exchange {
            let requests = self.exchanges.entry(exchange).or_default();
            requests.count = requests.count.saturating_add(1);
            if phase == Some(Phase::Enrol) {
                requests.enrolling.insert(order, name.clone());
            }
            if has_certificate {
                requests.issued.insert(order);
            }
            if has_certificate && phase == Some(Phase::Prove) {
                // The requests with the challenges have done their work.
                let newest = requests.enrolling.values().rev().take(MOST_EARLIER);
                let pending: Vec<String> = newest.cloned().collect();
                for other in pending {
                    if self.requests.get(&other).is_some_and(|other| !other.is_decided) {
                        self.schedule.put(&other, &group, true);
                    }
                }
            }
        }
        self.requests.insert(name.clone(), known);
        if is_decided {
            self.schedule.remove(&name);
        } else {
            self.schedule.put(&name, &group, is_known);
        }
    }

    fn remove(&mut self, name: &str) {
        self.schedule.remove(name);
        self.forget(name, None);
    }

    /// Forgets what is kept of a request, unless it is only replaced by a newer version with the same UID.
    fn forget(&mut self, name: &str, newer: Option<&str>) {
        let Some(gone) = self.requests.remove(name) else { return };
        if newer != Some(gone.uid.as_str()) {
            self.shared.forget_offer(&gone.uid);
        }
        let Some(exchange) = gone.exchange else { return };
        let Some(requests) = self.exchanges.get_mut(&exchange) else { return };
        requests.enrolling.remove(&gone.order);
        requests.issued.remove(&gone.order);
        requests.count = requests.count.saturating_sub(1);
        if requests.count == 0 {
            self.exchanges.remove(&exchange);
        }
    }

    /// Nodes of an inventory come before others, so that invented names delay nobody.
    fn is_known(&self, node_name: &str) -> bool {
        let settings = self.shared.settings.load();
        settings.inventory.of_node(node_name).is_some() || settings.machine_apis.is_some()
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
        let Some(known) = self.requests.get(name) else {
            self.schedule.finish(name, "", |_| None);
            return;
        };
        let (group, uid) = (known.group.clone(), known.uid.clone());
        let (earlier, is_superseded) = self.others(known);
        let (shared, leadership) = (Arc::clone(&self.shared), self.leadership.clone());
        let (csr, is_serving) = (name.to_owned(), known.is_serving);
        let task = self.running.spawn(async move {
            match is_serving {
                true => serving::look(&shared, &csr, leadership.as_ref()).await,
                false => evaluate::look(&shared, &csr, earlier, is_superseded, leadership.as_ref()).await,
            }
        });
        self.tasks.insert(task.id(), (name.to_owned(), group, uid));
    }

    /// The requests that may have asked for the challenge of this one, the newest first; and whether another one has
    /// answered the challenge of this one.
    fn others(&self, known: &Known) -> (Vec<RequestFacts>, bool) {
        let Some(requests) = known.exchange.and_then(|exchange| self.exchanges.get(&exchange)) else {
            return (Vec::new(), false);
        };
        let newest = requests.enrolling.values().rev().filter_map(|name| self.requests.get(name));
        let earlier = newest.filter(|other| other.uid != known.uid).filter_map(|other| other.facts.clone());
        let is_superseded = requests.issued.last().is_some_and(|last| *last > known.order);
        (earlier.take(MOST_EARLIER).collect(), is_superseded)
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
                Looked::Waiting(why) => {
                    // Once for each request, so that whoever waits for it finds out what it lacks.
                    match tries {
                        0 => tracing::info!(csr = name, why, "a certificate request waits"),
                        _ => tracing::debug!(csr = name, why, "a certificate request still waits"),
                    }
                    backoff(tries, fraction())
                }
                Looked::Failed(why) => {
                    tracing::warn!(csr = name, why, "cannot evaluate a certificate request; will retry");
                    backoff(tries, fraction())
                }
            };
            Some(clock.running().saturating_add(wait))
        });
    }
}

/// Whether nothing is left to do for a request. What the signer of kubelets signs is over once it is approved.
fn is_over(stored: &Stored) -> bool {
    stored.is_decided() || (stored.kind() == Some(Kind::KubeletServing) && stored.has("Approved"))
}

/// The requests that take turns: those of one user, in a few groups so that the nodes of one token do not all wait for each
/// other. Of each group one is evaluated at a time.
fn group_of(parsed: &Parsed) -> String {
    let [first, ..] = sha256(parsed.node_name().unwrap_or_default().as_bytes());
    format!("{} {}", first % GROUPS, parsed.stored.spec.username)
}

/// The exchange that a request belongs to. Each part has its length in front, so that no two exchanges have one digest.
fn exchange_key(facts: &RequestFacts) -> ExchangeKey {
    let parts = [facts.username.as_bytes(), facts.common_name.as_bytes(), &facts.public_key];
    let bytes = parts.into_iter().flat_map(|part| [&(part.len() as u64).to_be_bytes()[..], part].concat());
    sha256(&bytes.collect::<Vec<u8>>())
}

/// Exponential backoff from one second up to a minute, with 10% jitter.
fn backoff(tries: u32, chance: f64) -> Duration {
    let full = FIRST_DELAY.saturating_mul(1 << tries.min(10)).min(LONGEST_DELAY);
    full.mul_f64(0.9 + chance / 5.0)
}
