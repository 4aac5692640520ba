//! Which objects name which owners. It holds objects with owners alone, by the uids of the owners, and follows the changes
//! of the store, so that nobody searches the store for dependents.
//!
//! The graph may lag behind the store. Before anything is deleted, owners are read from the store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::links::Links;

/// See the module. Objects are named by their keys in the store.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// By the uid of the owner.
    dependents: HashMap<Box<str>, Dependents>,
    /// The owners that wait for their dependents, by uid.
    waiting: HashMap<Box<str>, Arc<str>>,
    /// The same owners.
    waiting_keys: HashSet<Arc<str>>,
}

/// The objects that name one owner.
#[derive(Debug, Default)]
struct Dependents {
    /// Those for which a deletion in the foreground waits.
    blocking: HashSet<Arc<str>>,
    others: HashSet<Arc<str>>,
}

impl Dependents {
    fn remove(&mut self, key: &str) {
        self.blocking.remove(key);
        self.others.remove(key);
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.blocking.iter().chain(&self.others)
    }
}

impl Graph {
    /// Returns whether no object has an owner.
    pub(super) fn is_empty(&self) -> bool {
        self.dependents.is_empty()
    }

    /// Takes in a change of an object, and returns the objects to look at. Before it was created and after it was removed
    /// an object has no links.
    pub(super) fn take_in(&mut self, key: &str, old: Option<&Links>, new: Option<&Links>) -> Vec<String> {
        let mut keys = Vec::new();
        let (was, is) = (owners(old), owners(new));
        for (uid, blocks) in &was {
            if is.get(uid) != Some(blocks) {
                self.unlink(uid, key);
                // It may have waited for this object.
                keys.extend(self.waiting.get(*uid).map(|key| String::from(&**key)));
            }
        }
        let name: Arc<str> = key.into();
        let mut is_looked_at = false;
        for (uid, blocks) in &is {
            if was.get(uid) != Some(blocks) {
                self.link(uid, &name, *blocks);
                is_looked_at = true;
            }
        }
        match new {
            Some(new) if new.waits_for_dependents() => {
                if self.waiting.insert(new.uid.as_str().into(), Arc::clone(&name)).is_none() {
                    self.waiting_keys.insert(name);
                    keys.extend(self.dependents(&new.uid));
                    is_looked_at = true;
                }
            }
            Some(new) => {
                self.waits_no_more(&new.uid);
                is_looked_at |= new.waits_for_orphans();
            }
            None => {
                let uid = old.map_or("", |old| old.uid.as_str());
                self.waits_no_more(uid);
                keys.extend(self.dependents(uid));
            }
        }
        keys.extend(is_looked_at.then(|| key.to_owned()));
        keys
    }

    /// The objects that name an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<String> {
        let dependents = self.dependents.get(uid).into_iter();
        dependents.flat_map(Dependents::iter).map(|key| String::from(&**key)).collect()
    }

    /// Returns whether other objects than itself name this owner.
    pub(super) fn has_dependents(&self, uid: &str, itself: &str) -> bool {
        self.dependents.get(uid).is_some_and(|dependents| dependents.iter().any(|key| **key != *itself))
    }

    /// One of the objects other than itself for which the deletion of this owner waits.
    pub(super) fn blocking(&self, uid: &str, itself: &str) -> Option<Arc<str>> {
        self.dependents.get(uid)?.blocking.iter().find(|key| ***key != *itself).cloned()
    }

    /// Returns whether another object than itself names this owner and waits for dependents of its own.
    pub(super) fn is_any_waiting(&self, uid: &str, itself: &str) -> bool {
        let Some(dependents) = self.dependents.get(uid).filter(|_| !self.waiting.is_empty()) else {
            return false;
        };
        dependents.iter().any(|key| **key != *itself && self.waiting_keys.contains(key))
    }

    fn waits_no_more(&mut self, uid: &str) {
        if let Some(key) = self.waiting.remove(uid) {
            self.waiting_keys.remove(&key);
        }
    }

    fn link(&mut self, uid: &str, key: &Arc<str>, blocks: bool) {
        let dependents = self.dependents.entry(uid.into()).or_default();
        dependents.remove(key);
        let set = if blocks { &mut dependents.blocking } else { &mut dependents.others };
        set.insert(Arc::clone(key));
    }

    /// Forgets that an object names this owner.
    pub(super) fn unlink(&mut self, uid: &str, key: &str) {
        let Some(dependents) = self.dependents.get_mut(uid) else { return };
        dependents.remove(key);
        if dependents.blocking.is_empty() && dependents.others.is_empty() {
            self.dependents.remove(uid);
        }
    }
}

