//! The words of both sides, numbered factor by factor (AU-110). Whoever makes requests of these words has made one of each class.

use std::collections::{BTreeMap, BTreeSet};

use crate::abac;
use crate::objects::rbac::PolicyRule;

/// A factor of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Factor {
    Namespace,
    Group,
    Resource,
    Subresource,
    Name,
    Verb,
    Url,
}

impl Factor {
    /// The factors of a request for a resource.
    pub(super) const OF_RESOURCES: [Self; 6] =
        [Self::Namespace, Self::Group, Self::Resource, Self::Subresource, Self::Name, Self::Verb];
    /// The factors of a request for a path.
    pub(super) const OF_URLS: [Self; 2] = [Self::Url, Self::Verb];

    const ALL: [Self; 7] =
        [Self::Namespace, Self::Group, Self::Resource, Self::Subresource, Self::Name, Self::Verb, Self::Url];

    /// Whether a request for a resource may lack it.
    fn may_be_absent(self) -> bool {
        matches!(self, Self::Namespace | Self::Group | Self::Subresource | Self::Name)
    }
}

/// The wildcard of lists. It is no word, except where it is none: among names and subresources.
const ANY: &str = "*";
/// How a word that nobody uses is printed.
const OTHER: &str = "<other>";
/// How a node that nobody names is printed: it stands for every node to which nothing belongs.
const NODE: &str = "<any>";

/// The number of a word: its place among the words of its factor, sorted.
pub(super) type WordId = u32;

/// Some words of a factor. Both lists are sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Words {
    /// These.
    Only(Vec<WordId>),
    /// All but these.
    Except(Vec<WordId>),
}

impl Words {
    /// All words.
    pub(super) const ALL: Self = Self::Except(Vec::new());

    /// One word.
    pub(super) fn one(word: WordId) -> Self {
        Self::Only(vec![word])
    }

    pub(super) fn is_all(&self) -> bool {
        *self == Self::ALL
    }

    /// How many words are written down.
    pub(super) fn len(&self) -> usize {
        let (Self::Only(words) | Self::Except(words)) = self;
        words.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Only(words) if words.is_empty())
    }

    fn has(&self, word: WordId) -> bool {
        match self {
            Self::Only(words) => words.binary_search(&word).is_ok(),
            Self::Except(words) => words.binary_search(&word).is_err(),
        }
    }

    /// Whether both have a word. Two lists of exceptions always do: some word is in neither.
    pub(super) fn meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Only(words), other) | (other, Self::Only(words)) => {
                words.iter().any(|word| other.has(*word))
            }
            (Self::Except(_), Self::Except(_)) => true,
        }
    }

    /// Whether the other has all of these words. Lists of exceptions are in no finite list.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Only(words), other) => words.iter().all(|word| other.has(*word)),
            (Self::Except(own), Self::Except(others)) => {
                others.iter().all(|word| own.binary_search(word).is_ok())
            }
            (Self::Except(_), Self::Only(_)) => false,
        }
    }

    /// The words of both.
    pub(super) fn union(&self, other: &Self) -> Self {
        let without = |words: &[WordId], other: &Self| {
            words.iter().copied().filter(|word| !other.has(*word)).collect::<Vec<_>>()
        };
        match (self, other) {
            (Self::Only(some), Self::Only(more)) => {
                let all: BTreeSet<WordId> = some.iter().chain(more).copied().collect();
                Self::Only(all.into_iter().collect())
            }
            (Self::Except(words), other) | (other, Self::Except(words)) => {
                Self::Except(without(words, other))
            }
        }
    }
}

/// Collects the words of both sides.
#[derive(Debug, Default)]
pub(super) struct Collector {
    words: BTreeMap<Factor, BTreeSet<String>>,
    prefixes: BTreeSet<String>,
}

impl Collector {
    /// Adds a word.
    pub(super) fn add(&mut self, factor: Factor, word: &str) {
        let words = self.words.entry(factor).or_default();
        if !words.contains(word) {
            words.insert(word.to_owned());
        }
    }

    /// Adds the words of a rule of a role.
    pub(super) fn add_rule(&mut self, rule: &PolicyRule) {
        let is_word = |word: &&String| word.as_str() != ANY;
        rule.verbs.iter().filter(is_word).for_each(|word| self.add(Factor::Verb, word));
        rule.api_groups.iter().filter(is_word).for_each(|word| self.add(Factor::Group, word));
        rule.resource_names.iter().for_each(|word| self.add(Factor::Name, word));
        for entry in rule.resources.iter().filter(is_word) {
            let (resource, subresource) = entry.split_once('/').unwrap_or((entry, ""));
            if resource != ANY {
                self.add(Factor::Resource, resource);
            }
            self.add(Factor::Subresource, subresource);
        }
        rule.non_resource_urls.iter().for_each(|entry| self.add_url(entry));
    }

    /// Adds the words of a line of an ABAC policy file.
    pub(super) fn add_line(&mut self, line: &abac::Policy) {
        if line.readonly {
            ["get", "list", "watch"].iter().for_each(|verb| self.add(Factor::Verb, verb));
        }
        let words = [
            (Factor::Group, &line.api_group),
            (Factor::Resource, &line.resource),
            (Factor::Namespace, &line.namespace),
        ];
        for (factor, word) in words.into_iter().filter(|(_, word)| *word != ANY) {
            self.add(factor, word);
        }
        self.add_url(&line.non_resource_path);
    }

