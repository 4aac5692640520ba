//! Differences in words: as rows, one for each class (AU-111), and as products for people.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::compare::Difference;
use super::grants::{Grants, WayId};
use super::shapes::Space;
use super::words::{Factor, Vocabulary, Words};
use crate::audit::Subject;
use crate::audit::who_can::Way;

/// How many ways of a row, and how many words of a change, are written down.
const MOST: usize = 40;

/// How much of a difference is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The most rows and the most changes, of gains, and as many of losses.
    pub most: usize,
    /// Whether there are to be rows.
    pub rows: bool,
}

/// Requests that one side alone allows, and that differ in the verb alone (AU-111). A word that nobody uses is `<other>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Who makes them (AU-30).
    pub subject: String,
    /// The verbs; sorted.
    pub verbs: Vec<String>,
    /// What they are for.
    #[serde(flatten)]
    pub target: Target,
    /// Whether the old side allows them.
    pub was: bool,
    /// Whether the new side allows them.
    pub now: bool,
    /// By what.
    #[serde(flatten)]
    pub through: Through,
}

/// What requests are for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Target {
    /// A path.
    Url {
        /// The path.
        #[serde(rename = "nonResourceURL")]
        url: String,
    },
    /// A resource.
    Resource {
        /// The API group; empty for the core group.
        group: String,
        /// The resource.
        resource: String,
        /// The subresource, or empty.
        subresource: String,
        /// The name of the object; empty for a request without one.
        name: String,
        /// The namespace; empty for a request without one.
        namespace: String,
    },
}

/// By what requests are allowed, on the side that allows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Through {
    /// The first ways, sorted as by `who-can`.
    #[serde(rename = "through", serialize_with = "as_list")]
    pub ways: Arc<[Way]>,
    /// How many ways are left out.
    #[serde(rename = "throughLeftOut", skip_serializing_if = "is_zero")]
    pub more: usize,
}

/// A product of words that one side alone allows: the same as rows, in short, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Who.
    pub subject: Subject,
    /// Whether the new side allows it.
    pub is_gain: bool,
    /// The words of each factor that the requests have: `verbs`, `groups`, `resources`, `subresources`, `names` and `namespaces`, or
    /// `verbs` and `nonResourceURLs`.
    pub words: BTreeMap<&'static str, WordList>,
    /// By what.
    pub through: Through,
}

/// Some words of a factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordList {
    /// Whether it is all words but these.
    pub is_all_but: bool,
    /// The first of them, sorted.
    pub words: Vec<String>,
    /// How many are left out.
    pub more: usize,
}

/// The differences of one subject, in numbers, and what they are numbers of.
pub(super) struct Found<'a> {
    pub(super) subject: &'a Subject,
    pub(super) differences: &'a [Difference],
    pub(super) vocabulary: &'a Vocabulary,
    /// The old side and the new one.
    pub(super) sides: (&'a Grants<'a>, &'a Grants<'a>),
}

/// Rows, and how many classes are not among them.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) left_out: u64,
}

impl Rows {
    /// Adds the gains or the losses of a subject, as long as there are no more rows than this.
    pub(super) fn add(&mut self, found: &Found<'_>, is_gain: bool, most: usize) {
        let mut verbs_of = BTreeMap::<(Target, &[WayId]), BTreeSet<&str>>::new();
        for difference in found.differences.iter().filter(|difference| difference.is_gain == is_gain) {
            let Some((verbs, _)) = difference.words.split_last() else { continue };
            let (targets, count) = targets(found.vocabulary, difference);
            let free = most.saturating_sub(self.rows.len()).saturating_sub(verbs_of.len());
            for target in targets.take(free) {
                let verbs = found.vocabulary.each(Factor::Verb, verbs);
                verbs_of.entry((target, &difference.ways)).or_default().extend(verbs);
            }
            let left_out = count.saturating_sub(size(free));
            let verbs = size(found.vocabulary.size(Factor::Verb, verbs));
            self.left_out = self.left_out.saturating_add(left_out.saturating_mul(verbs));
        }
        let subject = found.subject.to_string();
        let mut known = BTreeMap::<&[WayId], Through>::new();
        let mut rows: Vec<Row> = Vec::with_capacity(verbs_of.len());
        for ((target, ways), verbs) in verbs_of {
            let through = known.entry(ways).or_insert_with(|| found.through(is_gain, ways));
            let verbs = verbs.into_iter().map(str::to_owned).collect();
            let (subject, through) = (subject.clone(), through.clone());
            rows.push(Row { subject, verbs, target, was: !is_gain, now: is_gain, through });
        }
        rows.sort_by(|a, b| (&a.verbs, &a.target).cmp(&(&b.verbs, &b.target)));
        self.rows.append(&mut rows);
    }
}

