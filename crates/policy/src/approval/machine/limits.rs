//! Counts the pending requests, and limits them (NB-70 to NB-73, NB-76, NB-77).
//!
//! The counts follow single changes, each in logarithmic time, so that a decision uses the counts of its own moment
//! (NB-75b).

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use portcullis_apimachinery::time::Instant;

use super::candidates;
use super::config::{Config, PendingLimit};
use super::names::host_key;
use super::object::{AddressKind, Machine, MachinePool};
use super::reason::Reason;
use super::request::Request;
use super::result::Failure;
use super::rivals::{Rival, Rivals};
use super::unreadable::Unreadable;
use crate::identity::NODE_USER_PREFIX;

/// How many more requests than machines may be pending (NB-70).
const HEADROOM: usize = 100;
/// How long a pending request counts (NB-71), in seconds.
const RECENT_SECONDS: i64 = 60 * 60;
/// The maximum time by which a creation may lie in the future (NB-71), in seconds.
const FUTURE_SECONDS: i64 = 10;

/// Whether a request passes the checks that depend on it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sound {
    /// It fails one.
    No,
    /// It passes while the CA of bootstrap certificates is published (NB-86).
    WithBootstrapAuthority,
    /// It passes.
    Yes,
}

/// The pending requests, and the names that Machines and Nodes have.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    mode: PendingLimit,
    max_pending: usize,
    /// The node names known from Machines or Nodes.
    known: HashSet<String>,
    /// Whether there may be further Machines, whose names could not be read.
    is_blind: bool,
    /// By name.
    requests: HashMap<String, Counted>,
    /// The requests that are not recent, but may become so, and the recent ones; by the time of creation.
    future: BTreeSet<(Instant, String)>,
    recent: BTreeSet<(Instant, String)>,
    /// The number of recent requests of each common name and signer.
    pairs: HashMap<[String; 2], usize>,
    /// How many of these pairs have a name that neither a Machine nor a Node has.
    unmatched: usize,
    pub(super) rivals: Rivals,
}

/// A request that is counted.
#[derive(Clone, Debug)]
struct Counted {
    pair: [String; 2],
    created: Option<Instant>,
    rival: Rival,
}

