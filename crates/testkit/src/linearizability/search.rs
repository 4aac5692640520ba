//! The search for an order of the operations on one key: that of Wing and Gong, which takes one operation after another
//! and goes back where it cannot go on, with Lowe's memory of where it has been ("Testing for linearizability", 2017).
//!
//! What keeps it short, each without losing an order:
//! - An operation that changes nothing is taken as soon as it is true.
//! - A value is written once. So it is not left while an operation needs it.
//! - Values that no operation names any more are the same value, and of operations that do the same the one that must
//!   end first is taken first.
//! - An unknown operation need not be taken. So, where it was in vain to have taken some, taking more is in vain.

use std::collections::HashMap;

use super::history::{Action, Operation, Outcome, Value};

/// The state of the key: absent, with a value that nobody names, or with a value that somebody names.
type State = usize;
const ABSENT: State = 0;
const UNNAMED: State = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Always,
    Is(State),
    IsNot(State),
}

impl Condition {
    fn holds(self, state: State) -> bool {
        match self {
            Self::Always => true,
            Self::Is(wanted) => state == wanted,
            Self::IsNot(other) => state != other,
        }
    }

    fn names(self) -> Option<State> {
        match self {
            Self::Always => None,
            Self::Is(state) | Self::IsNot(state) => Some(state),
        }
    }
}

/// An operation as the search sees it.
#[derive(Clone, Copy, Debug)]
struct Step {
    invoked: u64,
    /// None: it need not be taken.
    responded: Option<u64>,
    condition: Condition,
    /// None: it changes nothing.
    becomes: Option<State>,
}

impl Step {
    /// The named state that it needs, if it must be taken. That state comes once.
    fn needs(&self) -> Option<State> {
        match self.condition {
            Condition::Is(state) if state > UNNAMED && self.responded.is_some() => Some(state),
            _ => None,
        }
    }
}

/// Finds an order.
///
/// # Errors
/// There is none. All that ended before this time has one.
pub(super) fn find_an_order(operations: &[Operation]) -> Result<(), u64> {
    Search::new(steps(operations)).run()
}

fn steps(operations: &[Operation]) -> Vec<Step> {
    let mut named: HashMap<Value, State> = HashMap::new();
    let mut name = |value| {
        let next = named.len() + 2;
        *named.entry(value).or_insert(next)
    };
    for operation in operations {
        match (operation.action, operation.response) {
            (Action::Read, Some((_, Outcome::Observed(Some(value))))) => drop(name(value)),
            (Action::CompareAndSwap { expected, .. }, _) => drop(name(expected)),
            _ => {}
        }
    }
    let state = |value| named.get(&value).copied().unwrap_or(UNNAMED);
    let step = |operation: &Operation| {
        let has_effect = operation.response.is_none_or(|(_, outcome)| outcome == Outcome::Done);
        let (condition, becomes) = match (operation.action, operation.response) {
            (Action::Read, Some((_, Outcome::Observed(value)))) => {
                (Condition::Is(value.map_or(ABSENT, state)), None)
            }
            // Nobody saw what was read.
            (Action::Read, _) => return None,
            (Action::Write(new), _) if has_effect => (Condition::Always, Some(state(new))),
            (Action::Write(_), _) => return None,
            (Action::CompareAndSwap { expected, new }, _) if has_effect => {
                (Condition::Is(state(expected)), Some(state(new)))
            }
            (Action::CompareAndSwap { expected, .. }, _) => (Condition::IsNot(state(expected)), None),
            (Action::Create(new), _) if has_effect => (Condition::Is(ABSENT), Some(state(new))),
            (Action::Create(_), _) => (Condition::IsNot(ABSENT), None),
            (Action::Delete, _) if has_effect => (Condition::IsNot(ABSENT), Some(ABSENT)),
            (Action::Delete, _) => (Condition::Is(ABSENT), None),
        };
        let responded = operation.response.map(|(responded, _)| responded);
        Some(Step { invoked: operation.invoked, responded, condition, becomes })
    };
    let mut steps: Vec<Step> = operations.iter().filter_map(step).collect();
    steps.sort_by_key(|step| step.invoked);
    steps
}

/// Where the search has been: what was still to be taken of the steps that had begun, and the state.
type Place = (Box<[usize]>, State);

