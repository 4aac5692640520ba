//! Compares what one identity is granted on both sides: which products of words exactly one side allows (AU-111).
//!
//! A search splits the words of one factor after the other into parts that the grants treat alike, and follows a part only while
//! a grant that one side alone has is among those that cover it. So the work depends on what has changed, and not on the number of
//! classes.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::grants::{Grants, Key, WayId};
use super::shapes::{ShapeId, Shapes, Space};
use super::words::{Factor, Vocabulary, WordId, Words};

/// How much work a comparison may be: the number of grants and words that are looked at.
#[derive(Debug)]
pub(super) struct Budget {
    most: u64,
    spent: u64,
}

impl Budget {
    pub(super) fn new(most: u64) -> Self {
        Self { most, spent: 0 }
    }

    /// How much was spent.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// Takes from the budget. None: it is used up.
    fn spend(&mut self, steps: usize) -> Option<()> {
        self.spent = self.spent.saturating_add(u64::try_from(steps).unwrap_or(u64::MAX));
        (self.spent <= self.most).then_some(())
    }
}

/// What a difference costs beside its words.
const DIFFERENCE: usize = 16;

/// Both sides.
pub(super) struct Sides<'a> {
    pub(super) old: &'a Grants<'a>,
    pub(super) new: &'a Grants<'a>,
    pub(super) shapes: &'a Shapes<'a>,
}

/// A product of words that one side alone allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Difference {
    /// Whether it is the new side.
    pub(super) is_gain: bool,
    pub(super) space: Space,
    /// In the order of [`Space::factors`].
    pub(super) words: Vec<Words>,
    /// By what, on the side that allows it.
    pub(super) ways: Vec<WayId>,
}

/// The namespace and the product of a grant.
type Place = (Option<WordId>, ShapeId);

/// A grant of an identity, and by what each side has it.
struct Item {
    namespace: Option<WordId>,
    words: Vec<Words>,
    old: Vec<WayId>,
    new: Vec<WayId>,
}

impl Item {
    fn is_changed(&self) -> bool {
        self.old.is_empty() != self.new.is_empty()
    }

    fn meets(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(own, others)| own.meet(others))
    }

    fn is_within(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(own, others)| own.is_within(others))
    }
}

impl Sides<'_> {
    /// The keys that have other grants on the one side than on the other.
    pub(super) fn changed_keys(&self) -> HashSet<&Key> {
        let all: HashSet<&Key> = self.old.keys().chain(self.new.keys()).collect();
        let places = |grants: &Grants<'_>, key: &Key| {
            grants.of(key).iter().map(|held| (held.namespace, held.shape)).collect::<HashSet<Place>>()
        };
        all.into_iter().filter(|key| places(self.old, key) != places(self.new, key)).collect()
    }

    /// The differences between what an identity with these keys is allowed; disjoint. None: the budget is used up.
    pub(super) fn compare(&self, keys: &[Key], budget: &mut Budget) -> Option<Vec<Difference>> {
        let mut places: HashMap<Place, (Vec<WayId>, Vec<WayId>)> = HashMap::new();
        for key in keys {
            budget.spend(self.old.of(key).len().saturating_add(self.new.of(key).len()))?;
            for held in self.old.of(key) {
                places.entry((held.namespace, held.shape)).or_default().0.push(held.way);
            }
            for held in self.new.of(key) {
                places.entry((held.namespace, held.shape)).or_default().1.push(held.way);
            }
        }
        let mut found = Vec::new();
        for space in [Space::Resources, Space::Urls] {
            let items = places.iter().filter_map(|((namespace, shape), (old, new))| {
                let shape = self.shapes.get(*shape).filter(|shape| shape.space == space)?;
                let (namespace, words) = (*namespace, shape.within(*namespace));
                Some(Item { namespace, words, old: old.clone(), new: new.clone() })
            });
            let mut search = Search {
                items: relevant(items.collect(), budget)?,
                space,
                vocabulary: self.shapes.vocabulary(),
                budget,
                found: Vec::new(),
            };
            let all = (0..search.items.len()).collect();
            search.descend(&mut Vec::new(), all)?;
            found.append(&mut search.found);
        }
        Some(merged(found, self.shapes.vocabulary()))
    }
}

/// Leaves out what changes nothing: changes within what both sides have, and what meets no change.
fn relevant(items: Vec<Item>, budget: &mut Budget) -> Option<Vec<Item>> {
    let (mut changed, kept): (Vec<Item>, Vec<Item>) = items.into_iter().partition(Item::is_changed);
    if changed.is_empty() {
        return Some(changed);
    }
    let mut by_namespace: HashMap<Option<WordId>, Vec<usize>> = HashMap::new();
    for (place, item) in kept.iter().enumerate() {
        by_namespace.entry(item.namespace).or_default().push(place);
    }
    let mut is_met = vec![false; kept.len()];
    let mut is_needed = Vec::with_capacity(changed.len());
    for item in &changed {
        // What is in one namespace meets nothing of another.
        let places: Vec<usize> = match item.namespace {
            None => (0..kept.len()).collect(),
            own => {
                let both = [None, own].into_iter().filter_map(|namespace| by_namespace.get(&namespace));
                both.flatten().copied().collect()
            }
        };
        budget.spend(places.len())?;
        let others = || places.iter().filter_map(|place| Some((*place, kept.get(*place)?)));
        let is_covered = others().any(|(_, other)| item.is_within(other));
        is_needed.push(!is_covered);
        for (place, _) in others().filter(|(_, other)| !is_covered && item.meets(other)) {
            if let Some(is_met) = is_met.get_mut(place) {
                *is_met = true;
            }
        }
    }
    let mut needed = is_needed.into_iter();
    changed.retain(|_| needed.next().unwrap_or(true));
    let met = kept.into_iter().zip(is_met).filter(|(_, is_met)| *is_met).map(|(item, _)| item);
    Some(changed.into_iter().chain(met).collect())
}

