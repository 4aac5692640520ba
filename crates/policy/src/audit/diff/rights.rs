//! Who may do what on one side alone, subject by subject (AU-110, AU-111).

use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::compare::{Budget, Difference, Sides};
use super::grants::{Grants, Key, Side, keys};
use super::missing;
use super::rows::{Change, Found, Rows, Wanted};
use super::shapes::Shapes;
use super::words::{Collector, Factor, Vocabulary};
use crate::audit::{Incomplete, Subject};
use crate::chain::Mode;
use crate::identity::{AUTHENTICATED, UNAUTHENTICATED};

/// How much work the comparison of one subject may be, and that of all together.
const MOST_STEPS: u64 = 40_000_000;
const MOST_STEPS_OF_ALL: u64 = 400_000_000;

/// The differences of all subjects.
#[derive(Debug, Default)]
pub(super) struct Rights {
    pub(super) gained: Rows,
    pub(super) lost: Rows,
    pub(super) changes: Vec<Change>,
    pub(super) members: usize,
    pub(super) incomplete: Vec<Incomplete>,
    /// Whether some subject could not be compared.
    pub(super) is_cut: bool,
}

/// Compares the rights of everybody who is named on either side, and of whoever is not.
pub(super) fn compare(old: &Side<'_>, new: &Side<'_>, wanted: Wanted) -> Rights {
    let (vocabulary, subjects) = words_and_subjects(old, new);
    let mut shapes = Shapes::new(&vocabulary);
    let old = Grants::new(old, &subjects, &mut shapes);
    let new = Grants::new(new, &subjects, &mut shapes);
    let sides = Sides { old: &old, new: &new, shapes: &shapes };
    let mut rights = Rights::default();
    let found = rights.differences(&sides, &subjects);
    let groups: BTreeMap<&str, &[Difference]> = found
        .iter()
        .filter_map(|(subject, differences)| match subject {
            Subject::Group { name } => Some((name.as_str(), differences.as_slice())),
            _ => None,
        })
        .collect();
    let mut counts = (0_usize, 0_usize);
    for (subject, differences) in &found {
        let found = Found { subject, differences, vocabulary: &vocabulary, sides: (&old, &new) };
        if wanted.rows {
            rights.gained.add(&found, true, wanted.most);
            rights.lost.add(&found, false, wanted.most);
        }
        rights.add_changes(&found, &groups, wanted.most, &mut counts);
    }
    rights.tell_cuts(wanted, counts);
    rights
}

/// The words of both sides, and everybody who is to be compared, sorted.
fn words_and_subjects(old: &Side<'_>, new: &Side<'_>) -> (Vocabulary, Vec<Subject>) {
    let has_nodes = old.has(Mode::Node) || new.has(Mode::Node);
    let mut subjects: HashSet<Subject> = [AUTHENTICATED, UNAUTHENTICATED].map(Subject::group).into();
    let mut collector = Collector::default();
    for side in [old, new] {
        subjects.extend(side.subjects());
        side.add_words(&mut collector);
    }
    for subject in subjects.iter().filter(|_| has_nodes) {
        if let Subject::Node { name } = subject {
            collector.add(Factor::Name, name);
        }
    }
    let vocabulary = collector.finish(has_nodes);
    if has_nodes {
        subjects.insert(Subject::Node { name: vocabulary.node.clone() });
    }
    let mut subjects: Vec<Subject> = subjects.into_iter().collect();
    subjects.sort_by_cached_key(Subject::to_string);
    (vocabulary, subjects)
}

impl Rights {
    /// The differences of each subject that has some, in order.
    fn differences<'s>(
        &mut self,
        sides: &Sides<'_>,
        subjects: &'s [Subject],
    ) -> Vec<(&'s Subject, Vec<Difference>)> {
        let mut left = MOST_STEPS_OF_ALL;
        let mut found = Vec::new();
        let mut given_up = Vec::new();
        let changed = sides.changed_keys();
        for subject in subjects {
            let keys: Vec<Key> = keys(subject);
            if !keys.iter().any(|key| changed.contains(key)) {
                continue;
            }
            let mut budget = Budget::new(left.min(MOST_STEPS));
            match sides.compare(&keys, &mut budget) {
                Some(differences) if differences.is_empty() => {}
                Some(differences) => found.push((subject, differences)),
                None => given_up.push(subject),
            }
            left = left.saturating_sub(budget.spent());
        }
        if let Some(first) = given_up.first() {
            self.is_cut = true;
            let count = given_up.len();
            self.incomplete.push(missing::cut(format!(
                "{count} subjects have too many different grants to be compared: the first is {first}"
            )));
        }
        found
    }

    fn add_changes(
        &mut self,
        found: &Found<'_>,
        groups: &BTreeMap<&str, &[Difference]>,
        most: usize,
        (gains, losses): &mut (usize, usize),
    ) {
        let own = match found.subject {
            Subject::Group { name } => name.as_str(),
            _ => "",
        };
        let of_groups = found.subject.identity().groups;
        let of_groups: Vec<&[Difference]> = of_groups
            .iter()
            .filter(|group| *group != own)
            .filter_map(|group| groups.get(group.as_str()).copied())
            .collect();
        let is_inherited = |difference: &&Difference| {
            of_groups.iter().any(|others| others.binary_search(difference).is_ok())
        };
        self.members += usize::from(found.differences.iter().any(|difference| is_inherited(&difference)));
        for difference in found.differences.iter().filter(|difference| !is_inherited(difference)) {
            let count = if difference.is_gain { &mut *gains } else { &mut *losses };
            *count += 1;
            if *count <= most {
                self.changes.push(found.change(difference));
            }
        }
    }

    /// Tells what was left out of what is shown.
    fn tell_cuts(&mut self, wanted: Wanted, (gains, losses): (usize, usize)) {
        let most = wanted.most;
        let more = |count: usize| u64::try_from(count.saturating_sub(most)).unwrap_or(u64::MAX);
        let (what, gained, lost) = match wanted.rows {
            true => ("requests of different classes", self.gained.left_out, self.lost.left_out),
            false => ("changes", more(gains), more(losses)),
        };
        if gained > 0 || lost > 0 {
            let detail = format!("{gained} more {what} are gained and {lost} more lost than are listed");
            self.incomplete.push(missing::cut(detail));
        }
    }
}
