//! Resources that objects cannot use without a quota.

use std::collections::HashSet;

use portcullis_apimachinery::quantity::Quantity;

use super::{Demand, scopes, usage};
use crate::Map;
use crate::fields::Members;
use crate::resource::Resource;

/// Objects of a kind that need a quota for what they use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitedResource {
    /// The group of the kind; empty for the core group.
    pub group: String,
    /// The kind, as in paths.
    pub resource: String,
    /// Parts of the names of resources in quotas, such as `requests.cpu`. A resource whose name contains one of them needs a quota.
    pub contains: Vec<String>,
    /// An object in one of these scopes needs a quota with that scope. Expressions of scope selectors. As in Kubernetes they count
    /// for every kind that scopes are about.
    pub scopes: Vec<Map>,
}

impl LimitedResource {
    /// Whether objects of a kind may need a quota by this.
    pub fn is_about(&self, resource: &Resource) -> bool {
        self.names(resource) || (!self.scopes.is_empty() && scopes::exist_for(resource))
    }

    fn names(&self, resource: &Resource) -> bool {
        self.group == resource.group && self.resource == resource.plural
    }
}

impl Demand<'_> {
    /// Checks that what must be limited is limited by some of these quotas of the namespace. A write that uses no more than before
    /// passes.
    ///
    /// # Errors
    /// Why the object must be refused.
    pub fn is_covered<'q>(
        &self,
        limited: &[LimitedResource],
        quotas: impl Iterator<Item = &'q Map> + Clone,
    ) -> Result<(), String> {
        let zero = Quantity::default();
        let is_more =
            |(name, amount): (&String, &Quantity)| amount > self.old_usage.get(name).unwrap_or(&zero);
        if !self.usage.iter().any(is_more) {
            return Ok(());
        }
        let parts: Vec<&String> = limited
            .iter()
            .filter(|limited| limited.names(self.resource))
            .flat_map(|limited| &limited.contains)
            .collect();
        let mut uncovered: Vec<&str> = self
            .usage
            .iter()
            .filter(|(name, amount)| **amount > zero && parts.iter().any(|part| name.contains(part.as_str())))
            .map(|(name, _)| name.as_str())
            .collect();
        if !uncovered.is_empty() {
            let covers = |quota: &&Map| scopes::cover(quota, self.resource, self.object);
            let limits =
                quotas.clone().filter(covers).flat_map(|quota| quota.object("spec").object("hard").keys());
            let limits: HashSet<&str> =
                limits.map(String::as_str).filter(|name| usage::is_tracked(self.resource, name)).collect();
            uncovered.retain(|name| !limits.contains(name));
        }
        if !uncovered.is_empty() {
            return Err(format!("insufficient quota to consume: {}", uncovered.join(",")));
        }
        let mut open: Vec<&Map> = limited
            .iter()
            .flat_map(|limited| &limited.scopes)
            .filter(|scope| scopes::is_selected(self.resource, self.object, scope))
            .collect();
        if !open.is_empty() {
            let named: HashSet<&str> =
                quotas.flat_map(|quota| scopes::matched(quota, self.resource, self.object)).collect();
            open.retain(|scope| !named.contains(scope.text("scopeName")));
        }
        match open.is_empty() {
            true => Ok(()),
            false => {
                let open: Vec<String> = open.into_iter().map(told).collect();
                Err(format!("insufficient quota to match these scopes: [{}]", open.join(" ")))
            }
        }
    }
}

/// A scope in the words of kube-apiserver.
fn told(scope: &Map) -> String {
    let values: Vec<&str> = scope.texts("values").collect();
    format!("{{{} {} [{}]}}", scope.text("scopeName"), scope.text("operator"), values.join(" "))
}