/// The known machines and nodes.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The Machines.
    pub machines: &'a [Machine],
    /// The pools of machines.
    pub pools: &'a [MachinePool],
    /// The Machines that exist but cannot be read.
    pub unreadable: &'a [Unreadable],
    /// Whether the Machines could not be listed.
    pub is_blind: bool,
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
    /// Replaces what is known about machines and nodes.
    pub fn know<'a>(&mut self, known: Known<'_>, nodes: impl IntoIterator<Item = &'a str>, config: &Config) {
        let mut names: HashSet<String> = nodes.into_iter().map(host_key).collect();
        let node_count = names.len();
        let machines = candidates::of_cluster(known.machines, config);
        for machine in &machines {
            names.extend(machine.values(&[AddressKind::InternalDns]).map(host_key));
            names.extend(machine.node_ref.as_deref().map(host_key));
        }
        for pool in candidates::pools_of_cluster(known.pools, config) {
            names.extend(pool.node_refs.iter().map(|name| host_key(name)));
        }
        names.extend(known.unreadable.iter().flat_map(Unreadable::texts).map(host_key));
        names.remove("");
        let machine_count = machines.len().saturating_add(known.unreadable.len());
        self.mode = config.pending_limit;
        self.max_pending = machine_count.max(node_count).saturating_add(HEADROOM);
        self.is_blind =
            known.is_blind || known.unreadable.iter().any(|machine| machine.texts().next().is_none());
        self.known = names;
        self.unmatched = self.pairs.keys().filter(|pair| !self.is_known(&pair[0])).count();
    }

    /// Counts a request as it is now, whose own checks had this result.
    pub(super) fn count(&mut self, request: &Request, sound: Sound, now: Instant) {
        let pair = [request.common_name(), &request.signer_name].map(str::to_owned);
        let key =
            request.content.as_ref().ok().map(|content| content.key_hash).filter(|_| sound != Sound::No);
        let rival = Rival {
            name: request.name.clone(),
            pair: pair.clone(),
            user: request.username.clone(),
            created: request.created,
            key,
            needs_authority: sound == Sound::WithBootstrapAuthority,
        };
        self.rivals.put(&rival);
        if let Some(created) = request.created {
            self.future.insert((created, request.name.clone()));
        }
        self.requests.insert(request.name.clone(), Counted { pair, created: request.created, rival });
        self.advance(now);
    }

    /// Stops counting a request.
    pub fn remove(&mut self, name: &str) {
        let Some(counted) = self.requests.remove(name) else { return };
        self.rivals.remove(&counted.rival);
        let Some(created) = counted.created else { return };
        let entry = (created, name.to_owned());
        self.future.remove(&entry);
        if self.recent.remove(&entry) {
            self.uncount(&counted.pair, &counted.rival);
        }
    }

    /// NB-71: counts the requests that were created strictly between an hour ago and ten seconds ahead.
    pub fn advance(&mut self, now: Instant) {
        let at = |seconds: i64| Instant { seconds: now.seconds.saturating_add(seconds), ..now };
        while let Some(entry) =
            self.future.first().filter(|(created, _)| *created < at(FUTURE_SECONDS)).cloned()
        {
            self.future.remove(&entry);
            let Some(counted) = self.requests.get(&entry.1) else { continue };
            if entry.0 <= at(-RECENT_SECONDS) {
                continue;
            }
            let (pair, rival) = (counted.pair.clone(), counted.rival.clone());
            self.recent.insert(entry);
            self.rivals.count(&rival);
            let is_known = self.is_known(&pair[0]);
            let count = self.pairs.entry(pair).or_default();
            *count = count.saturating_add(1);
            if *count == 1 && !is_known {
                self.unmatched = self.unmatched.saturating_add(1);
            }
        }
        while let Some(entry) =
            self.recent.first().filter(|(created, _)| *created <= at(-RECENT_SECONDS)).cloned()
        {
            self.recent.remove(&entry);
            if let Some(counted) = self.requests.get(&entry.1) {
                let (pair, rival) = (counted.pair.clone(), counted.rival.clone());
                self.uncount(&pair, &rival);
            }
        }
    }

    fn uncount(&mut self, pair: &[String; 2], rival: &Rival) {
        self.rivals.uncount(rival);
        let Some(count) = self.pairs.get_mut(pair) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.pairs.remove(pair);
            if !self.is_known(&pair[0]) {
                self.unmatched = self.unmatched.saturating_sub(1);
            }
        }
    }

    /// The maximum number of pending requests (NB-70, NB-76).
    pub fn max_pending(&self) -> usize {
        self.max_pending
    }

    /// The number of recently pending requests (NB-71, NB-76).
    pub fn recently_pending(&self) -> usize {
        self.recent.len()
    }

    /// The number of distinct names in pending requests (NB-77).
    pub fn pending_identities(&self) -> usize {
        self.pairs.len()
    }

    /// The requests for a common name that NB-74 has evaluated, by their names. `since` is the creation of the name's
    /// Machine: requests from before it do not count. At most two for each of the first four requesters.
    pub fn leaders(&self, common_name: &str, since: Option<Instant>) -> Vec<String> {
        self.rivals.leaders(common_name, since)
    }

    /// Returns whether the CA of bootstrap certificates decides on other requests for the same name (NB-75a, NB-86).
    pub fn need_bootstrap_ca(&self, request: &Request) -> bool {
        self.rivals.need_authority(request)
    }

    /// Returns whether the limit is exceeded; at the limit it is not (NB-72, NB-73).
    pub fn tripped(&self) -> Tripped {
        match self.mode {
            PendingLimit::Global if self.recent.len() > self.max_pending => Tripped::Everything,
            // Without the Machines nobody knows which names are unmatched, and no name is approved either.
            PendingLimit::Identity if self.unmatched > self.max_pending && !self.is_blind => {
                Tripped::Unmatched
            }
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
            Tripped::Unmatched if !self.is_known(request.common_name()) => Err(Failure::of(
                Reason::PendingLimit,
                format!(
                    "more names without Machine and Node wait than may, which is {most}; this is one of them"
                ),
            )),
            _ => Ok(format!("{} requests wait, at most {most} may", self.recent.len())),
        }
    }

    fn is_known(&self, common_name: &str) -> bool {
        let name = common_name.strip_prefix(NODE_USER_PREFIX);
        name.is_some_and(|name| self.known.contains(&host_key(name)))
    }
}
