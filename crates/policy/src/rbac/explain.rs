//! Explains a decision in a few lines: the rule that allows it, or what it would need. All ways, and all that comes near, are in
//! [`audit::explain`](crate::audit::explain), over the same rules (see [`super::near`]).

use std::fmt;

use super::escalation::describe;
use super::index::RbacIndex;
use super::near::{OwnRule, needed};
use crate::factor::Factor;
use crate::request::Attributes;
use crate::rules;

/// How many near misses are shown.
const NEAREST: usize = 5;

impl RbacIndex {
    /// Explains the decision on a request: a rule that allows it, or what it would need and the rules of the user that are
    /// closest to a match.
    pub fn explain(&self, attributes: &Attributes<'_>) -> String {
        if self.is_super_user(attributes.user) {
            return "allowed: the user is the RBAC super-user".to_owned();
        }
        let (mut granted, mut misses) = (None, Vec::new());
        self.each_own(attributes, |own| match own.differs.as_slice() {
            [] if granted.is_none() => granted = Some(format!("allowed by {own}")),
            differs if !differs.is_empty() && is_near(differs) => misses.push(own),
            _ => {}
        });
        granted.unwrap_or_else(|| self.refused(misses, attributes))
    }

    fn refused(&self, mut misses: Vec<OwnRule<'_>>, attributes: &Attributes<'_>) -> String {
        misses.sort_by_key(|own| own.differs.len());
        let mut text = "no rule of the user or of the user's groups allows this".to_owned();
        for own in misses.iter().take(NEAREST) {
            let factors: Vec<&str> = own.differs.iter().map(|factor| factor.as_str()).collect();
            text.push_str(&format!("\nnear miss, other {}: {own}", factors.join(" and ")));
        }
        let own = self.own_bindings(attributes).into_iter().filter(|own| own.is_dangling);
        let mut unresolved: Vec<String> = own.map(|own| own.binding.resolution_error()).collect();
        unresolved.sort_unstable();
        if let Some(errors) = rules::aggregate(&unresolved) {
            text.push_str(&format!("\nnot found: {errors}"));
        }
        text.push_str(&format!("\nneeded: {} by a ", describe(&needed(attributes))));
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        if !namespace.is_empty() {
            text.push_str(&format!("RoleBinding in namespace {namespace} or by a "));
        }
        text + "ClusterRoleBinding"
    }
}

/// A rule that matches neither the group nor the resource, or not the path, is unrelated to the request.
fn is_near(differs: &[Factor]) -> bool {
    let differs_in = |factor| differs.contains(&factor);
    differs.len() <= 2
        && !differs_in(Factor::Path)
        && !(differs_in(Factor::ApiGroup) && differs_in(Factor::Resource))
}

impl fmt::Display for OwnRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { binding, subject, index, rule, .. } = self;
        write!(f, "{}\n  rule {index}: {}", binding.describe(subject), describe(rule))
    }
}