/// Every combination of words of a difference but for the verbs, and how many there are.
fn targets<'a>(
    vocabulary: &'a Vocabulary,
    difference: &'a Difference,
) -> (Box<dyn Iterator<Item = Target> + 'a>, u64) {
    let each = |factor: Factor, words: &'a Words| vocabulary.each(factor, words);
    let count = |words: &[Words]| {
        let sizes = words.iter().zip(difference.space.factors());
        sizes.map(|(words, factor)| size(vocabulary.size(*factor, words))).fold(1, u64::saturating_mul)
    };
    match (difference.space, difference.words.as_slice()) {
        (Space::Urls, [urls, _]) => {
            let targets = each(Factor::Url, urls).map(|url| Target::Url { url: url.to_owned() });
            (Box::new(targets), count(std::slice::from_ref(urls)))
        }
        (Space::Resources, [namespaces, groups, resources, subresources, names, _]) => {
            let targets = each(Factor::Group, groups).flat_map(move |group| {
                each(Factor::Resource, resources).flat_map(move |resource| {
                    each(Factor::Subresource, subresources).flat_map(move |subresource| {
                        each(Factor::Name, names).flat_map(move |name| {
                            each(Factor::Namespace, namespaces).map(move |namespace| Target::Resource {
                                group: group.to_owned(),
                                resource: resource.to_owned(),
                                subresource: subresource.to_owned(),
                                name: name.to_owned(),
                                namespace: namespace.to_owned(),
                            })
                        })
                    })
                })
            });
            let others = difference.words.split_last().map(|(_, others)| others).unwrap_or_default();
            (Box::new(targets), count(others))
        }
        _ => (Box::new(std::iter::empty()), 0),
    }
}

fn size(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl Found<'_> {
    /// One of the differences as a change.
    pub(super) fn change(&self, difference: &Difference) -> Change {
        Change {
            subject: self.subject.clone(),
            is_gain: difference.is_gain,
            words: self.words(difference),
            through: self.through(difference.is_gain, &difference.ways),
        }
    }

    fn words(&self, difference: &Difference) -> BTreeMap<&'static str, WordList> {
        let factors = difference.space.factors().iter().zip(&difference.words);
        let lists = factors.map(|(factor, words)| {
            let (is_all_but, ids) = match words {
                Words::Only(ids) => (false, ids),
                Words::Except(ids) => (true, ids),
            };
            let first = ids.iter().take(MOST).filter_map(|id| self.vocabulary.word(*factor, *id));
            let list = WordList {
                is_all_but,
                words: first.map(str::to_owned).collect(),
                more: ids.len().saturating_sub(MOST),
            };
            (name(*factor), list)
        });
        lists.collect()
    }

    fn through(&self, is_gain: bool, ways: &[WayId]) -> Through {
        let grants = if is_gain { self.sides.1 } else { self.sides.0 };
        Through {
            ways: ways.iter().take(MOST).filter_map(|way| grants.way(*way)).collect(),
            more: ways.len().saturating_sub(MOST),
        }
    }
}

/// The name of the words of a factor in [`Change::words`].
fn name(factor: Factor) -> &'static str {
    match factor {
        Factor::Namespace => "namespaces",
        Factor::Group => "groups",
        Factor::Resource => "resources",
        Factor::Subresource => "subresources",
        Factor::Name => "names",
        Factor::Verb => "verbs",
        Factor::Url => "nonResourceURLs",
    }
}

fn as_list<S: Serializer>(ways: &Arc<[Way]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ways.iter())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
