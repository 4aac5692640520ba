//! Which request is evaluated next (NB-53 to NB-56, NB-75b). A state machine without I/O and without a clock.
//!
//! Requests for the same name form a group, of which one is evaluated at a time. Groups whose name a Machine or a Node
//! has come before all others; among themselves they take turns, one evaluation each. So a request for a known name waits
//! for one evaluation of each other known name at most, however many requests are pending.
//!
//! Every event takes logarithmic time, also one after which a whole group is evaluated again.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

/// Known names, and all others.
const CLASSES: usize = 2;

/// The requests that are scheduled.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    requests: HashMap<String, Entry>,
    groups: HashMap<String, Group>,
    /// The groups with something to evaluate, by class.
    ready: [VecDeque<String>; CLASSES],
    timers: BTreeSet<(Duration, String)>,
}

#[derive(Debug, Default)]
struct Entry {
    group: String,
    due: Option<Duration>,
    tries: u32,
}

#[derive(Debug, Default)]
struct Group {
    requests: BTreeSet<String>,
    /// Evaluated before all others.
    first: VecDeque<String>,
    /// Changed, or due.
    changed: BTreeSet<String>,
    /// The last request of the round in which the whole group is evaluated, and how many are left in it.
    last: String,
    left: usize,
    running: Option<String>,
    is_known: bool,
    /// The class in which it is queued.
    queued: Option<usize>,
}

impl Schedule {
    /// Adds a request to a group, or evaluates it again because it changed.
    pub(crate) fn put(&mut self, request: &str, group: &str, is_known: bool) {
        if self.requests.get(request).is_some_and(|entry| entry.group != group) {
            self.remove(request);
        }
        let entry = self.requests.entry(request.to_owned()).or_default();
        group.clone_into(&mut entry.group);
        entry.tries = 0;
        let of = self.groups.entry(group.to_owned()).or_default();
        if of.requests.insert(request.to_owned()) && of.left > 0 {
            // The round may come to it before it comes to those that it is for.
            of.left = of.left.saturating_add(1);
        }
        of.changed.insert(request.to_owned());
        of.is_known = is_known;
        self.enqueue(group);
    }

    /// Removes a request.
    pub(crate) fn remove(&mut self, request: &str) {
        let Some(entry) = self.requests.remove(request) else { return };
        if let Some(due) = entry.due {
            self.timers.remove(&(due, request.to_owned()));
        }
        let Some(group) = self.groups.get_mut(&entry.group) else { return };
        group.requests.remove(request);
        group.changed.remove(request);
        group.left = group.left.min(group.requests.len());
        if group.requests.is_empty() && group.running.is_none() {
            self.groups.remove(&entry.group);
        }
    }

    /// Evaluates all requests of a group again, these first.
    pub(crate) fn rouse(&mut self, group: &str, first: Vec<String>, is_known: bool) {
        let Some(of) = self.groups.get_mut(group) else { return };
        of.is_known = is_known;
        of.first = first.into();
        of.left = of.requests.len();
        self.enqueue(group);
    }

    /// Evaluates everything again.
    pub(crate) fn rouse_all(&mut self) {
        let groups: Vec<String> = self.groups.keys().cloned().collect();
        for group in groups {
            if let Some(of) = self.groups.get_mut(&group) {
                of.left = of.requests.len();
            }
            self.enqueue(&group);
        }
    }

    /// Queues the requests that are due.
    pub(crate) fn advance(&mut self, now: Duration) {
        while let Some((due, request)) = self.timers.first().filter(|(due, _)| *due <= now).cloned() {
            self.timers.remove(&(due, request.clone()));
            let Some(entry) = self.requests.get_mut(&request) else { continue };
            entry.due = None;
            let group = entry.group.clone();
            if let Some(of) = self.groups.get_mut(&group) {
                of.changed.insert(request);
            }
            self.enqueue(&group);
        }
    }

    /// When the next request is due without a change.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Takes the next request, which is evaluated until [`Schedule::finish`].
    pub(crate) fn next(&mut self) -> Option<String> {
        for class in 0..CLASSES {
            while let Some(group) = self.ready.get_mut(class).and_then(VecDeque::pop_front) {
                let Some(of) = self.groups.get_mut(&group).filter(|of| of.queued == Some(class)) else {
                    continue;
                };
                of.queued = None;
                let Some((request, is_again)) = of.take() else { continue };
                of.running = Some(request.clone());
                if let Some(entry) = self.requests.get_mut(&request) {
                    if let Some(due) = entry.due.take() {
                        self.timers.remove(&(due, request.clone()));
                    }
                    if is_again {
                        entry.tries = 0;
                    }
                }
                return Some(request);
            }
        }
        None
    }

