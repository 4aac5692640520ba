//! The workloads to which pods belong (AU-70).

use hashbrown::HashMap;

use super::pod::{Owner, Template};

/// The number of controllers above a pod that are followed.
const MAX_OWNERS: usize = 8;

/// The controllers of workloads.
pub(in crate::audit) struct Owners<'a>(HashMap<(&'a str, &'a str, &'a str), &'a Owner>);

impl<'a> Owners<'a> {
    pub(in crate::audit) fn new(templates: &'a [Template]) -> Self {
        let templates = templates.iter();
        Self(templates.map(|t| ((t.kind, t.namespace.as_str(), t.name.as_str()), &t.controller)).collect())
    }

    /// The workload at the end of the controllers; none without a controller.
    pub(in crate::audit) fn last<'s>(&self, namespace: &str, controller: &'s Owner) -> Option<&'s Owner>
    where
        'a: 's,
    {
        let mut last = (!controller.is_none()).then_some(controller)?;
        // A chain of owners is short; a circle of them must not be walked forever.
        for _ in 0..MAX_OWNERS {
            match self.0.get(&(last.kind.as_str(), namespace, last.name.as_str())) {
                Some(next) if !next.is_none() => last = next,
                _ => break,
            }
        }
        Some(last)
    }
}
