//! Counts what the objects of a namespace use, for the status of its quotas.

use serde_json::Value;

use super::amounts::Usage;
use super::status::with_used;
use super::{scopes, usage};
use crate::fields::Members;
use crate::resource::Resource;
use crate::{Kinds, Map};

/// What the objects seen so far use of some quotas.
#[derive(Debug)]
pub struct Tally<'a> {
    quotas: Vec<(&'a Map, Usage)>,
}

impl<'a> Tally<'a> {
    /// Nothing was seen yet.
    pub fn new(quotas: impl IntoIterator<Item = &'a Map>) -> Self {
        let nothing_used = |quota: &'a Map| {
            let hard = quota.object("spec").object("hard");
            (quota, hard.keys().map(|counted| (counted.clone(), Default::default())).collect())
        };
        Self { quotas: quotas.into_iter().map(nothing_used).collect() }
    }

    /// The kinds that the quotas count: all of their objects in the namespace must be added.
    pub fn kinds(&self, kinds: &Kinds) -> Vec<&'static Resource> {
        let counted = |row: &&'static Resource| {
            let mut names = self.quotas.iter().flat_map(|(_, used)| used.keys());
            row.is_namespaced && !usage::is_ignored(row) && names.any(|name| usage::is_tracked(row, name))
        };
        kinds.stored().filter(counted).collect()
    }

    /// Adds an object. `now` is the time in seconds since 1970.
    pub fn add(&mut self, resource: &'static Resource, object: &Map, now: i64) {
        let uses = usage::of(resource, object, now);
        self.add_usage(&uses, |quota| scopes::cover(quota, resource, object));
    }

    /// Adds so many objects of a kind of which only the number counts ([`super::is_measured`]).
    pub fn add_number(&mut self, resource: &'static Resource, number: usize) {
        let nothing = Map::new();
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.add_usage(&usage::of_number(resource, number), |quota| scopes::cover(quota, resource, &nothing));
    }

    fn add_usage(&mut self, uses: &Usage, covers: impl Fn(&Map) -> bool) {
        for (quota, used) in self.quotas.iter_mut().filter(|(quota, _)| covers(quota)) {
            debug_assert!(
                used.len() == quota.object("spec").object("hard").len(),
                "one entry for each limit"
            );
            for (counted, amount) in uses {
                if let Some(total) = used.get_mut(counted) {
                    *total = total.plus(amount);
                }
            }
        }
    }

    /// The quotas with what is used in their status, in the order in which they were given.
    pub fn settled(self) -> Vec<Map> {
        let settle = |(quota, used): (&Map, Usage)| {
            let used = used.into_iter().map(|(counted, amount)| (counted, Value::from(amount.to_string())));
            with_used(quota, used.collect())
        };
        self.quotas.into_iter().map(settle).collect()
    }
}
