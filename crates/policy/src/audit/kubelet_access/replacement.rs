//! The smallest rules that can replace `nodes/proxy`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Evidence, Grant, Holder, Report, Use, Way};
use crate::audit::Subject;
use crate::kubelet_api::{ENDPOINTS, Effect, Permission};
use crate::objects::rbac::{PolicyRule, RBAC_GROUP};

/// The rules that are enough for one holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The name of the ClusterRole and its ClusterRoleBinding, unique among the replacements.
    pub name: String,
    /// The subject.
    pub subject: Subject,
    /// The rules; empty if none are needed.
    pub rules: Vec<PolicyRule>,
    /// The basis of the rules.
    pub basis: Basis,
    /// Remarks to read before using the rules.
    pub remarks: Vec<String>,
}

/// The basis of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The granted verbs: a guess.
    Verbs,
    /// The permissions seen in use.
    Evidence,
}

/// Returns the replacement for each holder of a report, in its order.
pub fn replacements(report: &Report, evidence: Option<&Evidence>) -> Vec<Replacement> {
    let mut names = BTreeSet::new();
    report.holders.iter().map(|holder| replacement(holder, evidence, &mut names)).collect()
}

fn replacement(holder: &Holder, evidence: Option<&Evidence>, names: &mut BTreeSet<String>) -> Replacement {
    let mut remarks = Vec::new();
    if holder.grants.iter().any(is_for_everything) {
        remarks.push(
            "a rule in force is for all resources: as long as it is there, other rules change nothing"
                .to_owned(),
        );
    }
    let (uses, basis) = match evidence {
        Some(evidence) => (seen(holder, evidence, &mut remarks), Basis::Evidence),
        None => (guessed(holder, &mut remarks), Basis::Verbs),
    };
    let limit = holder.nodes().unwrap_or_default().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let rules = rules(uses, &limit);
    let name = holder.subject.role_name("kubelet-access", names);
    Replacement { name, subject: holder.subject.clone(), rules, basis, remarks }
}

/// Returns whether the rule is for all resources, not for `nodes/proxy` in particular.
fn is_for_everything(grant: &Grant) -> bool {
    grant.resources.iter().all(|entry| entry == "*")
}

/// The verbs by subresource.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Guesses the use of `get nodes/proxy` as read-only: the subresources that cover only what it grants. The purpose of a
/// rule for everything cannot be guessed.
fn guessed(holder: &Holder, remarks: &mut Vec<String>) -> Uses {
    let made_for_it: Vec<&Grant> = holder.grants.iter().filter(|grant| !is_for_everything(grant)).collect();
    if made_for_it.is_empty() {
        remarks.push("what it is used for cannot be guessed: a log of what was used tells".to_owned());
        return Uses::new();
    }
    if !made_for_it.iter().any(|grant| grant.verbs.iter().any(|verb| verb == "*" || verb == "get")) {
        remarks.push(
            "without get nothing is read: take the grant away, unless commands are to be run".to_owned(),
        );
        return Uses::new();
    }
    remarks.push(
        "a guess from the verbs held: it covers reading, but no container logs. A log of what was used makes it exact"
            .to_owned(),
    );
    let reads =
        ENDPOINTS.iter().filter(|row| row.effect == Effect::Reads && row.permission.fine.contains(&"proxy"));
    let finer = reads.filter_map(|row| row.permission.fine.first().filter(|first| **first != "proxy"));
    finer.map(|subresource| ((*subresource).to_owned(), BTreeSet::from(["get".to_owned()]))).collect()
}

fn seen(holder: &Holder, evidence: &Evidence, remarks: &mut Vec<String>) -> Uses {
    let mut uses = Uses::new();
    let (mut through_server, mut fell_back) = (false, false);
    for seen in evidence.of(&holder.subject) {
        through_server |= seen.way == Way::ApiServer;
        fell_back |= seen.way == Way::Fallback;
        if seen.way != Way::Fallback && may_have(holder, seen) {
            uses.entry(seen.subresource.clone()).or_default().insert(seen.verb.clone());
        }
    }
    if uses.is_empty() {
        remarks.push("nothing was seen in use: take the grant away".to_owned());
    }
    if through_server {
        remarks.push(
            "some requests went through the API server, which asks for nodes/proxy whatever the path: the rules are for \
             requests made to the kubelet itself"
                .to_owned(),
        );
    }
    if fell_back {
        remarks.push(
            "kubelets asked for nodes/proxy after a finer subresource: it is taken for the fallback. What only \
             nodes/proxy grants may hide behind it; a guard's access log tells"
                .to_owned(),
        );
    }
    if uses.contains_key("proxy") {
        remarks.push(
            "nodes/proxy stays: nothing smaller grants what was used, or the reviews do not say what it was"
                .to_owned(),
        );
    }
    uses
}

/// Returns whether the holder could have been allowed this. A check that `nodes/proxy` would grant, but not with this
/// verb, was denied.
fn may_have(holder: &Holder, seen: &Use) -> bool {
    let is_granted_by_proxy = ENDPOINTS.iter().any(|row| {
        let Permission { fine, finer, .. } = row.permission;
        fine.contains(&"proxy") && (fine.contains(&&*seen.subresource) || finer.contains(&&*seen.subresource))
    });
    let verbs = holder.verbs();
    !is_granted_by_proxy || verbs.contains("*") || verbs.contains(&*seen.verb)
}

/// One rule for each set of verbs.
fn rules(uses: Uses, resource_names: &[String]) -> Vec<PolicyRule> {
    let mut by_verbs: BTreeMap<BTreeSet<String>, Vec<String>> = BTreeMap::new();
    for (subresource, mut verbs) in uses {
        if verbs.contains("*") {
            verbs = BTreeSet::from(["*".to_owned()]);
        }
        by_verbs.entry(verbs).or_default().push(format!("nodes/{subresource}"));
    }
    let rule = |(verbs, resources): (BTreeSet<String>, Vec<String>)| PolicyRule {
        verbs: verbs.into_iter().collect(),
        api_groups: vec![String::new()],
        resources,
        resource_names: resource_names.to_owned(),
        ..PolicyRule::default()
    };
    by_verbs.into_iter().map(rule).collect()
}

impl Replacement {
    /// The ClusterRole and the ClusterRoleBinding; empty if no rule is needed.
    pub fn objects(&self) -> Vec<Value> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        let version = format!("{RBAC_GROUP}/v1");
        let subject = self.subject.in_binding();
        let role_ref = json!({"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": self.name});
        let metadata = json!({"name": self.name});
        vec![
            json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": self.rules}),
            json!({
                "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": role_ref,
                "subjects": [subject],
            }),
        ]
    }
}
