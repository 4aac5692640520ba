//! The open connections, and which of them is closed when there are too many.
//!
//! A connection is a stranger's until one of its requests is authenticated. All strangers together may hold some
//! megabytes. When they hold more, or when there are too many connections, the account that has most gives up its oldest
//! connection. An account whose connections have more streams than it may loses its oldest of those, and a node or a pod
//! may not have as many connections as others. So whoever opens thousands of connections pushes out its own, and everybody
//! else gets in.
//!
//! DIVERGES: kube-apiserver has as many connections as there are file descriptors, and then accepts nobody.

use portcullis_client::metrics::Counter;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use policy::User;
use tokio::sync::Notify;

use crate::http::account::{Account, ByAccount, is_machine};
use crate::http::limits::Limits;

/// The memory of a TLS session and small headers. In bytes.
pub(super) const TLS_BYTES: usize = 24 * 1024;

/// The memory of an HTTP/2 connection without the headers that are being received. In bytes.
const HTTP2_BYTES: usize = 16 * 1024;
/// The memory of an HTTP/2 stream, also after its request was answered. In bytes.
const STREAM_BYTES: usize = 1024;

/// So many streams of a connection of a known caller are not counted: usual clients have few.
const USUAL_STREAMS: usize = 32;
/// The maximum number of further streams of all connections of an account.
const FURTHER_STREAMS: usize = 6 * 1024;

/// The maximum number of connections of a node or a pod, which is one machine or one process.
const MACHINE_CONNECTIONS: usize = 1000;

/// Returns the memory of an HTTP/2 connection of a stranger that has sent so many requests. In bytes.
pub(super) fn http2_bytes(limits: &Limits, requests: usize) -> usize {
    let streams = requests.saturating_mul(STREAM_BYTES);
    TLS_BYTES.saturating_add(HTTP2_BYTES).saturating_add(limits.head_bytes).saturating_add(streams)
}

/// See the module documentation.
pub(super) struct ConnectionTable {
    /// The maximum number of connections.
    connections: usize,
    /// The maximum size of what strangers hold. In bytes.
    stranger_bytes: usize,
    /// Connections that were closed for others.
    closed: Counter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    strangers: Group,
    known: Group,
}

/// The connections of strangers, or of known callers, by account.
#[derive(Default)]
struct Group {
    holders: ByAccount<Holder>,
    /// The accounts by what they hold.
    by_weight: BTreeSet<(usize, Account)>,
    weight: usize,
    count: usize,
}

#[derive(Default)]
struct Holder {
    weight: usize,
    /// By age, the oldest first.
    connections: BTreeMap<u64, Member>,
    /// The connections with more streams than usual, by age, and how many more.
    crowded: BTreeMap<u64, usize>,
    /// The sum of these.
    further_streams: usize,
}

struct Member {
    weight: usize,
    ending: Arc<Notify>,
}

/// The place of a connection in the table, until this is dropped.
pub(crate) struct Place {
    table: Arc<ConnectionTable>,
    number: u64,
    ending: Arc<Notify>,
    is_known: AtomicBool,
    account: Mutex<Account>,
}