    /// A literal, or a prefix and what follows it (RB-17, AB-38).
    fn add_url(&mut self, entry: &str) {
        let prefix = entry.trim_end_matches('*');
        if prefix.len() < entry.len() && !self.prefixes.contains(prefix) {
            self.prefixes.insert(prefix.to_owned());
        }
        self.add(Factor::Url, prefix);
    }

    /// The vocabulary of everything that was added, and of a word that nobody uses for each factor. With nodes also of the name of
    /// one that nobody names.
    pub(super) fn finish(mut self, has_nodes: bool) -> Vocabulary {
        let (other, node) = (self.unused(OTHER), self.unused(NODE));
        if has_nodes {
            self.add(Factor::Name, &node);
        }
        let mut words = BTreeMap::new();
        for factor in Factor::ALL {
            let mut own = self.words.remove(&factor).unwrap_or_default();
            own.insert(other.clone());
            match factor.may_be_absent() {
                true => drop(own.insert(String::new())),
                false => drop(own.remove("")),
            }
            if factor == Factor::Url {
                own.extend(self.prefixes.iter().map(|prefix| format!("{prefix}{other}")));
            }
            words.insert(factor, own.into_iter().collect());
        }
        Vocabulary { words, node }
    }

    /// A text that is no word and that no prefix covers.
    fn unused(&self, text: &str) -> String {
        let is_used = |first: char| self.words.values().flatten().any(|word| word.contains(first));
        // A hostile rule may name it, or a prefix of it.
        match text.chars().next().is_some_and(is_used) {
            false => text.to_owned(),
            true => ('\u{2190}'..).find(|c| !is_used(*c)).into_iter().chain(text.chars()).collect(),
        }
    }
}

/// The words of each factor, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Vocabulary {
    words: BTreeMap<Factor, Vec<String>>,
    /// The name of a node that nobody names.
    pub(super) node: String,
}

impl Vocabulary {
    fn of(&self, factor: Factor) -> &[String] {
        self.words.get(&factor).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many words a factor has.
    pub(super) fn count(&self, factor: Factor) -> usize {
        self.of(factor).len()
    }

    /// The number of a word.
    pub(super) fn id(&self, factor: Factor, word: &str) -> Option<WordId> {
        let place = self.of(factor).binary_search_by(|known| known.as_str().cmp(word)).ok()?;
        WordId::try_from(place).ok()
    }

    /// These words, as far as they are words.
    pub(super) fn only<'w>(&self, factor: Factor, words: impl Iterator<Item = &'w str>) -> Words {
        let ids: BTreeSet<WordId> = words.filter_map(|word| self.id(factor, word)).collect();
        Words::Only(ids.into_iter().collect())
    }

    /// The words of a list in which `*` stands for all.
    pub(super) fn listed(&self, factor: Factor, list: &[String]) -> Words {
        if list.iter().any(|word| word == ANY) {
            return Words::ALL;
        }
        self.only(factor, list.iter().map(String::as_str))
    }

    /// The word of a field in which `*` stands for all.
    pub(super) fn field(&self, factor: Factor, word: &str) -> Words {
        if word == ANY { Words::ALL } else { self.only(factor, std::iter::once(word)) }
    }

    /// The paths that entries cover (RB-17, AB-38).
    pub(super) fn urls<'e>(&self, entries: impl Iterator<Item = &'e str>) -> Words {
        let urls = self.of(Factor::Url);
        let mut ids = BTreeSet::new();
        for entry in entries {
            let prefix = entry.trim_end_matches('*');
            let is_prefix = prefix.len() < entry.len();
            if is_prefix && prefix.is_empty() {
                return Words::ALL;
            }
            let from = urls.partition_point(|url| url.as_str() < prefix);
            let covered = urls.iter().enumerate().skip(from).take_while(|(_, url)| match is_prefix {
                true => url.starts_with(prefix),
                false => url.as_str() == prefix,
            });
            ids.extend(covered.filter_map(|(place, _)| WordId::try_from(place).ok()));
        }
        Words::Only(ids.into_iter().collect())
    }

    /// How many words these are.
    pub(super) fn size(&self, factor: Factor, words: &Words) -> usize {
        match words {
            Words::Only(words) => words.len(),
            Words::Except(words) => self.count(factor).saturating_sub(words.len()),
        }
    }

    /// The same words, as all of them if that is what they are.
    pub(super) fn normal(&self, factor: Factor, words: Words) -> Words {
        if self.size(factor, &words) == self.count(factor) { Words::ALL } else { words }
    }

    /// Every word, sorted.
    pub(super) fn every(&self, factor: Factor) -> impl Iterator<Item = &str> {
        self.of(factor).iter().map(String::as_str)
    }

    /// Each of these words, sorted.
    pub(super) fn each<'v>(&'v self, factor: Factor, words: &'v Words) -> impl Iterator<Item = &'v str> {
        let numbered = (0..).zip(self.of(factor));
        let (only, all) = match words {
            Words::Only(ids) => (Some(ids), None),
            Words::Except(_) => (None, Some(numbered)),
        };
        let only = only.into_iter().flatten().filter_map(move |id| self.word(factor, *id));
        let rest = all.into_iter().flatten().filter(|(id, _)| words.has(*id)).map(|(_, word)| word.as_str());
        only.chain(rest)
    }

    /// A word by its number.
    pub(super) fn word(&self, factor: Factor, id: WordId) -> Option<&str> {
        self.of(factor).get(id as usize).map(String::as_str)
    }
}