struct Search {
    /// By their invocations.
    steps: Vec<Step>,
    /// The steps that must still be taken, by their invocations.
    open: List,
    /// The same by their responses.
    due: List,
    /// The unknown steps that are not taken, by their invocations.
    spare: List,
    /// How many steps that must still be taken need a state, by the state.
    needed: Vec<usize>,
    /// How many steps that are not taken name a state, by the state.
    naming: Vec<usize>,
    state: State,
    /// The steps that are taken, in their order.
    taken: Vec<usize>,
    /// The places, each with the sets of unknown steps that were taken to come there, none of which contains another.
    seen: HashMap<Place, Vec<Set>>,
    /// The unknown steps that are taken.
    unknown: Set,
}

/// A place of the search, and what to try next from there.
struct Junction {
    taken: usize,
    state: State,
    candidates: std::vec::IntoIter<usize>,
}

impl Search {
    fn new(steps: Vec<Step>) -> Self {
        let (open, spare): (Vec<usize>, Vec<usize>) =
            (0..steps.len()).partition(|&step| steps[step].responded.is_some());
        let mut due = open.clone();
        due.sort_by_key(|&step| steps[step].responded);
        let mentioned = steps.iter().flat_map(|step| [step.condition.names(), step.becomes]).flatten();
        let states = mentioned.max().unwrap_or(UNNAMED).max(UNNAMED) + 1;
        let count = |state_of: fn(&Step) -> Option<State>| {
            let mut counts = vec![0; states];
            steps.iter().filter_map(state_of).for_each(|state| counts[state] += 1);
            counts
        };
        Self {
            open: List::new(steps.len(), open),
            due: List::new(steps.len(), due),
            spare: List::new(steps.len(), spare),
            needed: count(Step::needs),
            naming: count(|step| step.condition.names()),
            state: ABSENT,
            taken: Vec::new(),
            seen: HashMap::new(),
            unknown: Set::new(steps.len()),
            steps,
        }
    }

    fn run(mut self) -> Result<(), u64> {
        let mut furthest = 0;
        let mut junctions: Vec<Junction> = Vec::new();
        loop {
            self.take_what_changes_nothing();
            let Some(deadline) = self.deadline() else { return Ok(()) };
            furthest = furthest.max(deadline);
            if self.is_new() {
                let candidates = self.candidates().into_iter();
                junctions.push(Junction { taken: self.taken.len(), state: self.state, candidates });
            }
            loop {
                let Some(junction) = junctions.last_mut() else { return Err(furthest) };
                let next = junction.candidates.next();
                let (taken, state) = (junction.taken, junction.state);
                while self.taken.len() > taken {
                    self.untake();
                }
                self.state = state;
                match next {
                    Some(step) => {
                        self.take(step);
                        break;
                    }
                    None => drop(junctions.pop()),
                }
            }
        }
    }

    /// The first response of what must still be taken: nothing that begins later comes before that.
    fn deadline(&self) -> Option<u64> {
        self.due.first().and_then(|step| self.steps[step].responded)
    }

    fn take(&mut self, step: usize) {
        let taken = self.steps[step];
        if taken.responded.is_some() {
            self.open.remove(step);
            self.due.remove(step);
        } else {
            self.spare.remove(step);
            self.unknown.insert(step);
        }
        taken.needs().into_iter().for_each(|state| self.needed[state] -= 1);
        taken.condition.names().into_iter().for_each(|state| self.naming[state] -= 1);
        self.state = taken.becomes.unwrap_or(self.state);
        self.taken.push(step);
    }

    /// Undoes the last [`Search::take`], the state apart.
    fn untake(&mut self) {
        let Some(step) = self.taken.pop() else { return };
        let taken = self.steps[step];
        if taken.responded.is_some() {
            self.open.restore(step);
            self.due.restore(step);
        } else {
            self.spare.restore(step);
            self.unknown.remove(step);
        }
        taken.needs().into_iter().for_each(|state| self.needed[state] += 1);
        taken.condition.names().into_iter().for_each(|state| self.naming[state] += 1);
    }

    /// Such a step may bring the next response closer, and never stands in the way of another.
    fn take_what_changes_nothing(&mut self) {
        let mut next = self.open.first();
        while let Some(step) = next {
            let Step { invoked, condition, becomes, .. } = self.steps[step];
            if self.deadline().is_none_or(|deadline| invoked > deadline) {
                return;
            }
            next = self.open.after(step);
            if becomes.is_none() && condition.holds(self.state) {
                self.take(step);
            }
        }
    }