impl ConnectionTable {
    /// Creates an empty table. The counter counts connections that are closed for others.
    pub(super) fn new(connections: usize, stranger_bytes: usize, closed: Counter) -> Arc<Self> {
        Arc::new(Self { connections, stranger_bytes, closed, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a new connection, which is a stranger's and holds this many bytes. Other connections may be closed for it.
    pub(super) fn open(self: &Arc<Self>, address: Option<IpAddr>, bytes: usize) -> Place {
        let account = Account::of_address(address);
        let ending = Arc::<Notify>::default();
        let mut state = self.state();
        state.next = state.next.wrapping_add(1);
        let number = state.next;
        state.strangers.add(account, number, Member { weight: bytes, ending: Arc::clone(&ending) });
        self.enforce(&mut state);
        Place {
            table: Arc::clone(self),
            number,
            ending,
            is_known: AtomicBool::new(false),
            account: Mutex::new(account),
        }
    }

    /// Closes a stranger's connection, because the system has no more sockets.
    pub(super) fn relieve(&self) {
        self.closed.inc_by(u64::from(self.state().strangers.end_one()));
    }

    /// Closes connections until the limits are kept.
    fn enforce(&self, state: &mut State) {
        while state.strangers.weight > self.stranger_bytes && state.strangers.end_one() {
            self.closed.inc();
        }
        while state.strangers.count.saturating_add(state.known.count) > self.connections {
            // Each known connection weighs one.
            let most = state.known.by_weight.last().map_or(0, |(count, _)| *count);
            let group = if most > state.strangers.most() { &mut state.known } else { &mut state.strangers };
            if !group.end_one() {
                return;
            }
            self.closed.inc();
        }
    }
}

impl Place {
    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what the connection holds while it is a stranger's. In bytes.
    pub(super) fn holds(&self, bytes: usize) {
        if !self.is_known() {
            let account = self.account();
            let mut state = self.table.state();
            if let Some(member) = state.strangers.remove(*account, self.number) {
                state.strangers.add(*account, self.number, Member { weight: bytes, ..member });
                self.table.enforce(&mut state);
            }
        }
    }

    /// Records that a connection of a known caller has had so many streams at a time. Their memory is used again for the next
    /// ones, and is freed with the connection.
    pub(super) fn streams(&self, most: usize) {
        let further = most.saturating_sub(USUAL_STREAMS);
        if further > 0 {
            let account = *self.account();
            let mut state = self.table.state();
            state.known.crowd(account, self.number, further);
            while state.known.further_streams(account) > FURTHER_STREAMS && state.known.end_crowded(account) {
                self.table.closed.inc();
            }
        }
    }

    /// Returns who is charged for the connection.
    pub(crate) fn charged(&self) -> Account {
        *self.account()
    }

    /// Returns whether a request was authenticated.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Records that a request of this user was authenticated: the connection is its account's from now on.
    pub(crate) fn identify(&self, user: &User, known: Account) {
        if self.is_known.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut account = self.account();
        let mut state = self.table.state();
        if let Some(member) = state.strangers.remove(*account, self.number) {
            state.known.add(known, self.number, Member { weight: 1, ..member });
            *account = known;
            while is_machine(user)
                && state.known.connections(known) > MACHINE_CONNECTIONS
                && state.known.end_oldest(known)
            {
                self.table.closed.inc();
            }
        }
    }

    /// Waits until the connection must end for others.
    pub(super) async fn ended(&self) {
        self.ending.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let account = *self.account();
        let mut state = self.table.state();
        if state.strangers.remove(account, self.number).is_none() {
            state.known.remove(account, self.number);
        }
    }
}

impl Group {
    fn add(&mut self, account: Account, number: u64, member: Member) {
        let holder = self.holders.entry(account).or_default();
        self.by_weight.remove(&(holder.weight, account));
        holder.weight = holder.weight.saturating_add(member.weight);
        self.by_weight.insert((holder.weight, account));
        self.weight = self.weight.saturating_add(member.weight);
        self.count = self.count.saturating_add(1);
        holder.connections.insert(number, member);
    }

    fn remove(&mut self, account: Account, number: u64) -> Option<Member> {
        let holder = self.holders.get_mut(&account)?;
        let member = holder.connections.remove(&number)?;
        let further = holder.crowded.remove(&number).unwrap_or_default();
        holder.further_streams = holder.further_streams.saturating_sub(further);
        self.by_weight.remove(&(holder.weight, account));
        holder.weight = holder.weight.saturating_sub(member.weight);
        self.weight = self.weight.saturating_sub(member.weight);
        self.count = self.count.saturating_sub(1);
        if holder.connections.is_empty() {
            self.holders.remove(&account);
        } else {
            self.by_weight.insert((holder.weight, account));
        }
        Some(member)
    }

    /// Records how many more streams than usual a connection has had.
    fn crowd(&mut self, account: Account, number: u64, further: usize) {
        let holder = self.holders.get_mut(&account).filter(|holder| holder.connections.contains_key(&number));
        if let Some(holder) = holder {
            let before = holder.crowded.insert(number, further).unwrap_or_default();
            holder.further_streams = holder.further_streams.saturating_sub(before).saturating_add(further);
        }
    }

    /// Returns how many more streams than usual the connections of an account have.
    fn further_streams(&self, account: Account) -> usize {
        self.holders.get(&account).map_or(0, |holder| holder.further_streams)
    }

    /// Ends the oldest connection of an account with more streams than usual. Returns whether there was one.
    fn end_crowded(&mut self, account: Account) -> bool {
        let oldest = self.holders.get(&account).and_then(|holder| holder.crowded.keys().next().copied());
        self.end(account, oldest)
    }

    /// Ends the oldest connection of the account that holds most. Returns whether there was one.
    fn end_one(&mut self) -> bool {
        let Some((_, account)) = self.by_weight.last().copied() else { return false };
        self.end_oldest(account)
    }

    /// Ends the oldest connection of an account. Returns whether there was one.
    fn end_oldest(&mut self, account: Account) -> bool {
        let oldest = self.holders.get(&account).and_then(|holder| holder.connections.keys().next().copied());
        self.end(account, oldest)
    }

    fn end(&mut self, account: Account, number: Option<u64>) -> bool {
        let Some(member) = number.and_then(|number| self.remove(account, number)) else { return false };
        member.ending.notify_one();
        true
    }

    /// Returns the number of connections of the account that holds most.
    fn most(&self) -> usize {
        self.by_weight.last().map_or(0, |(_, account)| self.connections(*account))
    }

    /// Returns the number of connections of an account.
    fn connections(&self, account: Account) -> usize {
        self.holders.get(&account).map_or(0, |holder| holder.connections.len())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use proptest::prelude::*;

    use super::*;

    fn is_ended(place: &Place) -> bool {
        pin!(place.ended()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn address(number: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, number]))
    }

    fn identify(place: &Place, name: &str) {
        let user = match name.starts_with("system:node:") {
            true => User::new(name, ["system:nodes"]),
            false => User::new(name, [""; 0]),
        };
        place.identify(&user, Account::of_user(&user));
    }

    #[test]
    fn a_node_with_too_many_connections_loses_its_oldest() {
        let table = ConnectionTable::new(10_000, 1 << 30, Counter::default());
        let open = |name: &str| {
            let place = table.open(address(1), 10);
            identify(&place, name);
            place
        };
        let other = open("system:node:other");
        let node: Vec<Place> = (0..MACHINE_CONNECTIONS + 5).map(|_| open("system:node:n")).collect();
        let user: Vec<Place> = (0..MACHINE_CONNECTIONS + 5).map(|_| open("user")).collect();
        let (old, new) = node.split_at(5);
        assert!(old.iter().all(is_ended) && !new.iter().any(is_ended));
        assert!(!user.iter().chain([&other]).any(is_ended));
    }

    #[test]
    fn a_flood_of_strangers_pushes_out_its_own_connections() {
        let table = ConnectionTable::new(1000, 100, Counter::default());
        let honest = table.open(address(1), 10);
        let flood: Vec<Place> = (0..50).map(|_| table.open(address(2), 10)).collect();
        assert!(!is_ended(&honest));
        let (old, new) = flood.split_at(41);
        assert!(old.iter().all(is_ended));
        assert!(!new.iter().any(is_ended));
        // A known caller is no stranger any more.
        identify(&honest, "honest");
        honest.holds(1000);
        assert!(!is_ended(&honest));
    }

    #[test]
    fn a_known_caller_with_too_many_connections_makes_room_for_a_stranger() {
        let closed = Counter::default();
        let table = ConnectionTable::new(10, 1000, closed.clone());
        let greedy: Vec<Place> = (0..9)
            .map(|_| {
                let place = table.open(address(2), 10);
                identify(&place, "greedy");
                place
            })
            .collect();
        let honest = [table.open(address(1), 10), table.open(address(3), 10)];
        assert!(is_ended(&greedy[0]));
        assert!(!greedy.iter().skip(1).any(is_ended) && !honest.iter().any(is_ended));
        assert_eq!(closed.get(), 1);
    }

    #[test]
    fn a_known_caller_with_streams_without_end_loses_its_own_connections_with_many() {
        let table = ConnectionTable::new(1000, 1 << 20, Counter::default());
        let open = |name: &str, streams| {
            let place = table.open(address(1), 10);
            identify(&place, name);
            place.streams(streams);
            place
        };
        let usual: Vec<Place> = (0..100).map(|_| open("greedy", USUAL_STREAMS)).collect();
        let honest = open("honest", 1000);
        let crowded: Vec<Place> = (0..30).map(|_| open("greedy", 1000 + USUAL_STREAMS)).collect();
        assert!(!usual.iter().chain([&honest]).any(is_ended));
        let kept = FURTHER_STREAMS / 1000;
        let (old, new) = crowded.split_at(30 - kept);
        assert!(old.iter().all(is_ended) && !new.iter().any(is_ended));
        drop(crowded);
        let again: Vec<Place> = (0..kept).map(|_| open("greedy", 1000 + USUAL_STREAMS)).collect();
        assert!(!again.iter().any(is_ended), "closed connections do not count");
    }

    proptest! {
        #[test]
        fn the_limits_are_kept_and_the_sums_are_right(
            steps in prop::collection::vec((0_u8..4, 0_u8..5, 0_usize..100, any::<prop::sample::Index>()), 1..200),
        ) {
            let table = ConnectionTable::new(20, 500, Counter::default());
            let mut places: Vec<Place> = Vec::new();
            for (step, number, bytes, index) in steps {
                match step {
                    _ if places.is_empty() => places.push(table.open(address(number), bytes)),
                    0 => places.push(table.open(address(number), bytes)),
                    1 => index.get(&places).holds(bytes),
                    2 => identify(index.get(&places), &number.to_string()),
                    _ => drop(places.swap_remove(index.index(places.len()))),
                }
                let state = table.state();
                for group in [&state.strangers, &state.known] {
                    let holders = || group.holders.values();
                    let members = || holders().flat_map(|holder| holder.connections.values());
                    prop_assert_eq!(group.weight, members().map(|member| member.weight).sum::<usize>());
                    prop_assert_eq!(group.count, members().count());
                    prop_assert_eq!(group.by_weight.len(), group.holders.len());
                    for (account, holder) in &group.holders {
                        prop_assert!(group.by_weight.contains(&(holder.weight, *account)));
                    }
                }
                prop_assert!(state.strangers.weight <= 500);
                prop_assert!(state.strangers.count + state.known.count <= 20);
            }
            drop(places);
            let state = table.state();
            prop_assert_eq!(state.strangers.count + state.known.count, 0);
        }
    }
}
