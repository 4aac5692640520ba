//! The labels of namespaces, for the rules that select namespaces by them (BC-30).
//!
//! What is not here is not known, and counts as selected: see [`super::DenyAuthorizer`].

use std::sync::{PoisonError, RwLock};

use hashbrown::HashMap;

use crate::objects::core::Namespace;
use crate::objects::rbac::LabelSelector;

/// Labels, sorted by key, each key once.
type Labels = Box<[(Box<str>, Box<str>)]>;

/// See the module. Shared by any number of readers and a writer.
#[derive(Debug, Default)]
pub struct Namespaces(RwLock<HashMap<Box<str>, Labels>>);

impl Namespaces {
    /// Takes in a namespace that was created or changed.
    pub(crate) fn apply(&self, namespace: &Namespace<'_>) {
        let metadata = &namespace.metadata;
        let mut labels: Vec<(Box<str>, Box<str>)> =
            metadata.labels.0.iter().map(|(key, value)| ((**key).into(), (**value).into())).collect();
        // Of equal keys the last one counts. The order of these is kept by a stable sort.
        labels.reverse();
        labels.sort_by(|(one, _), (other, _)| one.cmp(other));
        labels.dedup_by(|(later, _), (first, _)| later == first);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert((*metadata.name).into(), labels.into());
    }

    /// Forgets a namespace that was deleted.
    pub(crate) fn delete(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Whether a valid selector selects a namespace. None: the namespace is not known. Allocates nothing.
    pub(super) fn selects(&self, selector: &LabelSelector, namespace: &str) -> Option<bool> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let labels = known.get(namespace)?;
        Some(selector.is_met(|key| {
            let place = labels.binary_search_by(|(own, _)| (**own).cmp(key)).ok()?;
            labels.get(place).map(|(_, value)| &**value)
        }))
    }
}
