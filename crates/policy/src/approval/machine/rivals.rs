//! Requests for the same name: which ones are superseded, contested, or too many (NB-74, NB-75, NB-75a).
//!
//! Only requests that pass their own checks (NB-82 to NB-94) have an effect on others. Checks that depend on the request
//! alone were evaluated when it was counted; those on the Node and the Machine are the same for all requests for a name,
//! but for the time and the key, which a [`Span`] has. Every lookup takes logarithmic time.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use portcullis_apimachinery::time::Instant;

use super::reason::Reason;
use super::request::Request;
use super::result::Failure;

/// How many requests of one identity may be pending before only some are evaluated (NB-74).
const PER_IDENTITY: usize = 5;
/// How many requesters of one name are looked at for leaders.
const MOST_USERS: usize = 4;

/// The hash of a public key.
type Key = [u8; 32];
/// Common name, signer and user.
type Identity = [String; 3];

/// A pending request.
#[derive(Clone, Debug)]
pub(super) struct Rival {
    pub(super) name: String,
    /// Common name and signer.
    pub(super) pair: [String; 2],
    pub(super) user: String,
    pub(super) created: Option<Instant>,
    /// The key of a request that passes the checks that depend on it alone; none for all others.
    pub(super) key: Option<Key>,
    /// Whether it passes them only while the CA of bootstrap certificates is published (NB-86).
    pub(super) needs_authority: bool,
}

/// Which requests for a name pass the checks that depend on the time, the key and the CA of bootstrap certificates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The first and the last time of creation (NB-93); none if any passes.
    pub(super) times: Option<(Instant, Instant)>,
    /// The only key that passes (NB-94); none if any passes.
    pub(super) key: Option<Key>,
    /// Whether the CA of bootstrap certificates is published (NB-86).
    pub(super) has_authority: bool,
}

/// The pending requests by name, signer, user and key.
#[derive(Clone, Debug, Default)]
pub(super) struct Rivals {
    identities: HashMap<Identity, Requests>,
    /// The first requests for each common name and signer, whose users are not the node.
    firsts: HashMap<[String; 2], Keys>,
    /// How many of them need the CA of bootstrap certificates.
    needing: HashMap<[String; 2], usize>,
    /// The identities of each common name: signer and user.
    of_name: HashMap<String, BTreeMap<[String; 2], usize>>,
}

/// The requests of one identity.
#[derive(Clone, Debug, Default)]
struct Requests {
    /// How many are recent (NB-71).
    recent: usize,
    /// Those that pass the checks that depend on them alone.
    sound: Timeline,
    by_key: HashMap<Key, Timeline>,
}

/// Requests by the time of creation and name, with the key, and whether they need the CA of bootstrap certificates.
type Timeline = BTreeMap<(Instant, String), (Key, bool)>;

/// How many requests were created at a time with a key, and whether they need the CA of bootstrap certificates.
type Keys = BTreeMap<Instant, HashMap<(Key, bool), usize>>;

impl Span {
    const ANY: Self = Self { times: None, key: None, has_authority: true };

    /// The requests that pass, the oldest first.
    fn of(self, timeline: &Timeline) -> impl DoubleEndedIterator<Item = (&(Instant, String), &Key)> {
        let (first, last) = self.times.unwrap_or((FIRST, LAST));
        // A range that is upside down would panic.
        let end = (just_after(last.max(first)), String::new());
        let passes = move |(_, (key, needs)): &(_, &(Key, bool))| {
            self.key.is_none_or(|only| only == *key) && (self.has_authority || !needs)
        };
        timeline.range((first, String::new())..end).filter(passes).map(|(at, (key, _))| (at, key))
    }
}

const FIRST: Instant = Instant { seconds: i64::MIN, nanoseconds: 0 };
const LAST: Instant = Instant { seconds: i64::MAX, nanoseconds: 0 };

fn just_after(time: Instant) -> Instant {
    let nanoseconds = time.nanoseconds.saturating_add(1);
    match nanoseconds {
        1_000_000_000.. => Instant { seconds: time.seconds.saturating_add(1), nanoseconds: 0 },
        _ => Instant { nanoseconds, ..time },
    }
}