    /// Records that a request of this group was evaluated, and when it is evaluated again without a change. `due` gets
    /// the number of evaluations since the last change.
    pub(crate) fn finish(&mut self, request: &str, group: &str, due: impl FnOnce(u32) -> Option<Duration>) {
        if let Some(of) = self.groups.get_mut(group) {
            of.running = None;
            if of.requests.is_empty() {
                self.groups.remove(group);
            }
        }
        if let Some(entry) = self.requests.get_mut(request).filter(|entry| entry.group == group) {
            entry.due = due(entry.tries);
            entry.tries = entry.tries.saturating_add(1);
            if let Some(due) = entry.due {
                self.timers.insert((due, request.to_owned()));
            }
        }
        self.enqueue(group);
    }

    fn enqueue(&mut self, group: &str) {
        let Some(of) = self.groups.get_mut(group) else { return };
        let class = usize::from(!of.is_known);
        if of.running.is_some() || of.queued == Some(class) || !of.has_work() {
            return;
        }
        // An entry in the other class does not count any more.
        of.queued = Some(class);
        if let Some(ready) = self.ready.get_mut(class) {
            ready.push_back(group.to_owned());
        }
    }
}

impl Group {
    fn has_work(&self) -> bool {
        !self.first.is_empty() || !self.changed.is_empty() || self.left > 0
    }

