//! ResourceQuotas: what the objects of a namespace use of them, and whether one more fits.
//!
//! Pure functions over objects. Nothing here looks up an object, refuses a request or writes a status.

mod amounts;
mod limited;
mod pods;
mod scopes;
mod status;
mod tally;
mod usage;

use portcullis_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::Map;
use crate::fields::Members;
use crate::resource::Resource;
use crate::resources::pods::PODS;
use crate::resources::quantities::quantity;

pub use amounts::Usage;
pub use limited::LimitedResource;
pub(crate) use pods::REQUIRED;
pub use status::is_settled;
use status::with_used;
pub use tally::Tally;
pub use usage::is_measured;

/// A new or changed object that its namespace may have no room for.
#[derive(Clone, Debug)]
pub struct Demand<'a> {
    resource: &'static Resource,
    object: &'a Map,
    old: Option<&'a Map>,
    usage: Usage,
    old_usage: Usage,
}

impl<'a> Demand<'a> {
    /// The demand of a write; none if quotas do not count such writes. `old` is the stored object that is replaced, and `now`
    /// the time in seconds since 1970.
    pub fn of(
        resource: &'static Resource,
        object: &'a Map,
        old: Option<&'a Map>,
        now: i64,
    ) -> Option<Demand<'a>> {
        if !Self::may_be(resource, old.is_some()) {
            return None;
        }
        let usage = usage::of(resource, object, now);
        let old_usage = old.map(|old| usage::of(resource, old, now)).unwrap_or_default();
        Some(Self { resource, object, old, usage, old_usage })
    }

    /// Whether writes of a kind may take anything. Only of some kinds does more count than the number of objects.
    pub fn may_be(resource: &Resource, is_update: bool) -> bool {
        resource.is_namespaced && !usage::is_ignored(resource) && (!is_update || is_measured(resource))
    }

    /// Takes the demand from a quota. Returns the quota with what is used afterwards in its status; nothing if the quota is not
    /// about the object, or is not touched. The status of the quota must be settled ([`is_settled`]).
    ///
    /// # Errors
    /// Why the object must be refused: it does not fit, or does not say how much it needs.
    pub fn take_from(&self, quota: &Map) -> Result<Option<Map>, String> {
        let hard = quota.object("spec").object("hard");
        let name = quota.metadata().text("name");
        let is_tracked = |counted: &&String| usage::is_tracked(self.resource, counted);
        let covers = |object: &Map| scopes::cover(quota, self.resource, object);
        let (is_covered, was_covered) = (covers(self.object), self.old.is_some_and(covers));
        if !(is_covered || was_covered) || !hard.keys().any(|counted| is_tracked(&counted)) {
            return Ok(None);
        }
        // Pods that are there must remain changeable: their finalizers must be removable.
        if is_covered && !was_covered && *self.resource == PODS {
            let required = hard.keys().filter(is_tracked).map(String::as_str);
            pods::requirements_met(self.object, required)
                .map_err(|missing| format!("failed quota: {name}: {missing}"))?;
        }
        let used = quota.object("status").object("used");
        let zero = Quantity::default();
        let mut exceeded = Vec::new();
        let mut after = used.clone();
        for (counted, limit) in hard.iter().filter(|(counted, _)| is_tracked(counted)) {
            let of = |usage: &'_ Usage, counts: bool| match counts {
                true => usage.get(counted).cloned().unwrap_or_default(),
                false => zero.clone(),
            };
            let (needs, needed) = (of(&self.usage, is_covered), of(&self.old_usage, was_covered));
            if needs == needed {
                continue;
            }
            let before = quantity(used, counted).unwrap_or_default();
            let more = needs.minus(&needed);
            let total = before.plus(&more);
            let limit = Quantity::from_json(limit).unwrap_or_default();
            if more > zero && total > limit {
                exceeded.push(Exceeded { counted, requested: more, used: before, limit });
                continue;
            }
            // What was never counted cannot be given back.
            let total = if total.is_negative() { zero.clone() } else { total };
            after.insert(counted.clone(), Value::from(total.to_string()));
        }
        if !exceeded.is_empty() {
            let list = |amount: fn(&Exceeded<'_>) -> String| {
                exceeded.iter().map(amount).collect::<Vec<_>>().join(",")
            };
            return Err(format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                list(|it| format!("{}={}", it.counted, it.requested)),
                list(|it| format!("{}={}", it.counted, it.used)),
                list(|it| format!("{}={}", it.counted, it.limit)),
            ));
        }
        Ok((after != *used).then(|| with_used(quota, after)))
    }
}

/// A limit that an object exceeds.
struct Exceeded<'a> {
    /// The name of what is limited.
    counted: &'a str,
    requested: Quantity,
    used: Quantity,
    limit: Quantity,
}

#[cfg(test)]
mod tests;
