//! Sets of rules, for the index of the escalation check. Two sets are compared without looking at each rule of both.

use std::borrow::Cow;
use std::cell::Cell;

/// Rules by their places in a list. A small set is a sorted list of places. A large one has a bit for each rule of the
/// whole list, because then 64 rules are compared at once; it takes no more memory than the list of its places would.
#[derive(Clone, Debug)]
pub(super) enum RuleSet {
    Few(Vec<usize>),
    Many(Vec<u64>),
}

/// Makes and compares the sets of one list of rules, and counts what that costs.
#[derive(Debug)]
pub(super) struct Sets {
    /// The number of rules in the list.
    rules: usize,
    /// The number of steps that are left. A step reads one number of a set.
    steps: Cell<u64>,
}

impl Default for RuleSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl RuleSet {
    pub(super) const EMPTY: Self = Self::Few(Vec::new());

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Few(places) if places.is_empty())
    }

    fn contains(&self, place: usize) -> bool {
        match self {
            Self::Few(places) => places.binary_search(&place).is_ok(),
            Self::Many(bits) => bits.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1),
        }
    }

    /// The number of steps that it takes to read the set.
    fn size(&self) -> usize {
        match self {
            Self::Few(places) => places.len(),
            Self::Many(bits) => bits.len(),
        }
    }

    fn add_to(&self, all: &mut [u64]) {
        match self {
            Self::Few(places) => {
                for place in places {
                    if let Some(word) = all.get_mut(place / 64) {
                        *word |= 1 << (place % 64);
                    }
                }
            }
            Self::Many(bits) => all.iter_mut().zip(bits).for_each(|(word, more)| *word |= more),
        }
    }
}

impl Sets {
    /// Sets of a list of so many rules. After so many steps every set is empty; see [`Sets::is_exhausted`].
    pub(super) fn new(rules: usize, steps: u64) -> Self {
        Self { rules, steps: Cell::new(steps) }
    }

    /// Whether all steps were taken. What was found since then is wrong.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps.get() == 0
    }

    #[cfg(test)]
    pub(super) fn steps_left(&self) -> u64 {
        self.steps.get()
    }

    /// Takes steps, at least one. Returns whether enough were left.
    fn take(&self, steps: usize) -> bool {
        let left = self.steps.get().saturating_sub(u64::try_from(steps).unwrap_or(u64::MAX).max(1));
        self.steps.set(left);
        left > 0
    }

    /// The largest size of a set that is a list of places.
    fn few(&self) -> usize {
        self.rules / 64
    }

    /// The set of these places, which are sorted.
    pub(super) fn finished(&self, places: Vec<usize>) -> RuleSet {
        let few = RuleSet::Few(places);
        if few.size() <= self.few() {
            return few;
        }
        let mut bits = vec![0; self.rules.div_ceil(64)];
        few.add_to(&mut bits);
        RuleSet::Many(bits)
    }

    /// The rules that are in any of some sets.
    pub(super) fn union<'s>(&self, sets: impl IntoIterator<Item = &'s RuleSet>) -> Cow<'s, RuleSet> {
        let mut sets = sets.into_iter().filter(|set| !set.is_empty());
        let Some(first) = sets.next() else { return Cow::Owned(RuleSet::EMPTY) };
        let Some(second) = sets.next() else { return Cow::Borrowed(first) };
        let all: Vec<&RuleSet> = [first, second].into_iter().chain(sets).collect();
        let size = all.iter().map(|set| set.size()).sum::<usize>();
        if !self.take(size) {
            return Cow::Owned(RuleSet::EMPTY);
        }
        let is_few = |set: &&RuleSet| matches!(set, RuleSet::Few(_));
        if size <= self.few() && all.iter().all(is_few) {
            let mut places: Vec<usize> = Vec::with_capacity(size);
            for set in all {
                if let RuleSet::Few(more) = set {
                    places.extend(more);
                }
            }
            places.sort_unstable();
            places.dedup();
            return Cow::Owned(RuleSet::Few(places));
        }
        let mut bits = vec![0; self.rules.div_ceil(64)];
        all.into_iter().for_each(|set| set.add_to(&mut bits));
        Cow::Owned(RuleSet::Many(bits))
    }

    /// The rules that are in both sets.
    pub(super) fn both(&self, a: &RuleSet, b: &RuleSet) -> RuleSet {
        if !self.take(a.size().min(b.size())) {
            return RuleSet::EMPTY;
        }
        let among = |places: &[usize], set: &RuleSet| {
            RuleSet::Few(places.iter().copied().filter(|place| set.contains(*place)).collect())
        };
        match (a, b) {
            (RuleSet::Few(a_places), RuleSet::Few(b_places)) if a_places.len() > b_places.len() => {
                among(b_places, a)
            }
            (RuleSet::Few(places), set) | (set, RuleSet::Few(places)) => among(places, set),
            (RuleSet::Many(a), RuleSet::Many(b)) => {
                let bits: Vec<u64> = a.iter().zip(b).map(|(a, b)| a & b).collect();
                // What is empty has to be seen as such.
                if bits.iter().all(|word| *word == 0) { RuleSet::EMPTY } else { RuleSet::Many(bits) }
            }
        }
    }

    /// Whether any rule is in both sets.
    pub(super) fn meet(&self, a: &RuleSet, b: &RuleSet) -> bool {
        if !self.take(a.size().min(b.size())) {
            return false;
        }
        match (a, b) {
            (RuleSet::Few(a_places), RuleSet::Few(b_places)) if a_places.len() > b_places.len() => {
                b_places.iter().any(|place| a.contains(*place))
            }
            (RuleSet::Few(places), set) | (set, RuleSet::Few(places)) => {
                places.iter().any(|place| set.contains(*place))
            }
            (RuleSet::Many(a), RuleSet::Many(b)) => a.iter().zip(b).any(|(a, b)| a & b != 0),
        }
    }
}