/// The uids of the owners, and whether the object blocks their deletion.
fn owners(links: Option<&Links>) -> HashMap<&str, bool> {
    let mut owners = HashMap::new();
    for owner in links.map(Links::owners).unwrap_or_default() {
        *owners.entry(owner.uid.as_str()).or_default() |= owner.blocks();
    }
    owners
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn links(uid: &str, owners: &[(&str, bool)], waits: bool) -> Links {
        let owners: Vec<_> =
            owners.iter().map(|(uid, blocks)| json!({"uid": uid, "blockOwnerDeletion": blocks})).collect();
        let mut links = json!({"uid": uid, "ownerReferences": owners});
        if waits {
            links["finalizers"] = json!(["foregroundDeletion"]);
            links["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }
        serde_json::from_value(links).unwrap()
    }

    fn sorted(mut keys: Vec<String>) -> Vec<String> {
        keys.sort();
        keys.dedup();
        keys
    }

    #[test]
    fn dependents_are_looked_at_when_they_appear_and_when_their_owner_goes() {
        let mut graph = Graph::default();
        let owner = links("o", &[], false);
        assert!(graph.take_in("/o", None, Some(&owner)).is_empty());
        for key in ["/a", "/b"] {
            assert_eq!(graph.take_in(key, None, Some(&links(key, &[("o", false)], false))), [key]);
        }
        let a = links("/a", &[("o", false)], false);
        assert!(graph.take_in("/a", Some(&a), Some(&a)).is_empty(), "no owner has changed");
        assert_eq!(sorted(graph.take_in("/o", Some(&owner), None)), ["/a", "/b"]);
        graph.take_in("/a", Some(&a), None);
        graph.take_in("/b", Some(&links("/b", &[("o", false)], false)), None);
        assert!(graph.is_empty());
    }

    #[test]
    fn an_owner_that_waits_is_looked_at_when_a_dependent_goes_or_ceases_to_block() {
        let mut graph = Graph::default();
        let blocking = |key: &str| links(key, &[("o", true)], false);
        let free = links("/b", &[("o", false)], false);
        graph.take_in("/a", None, Some(&blocking("/a")));
        graph.take_in("/b", None, Some(&blocking("/b")));
        let before = links("o", &[], false);
        let waiting = links("o", &[], true);
        assert_eq!(sorted(graph.take_in("/o", Some(&before), Some(&waiting))), ["/a", "/b", "/o"]);
        assert!(graph.take_in("/o", Some(&waiting), Some(&waiting)).is_empty());
        assert_eq!(graph.take_in("/a", Some(&blocking("/a")), None), ["/o"]);
        assert_eq!(graph.blocking("o", "/o").as_deref(), Some("/b"));
        assert_eq!(sorted(graph.take_in("/b", Some(&blocking("/b")), Some(&free))), ["/b", "/o"]);
        assert_eq!(graph.blocking("o", "/o"), None);
        assert!(graph.has_dependents("o", "/o"));
        graph.take_in("/o", Some(&waiting), None);
        assert!(!graph.is_any_waiting("o", "/o"));
    }

    #[test]
    fn what_is_reported_twice_is_there_once() {
        let mut graph = Graph::default();
        let owned = links("a", &[("o", true), ("o", false)], false);
        graph.take_in("/a", None, Some(&owned));
        graph.take_in("/a", None, Some(&owned));
        assert_eq!(graph.dependents("o"), ["/a"]);
        graph.take_in("/a", None, Some(&links("a", &[("o", false)], false)));
        assert_eq!((graph.dependents("o").len(), graph.blocking("o", "")), (1, None));
    }
}