impl Rivals {
    pub(super) fn put(&mut self, rival: &Rival) {
        let identity = rival.identity();
        let requests = self.identities.entry(identity).or_default();
        let of_name = self.of_name.entry(rival.pair[0].clone()).or_default();
        let users = of_name.entry([rival.pair[1].clone(), rival.user.clone()]).or_default();
        *users = users.saturating_add(1);
        let (Some(key), Some(created)) = (rival.key, rival.created) else { return };
        let entry = ((created, rival.name.clone()), (key, rival.needs_authority));
        requests.sound.insert(entry.0.clone(), entry.1);
        requests.by_key.entry(key).or_default().insert(entry.0, entry.1);
        if rival.needs_authority {
            let needing = self.needing.entry(rival.pair.clone()).or_default();
            *needing = needing.saturating_add(1);
        }
        if rival.is_first() {
            let at = self.firsts.entry(rival.pair.clone()).or_default().entry(created).or_default();
            let count = at.entry(entry.1).or_default();
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn remove(&mut self, rival: &Rival) {
        let identity = rival.identity();
        if let Some(of_name) = self.of_name.get_mut(&rival.pair[0]) {
            let user = [rival.pair[1].clone(), rival.user.clone()];
            let left = of_name.get_mut(&user).map_or(0, |count| {
                *count = count.saturating_sub(1);
                *count
            });
            if left == 0 {
                of_name.remove(&user);
                // Counts that are still recent are taken off afterwards.
                if self.identities.get(&identity).is_some_and(|requests| requests.recent == 0) {
                    self.identities.remove(&identity);
                }
            }
            if of_name.is_empty() {
                self.of_name.remove(&rival.pair[0]);
            }
        }
        let (Some(key), Some(created)) = (rival.key, rival.created) else { return };
        if let Some(needing) = self.needing.get_mut(&rival.pair).filter(|_| rival.needs_authority) {
            *needing = needing.saturating_sub(1);
            if *needing == 0 {
                self.needing.remove(&rival.pair);
            }
        }
        let at = (created, rival.name.clone());
        if let Some(requests) = self.identities.get_mut(&identity) {
            requests.sound.remove(&at);
            if let Some(timeline) = requests.by_key.get_mut(&key) {
                timeline.remove(&at);
                if timeline.is_empty() {
                    requests.by_key.remove(&key);
                }
            }
        }
        let Some(firsts) = self.firsts.get_mut(&rival.pair).filter(|_| rival.is_first()) else { return };
        if let Some(keys) = firsts.get_mut(&created) {
            let left = keys.get_mut(&(key, rival.needs_authority)).map_or(0, |count| {
                *count = count.saturating_sub(1);
                *count
            });
            if left == 0 {
                keys.remove(&(key, rival.needs_authority));
            }
            if keys.is_empty() {
                firsts.remove(&created);
            }
        }
        if firsts.is_empty() {
            self.firsts.remove(&rival.pair);
        }
    }

    /// Counts a request as recent.
    pub(super) fn count(&mut self, rival: &Rival) {
        let requests = self.identities.entry(rival.identity()).or_default();
        requests.recent = requests.recent.saturating_add(1);
    }

    /// Stops counting a request as recent.
    pub(super) fn uncount(&mut self, rival: &Rival) {
        let identity = rival.identity();
        let Some(requests) = self.identities.get_mut(&identity) else { return };
        requests.recent = requests.recent.saturating_sub(1);
        if requests.recent == 0
            && !self
                .of_name
                .get(&rival.pair[0])
                .is_some_and(|of| of.contains_key(&[rival.pair[1].clone(), rival.user.clone()]))
        {
            self.identities.remove(&identity);
        }
    }

    /// NB-75: whether a newer request supersedes this one. `span` is none if no request for the name passes its checks.
    pub(super) fn check_newest(&self, request: &Request, span: Option<Span>) -> Result<String, Failure> {
        let superseded = || -> Option<()> {
            let (requests, created) = (self.like(request)?, request.created?);
            let timeline = if request.is_by_the_node() {
                &requests.sound
            } else {
                requests.by_key.get(&request.content.as_ref().ok()?.key_hash)?
            };
            let (newest, _) = span?.of(timeline).next_back()?;
            (newest.0 > created).then_some(())
        };
        match superseded() {
            None => Ok(String::new()),
            Some(()) => {
                let detail =
                    "a newer request by the same requester waits, which passes its own checks".to_owned();
                Err(Failure::of(Reason::Superseded, detail))
            }
        }
    }

    /// NB-74: of more than five recent requests, only the oldest that passes its own checks and the newest with the
    /// same key are evaluated.
    pub(super) fn check_identity(&self, request: &Request, span: Option<Span>) -> Result<String, Failure> {
        let Some(requests) = self.like(request).filter(|requests| requests.recent > PER_IDENTITY) else {
            return Ok(String::new());
        };
        // While the Machine is missing, the first one that is well-formed waits for it.
        let leaders = leaders(requests, span.unwrap_or(Span::ANY));
        if leaders.iter().flatten().any(|leader| **leader == request.name) {
            return Ok(String::new());
        }
        let detail = format!(
            "more than {PER_IDENTITY} requests for this name wait, and only the oldest that passes its own checks and \
             the newest with its key are looked at"
        );
        Err(Failure::of(Reason::PendingLimit, detail))
    }

    /// NB-75a: whether another key is requested for the name of a first request, which passes its own checks.
    pub(super) fn check_contested(&self, request: &Request, span: Option<Span>) -> Result<String, Failure> {
        let contested = || -> Option<()> {
            let own = request.content.as_ref().ok().filter(|_| !request.is_by_the_node())?.key_hash;
            let span = span?;
            let (first, last) = span.times.unwrap_or((FIRST, LAST));
            let pair = [request.common_name(), &request.signer_name].map(str::to_owned);
            // One entry for each second at most.
            let mut times = self.firsts.get(&pair)?.range(first..=last.max(first));
            let rivals = |(key, needs): &(Key, bool)| {
                *key != own && span.key.is_none_or(|only| only == *key) && (span.has_authority || !needs)
            };
            times.any(|(_, keys)| keys.keys().any(rivals)).then_some(())
        };
        match contested() {
            None => Ok(String::new()),
            Some(()) => {
                let detail =
                    "another key is requested for the same name, by a request that passes its own checks as \
                              well; approve the request of the machine, and delete the other"
                        .to_owned();
                Err(Failure::of(Reason::ContestedIdentity, detail))
            }
        }
    }

    pub(super) fn leaders(&self, common_name: &str, since: Option<Instant>) -> Vec<String> {
        let Some(of_name) = self.of_name.get(common_name) else { return Vec::new() };
        let span = Span { times: since.map(|since| (since, LAST)), ..Span::ANY };
        let mut found = Vec::new();
        for [signer, user] in of_name.keys().take(MOST_USERS) {
            let identity = [common_name, signer.as_str(), user.as_str()].map(str::to_owned);
            let Some(requests) = self.identities.get(&identity) else { continue };
            for leader in leaders(requests, span).into_iter().flatten() {
                if !found.contains(leader) {
                    found.push(leader.clone());
                }
            }
        }
        found
    }

    pub(super) fn need_authority(&self, request: &Request) -> bool {
        let pair = [request.common_name(), &request.signer_name].map(str::to_owned);
        self.needing.contains_key(&pair)
    }

    fn like(&self, request: &Request) -> Option<&Requests> {
        let identity = [request.common_name(), &request.signer_name, &request.username].map(str::to_owned);
        self.identities.get(&identity)
    }
}

/// The oldest request that passes its own checks, and the newest with the same key.
fn leaders(requests: &Requests, span: Span) -> [Option<&String>; 2] {
    let oldest = span.of(&requests.sound).next();
    let newest = oldest.and_then(|(_, key)| span.of(requests.by_key.get(key)?).next_back());
    [oldest, newest].map(|found| found.map(|(at, _)| &at.1))
}

impl Rival {
    fn identity(&self) -> Identity {
        let [common_name, signer] = &self.pair;
        [common_name.clone(), signer.clone(), self.user.clone()]
    }

    /// Whether it is by a shared identity, and not by the node itself.
    fn is_first(&self) -> bool {
        self.user != self.pair[0]
    }
}