struct Search<'a> {
    items: Vec<Item>,
    space: Space,
    vocabulary: &'a Vocabulary,
    budget: &'a mut Budget,
    found: Vec<Difference>,
}

impl Search<'_> {
    /// Searches among requests of these words for the first factors. They are covered by these items, as far as they go.
    fn descend(&mut self, words: &mut Vec<Words>, covering: Vec<usize>) -> Option<()> {
        self.budget.spend(covering.len())?;
        let items = || covering.iter().filter_map(|place| self.items.get(*place));
        let depth = words.len();
        let covers_all_rest = |item: &Item| item.words.iter().skip(depth).all(Words::is_all);
        if !items().any(Item::is_changed) || items().any(|item| !item.is_changed() && covers_all_rest(item)) {
            return Some(());
        }
        let Some(factor) = self.space.factors().get(depth) else {
            let (was, now) =
                (items().any(|item| !item.old.is_empty()), items().any(|item| !item.new.is_empty()));
            if was != now {
                let mut ways: Vec<WayId> =
                    items().flat_map(|item| if now { &item.new } else { &item.old }).copied().collect();
                ways.sort_unstable();
                ways.dedup();
                let words = words.clone();
                self.budget.spend(words.iter().map(Words::len).sum::<usize>() + ways.len() + DIFFERENCE)?;
                self.found.push(Difference { is_gain: now, space: self.space, words, ways });
            }
            return Some(());
        };
        for (part, covering) in self.parts(*factor, depth, &covering)? {
            words.push(part);
            self.descend(words, covering)?;
            words.pop();
        }
        Some(())
    }

    /// The words of a factor in parts that the items treat alike, each with the items that cover it.
    fn parts(
        &mut self,
        factor: Factor,
        depth: usize,
        covering: &[usize],
    ) -> Option<Vec<(Words, Vec<usize>)>> {
        let mut by_word = BTreeMap::<WordId, Vec<usize>>::new();
        let mut of_all = Vec::new();
        for place in covering {
            match self.items.get(*place).and_then(|item| item.words.get(depth)) {
                Some(Words::Only(words)) => {
                    self.budget.spend(words.len())?;
                    words.iter().for_each(|word| by_word.entry(*word).or_default().push(*place));
                }
                Some(Words::Except(_)) => of_all.push(*place),
                None => {}
            }
        }
        let named: Vec<WordId> = by_word.keys().copied().collect();
        let mut parts = BTreeMap::<Vec<usize>, Vec<WordId>>::new();
        for (word, places) in by_word {
            parts.entry(places).or_default().push(word);
        }
        let mut parts: Vec<(Words, Vec<usize>)> = parts
            .into_iter()
            .map(|(places, words)| {
                (Words::Only(words), places.into_iter().chain(of_all.iter().copied()).collect())
            })
            .collect();
        if !of_all.is_empty() && named.len() < self.vocabulary.count(factor) {
            parts.push((Words::Except(named), of_all));
        }
        Some(parts)
    }
}

/// The same differences in fewer products: those that differ in the words of one factor alone become one.
fn merged(mut differences: Vec<Difference>, vocabulary: &Vocabulary) -> Vec<Difference> {
    loop {
        let count = differences.len();
        for place in 0..Factor::OF_RESOURCES.len() {
            differences = merged_by(differences, place, vocabulary);
        }
        if differences.len() == count {
            return differences;
        }
    }
}

fn merged_by(differences: Vec<Difference>, place: usize, vocabulary: &Vocabulary) -> Vec<Difference> {
    let mut by_rest = BTreeMap::<Difference, Words>::new();
    for mut difference in differences {
        let own = difference.words.get_mut(place).map(|words| std::mem::replace(words, Words::ALL));
        let Some(own) = own else {
            by_rest.insert(difference, Words::ALL);
            continue;
        };
        let known = by_rest.entry(difference).or_insert_with(|| Words::Only(Vec::new()));
        *known = known.union(&own);
    }
    let back = |(mut difference, words): (Difference, Words)| {
        if let (Some(own), Some(factor)) =
            (difference.words.get_mut(place), difference.space.factors().get(place))
        {
            *own = vocabulary.normal(*factor, words);
        }
        difference
    };
    by_rest.into_iter().map(back).collect()
}
