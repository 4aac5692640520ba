//! Which lines of an ABAC policy file allow a request to its user, and which come near (AU-100, AU-101). Walks all lines; decisions
//! do not use this module.

use serde_json::{Map, Value, json};

use super::{ANY, AbacPolicyFile, Policy};
use crate::factor::{Difference, Factor};
use crate::request::Attributes;

impl AbacPolicyFile {
    /// The lines that allow a request to its user, in the order of the file.
    pub fn allowing<'a>(&'a self, attributes: &'a Attributes<'_>) -> impl Iterator<Item = &'a Policy> {
        self.covering(attributes).filter(|policy| policy.speaks_of(attributes.user).is_ok())
    }

    /// The lines for the user that differ from a request in one factor, in the order of the file.
    pub fn differing(&self, attributes: &Attributes<'_>) -> Vec<(usize, Difference)> {
        let own = self.policies.iter().filter(|policy| policy.speaks_of(attributes.user).is_ok());
        let near = own.filter_map(|policy| match policy.differences(attributes).as_slice() {
            [only] => Some((policy.line, only.clone())),
            _ => None,
        });
        near.collect()
    }
}

impl Policy {
    /// In what the policy differs from a request, whoever makes it.
    fn differences(&self, attributes: &Attributes<'_>) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |factor, has: &[&str], wanted: &str, fits: bool| {
            if !fits {
                let has = has.iter().map(|has| (*has).to_owned()).collect();
                differences.push(Difference::new(factor, has, wanted));
            }
        };
        let is = |policy: &str, request: &str| policy == ANY || policy == request;
        let verb = attributes.verb;
        compare(Factor::Verb, &["get", "list", "watch"], verb, !self.readonly || attributes.is_read_only());
        match &attributes.resource {
            Some(request) => {
                for (factor, has, wanted) in [
                    (Factor::Namespace, self.namespace.as_str(), request.namespace),
                    (Factor::ApiGroup, self.api_group.as_str(), request.group),
                    (Factor::Resource, self.resource.as_str(), request.resource),
                ] {
                    compare(factor, &[has], wanted, is(has, wanted));
                }
            }
            None => {
                let path = self.non_resource_path.as_str();
                compare(Factor::Path, &[path], attributes.path, self.covers_path(attributes.path));
            }
        }
        differences
    }
}

/// The smallest line that allows a request to its user (AB-30 to AB-42), as a document.
pub(crate) fn needed(attributes: &Attributes<'_>) -> Value {
    let user = attributes.user;
    let group = user.groups.first().filter(|_| user.name.is_empty());
    let mut fields = vec![("user", user.name.as_str()), ("group", group.map_or("", String::as_str))];
    match &attributes.resource {
        Some(request) => fields.extend([
            ("namespace", request.namespace),
            ("resource", request.resource),
            ("apiGroup", request.group),
        ]),
        None => fields.push(("nonResourcePath", attributes.path)),
    }
    let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
    let mut spec: Map<String, Value> = given.map(|(field, value)| (field.to_owned(), value.into())).collect();
    if attributes.is_read_only() {
        spec.insert("readonly".to_owned(), true.into());
    }
    json!({"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec})
}