    /// Whether this place was not seen yet, nor one that is no worse. Remembers it.
    fn is_new(&mut self) -> bool {
        let place = (self.begun(&self.open).collect(), self.known_as(self.state));
        let sets = self.seen.entry(place).or_default();
        if sets.iter().any(|set| set.is_within(&self.unknown)) {
            return false;
        }
        sets.retain(|set| !self.unknown.is_within(set));
        sets.push(self.unknown.clone());
        true
    }

    /// The steps of a list that may come next, as far as their times say.
    fn begun(&self, list: &List) -> impl Iterator<Item = usize> {
        let deadline = self.deadline().unwrap_or(0);
        std::iter::successors(list.first(), |&step| list.after(step))
            .take_while(move |&step| self.steps[step].invoked <= deadline)
    }

    /// What a state is for the steps that are not taken.
    fn known_as(&self, state: State) -> State {
        if state > UNNAMED && self.naming[state] == 0 { UNNAMED } else { state }
    }

    /// The steps that change the state and may come next, the most urgent first.
    fn candidates(&self) -> Vec<usize> {
        let may_come = |&step: &usize| {
            let step = &self.steps[step];
            let own_need = usize::from(step.needs() == Some(self.state));
            step.becomes.is_some() && step.condition.holds(self.state) && self.needed[self.state] == own_need
        };
        let mut candidates: Vec<usize> =
            self.begun(&self.open).chain(self.begun(&self.spare)).filter(may_come).collect();
        // Of equal ones, the special before the general: see `is_no_loss_before`.
        candidates.sort_by_key(|&step| {
            let Step { responded, condition, .. } = self.steps[step];
            (responded.unwrap_or(u64::MAX), condition == Condition::Always)
        });
        let mut chosen: Vec<usize> = Vec::new();
        for step in candidates {
            if !chosen.iter().any(|&other| self.is_no_loss(other, step)) {
                chosen.push(step);
            }
        }
        chosen
    }

    /// Where either step may come next: whether nothing is lost by taking the first. An order with the second here has
    /// the first later or not at all, and they can change places. Expects that the first need not end later.
    fn is_no_loss(&self, first: usize, second: usize) -> bool {
        let (first, second) = (&self.steps[first], &self.steps[second]);
        first.becomes.map(|state| self.known_as(state)) == second.becomes.map(|state| self.known_as(state))
            && (first.condition == second.condition || second.condition == Condition::Always)
    }
}

/// A list of steps from which any is removed, and restored in the opposite order, without a search.
struct List {
    /// By step; the last place is that of the list itself.
    next: Vec<usize>,
    before: Vec<usize>,
}

impl List {
    fn new(steps: usize, members: impl IntoIterator<Item = usize>) -> Self {
        let mut list = Self { next: vec![steps; steps + 1], before: vec![steps; steps + 1] };
        let mut last = steps;
        for member in members {
            (list.next[last], list.before[member]) = (member, last);
            last = member;
        }
        (list.next[last], list.before[steps]) = (steps, last);
        list
    }

    fn end(&self) -> usize {
        self.next.len() - 1
    }

    fn first(&self) -> Option<usize> {
        self.after(self.end())
    }

    fn after(&self, step: usize) -> Option<usize> {
        Some(self.next[step]).filter(|&next| next != self.end())
    }

    fn remove(&mut self, step: usize) {
        let (before, next) = (self.before[step], self.next[step]);
        (self.next[before], self.before[next]) = (next, before);
    }

    fn restore(&mut self, step: usize) {
        let (before, next) = (self.before[step], self.next[step]);
        (self.next[before], self.before[next]) = (step, step);
    }
}

/// A set of steps.
#[derive(Clone)]
struct Set(Vec<u64>);

impl Set {
    fn new(steps: usize) -> Self {
        Self(vec![0; steps.div_ceil(64)])
    }

    fn insert(&mut self, step: usize) {
        self.0[step / 64] |= 1 << (step % 64);
    }

    fn remove(&mut self, step: usize) {
        self.0[step / 64] &= !(1 << (step % 64));
    }

    fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(own, others)| own & !others == 0)
    }
}
