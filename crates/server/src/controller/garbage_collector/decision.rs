//! Decides whether an object with owners is deleted.

use std::collections::HashSet;

use crate::registry::options::Propagation;

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is there.
    Here,
    /// It is being deleted, and waits until its dependents are.
    Waiting,
    /// It is gone, or another object has its name.
    Gone,
}

/// The action for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate<'o> {
    /// Nothing.
    Stays,
    /// It stays with the owners that are there, and lets go of those with these uids.
    LetsGo(HashSet<&'o str>),
    /// It is deleted.
    Goes {
        /// How.
        propagation: Propagation,
        /// Whether it first ceases to block its owners, because it would wait for one of them.
        unblocks: bool,
    },
}

/// The facts about the object itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Itself {
    /// Whether it has dependents.
    pub(super) has_dependents: bool,
    /// Whether one of its dependents waits for dependents: the two may wait for each other.
    pub(super) may_be_in_a_circle: bool,
    /// Whether it has the finalizer `orphan`.
    pub(super) orphans: bool,
    /// Whether it has the finalizer `foregroundDeletion`.
    pub(super) waits: bool,
}

/// Decides what becomes of an object that is not being deleted, from all of its owners by uid.
pub(super) fn decide<'o>(owners: &[(&'o str, Owner)], itself: Itself) -> Fate<'o> {
    let any = |wanted: Owner| owners.iter().any(|(_, owner)| *owner == wanted);
    if owners.is_empty() {
        return Fate::Stays;
    }
    if any(Owner::Here) {
        let others = owners.iter().filter(|(_, owner)| *owner != Owner::Here).map(|(uid, _)| *uid);
        let others: HashSet<&str> = others.collect();
        return if others.is_empty() { Fate::Stays } else { Fate::LetsGo(others) };
    }
    if any(Owner::Waiting) && itself.has_dependents {
        return Fate::Goes { propagation: Propagation::Foreground, unblocks: itself.may_be_in_a_circle };
    }
    let propagation = match itself {
        Itself { orphans: true, .. } => Propagation::Orphan,
        Itself { waits: true, .. } => Propagation::Foreground,
        _ => Propagation::Background,
    };
    Fate::Goes { propagation, unblocks: false }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same in other words: what the documentation of Kubernetes says of owners and dependents, one sentence a line.
    fn in_words(owners: &[(&str, Owner)], itself: Itself) -> (bool, Vec<String>, Option<Propagation>) {
        let lost = |owner: &(&str, Owner)| owner.1 == Owner::Gone || owner.1 == Owner::Waiting;
        let is_collected = !owners.is_empty() && owners.iter().all(lost);
        let let_go = match is_collected {
            true => Vec::new(),
            false => owners.iter().filter(|owner| lost(owner)).map(|(uid, _)| (*uid).to_owned()).collect(),
        };
        let cascades = owners.iter().any(|(_, owner)| *owner == Owner::Waiting) && itself.has_dependents;
        let how = match (cascades, itself.orphans, itself.waits) {
            (true, _, _) | (false, false, true) => Propagation::Foreground,
            (false, true, _) => Propagation::Orphan,
            (false, false, false) => Propagation::Background,
        };
        (is_collected, let_go, is_collected.then_some(how))
    }

    fn owners() -> impl Strategy<Value = Vec<Owner>> {
        let owner = prop_oneof![Just(Owner::Here), Just(Owner::Waiting), Just(Owner::Gone)];
        proptest::collection::vec(owner, 0..6)
    }

    proptest! {
        #[test]
        fn an_object_goes_when_no_owner_is_left_and_lets_go_of_those_that_are_not(
            owners in owners(), bits in 0_u8..16,
        ) {
            let names: Vec<String> = (0..owners.len()).map(|i| format!("uid-{i}")).collect();
            let owners: Vec<_> = names.iter().map(String::as_str).zip(owners).collect();
            let bit = |at: u8| bits & (1 << at) != 0;
            let itself = Itself {
                has_dependents: bit(0), may_be_in_a_circle: bit(0) && bit(1), orphans: bit(2), waits: bit(3),
            };
            let (is_collected, let_go, how) = in_words(&owners, itself);
            match decide(&owners, itself) {
                Fate::Stays => prop_assert!(!is_collected && let_go.is_empty()),
                Fate::LetsGo(uids) => {
                    let mut uids: Vec<String> = uids.into_iter().map(str::to_owned).collect();
                    uids.sort();
                    prop_assert!(!is_collected);
                    prop_assert_eq!(uids, let_go);
                }
                Fate::Goes { propagation, unblocks } => {
                    prop_assert!(is_collected);
                    prop_assert_eq!(Some(propagation), how);
                    prop_assert!(!unblocks || propagation == Propagation::Foreground);
                }
            }
        }
    }
}