    /// Takes the next request, and whether it is evaluated because others changed.
    fn take(&mut self) -> Option<(String, bool)> {
        while let Some(request) = self.first.pop_front() {
            if self.requests.contains(&request) {
                self.changed.remove(&request);
                return Some((request, true));
            }
        }
        if let Some(request) = self.changed.pop_first() {
            return Some((request, false));
        }
        self.left = self.left.checked_sub(1)?;
        let after = (Bound::Excluded(self.last.as_str()), Bound::Unbounded);
        let next = self.requests.range::<str, _>(after).next().or_else(|| self.requests.first())?.clone();
        self.last.clone_from(&next);
        Some((next, true))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 3;

    /// An event. Requests and groups are numbers.
    #[derive(Clone, Debug)]
    enum Event {
        Put {
            request: u8,
            group: u8,
            is_known: bool,
        },
        Remove(u8),
        Rouse {
            group: u8,
            first: Vec<u8>,
            is_known: bool,
        },
        RouseAll,
        /// An evaluation ends; the request is due again after these seconds.
        Finish(Option<u8>),
        Pass(u8),
    }

    fn event() -> impl Strategy<Value = Event> {
        let (request, group) = (0_u8..24, 0_u8..6);
        prop_oneof![
            4 => (request.clone(), group.clone(), any::<bool>())
                .prop_map(|(request, group, is_known)| Event::Put { request, group, is_known }),
            1 => request.clone().prop_map(Event::Remove),
            2 => (group, prop::collection::vec(request, 0..3), any::<bool>())
                .prop_map(|(group, first, is_known)| Event::Rouse { group, first, is_known }),
            1 => Just(Event::RouseAll),
            6 => prop::option::of(0_u8..20).prop_map(Event::Finish),
            2 => (0_u8..10).prop_map(Event::Pass),
        ]
    }

    /// The simplest scheduler: it remembers for each request whether something happened since its last evaluation began.
    #[derive(Default)]
    struct Naive {
        groups: BTreeMap<String, String>,
        owed: BTreeSet<String>,
        known: BTreeMap<String, bool>,
        due: BTreeMap<String, Duration>,
        /// Request and group. A request that has moved may be evaluated in both.
        running: BTreeSet<(String, String)>,
    }

    impl Naive {
        fn owe_group(&mut self, group: &str) {
            self.owed.extend(
                self.groups.iter().filter(|(_, of)| *of == group).map(|(request, _)| request.clone()),
            );
        }

        /// Groups that have something to evaluate, and nothing running.
        fn ready(&self, is_known: bool) -> BTreeSet<&String> {
            let groups = self.owed.iter().filter_map(|request| self.groups.get(request));
            let is_ready = |group: &&String| {
                !self.running.iter().any(|(_, running)| running == *group)
                    && self.known.get(*group).copied().unwrap_or_default() == is_known
            };
            groups.filter(is_ready).collect()
        }

        /// Checks a choice, and takes it.
        fn began(&mut self, request: &str) {
            let group = self.groups.get(request).expect("a request that exists").clone();
            assert!(!self.running.iter().any(|(_, running)| *running == group), "one of a group at a time");
            if !self.known.get(&group).copied().unwrap_or_default() {
                assert!(self.ready(true).is_empty(), "known names come first");
            }
            self.owed.remove(request);
            self.due.remove(request);
            self.running.insert((request.to_owned(), group));
        }
    }

    fn run_until_quiet(schedule: &mut Schedule, naive: &mut Naive) {
        loop {
            while let Some(request) = schedule.next() {
                naive.began(&request);
            }
            let Some((request, group)) = naive.running.pop_first() else { return };
            schedule.finish(&request, &group, |_| None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn whatever_happens_everything_is_evaluated_after_its_last_event_and_known_names_first_nb_75b(
            events in prop::collection::vec(event(), 1..80),
        ) {
            let (mut schedule, mut naive) = (Schedule::default(), Naive::default());
            let mut now = Duration::ZERO;
            let name = |number: u8| number.to_string();
            for event in events {
                match event {
                    Event::Put { request, group, is_known } => {
                        let (request, group) = (name(request), format!("g{group}"));
                        schedule.put(&request, &group, is_known);
                        if naive.groups.insert(request.clone(), group.clone()).is_some_and(|old| old != group) {
                            naive.due.remove(&request);
                        }
                        naive.known.insert(group, is_known);
                        naive.owed.insert(request);
                    }
                    Event::Remove(request) => {
                        schedule.remove(&name(request));
                        naive.groups.remove(&name(request));
                        naive.owed.remove(&name(request));
                        naive.due.remove(&name(request));
                    }
                    Event::Rouse { group, first, is_known } => {
                        let group = format!("g{group}");
                        schedule.rouse(&group, first.into_iter().map(name).collect(), is_known);
                        naive.owe_group(&group);
                        if naive.groups.values().any(|of| *of == group) {
                            naive.known.insert(group, is_known);
                        }
                    }
                    Event::RouseAll => {
                        schedule.rouse_all();
                        naive.owed = naive.groups.keys().cloned().collect();
                    }
                    Event::Finish(again) => {
                        let Some((request, group)) = naive.running.pop_first() else { continue };
                        let due = again.map(|seconds| now + Duration::from_secs(u64::from(seconds) + 1));
                        schedule.finish(&request, &group, |_| due);
                        if let Some(due) = due.filter(|_| naive.groups.get(&request) == Some(&group)) {
                            naive.due.insert(request, due);
                        }
                    }
                    Event::Pass(seconds) => {
                        now += Duration::from_secs(u64::from(seconds));
                        schedule.advance(now);
                        let due: Vec<_> = naive.due.extract_if(.., |_, due| *due <= now).collect();
                        naive.owed.extend(due.into_iter().map(|(request, _)| request));
                    }
                }
                while naive.running.len() < MOST {
                    let Some(request) = schedule.next() else { break };
                    naive.began(&request);
                }
            }
            run_until_quiet(&mut schedule, &mut naive);
            prop_assert!(naive.owed.is_empty(), "not evaluated since: {:?}", naive.owed);
            // Only the timers of what still exists are left.
            let left: Vec<_> = schedule.timers.iter().map(|(due, request)| (request.clone(), *due)).collect();
            let expected: BTreeSet<_> = naive.due.into_iter().collect();
            prop_assert_eq!(left.into_iter().collect::<BTreeSet<_>>(), expected);
            for request in naive.groups.into_keys() {
                schedule.remove(&request);
            }
            prop_assert!(schedule.groups.is_empty() && schedule.requests.is_empty() && schedule.timers.is_empty());
        }
    }

    #[test]
    fn a_known_name_waits_for_no_flood_t4_nb_75b() {
        let mut schedule = Schedule::default();
        for number in 0..10_000 {
            schedule.put(&format!("flood-{number}"), &format!("name-{number}"), false);
            // The same name as the machine, ahead of it.
            schedule.put(&format!("copy-{number}"), "machine", false);
        }
        schedule.put("z-own", "machine", false);
        // Its Machine arrives: the request that may be approved is the next one.
        schedule.rouse("machine", vec!["z-own".to_owned()], true);
        assert_eq!(schedule.next().as_deref(), Some("z-own"));
        // A second machine does not wait for the copies either.
        schedule.finish("z-own", "machine", |_| None);
        schedule.put("own", "other", true);
        let next: Vec<_> = (0..2).filter_map(|_| schedule.next()).collect();
        assert!(next.contains(&"own".to_owned()), "{next:?}");
    }
}
